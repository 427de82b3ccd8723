#!/usr/bin/env python3
"""Checks that each public function, method, type and trait of the published libraries has an example that runs.

rustdoc has a count of its own (--show-coverage), but it leaves out what a private module re-exports, which is most of core.
So this reads rustdoc's JSON, which takes the nightly compiler: tests/setup docs installs it.

The example of a type counts for its variants and fields, and for the methods that it calls; that of a trait for its methods.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CRATES = ["scheduled-events-core", "scheduled-events", "scheduled-events-replay", "scheduled-events-cli"]
# A block of Rust that is compiled and run.
RUNS = re.compile(r"^ *```(?:rust|should_panic)?\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


def examples(item):
    blocks = FENCED.findall(item["docs"] or "")
    return "".join(block[1] for block in map(RUNS.match, blocks) if block)


def public_items(crate, item, path):
    """Yields each public item below this one: its id, its path, where it is, and whether it has an example."""
    kind, inner = next(iter(item["inner"].items()))
    if kind == "module":
        for child in (crate["index"][str(number)] for number in inner["items"]):
            name = child["name"] or child["inner"]["use"]["name"]
            yield from public_items(crate, child, f"{path}::{name}")
    elif kind == "use":
        target = crate["index"].get(str(inner["id"]))
        # What another crate defines has its examples there.
        if target and target["crate_id"] == item["crate_id"]:
            yield from public_items(crate, target, path)
    elif kind in ("function", "struct", "enum", "union", "trait", "macro"):
        example = examples(item)
        yield item["id"], path, item["span"], bool(example)
        implementations = inner.get("impls", []) if kind in ("struct", "enum", "union") else []
        for implementation in (crate["index"][str(number)]["inner"]["impl"] for number in implementations):
            members = [] if implementation["trait"] else implementation["items"]
            for method in (crate["index"][str(number)] for number in members):
                if "function" in method["inner"] and method["visibility"] == "public":
                    is_called = re.search(rf"\b{method['name']}\(", example)
                    yield method["id"], f"{path}::{method['name']}", method["span"], bool(is_called or examples(method))


def main():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "rustdoc"
    failed = False
    for name in CRATES:
        command = f"cargo +nightly rustdoc --quiet --locked --package {name} --lib -- -Z unstable-options --output-format json"
        environment = os.environ | {"CARGO_TARGET_DIR": str(target)}
        subprocess.run(command.split(), cwd=ROOT, env=environment, check=True)
        crate = json.loads((target / f"doc/{name.replace('-', '_')}.json").read_text())
        root = crate["index"][str(crate["root"])]
        # By its id, since some items have two paths.
        items = {number: rest for number, *rest in public_items(crate, root, root["name"])}
        missing = [(path, span) for path, span, has_example in items.values() if not has_example]
        print(f"{name}: {len(items) - len(missing)} of {len(items)} public items have an example that runs")
        for path, span in missing:
            print(f"error: {span['filename']}:{span['begin'][0]}: expected an example that runs for {path}, found none")
        failed = failed or bool(missing) or not items
    sys.exit(failed)


if __name__ == "__main__":
    main()
