"""The package in the place of the standard library's json."""

import io
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from conftest import DOCUMENT, ROOT

import scheduled_events as se

DROP_IN = (ROOT / "py/examples/drop_in.py").read_text("utf-8")
BODY = json.dumps(
    {
        "DocumentIncarnation": 3,
        "Events": [
            {**json.loads(DOCUMENT)["Events"][0], "New": [1, 2.5, None, {"a": True}], "Description": 'é "\\ \u2028'},
            {**json.loads(DOCUMENT)["Events"][0], "EventId": "b", "EventType": "Reboot", "DurationInSeconds": -1},
        ],
    }
).encode()


def test_dumps_and_dump_write_documents_and_events() -> None:
    document, expected = se.loads(BODY), json.loads(BODY)
    for value, same in [
        (document, expected),
        (document.events, expected["Events"]),
        ({"a": [document]}, {"a": [expected]}),
    ]:
        for options in ({}, {"indent": 2, "sort_keys": True}, {"ensure_ascii": False, "separators": (",", ":")}):
            written = json.dumps(same, **options)  # type: ignore[arg-type]
            assert se.dumps(value, **options) == written  # type: ignore[arg-type]
            file = io.StringIO()
            se.dump(value, file, **options)  # type: ignore[arg-type]
            assert file.getvalue() == written
    assert se.dumps({1, 2}, default=sorted) == "[1, 2]"
    with pytest.raises(TypeError, match="Object of type set is not JSON serializable"):
        se.dumps({1, 2})


def test_load_reads_files(tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    path.write_bytes(BODY)
    with path.open("rb") as binary, path.open(encoding="utf-8") as text:
        assert se.load(binary) == se.load(text) == json.loads(BODY)


def test_json_decode_error_catches_parse_errors() -> None:
    assert issubclass(se.JSONDecodeError, ValueError)
    with pytest.raises(se.JSONDecodeError):
        se.loads("<html>")


def output(script: str, body: bytes, environment: "dict[str, str]") -> "tuple[str, list[Any]]":
    """Run a script against a server with this document; return what it prints and what it posts."""
    posted: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.respond(body)

        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.respond(b"")

        def respond(self, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        environment = {**environment, "SCHEDULED_EVENTS_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        server.shutdown()
        thread.join()
    assert done.returncode == 0, done.stderr
    return done.stdout, posted


@pytest.mark.parametrize("body", [DOCUMENT, BODY, b'{"DocumentIncarnation":1,"Events":[]}'], ids=len)
def test_the_samples_run_the_same_with_the_import_changed(body: bytes, environment: "dict[str, str]") -> None:
    original = DROP_IN.replace("import scheduled_events as json", "import json")
    assert original != DROP_IN
    ours, theirs = (output(script, body, environment) for script in (DROP_IN, original))
    assert ours == theirs
    printed, posted = ours
    assert printed.count("+ Scheduled Event. WestNO_0 is scheduled for ") == len(json.loads(body)["Events"])
    freezes = [event["EventId"] for event in json.loads(body)["Events"] if event["EventType"] == "Freeze"]
    assert [post["StartRequests"][0]["EventId"] for post in posted] == freezes


def test_the_samples_catch_other_input_with_the_import_changed(environment: "dict[str, str]") -> None:
    for script in (DROP_IN, DROP_IN.replace("import scheduled_events as json", "import json")):
        printed, posted = output(script, b"<html>", environment)
        assert (printed.startswith("not a document: "), posted) == (True, [])
