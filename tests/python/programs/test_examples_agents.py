"""The programs in examples/agents: each runs as a hook of the command, against the replay server.

HAProxy, nginx and PostgreSQL are the real ones; ``tests/setup python`` installs them. Slurm's is in test_slurm.py, and
Pacemaker's in test_pacemaker.py. Nomad is a stand-in, since neither Debian nor a registry of packages has it.
"""

import http.server
import json
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE, ROOT, VM, eventually
from test_agents import STAND_INS

import scheduled_events as se

AGENTS = ROOT / "examples/agents"
POLICY = '[[rule]]\naction = "prepare"\nevent = ["Reboot", "Redeploy", "Preempt", "Terminate"]\n'
DONE = ["prepare ready", "approval 200", "recover done"]


def test_each_agent_is_short_and_has_a_test() -> None:
    tested = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    for path in AGENTS.iterdir():
        assert len(path.read_text().splitlines()) <= 130, path.name
        if path.suffix == ".conf":  # a drop-in, which cli/systemd/check reads
            assert path.with_suffix(".sh").exists(), path.name
            continue
        assert os.access(path, os.X_OK), path.name
        assert tested.count(path.name) > 0, path.name


class Machine:
    """``scheduled-events watch`` with an agent as its hooks, while a scenario is replayed."""

    def __init__(self, folder: Path, environment: "dict[str, str]", scenario: str = "user-reboot", speed: float = 60):
        self.folder, self.environment = folder, environment
        self.replay = se.replay(scenario, speed=speed, seed=1, vm_name=VM)

    def posts(self) -> int:
        return sum(request["method"] == "POST" for request in self.replay.requests())

    def watch(self, prepare: str, recover: str, meanwhile: Callable[[], None] = lambda: None) -> "list[str]":
        """What was done from the start to the end of the scenario, in order."""
        (self.folder / "policy.toml").write_text(POLICY)
        words = ["watch", "--json", "--until-idle", "--policy", f"{self.folder}/policy.toml"]
        words += ["--state", f"{self.folder}/watch.state", "--prepare", prepare, "--recover", recover]
        with self.replay as url, (self.folder / "records").open("w+") as records:
            process = subprocess.Popen(
                ["scheduled-events", *words, "--endpoint", url], env=self.environment, stdout=records
            )
            try:
                meanwhile()
                assert process.wait(2 * PATIENCE) == 0
            finally:
                process.kill()
                process.wait()
            records.seek(0)
            done = [json.loads(line) for line in records]
        kinds = ("prepare", "approval", "recover")
        words = [f"{r['record']} {r.get('outcome', r.get('status'))}" for r in done if r["record"] in kinds]
        return [word for word in words if word != "prepare begun"]


def stand_in(folder: Path, environment: "dict[str, str]", program: str, *names: str) -> "dict[str, str]":
    """The environment with a stand-in for commands of these names, whose files are in ``folder/cluster``."""
    for name in ("commands", "cluster"):
        (folder / name).mkdir()
    for name in names:
        (folder / "commands" / name).symlink_to(STAND_INS / program)
    return {**environment, "PATH": f"{folder}/commands:{environment['PATH']}", "CLUSTER": f"{folder}/cluster"}


def test_nomad_drains_until_ten_seconds_before_the_event(environment: "dict[str, str]", tmp_path: Path) -> None:
    environment = stand_in(tmp_path, environment, "nomad", "nomad")
    nomad = shlex.quote(f"{AGENTS}/nomad.sh")
    assert Machine(tmp_path, environment, speed=30).watch(f"{nomad} drain", f"{nomad} resume") == DONE
    drain, end, resume = (tmp_path / "cluster/log").read_text().splitlines()
    start, _, rest = drain.partition("-deadline ")
    deadline, _, message = rest.partition("s ")
    assert start == "node drain -enable -self -yes "
    assert 5 <= int(deadline) <= 20  # Of the 30 s of notice.
    assert message == "-m Azure: Reboot"
    assert (end, resume) == ("drained", "node drain -disable -self -yes")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Backend(http.server.BaseHTTPRequestHandler):
    """A server that answers with its name, and for /slow once it is released."""

    released: threading.Event

    def do_GET(self) -> None:
        if self.path == "/slow":
            self.released.wait(PATIENCE)
        body = type(self).__name__.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: Any) -> None:
        pass


@contextmanager
def backend(name: str) -> "Iterator[tuple[int, threading.Event]]":
    released = threading.Event()
    handler = type(name, (Backend,), {"released": released})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1], released
        finally:
            released.set()
            server.shutdown()


@contextmanager
def running(*command: str) -> "Iterator[None]":
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


def real(program: str) -> str:
    """The path of a program, which may be outside a user's PATH."""
    path = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if path is None:
        pytest.skip(f"{program} is not installed; `tests/setup python` does it")
    return path


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE) as response:
        return str(response.read().decode())


