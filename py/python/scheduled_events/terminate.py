"""Terminate notification: the part of a scale set's model that announces deletions.

The profiles are those of the REST API, ``properties.virtualMachineProfile.scheduledEventsProfile``:

>>> from datetime import timedelta
>>> TerminateNotificationProfile(True, timedelta(minutes=10)).to_dict()
{'notBeforeTimeout': 'PT10M', 'enable': True}

What Azure refuses raises a ``ProfileError`` with the name of the rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from . import _native
from ._errors import ArgumentError, ConfigError, ProfileError

__all__ = ["OsImageNotificationProfile", "ProfileError", "TerminateNotificationProfile"]

_FIFTEEN_MINUTES = "PT15M"


@dataclass(frozen=True)
class TerminateNotificationProfile:
    """Whether deletions of instances are announced, and how long they wait: ``terminateNotificationProfile``.

    The time-out has whole seconds, from 5 to 15 minutes; without one, Azure takes 5 minutes.
    """

    enable: bool
    """Whether deletions are announced."""
    not_before_timeout: timedelta | None = None
    """How long a deletion waits for an approval; None for what Azure takes."""

    def __post_init__(self) -> None:
        _check_type(self.enable, bool, "enable")
        if self.not_before_timeout is not None:
            _check_type(self.not_before_timeout, timedelta, "not_before_timeout")
            _format(self.not_before_timeout)

    def check(self, *, is_spot: bool = False, api_version: str) -> None:
        """Raise ``ProfileError`` unless a scale set accepts the profile with this version of the compute API."""
        _native.check_profile(self.enable, is_spot, api_version)

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as JSON has it."""
        profile: dict[str, Any] = {"enable": self.enable}
        if self.not_before_timeout is not None:
            profile = {"notBeforeTimeout": _format(self.not_before_timeout), **profile}
        return profile

    @classmethod
    def from_dict(cls, profile: Mapping[str, Any]) -> TerminateNotificationProfile:
        """Make the profile that JSON has."""
        text = profile.get("notBeforeTimeout")
        timeout = None if text is None else timedelta(seconds=_native.parse_timeout(text))
        return cls(_enable_of(profile), timeout)


@dataclass(frozen=True)
class OsImageNotificationProfile:
    """Whether reimaging and OS upgrades are announced: ``osImageNotificationProfile``. They wait for 15 minutes."""

    enable: bool
    """Whether reimaging and upgrades are announced."""

    def __post_init__(self) -> None:
        _check_type(self.enable, bool, "enable")

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as JSON has it."""
        return {"notBeforeTimeout": _FIFTEEN_MINUTES, "enable": True} if self.enable else {"enable": False}

    @classmethod
    def from_dict(cls, profile: Mapping[str, Any]) -> OsImageNotificationProfile:
        """Make the profile that JSON has."""
        text = profile.get("notBeforeTimeout")
        if text is not None:
            _native.check_os_image_timeout(text)
        return cls(_enable_of(profile))


def _check_type(value: object, kind: type, name: str) -> None:
    if not isinstance(value, kind):
        raise ArgumentError(f"expected {name} as a {kind.__name__}, not {type(value).__name__}")


def _enable_of(profile: Mapping[str, Any]) -> Any:
    if "enable" not in profile:
        raise ConfigError("the profile has no `enable`")
    return profile["enable"]


def _format(timeout: timedelta) -> str:
    seconds, fraction = divmod(timeout, timedelta(seconds=1))
    if fraction:
        raise ConfigError(f"the time-out must have whole seconds, found {timeout}")
    # What no 32-bit number holds is out of range like the numbers at its ends.
    return _native.format_timeout(min(max(seconds, 0), 2**32 - 1))
