#!/usr/bin/env python3
"""Prints the licence texts of all crates that are compiled into a package: packaging/licenses.py PACKAGE TARGET

A text that several crates share is printed once, below the names of all of them. A crate without a text is an error, unless its licence is Apache-2.0,
or MIT and its source begins with the copyright: then the text is known.
"""

import json
import pathlib
import subprocess
import sys

def compiled(package, target):
    """The names and versions of the crates of other authors in the program, without those that only build it."""
    tree = subprocess.check_output(
        ["cargo", "tree", "--locked", "--package", package, "--target", target, "--edges", "normal,no-proc-macro",
         "--prefix", "none", "--format", "{p}"], text=True)  # fmt: skip
    lines = {tuple(line.split()[:2]) for line in tree.splitlines() if line and "(/" not in line}
    return {(name, version.removeprefix("v")) for name, version in lines}


def known_text(crate):
    """The licence's text where the archive has none, and it is the same for everybody; else None."""
    root = pathlib.Path(__file__).parent.parent
    if "Apache-2.0" in (crate["license"] or ""):
        return (root / "LICENSE-APACHE").read_text(encoding="utf-8")
    source = pathlib.Path(crate["manifest_path"]).parent / "src/lib.rs"
    copyright = source.read_text(encoding="utf-8").partition("\n")[0].removeprefix("// ") if source.exists() else ""
    if crate["license"] == "MIT" and copyright.startswith("Copyright (c) "):
        permission = (root / "LICENSE-MIT").read_text(encoding="utf-8")
        return f"{copyright}\n\n{permission[permission.index('Permission is') :]}"
    return None


def main():
    package, target = sys.argv[1:]
    wanted = compiled(package, target)
    metadata = ["cargo", "metadata", "--locked", "--format-version", "1"]
    metadata = json.loads(subprocess.check_output(metadata))
    texts, lacking = {}, []
    for crate in metadata["packages"]:
        if (crate["name"], crate["version"]) not in wanted:
            continue
        folder = pathlib.Path(crate["manifest_path"]).parent
        files = [path for path in sorted(folder.iterdir())
                 if path.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE")) and path.is_file()]
        name = f"{crate['name']} {crate['version']} ({crate['license']})"
        found = [path.read_text(encoding="utf-8", errors="replace") for path in files] or [known_text(crate)]
        if found == [None]:
            lacking.append(name)
            continue
        for text in found:
            texts.setdefault(text.strip().replace("\r\n", "\n"), []).append(name)
    if lacking:
        sys.exit(f"error: no licence text in the archives of: {', '.join(lacking)}")
    for text, crates in texts.items():
        print("=" * 78, *dict.fromkeys(crates), "", text, "", sep="\n")


if __name__ == "__main__":
    main()
