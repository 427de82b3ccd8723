//! The user's commands. They run beside the polling, each in a process group of its own, and are ended at their deadline.
//!
//! A command gets the event as environment variables and as JSON on its standard input. Text from the event never becomes part of
//! a command line. What the command prints goes to the log, line by line.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{self, Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::limits::{COMMAND_GRACE, OUTPUT_LINE_MAX, VARIABLE_MAX};
use crate::platform;
use crate::record::EventRecord;

/// How often a running command is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The delay before starting a command is tried again after the system refused.
const SPAWN_RETRY: Duration = Duration::from_millis(250);

/// How long the last output of a command is waited for after its end. A process that it left behind may keep the pipe open.
const OUTPUT_GRACE: Duration = Duration::from_millis(200);

/// Variables that systemd sets for the watcher, and that its commands must not see.
const SUPERVISOR_VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// A command line, split into words as a shell does and run without a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    words: Vec<String>,
}

impl CommandLine {
    /// Splits the text into words.
    ///
    /// # Errors
    /// A sentence that says what is wrong: there is no word, or a quote is not closed.
    ///
    /// ```
    /// use scheduled_events::hooks::CommandLine;
    ///
    /// assert_eq!(CommandLine::parse("drain --note 'going down'").unwrap().words(), ["drain", "--note", "going down"]);
    /// assert!(CommandLine::parse("drain 'now").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        let words =
            shell_words::split(text).map_err(|_| format!("the command {text:?} has a quote that is not closed"))?;
        match words.first() {
            Some(program) if !program.is_empty() => Ok(Self { words }),
            _ => Err("the command is empty".into()),
        }
    }

    /// The program and its arguments.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Whether the program exists. It may not be executable.
    pub fn program_exists(&self) -> bool {
        let program = Path::new(&self.words[0]);
        // As the system does: a name with a folder is a path, any other one is searched for.
        if program.components().count() > 1 || program.has_root() {
            return program.exists();
        }
        let folders = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&folders)
            .any(|folder| folder.join(program).exists() || folder.join(program).with_extension("exe").exists())
    }

    /// Starts the command for an event. `on_event` is called on other threads: for each line that the command prints, and once
    /// when the command has ended. If the system is out of processes or memory, starting is repeated until the deadline.
    pub fn start(
        &self,
        event: &EventRecord,
        extra_variables: &[(&str, &str)],
        deadline: Option<Instant>,
        on_event: impl Fn(CommandEvent) + Clone + Send + 'static,
    ) -> RunningCommand {
        let control =
            Arc::new(Mutex::new(Control { deadline, terminate: false, cancel: false, kill: false, has_ended: false }));
        let running = RunningCommand { control: Arc::clone(&control) };
        let mut command = self.prepare(event, extra_variables);
        let input = serde_json::to_vec(event).unwrap_or_default();
        let program = self.words[0].clone();
        let not_started = move |error: &io::Error| CommandOutcome::NotStarted(format!("{program}: {error}"));
        let (no_thread, report) = (not_started.clone(), on_event.clone());
        let supervisor = thread::Builder::new().spawn(move || {
            let outcome = match spawn(&mut command, &control) {
                Ok(mut child) => supervise(&mut child, input, &control, &on_event).unwrap_or_else(|error| {
                    platform::kill_group(&mut child);
                    let _ = child.wait();
                    not_started(&error)
                }),
                Err(error) => not_started(&error),
            };
            lock(&control).has_ended = true;
            on_event(CommandEvent::Ended(outcome));
        });
        if let Err(error) = supervisor {
            lock(&running.control).has_ended = true;
            report(CommandEvent::Ended(no_thread(&error)));
        }
        running
    }

    fn prepare(&self, event: &EventRecord, extra_variables: &[(&str, &str)]) -> process::Command {
        let mut command = process::Command::new(&self.words[0]);
        command.args(&self.words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, value) in event.variables().into_iter().filter(|(_, value)| value.len() <= VARIABLE_MAX) {
            // A variable cannot contain a zero byte.
            command.env(format!("SCHEDULED_EVENTS_{name}"), value.replace('\0', ""));
        }
        command.envs(extra_variables.iter().copied());
        for name in SUPERVISOR_VARIABLES {
            command.env_remove(name);
        }
        platform::new_group(&mut command);
        command
    }
}

