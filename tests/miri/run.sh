#!/bin/sh
# Runs core under Miri, which finds undefined behavior, leaks and reads out of bounds: its unit tests, and a whole session
# with the bytes of its snapshot; on this machine's architecture, on a big-endian one and on a 32-bit one. Proptest runs
# few cases, since Miri takes a thousand times as long.
#
# Needs the nightly compiler with miri and rust-src: tests/setup miri installs them.
set -eu
cd "$(dirname "$0")/../.."

export PROPTEST_CASES="${PROPTEST_CASES:-1}"
# Threads make Miri slower, and the targets run side by side already.
export RUST_TEST_THREADS=1
# Proptest reads the time and the environment.
export MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation}"

# Tests over large inputs, and of code without unsafe blocks that take long, show nothing here that they do not show natively.
slow='a_record_needs_exactly_the_length_of_its_line both_paths_read_the_corpus_alike both_paths_read_the_conformance_cases_alike
    both_paths_read_random_documents_alike control_bidirectional_and_invisible_characters_are_unsafe
    each_kind_has_an_example_with_the_listed_members events_of_one_bucket_can_be_removed_in_any_order
    every_record_is_written_as_serde_json_writes_it
    ids_that_share_a_bucket_do_not_with_another_seed invalid_content_is_refused_even_with_a_valid_checksum
    repeated_ids_that_the_document_does_not_omit_are_ignored_and_counted
    the_length_is_exact_and_json_readers_find_the_ids the_unsafe_characters_are_those_of_the_documentation'
skip='--skip duplicate_ids::'
for test in $slow; do
    grep -rqs "fn $test(" core/src || { echo "error: there is no test $test to leave out" >&2; exit 1; }
    skip="$skip --skip $test"
done

targets="$(rustc -vV | sed -n 's/^host: //p') s390x-unknown-linux-gnu i686-unknown-linux-gnu"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
# Side by side, since each keeps one core busy for minutes. Their sysroots are built one after the other.
for target in $targets; do cargo +nightly miri setup --target "$target"; done
for target in $targets; do
    # shellcheck disable=SC2086 # $skip is split into words
    {
        cargo +nightly miri test --locked --package scheduled-events-core --lib --test portable \
            --target "$target" -- $skip >"$logs/$target" 2>&1 && touch "$logs/$target.passed"
    } &
done
wait
failed=
for target in $targets; do
    echo "$target: $PROPTEST_CASES cases of each property; left out, since they take long:$skip"
    cat "$logs/$target"
    [ -e "$logs/$target.passed" ] || failed="$failed $target"
done
[ -z "$failed" ] || { echo "error: Miri found errors on$failed" >&2; exit 1; }
