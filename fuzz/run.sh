#!/bin/sh
# Fuzzes every target that `cargo fuzz list` names: fuzz/run.sh [SECONDS], 60 seconds each by default. Starts with the inputs that
# earlier runs kept, in fuzz/corpora and fuzz/corpus, and with the shared corpus. Fails when a target crashes; the input is then in
# fuzz/artifacts.
#
# Needs the nightly compiler and cargo-fuzz: tests/setup fuzz installs them.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
each=${1:-60}

export RUSTUP_TOOLCHAIN=nightly
targets=$(cargo fuzz list)
[ -n "$targets" ] || { echo "error: \`cargo fuzz list\` names no target" >&2; exit 1; }
fuzz/corpora.py unpack
for target in $targets; do
    for file in tests/corpus/*.json tests/corpus/notifications/*.json fuzz/regressions/"$target"/*; do
        case $file in *.expected.json) continue ;; esac
        # Large seeds slow every run down.
        if [ -f "$file" ] && [ "$(wc -c <"$file")" -le 4096 ]; then cp "$file" "fuzz/corpus/$target/seed-$(basename "$file")"; fi
    done
done
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
# Builds the targets, and shows that the files for OSS-Fuzz can be made.
mkdir "$logs/out"
OUT=$logs/out .clusterfuzzlite/build.sh

# fuzz TARGET: libFuzzer's output goes to a file, since two targets run side by side.
fuzz() {
    case $1 in document) longest=4096 ;; not_before) longest=80 ;; profiles) longest=500 ;; snapshot) longest=1500 ;; *) longest=3000 ;; esac
    cargo fuzz run "$1" -- -max_total_time="$each" -max_len=$longest -dict=fuzz/json.dict -timeout=10 \
        -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 >"$logs/$1" 2>&1 && touch "$logs/$1.passed"
}

failed=
# shellcheck disable=SC2086 # $targets is split into words
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
[ -z "$failed" ] || { echo "error: these targets crashed, see above:$failed" >&2; exit 1; }
echo "no crash in: $(echo "$targets" | tr '\n' ' ')"