/// Something that a running command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEvent {
    /// It printed a line. Control characters are not removed.
    Line(String),
    /// It ended.
    Ended(CommandOutcome),
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// With exit code 0.
    Succeeded,
    /// With another exit code or by a signal, as described.
    Failed {
        /// The exit code; `None` if a signal ended it.
        code: Option<i32>,
        /// What happened.
        reason: String,
    },
    /// It was ended because its deadline had passed.
    DeadlinePassed,
    /// It was ended through [`RunningCommand::terminate`] or [`RunningCommand::kill`].
    Stopped,
    /// It was ended through [`RunningCommand::cancel`].
    Cancelled,
    /// It could not be started, for this reason.
    NotStarted(String),
}

/// A command that was started.
#[derive(Clone, Debug)]
pub struct RunningCommand {
    control: Arc<Mutex<Control>>,
}

#[derive(Debug)]
struct Control {
    deadline: Option<Instant>,
    terminate: bool,
    cancel: bool,
    kill: bool,
    has_ended: bool,
}

impl Control {
    /// Why it is time for the command to end, if it is.
    fn reason_to_end(&self) -> Option<CommandOutcome> {
        match self.deadline {
            _ if self.terminate => Some(CommandOutcome::Stopped),
            _ if self.cancel => Some(CommandOutcome::Cancelled),
            Some(deadline) if deadline <= Instant::now() => Some(CommandOutcome::DeadlinePassed),
            _ => None,
        }
    }
}

fn lock(control: &Mutex<Control>) -> MutexGuard<'_, Control> {
    control.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunningCommand {
    /// Asks the command and all its children to terminate, and kills them after [`COMMAND_GRACE`].
    pub fn terminate(&self) {
        lock(&self.control).terminate = true;
    }

    /// Like [`terminate`](Self::terminate), because the command is not needed any more.
    pub fn cancel(&self) {
        lock(&self.control).cancel = true;
    }

    /// Kills the command and all its children.
    pub fn kill(&self) {
        let mut control = lock(&self.control);
        (control.terminate, control.kill) = (true, true);
    }

    /// Whether the command has ended.
    pub fn has_ended(&self) -> bool {
        lock(&self.control).has_ended
    }
}

/// Starts the process, and repeats that while the system is out of processes or memory.
fn spawn(command: &mut process::Command, control: &Mutex<Control>) -> io::Result<Child> {
    loop {
        let error = match command.spawn() {
            Err(error) if platform::is_temporary_spawn_error(&error) => error,
            result => return result,
        };
        if lock(control).reason_to_end().is_some() {
            return Err(error);
        }
        thread::sleep(SPAWN_RETRY);
    }
}

/// Writes the command's input, reports its output, and waits for its end.
fn supervise(
    child: &mut Child,
    input: Vec<u8>,
    control: &Mutex<Control>,
    on_event: &(impl Fn(CommandEvent) + Clone + Send + 'static),
) -> io::Result<CommandOutcome> {
    write_input(child, input)?;
    let readers = [read_lines(child.stdout.take(), on_event)?, read_lines(child.stderr.take(), on_event)?];
    let outcome = wait(child, control);
    let deadline = Instant::now() + OUTPUT_GRACE;
    while readers.iter().any(|reader| !reader.is_finished()) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(2));
    }
    Ok(outcome)
}

/// Waits for the command's end, and ends it when it is time.
fn wait(child: &mut Child, control: &Mutex<Control>) -> CommandOutcome {
    let mut ending: Option<(Instant, CommandOutcome)> = None;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                if let Some((_, reason)) = ending {
                    // The command has ended; its children may not have.
                    platform::kill_group(child);
                    return reason;
                }
                return if status.success() {
                    CommandOutcome::Succeeded
                } else {
                    CommandOutcome::Failed { code: status.code(), reason: status.to_string() }
                };
            }
            Ok(None) => {}
            Err(error) => return CommandOutcome::Failed { code: None, reason: error.to_string() },
        }
        let (reason, kill) = {
            let control = lock(control);
            (control.reason_to_end(), control.kill)
        };
        match (&ending, reason) {
            (None, Some(reason)) => {
                if kill {
                    platform::kill_group(child);
                } else {
                    platform::terminate_group(child);
                }
                ending = Some((Instant::now(), reason));
            }
            (Some((since, _)), _) if kill || since.elapsed() >= COMMAND_GRACE => platform::kill_group(child),
            _ => {}
        }
        thread::sleep(CHECK_INTERVAL);
    }
}

