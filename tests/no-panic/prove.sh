#!/bin/sh
# Proves that core cannot panic. A program that calls every public function of core, which a test of tests/layout checks, is
# linked without std and without an allocator, for two targets and at two optimization levels, with overflow checks. Its
# symbols must not include any panicking function of Rust's own library. The program also runs on this machine, and the
# search is checked with a program that does panic.
#
# Needs the target thumbv7em-none-eabi and LLVM's nm and objdump: tests/setup no-panic installs them.
set -eu
export LC_ALL=C
cd "$(dirname "$0")"

host=x86_64-unknown-linux-gnu
bare=thumbv7em-none-eabi
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")/bare

# Every panic goes through one of these functions of Rust's own library, unwrap_failed and similar ones included.
panics='(^|[^a-z_])core::[a-z_:]*(panicking::|_fail(ed)?$|_fail_rt$)'
# Calls of an allocator, which must not be there either.
allocation='__rust_alloc|__rust_realloc|__rg_alloc|(^|[^a-z_])(malloc|calloc|realloc)$'

tool() {
    sysroot=$(rustc --print sysroot)
    for candidate in "llvm-$1" "$sysroot"/lib/rustlib/*/bin/llvm-"$1" /usr/lib/llvm-*/bin/llvm-"$1"; do
        if command -v "$candidate" >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    echo "error: llvm-$1 is missing: install LLVM's tools, or run tests/setup no-panic" >&2
    exit 1
}
nm=$(tool nm)
objdump=$(tool objdump)

# build TARGET LEVEL [FEATURE]: links the program and prints its path.
build() {
    directory=$target_dir/$2${3:+-$3}
    CARGO_PROFILE_BARE_OPT_LEVEL=$2 cargo build --profile bare --locked --package bare --bin everything --target "$1" \
        --target-dir "$directory" ${3:+--features "$3"} >&2
    echo "$directory/$1/bare/everything"
}

symbols() {
    "$nm" --demangle --format=posix "$1" | sed -E 's/ [a-zA-Z?] ?[0-9a-f]* ?[0-9a-f]* *$//' |
        sed -E 's/::h[0-9a-f]{16}$//' | sort -u
}

# callers PROGRAM: the functions that call a panicking one, without the panicking ones themselves.
callers() {
    "$objdump" --disassemble --demangle --no-show-raw-insn "$1" | awk -v panics="$panics" '
        /^[0-9a-f]+ <\$[atd]/ { next }  # mapping symbols of ARM
        /^[0-9a-f]+ <.*>:$/ { caller = $0; sub(/^[0-9a-f]+ </, "", caller); sub(/>:$/, "", caller); sub(/::h[0-9a-f]+$/, "", caller); next }
        caller ~ panics { next }
        /<.*>/ {
            callee = $0; sub(/^[^<]*</, "", callee); sub(/>[^>]*$/, "", callee); sub(/\+0x[0-9a-f]+$/, "", callee); sub(/::h[0-9a-f]+$/, "", callee)
            if (callee ~ panics && callee != caller) print caller
        }' | sort -u
}

# search PROGRAM LEVEL: fails and prints what it found, unless all of it is allowed at this level.
search() {
    found=$(symbols "$1" | grep -E "$panics" || true)
    if [ -z "$found" ]; then
        echo "  contains no panicking function"
        return 0
    fi
    unexplained=$found
    if [ "$2" = z ]; then
        reaching=$(callers "$1")
        unexplained=$(echo "$reaching" | grep -vxF "$(grep -v '^#' allowed-at-z.txt)" || true)
        # A panicking function that nothing calls is not one of those allowed.
        if [ -z "$reaching" ]; then unexplained=$found; fi
    fi
    if [ -z "$unexplained" ]; then
        echo "  panicking functions are called only from those that allowed-at-z.txt explains:"
        echo "$reaching" | sed 's/^/    /'
        return 0
    fi
    echo "  panics:"
    echo "$unexplained" | sed 's/^/    /'
    return 1
}

status=0
for level in 3 z; do
    for target in $host $bare; do
        echo "$target, opt-level $level:"
        program=$(build $target $level)
        search "$program" $level || status=1
        if symbols "$program" | grep -E "$allocation"; then
            echo "  error: these symbols allocate" >&2
            status=1
        fi
        if [ $target = $host ]; then
            if "$program"; then
                echo "  run: parse, track, decide, approve and a whole session give the expected results"
            else
                echo "  error: run: wrong results" >&2
                status=1
            fi
        fi
    done
done
[ $status -eq 0 ] || { echo "error: core can panic, allocates, or gave wrong results" >&2; exit 1; }

echo "with deliberate panics:"
for level in 3 z; do
    for target in $host $bare; do
        program=$(build $target $level deliberate-panic)
        if report=$(search "$program" $level); then
            echo "  error: $target, opt-level $level: the search does not find deliberate panics" >&2
            exit 1
        fi
        found=$(symbols "$program")
        for name in panic_bounds_check unwrap_failed panic_fmt; do
            if ! echo "$found" | grep -q "$name"; then
                echo "  error: $target, opt-level $level: $name is missing" >&2
                exit 1
            fi
        done
        echo "  $target, opt-level $level: found"
    done
done
echo "core cannot panic."
