#!/bin/sh
# Proves that core cannot panic: a program that reaches every public function of it is linked without std and without
# allocator, for two targets and at two levels of optimisation, and no panicking function of Rust's own library is in
# it. Overflow checks are on. The same program is run where it can be, and the search is shown to find what it is for.
#
# Needs the target thumbv7em-none-eabi (rustup target add) and LLVM's nm and objdump (a distribution's, or
# rustup component add llvm-tools).
set -eu
cd "$(dirname "$0")"

host=x86_64-unknown-linux-gnu
bare=thumbv7em-none-eabi
target_dir=${CARGO_TARGET_DIR:-target}

# Whatever ends in a panic is one of these functions of Rust's own library; unwrap_failed and its like among them.
panics='(^|[^a-z_])core::[a-z_:]*(panicking::|_fail(ed)?$|_fail_rt$)'
# What must not be there either: there is no allocator.
allocation='__rust_alloc|__rust_realloc|__rg_alloc|(^|[^a-z_])(malloc|calloc|realloc)$'

tool() {
    sysroot=$(rustc --print sysroot)
    for candidate in "llvm-$1" "$sysroot"/lib/rustlib/*/bin/llvm-"$1" /usr/lib/llvm-*/bin/llvm-"$1"; do
        if command -v "$candidate" >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    echo "error: llvm-$1 was not found: install LLVM's tools, or rustup component add llvm-tools" >&2
    exit 1
}
nm=$(tool nm)
objdump=$(tool objdump)

# build TARGET LEVEL [FEATURE]: links the program, and says where it is.
build() {
    directory=$target_dir/level-$2${3:+-$3}
    CARGO_PROFILE_RELEASE_OPT_LEVEL=$2 cargo build --quiet --release --locked --bin everything --target "$1" \
        --target-dir "$directory" ${3:+--features "$3"} >&2
    echo "$directory/$1/release/everything"
}

symbols() {
    "$nm" --demangle --format=posix "$1" | sed -E 's/ [a-zA-Z?] ?[0-9a-f]* ?[0-9a-f]* *$//' |
        sed -E 's/::h[0-9a-f]{16}$//' | sort -u
}

# callers PROGRAM: the functions that call a panicking one, those that panic themselves left aside.
callers() {
    "$objdump" --disassemble --demangle --no-show-raw-insn "$1" | awk -v panics="$panics" '
        /^[0-9a-f]+ <\$[atd]/ { next }  # marks of ARM where code and data begin
        /^[0-9a-f]+ <.*>:$/ { caller = $0; sub(/^[0-9a-f]+ </, "", caller); sub(/>:$/, "", caller); sub(/::h[0-9a-f]+$/, "", caller); next }
        caller ~ panics { next }
        /<.*>/ {
            callee = $0; sub(/^[^<]*</, "", callee); sub(/>[^>]*$/, "", callee); sub(/\+0x[0-9a-f]+$/, "", callee); sub(/::h[0-9a-f]+$/, "", callee)
            if (callee ~ panics && callee != caller) print caller
        }' | sort -u
}

# search PROGRAM LEVEL: fails, and tells what was found, unless all of it is allowed at this level.
search() {
    found=$(symbols "$1" | grep -E "$panics" || true)
    if [ -z "$found" ]; then
        echo "  no panicking function is in it"
        return 0
    fi
    unexplained=$found
    if [ "$2" = z ]; then
        reaching=$(callers "$1")
        unexplained=$(echo "$reaching" | grep -vxF "$(grep -v '^#' allowed-at-z.txt)" || true)
        # Nothing calls it, and still it is there: not what was allowed.
        if [ -z "$reaching" ]; then unexplained=$found; fi
    fi
    if [ -z "$unexplained" ]; then
        echo "  reached only from what allowed-at-z.txt explains:"
        echo "$reaching" | sed 's/^/    /'
        return 0
    fi
    echo "  panics:"
    echo "$unexplained" | sed 's/^/    /'
    return 1
}

echo "every public function of core is called by src/lib.rs:"
functions=$(sed -nE 's/^ *pub (const )?fn ([a-z0-9_]+).*/\2/p' $(find ../../core/src -name '*.rs') | sort -u)
count=0
for function in $functions; do
    if ! grep -qE "[.:]$function(::<[^>]*>)?\(|[:]$function\)" src/lib.rs; then
        echo "  error: $function is missing" >&2
        exit 1
    fi
    count=$((count + 1))
done
echo "  $count names"
[ "$count" -ge 60 ] || { echo "  error: so few cannot be all" >&2; exit 1; }

status=0
for level in 3 z; do
    for target in $host $bare; do
        echo "$target, opt-level $level:"
        program=$(build $target $level)
        search "$program" $level || status=1
        if symbols "$program" | grep -E "$allocation"; then
            echo "  error: it allocates" >&2
            status=1
        fi
        if [ $target = $host ]; then
            if "$program"; then
                echo "  run: parse, track, decide, approve and a session's life come out right"
            else
                echo "  error: run: what came out is wrong" >&2
                status=1
            fi
        fi
    done
done
[ $status -eq 0 ] || { echo "core can panic, or is wrong" >&2; exit 1; }

echo "with panics put in on purpose:"
for level in 3 z; do
    for target in $host $bare; do
        program=$(build $target $level deliberate-panic)
        if report=$(search "$program" $level); then
            echo "  error: $target, opt-level $level: nothing was found; the search is blind" >&2
            exit 1
        fi
        found=$(symbols "$program")
        for name in panic_bounds_check unwrap_failed panic_fmt; do
            if ! echo "$found" | grep -q "$name"; then
                echo "  error: $target, opt-level $level: $name was not found" >&2
                exit 1
            fi
        done
        echo "  $target, opt-level $level: found"
    done
done
echo "core cannot panic."
