"""The page docs/use/coming-from.md: snippets run, options exist, and requests like Microsoft's do what it states.

Microsoft's own lines run, too, where a copy of its pages is beside the repository.
"""

import base64
import hashlib
import hmac
import http.server
import json
import re
import shutil
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, unquote_plus

import pytest
from conftest import ROOT, VM
from test_agents import references

import scheduled_events as se

PAGE = (ROOT / "docs/use/coming-from.md").read_text("utf-8")
ENDPOINT = "http://169.254.169.254"


def snippets(language: str) -> "list[str]":
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)
    assert found
    return found


def posted(server: se.Replay) -> "list[str]":
    bodies = [json.loads(request["body"]) for request in server.requests() if request["method"] == "POST"]
    return [request["EventId"] for body in bodies for request in body["StartRequests"]]


def announced(url: str) -> se.Event:
    """The event of the scenario, once it is announced."""
    with se.Client(url) as client:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if events := client.poll().events:
                return events[0]
            time.sleep(0.05)
    raise AssertionError("no event was announced")


def run(
    command: "list[str]", url: str, environment: "dict[str, str]", folder: Path
) -> "subprocess.CompletedProcess[str]":
    environment = {**environment, "SCHEDULED_EVENTS_ENDPOINT": url}
    environment.pop("TMPDIR", None)  # a reader's shell does not set it
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120)


# What a snippet prints, and whether it approves the event.
SHELL = [
    ("scheduled-events list\n", r"\* +Reboot +Scheduled(.|\n)*", True),
    ("curl ", r"(.|\n)*Reboot(.|\n)*", False),
    ("scheduled-events wait", r"(.|\n)*Reboot(.|\n)*", True),
    ("scheduled-events watch --policy sample", r"(.|\n)*approved(.|\n)*completed(.|\n)*", True),
    ("cat ", r"(.|\n)*approved(.|\n)*recovered(.|\n)*", True),
    ("python3 py/examples/event_hub.py", "", False),
]
# What test_pacemaker.py pastes into a cluster.
CLUSTER = ("install ", "crm configure")


def test_each_shell_snippet_has_an_expectation() -> None:
    found = [text for text in snippets("sh") if not text.startswith(CLUSTER)]
    assert [text for text in found if not any(text.startswith(start) for start, _, _ in SHELL)] == []
    assert len(found) == len(SHELL)


@pytest.mark.parametrize(("start", "printed", "approves"), SHELL[:-1])
def test_shell_snippets_run(
    start: str, printed: str, approves: bool, environment: "dict[str, str]", tmp_path: Path
) -> None:
    text = next(text for text in snippets("sh") if text.startswith(start))
    server = se.replay("user-reboot", speed=15, seed=1, vm_name=VM)
    with server as url:
        event = announced(url)
        done = run(["sh", "-euc", text], url, environment, tmp_path)
        assert done.returncode == 0, done.stderr
        assert re.search(printed, done.stdout), done.stdout
        assert posted(server) == ([event.event_id] if approves else [])


@pytest.mark.parametrize("number", range(len(snippets("python"))))
def test_python_snippets_run(number: int, environment: "dict[str, str]", tmp_path: Path) -> None:
    text = snippets("python")[number]
    server = se.replay("user-reboot", speed=60, seed=1, vm_name=VM)
    with server as url:
        announced(url)
        done = run([sys.executable, "-c", text], url, environment, tmp_path)
        assert done.returncode == 0, done.stderr
        assert "Reboot" in done.stdout
        assert len(posted(server)) == ("watch(" in text)


def test_the_snippet_for_node_runs(environment: "dict[str, str]", tmp_path: Path) -> None:
    [text] = snippets("js")
    node = shutil.which("node")
    if not node:
        pytest.skip("Node.js is not installed; `tests/setup python` does it")
    server = se.replay("user-reboot", speed=60, seed=1, vm_name=VM)
    with server as url:
        event = announced(url)
        done = run([node, "-e", text], url, environment, tmp_path)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[0].startswith(f"scheduled: Reboot {event.event_id}, not before 20")
        assert f"approved: {event.event_id}, status 200" in lines
        assert lines[-1].startswith(("completed: ", "ended: "))
        assert posted(server) == [event.event_id]


