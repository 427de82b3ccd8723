//! Daemons that share a folder; each answers the test as it answers the watcher, and the test
//! writes its audit file.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use scheduled_events_gate::engine::Engine;
use scheduled_events_gate::engine::folder::FolderEngine;
use scheduled_events_test_support::{TestServer, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::{FLEET_COMMAND, Process, wait_for};

/// Machines that share registers: in a folder unless the test chooses another store, or `make
/// test-kubernetes` runs it on a cluster.
pub(crate) struct Fleet {
    root: TempDir,
    cluster: Option<crate::cluster::Cluster>,
    /// The store, as in the configuration.
    store: String,
    /// The groups, as in the configuration.
    groups: String,
}

/// The daemon of one machine.
pub(crate) struct Gate {
    pub(crate) config: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) daemon: Option<Process>,
    kubeconfig: PathBuf,
    _metadata: Option<TestServer>,
}

/// An answer of `ask`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AskAnswer {
    Yes,
    AnotherApproves,
    NotYet(String),
}

impl Fleet {
    pub(crate) fn new(groups: &str) -> Self {
        let root = TempDir::new().expect("a folder");
        std::fs::create_dir(root.path().join("registers")).expect("a folder");
        let store = format!(
            "engine = \"folder\"\nfolder.path = \"{}\"",
            root.path().join("registers").display()
        );
        if crate::cluster::real().is_some() {
            let cluster = crate::cluster::Cluster::start();
            let store = format!(
                "engine = \"kubernetes\"\nkubernetes = {{ namespace = {:?} }}",
                cluster.agents
            );
            return Self {
                root,
                cluster: Some(cluster),
                store,
                groups: groups.to_owned(),
            };
        }
        Self {
            root,
            cluster: None,
            store,
            groups: groups.to_owned(),
        }
    }

    /// The engine of a folder or of a cluster. It belongs to the runtime that waits for it.
    pub(crate) async fn engine(&self) -> Box<dyn Engine> {
        if let Some(cluster) = &self.cluster {
            let client = cluster.agent_client().await;
            let namespace = Some(cluster.agents.clone());
            return Box::new(
                scheduled_events_gate::engine::kubernetes::KubernetesEngine::new(client, namespace),
            );
        }
        Box::new(FolderEngine::new(&self.path().join("registers")))
    }

    /// The agent's credential on a cluster.
    fn kubeconfig(&self) -> PathBuf {
        if let Some(cluster) = &self.cluster {
            return cluster.folder.path().join("agent");
        }
        PathBuf::new()
    }

    /// The same in Azurite.
    pub(crate) fn on_blob(groups: &str, url: &str) -> Self {
        Self {
            store: format!("engine = \"blob\"\nblob = {{ url = {url:?}, emulator = true }}"),
            ..Self::new(groups)
        }
    }

    /// Changes the groups of machines that start from now on.
    pub(crate) fn change_groups(&mut self, from: &str, to: &str) {
        assert!(self.groups.contains(from), "{from}");
        self.groups = self.groups.replace(from, to);
    }

    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }

    /// Starts the daemon of a machine. A machine without a zone asks no metadata service for it.
    pub(crate) fn start(&self, machine: &str, zone: Option<&str>) -> Gate {
        self.start_with(machine, zone, "heartbeat = \"200ms\"")
    }

    /// The same with more lines of configuration.
    pub(crate) fn start_with(&self, machine: &str, zone: Option<&str>, lines: &str) -> Gate {
        let metadata = zone.map(|zone| metadata_service(machine, zone));
        let url = metadata
            .as_ref()
            .map_or("http://127.0.0.1:1".to_owned(), TestServer::url);
        Gate {
            _metadata: metadata,
            ..self.start_at(machine, &url, lines)
        }
    }

    /// The same with a metadata service.
    pub(crate) fn start_at(&self, machine: &str, metadata: &str, lines: &str) -> Gate {
        let folder = self.path().join(machine);
        std::fs::create_dir_all(&folder).expect("a folder");
        let text = format!(
            "machine = {machine:?}\n{store}\nsocket = \"{socket}\"\naudit = \"{audit}\"\nmetadata = {metadata:?}\n\
             {lines}\n{groups}\n",
            store = self.store,
            socket = folder.join("socket").display(),
            audit = folder.join("audit").display(),
            groups = self.groups,
        );
        let config = folder.join("fleet.toml");
        std::fs::write(&config, text).expect("a configuration");
        let mut gate = Gate {
            config,
            folder,
            daemon: None,
            kubeconfig: self.kubeconfig(),
            _metadata: None,
        };
        gate.start_daemon();
        gate
    }
}

