//! Three machines, one event, one approval: the story of docs/run/fleet.md, with real processes.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use scheduled_events_gate::register::GroupRegister;
use scheduled_events_test_support::{quoted, wait};
use serde_json::Value;
use tempfile::TempDir;

use crate::fixture::{EtcdServer, FLEET_COMMAND, Process, block_on, wait_for, watcher_command};

pub(crate) const MACHINES: [&str; 3] = ["WestNO_0", "WestNO_1", "WestNO_2"];

const SCENARIO: &str = r#"
about = "Three machines are rebooted together."
[[event]]
event_type = "Reboot"
event_source = "Platform"
description = "Maintenance."
duration_in_seconds = -1
resources = ["WestNO_0", "WestNO_1", "WestNO_2"]
appears = "1s"
notice = "15min"
starts_after_approval = "1s"
started_for = "2s"
"#;

pub(crate) const POLICY: &str = "[[rule]]\naction = \"prepare\"\n";

pub(crate) struct Machine {
    pub(crate) name: &'static str,
    pub(crate) folder: PathBuf,
    pub(crate) config: PathBuf,
    pub(crate) daemon: Option<Process>,
    pub(crate) watcher: Option<Process>,
}

impl Machine {
    pub(crate) fn new(name: &'static str, root: &Path, etcd: &EtcdServer, url: &str) -> Self {
        let store = format!(
            "engine = \"etcd\"\netcd = {{ endpoints = [{:?}] }}",
            etcd.url
        );
        Self::on_store(name, root, &store, url)
    }

    /// The same with this store, as in the configuration.
    pub(crate) fn on_store(name: &'static str, root: &Path, store: &str, url: &str) -> Self {
        let folder = root.join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let config = folder.join("fleet.toml");
        let text = format!(
            "machine = {name:?}\n{store}\nsocket = \"{socket}\"\naudit = \"{audit}\"\nheartbeat = \"200ms\"\n\
             metadata = {url:?}\n\
             [[group]]\nname = \"web\"\nmachines = [\"westno_*\"]\nmax_unavailable = 1\n",
            socket = folder.join("socket").display(),
            audit = folder.join("audit").display(),
        );
        std::fs::write(&config, text).expect("a configuration");
        Self {
            name,
            folder,
            config,
            daemon: None,
            watcher: None,
        }
    }

    /// Adds a line to the configuration.
    pub(crate) fn configure(&self, line: &str) {
        let text = std::fs::read_to_string(&self.config).expect("a configuration");
        std::fs::write(&self.config, format!("{line}\n{text}")).expect("written");
    }

    pub(crate) fn start_daemon(&mut self) {
        self.start_daemon_with(|_| {});
    }

    /// The same with a changed command.
    pub(crate) fn start_daemon_with(&mut self, change: impl FnOnce(&mut Command)) {
        let mut command = self.fleet();
        change(command.arg("run").stdout(Stdio::null()));
        self.daemon = Some(Process::start(&mut command));
        let socket = self.folder.join("socket");
        wait_for("the socket", || {
            std::os::unix::net::UnixStream::connect(&socket).ok()
        });
    }

    pub(crate) fn start_watcher(&mut self, root: &Path, url: &str) {
        self.start_watcher_with(root, url, &self.gate());
    }

    /// The command that asks this machine's gate.
    pub(crate) fn gate(&self) -> String {
        format!(
            "{} --config {} ask",
            quoted(FLEET_COMMAND),
            quoted(&self.config.display().to_string())
        )
    }

    /// Watches as this machine.
    pub(crate) fn watch(&self, root: &Path, url: &str, gate: &str) -> Command {
        let mut command = Command::new(watcher_command());
        command.args([
            "watch",
            "--endpoint",
            url,
            "--vm-name",
            self.name,
            "--interval",
            "200ms",
            "--gate",
            gate,
        ]);
        command
            .arg("--policy")
            .arg(root.join("policy.toml"))
            .arg("--audit")
            .arg(self.folder.join("audit"));
        // A recovery waits as long as the test holds it, and fails as often as the test requires.
        let [hold, fail] =
            ["hold", "fail"].map(|name| self.folder.join(name).display().to_string());
        let recover = format!(
            "sh -c 'while [ -e \"{hold}\" ]; do sleep 0.05; done; left=$(cat \"{fail}\" 2>/dev/null || echo 0); \
             [ $left -eq 0 ] || {{ echo $((left - 1)) > \"{fail}\"; exit 1; }}'"
        );
        command.args(["--recover", &recover]);
        command
    }

