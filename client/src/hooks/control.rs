//! What the caller sees of a running command: how to end it, what it does, and how it ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::limits::{DO_NOT_RETRY, EXIT_KILL_WAIT, EXIT_SIGNAL_WAIT, EXIT_TERMINATE_WAIT};
use crate::record::HookOutcome;

/// Something that a running command did.
///
/// ```
/// use scheduled_events::hooks::{CommandEvent, CommandOutcome};
/// use scheduled_events_core::record::Printable;
///
/// let log = |event: &CommandEvent| match event {
///     // What a command prints is data from outside: escape it.
///     CommandEvent::Line(line) => format!("drain: {}", Printable(line)),
///     CommandEvent::Refused(reason) => format!("drain cannot be started yet: {reason}"),
///     CommandEvent::Ended(outcome) => format!("drain has ended: {outcome:?}"),
/// };
/// assert_eq!(log(&CommandEvent::Line("50 %\r".to_owned())), r"drain: 50 %\u{d}");
/// assert_eq!(log(&CommandEvent::Ended(CommandOutcome::Succeeded)), "drain has ended: Succeeded");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEvent {
    /// It printed a line. Control characters are not removed. Of an output that is longer than twice
    /// [`OUTPUT_PART_MAX`](crate::limits::OUTPUT_PART_MAX), the last part comes at the end, after a line that has how much was left out.
    Line(String),
    /// It cannot be started now, because the system refuses a process or a thread, for this reason. Starting is repeated. This is
    /// reported for the first command, and from time to time.
    Refused(String),
    /// It ended.
    Ended(CommandOutcome),
}

/// How a command ended.
///
/// ```
/// use std::sync::mpsc;
///
/// use scheduled_events::hooks::{CommandEvent, CommandLine, CommandOutcome};
/// use scheduled_events::record::EventRecord;
///
/// # if cfg!(not(unix)) { return Ok(()) }
/// let (sender, events) = mpsc::channel();
/// let command = CommandLine::parse("sh -c 'exit 75'")?;
/// command.start(&EventRecord::default(), &[], None, move |event| drop(sender.send(event)));
/// let end = events.iter().last();
/// assert!(matches!(end, Some(CommandEvent::Ended(CommandOutcome::Failed { code: Some(75), .. }))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

impl CommandOutcome {
    /// Logs why the command `label` did not succeed, with a severity and a message. Returns whether it succeeded.
    ///
    /// ```
    /// use scheduled_events::hooks::CommandOutcome;
    ///
    /// let log = |severity: &str, message: &str| {
    ///     assert_eq!((severity, message), ("warning", "the prepare command took too long and was terminated"));
    /// };
    /// assert!(!CommandOutcome::DeadlinePassed.log("prepare", log));
    /// ```
    pub fn log(&self, label: &str, log: fn(&str, &str)) -> bool {
        let (severity, problem) = match self {
            Self::Succeeded => return true,
            Self::Failed { reason, .. } => ("warning", format!("failed: {reason}")),
            Self::DeadlinePassed => ("warning", "took too long and was terminated".to_owned()),
            Self::Stopped => (
                "warning",
                "was terminated, because this program stops".to_owned(),
            ),
            Self::Cancelled => (
                "note",
                "was terminated, because it is not needed any more".to_owned(),
            ),
            Self::NotStarted(why) => ("error", format!("could not be started: {why}")),
        };
        log(severity, &format!("the {label} command {problem}"));
        false
    }

    /// The outcome for the command's record: `success`, or why it did not succeed. A preparation that ends with
    /// [`DO_NOT_RETRY`] is not run again.
    ///
    /// ```
    /// use scheduled_events::hooks::CommandOutcome;
    /// use scheduled_events::record::HookOutcome;
    ///
    /// assert_eq!(CommandOutcome::Succeeded.for_record(HookOutcome::Ready), HookOutcome::Ready);
    /// let failed = |code| CommandOutcome::Failed { code, reason: String::new() };
    /// assert_eq!(failed(Some(78)).for_record(HookOutcome::Ready), HookOutcome::Abandoned);
    /// assert_eq!(failed(Some(1)).for_record(HookOutcome::Ready), HookOutcome::Failed);
    /// assert_eq!(CommandOutcome::DeadlinePassed.for_record(HookOutcome::Ready), HookOutcome::TimedOut);
    /// ```
    pub const fn for_record(&self, success: HookOutcome) -> HookOutcome {
        match self {
            Self::Succeeded => success,
            Self::Failed {
                code: Some(DO_NOT_RETRY),
                ..
            } if matches!(success, HookOutcome::Ready) => HookOutcome::Abandoned,
            Self::Failed { .. } | Self::NotStarted(_) => HookOutcome::Failed,
            Self::DeadlinePassed => HookOutcome::TimedOut,
            Self::Stopped => HookOutcome::Stopped,
            Self::Cancelled => HookOutcome::Cancelled,
        }
    }
}

/// Logs that the command `label` cannot be started yet, and why.
///
/// ```
/// use scheduled_events::hooks::log_refused;
///
/// log_refused("recover", "out of memory", |severity, message| assert_eq!(
///     format!("{severity}: {message}"),
///     "warning: the recover command cannot be started yet: out of memory; this is tried again"
/// ));
/// ```
pub fn log_refused(label: &str, why: &str, log: fn(&str, &str)) {
    log(
        "warning",
        &format!("the {label} command cannot be started yet: {why}; this is tried again"),
    );
}

