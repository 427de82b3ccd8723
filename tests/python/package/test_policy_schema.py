"""docs/use/policy.schema.json: a validator accepts the policies that the program accepts, and no other ones."""

import json
import re
import sys
from typing import Any

import jsonschema
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

import scheduled_events as se

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCHEMA = json.loads((ROOT / "docs/use/policy.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
# It refers to the other one, which validators look for in the same folder.
WATCH_SCHEMA = (ROOT / "docs/use/watch.schema.json").read_text("utf-8").replace("policy.schema.json#", "#/policy")
EMBEDDED = json.loads(json.dumps(SCHEMA).replace('"#/', '"#/policy/'))
WATCH = jsonschema.Draft7Validator({**json.loads(WATCH_SCHEMA), "policy": EMBEDDED})


def is_accepted(text: str) -> bool:
    try:
        se.Policy.from_toml(text)
    except se.PolicyError:
        return False
    return True


def policies() -> "list[tuple[str, str]]":
    """The policies of the guide and of the packages."""
    pages = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
    found = [("system", (ROOT / "packaging/system/policy.toml").read_text("utf-8"))]
    for page in pages:
        blocks = re.findall(r"^```toml\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
        found += [(f"{page.name} {number}", text) for number, text in enumerate(blocks) if "[[rule]]" in text]
    assert len(found) > 8
    return found


REFUSED = [
    "rule = 3",
    "rules = []",
    "[[rule]]",
    '[[rule]]\nscope = "mine"',
    '[[rule]]\naction = "aprove"',
    '[[rule]]\naction = "Approve"',
    '[[rule]]\naction = ["approve"]',
    '[[rule]]\nevents = ["Freeze"]\naction = "hold"',
    '[[rule]]\nevent = []\naction = "hold"',
    '[[rule]]\nevent = "freeze"\naction = "hold"',
    '[[rule]]\nevent = ["Freeze", "reboot"]\naction = "hold"',
    '[[rule]]\nsource = "USER"\naction = "hold"',
    '[[rule]]\nscope = "all"\naction = "hold"',
    '[[rule]]\nmax_duration = "8 parsecs"\naction = "hold"',
    '[[rule]]\nmax_duration = "500ms"\naction = "hold"',
    '[[rule]]\nmax_duration = -1\naction = "hold"',
    '[[rule]]\nmax_duration = 1.5\naction = "hold"',
    '[[rule]]\nmax_duration = 4294967296\naction = "hold"',
    '[[rule]]\nprepare_before = "20m"\naction = "hold"',
    '[[rule]]\nprepare_before = 60\naction = "ignore"',
    'leader = "first"',
    'leader = { take_over_after = "3s" }',
    'leader = { mode = "everyone", take_over_after = "3s" }',
    'leader = { mode = "rank", after = "3s" }',
    '[[rule]]\naction = "hold"\n' * 33,
]


def test_the_schema_is_one() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(("name", "text"), policies())
def test_the_policies_of_the_guide_are_valid(name: str, text: str) -> None:
    content = tomllib.loads(text)
    WATCH.validate(content)
    # The configuration of a watcher has other keys, too, which cli/tests/suite/guide reads.
    if content.keys() <= {"rule", "leader"}:
        assert is_accepted(text), name
        VALIDATOR.validate(content)


@pytest.mark.parametrize("text", REFUSED)
def test_what_the_program_refuses_is_not_valid(text: str) -> None:
    assert not is_accepted(text)
    assert not VALIDATOR.is_valid(tomllib.loads(text))


DURATIONS = st.sampled_from(
    ["8s", "1min 30s", "2 hours", "5", "s", "", "-1s", "1.5s", "3w", 0, 7, -1, 2**32 - 1, 2**32, True, "8 S"]
)
WORDS = st.sampled_from(
    ["Freeze", "Reboot", "Other", "freeze", "User", "Platform", "user", "mine", "any", "all", "approve", "hold"]
)
RULES = st.fixed_dictionaries(
    {"action": st.sampled_from(["approve", "prepare", "hold", "ignore", "allow"])},
    optional={
        "event": WORDS | st.lists(WORDS, max_size=2),
        "source": WORDS | st.lists(WORDS, max_size=2),
        "scope": WORDS,
        **dict.fromkeys(("min_duration", "max_notice", "prepare_before"), DURATIONS),
    },
)
LEADERS = st.sampled_from(["rank", "everyone", "first-resource", "none"]) | st.fixed_dictionaries(
    {}, optional={"mode": st.sampled_from(["rank", "everyone", "x"]), "take_over_after": DURATIONS}
)


def written(policy: "dict[str, Any]") -> str:
    """The policy as TOML."""

    def value(item: Any) -> str:
        if isinstance(item, dict):
            return "{" + ", ".join(f"{name} = {value(part)}" for name, part in item.items()) + "}"
        return json.dumps(item)

    leader = f"leader = {value(policy['leader'])}\n" if "leader" in policy else ""
    rules = ["".join(f"{name} = {value(item)}\n" for name, item in rule.items()) for rule in policy["rule"]]
    return leader + "".join(f"[[rule]]\n{rule}" for rule in rules)


@given(st.fixed_dictionaries({"rule": st.lists(RULES, max_size=2)}, optional={"leader": LEADERS}))
@settings(max_examples=500, deadline=None)
def test_the_schema_and_the_program_agree(policy: "dict[str, Any]") -> None:
    text = written(policy)
    assert VALIDATOR.is_valid(tomllib.loads(text)) == is_accepted(text), text
