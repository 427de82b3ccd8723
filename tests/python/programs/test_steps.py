"""tests/run and packaging/build.sh: what becomes of steps that fail, hang, or cannot run, and what they count."""

import os
import shutil
import subprocess
from pathlib import Path

from conftest import ROOT

STEPS = {
    "counts": ["echo '  NOT RUN the first part: no root'", "echo 'parts: 3 passed, 0 failed, 1 not run'"],
    "fails": ["false"],
    "cannot": ["echo 'no mounts' >target/test-logs/cannot.cannot-run", "false"],
    "limits": ["test $$(ulimit -Sn) -le 1024"],
    "builds": ['test "$$CARGO_TARGET_DIR" = "$(CURDIR)/out"', 'test -z "$$CARGO_BUILD_TARGET"'],
    "hangs": ["setsid sleep 1234 & echo $$! >child; wait"],
}


def test_the_totals_of_steps(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests/run", tmp_path / "tests")
    (tmp_path / "tests/steps").write_text("".join(f"test {step} {step}\n" for step in STEPS))
    (tmp_path / "Makefile").write_text("".join(f"{step}:\n\t@" + "\n\t@".join(STEPS[step]) + "\n" for step in STEPS))
    environment = os.environ | {
        "STEP_MINUTES": "0.15",
        "CARGO_TARGET_DIR": "out",
        "CARGO_BUILD_TARGET": "i686-unknown-linux-gnu",
    }
    # With as many open files as this machine allows.
    command = ["sh", "-c", 'ulimit -Sn "$(ulimit -Hn)"; exec "$0" test', str(tmp_path / "tests/run")]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1, run.stderr
    totals = run.stdout.partition("=== totals of test")[2].splitlines()
    counted = {line.split()[0]: [int(word) for word in line.split()[1:4:2]] for line in totals if " passed  " in line}
    assert counted == {
        "counts": [3, 0],
        "fails": [0, 1],
        "cannot": [0, 0],
        "limits": [1, 0],
        "builds": [1, 0],
        "hangs": [0, 1],
    }
    not_run = [line.removeprefix("NOT RUN  ") for line in totals if line.startswith("NOT RUN")]
    assert not_run == ["cannot: no mounts", "counts: the first part: no root"]
    assert [line.split()[1] for line in totals if line.startswith("FAILED")] == ["fails", "hangs"]
    assert totals[-1] == "5 passed, 2 failed"
    assert "error: the step did not end within 0.15 minutes" in run.stdout
    # Also what left the step's session has ended. A process that nobody has waited for has no program.
    assert not Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/exe").exists()


def test_a_release_fails_without_one_of_its_parts(tmp_path: Path) -> None:
    # Without the archives of the programs there are no images.
    environment = {name: value for name, value in os.environ.items() if name != "AUDITABLE"}
    environment["PACKAGES"] = str(tmp_path)
    for release, code in [({}, 0), ({"AUDITABLE": "1"}, 1)]:
        command = [str(ROOT / "packaging/build.sh"), "images"]
        run = subprocess.run(command, env=environment | release, capture_output=True, text=True, timeout=60)
        assert run.returncode == code, run.stdout + run.stderr
        assert run.stdout.splitlines()[-1] == "1 not built"
