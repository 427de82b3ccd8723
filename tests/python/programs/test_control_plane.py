"""What ``replay --control-plane`` serves outside the machines, with Azure's own clients and a real queue of Azurite.

``tests/setup python`` installs Azurite. What no foreign client is needed for is tested in ``replay/tests``.
"""

import base64
import hashlib
import hmac
import os
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceExistsError
from azure.eventgrid import EventGridEvent
from azure.mgmt.maintenance import MaintenanceManagementClient
from azure.mgmt.resourcegraph import ResourceGraphClient
from azure.storage.queue import QueueClient
from conftest import PATIENCE, ROOT, eventually

SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
EVENTS = 'maintenanceresources | where type == "microsoft.maintenance/scheduledevents"'
# The key of Azurite's account, which is the same everywhere.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
# Two events that start once both are approved.
PAIR = """about = "Two machines are deleted."
[[event]]
event_type = "Terminate"
resources = ["{peer:index}"]
count = 2
notice = "1h"
starts_after_approval = "0s"
approval_group = "pair"
"""


class Credential:
    """Any token opens the control plane."""

    def get_token(self, *_scopes: str, **_options: Any) -> AccessToken:
        return AccessToken("anything", int(time.time()) + 3600)


@pytest.fixture(scope="module")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of Azurite's account."""
    package = Path(os.environ.get("AZURITE", ROOT / "target/tools/npm/azurite/node_modules/azurite"))
    program = package / "dist/src/queue/main.js"
    assert program.exists(), f"{program} does not exist; install it: tests/setup python"
    options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    log = tmp_path_factory.mktemp("azurite") / "log"
    with log.open("wb") as out:
        # It chooses a free port itself.
        azurite = subprocess.Popen(
            ["node", str(program), "--queueHost", "127.0.0.1", "--queuePort", "0", *options], stdout=out, stderr=out
        )
    try:
        listening = "successfully listens on "
        lines = eventually("Azurite", lambda: [x for x in log.read_text().splitlines() if listening in x])
        yield lines[0].split(listening)[1].strip() + "/devstoreaccount1"
    finally:
        azurite.kill()
        azurite.wait()


class Outside:
    """The control plane of a command that replays a scenario, and Azure's clients of it."""

    def __init__(self, url: str, queue: "QueueClient | None"):
        self.queue = queue
        options: Any = {"base_url": url, "retry_total": 0}
        # Azure's clients send tokens over HTTPS only, unless each request says otherwise.
        self.maintenance = MaintenanceManagementClient(Credential(), SUBSCRIPTION, **options).scheduled_events
        self.graph = ResourceGraphClient(Credential(), **options)

    def rows(self, query: str, **options: Any) -> Any:
        request = {"subscriptions": [SUBSCRIPTION], "query": query, "options": options}
        return self.graph.resources(request, enforce_https=False)

    def acknowledge(self, resource: str, event_id: str) -> Any:
        group, kind, name = parts(resource)
        return self.maintenance.acknowledge(group, kind, name, event_id, enforce_https=False)

    def acknowledge_list(self, resource: str, event_ids: "list[str]") -> Any:
        group, kind, name = parts(resource)
        return self.maintenance.acknowledge_list(group, kind, name, {"value": event_ids}, enforce_https=False)

    def messages(self, count: int) -> "list[bytes]":
        """Waits for so many messages, and takes them from the queue."""
        found: list[bytes] = []
        queue = self.queue
        assert queue

        def take() -> bool:
            for message in queue.receive_messages():
                found.append(base64.b64decode(message.content, validate=True))
                queue.delete_message(message)
            return len(found) >= count

        eventually(f"{count} messages", take)
        return found


def parts(resource: str) -> "tuple[str, str, str]":
    """The group, type and name of a resource, and no more."""
    _, subscriptions, subscription, _, group, _, compute, kind, name = resource.split("/")
    assert (subscriptions, subscription, compute) == ("subscriptions", SUBSCRIPTION, "Microsoft.Compute")
    return group, kind, name


