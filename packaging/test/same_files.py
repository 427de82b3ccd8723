#!/usr/bin/env python3
"""Compares the files of an .rpm with those of the .deb: same_files.py NAME LIST RPM-ROOT DEB-ROOT

Paths, modes, owners and contents are equal, but for what the two families want otherwise, which is named below. LIST has the
paths of the .rpm. Prints each difference, and fails if there is one.
"""

import gzip
import os
import pathlib
import sys


def name_in_rpm(path, name):
    """The path of the .rpm for a path of the .deb; None if only a .deb has it."""
    doc = f"usr/share/doc/{name}"
    if path in (f"{doc}/copyright", f"{doc}/changelog.Debian.gz", f"usr/share/lintian/overrides/{name}"):
        return None
    if path == f"{doc}/changelog.gz":
        return f"{doc}/CHANGELOG.md"
    if path.startswith("usr/share/man/"):
        return path.removesuffix(".gz")  # Its build policy, not the package's, compresses there.
    return path.replace("usr/share/zsh/vendor-completions/", "usr/share/zsh/site-functions/")


def described(path):
    """Mode, owner and contents, unpacked."""
    status = path.lstat()
    if path.is_symlink():
        contents = os.readlink(path).encode()
    else:
        contents = path.read_bytes()
    if path.suffix == ".gz":
        contents = gzip.decompress(contents)
    return {"mode": oct(status.st_mode), "owner": (status.st_uid, status.st_gid), "contents": contents}


def main(name, listed, rpm_root, deb_root):
    differences = []
    rpm_root, deb_root = pathlib.Path(rpm_root), pathlib.Path(deb_root)
    in_rpm = {line.lstrip("/") for line in pathlib.Path(listed).read_text().splitlines()}
    # A .deb has the licences in its copyright file.
    licences = {f"usr/share/licenses/{name}/{licence}" for licence in ("LICENSE-APACHE", "LICENSE-MIT")}
    differences += [f"the .rpm lacks it: {path}" for path in sorted(licences - in_rpm)]
    in_rpm -= licences
    compared = 0
    for folder, _, files in os.walk(deb_root):
        for file in files:
            path = pathlib.Path(folder, file)
            other = name_in_rpm(str(path.relative_to(deb_root)), name)
            if other is None:
                continue
            if other not in in_rpm:
                differences.append(f"only the .deb has it: {other}")
                continue
            in_rpm.remove(other)
            of_deb, of_rpm = described(path), described(rpm_root / other)
            for what, found in of_rpm.items():
                if found != of_deb[what]:
                    values = "" if what == "contents" else f": {found} in the .rpm, {of_deb[what]} in the .deb"
                    differences.append(f"another {what}: {other}{values}")
            compared += 1
    differences += [f"only the .rpm has it: {path}" for path in sorted(in_rpm)]
    print("\n".join(differences) or f"{compared} files are the same")
    return 1 if differences or not compared else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
