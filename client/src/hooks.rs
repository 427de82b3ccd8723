//! Commands that are run for the user: beside the polling, in a process group of their own, ended at their deadline.
//!
//! A command gets the event as environment variables and as JSON on its standard input; event text never becomes part
//! of a command line. What it prints goes to the log, line by line.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{self, Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::platform;
use crate::record::EventRecord;

/// How long a command that was asked to end has before it is ended for good.
pub const GRACE: Duration = Duration::from_secs(2);

/// How often a running command is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The longest line of a command's output that is kept whole.
const LINE_MAX: u64 = 4096;

/// The longest variable that a command gets, in bytes: Linux starts no command with one of 128 KiB. A longer one is left
/// out, since half of a list misleads; standard input has it all.
const VARIABLE_MAX: usize = 96 * 1024;

/// A command line, split as a shell splits words, run without a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    words: Vec<String>,
}

impl CommandLine {
    /// Splits the text into words.
    ///
    /// # Errors
    /// A sentence that says what is wrong: no word, or a quote that is not closed.
    ///
    /// ```
    /// use scheduled_events::hooks::CommandLine;
    ///
    /// assert_eq!(CommandLine::parse("drain --note 'going down'").unwrap().words(), ["drain", "--note", "going down"]);
    /// assert!(CommandLine::parse("drain 'now").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        let words = shell_words::split(text).map_err(|_| format!("a quote is not closed in the command {text:?}"))?;
        match words.first() {
            Some(program) if !program.is_empty() => Ok(Self { words }),
            _ => Err("the command is empty".into()),
        }
    }

    /// The program and its arguments.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Starts the command for an event. `tell` is called from other threads: for each line that the command prints, and
    /// once when it has ended.
    pub fn start(
        &self,
        event: &EventRecord,
        extra: &[(&str, &str)],
        deadline: Option<Instant>,
        tell: impl Fn(Told) + Clone + Send + 'static,
    ) -> Running {
        let control = Arc::new(Mutex::new(Control { deadline, end: false, end_for_good: false, ended: false }));
        let running = Running { control: Arc::clone(&control) };
        let mut command = process::Command::new(&self.words[0]);
        command.args(&self.words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, value) in event.variables().into_iter().filter(|(_, value)| value.len() <= VARIABLE_MAX) {
            // The system knows no variable with a zero byte in it.
            command.env(format!("SCHEDULED_EVENTS_{name}"), value.replace('\0', ""));
        }
        command.envs(extra.iter().copied());
        // What systemd told the watch is meant for the watch alone.
        for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] {
            command.env_remove(name);
        }
        platform::in_own_group(&mut command);
        let input = serde_json::to_vec(event).unwrap_or_default();
        thread::spawn(move || {
            let ended = match command.spawn() {
                Ok(mut child) => {
                    feed(&mut child, input);
                    let reading = [listen(child.stdout.take(), &tell), listen(child.stderr.take(), &tell)];
                    let ended = wait(&mut child, &control);
                    finish(&reading);
                    ended
                }
                Err(error) => Ended::NotStarted(error.to_string()),
            };
            control.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
            tell(Told::Ended(ended));
        });
        running
    }
}

/// What a running command has to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A line of its output, control characters and all.
    Line(String),
    /// It has ended.
    Ended(Ended),
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With exit code 0.
    Well,
    /// With another exit code, or by a signal.
    Badly(String),
    /// It was ended because its deadline had passed, or because the program stops.
    Stopped,
    /// It could not be started.
    NotStarted(String),
}

/// A command that was started.
#[derive(Clone, Debug)]
pub struct Running {
    control: Arc<Mutex<Control>>,
}

#[derive(Debug)]
struct Control {
    deadline: Option<Instant>,
    end: bool,
    end_for_good: bool,
    ended: bool,
}

impl Running {
    /// Moves the deadline, as when the event is rescheduled.
    pub fn set_deadline(&self, deadline: Option<Instant>) {
        self.control.lock().unwrap_or_else(PoisonError::into_inner).deadline = deadline;
    }

    /// Ends the command and all that it started: politely, and for good after [`GRACE`].
    pub fn end(&self) {
        self.control.lock().unwrap_or_else(PoisonError::into_inner).end = true;
    }

    /// Ends the command and all that it started, for good and at once.
    pub fn end_for_good(&self) {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        (control.end, control.end_for_good) = (true, true);
    }

    /// Whether the command has ended.
    pub fn has_ended(&self) -> bool {
        self.control.lock().unwrap_or_else(PoisonError::into_inner).ended
    }
}

