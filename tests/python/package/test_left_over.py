"""The check of `conftest.py` that tests leave nothing open."""

import shutil
import subprocess
import sys
from pathlib import Path

from conftest import PATIENCE, ROOT

TESTS = """
import socket
import scheduled_events as se

left = []

def test_leaves_a_server_and_a_socket():
    left.append(se.replay("preempt"))
    left.append(socket.socket())

def test_leaves_nothing():
    with se.replay("preempt"), socket.socket():
        pass
"""


def test_a_server_or_a_socket_that_is_left_fails_the_run(tmp_path: Path) -> None:
    for file in ("conftest.py", "left_over.py"):
        shutil.copy(ROOT / "tests/python" / file, tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", tmp_path]
    for test, status in ("test_leaves_nothing", 0), ("test_leaves_a_server_and_a_socket", 1):
        run = subprocess.run(
            [*command, f"test_it.py::{test}"],
            cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert run.returncode == status, run.stdout
        assert "1 passed" in run.stdout
    assert "the tests have left 3 open: socket " in run.stdout
    assert ", thread replay-" in run.stdout
