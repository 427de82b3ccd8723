#!/bin/sh
# Builds each fuzz target that `cargo fuzz list` names into $OUT, with its corpus and the dictionary: the files that ClusterFuzzLite
# and OSS-Fuzz run. `fuzz/run.sh` uses it, too. Runs in the root of the repository, with a nightly compiler and cargo-fuzz.
set -eu

cargo fuzz build
host=$(rustc -vV | sed -n 's/^host: //p')
for target in $(cargo fuzz list); do
    cp "fuzz/target/$host/release/$target" "$OUT/"
    cp "fuzz/corpora/$target.zip" "$OUT/${target}_seed_corpus.zip"
    cp fuzz/json.dict "$OUT/$target.dict"
done