    pub(crate) fn start_watcher_with(&mut self, root: &Path, url: &str, gate: &str) {
        let mut command = self.watch_and_prepare(root, url, gate);
        self.watcher = Some(Process::start(&mut command));
    }

    /// Watches as this machine until no event is left.
    pub(crate) fn watch_and_prepare(&self, root: &Path, url: &str, gate: &str) -> Command {
        // The preparation of the last machine waits until the test allows it.
        let prepare = format!(
            "sh -c 'until [ -e \"{}\" ]; do sleep 0.05; done'",
            self.folder.join("prepared").display()
        );
        let mut command = self.watch(root, url, gate);
        command
            .args(["--until-idle", "--json", "--prepare", &prepare])
            .arg("--state")
            .arg(self.folder.join("state"))
            .stdout(Stdio::null());
        command
    }

    pub(crate) fn fleet(&self) -> Command {
        let mut command = Command::new(FLEET_COMMAND);
        command.arg("--config").arg(&self.config);
        command
    }

    pub(crate) fn allow_preparation(&self) {
        std::fs::write(self.folder.join("prepared"), "").expect("written");
    }

    /// The records of a kind in the audit file, oldest first.
    pub(crate) fn records(&self, kind: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.join("audit")).unwrap_or_default();
        let records = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        records.filter(|record| record["record"] == kind).collect()
    }
}

/// Starts a replay server with an event of all machines, and returns its address.
pub(crate) fn replay(root: &Path) -> (Process, String) {
    replay_of(root, SCENARIO)
}

