"""The profiles of terminate and OS image notifications."""

import json
import pickle
from datetime import timedelta

import pytest

import scheduled_events as se
from scheduled_events.terminate import OsImageNotificationProfile, ProfileError, TerminateNotificationProfile


def test_the_profile_is_that_of_the_rest_api() -> None:
    profile = TerminateNotificationProfile(True, timedelta(minutes=5))
    text = '{"notBeforeTimeout": "PT5M", "enable": true}'
    assert json.dumps(profile.to_dict()) == text
    assert TerminateNotificationProfile.from_dict(json.loads(text)) == profile
    assert pickle.loads(pickle.dumps(profile)) == profile
    off = TerminateNotificationProfile(False)
    assert off.to_dict() == {"enable": False}
    assert TerminateNotificationProfile.from_dict({"notBeforeTimeout": None, "enable": False}) == off
    assert TerminateNotificationProfile.from_dict({"notBeforeTimeout": "PT0H450S", "enable": True}).to_dict() == {
        "notBeforeTimeout": "PT7M30S",
        "enable": True,
    }


def test_the_os_image_profile_has_one_timeout() -> None:
    profile = OsImageNotificationProfile(True)
    assert profile.to_dict() == {"notBeforeTimeout": "PT15M", "enable": True}
    assert OsImageNotificationProfile.from_dict(profile.to_dict()) == profile
    assert OsImageNotificationProfile(False).to_dict() == {"enable": False}
    with pytest.raises(ProfileError) as refused:
        OsImageNotificationProfile.from_dict({"notBeforeTimeout": "PT5M", "enable": True})
    assert refused.value.rule == "exactly-15-minutes"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("PT4M", "at-least-5-minutes"),
        ("PT16M", "at-most-15-minutes"),
        ("10", "iso-8601-duration"),
        ("pt10m", "iso-8601-duration"),
    ],
)
def test_what_azure_refuses_names_the_rule(text: str, rule: str) -> None:
    with pytest.raises(ProfileError) as refused:
        TerminateNotificationProfile.from_dict({"notBeforeTimeout": text, "enable": True})
    assert refused.value.rule == rule
    assert isinstance(refused.value, ValueError)
    assert isinstance(refused.value, se.Error)


@pytest.mark.parametrize(
    "timeout", [timedelta(), timedelta(minutes=-5), timedelta(minutes=16), timedelta.max, timedelta(seconds=300.5)]
)
def test_a_timeout_outside_the_range_is_refused(timeout: timedelta) -> None:
    with pytest.raises(ValueError, match="must"):
        TerminateNotificationProfile(True, timeout)


def test_spot_instances_and_old_versions_are_refused() -> None:
    profile = TerminateNotificationProfile(True)
    profile.check(api_version="2019-03-01")
    with pytest.raises(ProfileError, match="Spot"):
        profile.check(is_spot=True, api_version="2021-07-01")
    with pytest.raises(ProfileError) as refused:
        profile.check(api_version="2018-10-01")
    assert refused.value.rule == "compute-api-version"
