#!/bin/sh
# Runs every target that `cargo fuzz list` names, SECONDS seconds each (60 where it is not set), with a dictionary and
# seeds from the shared corpus. Ends with an error when one of them crashes; the input is then in fuzz/artifacts.
#
# Needs the nightly compiler and cargo-fuzz (cargo install cargo-fuzz).
set -eu
cd "$(dirname "$0")/.."
# Not the shell's own SECONDS, which counts: bash as sh keeps a value that came from outside.
each=${1:-${FUZZ_SECONDS:-60}}

targets=$(cargo +nightly fuzz list)
[ -n "$targets" ] || { echo "error: no targets" >&2; exit 1; }
echo "seeds: the documents of tests/corpus, lines of tests/conformance, and fuzz/regressions"
for target in $targets; do
    seeds=fuzz/corpus/$target
    mkdir -p "$seeds"
    for file in tests/corpus/*.json fuzz/regressions/"$target"/*; do
        case $file in *.expected.json) continue ;; esac
        # Large ones slow every run down.
        if [ -f "$file" ] && [ "$(wc -c < "$file")" -le 4096 ]; then cp "$file" "$seeds/seed-$(basename "$file")"; fi
    done
    if [ "$target" = not_before ]; then
        grep -hoE '"NotBefore": *"[^"]+"' tests/corpus/*.json | sed -E 's/.*: *"(.*)"/\1/' | sort -u | {
            number=0
            while IFS= read -r time; do
                number=$((number + 1))
                printf '%s' "$time" > "$seeds/seed-time-$number"
            done
        }
    fi
done
cargo +nightly fuzz build
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# fuzz TARGET: what libFuzzer said is in a file, since two run side by side.
fuzz() {
    case $1 in document) longest=4096 ;; not_before) longest=80 ;; snapshot) longest=1500 ;; *) longest=3000 ;; esac
    cargo +nightly fuzz run "$1" -- -max_total_time="$each" -max_len=$longest -dict=fuzz/json.dict -timeout=10 \
        -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 >"$logs/$1" 2>&1 && touch "$logs/$1.passed"
}

failed=
# shellcheck disable=SC2086 # the words are the targets
set -- $targets
while [ $# -gt 0 ]; do
    echo "$1${2:+ and $2}: $each seconds"
    fuzz "$1" &
    if [ $# -gt 1 ]; then fuzz "$2" & fi
    wait
    for target in "$1" ${2:+"$2"}; do
        [ -e "$logs/$target.passed" ] || { cat "$logs/$target"; failed="$failed $target"; }
        grep -h '^stat::number_of_executed_units' "$logs/$target" || true
        shift
    done
done
[ -z "$failed" ] || { echo "error: see above what broke:$failed" >&2; exit 1; }
echo "no crash in: $(echo "$targets" | tr '\n' ' ')"
