"""A script with the habits of Microsoft's sample of 2017: one poll with urllib, members by name, NotBefore as text."""

import json
import socket
import urllib.request

URL = "http://169.254.169.254/metadata/scheduledevents?api-version=2017-08-01"

with urllib.request.urlopen(urllib.request.Request(URL, headers={"Metadata": "true"})) as answer:
    document = json.loads(answer.read())
for event in document["Events"]:
    if socket.gethostname() in event["Resources"]:
        announced = event["NotBefore"].replace(" ", "_")
        what = event["EventType"] + " of a " + event["ResourceType"]
        print(event["EventId"] + ": " + event["EventStatus"] + " " + what)
        print(socket.gethostname() + " may go from " + announced + " on")
