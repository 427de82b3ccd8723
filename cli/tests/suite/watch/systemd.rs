//! The notifications to systemd over a real socket: ready, alive, status and stopping.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{
    FakeService, Folder, PATIENCE, PREPARE_ALL, Reply, Run, VM, WHILE_TEST_RUNS, command,
    eventually, freeze, wait, wrap,
};

/// The receiving end of systemd's notification socket.
struct Systemd {
    folder: Folder,
    socket: UnixDatagram,
    received: Vec<String>,
}

impl Systemd {
    fn new() -> Self {
        let folder = Folder::new();
        let socket = UnixDatagram::bind(folder.path("notify")).expect("a socket");
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .expect("a timeout");
        Self {
            folder,
            socket,
            received: Vec::new(),
        }
    }

    /// The command as a service with a watchdog timeout of 600 ms.
    fn service(&self, service: &FakeService, arguments: &[&str]) -> Command {
        let url = service.url();
        let common = [
            "watch",
            "--json",
            "--endpoint",
            &url,
            "--interval",
            "200ms",
            "--vm-name",
            VM,
        ];
        let mut command = command(&[&common[..], arguments].concat());
        command
            .env("NOTIFY_SOCKET", self.folder.path("notify"))
            .env("WATCHDOG_USEC", "600000");
        command
    }

    /// Receives a notification if there is one, and returns whether there was.
    fn receive(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let Ok(length) = self.socket.recv(&mut buffer) else {
            return false;
        };
        let text = std::str::from_utf8(&buffer[..length]).expect("text");
        self.received.extend(text.lines().map(str::to_owned));
        true
    }

    fn count(&self, line: &str) -> usize {
        self.received
            .iter()
            .filter(|received| *received == line)
            .count()
    }

    /// Waits until the condition returns a value, and receives notifications meanwhile: a full
    /// socket would block the watcher.
    fn eventually<T>(&mut self, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
        eventually(what, || {
            while self.receive() {}
            condition()
        })
    }

    /// Waits until the line was received `times` times in total.
    fn await_line(&mut self, line: &str, times: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.count(line) < times {
            self.receive();
            let others: Vec<_> = self
                .received
                .iter()
                .filter(|received| *received != "WATCHDOG=1")
                .collect();
            assert!(
                Instant::now() < deadline,
                "expected {line} {times} times, received {others:?}"
            );
        }
    }
}

/// The service does not answer, which delays nothing.
#[test]
fn run_is_ready_when_its_worker_has_started() {
    let (service, mut systemd) = (FakeService::start(), Systemd::new());
    service.intercept(|_| Some(Reply::new(200, "", "").after(Duration::from_secs(3600))));
    let (url, go) = (service.url(), systemd.folder.path("go"));
    let warmup = format!("sh -c 'while ! test -e {go} && {WHILE_TEST_RUNS}; do sleep 0.05; done'");
    // The worker must not notify systemd in place of `run`.
    let worker = format!(
        "test -z \"$NOTIFY_SOCKET\" || exit 9; while {WHILE_TEST_RUNS}; do sleep 0.05; done"
    );
    let arguments = [
        "run",
        "--endpoint",
        &url,
        "--vm-name",
        VM,
        "--warmup",
        &warmup,
        "--",
        "sh",
        "-c",
        &worker,
    ];
    let mut command = command(&arguments);
    command.env("NOTIFY_SOCKET", systemd.folder.path("notify"));
    let run = Run::start(command);
    while systemd.receive() {}
    assert_eq!(systemd.count("READY=1"), 0, "{:?}", systemd.received);
    std::fs::write(&go, "").expect("a file");
    systemd.await_line("READY=1", 1);
    systemd.await_line("STATUS=processing", 1);
    run.terminate();
    run.finish().with_code(143);
    while systemd.receive() {}
    assert_eq!(
        (systemd.count("READY=1"), systemd.count("STOPPING=1")),
        (1, 1),
        "{:?}",
        systemd.received
    );
}

/// The supervisor of the worker reports that, and the watcher reports its own status beside it.
#[test]
fn run_is_ready_once_while_its_watcher_reports_too() {
    let (service, mut systemd) = (FakeService::start(), Systemd::new());
    let (url, worker) = (
        service.url(),
        format!("while {WHILE_TEST_RUNS}; do sleep 0.05; done"),
    );
    let before = [
        "run",
        "--endpoint",
        &url,
        "--interval",
        "200ms",
        "--vm-name",
        VM,
        "--",
    ];
    let mut command = command(&[&before[..], &["sh", "-c", &worker]].concat());
    command.env("NOTIFY_SOCKET", systemd.folder.path("notify"));
    let run = Run::start(command);
    systemd.await_line("READY=1", 1);
    systemd.await_line("STATUS=processing; no events", 1);
    service.show(2, &[freeze("a")]);
    systemd.await_line("STATUS=processing; following 1 event", 1);
    run.terminate();
    run.finish().with_code(143);
    while systemd.receive() {}
    assert_eq!(systemd.count("READY=1"), 1, "{:?}", systemd.received);
}

