"""Runs an example agent through a reboot with faults, restarts, locked, damaged and large state files."""

import contextlib
import http.server
import json
import shutil
import subprocess
import threading
import time

from toolbox import TARGET, WORK, expect, run

COMMAND = TARGET / "debug/scheduled-events"
PATIENCE = 120  # seconds; only a failure takes as long
MANY = 200  # events, more than a session in C tracks


class Service:
    """Imitates a metadata service with many events, whose first answer to the request for vmId is an error."""

    def __init__(self, machine_id):
        self.machine_id, self.asked, self.polls = machine_id, 0, 0
        own = {"EventId": "own", "EventType": "Reboot", "EventStatus": "Started", "Resources": ["web_0"]}
        others = [{**own, "EventId": f"other-{number}", "Resources": [f"web_{number}"]} for number in range(1, MANY)]
        self.document = {"DocumentIncarnation": 5, "Events": [*others, own]}
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status, body = 404, b""
                if self.path.startswith("/metadata/scheduledevents"):
                    service.polls += 1
                    status, body = 200, json.dumps(service.document).encode()
                elif "/vmId?" in self.path:
                    service.asked += 1
                    status, body = (503, b"") if service.asked == 1 else (200, service.machine_id.encode())
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def replay(*options, report=None):
    """The URL of a replay server. The verdict on its client goes to a file, and must not find a broken rule."""
    command = [COMMAND, "replay", "user-reboot", "--speed", "20", "--vm-name", "web_0", *options]
    command += ["--report", report] if report else []
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield server.stdout.readline().removeprefix("listening on ").strip()
    finally:
        server.terminate()
        server.wait()
    if report:
        lines = [json.loads(line) for line in report.read_text().splitlines()]
        clean = [line["clean"] for line in lines if line["report"] == "client"]
        expect(clean == [True], f"the verdict: {[line for line in lines if line['report'] == 'finding']}")


