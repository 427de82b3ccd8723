"""Imitations of clients, run through the command `replay`: each wrong one must be found, or not checked, never passed.

    clients.py NAME                      run one, as the COMMAND of `replay`
    clients.py --test PROGRAM PAGE       run all at every speed, and compare the page of the guide
    clients.py --write PROGRAM PAGE      run all, and write the page

Most stand for what was read in public programs that consume Scheduled Events, or seen when they ran: twelve agents and
five samples. A row of the table is a client with the scenario and the faults that show its habit, and the rules that it
breaks.
"""

import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

ENDPOINT = os.environ.get("SCHEDULED_EVENTS_ENDPOINT", "").removeprefix("http://")
MACHINE = os.environ.get("SCHEDULED_EVENTS_MACHINE", "")
PATH = "/metadata/scheduledevents?api-version="
HEADERS = {"Metadata": "true", "User-Agent": "imitation/1"}
SPEEDS = (1, 10, 60)

# The parts of a client.


def send(method, body=None, version="2020-07-01", headers=HEADERS, path=PATH, timeout=5):
    """One request on a connection of its own. Returns the status and the body."""
    connection = http.client.HTTPConnection(ENDPOINT, timeout=timeout)
    try:
        target = path + version if path == PATH else path
        connection.putrequest(method, target, skip_host="Host" in headers, skip_accept_encoding=True)
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


def document(**options):
    """A document, or None if there is none."""
    try:
        status, body = send("GET", **options)
        return json.loads(body) if status == 200 and body else None
    except (OSError, http.client.HTTPException, ValueError):
        return None


def poll(**options):
    """The events of a document, or None if there is no document."""
    found = document(**options)
    return None if found is None else found["Events"]


def approve(*ids, **options):
    try:
        return send("POST", {"StartRequests": [{"EventId": one} for one in ids]}, **options)[0]
    except (OSError, http.client.HTTPException):
        return None


def own(events):
    return [event for event in events or [] if MACHINE.lower() in map(str.lower, event.get("Resources", []))]


def scheduled(events):
    return [event for event in events or [] if event["EventStatus"] == "Scheduled"]


def approving(choose, keep=lambda event: event["EventId"], once=approve, until=lambda events, seen: False, **options):
    """Polls every second, and approves once each event that is chosen, until an end."""
    done, seen, first = set(), False, True
    while True:
        events = poll(timeout=130 if first else 5, **options)
        first = first and events is None
        for event in choose(events):
            if keep(event) not in done and once(event["EventId"]) == 200:
                done.add(keep(event))
        seen = seen or bool(own(events))
        if until(events, seen):
            return
        time.sleep(1 if events is not None else 2)


def careful(**options):
    """No bad habit."""
    approving(lambda events: scheduled(own(events)), **options)


def until_idle():
    """Ends once its event has left the document."""
    careful(until=lambda events, seen: seen and events is not None and not own(events))


def refused(**options):
    """Ends after some polls, which the service refuses."""
    for _ in range(4):
        poll(**options)
        time.sleep(0.5)


# The scenarios, as short as they show a habit at speed 1.


def event(kind="Freeze", **members):
    lines = [f"{name} = {json.dumps(value)}" for name, value in members.items()]
    return "\n".join(["[[event]]", f'event_type = "{kind}"', *lines, ""])


USUAL = event(resources=["{peer:1}"], appears="1s", notice="6s", started_for="2s") + event(
    "Reboot", appears="1s", notice="6s", starts_after_approval="3s", started_for="3s"
)
LONG = event(appears="1s", notice="17s", started_for="1s")
SLOW = event(appears="1s", notice="17s", starts_after_approval="6s", started_for="1s")
OWN = event(notice="4s", started_for="1s")
REMOVED = event("Preempt", appears="1s", notice="8s", started_for="1s")
HIDDEN = event(notice="8s", starts_after_approval="6s", started_for="2s") + event(
    "Preempt", appears="2s", notice="4s", started_for="1s"
)
SUBSTRING = event(resources=["WestNO_01"], appears="1s", notice="3s", started_for="1s")
ADVICE = event("SpotRebalanceRecommendation", appears="1s", cancelled_after="4s") + event(
    appears="1s", notice="4s", started_for="1s"
)
RESET = (
    'first_incarnation = 279\nincarnation_reset = { after = "3s", to = 1 }\n'
    + event(notice="3s", started_for="5s")
    + event(appears="4s", notice="4s", started_for="1s")
)


