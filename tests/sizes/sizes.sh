#!/bin/sh
# Measures core: bytes of code and constants in programs without std and allocator (those of ../no-panic), for two targets
# and at two optimization levels; bytes of memory for each event; and bytes of stack for each call, which a test limits.
#
# Needs the target thumbv7em-none-eabi (tests/setup bare-metal) and `size`, GNU's or LLVM's.
set -eu
export LC_ALL=C
cd "$(dirname "$0")"
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")/bare

for size in llvm-size size "$(rustc --print sysroot)"/lib/rustlib/*/bin/llvm-size; do
    if command -v "$size" >/dev/null 2>&1; then break; fi
    size=
done
[ -n "$size" ] || { echo "error: neither llvm-size nor size is installed" >&2; exit 1; }

# sections PROGRAM: bytes of code and bytes of constants.
sections() {
    "$size" -A -d "$1" | awk '
        $1 == ".text" { code += $2 }
        $1 ~ /^\.rodata|^\.data\.rel\.ro/ { constants += $2 }
        END { print code + 0, constants + 0 }'
}

echo "Code and constants in bytes, without those of an empty program:"
printf '  %-28s %5s  %-38s %8s %9s\n' target level program code constants
for target in x86_64-unknown-linux-gnu thumbv7em-none-eabi; do
    for level in z 3; do
        directory=$target_dir/$level
        CARGO_PROFILE_BARE_OPT_LEVEL=$level cargo build --profile bare --locked --package bare --bins --target $target \
            --target-dir "$directory"
        built=$directory/$target/bare
        empty=$(sections "$built/nothing")
        for program in parse approve session; do
            case $program in
                parse) what="parse" ;;
                approve) what="parse, track, decide, approve" ;;
                session) what="session, snapshot and restore" ;;
            esac
            echo "$(sections "$built/$program") $empty" | {
                read -r code constants empty_code empty_constants
                printf '  %-28s %5s  %-38s %8d %9d\n' $target $level "$what" $((code - empty_code)) \
                    $((constants - empty_constants))
            }
        done
    done
done

echo "Memory and stack, x86-64:"
cd ../..
status=0
report=$(cargo test --release --locked --package scheduled-events-core --test stack -- --nocapture \
    --test-threads 1) || status=1
if [ $status -eq 0 ]; then
    echo "$report" | grep -oE '[0-9]+ bytes(:| of stack).*' | sed 's/^/  /'
else
    echo "$report"
fi
exit $status
