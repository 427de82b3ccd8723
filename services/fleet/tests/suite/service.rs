//! The daemon as a service: its reports to systemd, a socket that systemd passes, and its counters.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use scheduled_events_test_support::wait;
use serde_json::{Value, json};

use crate::fixture::{FLEET_COMMAND, Process, wait_for};
use crate::gate::{AskAnswer, Fleet, Gate, event};

/// Imitates systemd: receives notifications.
struct Notifications(UnixDatagram);

impl Notifications {
    fn next(&self) -> String {
        let mut buffer = [0; 4096];
        let length = self.0.recv(&mut buffer).expect("a notification");
        String::from_utf8(buffer[..length].to_vec()).expect("text")
    }

    fn wait_for(&self, part: &str) -> String {
        wait_for(part, || {
            Some(self.next()).filter(|text| text.contains(part))
        })
    }
}

/// As when the log driver of a container hangs.
#[test]
fn a_log_that_nobody_reads_holds_up_no_answer() {
    let fleet = Fleet::new("");
    let mut gate = fleet.start("web_1", None);
    gate.daemon = None;
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(&[b'\n'; 65536]).expect("it fits");
    gate.start_daemon_with(|command| {
        command.stderr(writer);
    });
    gate.wait_for_yes("prepare", &event("e1", "Reboot", &["web_1"]));
    drop(gate);
    drop(reader);
}

#[test]
fn systemd_is_notified() {
    let fleet = Fleet::new("");
    let mut gate = fleet.start("web_1", None);
    gate.daemon = None;
    let path = fleet.path().join("notify");
    let notifications = Notifications(UnixDatagram::bind(&path).expect("a socket"));
    notifications
        .0
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a time");
    let mut command = gate.fleet();
    command
        .arg("run")
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "2000000")
        .env_remove("WATCHDOG_PID");
    let daemon = Process::start(&mut command);
    assert_eq!(notifications.next(), "READY=1\nSTATUS=no events\n");
    notifications.wait_for("WATCHDOG=1");
    assert_eq!(
        gate.ask("prepare", &event("e1", "Reboot", &["web_1", "web_2"])),
        AskAnswer::Yes
    );
    notifications.wait_for("STATUS=1 event; the audit file: ");
    // A change of another machine's event, as the watcher's first record.
    gate.record(
        json!({ "record": "change", "change": "scheduled", "event_id": "e0", "mine": false }),
    );
    notifications.wait_for("STATUS=1 event; e1: yes");
    assert_ne!(
        gate.ask("approve", &event("e1", "Reboot", &["web_1", "web_2"])),
        AskAnswer::Yes
    );
    notifications.wait_for("STATUS=1 event; e1: not yet: not ready: web_2");
    notifications.wait_for("WATCHDOG=1");
    gate.prepared("e1");
    gate.recovered("e1");
    notifications.wait_for("STATUS=no events");
    kill_process(Pid::from_child(&daemon.0), Signal::TERM).expect("sent");
    notifications.wait_for("STOPPING=1");
}

/// Starts the daemon as systemd does for a `.socket` unit: the socket is descriptor 3.
fn start_with_socket(gate: &Gate, listener: &UnixListener) -> Process {
    // It is first the standard error: processes that other tests start meanwhile do not inherit it.
    let mut command = Command::new("sh");
    let script = "log=$1; shift; exec 3>&2 2>\"$log\"; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
    command
        .arg("-c")
        .arg(script)
        .arg("sh")
        .arg(gate.folder.join("log"));
    command.stderr(OwnedFd::from(listener.try_clone().expect("a file")));
    command
        .arg(FLEET_COMMAND)
        .arg("--config")
        .arg(&gate.config)
        .arg("run");
    Process::start(&mut command)
}