def second(*resources):
    """An own event, and a second one with other names."""
    return event(notice="4s", started_for="1s") + event(notice="4s", started_for="1s", resources=resources)


# The table.

TABLE = []


class Row(NamedTuple):
    name: str
    run: Callable
    rules: list
    scenario: str
    faults: list
    options: list
    needs: str


def client(rules="", scenario=USUAL, faults="", options="", name=None, needs=None):
    """A row: the rules that a client breaks, first the one that must find it; none for a right client.

    `needs` is the rule that was not checked where the first one cannot be broken, if that is another one.
    """

    def add(function):
        row = (name or function.__name__).replace("_", "-")
        broken = rules.split()
        first = needs or "".join(broken[:1])
        TABLE.append(Row(row, function, broken, scenario, faults.split(), options.split(), first))
        return function

    return add


client()(careful)
client()(until_idle)
client("user-agent", name="nameless")(lambda: careful(headers={"Metadata": "true"}))
client("header", name="no-header")(lambda: refused(headers={"User-Agent": "imitation/1"}))
client("route", name="behind-a-proxy")(lambda: careful(headers=HEADERS | {"Via": "1.1 proxy"}))


client("url", name="another-host")(lambda: refused(headers=HEADERS | {"Host": "metadata.example"}))


@client("header not-approved", needs="start-requests")
def no_header_in_post():
    """Sends the header with polls, and forgets it with approvals."""
    headers = {"User-Agent": "imitation/1"}
    approving(lambda events: scheduled(own(events)), once=lambda one: approve(one, headers=headers) and 200)


@client("url not-approved", needs="start-requests")
def repeats_a_parameter_in_post():
    """Adds its parameters twice, which a proxy in between would not mind."""
    path = PATH + "2020-07-01&format=json&format=json"
    approving(lambda events: scheduled(own(events)), once=lambda one: approve(one, path=path) and 200)


@client("route")
def asks_a_proxy():
    """Sends the proxy of its environment the whole URL."""
    for _ in range(3):
        send("GET", path=f"http://{ENDPOINT}{PATH}2020-07-01")
        time.sleep(1)
    careful()


@client("url")
def wrong_path():
    """Tries another path first."""
    send("GET", path="/metadata/scheduledEvents?api-version=2020-07-01")
    careful()


@client("redirect url", faults="get.redirect:302@2")
def follows_redirects():
    """Uses a library in its usual way."""
    while True:
        request = urllib.request.Request(f"http://{ENDPOINT}{PATH}2020-07-01", headers=HEADERS)
        try:
            urllib.request.urlopen(request, timeout=5).read()
        except OSError:
            pass
        time.sleep(1)


@client("api-version", name="no-version")
def no_version():
    """Asks for no version at first."""
    send("GET", path="/metadata/scheduledevents")
    careful()


client("api-version", name="unknown-version")(lambda: refused(version="2020-07-02"))


@client("version-fallback")
def asks_for_a_newer_version_only():
    """Sees no document: the service does not have the version."""
    refused(version="2024-07-09")


@client()
def newer_version_first():
    """Tries a version that the service does not have, and falls back."""
    poll(version="2024-07-09")
    careful()


@client("first-request", faults="first-call-delay:4")
def impatient():
    """A time-out of one second, for a first response that may take two minutes."""
    while True:
        poll(timeout=1)
        time.sleep(1)


@client("poll-gap missed-event", LONG)
def rare_poll():
    """A minute between two polls, for a notice of 30 seconds. Here 20 seconds, and a notice of 17."""
    while True:
        poll()
        time.sleep(20)


@client(scenario=LONG)
def every_15_seconds():
    while True:
        poll()
        time.sleep(15)


@client("poll-gap", LONG)
def drains_in_the_loop():
    """Blocks while the drain runs, so that no other event is seen."""
    while True:
        if scheduled(own(poll())):
            time.sleep(18)
        time.sleep(1)


@client("poll-gap missed-event", LONG)
def polls_once_and_hangs():
    poll()
    time.sleep(3600)


@client("stops-polling", OWN)
def polls_once_and_ends():
    poll()


@client("request-rate")
def too_fast():
    """Ten polls a second, or more: a busy machine delays them."""
    while True:
        poll()
        time.sleep(0.03)


