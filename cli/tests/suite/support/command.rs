//! The program under test as a child process.

use std::ffi::OsStr;
#[cfg(unix)]
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

#[cfg(unix)]
use super::fake_service::FakeService;
#[cfg(unix)]
use super::{Folder, VM, wait};
use super::{INTERVAL, PATIENCE};

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_scheduled-events");

/// Variables that would change the program's behaviour.
const INHERITED_VARIABLES: [&str; 14] = [
    "http_proxy",
    "https_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "SCHEDULED_EVENTS_ENDPOINT",
    "CLICOLOR_FORCE",
    "CLICOLOR",
    "NO_COLOR",
    "NOTIFY_SOCKET",
    "COLUMNS",
];

/// Starts a program independently of how the tests were started: with the default action for all
/// signals (nohup ignores SIGHUP), and with its end tied to the thread that started it, which also
/// ends when a test run is killed.
#[cfg(target_os = "linux")]
const LAUNCHER: &[&str] = &[
    "env",
    "--default-signal",
    "setpriv",
    "--pdeathsig",
    "KILL",
    "--",
];
#[cfg(all(unix, not(target_os = "linux")))]
const LAUNCHER: &[&str] = &["env"];

/// A program that the launcher starts, with pipes for its output.
pub fn launch(program: impl AsRef<OsStr>) -> Command {
    #[cfg(unix)]
    let mut command = {
        let mut command = Command::new(LAUNCHER[0]);
        command.args(&LAUNCHER[1..]).arg(program);
        command
    };
    #[cfg(windows)]
    let mut command = Command::new(program);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The program under test with these arguments, not started yet, in an environment that does not
/// depend on the user's.
pub fn command<S: AsRef<str>>(arguments: &[S]) -> Command {
    let mut command = launch(PROGRAM);
    command.args(arguments.iter().map(AsRef::as_ref));
    for name in INHERITED_VARIABLES {
        command.env_remove(name);
    }
    // Commands that outlive a killed watcher stop once this process has ended; see
    // `WHILE_TEST_RUNS`.
    command
        .env("TEST_PROCESS", process::id().to_string())
        .env("LC_ALL", "C");
    command
}

/// A shell condition for loops in commands: true while the test process runs. A killed watcher
/// leaves its commands running.
pub const WHILE_TEST_RUNS: &str = "kill -0 $TEST_PROCESS 2>/dev/null";

/// Runs the command to its end.
pub fn run<S: AsRef<str>>(arguments: &[S]) -> Finished {
    Run::start(command(arguments)).finish()
}

/// Runs the command to its end, with standard input.
pub fn run_with_input<S: AsRef<str>>(arguments: &[S], input: &[u8]) -> Finished {
    let mut command = command(arguments);
    command.stdin(Stdio::piped());
    let mut run = Run::start(command);
    let mut stdin = run.child.stdin.take().expect("a pipe");
    // A command that rejects its arguments does not read it.
    let _ = stdin.write_all(input);
    drop(stdin);
    run.finish()
}

/// The command, started by a wrapper that receives it as its arguments. The launcher starts the
/// wrapper.
#[cfg(unix)]
pub fn wrap(wrapper: &[impl AsRef<OsStr>], plain: &Command) -> Command {
    let mut whole = launch(&wrapper[0]);
    // The launcher's own program is not among its arguments.
    whole
        .args(&wrapper[1..])
        .args(plain.get_args().skip(LAUNCHER.len() - 1));
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => whole.env(name, value),
            None => whole.env_remove(name),
        };
    }
    if let Some(folder) = plain.get_current_dir() {
        whole.current_dir(folder);
    }
    whole
}

/// After the arguments of strace: it detaches from its program when it is killed, and a program
/// that hangs would stay.
#[cfg(unix)]
pub const ENDS_WITH_STRACE: &[&str] = &["setpriv", "--pdeathsig", "KILL", "--"];

