#!/usr/bin/env python3
"""Keeps what fuzzing found between runs: one archive of inputs for each target, fuzz/corpora/TARGET.zip.

fuzz/corpora.py unpack        adds the archives' inputs to fuzz/corpus, where cargo-fuzz looks for them
fuzz/corpora.py pack          unpacks the archives, minimises fuzz/corpus, and writes them again

An archive has the inputs that reach all that the corpus reaches, named by their hash, and at most 300 KB: if they are more, those
that reach no code of their own are left out, the largest first. Packing needs the nightly compiler and cargo-fuzz.
"""

import hashlib
import io
import pathlib
import subprocess
import sys
import tempfile
import zipfile

LIMIT = 300_000  # bytes of an archive
FUZZ = pathlib.Path(__file__).resolve().parent
CORPUS = FUZZ / "corpus"
ARCHIVES = FUZZ / "corpora"


def targets():
    return sorted(path.stem for path in (FUZZ / "fuzz_targets").glob("*.rs"))


def unpack(target):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    if not (ARCHIVES / f"{target}.zip").exists():
        return "a new target"
    with zipfile.ZipFile(ARCHIVES / f"{target}.zip") as archive:
        archive.extractall(folder)
        return f"{len(archive.namelist())} inputs"


def merge(target, *flags):
    """The inputs of the corpus that together reach what all of them reach, the smallest first."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["cargo", "+nightly", "fuzz", "run", target, folder, CORPUS / target, "--", "-set_cover_merge=1", *flags]
        run = subprocess.run(command, cwd=FUZZ, capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"error: {target}: {run.stderr}")
        return sorted((path.read_bytes() for path in pathlib.Path(folder).iterdir()), key=lambda data: (len(data), data))


def pack(target):
    # In a fresh clone there is no other corpus, and elsewhere none of the archive's inputs shall get lost.
    unpack(target)
    # First what reaches all code, then what reaches it more often.
    inputs = merge(target, "-use_counters=0")
    inputs += [data for data in merge(target) if data not in inputs]
    count = len(inputs)
    while len(packed := archive_of(inputs)) > LIMIT:
        inputs = inputs[: len(inputs) * 9 // 10]
    ARCHIVES.mkdir(exist_ok=True)
    (ARCHIVES / f"{target}.zip").write_bytes(packed)
    return f"{len(inputs)} of {count} inputs, {len(packed):,} bytes"


def archive_of(inputs):
    """The bytes of the archive: the same for the same inputs."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for data in inputs:
            archive.writestr(zipfile.ZipInfo(hashlib.sha1(data).hexdigest()), data, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


commands = {"unpack": unpack, "pack": pack}
if len(sys.argv) != 2 or sys.argv[1] not in commands:
    sys.exit(__doc__)
for target in targets():
    print(f"{target}: {commands[sys.argv[1]](target)}", flush=True)