@client("request-rate")
def a_little_too_fast():
    """Twenty polls in three seconds, in no burst."""
    due = time.monotonic()
    while True:
        poll()
        due += 0.15
        time.sleep(max(0, due - time.monotonic()))


def no_back_off():
    while True:
        time.sleep(0.4 if poll() is None else 1)


client("back-off", faults="get.status:429@2-8")(no_back_off)
for fault in ("status:403", "retry-after:3", "reset", "reset-mid-body", "not-json"):
    client("back-off", faults=f"get.{fault}@2-8", name=f"no-back-off-after-{fault.split(':3')[0].replace(':', '-')}")(
        no_back_off
    )


@client("back-off", faults="get.status:503@2-12")
def begins_its_back_off_again():
    """Gives up backing off after three polls."""
    waits = [0.3, 0.6, 1.2]
    while True:
        time.sleep((waits.pop(0) if waits else 0.2) if poll() is None else 1)


@client(faults="get.reset@2-3 get.status:503@4-5")
def backs_off():
    failures = 0
    while True:
        failures = failures + 1 if poll() is None else 0
        time.sleep(2 ** max(0, failures - 1))


@client("poll-gap", faults="get.status:500@1")
def waits_after_a_failed_start():
    """Takes the two minutes of the first response for the time until it asks again."""
    if poll() is None:
        time.sleep(20)
    careful()


def gives_up():
    """Ends at the first poll without a document."""
    while poll() is not None:
        time.sleep(1)


for fault in ("status:404", "status:410", "status:429", "status:500", "empty", "short-body", "reset", "half-document"):
    client("gave-up", faults=f"get.{fault}@3", name=f"gives-up-on-{fault.replace(':', '-')}")(gives_up)


@client("gave-up", faults="get.status:410@3-")
def gives_up_on_the_fourth_error():
    errors = 0
    while errors < 4:
        time.sleep(2**errors / 4)
        errors = errors + 1 if poll() is None else 0


def ignores_the_answer():
    """Logs that it approved without a look at the status, and never approves again."""
    approving(lambda events: scheduled(own(events)), once=lambda one: approve(one) and 200)


client("gave-up not-approved", LONG, "post.status:500@1")(ignores_the_answer)
client("gave-up not-approved", LONG, "post.status:403@1", name="ignores-that-it-may-not-approve")(ignores_the_answer)


@client("gave-up", LONG, "get.endless-body@3")
def reads_without_a_limit():
    while True:
        connection = http.client.HTTPConnection(ENDPOINT, timeout=5)
        connection.request("GET", PATH + "2020-07-01", headers=HEADERS)
        response = connection.getresponse()
        while response.read(4096):
            time.sleep(0.02)
        time.sleep(1)


@client("stops-polling")
def ends_after_its_approval():
    approving(lambda events: scheduled(own(events)), until=lambda events, seen: seen)


@client("stops-polling")
def ends_when_its_event_starts():
    careful(until=lambda events, seen: any(event["EventStatus"] == "Started" for event in own(events)))


@client("stops-polling")
def polls_no_more_and_ends_after_its_event():
    approving(lambda events: scheduled(own(events)), until=lambda events, seen: seen)
    time.sleep(7)


@client(scenario=REMOVED)
def ends_with_its_machine():
    """Approves a Preempt and ends: the machine is about to be removed."""
    approving(lambda events: scheduled(own(events)), until=lambda events, seen: seen)


@client("missed-event", HIDDEN)
def old_version():
    """A version that has no Preempt."""
    while True:
        poll(version="2017-08-01")
        time.sleep(1)


@client("start-requests not-approved")
def object_in_place_of_a_list():
    approving(
        lambda events: scheduled(own(events)),
        once=lambda one: send("POST", {"StartRequests": {"EventId": one}}) and 200,
    )


@client("start-requests")
def approves_an_unknown_id():
    """Keeps the ids of an earlier run, and approves them with the new one."""
    known = "f020ba2e-3bc0-4c40-a10b-86575a9eabd5"
    approving(lambda events: scheduled(own(events)), once=lambda one: approve(known) and approve(one))


@client("approved-other approved-started")
def node_sample():
    """Approves every event of the document, of any machine and status, as Microsoft's Node.js sample does."""
    approving(lambda events: events or [], keep=lambda event: (event["EventId"], event["EventStatus"]))


client("approved-other", name="approves-events-of-others")(lambda: approving(scheduled))