/// A wrapper that runs a program as another user, without root's rights; as the same user if that
/// is not root.
#[cfg(unix)]
pub fn unprivileged(user: &str) -> Vec<String> {
    if !rustix::process::geteuid().is_root() {
        return vec!["env".to_owned()];
    }
    let options = ["--clear-groups", "--pdeathsig=KILL", "--"].map(str::to_owned);
    [
        vec![
            "setpriv".to_owned(),
            format!("--reuid={user}"),
            format!("--regid={user}"),
        ],
        options.into(),
    ]
    .concat()
}

/// A copy of the program that this user can execute, and a folder `private` that the user owns.
#[cfg(unix)]
pub fn give_away(folder: &Folder, user: &str) -> (String, String) {
    let (program, private) = (folder.path("scheduled-events"), folder.path("private"));
    if !fs::exists(&private).expect("a folder") {
        // Another process does this: if this one did, a command that another test starts meanwhile
        // would inherit the file, which would then be busy.
        assert!(
            wait::output(Command::new("cp").args([PROGRAM, &program]))
                .status
                .success()
        );
        fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("a mode");
        fs::create_dir(&private).expect("a folder");
        if rustix::process::geteuid().is_root() {
            let user = Some(user.parse().expect("a number"));
            std::os::unix::fs::chown(&private, user, user).expect("a folder to give away");
        }
        fs::set_permissions(folder.as_path(), Permissions::from_mode(0o755)).expect("a folder");
    }
    (program, private)
}

/// `watch --json` with a state file and the policy `sample`, started by a wrapper.
#[cfg(unix)]
pub fn watch_wrapped(wrapper: &[impl AsRef<OsStr>], service: &FakeService, state: &str) -> Run {
    let url = service.url();
    let every = [
        "watch",
        "--json",
        "--endpoint",
        &url,
        "--interval",
        "200ms",
        "--vm-name",
        VM,
    ];
    let plain = command(&[&every[..], &["--policy", "sample", "--state", state]].concat());
    Run::start(wrap(wrapper, &plain))
}

/// Waits until the event was approved.
pub fn wait_for_approval(run: &mut Run, id: &str) {
    run.record("an approval", |record| {
        record["record"] == "approval" && record["status"] == 200 && record["event_ids"][0] == id
    });
}

/// The diagnostic for a state file that cannot be written.
pub const STATE_NOT_WRITTEN: &str =
    "error: cannot write the state file, so a restart would lose the current state";

/// A running command. Dropping it kills the command.
pub struct Run {
    child: Child,
    stdout: Arc<Mutex<Vec<u8>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

/// A command that has ended.
#[derive(Debug)]
pub struct Finished {
    /// `None` if a signal ended it.
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
        Self {
            child,
            stdout,
            stderr,
            readers,
        }
    }

    /// `watch --json` of an endpoint, with more arguments.
    pub fn watch<S: AsRef<str>>(endpoint: &str, arguments: &[S]) -> Self {
        let mut all = vec![
            "watch",
            "--json",
            "--endpoint",
            endpoint,
            "--interval",
            "200ms",
        ];
        all.extend(arguments.iter().map(AsRef::as_ref));
        Self::start(command(&all))
    }