/// Writes the command's input on a thread of its own, since the command need not read it.
fn write_input(child: &mut Child, input: Vec<u8>) -> io::Result<()> {
    if let Some(mut stdin) = child.stdin.take() {
        thread::Builder::new().spawn(move || {
            let _ = stdin.write_all(&input);
        })?;
    }
    Ok(())
}

/// Reports the lines of a pipe, on a thread of its own.
fn read_lines(
    pipe: Option<impl Read + Send + 'static>,
    on_event: &(impl Fn(CommandEvent) + Clone + Send + 'static),
) -> io::Result<thread::JoinHandle<()>> {
    let on_event = on_event.clone();
    thread::Builder::new().spawn(move || {
        let Some(pipe) = pipe else { return };
        let mut reader = BufReader::new(pipe);
        let mut line = Vec::new();
        while reader.by_ref().take(OUTPUT_LINE_MAX).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line);
            on_event(CommandEvent::Line(text.trim_end_matches(['\n', '\r']).to_owned()));
            line.clear();
        }
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn run(command: &str, timeout: Option<Duration>) -> (Vec<String>, CommandOutcome) {
        let event = EventRecord {
            event_id: "a'; touch /tmp/never; '".into(),
            event_type: Some("$(reboot)".into()),
            ..EventRecord::default()
        };
        let (sender, receiver) = mpsc::channel();
        let line = CommandLine::parse(command).unwrap();
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let _running = line.start(&event, &[("SCHEDULED_EVENTS_CHANGE", "scheduled")], deadline, move |event| {
            let _ = sender.send(event);
        });
        let mut lines = Vec::new();
        loop {
            match receiver.recv_timeout(Duration::from_secs(40)).expect("the command ends") {
                CommandEvent::Line(line) => lines.push(line),
                CommandEvent::Ended(outcome) => return (lines, outcome),
            }
        }
    }

    #[test]
    fn a_command_gets_the_event_as_environment_and_as_json_never_as_arguments() {
        let (lines, outcome) = run(
            "sh -c 'echo \"$SCHEDULED_EVENTS_EVENT_ID|$SCHEDULED_EVENTS_EVENT_TYPE|$SCHEDULED_EVENTS_CHANGE\"'",
            None,
        );
        assert_eq!(lines, ["a'; touch /tmp/never; '|$(reboot)|scheduled"]);
        assert_eq!(outcome, CommandOutcome::Succeeded);
        let (lines, _) = run("cat", None);
        let event: serde_json::Value = serde_json::from_str(&lines.concat()).unwrap();
        assert_eq!(event["event_type"], "$(reboot)");
    }

    #[test]
    fn programs_are_searched_for_in_path_unless_they_name_a_folder() {
        for (line, exists) in
            [("sh -c 'exit 3'", true), ("/bin/sh", true), ("/nonexistent/sh", false), ("no-such-sh", false)]
        {
            assert_eq!(CommandLine::parse(line).unwrap().program_exists(), exists, "{line}");
        }
    }

    #[test]
    fn a_program_that_is_being_written_starts_once_that_is_done() {
        let path = env::temp_dir().join(format!("scheduled-events-busy-{}", process::id()));
        std::fs::copy("/bin/true", &path).unwrap();
        let writer = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        let done = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            drop(writer);
        });
        assert_eq!(run(path.to_str().unwrap(), Some(Duration::from_secs(30))).1, CommandOutcome::Succeeded);
        done.join().unwrap();
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_failure_is_reported_with_the_exit_code_or_the_program() {
        assert!(matches!(run("sh -c 'exit 3'", None).1, CommandOutcome::Failed { code: Some(3), .. }));
        let outcome = run("/nonexistent/program", None).1;
        assert!(
            matches!(&outcome, CommandOutcome::NotStarted(reason) if reason.contains("/nonexistent/program")),
            "{outcome:?}"
        );
    }

    #[test]
    fn a_command_past_its_deadline_is_killed_with_its_children() {
        // The shell ignores SIGTERM, and so does its child.
        let (lines, outcome) =
            run("sh -c 'trap \"\" TERM; sleep 600 & echo $!; wait; wait; sleep 600'", Some(Duration::from_millis(500)));
        assert_eq!(outcome, CommandOutcome::DeadlinePassed);
        let stat = format!("/proc/{}/stat", lines[0]);
        let has_ended = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        let deadline = Instant::now() + Duration::from_secs(20);
        while !has_ended() {
            assert!(Instant::now() < deadline, "process {} still runs", lines[0]);
            thread::sleep(Duration::from_millis(10));
        }
    }
}
