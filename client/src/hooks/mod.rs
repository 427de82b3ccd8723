//! The user's commands. They run beside the polling, each in a process group of its own, and are ended at their deadline.
//!
//! A command gets the event as environment variables and as JSON on its standard input. Text from the event never becomes part of
//! a command line. What the command prints goes to the log, line by line.
//!
//! A command that is ended takes everything with it that it started. On Linux these are the processes of its group, its
//! descendants, and all processes that inherited its variable `SCHEDULED_EVENTS_COMMAND_ID`, even if they have another session or
//! parent by now. A process escapes only if it has discarded or overwritten its environment *and* its parent has ended, or if it
//! belongs to another user. On other Unix systems these are the processes of the group, and on Windows the descendants. What a
//! command that ends by itself leaves running stays: a recovery may start services.
//!
//! `control` is what the caller sees of a running command. `process` has one command from its start to its end, `pipes` its input
//! and output, `keeper` the thread that starts a command whose own thread the system refused, and `register` what a restart must
//! know about running commands.

mod control;
mod keeper;
mod pipes;
mod process;
mod register;

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub use control::{CommandEvent, CommandOutcome, RunningCommand};
pub use keeper::reserve_thread;
pub use register::register_with;
#[cfg(unix)]
pub(crate) use register::{Registered, register_commands};

use crate::limits::VARIABLE_MAX;
use crate::platform::{self, COMMAND_ID};
use crate::record::EventRecord;
use process::{Report, Task};

/// Variables that systemd sets for the watcher, and that its commands must not see.
pub(crate) const SUPERVISOR_VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// How the names of a command's variables start. Inherited ones are removed, so that each is about the event.
const VARIABLE_PREFIX: &str = "SCHEDULED_EVENTS_";

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
    /// when the command has ended. What it left running may print further lines after that.
    ///
    /// If the system is out of processes, threads or memory, starting is repeated until the deadline, or for [`COMMAND_TIME`]
    /// without one. See [`reserve_thread`] about threads.
    ///
    /// [`COMMAND_TIME`]: crate::limits::COMMAND_TIME
    pub fn start(
        &self,
        event: &EventRecord,
        extra_variables: &[(&str, &str)],
        deadline: Option<Instant>,
        on_event: impl Fn(CommandEvent) + Clone + Send + 'static,
    ) -> RunningCommand {
        self.start_with(Some(event), extra_variables, deadline, Box::new(on_event))
    }

    /// Starts the command as [`start`](Self::start) does, for no event: its standard input is empty.
    #[cfg(unix)]
    pub(crate) fn start_without_event(
        &self,
        variables: &[(&str, &str)],
        deadline: Option<Instant>,
        on_event: impl Fn(CommandEvent) + Clone + Send + 'static,
    ) -> RunningCommand {
        self.start_with(None, variables, deadline, Box::new(on_event))
    }

    fn start_with(
        &self,
        event: Option<&EventRecord>,
        extra_variables: &[(&str, &str)],
        deadline: Option<Instant>,
        on_event: Report,
    ) -> RunningCommand {
        let running = RunningCommand::new(deadline);
        let mark = mark();
        let command = self.prepare(event, extra_variables, &mark);
        let input = event.and_then(|event| serde_json::to_vec(event).ok()).unwrap_or_default();
        let program = self.words[0].clone();
        keeper::start(Task::new(command, program, input, mark, running.clone(), on_event));
        running
    }

    fn prepare(&self, event: Option<&EventRecord>, extra_variables: &[(&str, &str)], mark: &str) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, _) in env::vars_os() {
            // Windows ignores the case of names.
            if name.to_string_lossy().to_ascii_uppercase().starts_with(VARIABLE_PREFIX) {
                command.env_remove(name);
            }
        }
        let members = event.map(EventRecord::variables).unwrap_or_default();
        for (name, value) in members.into_iter().filter(|(_, value)| value.len() <= VARIABLE_MAX) {
            // A variable cannot contain a zero byte.
            command.env(format!("{VARIABLE_PREFIX}{name}"), value.replace('\0', ""));
        }
        command.envs(extra_variables.iter().copied()).env(COMMAND_ID, mark);
        for name in SUPERVISOR_VARIABLES {
            command.env_remove(name);
        }
        platform::new_group(&mut command);
        command
    }
}

