"""The example of an Azure Function, called as the host of Azure Functions calls it.

The test stands for that host, against which the example was never run: messages pass through the converters of the
package azure-functions, which the host's Python worker uses.
"""

import importlib.util
import json
import threading
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from conftest import ROOT

EXAMPLE = ROOT / "examples/azure-function"
CORPUS = ROOT / "tests/corpus/notifications"

functions = pytest.importorskip("azure.functions")
from azure.functions import eventgrid, meta, queue  # noqa: E402


class Azure(BaseHTTPRequestHandler):
    """Stands for Azure Resource Manager and the managed identity, as far as Microsoft's documentation describes both.

    It was never compared with the real ones.
    """

    requests: "ClassVar[list[tuple[str, str, dict[str, str], bytes]]]"
    status = 200

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.requests.append((self.command, self.path, dict(self.headers), body))
        is_token = self.path.startswith("/token?")
        answer = b'{"access_token":"secret"}' if is_token else b'{"value":"Successfully Approved"}'
        self.send_response(200 if is_token else Azure.status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> "Iterator[type[Azure]]":
    Azure.requests = []
    Azure.status = 200
    with ThreadingHTTPServer(("127.0.0.1", 0), Azure) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("MANAGEMENT_ENDPOINT", url)
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{url}/token")
        monkeypatch.setenv("IDENTITY_HEADER", "header")
        yield Azure
        server.shutdown()
        thread.join()


@pytest.fixture
def app(azure: "type[Azure]") -> "dict[str, Any]":
    """The functions that the host finds in the example, by name."""
    spec = importlib.util.spec_from_file_location("function_app", EXAMPLE / "function_app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = {function.get_function_name(): function for function in module.app.get_functions()}
    assert {name: function.get_trigger().type for name, function in found.items()} == {
        "from_queue": "queueTrigger",
        "from_event_grid": "eventGridTrigger",
    }
    return found


def call(app: "dict[str, Any]", name: str, body: bytes) -> None:
    """What the host's worker does with a message: the package's converter decodes it for the function."""
    converter = queue.QueueMessageInConverter if name == "from_queue" else eventgrid.EventGridEventInConverter
    metadata = {"Id": meta.Datum("1", "string"), "DequeueCount": meta.Datum("1", "string")}
    kind = "string" if name == "from_queue" else "json"
    message = converter.decode(meta.Datum(body.decode(), kind), trigger_metadata=metadata)
    (binding,) = [app[name].get_trigger()]
    app[name].get_user_function()(**{binding.name: message})


TRIGGERS = pytest.mark.parametrize("trigger", ["from_queue", "from_event_grid"])


def grid(**changes: Any) -> bytes:
    message = json.loads((CORPUS / "grid-type-of-the-table.json").read_bytes())[0]
    message["data"]["resourceInfo"]["properties"].update(changes)
    return json.dumps(message).encode()


@TRIGGERS
def test_a_short_freeze_is_approved(app: "dict[str, Any]", azure: "type[Azure]", trigger: str) -> None:
    call(app, trigger, grid())
    (_, token, headers, _), (method, path, sent, body) = azure.requests
    assert "resource=http" in token
    assert {name.lower(): value for name, value in headers.items()}["x-identity-header"] == "header"
    assert (method, body) == ("POST", b"")
    assert path.startswith("/subscriptions/0b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d/resourcegroups/web/providers/")
    assert "/acknowledge?api-version=2025-10-01-preview" in path
    assert sent["Authorization"] == "Bearer secret"


@TRIGGERS
def test_other_events_and_other_states_are_not_approved(
    app: "dict[str, Any]", azure: "type[Azure]", trigger: str
) -> None:
    call(app, trigger, grid(EventType="Redeploy"))
    call(app, trigger, grid(EventStatus="Completed"))
    call(app, trigger, grid(EventStatus="Started"))
    call(app, trigger, json.dumps(json.loads((CORPUS / "validation.json").read_bytes())[0]).encode())
    assert azure.requests == []


def test_a_log_has_no_line_that_an_event_has_written(app: "dict[str, Any]", caplog: pytest.LogCaptureFixture) -> None:
    text = "x\nERROR root: \x1b[2J\x7f\u202e"
    with caplog.at_level("INFO"):
        call(app, "from_queue", grid(EventType=text, EventStatus=text, EventId=text))
        call(app, "from_queue", grid(EventType=text, EventStatus="Scheduled", EventId=text))
    assert len(caplog.messages) == 3
    assert all(message.isascii() and message.isprintable() for message in caplog.messages), caplog.messages
    assert caplog.messages[2].endswith(": hold (no rule matches)"), caplog.messages


@TRIGGERS
def test_an_event_that_is_over_is_no_error_and_a_busy_service_is_tried_again(
    app: "dict[str, Any]", azure: "type[Azure]", trigger: str
) -> None:
    for status in (404, 409):
        azure.status = status
        call(app, trigger, grid())
    for status in (403, 429, 503):
        azure.status = status
        with pytest.raises(urllib.error.HTTPError):
            call(app, trigger, grid())


def test_a_queue_may_hold_a_cloud_event(app: "dict[str, Any]", azure: "type[Azure]") -> None:
    call(app, "from_queue", (CORPUS / "cloud-event.json").read_bytes())
    assert len(azure.requests) == 2


def test_a_body_that_is_not_json_goes_to_the_poison_queue(app: "dict[str, Any]") -> None:
    with pytest.raises(ValueError, match="expected `null`"):
        call(app, "from_queue", b"not json")


def test_the_host_finds_its_files() -> None:
    assert json.loads((EXAMPLE / "host.json").read_text())["version"] == "2.0"
    assert "azure-functions" in (EXAMPLE / "requirements.txt").read_text().split()
