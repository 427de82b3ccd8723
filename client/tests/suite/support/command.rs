//! The real command as a child process.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::stage::Stage;
use super::{PATIENCE, VM};

/// The command with these arguments, not started yet; the environment says nothing about endpoints, proxies or colours.
pub fn command<S: AsRef<str>>(arguments: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scheduled-events"));
    command.args(arguments.iter().map(AsRef::as_ref));
    for name in
        ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"]
    {
        command.env_remove(name);
    }
    for name in ["SCHEDULED_EVENTS_ENDPOINT", "CLICOLOR_FORCE", "CLICOLOR", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the command to its end.
pub fn run<S: AsRef<str>>(arguments: &[S]) -> Finished {
    Run::start(command(arguments)).finish()
}

/// Runs the command to its end, with something on standard input.
pub fn run_with_input<S: AsRef<str>>(arguments: &[S], input: &[u8]) -> Finished {
    let mut command = command(arguments);
    command.stdin(Stdio::piped());
    let mut run = Run::start(command);
    let mut stdin = run.child.stdin.take().expect("a pipe");
    // A command that refuses its arguments does not read.
    let _ = stdin.write_all(input);
    drop(stdin);
    run.finish()
}

/// The command behind a wrapper that it is handed to as its arguments.
pub fn behind(wrapper: &[&str], plain: &Command) -> Command {
    let mut whole = Command::new(wrapper[0]);
    whole.args(&wrapper[1..]).arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => whole.env(name, value),
            None => whole.env_remove(name),
        };
    }
    whole.stdin(Stdio::null());
    whole.stdout(Stdio::piped()).stderr(Stdio::piped());
    whole
}

/// `watch --json` with a state file and the policy `sample`, behind a wrapper.
pub fn watch_behind(wrapper: &[&str], service: &Stage, state: &str) -> Run {
    let url = service.url();
    let every = ["watch", "--json", "--endpoint", &url, "--interval", "200ms", "--vm-name", VM];
    let plain = command(&[&every[..], &["--policy", "sample", "--state", state]].concat());
    Run::start(behind(wrapper, &plain))
}

/// Waits for an approval.
pub fn approved(run: &mut Run, id: &str) {
    run.record("an approval", |record| {
        record["record"] == "approval" && record["status"] == 200 && record["event_ids"][0] == id
    });
}

/// What a watch says when its state file could not be written.
pub const STATE_NOT_WRITTEN: &str = "error: the state file could not be written, so a restart would forget";

/// A command that runs. It is killed when a test gives up on it.
pub struct Run {
    child: Child,
    stdout: Arc<Mutex<Vec<u8>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

/// A command that has ended.
#[derive(Debug)]
pub struct Finished {
    /// `None` where a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the command starts");
        let (stdout, stderr) = (Arc::default(), Arc::default());
        let readers = vec![
            collect(child.stdout.take().expect("a pipe"), &stdout),
            collect(child.stderr.take().expect("a pipe"), &stderr),
        ];
        Self { child, stdout, stderr, readers }
    }

