"""A script written for dictionaries, with one import changed: ``json`` is this package now.

What changes for it: a strict reading, and events without an id left out. Nothing else in it had to.
"""

import os
import urllib.request
from typing import Any

import scheduled_events as json

metadata_url = "/metadata/scheduledevents?api-version=2020-07-01"
endpoint = os.environ.get("SCHEDULED_EVENTS_ENDPOINT", "http://169.254.169.254")
this_host = os.environ.get("THIS_HOST", "WestNO_0")


def get_scheduled_events() -> Any:
    req = urllib.request.Request(endpoint + metadata_url)  # noqa: S310 - as it was
    req.add_header("Metadata", "true")
    with urllib.request.urlopen(req) as resp:  # noqa: S310
        return json.loads(resp.read())


def handle_scheduled_events(data: Any) -> None:
    for evt in data["Events"]:
        eventid = evt["EventId"]
        status = evt["EventStatus"]
        resources = evt["Resources"]
        eventtype = evt["EventType"]
        notbefore = evt["NotBefore"].replace(" ", "_")
        if this_host in resources:
            print("+ " + eventid + " " + status + ": " + this_host + " " + eventtype + " not before " + notbefore)


def main() -> None:
    handle_scheduled_events(get_scheduled_events())


if __name__ == "__main__":
    main()