    /// Limits the size of the files that the command writes, or lifts the limit.
    #[cfg(unix)]
    pub fn limit_file_size(&self, bytes: Option<u64>) {
        let limit = bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
        let mut prlimit = Command::new("prlimit");
        prlimit.args([format!("--pid={}", self.id()), format!("--fsize={limit}:")]);
        assert!(wait::output(&mut prlimit).status.success());
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

    /// The records so far, without an incomplete last line.
    pub fn records(&self) -> Vec<Value> {
        records(&self.stdout())
    }

    /// Waits for the first record that passes.
    ///
    /// # Panics
    /// When none passes within [`PATIENCE`], or when the command ends before.
    pub fn record(&mut self, what: &str, passes: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        let mut checked = 0;
        loop {
            let ended = self.ended().is_some();
            // Parsing is expensive, so each line is parsed once.
            let stdout = self.stdout();
            if let Some(record) = records(&stdout[checked..]).into_iter().find(&passes) {
                return record;
            }
            checked = stdout.rfind('\n').map_or(0, |end| end + 1);
            assert!(
                !ended,
                "ended without {what}\n{}\n{}",
                self.stdout(),
                self.stderr()
            );
            assert!(
                Instant::now() < deadline,
                "no {what}\n{}\n{}",
                self.stdout(),
                self.stderr()
            );
            thread::sleep(INTERVAL);
        }
    }

    /// Waits for a change of an event.
    pub fn change(&mut self, change: &str, id: &str) -> Value {
        self.record(&format!("{change} of {id}"), |record| {
            record["record"] == "change" && record["change"] == change && record["event_id"] == id
        })
    }

    /// Waits until stderr contains a text.
    ///
    /// # Panics
    /// When it does not within [`PATIENCE`].
    pub fn wait_for_stderr(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.stderr().contains(text) {
            assert!(
                Instant::now() < deadline,
                "{text:?} is not in stderr\n{}\n{}",
                self.stdout(),
                self.stderr()
            );
            thread::sleep(INTERVAL);
        }
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// The command's peak memory so far, in KiB.
    pub fn memory_peak_kb(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("a process");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .expect("VmHWM");
        line.trim()
            .trim_end_matches(" kB")
            .parse()
            .expect("a number")
    }

    /// Kills the command.
    pub fn kill(mut self) -> Finished {
        self.child.kill().expect("a running child");
        self.finish()
    }

    /// Stops the command, which must end with exit code 0.
    pub fn stop(self) -> Finished {
        #[cfg(unix)]
        {
            self.terminate();
            self.finish().with_code(0)
        }
        // Wine passes no console event on to another process.
        #[cfg(windows)]
        self.kill()
    }

    /// Sends SIGTERM.
    #[cfg(unix)]
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

    /// Waits for the command's end, with a timeout of its own.
    ///
    /// # Panics
    /// When the command does not end in time.
    pub fn finish_within(mut self, patience: Duration) -> Finished {
        let deadline = Instant::now() + patience;
        let status = loop {
            if let Some(status) = self.ended() {
                break status;
            }
            assert!(
                Instant::now() < deadline,
                "it still runs\n{}\n{}",
                self.stdout(),
                self.stderr()
            );
            thread::sleep(INTERVAL);
        };
        Finished {
            code: status.code(),
            stdout: self.stdout(),
            stderr: self.stderr(),
        }
    }

    /// The exit status, once the command has ended and its output is read. A process that it left
    /// running may keep the pipes open, so the wait for the output has a limit.
    fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().expect("a child")?;
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.readers.iter().any(|reader| !reader.is_finished()) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
        Some(status)
    }
}

/// Sends a signal to a process.
#[cfg(unix)]
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
        self.records()
            .into_iter()
            .filter(|record| record["record"] == kind)
            .collect()
    }

    /// The changes of one event, in order.
    pub fn changes(&self, id: &str) -> Vec<String> {
        let changes = self
            .of_kind("change")
            .into_iter()
            .filter(|record| record["event_id"] == id);
        changes
            .map(|record| record["change"].as_str().expect("a word").to_owned())
            .collect()
    }

    /// The event ids of all successful approvals.
    pub fn approved(&self) -> Vec<String> {
        let done = self
            .of_kind("approval")
            .into_iter()
            .filter(|record| record["status"] == 200);
        let ids = done.flat_map(|record| record["event_ids"].as_array().expect("a list").clone());
        ids.map(|id| id.as_str().expect("an id").to_owned())
            .collect()
    }

    /// # Panics
    /// When the command ended with another code.
    #[track_caller]
    pub fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "\n{}\n{}", self.stdout, self.stderr);
        self
    }
}

/// Whether a preparation ended, with any outcome.
pub fn preparation_ended(record: &Value) -> bool {
    record["record"] == "prepare" && record["outcome"] != "begun"
}

fn records(stdout: &str) -> Vec<Value> {
    let complete = stdout.rfind('\n').map_or("", |end| &stdout[..=end]);
    let parse = |line: &str| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("not a record, {error}: {line}"))
    };
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