/// A text that no other command has, on this machine and since it started.
pub(crate) fn mark() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{}-{time}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

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
                CommandEvent::Refused(_) => {}
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
        let path = env::temp_dir().join(format!("scheduled-events-busy-{}", std::process::id()));
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
        await_end(&lines[0]);
    }

    /// Waits until a process has ended.
    fn await_end(process: &str) {
        let stat = format!("/proc/{process}/stat");
        let deadline = Instant::now() + Duration::from_secs(20);
        while !std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")) {
            assert!(Instant::now() < deadline, "process {process} still runs");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_command_that_is_cancelled_ends_with_children_in_other_sessions() {
        // One with a parent that still runs and without the environment, and one whose parent has ended.
        let line = CommandLine::parse(
            "sh -c 'setsid env -i sleep 600 & echo $!; setsid sh -c \"sleep 600 & echo \\$!\" & sleep 600'",
        );
        let (sender, receiver) = mpsc::channel();
        let running = line.unwrap().start(&EventRecord::default(), &[], None, move |event| drop(sender.send(event)));
        let next = || receiver.recv_timeout(Duration::from_secs(40)).expect("another event");
        let children = [next(), next()];
        running.cancel();
        assert_eq!(next(), CommandEvent::Ended(CommandOutcome::Cancelled));
        for child in children {
            let CommandEvent::Line(process) = child else { panic!("{child:?}") };
            await_end(&process);
        }
    }

    #[test]
    fn what_a_command_leaves_running_stays_and_can_print() {
        let event = EventRecord::default();
        let (sender, receiver) = mpsc::channel();
        let line =
            CommandLine::parse("sh -c 'echo early; sh -c \"sleep 1; echo late; echo later >&2; sleep 1\" & exit 0'");
        let running = line.unwrap().start(&event, &[], None, move |event| drop(sender.send(event)));
        let mut events = Vec::new();
        // The pipes are closed in the end.
        while let Ok(event) = receiver.recv_timeout(Duration::from_secs(40)) {
            if matches!(event, CommandEvent::Ended(_)) {
                assert!(running.has_ended());
                running.kill();
            }
            events.push(event);
        }
        assert_eq!(events.len(), 4, "{events:?}");
        assert_eq!(events[0], CommandEvent::Line("early".into()));
        assert!(events.contains(&CommandEvent::Ended(CommandOutcome::Succeeded)), "{events:?}");
        for line in ["late", "later"] {
            assert!(events.contains(&CommandEvent::Line(line.into())), "{events:?}");
        }
    }

    #[test]
    fn much_input_and_output_and_long_lines_pass_through() {
        let event = EventRecord { event_id: "x".repeat(300_000), ..EventRecord::default() };
        let (sender, receiver) = mpsc::channel();
        let line = CommandLine::parse("sh -c 'cat; echo; seq 1 20000 >&2'").unwrap();
        line.start(&event, &[], None, move |event| drop(sender.send(event)));
        let (mut numbers, mut copied) = (0, 0);
        for event in receiver {
            match event {
                CommandEvent::Line(line) if line.starts_with(|first: char| first.is_ascii_digit()) => numbers += 1,
                CommandEvent::Line(line) => {
                    assert!(line.len() <= crate::limits::OUTPUT_LINE_MAX);
                    copied += line.len();
                }
                CommandEvent::Refused(_) => {}
                CommandEvent::Ended(outcome) => assert_eq!(outcome, CommandOutcome::Succeeded),
            }
        }
        assert_eq!((numbers, copied), (20_000, serde_json::to_vec(&event).unwrap().len()));
    }
}