@client("approved-other", SUBSTRING)
def matches_a_part_of_the_name():
    """Takes an event of WestNO_01 for one of WestNO_0."""
    approving(lambda events: [event for event in scheduled(events) if MACHINE in " ".join(event["Resources"])])


@client("approved-started")
def approves_what_has_started():
    approving(lambda events: [event for event in own(events) if event["EventStatus"] == "Started"])


@client("start-requests", OWN)
def approves_what_has_left():
    """Takes an event that is no longer in the document for one that still waits."""
    known = {}
    while True:
        events = own(poll())
        known |= {event["EventId"]: event for event in events}
        for gone in known.keys() - {event["EventId"] for event in events}:
            approve(known.pop(gone)["EventId"])
        time.sleep(1)


def approves_any_id():
    """Approves every EventId that it sees, whatever else of the event it can read."""
    approving(lambda events: events or [])


client(scenario=OWN)(approves_any_id)
for fault, more in (
    ("repeated-id", ""),
    ("member:EventType", ""),
    ("member:EventStatus", ""),
    ("member:Resources", " approved-other"),
    ('member:DurationInSeconds,"unknown"', ""),
    ("member:EventSource,7", ""),
):
    short = fault.replace("member:", "no-" if "," not in fault else "unreadable-").split(",")[0]
    client("approved-unreadable" + more, OWN, fault, name=f"approves-{short}")(approves_any_id)


@client("approved-again")
def approves_at_every_poll():
    while True:
        for event in scheduled(own(poll())):
            approve(event["EventId"])
        time.sleep(1)


@client("approved-again", SLOW, "get.empty@4")
def ends_its_events_when_a_poll_fails():
    """Takes a poll without a document for the end of every event, and begins anew."""
    approved = set()
    while True:
        events = poll()
        approved &= {event["EventId"] for event in events or []}
        for event in scheduled(own(events)):
            if event["EventId"] not in approved and approve(event["EventId"]) == 200:
                approved.add(event["EventId"])
        time.sleep(1)


@client("approved-advice", ADVICE, options="--newest-api-version 2024-07-09")
def approves_advice():
    approving(own, version="2024-07-09")


@client("not-approved", HIDDEN)
def first_event_only():
    """Looks at the first event of the document only, so that a Freeze hides a Preempt."""
    approving(lambda events: scheduled(own((events or [])[:1])))


@client("not-approved", second("{peer:1}", "{vm}"))
def first_resource_only():
    approving(lambda events: [event for event in scheduled(events) if event["Resources"][0] == MACHINE])


@client("not-approved", second("westno_0"))
def compares_names_with_case():
    approving(lambda events: [event for event in scheduled(events) if MACHINE in event["Resources"]])


@client("not-approved", RESET)
def expects_the_incarnation_to_grow():
    """Ignores what the service says after a day of silence: then the incarnation begins again."""
    newest, approved = 0, set()
    while True:
        found = document() or {"DocumentIncarnation": 0, "Events": []}
        if found["DocumentIncarnation"] >= newest:
            newest = found["DocumentIncarnation"]
            for event in scheduled(own(found["Events"])):
                if event["EventId"] not in approved and approve(event["EventId"]) == 200:
                    approved.add(event["EventId"])
        time.sleep(1)


@client("exit-status")
def crashes_after_success():
    until_idle()
    sys.exit("a mistake at the end")


@client("exit-status gave-up", faults="get.empty@3")
def dies_of_an_empty_body():
    """The published sample: it reads JSON from whatever comes."""
    while True:
        json.loads(send("GET")[1])
        time.sleep(1)


@client("exit-status stops-polling")
def dies_of_an_event():
    while not own(poll()):
        time.sleep(1)
    sys.exit("a mistake")


@client()
def asks_for_a_token():
    """Gets a token of the managed identity before it polls."""
    send("GET", path="/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https://storage.azure.com/")
    careful()


# The test.


