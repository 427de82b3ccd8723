"""The shared corpus, read through a program: its output must equal the expected reading."""

import json
import pathlib
import subprocess

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "corpus"
READ = ("incarnation", "events", "problems", "decisions", "error")


def cases():
    """Names of the cases; fails where a file lacks its partner, or where there is none."""
    suffix = ".expected.json"
    expected = {path.name[: -len(suffix)] for path in CORPUS.glob("*" + suffix)}
    documents = {path.stem for path in CORPUS.glob("*.json") if not path.name.endswith(suffix)}
    if not expected or expected != documents:
        raise SystemExit(f"error: the corpus is not whole: {sorted(expected ^ documents)}")
    return sorted(expected)


def request(case):
    """What the program reads, and what it is to print."""
    expected = json.loads((CORPUS / f"{case}.expected.json").read_text("utf-8"))
    body = (CORPUS / f"{case}.json").read_bytes()
    names = [name.encode() for name in expected.get("vm_names", [])]
    underscored = int(expected.get("api_version") == "2017-03-01")
    asked = f"{expected.get('now', '-')} {underscored} {len(names)} {len(body)}\n".encode()
    for name in names:
        asked += f"{len(name)}\n".encode() + name
    return asked + body, {key: expected[key] for key in READ if key in expected}


def differences(program):
    """How many cases there are, and what each that differs reads as."""
    wrong = []
    names = cases()
    for case in names:
        asked, expected = request(case)
        ran = subprocess.run(program, input=asked, capture_output=True, timeout=60)
        if ran.returncode != 0:
            wrong.append(f"{case}: exit {ran.returncode}: {ran.stderr.decode(errors='replace').strip()}")
            continue
        read = json.loads(ran.stdout)
        wrong += [
            f"{case}: {key}: read {read.get(key)!r}, expected {expected.get(key)!r}"
            for key in sorted(read.keys() | expected.keys())
            if read.get(key) != expected.get(key)
        ]
    return len(names), wrong