    /// `watch --json` of an endpoint, with more arguments.
    pub fn watch<S: AsRef<str>>(endpoint: &str, arguments: &[S]) -> Self {
        let mut all = vec!["watch", "--json", "--endpoint", endpoint, "--interval", "200ms"];
        all.extend(arguments.iter().map(AsRef::as_ref));
        Self::start(command(&all))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn stdout(&self) -> String {
        text(&self.stdout)
    }

    pub fn stderr(&self) -> String {
        text(&self.stderr)
    }

    /// The records so far; a last line that is not complete yet is left out.
    pub fn records(&self) -> Vec<Value> {
        records(&self.stdout())
    }

    /// Waits for the first record that passes.
    ///
    /// # Panics
    /// When none does within [`PATIENCE`], or when the command ends before.
    pub fn record(&mut self, what: &str, passes: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = self.ended().is_some();
            if let Some(record) = self.records().into_iter().find(&passes) {
                return record;
            }
            assert!(!ended, "ended without {what}\n{}\n{}", self.stdout(), self.stderr());
            assert!(Instant::now() < deadline, "no {what}\n{}\n{}", self.stdout(), self.stderr());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for a change of an event.
    pub fn change(&mut self, change: &str, id: &str) -> Value {
        self.record(&format!("{change} of {id}"), |record| {
            record["record"] == "change" && record["change"] == change && record["event_id"] == id
        })
    }

    /// Waits until stderr holds a text.
    ///
    /// # Panics
    /// When it does not within [`PATIENCE`].
    pub fn says(&self, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.stderr().contains(words) {
            assert!(Instant::now() < deadline, "{words:?} was not said\n{}\n{}", self.stdout(), self.stderr());
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// The largest amount of memory that the command has used so far, in kilobytes.
    pub fn memory_peak_kb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Ends the command as a crash would.
    pub fn kill(mut self) -> Finished {
        self.child.kill().expect("a running child");
        self.finish()
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        signal(self.id(), Signal::TERM);
    }

    /// Waits for the command's end.
    ///
    /// # Panics
    /// When it does not end within [`PATIENCE`].
    pub fn finish(self) -> Finished {
        self.finish_within(PATIENCE)
    }

    /// Waits for the command's end, which may take longer than usual.
    ///
    /// # Panics
    /// When it does not end within that time.
    pub fn finish_within(mut self, patience: Duration) -> Finished {
        let deadline = Instant::now() + patience;
        let status = loop {
            if let Some(status) = self.ended() {
                break status;
            }
            assert!(Instant::now() < deadline, "it goes on\n{}\n{}", self.stdout(), self.stderr());
            thread::sleep(Duration::from_millis(10));
        };
        Finished { code: status.code(), stdout: self.stdout(), stderr: self.stderr() }
    }

    /// How it ended, once all that it printed is here. Something that it left behind may hold its pipes open, so that
    /// is waited for with measure.
    fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().expect("a child")?;
        let deadline = Instant::now() + Duration::from_secs(2);
        while self.readers.iter().any(|reader| !reader.is_finished()) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
        Some(status)
    }
}

/// Sends a signal to a process.
pub fn signal(process: u32, signal: Signal) {
    let pid = Pid::from_raw(process.cast_signed()).expect("a process id");
    kill_process(pid, signal).expect("a running process");
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Finished {
    pub fn records(&self) -> Vec<Value> {
        records(&self.stdout)
    }

    /// The records of one kind.
    pub fn of_kind(&self, kind: &str) -> Vec<Value> {
        self.records().into_iter().filter(|record| record["record"] == kind).collect()
    }

    /// The changes of one event, in their order.
    pub fn changes(&self, id: &str) -> Vec<String> {
        let changes = self.of_kind("change").into_iter().filter(|record| record["event_id"] == id);
        changes.map(|record| record["change"].as_str().expect("a word").to_owned()).collect()
    }

    /// The ids that were approved, once for each approval that succeeded.
    pub fn approved(&self) -> Vec<String> {
        let done = self.of_kind("approval").into_iter().filter(|record| record["status"] == 200);
        let ids = done.flat_map(|record| record["event_ids"].as_array().expect("a list").clone());
        ids.map(|id| id.as_str().expect("an id").to_owned()).collect()
    }

    /// # Panics
    /// When it ended with another code.
    #[track_caller]
    pub fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "\n{}\n{}", self.stdout, self.stderr);
        self
    }
}

fn records(stdout: &str) -> Vec<Value> {
    let complete = stdout.rfind('\n').map_or("", |end| &stdout[..=end]);
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("no record, {error}: {line}"));
    complete.lines().map(parse).collect()
}

fn text(bytes: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&bytes.lock().expect("a lock")).into_owned()
}

fn collect(pipe: impl Read + Send + 'static, into: &Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    let into = Arc::clone(into);
    thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        while let Ok(bytes) = reader.fill_buf() {
            let length = bytes.len();
            if length == 0 {
                return;
            }
            into.lock().expect("a lock").extend_from_slice(bytes);
            reader.consume(length);
        }
    })
}
