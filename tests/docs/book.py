#!/usr/bin/env python3
"""What mdBook does not do for the guide: links to other files of the repository, and a check of all links.

    book.py supports RENDERER    mdBook asks whether this preprocessor serves a renderer
    book.py                      the preprocessor: links that lead out of docs/ lead to copies below files/
    book.py finish BOOK          copies these files into the book, and checks that each link leads somewhere
"""

import html
import json
import os
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
COPIES = "files"
LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def outside(page: Path, target: str) -> "Path | None":
    """The file of the repository outside docs/ that a link of a page leads to."""
    url = urlsplit(target)
    if url.scheme or url.netloc or not url.path:
        return None
    file = Path(os.path.normpath(page.parent / unquote(url.path)))
    return file if file.is_relative_to(ROOT) and not file.is_relative_to(DOCS) else None


def copy_of(file: Path) -> Path:
    """Where the copy of a file is in the book. mdBook takes a name with `.md` for one of its pages."""
    path = COPIES / file.relative_to(ROOT)
    if file.is_dir():
        return path / "index.html"
    name = path.name.removesuffix(".md")
    return path if path.suffix in {".html", ".svg"} else path.with_name(name + ".txt")


def rewrite(page: Path, text: str) -> str:
    """A page whose links out of docs/ lead to the copies."""
    base = os.path.relpath(DOCS, page.parent)

    def replace(link: "re.Match[str]") -> str:
        file = outside(page, link[2])
        return f"{link[1]}{os.path.normpath(Path(base) / copy_of(file))}{link[3]}" if file else link[0]

    parts = re.split(r"(^ *```.*?^ *```$)", text, flags=re.M | re.S)
    return "".join(part if number % 2 else LINK.sub(replace, part) for number, part in enumerate(parts))


def preprocess() -> None:
    _context, book = json.load(sys.stdin)

    def visit(items: "list[object]") -> None:
        for item in items:
            if isinstance(item, dict) and isinstance(chapter := item.get("Chapter"), dict):
                if chapter["source_path"]:
                    chapter["content"] = rewrite(DOCS / chapter["source_path"], chapter["content"])
                visit(chapter["sub_items"])

    visit(book["items"])
    json.dump(book, sys.stdout)


class Page(HTMLParser):
    """The anchors and the links of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids: "set[str]" = set()
        self.links: "list[str]" = []
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attributes: "list[tuple[str, str | None]]") -> None:
        values = dict(attributes)
        self.ids |= {name for name in (values.get("id"), values.get("name") if tag == "a" else None) if name}
        if tag in {"a", "img"}:
            self.links += [link for link in (values.get("href"), values.get("src")) if link]


def copy(book: Path, path: Path) -> None:
    """Copies the file that belongs to a path below files/, or writes the list of a folder."""
    copied, original = book / COPIES / path, ROOT / path
    copied.parent.mkdir(parents=True, exist_ok=True)
    if path.name == "index.html" and not original.exists():
        names = sorted(entry.name for entry in original.parent.iterdir() if not entry.name.startswith((".", "__")))
        entries = [original.parent / name for name in names]
        links = [(entry.name, copy_of(entry).relative_to(COPIES / path.parent)) for entry in entries]
        for _, link in links:
            copy(book, path.parent / link)
        items = "".join(f'<li><a href="{html.escape(str(link))}">{html.escape(name)}</a>' for name, link in links)
        copied.write_text(f"<!doctype html><meta charset=utf-8><title>{path.parent}</title><h1>{path.parent}</h1><ul>{items}</ul>\n")
    else:
        candidates = [original, original.with_suffix(""), original.with_suffix(".md")]
        shutil.copyfile(next((file for file in candidates if file.is_file()), original), copied)


def finish(book: Path) -> None:
    pages = {file: Page(file) for file in sorted(book.rglob("*.html")) if COPIES not in file.relative_to(book).parts}
    errors, checked = [], 0
    for file, page in pages.items():
        for link in page.links:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            checked += 1
            target = Path(os.path.normpath(file.parent / unquote(url.path))) if url.path else file
            target = target / "index.html" if target.is_dir() else target
            if target.is_relative_to(book / COPIES) and not target.exists():
                try:
                    copy(book, target.relative_to(book / COPIES))
                except OSError as error:
                    errors.append(f"{file.relative_to(book)}: {link}: {error}")
                    continue
            if not target.is_file():
                errors.append(f"{file.relative_to(book)}: the link to {link} leads nowhere")
            elif url.fragment and target in pages and unquote(url.fragment) not in pages[target].ids:
                errors.append(f"{file.relative_to(book)}: {link} has no such anchor")
    print(*errors, sep="\n", end="\n" if errors else "")
    print(f"{len(pages)} pages, {checked} links checked, {len(errors)} lead nowhere: {book}")
    sys.exit(1 if errors or not checked else 0)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["supports", renderer]:
            sys.exit(renderer != "html")
        case []:
            preprocess()
        case ["finish", book]:
            finish(Path(book).resolve())
        case _:
            sys.exit(__doc__)