/// The same with an event of the first machine alone.
pub(crate) fn replay_of_one(root: &Path) -> (Process, String) {
    replay_of(
        root,
        &SCENARIO.replace(r#""WestNO_0", "WestNO_1", "WestNO_2""#, r#""WestNO_0""#),
    )
}

/// The same with an event of the first two machines.
pub(crate) fn replay_of_two(root: &Path) -> (Process, String) {
    replay_of(root, &SCENARIO.replace(r#", "WestNO_2""#, ""))
}

fn replay_of(root: &Path, text: &str) -> (Process, String) {
    let scenario = root.join("scenario.toml");
    std::fs::write(&scenario, text).expect("a scenario");
    let mut command = Command::new(watcher_command());
    command
        .arg("replay")
        .arg(&scenario)
        .args(["--vm-name", MACHINES[0]])
        .stdout(Stdio::piped());
    let mut process = Process::start(&mut command);
    let mut lines = BufReader::new(process.0.stdout.take().expect("its output"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("its address");
    // It continues to write.
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    let url = line
        .trim()
        .strip_prefix("listening on ")
        .unwrap_or_else(|| panic!("found {line:?}"))
        .to_owned();
    (process, url)
}

#[test]
fn nobody_approves_before_all_are_ready() {
    let (root, etcd) = (TempDir::new().expect("a folder"), EtcdServer::start());
    let root = root.path();
    std::fs::write(root.join("policy.toml"), POLICY).expect("a policy");
    let (_replay, url) = replay(root);
    let mut machines = MACHINES.map(|name| Machine::new(name, root, &etcd, &url));
    machines.iter_mut().for_each(Machine::start_daemon);
    for machine in &mut machines {
        machine.start_watcher(root, &url);
    }

    // Two are ready, and ask for the approval.
    machines[0].allow_preparation();
    machines[1].allow_preparation();
    for machine in &machines[..2] {
        wait_for("a preparation", || {
            machine
                .records("prepare")
                .pop()
                .filter(|record| record["outcome"] != "begun")
        });
        let is_approval =
            |record: &Value| record["phase"] == "approve" || record["outcome"] == "closed";
        wait_for("a question about the approval", || {
            machine.records("gate").into_iter().find(is_approval)
        });
    }
    let output = wait::output(machines[2].fleet().arg("status"));
    let status = String::from_utf8(output.stdout).expect("text");
    println!("{status}");
    for machine in &MACHINES[..2] {
        let is_ready = |line: &str| line.contains(machine) && line.contains(" ready ");
        assert!(
            status.lines().any(is_ready),
            "{machine} is not ready:\n{status}"
        );
    }
    assert!(status.contains("waits: not ready: WestNO_2"), "{status}");
    assert!(
        machines
            .iter()
            .all(|machine| machine.records("approval").is_empty()),
        "somebody approved"
    );

    // The last one is ready: one machine approves, once.
    machines[2].allow_preparation();
    let approvals = || {
        machines
            .iter()
            .flat_map(|machine| machine.records("approval"))
            .collect::<Vec<_>>()
    };
    wait_for("an approval", || approvals().pop());
    for machine in &mut machines {
        let watcher = machine.watcher.as_mut().expect("a watcher");
        let status = wait_for("the end of the watcher", || {
            watcher.0.try_wait().expect("its state")
        });
        assert!(status.success(), "{status}");
    }
    let approvals = machines
        .iter()
        .flat_map(|machine| machine.records("approval"))
        .collect::<Vec<_>>();
    assert_eq!(approvals.len(), 1, "{approvals:?}");
    assert_eq!(approvals[0]["status"], 200);

    // The one approval counts for all.
    let status = wait::output(machines[0].fleet().args(["status", "--json"])).stdout;
    let status = String::from_utf8(status).expect("text");
    assert_eq!(status.matches("\"forced\":0,").count(), 3, "{status}");

    // All have recovered, and take themselves out of the group.
    wait_for_free_places(&etcd);
    // The next heartbeat of each machine says so.
    let status = wait_for("the end in the status", || {
        let output = wait::output(machines[0].fleet().arg("status"));
        let status = String::from_utf8(output.stdout).expect("text");
        let is_over = |line: &str| line.ends_with(" is over");
        status.lines().any(is_over).then_some(status)
    });
    println!("{status}");
    assert!(!status.contains(" UTC, in "), "{status}");
}

pub(crate) fn wait_for_free_places(etcd: &EtcdServer) {
    let engine = etcd.engine();
    wait_for("free places", || {
        let group = block_on(engine.read("groups/web"))
            .ok()?
            .expect("the group");
        let group: GroupRegister = serde_json::from_str(&group.value).expect("a group");
        group.claims.is_empty().then_some(())
    });
}

#[test]
fn without_a_daemon_the_answer_is_not_yet() {
    let folder = TempDir::new().expect("a folder");
    let config = folder.path().join("fleet.toml");
    let text = format!(
        "engine = \"folder\"\nfolder.path = {0:?}\nsocket = \"{1}/socket\"\n",
        folder.path(),
        folder.path().display()
    );
    std::fs::write(&config, text).expect("a configuration");
    for (phase, code, expected) in [
        (Some("approve"), 1, "error: no daemon listens at "),
        (Some("prepare"), 1, "error: no daemon listens at "),
        (
            None,
            2,
            "error: SCHEDULED_EVENTS_PHASE is \"\", expected `prepare` or `approve`",
        ),
    ] {
        let mut command = Command::new(FLEET_COMMAND);
        command
            .arg("--config")
            .arg(&config)
            .arg("ask")
            .env_remove("SCHEDULED_EVENTS_PHASE");
        command.envs(phase.map(|phase| ("SCHEDULED_EVENTS_PHASE", phase)));
        let event = folder.path().join("event");
        std::fs::write(
            &event,
            r#"{"event_id":"a","event_type":"Reboot","resources":["x"]}"#,
        )
        .expect("an event");
        command
            .stdin(std::fs::File::open(&event).expect("the event"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output = wait::output_of(command.spawn().expect("it runs"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{errors}");
        assert!(errors.starts_with(expected), "{errors}");
    }
}
