"""Runs the example plugin under collectd against the replay server, and reads what collectd's own plugins write."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.request

from toolbox import ROOT, TARGET, WARNINGS, WORK, expect, run

SOURCE = ROOT / "examples/collectd"
PLUGINS = pathlib.Path("/usr/lib/collectd")
LINES_MAX = 250
PATIENCE = 120  # seconds; only a failure takes as long
VALUES = ("bool-reachable", "count-scheduled", "count-started", "count-others", "timeleft-not_before")


def build(prefix):
    """Builds the plugin as its README says, into a folder beside copies of the plugins of collectd that the tests load."""
    folder = WORK / "collectd-plugins"
    env = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    run("make", "-C", SOURCE, "-B", "install", f"PLUGINS={folder}", f"CFLAGS=-O1 -g {' '.join(WARNINGS)}",
        f"LDFLAGS=-Wl,-rpath,{prefix}/lib", f"OUT={WORK}/scheduled_events.so", env=env)
    for name in ("csv", "logfile"):
        shutil.copyfile(PLUGINS / f"{name}.so", folder / f"{name}.so")  # collectd loads no links
    lines = len((SOURCE / "scheduled_events.c").read_text().splitlines())
    expect(lines <= LINES_MAX, f"the plugin has {lines} lines, {LINES_MAX} allowed")
    return folder


@contextlib.contextmanager
def replay(scenario, *options):
    """The URL of a replay server."""
    command = [TARGET / "debug/scheduled-events", "replay", scenario, "--vm-name", "web_0", *options]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield server.stdout.readline().removeprefix("listening on ").strip()
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


class Collectd:
    """A collectd in the foreground, with a folder of its own."""

    def __init__(self, plugins, folder, url, *options):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.log = folder / "log"
        config = folder / "collectd.conf"
        config.write_text(f'''
Hostname "vm"
FQDNLookup false
Interval 0.1
BaseDir "{folder}"
PIDFile "{folder}/pid"
PluginDir "{plugins}"
TypesDB "/usr/share/collectd/types.db"
LoadPlugin logfile
<Plugin logfile>
  File "{self.log}"
</Plugin>
LoadPlugin csv
<Plugin csv>
  DataDir "{folder}/csv"
</Plugin>
LoadPlugin scheduled_events
<Plugin scheduled_events>
  Endpoint "{url}"
  {"".join(f"{option}{chr(10)}" for option in options)}
</Plugin>
''')
        self.process = subprocess.Popen(["/usr/sbin/collectd", "-f", "-C", config], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=(folder / "stderr").open("ab"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def wait_for(self, what, condition):
        """Waits until a condition of this collectd's output holds."""
        end = time.monotonic() + PATIENCE
        while not condition():
            text = (self.log if self.log.exists() else self.folder / "stderr").read_text()
            expect(self.process.poll() is None, f"collectd ended with {self.process.returncode}:\n{text}")
            expect(time.monotonic() < end, f"{self.folder.name}: no {what} after {PATIENCE} s:\n{text[-3000:]}")
            time.sleep(0.05)

    def stop(self):
        """Ends collectd as a service manager does; a request in progress must not delay it."""
        self.process.send_signal(signal.SIGTERM)
        expect(self.process.wait(PATIENCE) == 0, f"collectd ended with {self.process.returncode}")

    def logged(self, text):
        return self.log.exists() and text in self.log.read_text()

    def notifications(self):
        """Severity, type and change of each notification."""
        pattern = r"Notification: severity = (\w+), host = vm, plugin = scheduled_events, type = event, " \
                  r"type_instance = (\w+), message = \2 ([a-z-]+), not before \S+, event [-\w]+$"
        text = self.log.read_text() if self.log.exists() else ""
        found = re.findall(pattern, text, re.M)
        expect(len(found) == text.count("Notification:"), f"a notification is not as expected:\n{text}")
        return found

    def values(self, name):
        """The values that the csv plugin wrote, in order."""
        files = sorted((self.folder / "csv/vm/scheduled_events").glob(f"{name}-*"))
        lines = [line for file in files for line in file.read_text().splitlines()[1:] if "," in line]
        return [float(line.split(",")[1]) for line in lines]


def follows_an_event(plugins, folder):
    """A reboot: three notifications, and the counts and the time left go up and down again."""
    with replay("user-reboot", "--speed", "30") as url, Collectd(plugins, folder, url) as collectd:
        collectd.wait_for("end of the event", lambda: len(collectd.notifications()) >= 3)
        collectd.wait_for("count of 0", lambda: collectd.values("count-started")[-1:] == [0])
        collectd.stop()
        wanted = [("WARNING", "Reboot", "scheduled"), ("FAILURE", "Reboot", "started"), ("OKAY", "Reboot", "completed")]
        expect(collectd.notifications() == wanted, f"{collectd.notifications()}")
        for name in VALUES:
            expect(collectd.values(name), f"no values of {name}")
        for name in ("count-scheduled", "count-started", "bool-reachable"):
            expect(set(collectd.values(name)) == {0, 1} or name == "bool-reachable", f"{name}: {collectd.values(name)}")
        expect(set(collectd.values("count-others")) == {0}, "another machine's event was counted")
        left = [value for value in collectd.values("timeleft-not_before") if value == value]
        expect(left and 0 <= left[-1] <= left[0] <= 15 * 60, f"time left: {left}")


