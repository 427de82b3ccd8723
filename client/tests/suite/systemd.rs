//! What systemd is told, by the real command over a real socket: ready, alive, how it is doing, stopping.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Folder, PATIENCE, PREPARE_ALL, Reply, Run, Stage, VM, behind, command, eventually, freeze};

/// Systemd, as far as the command knows it.
struct Systemd {
    folder: Folder,
    socket: UnixDatagram,
    heard: Vec<String>,
}

impl Systemd {
    fn new() -> Self {
        let folder = Folder::new();
        let socket = UnixDatagram::bind(folder.path("notify")).expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
        Self { folder, socket, heard: Vec::new() }
    }

    /// The command as a service of it, with 600 ms to say that it is alive.
    fn service(&self, stage: &Stage, arguments: &[&str]) -> Command {
        let url = stage.url();
        let common = ["watch", "--json", "--endpoint", &url, "--interval", "200ms", "--vm-name", VM];
        let mut command = command(&[&common[..], arguments].concat());
        command.env("NOTIFY_SOCKET", self.folder.path("notify")).env("WATCHDOG_USEC", "600000");
        command
    }

    /// Takes what has come; whether anything has.
    fn listen(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let Ok(length) = self.socket.recv(&mut buffer) else { return false };
        let text = std::str::from_utf8(&buffer[..length]).expect("text");
        self.heard.extend(text.lines().map(str::to_owned));
        true
    }

    fn count(&self, line: &str) -> usize {
        self.heard.iter().filter(|heard| *heard == line).count()
    }

    /// Waits until the condition gives something, and listens all the while: a few notices that nobody takes, and the
    /// next one waits.
    fn eventually<T>(&mut self, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
        eventually(what, || {
            while self.listen() {}
            condition()
        })
    }

    /// Waits for a line, so many times in all.
    fn await_line(&mut self, line: &str, times: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.count(line) < times {
            self.listen();
            assert!(Instant::now() < deadline, "no {line} {times} times, but {:?}", self.heard);
        }
    }
}

#[test]
fn it_is_ready_once_a_document_was_read_and_says_how_it_is_doing_and_that_it_stops() {
    let (stage, mut systemd) = (Stage::start(), Systemd::new());
    stage.intercept(|_| Some(Reply::new(500, "", "READY=1\n")));
    let run = Run::start(systemd.service(&stage, &[]));
    systemd.await_line("STATUS=waiting for the first document", 1);
    systemd.await_line("STATUS=waiting for the first document; the last poll failed: status 500", 1);
    assert_eq!(systemd.count("READY=1"), 0, "{:?}", systemd.heard);
    stage.intercept(|_| None);
    systemd.await_line("READY=1", 1);
    systemd.await_line("STATUS=no events", 1);
    stage.show(2, &[freeze("a")]);
    systemd.await_line("STATUS=following 1 event", 1);
    stage.show(3, &[freeze("a"), freeze("b")]);
    systemd.await_line("STATUS=following 2 events", 1);
    stage.intercept(|_| Some(Reply::new(200, "", "")));
    systemd
        .await_line("STATUS=following 2 events; the last poll failed: the response is empty, expected a document", 1);
    run.terminate();
    systemd.await_line("STOPPING=1", 1);
    run.finish().with_code(0);
    assert_eq!(systemd.count("READY=1"), 1, "{:?}", systemd.heard);
}

#[test]
fn it_says_that_it_is_alive_while_a_poll_gets_no_answer_and_a_command_runs() {
    let (stage, mut systemd) = (Stage::start(), Systemd::new());
    stage.show(2, &[freeze("a")]);
    let policy = systemd.folder.file("policy.toml", PREPARE_ALL);
    let environment = systemd.folder.path("environment");
    let prepare = format!("sh -c 'env > {environment}; sleep 600'");
    let _run = Run::start(systemd.service(&stage, &["--policy", &policy, "--prepare", &prepare]));
    systemd.await_line("READY=1", 1);
    let variables = systemd.eventually("the command", || {
        fs::read_to_string(&environment).ok().filter(|text| text.contains("SCHEDULED_EVENTS_EVENT_ID=a\n"))
    });
    // What systemd told the watch is no business of its commands.
    assert!(!variables.contains("NOTIFY_SOCKET") && !variables.contains("WATCHDOG_"), "{variables}");
    stage.intercept(|_| Some(Reply::raw("").after(Duration::from_secs(600))));
    let polls = stage.polls();
    systemd.eventually("a poll", || (stage.polls() > polls).then_some(()));
    let known = systemd.count("WATCHDOG=1");
    systemd.await_line("WATCHDOG=1", known + 8);
}

#[test]
fn a_loop_that_hangs_no_longer_says_that_it_is_alive() {
    let (stage, mut systemd) = (Stage::start(), Systemd::new());
    // A disk that takes its time, behind the two calls with which the state file is made.
    let path = systemd.folder.path("state");
    let disk = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "inject=fsync:delay_enter=8000000:when=3+"];
    let mut watch = behind(&disk, &systemd.service(&stage, &["--state", &path]));
    watch.stdout(Stdio::null()).stderr(Stdio::null());
    let mut watch = watch.spawn().expect("strace starts");
    systemd.await_line("WATCHDOG=1", 3);
    stage.show(2, &[freeze("a")]);
    eventually("silence", || {
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(2) {
            if systemd.listen() {
                return None;
            }
        }
        Some(())
    });
    assert!(watch.try_wait().expect("a child").is_none(), "it ended");
    watch.kill().expect("a child");
    watch.wait().expect("a child");
}

#[test]
fn nothing_is_said_where_nobody_asks() {
    let (stage, mut systemd) = (Stage::start(), Systemd::new());
    let mut command = systemd.service(&stage, &["--max-polls", "3"]);
    command.env_remove("NOTIFY_SOCKET");
    Run::start(command).finish().with_code(0);
    assert!(!systemd.listen(), "{:?}", systemd.heard);
    // A unit without a watchdog hears of everything else.
    let mut command = systemd.service(&stage, &["--max-polls", "3"]);
    command.env_remove("WATCHDOG_USEC");
    Run::start(command).finish().with_code(0);
    while systemd.listen() {}
    assert_eq!((systemd.count("READY=1"), systemd.count("WATCHDOG=1")), (1, 0), "{:?}", systemd.heard);
}
