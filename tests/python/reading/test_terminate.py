"""The profiles of terminate and OS image notifications."""

import json
import pickle
from datetime import timedelta
from typing import Callable

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


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: TerminateNotificationProfile("yes"), se.ArgumentError),  # type: ignore[arg-type]
        (lambda: TerminateNotificationProfile(True, 600), se.ArgumentError),  # type: ignore[arg-type]
        (lambda: TerminateNotificationProfile(True, timedelta(seconds=300.5)), se.ConfigError),
        (lambda: TerminateNotificationProfile(True).check(api_version=5), se.ArgumentError),  # type: ignore[arg-type]
        (lambda: TerminateNotificationProfile.from_dict({"notBeforeTimeout": "PT5M"}), se.ConfigError),
        (lambda: TerminateNotificationProfile.from_dict({"enable": "true"}), se.ArgumentError),
        (lambda: TerminateNotificationProfile.from_dict({"enable": True, "notBeforeTimeout": 5}), se.ArgumentError),
        (lambda: OsImageNotificationProfile(1), se.ArgumentError),  # type: ignore[arg-type]
        (lambda: OsImageNotificationProfile.from_dict({}), se.ConfigError),
        (lambda: se.spot.Phase.WARM_UP.next("asleep"), se.ConfigError),
    ],
)
def test_values_of_the_wrong_type_are_refused_at_the_call(
    call: "Callable[[], object]", error: "type[se.Error]"
) -> None:
    with pytest.raises(error):
        call()


def test_spot_instances_and_old_versions_are_refused() -> None:
    profile = TerminateNotificationProfile(True)
    profile.check(api_version="2019-03-01")
    with pytest.raises(ProfileError, match="Spot"):
        profile.check(is_spot=True, api_version="2021-07-01")
    with pytest.raises(ProfileError) as refused:
        profile.check(api_version="2018-10-01")
    assert refused.value.rule == "compute-api-version"
