"""Microsoft's samples of 2017 and 2020 as one script, with one import changed: ``json`` is this package.

It works the same with ``import json``. With this package the document is validated strictly, and events without an id
of their own are left out.
"""

import os
import urllib.request
from typing import Any

import scheduled_events as json

metadata_url = os.environ.get("SCHEDULED_EVENTS_ENDPOINT", "http://169.254.169.254") + "/metadata/scheduledevents"
this_host = os.environ.get("THIS_HOST", "WestNO_0")


def request(body: "str | None" = None) -> Any:
    url = metadata_url + "?api-version=2020-07-01"
    req = urllib.request.Request(url, data=body.encode() if body else None, headers={"Metadata": "true"})  # noqa: S310
    return urllib.request.urlopen(req)  # noqa: S310


def get_scheduled_events() -> Any:
    try:
        return json.loads(request().read())
    except json.JSONDecodeError as error:
        print(f"not a document: {error}")
        return {"Events": []}


def confirm_scheduled_event(event_id: str) -> int:
    payload = json.dumps({"StartRequests": [{"EventId": event_id}]})
    status: int = request(payload).status
    return status


def handle_scheduled_events(data: Any) -> None:
    for event in data["Events"]:
        if this_host in event["Resources"]:
            notbefore = event["NotBefore"].replace(" ", "_")
            print(
                "+ Scheduled Event. "
                + this_host
                + " is scheduled for "
                + event["EventType"]
                + " not before "
                + notbefore
            )
        if (event["EventStatus"] == "Scheduled" and event["EventSource"] == "User") or (
            event["EventType"] == "Freeze" and 0 <= int(event["DurationInSeconds"]) < 9
        ):
            print(f"confirmed: {confirm_scheduled_event(event['EventId'])}")
        print(json.dumps(event, indent=2, sort_keys=True))


def main() -> None:
    handle_scheduled_events(get_scheduled_events())


if __name__ == "__main__":
    main()