/// Waits for the command's end, and brings it about when it is time.
fn wait(child: &mut Child, control: &Mutex<Control>) -> Ended {
    let mut stopping: Option<Instant> = None;
    loop {
        match child.try_wait() {
            Ok(Some(_)) if stopping.is_some() => {
                // The command is gone; what it started may not be.
                platform::end_group(child, true);
                return Ended::Stopped;
            }
            Ok(Some(status)) if status.success() => return Ended::Well,
            Ok(Some(status)) => return Ended::Badly(status.to_string()),
            Ok(None) => {}
            Err(error) => return Ended::Badly(error.to_string()),
        }
        let (due, for_good) = {
            let control = control.lock().unwrap_or_else(PoisonError::into_inner);
            let late = control.deadline.is_some_and(|deadline| deadline <= Instant::now());
            (control.end || late, control.end_for_good)
        };
        match stopping {
            None if due => {
                platform::end_group(child, for_good);
                stopping = Some(Instant::now());
            }
            Some(since) if for_good || since.elapsed() >= GRACE => platform::end_group(child, true),
            _ => {}
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Gives the command its input, which it need not read.
fn feed(child: &mut Child, input: Vec<u8>) {
    if let Some(mut stdin) = child.stdin.take() {
        thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
    }
}

/// What a command printed last is told before its end, unless something that it left behind keeps the pipe open.
fn finish(reading: &[thread::JoinHandle<()>]) {
    let patience = Instant::now() + Duration::from_millis(200);
    while reading.iter().any(|reader| !reader.is_finished()) && Instant::now() < patience {
        thread::sleep(Duration::from_millis(2));
    }
}

/// Tells the lines that come out of a pipe.
fn listen(
    pipe: Option<impl Read + Send + 'static>,
    tell: &(impl Fn(Told) + Clone + Send + 'static),
) -> thread::JoinHandle<()> {
    let tell = tell.clone();
    thread::spawn(move || {
        let Some(pipe) = pipe else { return };
        let mut reader = BufReader::new(pipe);
        let mut line = Vec::new();
        while reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line);
            tell(Told::Line(text.trim_end_matches(['\n', '\r']).to_owned()));
            line.clear();
        }
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn run(command: &str, deadline: Option<Duration>) -> (Vec<String>, Ended) {
        let event = EventRecord {
            event_id: "a'; touch /tmp/never; '".into(),
            event_type: Some("$(reboot)".into()),
            ..EventRecord::default()
        };
        let (sender, receiver) = mpsc::channel();
        let line = CommandLine::parse(command).unwrap();
        let deadline = deadline.map(|after| Instant::now() + after);
        let _running = line.start(&event, &[("SCHEDULED_EVENTS_CHANGE", "scheduled")], deadline, move |told| {
            let _ = sender.send(told);
        });
        let mut lines = Vec::new();
        loop {
            match receiver.recv_timeout(Duration::from_secs(20)).expect("the command ends") {
                Told::Line(line) => lines.push(line),
                Told::Ended(ended) => return (lines, ended),
            }
        }
    }

    #[test]
    fn the_event_comes_as_environment_and_as_json_never_as_a_command_line() {
        let (lines, ended) = run(
            "sh -c 'echo \"$SCHEDULED_EVENTS_EVENT_ID|$SCHEDULED_EVENTS_EVENT_TYPE|$SCHEDULED_EVENTS_CHANGE\"'",
            None,
        );
        assert_eq!(lines, ["a'; touch /tmp/never; '|$(reboot)|scheduled"]);
        assert_eq!(ended, Ended::Well);
        let (lines, _) = run("cat", None);
        let event: serde_json::Value = serde_json::from_str(&lines.concat()).unwrap();
        assert_eq!(event["event_type"], "$(reboot)");
    }

    #[test]
    fn a_failure_is_told_with_its_code() {
        assert!(matches!(run("sh -c 'exit 3'", None).1, Ended::Badly(why) if why.contains('3')));
        assert!(matches!(run("/nonexistent/program", None).1, Ended::NotStarted(_)));
    }

    #[test]
    fn a_hung_command_is_ended_at_its_deadline_with_all_that_it_started() {
        // The shell ignores the polite signal, and so does the sleep that it starts.
        let (lines, ended) =
            run("sh -c 'trap \"\" TERM; sleep 600 & echo $!; wait; wait; sleep 600'", Some(Duration::from_millis(200)));
        assert_eq!(ended, Ended::Stopped);
        let sleeper = format!("/proc/{}/stat", lines[0]);
        let gone = || std::fs::read_to_string(&sleeper).map_or(true, |stat| stat.contains(") Z "));
        let patience = Instant::now() + Duration::from_secs(5);
        while !gone() {
            assert!(Instant::now() < patience, "process {} lives on", lines[0]);
            thread::sleep(Duration::from_millis(10));
        }
    }
}
