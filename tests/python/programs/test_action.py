""".github/actions/replay: its steps, run as GitHub runs them, fail for a client that breaks a rule."""

import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT

import scheduled_events as se

ACTION: "dict[str, Any]" = yaml.safe_load((ROOT / ".github/actions/replay/action.yml").read_text("utf-8"))
WATCHER = '"$RUNNER_TEMP/scheduled-events/bin/scheduled-events" watch --policy sample --until-idle'
CARELESS = "curl --silent --noproxy '*' \"$SCHEDULED_EVENTS_ENDPOINT/metadata/scheduledevents?api-version=2020-07-01\""


def wheel() -> str:
    """The wheel that the tests run with."""
    found = os.environ.get("WHEEL") or next(iter(map(str, (ROOT / "target/python/wheel").glob("*.whl"))), "")
    if not found:
        pytest.skip("the package was not installed from a wheel")
    return found


def act(folder: Path, **inputs: str) -> "tuple[int, str]":
    """Run the steps with these inputs; return the exit code of the last one that ran, and the output."""
    values = {name: value.get("default") for name, value in ACTION["inputs"].items()} | {"package": wheel()} | inputs
    assert None not in values.values(), "an input is required"
    output = ""
    for step in ACTION["runs"]["steps"]:
        env = {
            name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda at: values[at[1]], text)
            for name, text in step["env"].items()
        }
        assert not any("${{" in text for text in [*env.values(), step["run"]])
        (folder / "step").write_text(step["run"])
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(folder / "step")],
            cwd=folder,
            env={**os.environ, **env, "RUNNER_TEMP": str(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        output += done.stdout
        if done.returncode:
            return done.returncode, output
    return 0, output


def test_the_action_passes_a_client_that_keeps_the_rules(tmp_path: Path) -> None:
    code, output = act(tmp_path, command=WATCHER, options="--seed 7 --fault get.status:503@2")
    assert (code, "WestNO_0: clean" in output) == (0, True), output
    assert ElementTree.parse(tmp_path / "scheduled-events.xml").getroot().get("failures") == "0"


def test_the_action_fails_for_a_client_that_breaks_a_rule(tmp_path: Path) -> None:
    code, output = act(tmp_path, command=CARELESS, report="careless.xml")
    assert code == 1, output
    assert "section 1, header" in output
    assert ElementTree.parse(tmp_path / "careless.xml").getroot().get("failures") != "0"


def test_the_action_fails_for_a_package_that_pip_cannot_get(tmp_path: Path) -> None:
    code, output = act(tmp_path, command="true", package=str(tmp_path / "no-such.whl"))
    assert (code, "no-such.whl" in output) == (1, True), output


def test_the_guide_uses_inputs_that_the_action_has() -> None:
    page = (ROOT / "docs/use/testing.md").read_text("utf-8")
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (step,) = yaml.safe_load(block)
    assert "/.github/actions/replay@" in step["uses"]
    assert set(step["with"]) <= set(ACTION["inputs"])
    assert step["with"]["scenario"] in se.scenarios()


def test_the_inputs_have_descriptions() -> None:
    for name, value in ACTION["inputs"].items():
        assert value["description"].endswith("."), name
        assert value.get("required") or "default" in value, name