def remembers(plugins, folder):
    """An event that ends while collectd is stopped is reported as ended by the next run, and nothing is repeated."""
    with replay("user-reboot", "--speed", "60") as url:
        with Collectd(plugins, folder, url, 'Machine "WEB_0"') as collectd:
            collectd.wait_for("notification", collectd.notifications)
            collectd.wait_for("state file", (folder / "scheduled_events.state").exists)
            collectd.stop()
            first = collectd.notifications()
        wait_for_no_event(url)
        with Collectd(plugins, folder, url, 'Machine "WEB_0"') as collectd:
            collectd.wait_for("end of the event", lambda: len(collectd.notifications()) > len(first))
            collectd.stop()
            later = collectd.notifications()[len(first):]
            expect([severity for severity, _, _ in later] == ["OKAY"], f"{first}, then {later}")


def wait_for_no_event(url):
    request = urllib.request.Request(f"{url}/metadata/scheduledevents?api-version=2020-07-01", headers={"Metadata": "true"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + PATIENCE
    while b"EventId" in opener.open(request, timeout=10).read():
        expect(time.monotonic() < end, "the replayed event does not end")
        time.sleep(0.2)


def other_machine(plugins, folder):
    """An event of another machine is counted, and nobody is notified."""
    with replay("user-reboot", "--speed", "10") as url, Collectd(plugins, folder, url, 'Machine "web_1"') as collectd:
        collectd.wait_for("count", lambda: collectd.values("count-others")[-1:] == [1])
        collectd.stop()
        expect(not collectd.notifications() and set(collectd.values("count-scheduled")) == {0}, "the event was taken for its own")


def invalid_bodies(plugins, folder):
    """Bodies that are not documents are logged once, and end neither polls nor counts."""
    with replay("user-reboot", "--speed", "10", "--fault", "get.not-json@5-6") as url, Collectd(plugins, folder, url) as collectd:
        collectd.wait_for("count", lambda: collectd.values("count-scheduled")[-1:] == [1])
        collectd.wait_for("warning", lambda: collectd.logged("poll failed: not-a-document, HTTP status 200 "))
        collectd.wait_for("success", lambda: collectd.logged("polls succeed again"))
        collectd.wait_for("value", lambda: collectd.values("bool-reachable")[-1:] == [1])
        collectd.stop()
        expect(0 in collectd.values("bool-reachable"), "the failed polls are not visible")
        after = collectd.values("count-scheduled")
        expect(set(after[after.index(1):]) == {1}, f"a failed poll ended an event: {after}")
        expect(collectd.log.read_text().count("poll failed") == 1, "repeated failures are logged")
        expect(len(collectd.notifications()) == 1, f"{collectd.notifications()}")


def silence(plugins, folder):
    """A service that stops answering is a time-out, and delays neither the values nor the shutdown."""
    with replay("user-reboot", "--speed", "10", "--fault", "get.silence@5-") as url, Collectd(plugins, folder, url) as collectd:
        collectd.wait_for("warning", lambda: collectd.logged("poll failed: timeout"))
        written = len(collectd.values("bool-reachable"))
        collectd.wait_for("values", lambda: len(collectd.values("bool-reachable")) > written + 3)
        collectd.stop()
        expect(collectd.values("bool-reachable")[-1] == 0, "the failed polls are not visible")
        expect(collectd.values("count-scheduled")[-1] == 1, "a failed poll ended an event")


def silence_from_the_start(plugins, folder):
    """The first request may take 130 s. Until then there are no counts, and a shutdown ends it (PATIENCE is shorter)."""
    with replay("user-reboot", "--fault", "silence") as url, Collectd(plugins, folder, url) as collectd:
        collectd.wait_for("value", lambda: collectd.values("bool-reachable")[-1:] == [0])
        collectd.stop()
        expect(not collectd.values("count-scheduled"), "counts without a document")


def damaged_state(plugins, folder):
    """A state file that is damaged is reported, and replaced."""
    folder.mkdir()
    state = folder / "scheduled_events.state"
    state.write_bytes(b"damaged")
    with replay("user-reboot", "--speed", "10") as url, Collectd(plugins, folder, url) as collectd:
        collectd.wait_for("warning", lambda: collectd.logged("scheduled_events.state: "))
        collectd.wait_for("new state", lambda: state.read_bytes() != b"damaged")
        collectd.stop()


SCENES = (follows_an_event, remembers, other_machine, invalid_bodies, silence, silence_from_the_start, damaged_state)


def check(prefix):
    """Runs all scenes side by side; most of them wait for the next poll."""
    plugins = build(prefix)
    failures = []

    def play(scene):
        try:
            scene(plugins, WORK / f"collectd-{scene.__name__}")
        except Exception as failure:  # every kind has to reach the report
            failures.append(f"{scene.__name__}: {type(failure).__name__}: {failure}")

    threads = [threading.Thread(target=play, args=(scene,)) for scene in SCENES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(not failures, "\n    ".join(failures))
    return f"{len(SCENES)} scenes"