#[test]
fn it_notifies_of_its_status_of_readiness_after_the_first_document_and_of_stopping() {
    let (service, mut systemd) = (FakeService::start(), Systemd::new());
    service.intercept(|_| Some(Reply::new(500, "", "READY=1\n")));
    let run = Run::start(systemd.service(&service, &[]));
    systemd.await_line("STATUS=waiting for the first document", 1);
    systemd.await_line(
        "STATUS=waiting for the first document; the last poll failed: status 500 (READY=1)",
        1,
    );
    assert_eq!(systemd.count("READY=1"), 0, "{:?}", systemd.received);
    service.intercept(|_| None);
    systemd.await_line("READY=1", 1);
    systemd.await_line("STATUS=no events", 1);
    service.show(2, &[freeze("a")]);
    systemd.await_line("STATUS=following 1 event", 1);
    service.show(3, &[freeze("a"), freeze("b")]);
    systemd.await_line("STATUS=following 2 events", 1);
    service.intercept(|_| Some(Reply::new(200, "", "")));
    systemd
        .await_line("STATUS=following 2 events; the last poll failed: the response is empty, expected a document", 1);
    // Fault 38 of `tests/field-faults.md`.
    let blind = "STATUS=blind since ";
    systemd.eventually("a blind watcher", || {
        run.stderr().contains("warning: blind: ").then_some(())
    });
    let is_blind = |line: &String| {
        line.starts_with(blind)
            && line.ends_with("UTC; following 2 events; the last poll failed: the response is empty, expected a document")
    };
    while systemd.receive() {}
    assert!(
        systemd.received.iter().any(is_blind),
        "{:?}",
        systemd.received
    );
    run.terminate();
    systemd.await_line("STOPPING=1", 1);
    run.finish().with_code(0);
    assert_eq!(systemd.count("READY=1"), 1, "{:?}", systemd.received);
}

#[test]
fn keep_alives_continue_while_a_poll_has_no_response_and_a_command_runs() {
    let (service, mut systemd) = (FakeService::start(), Systemd::new());
    service.show(2, &[freeze("a")]);
    let policy = systemd.folder.file("policy.toml", PREPARE_ALL);
    let environment = systemd.folder.path("environment");
    let prepare = format!("sh -c 'env > {environment}; exec sleep 600'");
    let _run = Run::start(systemd.service(&service, &["--policy", &policy, "--prepare", &prepare]));
    systemd.await_line("READY=1", 1);
    let variables = systemd.eventually("the command", || {
        fs::read_to_string(&environment)
            .ok()
            .filter(|text| text.contains("SCHEDULED_EVENTS_EVENT_ID=a\n"))
    });
    // Commands do not inherit systemd's variables.
    assert!(
        !variables.contains("NOTIFY_SOCKET") && !variables.contains("WATCHDOG_"),
        "{variables}"
    );
    service.intercept(|_| Some(Reply::raw("").after(Duration::from_secs(600))));
    let polls = service.polls();
    systemd.eventually("a poll", || (service.polls() > polls).then_some(()));
    let known = systemd.count("WATCHDOG=1");
    systemd.await_line("WATCHDOG=1", known + 8);
}

#[test]
fn keep_alives_stop_while_the_loop_hangs() {
    let (service, mut systemd) = (FakeService::start(), Systemd::new());
    // A disk that is slow after the two calls that create the state file.
    let path = systemd.folder.path("state");
    let disk = [
        "strace",
        "-D",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "inject=fsync:delay_enter=5000000:when=3+",
    ];
    let mut watch = wrap(&disk, &systemd.service(&service, &["--state", &path]));
    watch.stdout(Stdio::null()).stderr(Stdio::null());
    let mut watch = watch.spawn().expect("strace starts");
    systemd.await_line("WATCHDOG=1", 3);
    service.show(2, &[freeze("a")]);
    eventually("no keep-alives", || {
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(2) {
            if systemd.receive() {
                return None;
            }
        }
        Some(())
    });
    assert!(watch.try_wait().expect("a child").is_none(), "it ended");
    watch.kill().expect("a child");
    wait::ended(&mut watch);
}

#[test]
fn nothing_is_sent_without_a_socket_and_no_keep_alives_without_a_watchdog() {
    let (service, mut systemd) = (FakeService::start(), Systemd::new());
    let mut command = systemd.service(&service, &["--max-polls", "3"]);
    command.env_remove("NOTIFY_SOCKET");
    Run::start(command).finish().with_code(0);
    assert!(!systemd.receive(), "{:?}", systemd.received);
    // A unit without a watchdog gets the other notifications.
    let mut command = systemd.service(&service, &["--max-polls", "3"]);
    command.env_remove("WATCHDOG_USEC");
    Run::start(command).finish().with_code(0);
    while systemd.receive() {}
    assert_eq!(
        (systemd.count("READY=1"), systemd.count("WATCHDOG=1")),
        (1, 0),
        "{:?}",
        systemd.received
    );
}