@contextmanager
def replay(*arguments: str, queue: "str | None" = None) -> "Iterator[Outside]":
    more = ["--control-plane-queue", queue] if queue else ["--control-plane"]
    command = [sys.executable, "-m", "scheduled_events", "replay", *arguments, *more, "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            lines = [process.stdout.readline().strip() for _ in range(3 if queue else 2)]
            assert lines[0].startswith("listening on http://127.0.0.1:")
            url = lines[1].partition("control plane at ")[2]
            if queue:
                assert lines[2] == f"queue at {queue}"
            account, _, name = (queue or "").rpartition("/")
            credential = {"account_name": "devstoreaccount1", "account_key": KEY}
            yield Outside(url, QueueClient(account, name, credential=credential) if queue else None)
        finally:
            process.terminate()


def test_azures_clients_read_messages_and_approve_one_event(azurite: str) -> None:
    with replay("user-reboot", "--speed", "60", "--vm-name", "db", queue=f"{azurite}/one") as outside:
        (first,) = outside.messages(1)
        event = EventGridEvent.from_json(first.decode())
        assert event.event_type == "Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted"
        assert event.topic == f"/subscriptions/{SUBSCRIPTION}"
        assert event.event_time.utcoffset() is not None
        info = event.data["resourceInfo"]
        assert (info["properties"]["EventStatus"], info["properties"]["Resources"]) == ("Scheduled", ["db"])
        resource, _, event_id = info["id"].partition("/providers/microsoft.maintenance/scheduledevents/")
        assert (event.subject, info["name"]) == (info["id"], event_id)
        assert outside.acknowledge(resource, event_id).value == "Successfully Approved"
        events = [event, *(EventGridEvent.from_json(message.decode()) for message in outside.messages(2))]
    statuses = [event.data["resourceInfo"]["properties"]["EventStatus"] for event in events]
    assert statuses == ["Scheduled", "Started", "Completed"]
    assert len({event.id for event in events}) == 3


def test_azures_client_approves_a_list_and_some_of_one(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(PAIR)
    with replay(str(scenario)) as outside:
        rows = outside.rows(f"{EVENTS} | project name, properties.TargetResourceId").data
        resource, names = rows[0]["properties_TargetResourceId"], [row["name"] for row in rows]
        assert outside.acknowledge_list(resource, names[:1]).value == "Successfully Approved"
        unknown = "AAAAAAAA-0000-4000-8000-000000000000"
        with pytest.raises(HttpResponseError) as refused:
            outside.acknowledge_list(resource, [unknown, names[1]])
        error = refused.value.error
        assert error
        assert (refused.value.status_code, error.code) == (207, "MultiStatusResponse")
        assert [detail.target for detail in error.details] == [unknown]
        # The other one of the list was approved: one alone would not start.
        started = f"{EVENTS} | where properties.EventStatus != 'Scheduled' | count"
        eventually("two starts", lambda: outside.rows(started).data == [{"Count": 2}])


def test_azures_client_reads_the_pages_of_resource_graph() -> None:
    with replay("scale-in", "--speed", "600") as outside:
        query = f"{EVENTS} | project id, name, properties | order by id asc"
        eventually("the events", lambda: outside.rows(EVENTS).total_records == 200)
        ids: list[str] = []
        more: dict[str, str] = {}
        for count in (90, 90, 20):
            page = outside.rows(query, **{"$top": 90, **more})
            assert (page.total_records, page.count, len(page.data)) == (200, count, count)
            ids += [row["id"] for row in page.data]
            more = {"$skipToken": page.skip_token}
        assert more == {"$skipToken": None}
        assert ids == sorted(set(ids))
        assert len(ids) == 200
        with pytest.raises(HttpResponseError, match="summarize") as refused:
            outside.rows(f"{EVENTS} | summarize count()")
        assert refused.value.status_code == 400


def test_azures_clients_understand_refusals() -> None:
    faults = ["arm.status:409@1", "arm.status:401@2", "arm.status:403@3", "graph.status:429@2"]
    with replay("user-reboot", "--speed", "60", *(word for fault in faults for word in ("--fault", fault))) as outside:
        resource = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/replay/providers/Microsoft.Compute/virtualMachines/x"
        for expected in (ResourceExistsError, ClientAuthenticationError, HttpResponseError):
            with pytest.raises(expected):
                outside.acknowledge(resource, "AAAAAAAA-0000-4000-8000-000000000000")
        assert outside.rows(EVENTS).data == []
        with pytest.raises(HttpResponseError) as throttled:
            outside.rows(EVENTS)
        assert throttled.value.status_code == 429
        assert throttled.value.response
        assert throttled.value.response.headers["x-ms-user-quota-resets-after"] == "00:00:05"


def test_a_command_gets_the_addresses_and_a_signature_for_azurite_only(azurite: str) -> None:
    script = "import os; print(os.environ['SCHEDULED_EVENTS_CONTROL_PLANE'], os.environ['SCHEDULED_EVENTS_QUEUE'])"
    command = [sys.executable, "-m", "scheduled_events", "replay", "user-reboot", "--quiet"]
    command += ["--control-plane-queue", f"{azurite}/variables", "--", sys.executable, "-c", script]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=PATIENCE).stdout.split(
        "\n"
    )
    control_plane, queue = output[3].split()
    assert output[1:3] == [f"control plane at {control_plane}", f"queue at {azurite}/variables"]
    assert QueueClient.from_queue_url(queue).get_queue_properties().approximate_message_count == 0
    # The signature is that of the account's key. Start, addresses and, at the end, the scope of encryption are empty.
    sas = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(queue).query))
    parts = ["devstoreaccount1", sas["sp"], sas["ss"], sas["srt"], "", sas["se"], "", sas["spr"], sas["sv"], "", ""]
    signed = hmac.digest(base64.b64decode(KEY), "\n".join(parts).encode(), hashlib.sha256)
    assert sas["ss"] == "q"
    assert sas["sig"] == base64.b64encode(signed).decode()
