//! The user's commands. They run beside the polling, each in a process group of its own, and are ended at their deadline.
//!
//! A command gets the event as environment variables and as JSON on its standard input. Text from the event never becomes part of
//! a command line. What the command prints goes to the log, line by line. Of an output that is longer than twice
//! [`OUTPUT_PART_MAX`](crate::limits::OUTPUT_PART_MAX), the log has the beginning, and at the command's end how much was left out, and the
//! last part.
//!
//! A command that is ended takes everything with it that it started. On Linux these are the processes of its group, its
//! descendants, and all processes that inherited its variable `SCHEDULED_EVENTS_COMMAND_ID`, even if they have another session or
//! parent by now. A process escapes only if it has discarded or overwritten its environment *and* its parent has ended, or if it
//! belongs to another user. On other Unix systems these are the processes of the group, and on Windows those of a job object. What a
//! command that ends by itself leaves running stays: a recovery may start services.
//!
//! `cmd.exe` expands variables before it parses a line. On Windows, batch files therefore get only variables that are harmless
//! there: no description, and no value that is long or has characters other than letters, digits and `-_.,:+`. Standard input has
//! them all.
//!
//! `control` is what the caller sees of a running command. `process` has one command from its start to its end, `pipes` its input
//! and output, `excerpt` which part of the output is reported, `keeper` the thread that starts a command whose own thread the system refused, `register` what a restart must
//! know about running commands, `first_process` what the first process of a container does, `tree` a process with all that it starts, and `words` the words of a command line. The watcher starts no
//! command: its host does, for `scheduled-events watch` that of `cli/src/watch/host.rs`.

mod control;
mod excerpt;
#[cfg(unix)]
mod first_process;
mod keeper;
mod pipes;
mod process;
mod register;
mod tree;
mod words;

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub use control::{CommandEvent, CommandOutcome, RunningCommand, end_all, log_refused};
#[cfg(unix)]
pub use first_process::{is_first_process, run_as_first_process};
pub use keeper::reserve_thread;
pub use register::{register_commands, register_with};
pub use tree::{ProcessTree, is_temporary_spawn_error};

use serde::Serialize;

use crate::limits::VARIABLE_MAX;
use crate::platform::{self, COMMAND_ID};
use crate::record::EventRecord;
use process::{Report, Task};

/// A text that [`CommandLine::parse`] splits into these words.
///
/// ```
/// use scheduled_events::hooks::{CommandLine, join};
///
/// let words = ["drain", "--note", "it's \"going\" down", ""].map(str::to_owned);
/// assert_eq!(CommandLine::parse(&join(&words)).unwrap().words(), words);
/// ```
pub fn join(words: &[String]) -> String {
    words::join(words)
}

/// Variables that systemd sets for this program, and that its commands must not see.
pub const SUPERVISOR_VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// How the names of a command's variables start. Inherited ones are removed, so that each is about the event.
const VARIABLE_PREFIX: &str = "SCHEDULED_EVENTS_";

/// A command line, split into words as a shell does and run without a shell.
///
/// ```
/// use std::sync::mpsc;
///
/// use scheduled_events::hooks::{CommandEvent, CommandLine, CommandOutcome};
/// use scheduled_events::record::EventRecord;
///
/// # if cfg!(not(unix)) { return Ok(()) }
/// let command = CommandLine::parse("printenv SCHEDULED_EVENTS_EVENT_ID")?;
/// assert!(command.program_exists());
/// assert_eq!(command.words(), ["printenv", "SCHEDULED_EVENTS_EVENT_ID"]);
/// let event = EventRecord { event_id: "a".to_owned(), ..EventRecord::default() };
/// let (sender, events) = mpsc::channel();
/// let running = command.start(&event, &[], None, move |event| drop(sender.send(event)));
/// let events: Vec<_> = events.iter().collect();
/// assert!(matches!(&events[..], [CommandEvent::Line(line), CommandEvent::Ended(CommandOutcome::Succeeded)] if line == "a"));
/// assert!(running.has_ended());
/// # Ok::<(), scheduled_events::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    words: Vec<String>,
}

