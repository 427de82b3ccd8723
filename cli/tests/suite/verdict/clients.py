"""Imitations of clients that were met in the field, each with one habit, and one without any: `clients.py HABIT`.

They stand for programs that consume Scheduled Events in public repositories: twelve agents and five samples. Each habit is
described by what was read in such a program, or seen when it ran. The last four are border cases of the rules.
"""

import http.client
import json
import os
import sys
import time
import urllib.request

ENDPOINT = os.environ["SCHEDULED_EVENTS_ENDPOINT"].removeprefix("http://")
MACHINE = os.environ["SCHEDULED_EVENTS_MACHINE"]
PATH = "/metadata/scheduledevents?api-version="
HEADERS = {"Metadata": "true", "User-Agent": "imitation/1"}


def send(method, body=None, version="2020-07-01", headers=HEADERS, path=PATH, timeout=5):
    """One request on a connection of its own. Returns the status and the body."""
    connection = http.client.HTTPConnection(ENDPOINT, timeout=timeout)
    try:
        connection.putrequest(method, path + version if path == PATH else path, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            connection.putheader("Content-Length", str(len(data)))
        connection.endheaders(data)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def poll(**options):
    """The events of a document, or None if there is no document."""
    try:
        status, body = send("GET", **options)
        return json.loads(body)["Events"] if status == 200 and body else None
    except (OSError, http.client.HTTPException, ValueError):
        return None


def approve(*ids, **options):
    try:
        return send("POST", {"StartRequests": [{"EventId": id} for id in ids]}, **options)[0]
    except (OSError, http.client.HTTPException):
        return None


def own(events):
    return [event for event in events or [] if MACHINE.lower() in map(str.lower, event["Resources"])]


def waiting(events):
    return [event for event in events if event["EventStatus"] == "Scheduled"]


def careful(done=None, first_time=True, **options):
    """No bad habit: it polls every second, backs off, approves its own Scheduled events once."""
    approved, wait = set(), 1
    while True:
        events = poll(timeout=130 if first_time else 5, **options)
        first_time = first_time and events is None
        wait = 1 if events is not None else min(wait * 2, 10)
        for event in waiting(own(events)):
            if event["EventId"] not in approved and approve(event["EventId"]) == 200:
                approved.add(event["EventId"])
        time.sleep(wait)


def rare_poll():
    """A poll every 60 seconds, for a notice of 30. Here it is 20 s, and the notice 17."""
    while True:
        poll()
        time.sleep(20)


def drain_in_the_loop():
    """The loop blocks while the drain runs, so that no other event is seen."""
    while True:
        if waiting(own(poll())):
            time.sleep(18)
        time.sleep(1)


def node_sample():
    """Approves every event of the document, of any machine and status, as Microsoft's Node.js sample does."""
    approved = set()
    while True:
        for event in poll() or []:
            state = (event["EventId"], event["EventStatus"])
            if state not in approved and approve(event["EventId"]) == 200:
                approved.add(state)
        time.sleep(1)


def approves_any_id():
    """Approves every EventId that it sees, whatever else of the event it can read."""
    approved = set()
    while True:
        for event in poll() or []:
            if event["EventId"] not in approved and approve(event["EventId"]) == 200:
                approved.add(event["EventId"])
        time.sleep(1)


def approves_at_every_poll():
    while True:
        for event in waiting(own(poll())):
            approve(event["EventId"])
        time.sleep(1)


def ignores_the_answer():
    """Logs that it approved without a look at the status, and never approves again."""
    approved = set()
    while True:
        for event in waiting(own(poll())):
            if event["EventId"] not in approved:
                approve(event["EventId"])
                approved.add(event["EventId"])
        time.sleep(1)


def ends_at_any_status():
    """Anything but 200 ends the process."""
    while True:
        if poll() is None:
            sys.exit(1)
        time.sleep(1)


def ends_at_the_fourth_error():
    """Four equal errors end the process."""
    errors = 0
    while errors < 4:
        errors = errors + 1 if poll() is None else 0
        time.sleep(2**errors / 2)
    sys.exit(1)


def stops_after_one_event():
    """Approves its first event, and polls no more."""
    while True:
        events = waiting(own(poll()))
        if events:
            approve(events[0]["EventId"])
            return
        time.sleep(1)


def first_event_only():
    """Looks at the first event of the document only, so that a Freeze hides a Preempt."""
    approved = set()
    while True:
        events = poll() or []
        for event in waiting(own(events[:1])):
            if event["EventId"] not in approved and approve(event["EventId"]) == 200:
                approved.add(event["EventId"])
        time.sleep(1)


def follows_redirects():
    """Uses a library in its usual way: it follows redirects."""
    while True:
        request = urllib.request.Request(f"http://{ENDPOINT}{PATH}2020-07-01", headers=HEADERS)
        try:
            urllib.request.urlopen(request, timeout=5).read()
        except OSError:
            pass
        time.sleep(1)


def impatient():
    """A time-out of one second, for a first response that may take two minutes."""
    while True:
        poll(timeout=1)
        time.sleep(1)


def no_back_off():
    while True:
        time.sleep(0.4 if poll() is None else 1)


def busy():
    """Ten polls a second."""
    while True:
        poll()
        time.sleep(0.1)


def old_version():
    """A version that has no Preempt."""
    while True:
        poll(version="2017-08-01")
        time.sleep(1)


def newer_version():
    """Tries a version that the service does not have, and falls back."""
    poll(version="2024-07-09")
    careful()


def blind():
    """Tries that version again and again, and sees no document."""
    for _ in range(4):
        poll(version="2024-07-09")
        time.sleep(1)


def no_header_in_post():
    approved = set()
    while True:
        for event in waiting(own(poll())):
            if event["EventId"] not in approved:
                approve(event["EventId"], headers={"User-Agent": "imitation/1"})
                approved.add(event["EventId"])
        time.sleep(1)


def behind_a_proxy():
    """Goes through the proxy of its environment, which adds fields."""
    careful(headers=HEADERS | {"Via": "1.1 proxy", "X-Forwarded-For": "10.0.0.4"})


def asks_a_proxy():
    """Sends the proxy of its environment the whole URL."""
    for _ in range(3):
        send("GET", path=f"http://{ENDPOINT}{PATH}2020-07-01")
        time.sleep(1)
    careful()


def object_in_place_of_a_list():
    """Approves with an object where a list is expected, and with an id that no event has."""
    approved = set()
    while True:
        for event in waiting(own(poll())):
            if event["EventId"] not in approved:
                send("POST", {"StartRequests": {"EventId": event["EventId"]}})
                approve("f020ba2e-3bc0-4c40-a10b-86575a9eabd5")
                approved.add(event["EventId"])
        time.sleep(1)


def nameless():
    """Sends no User-Agent."""
    careful(headers={"Metadata": "true"})


def every_15_seconds():
    """A poll every 15 seconds, which a sleep makes a little longer."""
    while True:
        poll()
        time.sleep(15)


def one_poll():
    """Polls once, and hangs."""
    poll()
    time.sleep(3600)


def ends_with_its_machine():
    """Approves a Preempt and ends: the machine is about to be removed."""
    while True:
        for event in waiting(own(poll())):
            if approve(event["EventId"]) == 200:
                return
        time.sleep(1)


def asks_for_a_token():
    """Gets a token of the managed identity before it polls."""
    send("GET", path="/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https://storage.azure.com/")
    careful()


globals()[sys.argv[1].replace("-", "_")]()