def helps() -> "dict[str, str]":
    """The help of each subcommand."""
    command = [sys.executable, "-m", "scheduled_events"]
    text = subprocess.run([*command, "--help"], check=True, capture_output=True, text=True).stdout
    names = re.findall(r"^  ([a-z-]+) ", text.split("\nCommands:\n")[1].split("\n\n")[0], re.M)
    return {
        name: subprocess.run([*command, name, "--help"], check=True, capture_output=True, text=True).stdout
        for name in names
        if name != "help"
    }


def test_powershell_uses_commands_options_and_members_that_exist() -> None:
    known = helps()
    for text in snippets("powershell"):
        for opening, closing in ("()", "{}", "[]"):
            assert text.count(opening) == text.count(closing)
        assert text.count("'") % 2 == 0
        commands = re.findall(r"scheduled-events ([a-z-]+)([^|\n]*)", text)
        assert commands
        for name, rest in commands:
            assert name in known
            for option in re.findall(r"--[a-z-]+", rest):
                assert f"{option} " in known[name] or f"{option}\n" in known[name], option
        event = se.parse('{"Events":[{"EventId":"a","EventStatus":"Scheduled"}]}').events[0].to_dict(VM)
        for member in re.findall(r"\$_\.(\w+)", text):
            assert member in event
        assert event["record"] == "event"


def test_the_options_in_the_right_columns_exist() -> None:
    known = " ".join(helps().values())
    options = set()
    for row in re.findall(r"^\| .* \|$", PAGE, re.M):
        for code in re.findall(r"`([^`]*)`", row.strip("| ").split(" | ")[-1]):
            options |= set(re.findall(r"(?<!\S)--[a-z-]+", code))
            for name in re.findall(r"^scheduled-events ([a-z-]+)", code):
                # The service is there only on Windows.
                assert name in helps() or name == "service"
    assert "--prepare" in options
    assert [option for option in options if option not in known] == []


VERSIONS = ["2017-08-01", "2020-07-01"]


def original_lines(version: str, start: str) -> "list[str]":
    """The lines of this version of Microsoft's page that start so."""
    folder = references()
    assert folder is not None
    page = (folder / f"scheduled-events-linux-{version}.txt").read_text("utf-8")
    return [line.strip() for line in page.splitlines() if line.strip().startswith(start)]


def approval(version: str, event_id: str) -> "dict[str, Any]":
    """The body of an approval. That of 2017 has an incarnation, as text, whatever the document's is."""
    body: dict[str, Any] = {"DocumentIncarnation": "7"} if version == "2017-08-01" else {}
    return {**body, "StartRequests": [{"EventId": event_id}]}


def lines_for_curl(version: str) -> "list[str]":
    """A query and an approval with the arguments of Microsoft's lines: the same header, and a URL without quotes."""
    url = f"{ENDPOINT}/metadata/scheduledevents?api-version={version}"
    body = json.dumps(approval(version, "A"))
    return [f"curl -H Metadata:true {url}", f"curl -H Metadata:true -X POST -d '{body}' {url}"]


@pytest.mark.parametrize("is_original", [False, True] if references() else [False])
@pytest.mark.parametrize("version", VERSIONS)
def test_microsoft_s_lines_for_bash_do_what_the_page_states(
    version: str, is_original: bool, environment: "dict[str, str]"
) -> None:
    query, approve = original_lines(version, "curl ") if is_original else lines_for_curl(version)
    if not shutil.which("curl"):
        pytest.skip("curl is not installed; `tests/setup python` does it")
    server = se.replay("user-reboot", speed=60, seed=1, vm_name=VM)
    with server as url:
        event = announced(url)
        [sent] = re.findall(r"'(\{.*\})'", approve)
        assert json.loads(sent).keys() == approval(version, "").keys()
        approve = re.sub(r'"EventId": "[^"]*"', f'"EventId": "{event.event_id}"', approve)
        for line, expected in ((query, [event.event_id]), (approve, None)):
            command = line.replace(ENDPOINT, url)
            assert command != line
            done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
            if expected:
                assert [event.event_id for event in se.parse(done.stdout).events] == expected
        assert posted(server) == [event.event_id]