/// Imitates the metadata service: it returns one machine's name and its zone.
fn metadata_service(machine: &str, zone: &str) -> TestServer {
    let body = json!({ "name": machine, "zone": zone }).to_string();
    answers(move || body.clone())
}

/// A server that answers every request with the result of `body`.
pub(crate) fn answers(body: impl Fn() -> String + Send + Sync + 'static) -> TestServer {
    TestServer::start(move |connection| {
        let (mut stream, mut head) = (&**connection, Vec::new());
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read_exact(&mut byte).is_err() {
                return;
            }
            head.extend(byte);
        }
        let body = body();
        let length = body.len();
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
    })
}

/// An event, as the command's hooks receive it.
pub(crate) fn event(id: &str, event_type: &str, machines: &[&str]) -> Value {
    json!({ "event_id": id, "event_type": event_type, "event_status": "Scheduled", "resources": machines })
}

impl Gate {
    pub(crate) fn start_daemon(&mut self) {
        self.start_daemon_with(|_| {});
    }

    /// The same with a changed command.
    pub(crate) fn start_daemon_with(&mut self, change: impl FnOnce(&mut Command)) {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.join("log"))
            .expect("a log");
        let mut command = self.fleet();
        change(command.arg("run").stdout(Stdio::null()).stderr(log));
        self.daemon = Some(Process::start(&mut command));
        let socket = self.folder.join("socket");
        wait_for("the socket", || {
            std::os::unix::net::UnixStream::connect(&socket).ok()
        });
    }

    pub(crate) fn fleet(&self) -> Command {
        let mut command = Command::new(FLEET_COMMAND);
        command
            .arg("--config")
            .arg(&self.config)
            .env("KUBECONFIG", &self.kubeconfig);
        command
    }

    /// The output of `status`.
    pub(crate) fn status(&self, options: &[&str]) -> String {
        self.status_or_failure(options)
            .unwrap_or_else(|output| panic!("{output:?}"))
    }

    /// The output of `status`, or its failure, as from a store that is too busy to answer.
    pub(crate) fn status_or_failure(&self, options: &[&str]) -> Result<String, Output> {
        let output = wait::output(self.fleet().arg("status").args(options));
        if !output.status.success() {
            return Err(output);
        }
        Ok(String::from_utf8(output.stdout).expect("text"))
    }

    pub(crate) fn ask(&self, phase: &str, event: &Value) -> AskAnswer {
        let mut command = self.fleet();
        command.arg("ask").env("SCHEDULED_EVENTS_PHASE", phase);
        let mut child = command
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut input = child.stdin.take().expect("its input");
        input
            .write_all(event.to_string().as_bytes())
            .expect("written");
        drop(input);
        let Output { status, stderr, .. } = wait::output_of(child);
        let why = String::from_utf8(stderr)
            .expect("text")
            .trim_end()
            .to_owned();
        match status.code() {
            Some(0) => AskAnswer::Yes,
            Some(75) => AskAnswer::AnotherApproves,
            Some(1) => AskAnswer::NotYet(why),
            code => panic!("exit code {code:?}: {why}"),
        }
    }

    /// Appends a record to the audit file, as `watch --audit` does.
    #[allow(clippy::needless_pass_by_value)] // A literal in most calls.
    pub(crate) fn record(&self, record: Value) {
        let path = self.folder.join("audit");
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .expect("the file");
        file.write_all(format!("{record}\n").as_bytes())
            .expect("written");
    }

    pub(crate) fn prepared(&self, id: &str) {
        self.record(json!({ "record": "prepare", "event_id": id, "outcome": "ready" }));
    }

    /// Records that the event is over, and the machine back in service.
    pub(crate) fn recovered(&self, id: &str) {
        self.record(
            json!({ "record": "change", "change": "completed", "event_id": id, "mine": true }),
        );
        self.record(
            json!({ "record": "recover", "event_id": id, "event_ids": [id], "outcome": "done" }),
        );
    }

    /// Asks until the answer is yes.
    pub(crate) fn wait_for_yes(&self, phase: &str, event: &Value) {
        wait_for("a yes", || {
            (self.ask(phase, event) == AskAnswer::Yes).then_some(())
        });
    }
}
