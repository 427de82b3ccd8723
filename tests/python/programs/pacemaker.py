"""A real Pacemaker cluster of two nodes for tests: each node has its own namespaces, and corosync connects them."""

import contextlib
import os
import shutil
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from conftest import PATIENCE, eventually

PROGRAMS = ("corosync", "pacemakerd", "crm_mon", "crm", "ip", "socat", "unshare", "nsenter")
AGENTS = Path("/usr/lib/ocf/resource.d")
NODES = ("db-1", "db-2")

COROSYNC = """
totem {
    version: 2
    cluster_name: test
    transport: udpu
    crypto_cipher: none
    crypto_hash: none
}
nodelist {
    node {
        name: db-1
        nodeid: 1
        ring0_addr: 10.9.0.1
    }
    node {
        name: db-2
        nodeid: 2
        ring0_addr: 10.9.0.2
    }
}
quorum {
    provider: corosync_votequorum
    two_node: 1
}
logging {
    to_stderr: yes
    to_syslog: no
}
"""
# It fences nobody, and a node waits a shorter time for others when it starts.
CIB = """<cib validate-with="pacemaker-3.9" admin_epoch="0" epoch="1" num_updates="0"><configuration>
<crm_config><cluster_property_set id="options">
<nvpair id="stonith" name="stonith-enabled" value="false"/><nvpair id="deadtime" name="dc-deadtime" value="2s"/>
</cluster_property_set></crm_config><nodes/><resources/><constraints/>
</configuration><status/></cib>
"""


class _Forward(socketserver.StreamRequestHandler):
    """Connect a node to the replay server that is its metadata service."""

    server: "Metadata"

    def handle(self) -> None:
        address = self.server.address
        if address is None:
            return
        with socket.create_connection(address, timeout=PATIENCE) as there:
            back = threading.Thread(target=_copy, args=(there, self.request), daemon=True)
            back.start()
            _copy(self.request, there)
            back.join(PATIENCE)


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass  # The connection was reset.
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class Metadata(socketserver.ThreadingUnixStreamServer):
    """A node's metadata service, outside its namespaces: without an address, it closes each connection."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), _Forward)
        self.address: tuple[str, int] | None = None
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def serve(self, url: "str | None") -> None:
        host, _, port = (url or "").removeprefix("http://").rpartition(":")
        self.address = (host, int(port)) if url else None


class Node:
    """A node of the cluster, whose machine has another name than it."""

    def __init__(self, cluster: "Cluster", name: str, address: str) -> None:
        self.cluster, self.name = cluster, name
        self.metadata = Metadata(cluster.folder / f"{name}.metadata")
        namespaces = ["unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child"]
        script = Path(__file__).parent / "pacemaker-node"
        command = [*cluster.root, *namespaces, str(script), str(cluster.folder), name, address]
        with (cluster.folder / f"{name}.out").open("wb") as out:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=out, env=cluster.environment
            )

    def pid(self) -> str:
        file = self.cluster.folder / f"{self.name}.pid"
        out = self.cluster.folder / f"{self.name}.out"
        assert self.process.poll() is None, f"{self.name} needs namespaces, and has none here: {out.read_text()}"
        return file.read_text().strip() if file.exists() else ""

    def enter(self, *command: str) -> "list[str]":
        return [*self.cluster.root, "nsenter", f"--target={self.pid()}", "--all", *command]

    def call(self, *command: str, text: "str | None" = None, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run a command on this node."""
        words = self.enter("env", *(f"{name}={value}" for name, value in variables.items()), *command)
        environment = self.cluster.environment
        return subprocess.run(words, input=text, env=environment, capture_output=True, text=True, timeout=PATIENCE)

    def run(self, *command: str, text: "str | None" = None) -> str:
        done = self.call(*command, text=text)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout.strip()

    def log(self) -> str:
        """What Pacemaker has logged, with what its agents print."""
        return self.run("cat", "/var/log/pacemaker/pacemaker.log")

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()  # The node's first process ends, and with it all others.
        self.process.wait(PATIENCE)
        self.metadata.shutdown()
        self.metadata.server_close()


