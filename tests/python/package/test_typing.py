"""Type checkers find the mistakes in typing/misuse.py, and nothing else there; the stub is what the module has."""

import ast
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import scheduled_events as se
from scheduled_events import _native, _records

MISUSE = Path(__file__).parent / "typing" / "misuse.py"
MISTAKES = [number for number, line in enumerate(MISUSE.read_text("utf-8").splitlines(), 1) if line.endswith("# error")]


def mypy(folder: Path, environment: "dict[str, str]") -> "list[int]":
    command = [sys.executable, "-m", "mypy", "--strict", "--strict-equality", "--cache-dir", str(folder), str(MISUSE)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stdout + done.stderr
    return [int(number) for number in re.findall(r"misuse\.py:(\d+): error", done.stdout)]


def pyright(folder: Path, environment: "dict[str, str]") -> "list[int]":
    command = ["pyright", "--outputjson", "--pythonpath", sys.executable, str(MISUSE)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=300)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return [entry["range"]["start"]["line"] + 1 for entry in found if entry["severity"] == "error"]


@pytest.mark.parametrize("checker", [mypy, pyright], ids=["mypy", "pyright"])
def test_a_type_checker_finds_each_mistake(checker: "type", environment: "dict[str, str]", tmp_path: Path) -> None:
    assert sorted(set(checker(tmp_path, environment))) == MISTAKES


def test_the_stub_names_the_members_that_patterns_match() -> None:
    found = {}
    for owner in ast.parse((Path(se.__path__[0]) / "_native.pyi").read_text("utf-8")).body:
        for line in getattr(owner, "body", ()):
            if isinstance(line, ast.Assign) and ast.unparse(line.targets) == "__match_args__":
                found[owner.name] = ast.literal_eval(line.value)
    assert {"Document", "Event", "Notification", "Request", "Rule"} <= set(found)
    for name, value in vars(se).items():
        members = getattr(value, "__match_args__", ())
        # Those of records and steps are in their source, and test_records compares them.
        if members and not issubclass(value, _records.Frozen):
            assert found.pop(name) == members, name
    assert not found


def test_help_shows_the_docstrings_of_the_stub() -> None:
    def compare(body: "list[ast.stmt]", owner: object, name: str) -> None:
        for item in body:
            if not isinstance(item, (ast.FunctionDef, ast.ClassDef)):
                continue
            found = getattr(owner, item.name, None)
            if text := ast.get_docstring(item):
                compared.append(f"{name}.{item.name}")
                assert inspect.getdoc(found).split() == text.split(), compared[-1]
            if isinstance(item, ast.ClassDef):
                compare(item.body, found, f"{name}.{item.name}")

    compared: list[str] = []
    stub = ast.parse((Path(se.__path__[0]) / "_native.pyi").read_text("utf-8"))
    compare(stub.body, _native, "_native")
    assert len(compared) > 100
