"""packaging/rollout: what is deployed to Azure is parsed here, and validated where the tool of its maker is at hand.

`make test-packages PARTS=rollout` runs the rest in a booted Debian: cloud-init, the Ansible role, and the commands of
the VM Application.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import hcl2
import pytest
import yaml
from conftest import ROOT
from pycep import BicepParser

import scheduled_events as se

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROLLOUT = ROOT / "packaging/rollout"
COMMANDS = ["install", "update", "remove"]
BICEP = sorted(ROLLOUT.glob("bicep/*.bicep"))


def run(*command: str, folder: Path = ROLLOUT) -> "tuple[int, str]":
    ended = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
    )
    return ended.returncode, ended.stdout


def without_comments(text: str) -> str:
    return re.sub(r"^\s*(#|//).*$", "", text, flags=re.M)


def names(table: "dict[str, Any]") -> "set[str]":
    return {name.strip('"') for name in table if not name.startswith("__")}


def test_terraform_parses_and_uses_what_it_declares() -> None:
    text = (ROLLOUT / "terraform/main.tf").read_text("utf-8")
    parsed = hcl2.loads(text)
    variables = {name for block in parsed["variable"] for name in names(block)}
    resources = {
        (kind, name) for block in parsed["resource"] for kind in names(block) for name in names(block[f'"{kind}"'])
    }
    assert [kind for kind, _ in sorted(resources)] == [
        "azurerm_gallery_application",
        "azurerm_gallery_application_version",
        "azurerm_virtual_machine_gallery_application_assignment",
    ]
    code = without_comments(text)
    assert set(re.findall(r"\bvar\.(\w+)", code)) == variables
    assert set(re.findall(r"\b(azurerm_\w+)\.(\w+)\.\w", code)) <= resources
    files = re.findall(r'file\("\$\{path\.module\}/([^"]+)"\)', code)
    assert sorted(Path(file).name for file in files) == sorted(COMMANDS)
    assert all((ROLLOUT / "terraform" / file).is_file() for file in files)


def test_terraform_validates(tmp_path: Path) -> None:
    if not shutil.which("terraform"):
        pytest.skip("terraform is not installed: parsed by python-hcl2 only")
    shutil.copytree(ROLLOUT, tmp_path / "rollout")
    folder = tmp_path / "rollout/terraform"
    code, output = run("terraform", "fmt", "-check", "-diff", "-no-color", folder=folder)
    assert code == 0, output
    try:
        code, output = run("terraform", "init", "-backend=false", "-input=false", "-no-color", folder=folder)
    except subprocess.TimeoutExpired:
        code = 1
    if code != 0:
        pytest.skip(
            "terraform cannot get the provider azurerm here: formatted by terraform and parsed by python-hcl2 only"
        )
    code, output = run("terraform", "validate", "-no-color", folder=folder)
    assert code == 0, output


@pytest.mark.parametrize("path", BICEP, ids=lambda path: path.name)
def test_bicep_parses_and_uses_what_it_declares(path: Path) -> None:
    text = path.read_text("utf-8")
    parsed = BicepParser().parse(text=text)
    code = without_comments(text)
    for name in [*parsed["parameters"], *parsed.get("variables", {})]:
        # Strings in brackets belong to Azure Policy, and have parameters of their own.
        plain = re.sub(r"'\[.*?\]'(?=\n)", "''", code)
        assert len(re.findall(rf"\b{name}\b", plain)) > 1, f"{name} is not used"
    for file in re.findall(r"(?:loadTextContent\(|^module \w+ )'([^']+)'", code, re.M):
        assert (path.parent / file).is_file(), file
    assert parsed["resources"]


def test_bicep_hands_the_modules_what_they_take() -> None:
    takes = BicepParser().parse(text=(ROLLOUT / "bicep/definition.bicep").read_text("utf-8"))
    gives = BicepParser().parse(text=(ROLLOUT / "bicep/assignment.bicep").read_text("utf-8"))
    module = gives["modules"]["definition"]["config"]
    assert set(module["params"]) == set(takes["parameters"])
    assigned = gives["resources"]["assignment"]["config"]["properties"]["parameters"]
    defined = takes["resources"]["definition"]["config"]["properties"]
    assert set(assigned) == set(defined["parameters"])
    # What the conditions and the template name is a parameter of the one or the other.
    deployment = defined["policyRule"]["then"]["details"]["deployment"]["properties"]
    assert set(deployment["parameters"]) == set(deployment["template"]["parameters"])
    for used in re.findall(r"parameters\(\\*'(\w+)", json.dumps(defined, default=str)):
        assert used in {*defined["parameters"], *deployment["parameters"]}, used


def test_bicep_builds() -> None:
    if not shutil.which("bicep"):
        pytest.skip("the compiler bicep is not installed: parsed by pycep only, and not validated")
    for path in BICEP:
        code, output = run("bicep", "build", "--stdout", str(path))
        assert code == 0, output


def test_the_version_names_the_files_that_the_commands_read() -> None:
    for name, words in {
        "terraform/main.tf": [
            'package_file           = "scheduled-events.deb"',
            'config_file            = "watch.toml"',
        ],
        "bicep/application.bicep": ["packageFileName: 'scheduled-events.deb'", "configFileName: 'watch.toml'"],
    }.items():
        text = (ROLLOUT / name).read_text("utf-8")
        assert all(word in text for word in words), name


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_of_the_vm_application_is_one_that_azure_takes(name: str) -> None:
    path = ROLLOUT / "vm-application" / name
    assert len(path.read_text("utf-8")) <= 4096
    code, output = run("sh", "-n", str(path))
    assert code == 0, output


def test_packer_parses_and_validates() -> None:
    path = ROLLOUT / "packer.pkr.hcl"
    text = path.read_text("utf-8")
    parsed = hcl2.loads(text)
    assert {name for block in parsed["variable"] for name in names(block)} == set(
        re.findall(r"\bvar\.(\w+)", without_comments(text))
    )
    if not shutil.which("packer"):
        pytest.skip("packer is not installed: parsed by python-hcl2 only, and not validated")
    code, output = run("packer", "validate", "-syntax-only", str(path))
    assert code == 0, output


def test_the_user_data_is_fifteen_lines_and_approves_nothing() -> None:
    text = (ROLLOUT / "cloud-init.yaml").read_text("utf-8")
    assert text.startswith("#cloud-config\n")
    assert len([line for line in text.splitlines() if not line.startswith("#")]) <= 15
    user_data = yaml.safe_load(text)
    (file,) = user_data["write_files"]
    assert "rule" not in tomllib.loads(file["content"])
    assert user_data["packages"] == ["scheduled-events"]


def test_the_rules_of_the_roles_stages_are_policies() -> None:
    defaults = yaml.safe_load((ROLLOUT / "ansible/roles/scheduled_events/defaults/main.yml").read_text("utf-8"))
    stages = defaults["scheduled_events_rules"]
    assert list(stages) == ["observe", "approve", "prepare"]
    for stage, rules in stages.items():
        # As the template writes them.
        text = "".join(
            "[[rule]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in sorted(rule.items()))
            for rule in rules
        )
        policy = se.Policy.from_toml(text)
        assert len(tomllib.loads(text).get("rule", [])) == len(rules), (stage, policy)
    assert defaults["scheduled_events_stage"] == "observe"
