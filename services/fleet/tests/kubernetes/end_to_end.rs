//! An event from start to end: `scheduled-events watch` at a replayed metadata service, with
//! `drain` and `uncordon` as hooks.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use scheduled_events_test_support::wait;
use serde_json::Value;

use crate::cluster::{Cluster, event, text};

/// How long a watcher may take for all of it.
const TIME: Duration = Duration::from_secs(240);

/// A process that ends with the test, or when it takes too long.
pub(crate) struct Ended(Arc<Mutex<Child>>);

impl Ended {
    pub(crate) fn new(child: Child) -> Self {
        let child = Arc::new(Mutex::new(child));
        let late = Arc::downgrade(&child);
        std::thread::spawn(move || {
            std::thread::sleep(TIME);
            late.upgrade().map(|child| child.lock().unwrap().kill())
        });
        Self(child)
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let mut child = self.0.lock().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// The command `scheduled-events`: the one that the environment names, or one built from this
/// repository.
pub(crate) fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        if let Some(program) = std::env::var_os("SCHEDULED_EVENTS") {
            return program.into();
        }
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .nth(2)
            .unwrap()
            .to_owned();
        let target = root.join("target");
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args([
                "build",
                "--quiet",
                "--locked",
                "--workspace",
                "--bin",
                "scheduled-events",
            ])
            .current_dir(&root);
        let status = cargo.env("CARGO_TARGET_DIR", &target).status().unwrap();
        assert!(
            status.success(),
            "cargo build of scheduled-events: {status}"
        );
        target.join("debug/scheduled-events")
    })
}

/// A metadata service with a scenario, and its address.
pub(crate) fn replay(scenario: &str, speed: &str) -> (Ended, String) {
    let mut command = Command::new(program());
    command
        .args(["replay", scenario, "--speed", speed])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line
        .trim()
        .strip_prefix("listening on ")
        .expect("the address")
        .to_owned();
    (Ended::new(child), address)
}

impl Cluster {
    fn watch(&self, address: &str) -> (Ended, impl Iterator<Item = Value> + use<>) {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        std::fs::write(path("policy.toml"), "[[rule]]\naction = \"prepare\"\n").unwrap();
        let hook = |name| {
            format!(
                "{} --config {} {name}",
                env!("CARGO_BIN_EXE_scheduled-events-fleet"),
                path("fleet.toml")
            )
        };
        let mut command = Command::new(program());
        command.args([
            "watch",
            "--json",
            "--until-idle",
            "--interval",
            "200ms",
            "--vm-name",
            "WestNO_0",
        ]);
        command.args([
            "--endpoint",
            address,
            "--policy",
            &path("policy.toml"),
            "--state",
            &path("state"),
        ]);
        command.args(["--prepare", &hook("drain"), "--recover", &hook("uncordon")]);
        command
            .env("KUBECONFIG", path("agent"))
            .env("NODE_NAME", &self.node);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let records = records(child.stdout.take().unwrap());
        (Ended::new(child), records)
    }
}

