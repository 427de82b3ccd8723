"""Other people's programs, unchanged and moved onto the package: Microsoft's samples.

None of them is a part of this repository. The scripts in ``scripts/`` use the service as the samples do. The samples
themselves run, too, where a copy of Microsoft's pages is beside the repository. test_azure_events_az.py has
Pacemaker's agent.
"""

import re
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import ROOT

import scheduled_events as se

STAND_INS = Path(__file__).parent / "stand_ins"
SCRIPTS = Path(__file__).parent / "scripts"
HOST = socket.gethostname()


def references() -> "Path | None":
    """The folder with copies of Microsoft's pages, if there is one beside the repository."""
    beside = [parent / "shared" / "references" for parent in ROOT.parents]
    return next((folder for folder in beside if folder.is_dir()), None)


def original(version: str) -> str:
    """Microsoft's Python sample of this version of the page, as Python 3."""
    folder = references()
    assert folder is not None
    page = (folder / f"scheduled-events-linux-{version}.txt").read_text("utf-8")
    start = page.index("#!/usr/bin/python")
    start = page.rindex("\n", 0, start) + 1
    indented = page[start:]
    script = textwrap.dedent(indented[: re.search(r"^ *(?:sys\.exit\(0\)|main\(\))\n(?! *sys)", indented, re.M).end()])  # type: ignore[union-attr]
    script = script.replace("import urllib2", "import urllib.request as urllib2")
    return re.sub(r"^( *)print (\".*)$", r"\1print(\2)", script, flags=re.M)


def run(script: str, url: str, environment: "dict[str, str]") -> "subprocess.CompletedProcess[str]":
    environment = {**environment, "PYTHONPATH": str(STAND_INS / "imds"), "REPLAY": url}
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, input="1\n1\n2\n", timeout=120
    )


# Each script, what it prints, and how many events it approves.
SAMPLES = [
    ("urllib_2017.py", [": Scheduled Reboot of a VirtualMachine", f"{HOST} may go from T"], 0),
    (
        "requests_2020.py",
        ["approved: 200", "Started: Virtual machine is going to be restarted", "document 3 is done"],
        1,
    ),
]
ORIGINALS = [
    ("2017-08-01", [f"{HOST} is scheduled for Reboot not before"], 0),
    ("2020-07-01", ["Virtual machine is going to be restarted", "Processed events from document: 3"], 1),
]


@pytest.mark.parametrize(("name", "expected", "approvals"), SAMPLES + (ORIGINALS if references() else []))
def test_microsoft_s_samples_do_the_same_with_the_import_changed(
    name: str, expected: "list[str]", approvals: int, environment: "dict[str, str]"
) -> None:
    unchanged = (SCRIPTS / name).read_text("utf-8") if name.endswith(".py") else original(name)
    changed = unchanged.replace("import json", "import scheduled_events as json")
    assert changed != unchanged
    found = []
    for script in (unchanged, changed):
        server = se.replay("user-reboot", speed=10, seed=1, vm_name=HOST)
        with server as url, se.Client(url) as client:
            while not client.poll().events:
                pass
            done = run(script, url, environment)
            posts = [request["body"] for request in server.requests() if request["method"] == "POST"]
        printed = re.sub(r"\d\d:\d\d:\d\d|(?<=_)\d\d_\w+_\d{4}|\w\w\w,", "T", done.stdout)
        found.append((done.returncode, printed, posts, done.stderr[-300:]))
    assert found[0] == found[1]
    code, printed, posts, errors = found[0]
    assert (code, errors) == (0, "")
    assert [text for text in expected if text not in printed] == []
    assert len(posts) == approvals
