"""Compares what a program prints for each document of the shared corpus with the expected contents."""

import json
import pathlib
import subprocess

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "corpus"
NOTIFICATIONS = CORPUS / "notifications"
READ = ("incarnation", "events", "problems", "decisions", "error")


def cases(folder=CORPUS):
    """The names of the cases; fails if a document or its expected file is missing."""
    suffix = ".expected.json"
    expected = {path.name[: -len(suffix)] for path in folder.glob("*" + suffix)}
    documents = {path.stem for path in folder.glob("*.json") if not path.name.endswith(suffix)}
    if not expected or expected != documents:
        raise SystemExit(f"error: the corpus is incomplete: {sorted(expected ^ documents)}")
    return sorted(expected)


def request(case):
    """The input of the program, and the output expected."""
    expected = json.loads((CORPUS / f"{case}.expected.json").read_text("utf-8"))
    body = (CORPUS / f"{case}.json").read_bytes()
    names = [name.encode() for name in expected.get("vm_names", [])]
    underscored = int(expected.get("api_version") == "2017-03-01")
    request_bytes = f"{expected.get('now', '-')} {underscored} {len(names)} {len(body)}\n".encode()
    for name in names:
        request_bytes += f"{len(name)}\n".encode() + name
    return request_bytes + body, {key: expected[key] for key in READ if key in expected}


def notification_request(case):
    """The same for a case of notifications."""
    expected = json.loads((NOTIFICATIONS / f"{case}.expected.json").read_text("utf-8"))
    del expected["about"]
    return (NOTIFICATIONS / f"{case}.json").read_bytes(), expected


def scenarios():
    """The scenarios of sessions: their names and inputs."""
    paths = sorted((CORPUS / "sessions").glob("*.json"))
    return [(path.stem, json.loads(path.read_text("utf-8"))) for path in paths]


def scenario_input(one):
    """The kind of an input, and its text for a program."""
    if "source" in one:
        return "source", ["documents", "notifications", "both"].index(one["source"])
    if "prepared" in one:
        return "prepared", ["ready", "failed", "abandoned"].index(one["prepared"])
    kind = "notify" if "notify" in one else "document"
    return kind, json.dumps(one[kind])


def differences(program, folder=CORPUS, request=request):
    """The number of cases, and the differences. Each case has a process of its own."""
    wrong = []
    names = cases(folder)
    for case in names:
        request_bytes, expected = request(case)
        ran = subprocess.run(program, input=request_bytes, capture_output=True, timeout=60)
        if ran.returncode != 0:
            wrong.append(f"{case}: exit {ran.returncode}: {ran.stderr.decode(errors='replace').strip()}")
        else:
            wrong += differences_of(case, ran.stdout, expected)
    return len(names), wrong


def differences_in_one_process(program):
    """The same of documents that one process reads one after the other."""
    names = cases()
    requests = [request(case) for case in names]
    ran = subprocess.run(program, input=b"".join(text for text, _ in requests), capture_output=True, timeout=600)
    lines = ran.stdout.splitlines()
    wrong = []
    for case, line, (_, expected) in zip(names, lines, requests):
        wrong += differences_of(case, line, expected)
    if ran.returncode != 0 or len(lines) != len(names):
        wrong.append(f"exit {ran.returncode} after {len(lines)} cases: {ran.stderr.decode(errors='replace').strip()}")
    return len(names), wrong


def differences_of(case, line, expected):
    read = json.loads(line)
    return [
        f"{case}: {key}: read {read.get(key)!r}, expected {expected.get(key)!r}"
        for key in sorted(read.keys() | expected.keys())
        if read.get(key) != expected.get(key)
    ]