pub(crate) fn records(stdout: ChildStdout) -> impl Iterator<Item = Value> {
    BufReader::new(stdout)
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

/// The record's kind and its outcome, for the kinds that these tests are about.
pub(crate) fn step(record: &Value) -> Option<String> {
    let kind = record["record"].as_str()?;
    let word = match kind {
        "change" => &record["change"],
        "prepare" | "recover" => &record["outcome"],
        "approval" => &record["status"],
        _ => return None,
    };
    Some(format!(
        "{kind} {}",
        word.as_str()
            .map_or_else(|| word.to_string(), str::to_owned)
    ))
}

#[test]
fn from_the_event_to_the_node_back_in_service() {
    let cluster = Cluster::start();
    cluster.add_pod("web-1", |_| {});
    cluster.add_pod("web-2", |pod| {
        pod["metadata"]["labels"]["ends-after"] = "1".into();
    });
    let (_server, address) = replay("user-reboot", "12");
    let (_watcher, records) = cluster.watch(&address);
    let mut steps = Vec::new();
    for step in records.filter_map(|record| step(&record)) {
        match step.as_str() {
            "change scheduled" => assert_eq!(cluster.pod_names(), ["web-1", "web-2"]),
            "prepare ready" => assert!(cluster.is_cordoned()),
            "approval 200" => assert_eq!(
                cluster.pod_names(),
                [""; 0],
                "approved with pods on the node"
            ),
            "recover done" => assert!(!cluster.is_cordoned()),
            // Between the approval and the recovery the node stays out of service.
            _ => {}
        }
        steps.push(step);
    }
    let expected = [
        "change scheduled",
        "prepare begun",
        "prepare ready",
        "approval 200",
        "change started",
        "change completed",
        "recover done",
    ];
    assert_eq!(steps, expected);
    assert!(!cluster.is_cordoned());
    assert_eq!(cluster.taints(), [""; 0]);
}

#[test]
fn a_watcher_that_is_killed_while_it_drains_neither_approves_early_nor_leaves_the_node_cordoned() {
    let cluster = Cluster::start();
    cluster.add_budget("web", 1);
    cluster.add_pod("web-1", |_| {});
    let (_server, address) = replay("user-reboot", "10");
    let (watcher, records) = cluster.watch(&address);
    cluster.wait_for("the cordon", || cluster.is_cordoned().then_some(()));
    drop(watcher);
    let before: Vec<_> = records.filter_map(|record| step(&record)).collect();
    assert_eq!(before, ["change scheduled", "prepare begun"]);

    let (_watcher, records) = cluster.watch(&address);
    let mut steps = Vec::new();
    let mut records = records.filter_map(|record| step(&record));
    cluster.wait_for("the budget on the node", || {
        cluster
            .annotation("scheduled-events/progress")
            .filter(|text| text.contains("disruption budget"))
    });
    assert_eq!(cluster.pod_names(), ["web-1"]);
    cluster.delete_budget("web");
    for step in &mut records {
        if step == "approval 200" {
            assert_eq!(
                cluster.pod_names(),
                [""; 0],
                "approved with pods on the node"
            );
        }
        steps.push(step);
    }
    assert_eq!(
        steps,
        [
            "prepare begun",
            "prepare ready",
            "approval 200",
            "change started",
            "change completed",
            "recover done"
        ]
    );
    assert!(!cluster.is_cordoned());
}

/// An update of the `DaemonSet` deletes the pod's files, but not its volume.
#[test]
fn a_pod_that_is_replaced_during_an_event_goes_on_from_its_volume() {
    let cluster = Cluster::start();
    cluster.add_pod("web-1", |_| {});
    let (_server, address) = replay("user-reboot", "4");
    cluster.configure_with(&address, "");
    let (watcher, records) = cluster.watch(&address);
    let mut before = Vec::new();
    for step in records.filter_map(|record| step(&record)) {
        let approved = step == "approval 200";
        before.push(step);
        if approved {
            break;
        }
    }
    assert_eq!(
        before,
        [
            "change scheduled",
            "prepare begun",
            "prepare ready",
            "approval 200"
        ]
    );
    drop(watcher);
    for file in ["policy.toml", "fleet.toml"] {
        std::fs::remove_file(cluster.folder.path().join(file)).unwrap();
    }

    cluster.configure_with(&address, "");
    let output = text(&wait::output(
        &mut cluster.fleet(&["uncordon", "--if-over"]),
    ));
    assert!(
        output.contains("stays out of service, because Reboot"),
        "{output}"
    );
    let (_watcher, records) = cluster.watch(&address);
    // The watcher may have seen the start before.
    let steps: Vec<_> = records
        .filter_map(|record| step(&record))
        .filter(|step| step != "change started")
        .collect();
    assert_eq!(
        steps,
        ["change completed", "recover done"],
        "neither prepared nor approved again"
    );
    assert!(!cluster.is_cordoned());
}

#[test]
fn a_drain_that_fails_is_not_approved_and_the_node_comes_back() {
    let cluster = Cluster::start();
    cluster.add_budget("web", 1);
    cluster.add_pod("web-1", |_| {});
    let (_server, address) = replay("user-reboot", "20");
    let (_watcher, records) = cluster.watch(&address);
    let steps: Vec<_> = records.filter_map(|record| step(&record)).collect();
    assert_eq!(
        steps,
        [
            "change scheduled",
            "prepare begun",
            "prepare failed",
            "change started",
            "change completed",
            "recover done"
        ]
    );
    assert_eq!(cluster.pod_names(), ["web-1"]);
    assert!(!cluster.is_cordoned());
}

#[test]
fn without_its_state_a_node_goes_back_into_service_only_once_its_events_are_over() {
    let cluster = Cluster::start();
    let (_server, address) = replay("user-reboot", "20");
    cluster.configure_with(&address, "");
    let id = cluster.wait_for("the event", || {
        let output =
            wait::output(Command::new(program()).args(["list", "--json", "--endpoint", &address]));
        let lines = String::from_utf8(output.stdout).unwrap();
        let records = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        records
            .filter(|record| record["record"] == "event")
            .find_map(|record| Some(record["event_id"].as_str()?.to_owned()))
    });
    let output = cluster.run(
        "drain",
        &event(&id.to_ascii_uppercase(), "Reboot", Some(900)),
    );
    assert!(output.status.success(), "{}", text(&output));
    let uncordon = || {
        text(&wait::output(
            &mut cluster.fleet(&["uncordon", "--if-over"]),
        ))
    };
    let output = uncordon();
    assert!(
        output.contains("stays out of service, because Reboot"),
        "{output}"
    );
    assert!(cluster.is_cordoned());
    cluster.wait_for("the end of the event", || {
        uncordon().contains("is back in service").then_some(())
    });
    assert!(!cluster.is_cordoned());

    // Without an answer, nothing is known about events.
    cluster.configure_with("http://127.0.0.1:1", "ready_timeout = \"1s\"");
    let output = cluster.run("drain", &event("A", "Reboot", Some(900)));
    assert!(output.status.success(), "{}", text(&output));
    let output = uncordon();
    assert!(
        output.starts_with("exit code Some(1)") && output.contains("whether the event is over"),
        "{output}"
    );
    assert!(cluster.is_cordoned());
}

#[test]
fn an_event_for_which_nothing_is_drained_is_shown_on_the_node() {
    let cluster = Cluster::start();
    cluster.add_pod("web-1", |_| {});
    let (_server, address) = replay("user-reboot", "20");
    cluster.configure_with(&address, "");
    let config = cluster.folder.path().join("fleet.toml");
    let hook = format!(
        "{} --config {} announce",
        env!("CARGO_BIN_EXE_scheduled-events-fleet"),
        config.display()
    );
    let mut command = Command::new(program());
    command.args([
        "watch",
        "--json",
        "--until-idle",
        "--interval",
        "200ms",
        "--vm-name",
        "WestNO_0",
        "--endpoint",
        &address,
    ]);
    command
        .arg("--state")
        .arg(cluster.folder.path().join("state"));
    for change in ["scheduled", "started", "completed", "ended"] {
        command.args(["--on", &format!("{change}={hook}")]);
    }
    command
        .env("KUBECONFIG", cluster.folder.path().join("agent"))
        .env("NODE_NAME", &cluster.node);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let _watcher = Ended::new(child);
    cluster.wait_for("the condition", || {
        (cluster.condition() == Some(("True".into(), "Reboot".into()))).then_some(())
    });
    assert!(!cluster.is_cordoned());
    cluster.wait_for("its end", || {
        (cluster.condition() == Some(("False".into(), "NoEvent".into()))).then_some(())
    });
    for expected in [
        "ScheduledEventAnnounced",
        "ScheduledEventStarted",
        "ScheduledEventOver",
    ] {
        cluster.wait_for(expected, || {
            cluster
                .event_reasons()
                .iter()
                .any(|reason| reason == expected)
                .then_some(())
        });
    }
    assert_eq!(cluster.pod_names(), ["web-1"]);

    // Without an event, and for other machines' events, the command shows nothing.
    let output = wait::output(&mut cluster.fleet(&["announce"]));
    assert!(
        text(&output).starts_with("exit code Some(2)")
            && text(&output).contains("for `scheduled-events watch --on`")
    );
}

#[test]
fn the_end_of_one_event_leaves_another_one_on_the_node() {
    let cluster = Cluster::start();
    // A Freeze and a Reboot of the same machine.
    let (_server, address) = replay("reboot-during-freeze", "1");
    cluster.configure_with(&address, "");
    let announce = |change: &str, event: &Value| {
        let variables = [("SCHEDULED_EVENTS_CHANGE", change)];
        let output = wait::output_of(cluster.hook_with(&variables, "announce", event));
        assert!(output.status.success(), "{}", text(&output));
    };
    // The machine soon has an event of its own there.
    cluster.wait_for("an event", || {
        let output =
            wait::output(Command::new(program()).args(["list", "--json", "--endpoint", &address]));
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("\"mine\":true")
            .then_some(())
    });
    let other = event("B", "Redeploy", Some(600));
    announce("scheduled", &other);
    assert_eq!(
        cluster.condition(),
        Some(("True".into(), "Redeploy".into()))
    );
    announce("cancelled", &other);
    assert_eq!(
        cluster.condition().unwrap().0,
        "True",
        "another event is open"
    );
    let mut elsewhere = event("C", "Reboot", Some(600));
    elsewhere["mine"] = false.into();
    announce("scheduled", &elsewhere);
    let reasons = cluster.event_reasons();
    assert_eq!(
        reasons
            .iter()
            .filter(|reason| *reason == "ScheduledEventAnnounced")
            .count(),
        1,
        "{reasons:?}"
    );
}
