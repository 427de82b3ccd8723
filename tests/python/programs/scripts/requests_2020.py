"""A script with the habits of Microsoft's sample of 2020: it polls with requests until the incarnation changes.

It approves what a user caused and short freezes, and prints the rest. Lines of input choose a round or the end.
"""

import json
import time

import requests

ADDRESS = {
    "url": "http://169.254.169.254/metadata/scheduledevents",
    "headers": {"Metadata": "true"},
    "params": {"api-version": "2020-07-01"},
}


def next_document(seen):
    while True:
        time.sleep(1)
        document = json.loads(requests.get(**ADDRESS).text)
        if document["DocumentIncarnation"] != seen:
            return document


def is_harmless(event):
    seconds = int(event["DurationInSeconds"])
    return event["EventSource"] == "User" or (event["EventType"] == "Freeze" and 0 <= seconds < 9)


seen = "none yet"
while input("1: another document, 2: the end ") == "1":
    document = next_document(seen)
    for event in document["Events"]:
        if event["EventStatus"] != "Started" and is_harmless(event):
            approval = json.dumps({"StartRequests": [{"EventId": event["EventId"]}]})
            print("approved: " + str(requests.post(data=approval, **ADDRESS).status_code))
        else:
            print(event["EventStatus"] + ": " + event["Description"])
    seen = document["DocumentIncarnation"]
    print("document " + str(seen) + " is done")
