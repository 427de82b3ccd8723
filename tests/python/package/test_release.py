"""packaging/check-version and packaging/address: a release has one version and one address, or it is refused."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

FILES = [
    "Cargo.toml",
    "CHANGELOG.md",
    "py/pyproject.toml",
    "packaging/address",
    "packaging/check-version",
    "packaging/kubernetes/chart/Chart.yaml",
    "packaging/container/Containerfile",
    "packaging/container/fleet/Containerfile",
    "packaging/container/hub/Containerfile",
]
ADDRESS = "https://git.example.com/somebody/scheduled-events"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The files of a release, with the section of its version in the changelog."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(
        changelog.read_text("utf-8").replace("## [Unreleased]", f"## [{version()}] - 2026-01-01"), "utf-8"
    )
    return tmp_path


def version() -> str:
    found = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text("utf-8"), re.M)
    assert found
    return found[1]


def run(tree: Path, *command: str) -> "tuple[int, str]":
    ended = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    return ended.returncode, ended.stdout


def check(tree: Path) -> "tuple[int, str]":
    return run(tree, "packaging/check-version", f"v{version()}")


def test_the_copies_of_the_address_are_those_of_cargo_toml() -> None:
    code, output = run(ROOT, "packaging/address")
    assert code == 0, output


def test_a_release_without_an_address_is_refused(tree: Path) -> None:
    for name in FILES:
        text = (tree / name).read_text("utf-8")
        (tree / name).write_text(
            text.replace(run(ROOT, "packaging/address")[1].strip(), "https://example.invalid/x"), "utf-8"
        )
    code, output = check(tree)
    assert (code, "has no address yet" in output) == (1, True), output


def test_the_address_is_set_in_one_place_and_reaches_all(tree: Path) -> None:
    code, output = run(tree, "packaging/address", ADDRESS)
    assert (code, output) == (0, f"{ADDRESS}\n")
    assert check(tree) == (0, f"version {version()} of {ADDRESS}\n")
    for name in [FILES[0], FILES[2], *FILES[5:]]:
        assert ADDRESS in (tree / name).read_text("utf-8"), name
    assert "example.invalid" not in (tree / "Cargo.toml").read_text("utf-8")


@pytest.mark.parametrize("name", [FILES[2], *FILES[5:]])
def test_a_copy_that_differs_is_refused(tree: Path, name: str) -> None:
    run(tree, "packaging/address", ADDRESS)
    text = (tree / name).read_text("utf-8")
    (tree / name).write_text(text.replace(ADDRESS, f"{ADDRESS}2"), "utf-8")
    code, output = check(tree)
    assert (code, name in output) == (1, True), output


def test_another_version_of_the_chart_is_refused(tree: Path) -> None:
    run(tree, "packaging/address", ADDRESS)
    chart = tree / "packaging/kubernetes/chart/Chart.yaml"
    chart.write_text(chart.read_text("utf-8").replace(f'appVersion: "{version()}"', 'appVersion: "9.9.9"'), "utf-8")
    code, output = check(tree)
    assert (code, "Chart.yaml" in output) == (1, True), output


@pytest.mark.parametrize("address", ["", "http://example.com/x", "https://", "https://example.com/a|b", 'https://a"b'])
def test_what_is_no_address_is_refused(tree: Path, address: str) -> None:
    before = (tree / "Cargo.toml").read_text("utf-8")
    assert run(tree, "packaging/address", address)[0] == 2
    assert (tree / "Cargo.toml").read_text("utf-8") == before


def test_every_crate_has_the_address() -> None:
    for manifest in [
        "core",
        "client",
        "client/windows",
        "replay",
        "cli",
        "py",
        "ffi-c",
        "services/fleet",
        "services/hub",
    ]:
        assert "repository.workspace = true" in (ROOT / manifest / "Cargo.toml").read_text("utf-8"), manifest
