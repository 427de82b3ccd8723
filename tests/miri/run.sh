#!/bin/sh
# Core under Miri, which finds what is undefined, leaks, or reads beyond an end: its unit tests, and a session's life with
# the bytes of its snapshot, here, on a big-endian machine and on one of 32 bits. Proptest runs few cases, since Miri
# takes a thousand times as long.
#
# Needs the nightly compiler with miri and rust-src (rustup +nightly component add miri rust-src).
set -eu
cd "$(dirname "$0")/../.."

export PROPTEST_CASES="${PROPTEST_CASES:-2}"
# Proptest reads the time and the environment.
export MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation}"

# What walks over large inputs shows nothing more here than natively.
slow='--skip twelve_hundred --skip a_thousand --skip nothing_but_repeats --skip gone_over_again --skip wherever_they_stand --skip any_order --skip nesting_ends'

targets="$(rustc -vV | sed -n 's/^host: //p') s390x-unknown-linux-gnu i686-unknown-linux-gnu"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
# Side by side, since each keeps one core busy for minutes; but what they link is built one after the other.
for target in $targets; do cargo +nightly miri setup --quiet --target "$target"; done
for target in $targets; do
    # shellcheck disable=SC2086 # the words of $slow are words
    {
        cargo +nightly miri test --quiet --locked --package scheduled-events-core --lib --test portable \
            --target "$target" -- $slow >"$logs/$target" 2>&1 && touch "$logs/$target.passed"
    } &
done
wait
failed=
for target in $targets; do
    echo "$target: $PROPTEST_CASES cases of each property; left out, as it is long: $slow"
    cat "$logs/$target"
    [ -e "$logs/$target.passed" ] || failed="$failed $target"
done
[ -z "$failed" ] || { echo "error: Miri complains on$failed" >&2; exit 1; }
