#!/usr/bin/env python3
"""README.md, SECURITY.md and the guide as a package has them, with links that lead somewhere.

    docs.py write FOLDER [PAGE...]    writes them into FOLDER, or only these pages of docs/run, without folders; a link to a file
                                      that is not among them becomes its path in the source
    docs.py examples                  prints the folders of examples that the command's package has, one a line
    docs.py check FOLDER              checks that each link of the Markdown files below FOLDER leads to a file there
"""

import os
import pathlib
import re
import shutil
import sys
from urllib.parse import unquote, urlsplit

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = ["README.md", "SECURITY.md", "docs/README.md", "docs/*/*.*"]
# What the command's package has below `examples`, beside its documents.
EXAMPLES = [
    "examples/agents",
    "examples/gate",
    "examples/node-problem-detector",
    "examples/notify",
    "examples/queue-worker",
    "packaging/prometheus",
    "packaging/rollout",
]
# A block of code, in which nothing is a link, or a link.
CODE_OR_LINK = re.compile(r"^ *```.*?^ *```$|!?\[([^\]]*)\]\(([^)\s]+)\)", re.MULTILINE | re.DOTALL)


def target_of(page, link):
    """The file that a link of a page leads to; None for a link to the page itself or into the network."""
    url = urlsplit(link)
    if url.scheme or url.netloc or not url.path:
        return None
    return pathlib.Path(os.path.normpath(page.parent / unquote(url.path)))


def installed_as(target):
    """Where the command's package has a file or a folder of the source: packaging/build.sh copies them. None if it has not."""
    if target.parent == ROOT / "cli/systemd":
        return f"examples/{target.name}" if target.suffix != ".service" else f"/usr/lib/systemd/system/{target.name}"
    for name in EXAMPLES:
        if target.is_relative_to(ROOT / name):
            return str("examples" / target.relative_to((ROOT / name).parent))
    return None


def write(folder, *pages):
    patterns = [f"docs/run/{page}.md" for page in pages] or FILES
    files = {path for pattern in patterns for path in ROOT.glob(pattern)}
    for path in sorted(files):

        def rewrite(match, page=path):
            text, link = match.groups()
            target = target_of(page, link) if link else None
            if target is None or target in files:
                return match[0]  # The pages that are written alone are beside each other in the source, too.
            if not pages and (installed := installed_as(target)):
                named = text.strip("`") in (installed, target.name, str(target.relative_to(ROOT)))
                return f"`{installed}`" if named else f"{text} (`{installed}`)"
            name = f"`{target.relative_to(ROOT)}`"
            return f"{name} of the source" if text.strip("`") in name else f"{text} ({name} of the source)"

        copy = folder / (path.name if pages else path.relative_to(ROOT))
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            copy.write_text(CODE_OR_LINK.sub(rewrite, path.read_text("utf-8")), "utf-8")
        else:
            shutil.copyfile(path, copy)


def check(folder):
    links = [
        (page, match[2])
        for page in sorted(folder.rglob("*.md"))
        for match in CODE_OR_LINK.finditer(page.read_text("utf-8"))
        if match[2] and target_of(page, match[2])
    ]
    broken = [f"{page.relative_to(folder)}: {link} leads nowhere" for page, link in links if not target_of(page, link).exists()]
    print(*broken, f"{len(links)} links, {len(broken)} lead nowhere", sep="\n")
    sys.exit(1 if broken or not links else 0)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", folder, *pages]:
            write(pathlib.Path(folder).resolve(), *pages)
        case ["examples"]:
            print(*EXAMPLES, sep="\n")
        case ["check", folder]:
            check(pathlib.Path(folder).resolve())
        case _:
            sys.exit(__doc__)
