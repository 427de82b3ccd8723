#!/usr/bin/env python3
"""Keeps what fuzzing found between runs: one archive of inputs for each target, fuzz/corpora/TARGET.zip.

fuzz/corpora.py unpack        adds the archives' inputs to fuzz/corpus, where cargo-fuzz looks for them
fuzz/corpora.py pack          minimises fuzz/corpus, and writes the archives

An archive has the inputs that reach all that the corpus reaches, named by their hash, and at most 300 KB: if they are more, the
largest are left out. Packing needs the nightly compiler and cargo-fuzz.
"""

import hashlib
import io
import pathlib
import shutil
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
    with zipfile.ZipFile(ARCHIVES / f"{target}.zip") as archive:
        archive.extractall(folder)
        return f"{len(archive.namelist())} inputs"


def pack(target):
    with tempfile.TemporaryDirectory() as folder:
        # With a copy, so that a run that is interrupted loses nothing.
        minimised = pathlib.Path(folder) / target
        shutil.copytree(CORPUS / target, minimised)
        command = ["cargo", "+nightly", "fuzz", "cmin", target, minimised]
        run = subprocess.run(command, cwd=FUZZ, capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"error: {target}: {run.stderr}")
        inputs = sorted((path.read_bytes() for path in minimised.iterdir()), key=lambda data: (len(data), data))
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