def judged(program, row, speed):
    """Runs a client. Returns the outcome of each rule, why a rule was not checked, the findings, and the words of the verdict."""
    with tempfile.TemporaryDirectory() as folder:
        source, report = pathlib.Path(folder, "scenario.toml"), pathlib.Path(folder, "report.ndjson")
        source.write_text(f'about = "{row.name}"\n{row.scenario}')
        words = [word for fault in row.faults for word in ("--fault", fault)]
        command = [program, "replay", str(source), "--speed", str(speed), "--linger", "4s", "--report", str(report)]
        command += [*words, *row.options, "--", sys.executable, __file__, row.name]
        run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        if not report.exists():
            sys.exit(f"{row.name} at speed {speed}: {run.stderr}")
        lines = [json.loads(line) for line in report.read_text().splitlines()]
    outcomes = {line["rule"]: line["outcome"] for line in lines if line["report"] == "rule"}
    reasons = {line["rule"]: line["reason"] for line in lines if line["report"] == "rule"}
    findings = [(line["rule"], line["message"]) for line in lines if line["report"] == "finding"]
    for line in lines:
        if line["report"] == "exit":
            outcomes["exit-status"], reasons["exit-status"] = line["outcome"], line["message"]
    words = re.search(r"^\S+: ([a-z, ]+); \d+ rules? kept", run.stderr + run.stdout, re.MULTILINE)
    return outcomes, reasons, findings, words and words[1]


def broken(verdict):
    """The rules of which there are findings."""
    return {rule for rule, outcome in verdict[0].items() if outcome in ("broken", "warned")}


def mistake(row, speed, verdict):
    """What is wrong with a verdict, or None."""
    outcomes, reasons, findings, words = verdict
    rules, found = set(row.rules), broken(verdict)
    if unexplained := [rule for rule in outcomes if outcomes[rule] == "not-checked" and not reasons[rule]]:
        return f"no reason why these were not checked: {unexplained}"
    # A higher speed may hide habits, and shows no other ones.
    if found - rules or (speed == 1 and found != rules):
        return f"expected {row.rules}, found {sorted(found)}: {findings}"
    if rules and row.rules[0] not in found and outcomes[row.needs] != "not-checked":
        return f"a client that breaks {row.rules[0]} passed"
    if not words:
        return "no verdict was printed"
    if words == "clean" if rules else words not in ("clean", "clean as far as checked", "not tested"):
        return f"the verdict is {words}"
    return None


def cell(row, verdict):
    """What the page says of a verdict."""
    found = broken(verdict)
    return ", ".join(f"`{rule}`" for rule in row.rules if rule in found) or "not checked"


def page(verdicts):
    """The page of the guide."""
    text = (pathlib.Path(__file__).parent / "clients.md.in").read_text()
    lines = []
    for row in (row for row in TABLE if row.rules):
        faults = " ".join(f"`{fault}`" for fault in row.faults)
        cells = [f"`{row.name}`", faults, *(cell(row, verdicts[row.name, speed]) for speed in SPEEDS)]
        lines.append("| " + " | ".join(cells) + " |")
    return text.replace("@TABLE@", "\n".join(lines))


def steady(text):
    """The part of a page that does not depend on how busy the machine is: not the cells of higher speeds."""
    return [line.rsplit(" | ", 2)[0] if line.startswith("| `") else line for line in text.splitlines()]


def main(mode, program, target):
    # The long runs first.
    runs = [(row, speed) for speed in SPEEDS for row in sorted(TABLE, key=lambda row: row.scenario != LONG)]
    with ThreadPoolExecutor(len(TABLE) + 20) as pool:
        results = list(pool.map(lambda run: judged(program, *run), runs))
    verdicts = {(row.name, speed): verdict for (row, speed), verdict in zip(runs, results)}
    # A busy machine makes any client slow, so a few that seem to do what they do not run again, without the others.
    slow = [(row, speed) for row, speed in runs if broken(verdicts[row.name, speed]) - set(row.rules)]
    for row, speed in slow[:5]:
        verdicts[row.name, speed] = judged(program, row, speed)
    mistakes = [
        f"{row.name} at speed {speed}: {text}"
        for row, speed in runs
        if (text := mistake(row, speed, verdicts[row.name, speed]))
    ]
    for rule in next(iter(verdicts.values()))[0]:
        if not any(rule in row.rules[:1] for row in TABLE):
            mistakes.append(f"no client breaks {rule}")
    if mistakes:
        sys.exit("\n".join(mistakes))
    target = pathlib.Path(target)
    if mode == "--write":
        target.write_text(page(verdicts))
    elif steady(page(verdicts)) != steady(target.read_text()):
        sys.exit(f"{target.name} differs from the table: run `make verdict-table`")


if __name__ == "__main__":
    if sys.argv[1] in ("--test", "--write"):
        main(*sys.argv[1:])
    else:
        next(row for row in TABLE if row.name == sys.argv[1]).run()