class Request(threading.Thread):
    """A request in the background."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url, self.answer = url, ""
        self.start()

    def run(self) -> None:
        self.answer = get(self.url)


HAPROXY = """
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
global
    stats socket {folder}/admin.sock level admin
frontend web
    bind 127.0.0.1:{port}
    default_backend app
backend app
    server one 127.0.0.1:{one}
    server two 127.0.0.1:{two}
"""


def test_haproxy_completes_the_last_request_of_a_drained_server(environment: "dict[str, str]", tmp_path: Path) -> None:
    haproxy, port, configuration = real("haproxy"), free_port(), tmp_path / "haproxy.cfg"
    admin = f"UNIX-CONNECT:{tmp_path}/admin.sock"
    real("socat")

    def state() -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(f"{tmp_path}/admin.sock")
            connection.sendall(b"show stat\n")
            table = connection.makefile().read()
        return next(line.split(",")[17] for line in table.splitlines() if line.startswith("app,one,"))

    with ExitStack() as stack:
        one, released = stack.enter_context(backend("one"))
        two, _ = stack.enter_context(backend("two"))
        configuration.write_text(HAPROXY.format(folder=tmp_path, port=port, one=one, two=two))
        stack.enter_context(running(haproxy, "-db", "-f", str(configuration)))
        eventually("HAProxy", (tmp_path / "admin.sock").exists)
        url = f"http://127.0.0.1:{port}/"
        while get(url) != "two":  # The next one goes to the first server.
            pass
        last = Request(url + "slow")
        machine = Machine(tmp_path, {**environment, "HAPROXY": admin})

        def meanwhile() -> None:
            eventually("the drain", lambda: state() == "DRAIN")
            assert [get(url) for _ in range(4)] == ["two"] * 4
            assert machine.posts() == 0
            released.set()
            last.join(PATIENCE)
            assert last.answer == "one"

        script = f"{AGENTS}/haproxy.sh"
        drain, ready = (shlex.join([script, word, "app", "one"]) for word in ("drain", "ready"))
        assert machine.watch(drain, ready, meanwhile) == DONE
        assert state() == "no check"
        assert {get(url) for _ in range(4)} == {"one", "two"}
        wrong = subprocess.run(
            [script, "drain", "app", "three"], env=machine.environment, capture_output=True, text=True
        )
        assert (wrong.returncode, wrong.stderr) == (1, "haproxy: No such server.\n")


NGINX = """
{user}
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location = /health {{ if (-f {folder}/flag) {{ return 503; }} return 200; }}
        location = /status {{ stub_status; allow 127.0.0.1; deny all; access_log off; }}
        location / {{ proxy_pass http://127.0.0.1:{app}; }}
    }}
}}
"""


def test_nginx_fails_its_probe_and_completes_its_requests(environment: "dict[str, str]", tmp_path: Path) -> None:
    nginx, port, configuration = real("nginx"), free_port(), tmp_path / "nginx.conf"
    real("curl")
    url, flag = f"http://127.0.0.1:{port}", tmp_path / "flag"

    def health() -> int:
        try:
            with urllib.request.urlopen(url + "/health", timeout=PATIENCE) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code
        except urllib.error.URLError:
            return 0

    with ExitStack() as stack:
        app, released = stack.enter_context(backend("app"))
        configuration.write_text(
            NGINX.format(user="" if os.geteuid() else "user root;", folder=tmp_path, port=port, app=app)
        )
        error_log = str(tmp_path / "error.log")
        stack.enter_context(running(nginx, "-p", str(tmp_path), "-e", error_log, "-c", str(configuration)))
        eventually("nginx", lambda: health() == 200)
        last = Request(url + "/slow")
        machine = Machine(tmp_path, {**environment, "PROBES": "1"})

        def meanwhile() -> None:
            eventually("the drain", lambda: health() == 503)
            assert machine.posts() == 0
            released.set()
            last.join(PATIENCE)
            assert last.answer == "app"

        script = shlex.quote(f"{AGENTS}/nginx.sh")
        assert machine.watch(f"{script} drain {flag} {url}/status", f"{script} ready {flag}", meanwhile) == DONE
        assert health() == 200


class Postgres:
    """A primary ``a`` and its standby ``b``."""

    def __init__(self, folder: Path, environment: "dict[str, str]") -> None:
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        if not programs:
            pytest.skip("postgresql is not installed; `tests/setup python` does it")
        self.environment = {**environment, "PATH": f"{programs[-1]}:{environment['PATH']}"}
        self.folder = folder
        # PostgreSQL refuses to run as root.
        self.user = (
            ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"] if not os.geteuid() else []
        )
        if self.user:
            shutil.chown(self.folder, "postgres")
        self.ports = {"a": free_port(), "b": free_port()}

    def run(self, *command: str) -> str:
        done = subprocess.run(
            [*self.user, *command],
            env=self.environment,
            cwd=self.folder,
            text=True,
            stdout=subprocess.PIPE,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, command
        return done.stdout.strip()

    def data(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def connection(self, name: str) -> str:
        return f"host={self.folder} port={self.ports[name]} user=postgres dbname=postgres"

    def ask(self, name: str, query: str) -> str:
        return self.run("psql", "-XAtq", "-d", self.connection(name), "-c", query)

    def configure(self, name: str, other: str) -> None:
        lines = [
            f"port = {self.ports[name]}",
            f"unix_socket_directories = '{self.folder}'",
            "listen_addresses = ''",
            "fsync = off",
            f"primary_conninfo = '{self.connection(other)} application_name={name}'",
        ]
        with (self.folder / name / "postgresql.conf").open("a") as file:
            file.write("\n".join(lines) + "\n")

    def pg_ctl(self, name: str, *words: str) -> str:
        return self.run("pg_ctl", "-D", self.data(name), "-w", "-s", "-l", f"{self.folder}/{name}.log", *words)

    def start(self) -> None:
        self.run("initdb", "-D", self.data("a"), "-U", "postgres", "-A", "trust", "--no-sync")
        self.configure("a", "b")
        self.pg_ctl("a", "start")
        self.run("pg_basebackup", "-D", self.data("b"), "-R", "-d", self.connection("a"), "--no-sync")
        self.configure("b", "a")
        (self.folder / "b/postgresql.auto.conf").write_text("")
        self.pg_ctl("b", "start")
        self.streams("a")

    def streams(self, name: str) -> None:
        query = "select count(*) from pg_stat_replication where state = 'streaming'"
        eventually("replication", lambda: self.ask(name, query) == "1")

    def stop(self) -> None:
        for name in ("a", "b"):
            if (self.folder / name / "postmaster.pid").exists():
                self.pg_ctl(name, "-m", "immediate", "stop")

    def hook(self, word: str) -> str:
        connections = " ".join(f"'{self.connection(name)}'" for name in ("a", "b"))
        return " ".join([*self.user, shlex.quote(f"{AGENTS}/postgres.sh"), word, self.data("a"), connections])


@pytest.fixture
def postgres(environment: "dict[str, str]") -> "Iterator[Postgres]":
    # Not below pytest's folder, which each run of pytest closes for other users.
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        servers = Postgres(Path(folder), environment)
        try:
            servers.start()
            yield servers
        finally:
            servers.stop()


def test_postgres_hands_over_without_a_loss_and_comes_back_as_the_standby(postgres: Postgres, tmp_path: Path) -> None:
    postgres.ask("a", "create table t as select generate_series(1, 10000) as n")
    machine = Machine(tmp_path, postgres.environment)

    def meanwhile() -> None:
        eventually("the promotion", lambda: postgres.ask("b", "select pg_is_in_recovery()") == "f")
        postgres.ask("b", "insert into t values (0)")

    assert machine.watch(postgres.hook("hand-over"), postgres.hook("rejoin"), meanwhile) == DONE
    assert postgres.ask("a", "select pg_is_in_recovery()") == "t"
    postgres.streams("b")
    eventually("the copy", lambda: postgres.ask("a", "select count(*) from t") == "10001")


def test_postgres_without_a_standby_writes_a_checkpoint_and_goes_on(postgres: Postgres, tmp_path: Path) -> None:
    postgres.pg_ctl("b", "-m", "fast", "stop")
    before = postgres.ask("a", "create table t as select 1; select redo_lsn from pg_control_checkpoint()")
    assert Machine(tmp_path, postgres.environment).watch(postgres.hook("hand-over"), postgres.hook("rejoin")) == DONE
    assert postgres.ask("a", "select not pg_is_in_recovery()") == "t"
    assert postgres.ask("a", f"select redo_lsn > '{before}' from pg_control_checkpoint()") == "t"


def test_postgres_goes_on_if_the_standby_lacks_something(postgres: Postgres, tmp_path: Path) -> None:
    # The standby is stopped between the question for it and the end of this server.
    folder = postgres.folder / "commands"
    folder.mkdir()
    pg_ctl = shutil.which("pg_ctl", path=postgres.environment["PATH"])
    (folder / "pg_ctl").write_text(
        f"#!/bin/sh\n# Imitates pg_ctl, and a standby that fails just before this server stops.\n"
        f'case "$*" in *stop) {pg_ctl} -D {postgres.data("b")} -w -s -m immediate stop ;; esac\nexec {pg_ctl} "$@"\n'
    )
    (folder / "pg_ctl").chmod(0o755)
    postgres.environment["PATH"] = f"{folder}:{postgres.environment['PATH']}"
    machine = Machine(tmp_path, postgres.environment, speed=30)
    done = machine.watch(postgres.hook("hand-over"), postgres.hook("rejoin"))
    assert done[0] == "prepare abandoned"
    assert "approval 200" not in done
    assert postgres.ask("a", "select pg_is_in_recovery()") == "f"