#[test]
fn a_socket_of_systemd() {
    let fleet = Fleet::new("");
    let mut gate = fleet.start("web_1", None);
    gate.daemon = None;
    let socket = gate.folder.join("socket");
    std::fs::remove_file(&socket).expect("removed");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let alone = event("e1", "Reboot", &["web_1"]);
    for _ in 0..2 {
        // A question that arrives before the daemon runs waits for it.
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| gate.ask("prepare", &alone));
            std::thread::sleep(Duration::from_millis(300));
            let daemon = start_with_socket(&gate, &listener);
            assert_eq!(asked.join().expect("an answer"), AskAnswer::Yes);
            drop(daemon);
        });
    }
    // A socket at another path would be useless.
    let elsewhere = UnixListener::bind(gate.folder.join("elsewhere")).expect("a socket");
    let mut daemon = start_with_socket(&gate, &elsewhere);
    let status = wait_for("its end", || daemon.0.try_wait().expect("its state"));
    let log = std::fs::read_to_string(gate.folder.join("log")).expect("the log");
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(
        log.contains("elsewhere, and `ask` would look for the daemon at ")
            && log.contains("set `socket`"),
        "{log}"
    );
}

fn started(gate: &Gate, id: &str) {
    gate.record(json!({ "record": "change", "change": "started", "event_id": id, "mine": true }));
}

/// The machine in `status --json`.
fn machine(gate: &Gate, name: &str) -> Value {
    let status = gate.status(&["--json"]);
    let mut records = status
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a record"));
    records
        .find(|record| record["machine"] == name)
        .unwrap_or_default()
}

#[test]
fn what_azure_starts_without_a_decision_is_counted_once() {
    let fleet = Fleet::new("");
    let metrics = fleet.path().join("fleet.prom");
    let lines = format!("heartbeat = \"200ms\"\nmetrics_file = {metrics:?}");
    let (first, mut second) = (
        fleet.start("web_1", None),
        fleet.start_with("web_2", None, &lines),
    );
    let names = ["web_1", "web_2"];
    let decided = event("e1", "Reboot", &names);
    for gate in [&first, &second] {
        assert_eq!(gate.ask("prepare", &decided), AskAnswer::Yes);
        gate.prepared("e1");
    }
    assert_ne!(first.ask("approve", &decided), AskAnswer::Yes);
    assert_eq!(second.ask("approve", &decided), AskAnswer::Yes);
    // One posts, and the event starts for both.
    second.record(json!({ "record": "approval", "event_ids": ["e1"], "status": 200 }));
    started(&second, "e1");
    started(&first, "e1");
    // Then an event that nobody decided, and one that nobody asked about.
    assert_eq!(
        second.ask("prepare", &event("e2", "Reboot", &names)),
        AskAnswer::Yes
    );
    started(&second, "e2");
    started(&second, "E3");
    wait_for("two forced events", || {
        (machine(&second, "web_2")["forced"] == 2).then_some(())
    });
    let expected = json!(["e2", "E3"]);
    assert_eq!(machine(&second, "web_2")["forced_events"], expected);
    assert_eq!(
        machine(&second, "web_1")["forced"],
        0,
        "another machine's approval is one"
    );
    wait_for("the metrics", || {
        let text = std::fs::read_to_string(&metrics).unwrap_or_default();
        text.contains("\nscheduled_events_fleet_forced_total 2\n")
            .then_some(())
    });
    let log = std::fs::read_to_string(second.folder.join("log")).expect("the log");
    assert!(
        log.contains("warning: e2 was started without a decision of the gate"),
        "{log}"
    );
    assert!(!log.contains("e1 was started"), "{log}");

    // A restarted daemon reads the same records again.
    second.daemon = None;
    second.recovered("e3");
    second.start_daemon();
    started(&second, "e4");
    wait_for("another forced event", || {
        (machine(&second, "web_2")["forced"] == 3).then_some(())
    });
    assert_eq!(
        machine(&second, "web_2")["forced_events"],
        json!(["e2", "E3", "e4"])
    );
}

#[test]
fn the_manual_page() {
    let output = wait::output(Command::new(FLEET_COMMAND).arg("man"));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        text.contains(".TH scheduled-events-fleet 1") && text.contains("uncordon"),
        "{text}"
    );
}