impl CommandLine {
    /// Splits the text into words.
    ///
    /// # Errors
    /// [`CommandLineError`]: there is no word, or a quote is not closed; on Windows also `cmd` without `/c`, which runs what it reads. On
    /// Windows a backslash quotes nothing.
    ///
    /// ```
    /// use scheduled_events::hooks::CommandLine;
    ///
    /// assert_eq!(CommandLine::parse("drain --note 'going down'").unwrap().words(), ["drain", "--note", "going down"]);
    /// assert!(CommandLine::parse("drain 'now").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, CommandLineError> {
        let command = || text.to_owned();
        let words = words::split(text)
            .map_err(|_| CommandLineError::UnclosedQuote { command: command() })?;
        if words::reads_commands(&words) {
            return Err(CommandLineError::ReadsCommands { command: command() });
        }
        match words.first() {
            Some(program) if !program.is_empty() => Ok(Self { words }),
            _ => Err(CommandLineError::Empty),
        }
    }

    /// The program and its arguments.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Whether the program exists and, on Unix, is an executable file. This user may not be allowed to execute it.
    pub fn program_exists(&self) -> bool {
        words::program_exists(&self.words[0])
    }

    /// The files that may be the program, in the order in which they are searched for: one for a path, on Windows with the extensions of
    /// `PATHEXT`, and for a name those in the folders of `PATH`.
    ///
    /// ```
    /// use std::path::Path;
    ///
    /// use scheduled_events::hooks::CommandLine;
    ///
    /// let drain = CommandLine::parse("/opt/drain --all")?;
    /// assert!(drain.program_candidates().contains(&Path::new("/opt/drain").to_owned()));
    /// # Ok::<(), scheduled_events::Error>(())
    /// ```
    pub fn program_candidates(&self) -> Vec<PathBuf> {
        words::candidates(&self.words[0])
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
        self.start_with(
            Some(event),
            json(event),
            extra_variables,
            deadline,
            Box::new(on_event),
        )
    }

    /// Starts the command as [`start`](Self::start) does, with more members on its standard input than those of the event.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// use scheduled_events::hooks::{CommandEvent, CommandLine};
    /// use scheduled_events::record::EventRecord;
    ///
    /// # if cfg!(not(unix)) { return Ok(()) }
    /// let (sender, events) = mpsc::channel();
    /// let event = EventRecord { event_id: "a".to_owned(), ..EventRecord::default() };
    /// let more = [("zone", "2")];
    /// CommandLine::parse("cat")?.start_with_members(&event, &more, &[], None, move |event| drop(sender.send(event)));
    /// let Ok(CommandEvent::Line(line)) = events.recv() else { panic!("expected a line") };
    /// assert!(line.starts_with(r#"{"event_id":"a","#) && line.ends_with(r#","zone":"2"}"#));
    /// # Ok::<(), scheduled_events::Error>(())
    /// ```
    pub fn start_with_members(
        &self,
        event: &EventRecord,
        members: &[(&str, &str)],
        extra_variables: &[(&str, &str)],
        deadline: Option<Instant>,
        on_event: impl Fn(CommandEvent) + Clone + Send + 'static,
    ) -> RunningCommand {
        #[derive(Serialize)]
        struct Input<'a> {
            #[serde(flatten)]
            event: &'a EventRecord,
            #[serde(flatten)]
            members: BTreeMap<&'a str, &'a str>,
        }
        let input = json(&Input {
            event,
            members: members.iter().copied().collect(),
        });
        self.start_with(
            Some(event),
            input,
            extra_variables,
            deadline,
            Box::new(on_event),
        )
    }

    /// Starts the command as [`start`](Self::start) does, for no event: its standard input is empty.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// use scheduled_events::hooks::{CommandEvent, CommandLine, CommandOutcome};
    ///
    /// # if cfg!(not(unix)) { return Ok(()) }
    /// let (sender, events) = mpsc::channel();
    /// CommandLine::parse("cat")?.start_without_event(&[], None, move |event| drop(sender.send(event)));
    /// assert!(matches!(events.recv(), Ok(CommandEvent::Ended(CommandOutcome::Succeeded))));
    /// # Ok::<(), scheduled_events::Error>(())
    /// ```
    pub fn start_without_event(
        &self,
        variables: &[(&str, &str)],
        deadline: Option<Instant>,
        on_event: impl Fn(CommandEvent) + Clone + Send + 'static,
    ) -> RunningCommand {
        self.start_with(None, Vec::new(), variables, deadline, Box::new(on_event))
    }

    fn start_with(
        &self,
        event: Option<&EventRecord>,
        input: Vec<u8>,
        extra_variables: &[(&str, &str)],
        deadline: Option<Instant>,
        on_event: Report,
    ) -> RunningCommand {
        let running = RunningCommand::new(deadline);
        let mark = mark();
        let command = self.prepare(event, extra_variables, &mark);
        let program = self.words[0].clone();
        keeper::start(Task::new(
            command,
            program,
            input,
            mark,
            running.clone(),
            on_event,
        ));
        running
    }

    /// The command to start, if its program is found.
    fn prepare(
        &self,
        event: Option<&EventRecord>,
        extra_variables: &[(&str, &str)],
        mark: &str,
    ) -> Option<Command> {
        let program = words::find_program(&self.words[0])?;
        let program = AsRef::<OsStr>::as_ref(&program);
        let mut command = Command::new(program);
        command
            .args(&self.words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (name, _) in env::vars_os() {
            // Windows ignores the case of names.
            if name
                .to_string_lossy()
                .to_ascii_uppercase()
                .starts_with(VARIABLE_PREFIX)
            {
                command.env_remove(name);
            }
        }
        let members = event.map(EventRecord::variables).unwrap_or_default();
        let is_taken = |name: &str, value: &str| {
            value.len() <= VARIABLE_MAX && words::takes_variable(program, name, value)
        };
        for (name, value) in members
            .into_iter()
            .filter(|(name, value)| is_taken(name, value))
        {
            // A variable cannot contain a zero byte.
            command.env(format!("{VARIABLE_PREFIX}{name}"), value.replace('\0', ""));
        }
        let extra = extra_variables
            .iter()
            .copied()
            .filter(|(name, value)| words::takes_variable(program, name, value));
        command.envs(extra).env(COMMAND_ID, mark);
        for name in SUPERVISOR_VARIABLES {
            command.env_remove(name);
        }
        platform::new_group(&mut command);
        Some(command)
    }
}

/// Why a text is not a command that can be run.
///
/// ```
/// use scheduled_events::hooks::{CommandLine, CommandLineError};
///
/// assert_eq!(CommandLine::parse(" "), Err(CommandLineError::Empty));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandLineError {
    /// There is no word.
    Empty,
    /// A quote is not closed.
    UnclosedQuote {
        /// The text.
        command: String,
    },
    /// The command would run what it reads, which is the event.
    ReadsCommands {
        /// The text.
        command: String,
    },
}

impl fmt::Display for CommandLineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the command is empty"),
            Self::UnclosedQuote { command } => {
                write!(f, "the command {command:?} has a quote that is not closed")
            }
            Self::ReadsCommands { command } => write!(
                f,
                "the command {command:?} would run the event on its standard input; write cmd /c and a command"
            ),
        }
    }
}

impl Error for CommandLineError {}

/// What a command reads: a JSON object. Writing it to memory does not fail.
fn json(event: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(event).unwrap_or_default()
}

/// A text that no other command has, on this machine and since it started.
pub(crate) fn mark() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    format!(
        "{}-{time}-{}",
        std::process::id(),
        NUMBER.fetch_add(1, Ordering::Relaxed)
    )
}

#[cfg(test)]
mod tests;
