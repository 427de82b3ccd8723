"""The stores in which the machines of a run keep their registers."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any, TextIO

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
OPEN_FILES = 1024  # of a program at first, on most systems
PATIENCE = 120  # seconds within which something has to happen
LEASES = "/apis/coordination.k8s.io/v1/namespaces/fleet/leases"
# The address of a kubeconfig, in YAML or JSON, and its port.
SERVER = re.compile(r"""(server"?:\s*\S+?:)(\d+)\b""")


def program(variable: str, usual: Path) -> Path:
    path = Path(os.environ.get(variable, usual))
    if not path.exists():
        sys.exit(f"error: {path} does not exist; `make test-fleet` builds it")
    return path


def limited(words: list[Any]) -> list[str]:
    """The command, with this limit whatever the limit of this program is."""
    return ["sh", "-c", f'ulimit -Sn {OPEN_FILES}; exec "$@"', "sh", *map(str, words)]


def start(words: list[Any], log: TextIO, **more: Any) -> subprocess.Popen[bytes]:
    # In a session of its own, so that Ctrl-C reaches only this program, which ends the others.
    return subprocess.Popen(
        [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **more
    )


def wait_for(what: str, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"error: in vain waited {seconds:.0f} s for {what}")
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Engine:
    """A store. `port` is the port on which it listens; `None` if it is no server."""

    port: int | None = None
    can_be_killed = False
    # The folder with its registers, if it has one.
    data: Path | None = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = (folder / "engine.log").open("w")
        self.process: subprocess.Popen[bytes] | None = None

    def config(self, port: int) -> str:
        """Its part of the configuration of a daemon, which reaches it through this port."""
        raise NotImplementedError

    def environment(self, _folder: Path, _port: int) -> dict[str, str]:
        """The additional environment of the daemon with this folder."""
        return {}

    def start(self) -> None:
        """Starts it again."""
        raise NotImplementedError

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to all its processes."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def stop(self) -> None:
        if self.process:
            self.signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def back_up(self) -> None:
        """Copies the registers."""
        assert self.data
        shutil.rmtree(self.backup, ignore_errors=True)
        # As a snapshot of a disk: a server writes nothing meanwhile. From a folder, a file may go.
        self.signal(signal.SIGSTOP)
        is_server = self.port is not None
        errors = None if is_server else subprocess.DEVNULL
        subprocess.run(["cp", "-a", self.data, self.backup], check=is_server, stderr=errors)
        self.signal(signal.SIGCONT)

    def restore(self) -> None:
        """Replaces the registers by the copy."""
        assert self.data
        runs = self.process is not None
        self.stop()
        old = self.folder / "old"
        self.data.rename(old)
        self.backup.rename(self.data)
        shutil.rmtree(old)
        if runs:
            self.start()

    @property
    def backup(self) -> Path:
        return self.folder / "backup"

    def requests(self) -> int:
        """How many requests it has received, if its log has a line for each."""
        return (self.folder / "engine.log").read_text(errors="replace").count(' HTTP/1.1" ')


class Etcd(Engine):
    """A real etcd of one member. Its registers are on the disk."""

    can_be_killed = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.data = folder / "etcd"
        self.port = free_port()
        self.url, self.peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{free_port()}"
        self.start()

    def config(self, port: int) -> str:
        return f'engine = "etcd"\netcd = {{ endpoints = ["http://127.0.0.1:{port}"] }}\n'

    def start(self) -> None:
        words = ["etcd", "--data-dir", self.data, "--listen-client-urls", self.url]
        words += ["--advertise-client-urls", self.url, "--listen-peer-urls", self.peer]
        words += ["--initial-advertise-peer-urls", self.peer, "--initial-cluster", f"default={self.peer}"]
        self.process = start(words, self.log, env={"PATH": os.environ["PATH"]})

        def answers() -> bool:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/health", timeout=2) as answer:
                return b"true" in answer.read()
            return False

        wait_for("etcd", answers)


class Blob(Engine):
    """Azurite. It writes its registers to the disk every few seconds, and when it ends."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.data = folder / "azurite"
        self.package = program("AZURITE", ROOT / "target/tools/npm/azurite/node_modules/azurite")
        self.port = free_port()
        self.start()

    def start(self) -> None:
        assert self.port
        words = ["node", self.package / "dist/src/blob/main.js", "--blobHost", "127.0.0.1", "--blobPort", self.port]
        words += ["--location", self.data, "--skipApiVersionCheck", "--disableTelemetry"]
        self.process = start(words, self.log)
        url = self.url(self.port)
        wait_for("Azurite", lambda: create_container(url))

    def back_up(self) -> None:
        assert self.process
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        self.process.wait(PATIENCE)
        self.process = None
        super().back_up()
        self.start()

    def url(self, port: int) -> str:
        return f"http://127.0.0.1:{port}/devstoreaccount1/fleet"

    def config(self, port: int) -> str:
        return f'engine = "blob"\nblob = {{ url = "{self.url(port)}", emulator = true }}\n'


def create_container(url: str) -> bool:
    """Creates a container in Azurite, signed with the public key of its only account."""
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    date = formatdate(usegmt=True)
    text = f"PUT{chr(10) * 12}x-ms-date:{date}\nx-ms-version:2021-08-06\n"
    text += "/devstoreaccount1/devstoreaccount1/fleet\nrestype:container"
    signature = base64.b64encode(hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()).decode()
    headers = {
        "x-ms-date": date,
        "x-ms-version": "2021-08-06",
        "Authorization": f"SharedKey devstoreaccount1:{signature}",
        "Content-Length": "0",
    }
    request = urllib.request.Request(f"{url}?restype=container", method="PUT", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=5):
            return True
    except urllib.error.HTTPError as error:
        if error.code == 409:  # It has come back with one.
            return True
        sys.exit(f"error: Azurite refuses a container: {error.read().decode(errors='replace')}")
    except OSError:
        return False


class Kubernetes(Engine):
    """A real control plane, if the folder `shared` beside the repository (or $SHARED) has one, else the imitation."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        real = Path(os.environ.get("SHARED", ROOT.parent / "shared")).resolve() / "bin/control-plane"
        if os.access(real, os.X_OK):
            print("kubernetes: a real control plane")
            self.process = start([real, folder / "control-plane"], self.log)
            log = folder / "engine.log"
            wait_for("the control plane", lambda: bool(re.search(r"^/.*", log.read_text(), re.MULTILINE)))
            found = re.search(r"^/.*", log.read_text(), re.MULTILINE)
            assert found
            self.kubeconfig = Path(found[0])
        else:
            print("kubernetes: the imitated API server")
            self.kubeconfig = folder / "kubeconfig"
            words = ["cargo", "test", "--locked", "--workspace", "--quiet", "--test", "kubernetes", "--"]
            words += ["--ignored", "--exact", "serve::for_ever"]
            environment = {**os.environ, "SERVE_KUBECONFIG": str(self.kubeconfig)}
            self.process = start(words, self.log, cwd=ROOT, env=environment)
            wait_for("the imitated API server", self.kubeconfig.exists, 600)
        self.text = self.kubeconfig.read_text()
        server = SERVER.search(self.text)
        assert server, f"{self.kubeconfig} has no server"
        self.port = int(server[2])
        self.leases: dict[str, dict[str, Any]] = {}
        self.connect()
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": "fleet"}})

    def connect(self) -> None:
        def value(key: str) -> str:
            found = re.search(rf'\b{key}"?:\s*"?([^\s",}}]+)', self.text)
            return found[1] if found else ""

        def file(key: str) -> Path:
            data = value(f"{key}-data")
            if not data:
                return self.kubeconfig.parent / value(key)
            path = self.folder / key
            path.write_bytes(base64.b64decode(data))
            return path

        self.headers = {"Content-Type": "application/json"}
        self.context = ssl.create_default_context(cafile=str(file("certificate-authority")))
        if token := value("token"):
            self.headers["Authorization"] = f"Bearer {token}"
        else:
            self.context.load_cert_chain(file("client-certificate"), file("client-key"))
        self.server = value("server")

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server + path, data, self.headers, method=method)
        with urllib.request.urlopen(request, timeout=10, context=self.context) as answer:
            return json.load(answer)

    def all_leases(self) -> dict[str, dict[str, Any]]:
        self.signal(signal.SIGCONT)
        return {lease["metadata"]["name"]: lease for lease in self.call("GET", LEASES)["items"]}

    def back_up(self) -> None:
        self.leases = self.all_leases()

    def restore(self) -> None:
        """Replaces the Leases one by one, as tools for backups do. The machines go on meanwhile."""
        for name in self.all_leases().keys() - self.leases.keys():
            with contextlib.suppress(urllib.error.HTTPError):
                self.call("DELETE", f"{LEASES}/{name}")
        for lease in self.leases.values():
            kept = {key: lease["metadata"].get(key) for key in ("name", "labels", "annotations")}
            while not self.write({**lease, "metadata": kept}):
                pass

    def write(self, lease: dict[str, Any]) -> bool:
        """Whether nobody has changed it meanwhile."""
        metadata = lease["metadata"]
        found = self.all_leases().get(metadata["name"])
        try:
            if found:
                metadata["resourceVersion"] = found["metadata"]["resourceVersion"]
                self.call("PUT", f"{LEASES}/{metadata['name']}", lease)
            else:
                self.call("POST", LEASES, lease)
        except urllib.error.HTTPError as error:
            if error.code not in {404, 409}:
                raise
            return False
        return True

    def config(self, _port: int) -> str:
        return 'engine = "kubernetes"\nkubernetes = { namespace = "fleet" }\n'

    def environment(self, folder: Path, port: int) -> dict[str, str]:
        path = folder / "kubeconfig"
        path.write_text(SERVER.sub(rf"\g<1>{port}", self.text))
        return {"KUBECONFIG": str(path)}


class Folder(Engine):
    """A folder of this computer."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.data = folder / "registers"
        self.data.mkdir()

    def config(self, _port: int) -> str:
        return f'engine = "folder"\nfolder.path = "{self.data}"\n'


ENGINES: dict[str, type[Engine]] = {"etcd": Etcd, "blob": Blob, "kubernetes": Kubernetes, "folder": Folder}
