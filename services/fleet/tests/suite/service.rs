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
    writer.write_all(&vec![b'\n'; 65536]).expect("it fits");
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

/// Another user's process listens at the daemon's path, or the folder is another user's.
#[test]
fn a_yes_of_another_users_process_is_none() {
    const ANSWERS_YES: &str = r#"
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
while True:
    try:
        listener.accept()[0].sendall(b'{"answer":"open","why":""}\n')
    except BrokenPipeError:
        pass
"#;
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be another user");
        return;
    }
    let nobody = 65534;
    let fleet = Fleet::new("");
    let mut gate = fleet.start("web_1", None);
    let alone = event("e1", "Reboot", &["web_1"]);
    assert_eq!(gate.ask("prepare", &alone), AskAnswer::Yes);
    std::os::unix::fs::chown(&gate.folder, Some(nobody), None).expect("changed");
    let refused = |problem: &str| {
        let answer = gate.ask("prepare", &alone);
        assert!(
            matches!(&answer, AskAnswer::NotYet(why) if why.contains(problem)),
            "{answer:?}"
        );
    };
    refused(&format!(
        "the folder {} belongs to the user {nobody}",
        gate.folder.display()
    ));
    // Root may look all the same: the package's daemon has a user of its own.
    let output = wait::output(gate.fleet().args(["check", "gate"]));
    let found = String::from_utf8_lossy(&output.stdout);
    assert!(found.contains("runs for"), "{output:?}");
    std::os::unix::fs::chown(&gate.folder, Some(0), None).expect("changed");
    let opened = [fleet.path(), &gate.folder];
    for folder in opened {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder, mode).expect("changed");
    }
    gate.daemon = None;
    let socket = gate.folder.join("socket");
    std::fs::remove_file(&socket).expect("removed");
    let mut command = Command::new("python3");
    command.args(["-c", ANSWERS_YES]).arg(&socket);
    let _stranger = Process::start(std::os::unix::process::CommandExt::uid(
        &mut command,
        nobody,
    ));
    wait_for("the socket", || {
        std::os::unix::net::UnixStream::connect(&socket).ok()
    });
    let answer = gate.ask("prepare", &alone);
    assert!(
        matches!(&answer, AskAnswer::NotYet(why) if why.contains("user 65534 listens there")),
        "{answer:?}"
    );
}

#[test]
fn an_audit_file_that_cannot_be_one_ends_the_daemon_at_its_start() {
    let fleet = Fleet::new("");
    let mut gate = fleet.start("web_1", None);
    gate.daemon = None;
    let audit = gate.folder.join("audit");
    let remove = || std::fs::remove_file(&audit).expect("removed");
    let refused = |problem: &str| {
        let output = wait::output(gate.fleet().arg("run"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        let expected = format!(
            "error: cannot read the audit file {}: {problem}",
            audit.display()
        );
        assert!(errors.starts_with(&expected), "{errors}");
    };
    std::fs::create_dir(&audit).expect("a folder");
    refused("not a regular file");
    std::fs::remove_dir(&audit).expect("removed");
    std::os::unix::fs::symlink("/nowhere", &audit).expect("a link");
    refused("it is a link");
    remove();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &audit, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a pipe");
    refused("not a regular file");
    remove();
    if rustix::process::geteuid().is_root() {
        std::fs::write(&audit, "").expect("written");
        std::os::unix::fs::chown(&audit, Some(65534), None).expect("changed");
        refused("it belongs to the user 65534");
        remove();
    }
    // Something else takes its place while the daemon runs, which answers all the same.
    gate.start_daemon();
    rustix::fs::mknodat(rustix::fs::CWD, &audit, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a pipe");
    let alone = event("e1", "Reboot", &["web_1"]);
    assert_eq!(gate.ask("prepare", &alone), AskAnswer::Yes);
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
    // The other machine counts as silent until its second heartbeat, which has the folder's time.
    second.wait_for_yes("approve", &decided);
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