class Cluster:
    """Two nodes, ``db-1`` and ``db-2``, without resources."""

    def __init__(self, folder: Path, environment: "dict[str, str]") -> None:
        self.folder = folder
        path = f"{environment['PATH']}:/usr/sbin:/sbin"
        # Namespaces with a network, and Pacemaker's own user in them, take root.
        needed = PROGRAMS if os.geteuid() == 0 else (*PROGRAMS, "sudo")
        missing = [program for program in needed if shutil.which(program, path=path) is None]
        assert not missing, f"{', '.join(missing)}: not installed; `tests/setup python` does it"
        self.root = [] if os.geteuid() == 0 else ["sudo", "-n", "--preserve-env", "env", f"PATH={path}"]
        self.environment = {**environment, "PATH": path}
        folder.mkdir(parents=True)
        (folder / "corosync.conf").write_text(COROSYNC)
        (folder / "cib.xml").write_text(CIB)
        shutil.copytree(AGENTS, folder / "agents", symlinks=True)
        self.nodes: list[Node] = []

    def start(self) -> None:
        for number, name in enumerate(NODES, 1):
            self.nodes.append(Node(self, name, f"10.9.0.{number}"))
        for node in self.nodes:
            eventually(f"the namespaces of {node.name}", node.pid)
        one, two = self.nodes
        link = ["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", two.pid()]
        command = [*self.root, "nsenter", f"--target={one.pid()}", "--net", *link]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, f"the cluster needs a network between namespaces: {done.stderr}"
        eventually("a cluster of two", lambda: all(len(self.members(node)) == 2 for node in self.nodes))

    def members(self, node: Node) -> "list[str]":
        listed = node.call("crm_mon", "--one-shot", "--output-as=xml", "--include=nodes").stdout
        if not listed.startswith("<"):
            return []
        found = ElementTree.fromstring(listed).iterfind("./nodes/node[@online='true'][@pending='false']")
        return [str(node.get("name")) for node in found]

    def attributes(self) -> "dict[str, str]":
        """The permanent attributes of the nodes and of the cluster, as ``db-1 NAME`` and ``cluster NAME``."""
        configuration = ElementTree.fromstring(self.nodes[0].run("cibadmin", "--query", "--scope=configuration"))
        found = {
            f"cluster {pair.get('name')}": str(pair.get("value"))
            for pair in configuration.iterfind("./crm_config//nvpair")
        }
        for node in configuration.iterfind("./nodes/node"):
            for pair in node.iter("nvpair"):
                found[f"{node.get('uname')} {pair.get('name')}"] = str(pair.get("value"))
        return found

    def reset(self) -> None:
        """Remove what agents have left: only the nodes' health is set."""
        one = self.nodes[0]
        for name in self.attributes():
            where, _, attribute = name.partition(" ")
            if where in NODES:
                update = ["--update=0"] if attribute == "#health-azure" else ["--delete"]
                one.run("crm_attribute", f"--node={where}", "--lifetime=forever", f"--name={attribute}", *update)
            elif attribute.startswith(("azure-events-az", "hostName_")):
                one.run("crm_attribute", "--type=crm_config", f"--name={attribute}", "--delete")
        for node in NODES:
            one.run("crm_attribute", f"--node={node}", "--lifetime=forever", "--name=#health-azure", "--update=0")

    def where(self, resource: str) -> "list[str]":
        """The nodes on which a resource runs."""
        table = ElementTree.fromstring(
            self.nodes[0].run("crm_mon", "--one-shot", "--output-as=xml", "--include=resources")
        )
        found = table.iterfind(f".//resource[@id='{resource}'][@role='Started']/node")
        return sorted(str(node.get("name")) for node in found)

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()


@contextmanager
def pacemaker(folder: Path, environment: "dict[str, str]") -> "Iterator[Cluster]":
    """A running cluster, of which nothing is left afterwards."""
    cluster = Cluster(folder, environment)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