class Agent:
    """A program under test, with its folder and the programs that it runs."""

    def __init__(self, program):
        self.program, self.folder = program, WORK / f"{program.name}-folder"
        self.folder.mkdir(mode=0o700)
        self.state, self.log = self.folder / "state", self.folder / "log"
        self.script("prepare", f'echo "prepare $SCHEDULED_EVENTS_EVENT_TYPE" >>{self.folder}/ran\n'
                               f'[ -e {self.folder}/refuse ] && exit 78\n'
                               f'[ -e {self.folder}/hang ] && {{ rm {self.folder}/hang; exec sleep 600; }}\nexit 0\n')
        self.script("recover", f'echo recover >>{self.folder}/ran\n[ -e {self.folder}/failed ] || {{ >{self.folder}/failed; exit 1; }}\n')

    def script(self, name, text):
        (self.folder / name).write_text("#!/bin/sh\n" + text)
        (self.folder / name).chmod(0o700)

    def ran(self):
        ran = self.folder / "ran"
        return ran.read_text().split("\n")[:-1] if ran.exists() else []

    def arguments(self, url, state=None):
        return [self.program, url, "web_0", state or self.state, self.folder / "prepare", self.folder / "recover"]

    def run_until(self, done, url, state=None):
        """Runs the agent until something holds, and ends it with SIGTERM; returns what it wrote to standard error."""
        errors = self.folder / "errors"
        with self.log.open("w") as out, errors.open("w") as err:
            process = subprocess.Popen(self.arguments(url, state), stdout=out, stderr=err, text=True)
        try:
            deadline = time.monotonic() + PATIENCE
            while not (holds := done()) and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)
        text = f"{self.program.name}: exit {process.returncode}\n{errors.read_text()}\n{self.log.read_text()[-2000:]}"
        expect(holds and process.returncode == 0, text)
        return errors.read_text()

    def records(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def refused(self, url, state=None):
        """Runs the agent, which must refuse; returns what it wrote to standard error."""
        ran = subprocess.run(self.arguments(url, state), capture_output=True, text=True, timeout=PATIENCE)
        expect(ran.returncode == 1 and "error: cannot use the state file" in ran.stderr, f"{self.program.name}: {ran}")
        return ran.stderr


def check(program):
    agent = Agent(program)
    reboot(agent)
    refuses_unsafe_files(agent)
    shares_the_lock_with_the_command(agent)
    moves_damaged_files(agent)
    asks_for_the_id_again(agent)
    continues_from_many_events(agent)
    does_not_wait_for_one_connection(agent)
    does_not_ask_again_after_exit_code_78(agent)


def does_not_wait_for_one_connection(agent):
    """The first request is never answered: the one that goes out beside it is."""
    with replay("--fault", "get.silence@1") as url:
        agent.run_until(lambda: agent.log.exists() and '"record":"change"' in agent.log.read_text(), url, agent.folder / "late")


def does_not_ask_again_after_exit_code_78(agent):
    """A preparation that failed runs again after 5 s; one that ended with 78 does not."""
    (agent.folder / "ran").unlink()
    (agent.folder / "refuse").touch()
    with replay() as url:
        # The agent saves the exit code a moment after that.
        agent.run_until(lambda: agent.ran() and not time.sleep(3), url, agent.folder / "refused")
        refused = time.monotonic()
        agent.run_until(lambda: time.monotonic() > refused + 8, url, agent.folder / "refused")
    (agent.folder / "refuse").unlink()
    expect(agent.ran() == ["prepare Reboot"], f"{agent.program.name} ran {agent.ran()}")
    expect('"approved"' not in agent.log.read_text(), f"{agent.program.name} approved")


def reboot(agent):
    """A reboot with faults of the service, a preparation that hangs, a recovery that fails, and a restart."""
    (agent.folder / "hang").touch()
    with replay("--fault", "empty@2", "--fault", "post.status:500@1", report=agent.folder / "verdict.ndjson") as url:
        agent.run_until(lambda: agent.ran() == ["prepare Reboot"], url)  # It hangs: it is ended, and runs again after the restart.
        records = agent.records()
        agent.run_until(lambda: agent.ran().count("recover") == 2, url)
    name = agent.program.name
    expect(agent.ran() == ["prepare Reboot", "prepare Reboot", "recover", "recover"], f"{name} ran {agent.ran()}")
    expect(agent.state.stat().st_mode & 0o777 == 0o600 and not (agent.folder / "state.tmp").exists(), "the state file is not private")
    records += agent.records()
    changes = [record["change"] for record in records if record["record"] == "change"]
    expect(changes == ["scheduled", "started", "completed"], f"{name} logged {changes}")
    expect(records[0]["resources"] == ["web_0"], f"{name} logged {records[0]}")


def refuses_unsafe_files(agent):
    for wrong in ("link", "writable"):
        path = agent.folder / wrong
        path.symlink_to(agent.state) if wrong == "link" else (path.write_text(""), path.chmod(0o666))
        expect(str(path) in agent.refused("http://127.0.0.1:9", path), f"{wrong}: another file is refused")
        expect(not (agent.folder / f"{wrong}.lock").exists(), "a file that is refused leaves a lock")


def shares_the_lock_with_the_command(agent):
    """Neither two agents nor an agent and the command use one state file; a lock file that was removed is created again."""
    lock = agent.folder / "state.lock"
    with replay() as url:
        watch = [COMMAND, "watch", "--quiet", "--endpoint", url, "--vm-name", "web_0", "--state", agent.state]

        def both_are_refused():
            pid = lock.read_text().split()[0]
            expect(f"in use by process {pid}" in agent.refused(url), "the agent names another process")
            ran = subprocess.run(watch, capture_output=True, text=True, timeout=PATIENCE)
            expect(ran.returncode != 0 and f"in use by process {pid}" in ran.stderr, f"watch: {ran}")
            lock.unlink()
            return True

        started = time.time()
        agent.run_until(lambda: agent.state.stat().st_mtime >= started and both_are_refused(), url)
        command = subprocess.Popen(watch, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + PATIENCE
            while not (lock.exists() and lock.read_text().startswith(f"{command.pid} ")) and time.monotonic() < deadline:
                time.sleep(0.05)
            expect(f"in use by process {command.pid}" in agent.refused(url), "the agent names another process")
        finally:
            command.terminate()
            command.wait()


def moves_damaged_files(agent):
    with replay() as url:
        for number in (1, 2):
            agent.state.write_text(f"damaged {number}")
            moved = agent.folder / f"state.damaged-{number}"
            errors = agent.run_until(lambda: agent.state.exists() and moved.exists(), url)
            expect(moved.read_text() == f"damaged {number}" and str(moved) in errors, f"{agent.program.name}: {errors}")


def asks_for_the_id_again(agent):
    """The id is requested again, and a state of another machine is not continued."""
    state = agent.folder / "cloned"
    with replay() as url:
        agent.run_until(lambda: '"prepare"' in agent.log.read_text(), url, state)
    with Service("another machine") as service:
        moved = agent.folder / "cloned.damaged-1"
        errors = agent.run_until(lambda: moved.exists() and state.exists(), service.url, state)
    expect(service.asked == 2 and "of another machine" in errors, f"{agent.program.name}: {service.asked}, {errors}")


def continues_from_many_events(agent):
    """The agent continues from a state file of the command with more events than it tracks, its machine's first."""
    state, policy = agent.folder / "many", agent.folder / "policy.toml"
    policy.write_text('[[rule]]\naction = "prepare"\n')
    with Service("this machine") as service:
        service.asked = 1
        run(COMMAND, "watch", "--quiet", "--endpoint", service.url, "--vm-name", "web_0", "--policy", policy, "--state", state,
            "--max-polls", "3")
        shutil.copyfile(state, agent.folder / "kept")
        errors = agent.run_until(lambda: '"untracked"' in agent.log.read_text(), service.url, state)
    expect(errors == "", f"{agent.program.name}: {errors}")
    untracked = [record for record in agent.records() if record["record"] == "untracked"]
    expect(untracked[0]["own"] == 0 and untracked[0]["others"] == MANY - 64, f"{agent.program.name}: {untracked}")