/// Ends commands before this process does: asks them first, then kills them.
///
/// ```
/// use scheduled_events::hooks::{CommandLine, end_all};
///
/// # if cfg!(not(unix)) { return Ok(()) }
/// let running = CommandLine::parse("sleep 60")?.start_without_event(&[], None, |_| ());
/// end_all(&[&running]);
/// assert!(running.has_ended());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn end_all(commands: &[&RunningCommand]) {
    let wait = |patience: Duration, is_done: fn(&RunningCommand) -> bool| {
        let end = Instant::now() + patience;
        while Instant::now() < end && !commands.iter().all(|command| is_done(command)) {
            thread::sleep(Duration::from_millis(10));
        }
    };
    for (ask, patience) in [
        (
            RunningCommand::terminate as fn(&RunningCommand),
            EXIT_TERMINATE_WAIT,
        ),
        (RunningCommand::kill, EXIT_KILL_WAIT),
    ] {
        for command in commands {
            ask(command);
        }
        wait(EXIT_SIGNAL_WAIT, RunningCommand::is_signalled);
        wait(patience, RunningCommand::is_reported);
    }
}

/// A command that was started.
///
/// ```
/// use std::sync::mpsc;
///
/// use scheduled_events::hooks::{CommandEvent, CommandLine, CommandOutcome};
/// use scheduled_events::record::EventRecord;
///
/// # if cfg!(not(unix)) { return Ok(()) }
/// let (sender, events) = mpsc::channel();
/// let drain = CommandLine::parse("sleep 600")?;
/// let running = drain.start(&EventRecord::default(), &[], None, move |event| drop(sender.send(event)));
/// running.cancel(); // the event was cancelled
/// assert!(matches!(events.recv(), Ok(CommandEvent::Ended(CommandOutcome::Cancelled))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RunningCommand {
    control: Arc<Mutex<Control>>,
}

/// What the caller wants of a command, and whether it has ended.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) deadline: Option<Instant>,
    pub(super) end: Option<End>,
    /// The strongest signal that was sent to all that belongs to the command.
    pub(super) signalled: Option<End>,
    pub(super) has_ended: bool,
    /// Whether the end was reported.
    pub(super) is_reported: bool,
}

/// How the caller ended a command, the stronger way last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Cancel,
    Terminate,
    Kill,
}

impl Control {
    /// Why it is time for the command to end, if it is.
    pub(super) fn reason_to_end(&self) -> Option<CommandOutcome> {
        match self.deadline {
            _ if self.end == Some(End::Cancel) => Some(CommandOutcome::Cancelled),
            _ if self.end.is_some() => Some(CommandOutcome::Stopped),
            Some(deadline) if deadline <= Instant::now() => Some(CommandOutcome::DeadlinePassed),
            _ => None,
        }
    }
}

impl RunningCommand {
    pub(super) fn new(deadline: Option<Instant>) -> Self {
        let control = Control {
            deadline,
            end: None,
            signalled: None,
            has_ended: false,
            is_reported: false,
        };
        Self {
            control: Arc::new(Mutex::new(control)),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the command and all its children to terminate, and kills them after
    /// [`COMMAND_GRACE`](crate::limits::COMMAND_GRACE): this program stops.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// use scheduled_events::hooks::{CommandEvent, CommandLine, CommandOutcome};
    /// use scheduled_events::record::EventRecord;
    ///
    /// # if cfg!(not(unix)) { return Ok(()) }
    /// let (sender, events) = mpsc::channel();
    /// let drain = CommandLine::parse("sleep 600")?;
    /// let running = drain.start(&EventRecord::default(), &[], None, move |event| drop(sender.send(event)));
    /// running.terminate(); // this program ends
    /// assert!(matches!(events.recv(), Ok(CommandEvent::Ended(CommandOutcome::Stopped))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn terminate(&self) {
        self.end(End::Terminate);
    }

    /// The same, because the command is not needed any more.
    pub fn cancel(&self) {
        self.end(End::Cancel);
    }

    /// Kills the command and all its children.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// use scheduled_events::hooks::{CommandEvent, CommandLine, CommandOutcome};
    /// use scheduled_events::record::EventRecord;
    ///
    /// # if cfg!(not(unix)) { return Ok(()) }
    /// let (sender, events) = mpsc::channel();
    /// let stubborn = CommandLine::parse("sh -c 'trap \"\" TERM; sleep 600'")?;
    /// let running = stubborn.start(&EventRecord::default(), &[], None, move |event| drop(sender.send(event)));
    /// running.kill();
    /// assert!(matches!(events.recv(), Ok(CommandEvent::Ended(CommandOutcome::Stopped))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn kill(&self) {
        self.end(End::Kill);
    }

    fn end(&self, end: End) {
        let mut control = self.lock();
        control.end = control.end.max(Some(end));
    }

    /// Whether the command has ended and that was reported.
    fn is_reported(&self) -> bool {
        self.lock().is_reported
    }

    /// Whether everything that belongs to the command was sent the signal that the caller asked for. Finding it takes time on a
    /// machine with many processes.
    fn is_signalled(&self) -> bool {
        let control = self.lock();
        control.has_ended || control.signalled >= control.end
    }

    /// Whether the command has ended.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use scheduled_events::hooks::CommandLine;
    /// use scheduled_events::record::EventRecord;
    ///
    /// # if cfg!(not(unix)) { return Ok(()) }
    /// let running = CommandLine::parse("true")?.start(&EventRecord::default(), &[], None, |_| ());
    /// while !running.has_ended() {
    ///     std::thread::sleep(Duration::from_millis(10));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn has_ended(&self) -> bool {
        self.lock().has_ended
    }
}