def test_microsoft_s_lines_for_powershell_query_and_approve() -> None:
    # What Invoke-RestMethod sends: without -ContentType, a body is declared as a form. So does urllib.
    version = "2020-07-01"
    server = se.replay("user-reboot", speed=60, seed=1, vm_name=VM)
    with server as url:
        event = announced(url)
        address = f"{url}/metadata/scheduledevents?api-version={version}"
        body = json.dumps(approval(version, event.event_id)).encode()
        for method, data in (("GET", None), ("POST", body)):
            request = urllib.request.Request(address, data, {"Metadata": "true"}, method=method)
            with urllib.request.urlopen(request, timeout=60) as answer:
                if method == "GET":
                    assert [event.event_id for event in se.parse(answer.read()).events] == [event.event_id]
        [post] = [request for request in server.requests() if request["method"] == "POST"]
        fields = {name.lower(): value for name, value in post["headers"]}
        assert fields["content-type"] == "application/x-www-form-urlencoded"
        assert posted(server) == [event.event_id]
    if references():
        get, post_line = original_lines(version, "Invoke-RestMethod ")
        for line, method in ((get, "GET"), (post_line, "POST")):
            assert re.findall(r"-Method (\w+)", line) == [method]
            assert re.search(r'-Headers @\{"Metadata" ?= ?"true"\}', line)
            assert f"{ENDPOINT}/metadata/scheduledevents?api-version={version}" in line
        [sent] = re.findall(r"-body '(.*?)'", post_line)
        assert json.loads(sent).keys() == approval(version, "").keys()


class Hub(http.server.BaseHTTPRequestHandler):
    """Imitates an Azure Event Hub: it checks the signature of a message, and accepts all but the first one."""

    messages: "list[dict[str, Any]]"
    refused: "list[int]"
    key = b"secret/key+="

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        scheme, _, fields = self.headers["Authorization"].partition(" ")
        token = dict(field.split("=", 1) for field in fields.split("&"))
        hub = f"https://{self.headers['Host']}/hub"
        signature = hmac.new(self.key, f"{quote_plus(hub)}\n{token['se']}".encode(), hashlib.sha256).digest()
        genuine = (
            unquote_plus(token["sig"]) == base64.b64encode(signature).decode() and unquote_plus(token["sr"]) == hub
        )
        status = 201
        if scheme != "SharedAccessSignature" or not genuine or int(token["se"]) < time.time():
            status = 401
        elif not self.refused:
            status = 503
        if status == 201:
            self.messages.append(json.loads(body))
        else:
            self.refused.append(status)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args: Any) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path) -> "Iterator[tuple[type[Hub], str, Path]]":
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed; `tests/setup python` does it")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    certify = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    command = [*certify.split(), "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    handler = type("OneHub", (Hub,), {"messages": [], "refused": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield handler, f"sb://localhost:{server.server_address[1]}/", certificate
        server.shutdown()


def test_the_event_hub_gets_every_change(
    hub: "tuple[type[Hub], str, Path]", environment: "dict[str, str]", tmp_path: Path
) -> None:
    handler, endpoint, certificate = hub
    text = next(text for text in snippets("sh") if "event_hub.py" in text)
    connection = f"Endpoint={endpoint};SharedAccessKeyName=send;SharedAccessKey={Hub.key.decode()};EntityPath=hub"
    with se.replay("user-reboot", speed=120, seed=1, vm_name=VM) as url:
        environment = {
            **environment,
            "EVENT_HUB": connection,
            "SSL_CERT_FILE": str(certificate),
            "SCHEDULED_EVENTS_ENDPOINT": url,
            "TMPDIR": str(tmp_path),
        }
        process = subprocess.Popen(["sh", "-euc", f"exec {text}"], env=environment, cwd=ROOT)
        try:
            end = time.monotonic() + 60
            while not any(message.get("change") in ("completed", "ended") for message in handler.messages):
                assert time.monotonic() < end, handler.messages
                assert process.poll() is None
                time.sleep(0.05)
        finally:
            process.kill()
            process.wait()
    changes = [message["change"] for message in handler.messages if message["record"] == "change"]
    assert changes[0] == "scheduled"
    assert {message["machine"] for message in handler.messages} == {VM}
    assert handler.refused == [503]
