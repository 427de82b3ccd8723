//! Commands that are run for the user: beside the polling, in a process group of their own, ended at their deadline.
//!
//! A command gets the event as environment variables and as JSON on its standard input; event text never becomes part
//! of a command line. What it prints goes to the log, line by line.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{self, Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::platform;
use crate::record::EventRecord;

/// How long a command that was asked to end has before it is ended for good.
pub const GRACE: Duration = Duration::from_secs(2);

/// How often a running command is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How often it is tried again to start a command for which the system had no room.
const START_EVERY: Duration = Duration::from_millis(250);

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

    /// Whether there is a program of this name now, as far as a look at the files tells.
    pub fn is_found(&self) -> bool {
        let program = Path::new(&self.words[0]);
        // As the system does it: a name with a folder is a path, any other is looked for.
        if program.components().count() > 1 || program.has_root() {
            return program.exists();
        }
        let folders = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&folders)
            .any(|folder| folder.join(program).exists() || folder.join(program).with_extension("exe").exists())
    }

    /// Starts the command for an event. `tell` is called from other threads: for each line that the command prints, and
    /// once when it has ended. Where the system has no room for another process, that is tried again until the deadline.
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
        let program = self.words[0].clone();
        let not_started = move |error: &io::Error| Ended::NotStarted(format!("{program}: {error}"));
        let (refused, teller) = (not_started.clone(), tell.clone());
        let started = thread::Builder::new().spawn(move || {
            let ended = match spawn(&mut command, &control) {
                Ok(mut child) => attend(&mut child, input, &control, &tell).unwrap_or_else(|error| {
                    platform::end_group(&mut child, true);
                    let _ = child.wait();
                    not_started(&error)
                }),
                Err(error) => not_started(&error),
            };
            locked(&control).ended = true;
            tell(Told::Ended(ended));
        });
        if let Err(error) = started {
            locked(&running.control).ended = true;
            teller(Told::Ended(refused(&error)));
        }
        running
    }
}

/// Starts the process, as soon as the system has room for it.
fn spawn(command: &mut process::Command, control: &Mutex<Control>) -> io::Result<Child> {
    loop {
        let error = match command.spawn() {
            Err(error) if platform::passes(&error) => error,
            started => return started,
        };
        if locked(control).why_end().is_some() {
            return Err(error);
        }
        thread::sleep(START_EVERY);
    }
}

/// Gives the command its input, tells what it prints, and waits for its end.
fn attend(
    child: &mut Child,
    input: Vec<u8>,
    control: &Mutex<Control>,
    tell: &(impl Fn(Told) + Clone + Send + 'static),
) -> io::Result<Ended> {
    feed(child, input)?;
    let reading = [listen(child.stdout.take(), tell)?, listen(child.stderr.take(), tell)?];
    let ended = wait(child, control);
    finish(&reading);
    Ok(ended)
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
    /// It was ended because its deadline had passed.
    Late,
    /// It was ended because the program stops.
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

impl Control {
    /// Whether it is time for the command to end, and how that is told.
    fn why_end(&self) -> Option<Ended> {
        match self.deadline {
            _ if self.end => Some(Ended::Stopped),
            Some(deadline) if deadline <= Instant::now() => Some(Ended::Late),
            _ => None,
        }
    }
}

fn locked(control: &Mutex<Control>) -> MutexGuard<'_, Control> {
    control.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    /// Moves the deadline, as when the event is rescheduled.
    pub fn set_deadline(&self, deadline: Option<Instant>) {
        locked(&self.control).deadline = deadline;
    }

    /// Ends the command and all that it started: politely, and for good after [`GRACE`].
    pub fn end(&self) {
        locked(&self.control).end = true;
    }

    /// Ends the command and all that it started, for good and at once.
    pub fn end_for_good(&self) {
        let mut control = locked(&self.control);
        (control.end, control.end_for_good) = (true, true);
    }

    /// Whether the command has ended.
    pub fn has_ended(&self) -> bool {
        locked(&self.control).ended
    }
}

/// Waits for the command's end, and brings it about when it is time.
fn wait(child: &mut Child, control: &Mutex<Control>) -> Ended {
    let mut stopping: Option<(Instant, Ended)> = None;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                if let Some((_, why)) = stopping {
                    // The command is gone; what it started may not be.
                    platform::end_group(child, true);
                    return why;
                }
                return if status.success() { Ended::Well } else { Ended::Badly(status.to_string()) };
            }
            Ok(None) => {}
            Err(error) => return Ended::Badly(error.to_string()),
        }
        let (why, for_good) = {
            let control = locked(control);
            (control.why_end(), control.end_for_good)
        };
        match (&stopping, why) {
            (None, Some(why)) => {
                platform::end_group(child, for_good);
                stopping = Some((Instant::now(), why));
            }
            (Some((since, _)), _) if for_good || since.elapsed() >= GRACE => platform::end_group(child, true),
            _ => {}
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Gives the command its input, which it need not read.
fn feed(child: &mut Child, input: Vec<u8>) -> io::Result<()> {
    if let Some(mut stdin) = child.stdin.take() {
        thread::Builder::new().spawn(move || {
            let _ = stdin.write_all(&input);
        })?;
    }
    Ok(())
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
) -> io::Result<thread::JoinHandle<()>> {
    let tell = tell.clone();
    thread::Builder::new().spawn(move || {
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
    fn a_program_is_looked_for_as_the_system_does() {
        for (line, found) in
            [("sh -c 'exit 3'", true), ("/bin/sh", true), ("/nonexistent/sh", false), ("no-such-sh", false)]
        {
            assert_eq!(CommandLine::parse(line).unwrap().is_found(), found, "{line}");
        }
    }

    #[test]
    fn a_program_that_is_being_written_is_waited_for() {
        let path = env::temp_dir().join(format!("scheduled-events-busy-{}", process::id()));
        std::fs::copy("/bin/true", &path).unwrap();
        let writer = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        let done = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            drop(writer);
        });
        assert_eq!(run(path.to_str().unwrap(), Some(Duration::from_secs(15))).1, Ended::Well);
        done.join().unwrap();
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_failure_is_told_with_its_code() {
        assert!(matches!(run("sh -c 'exit 3'", None).1, Ended::Badly(why) if why.contains('3')));
        assert!(
            matches!(run("/nonexistent/program", None).1, Ended::NotStarted(why) if why.contains("/nonexistent/program"))
        );
    }

    #[test]
    fn a_hung_command_is_ended_at_its_deadline_with_all_that_it_started() {
        // The shell ignores the polite signal, and so does the sleep that it starts.
        let (lines, ended) =
            run("sh -c 'trap \"\" TERM; sleep 600 & echo $!; wait; wait; sleep 600'", Some(Duration::from_millis(200)));
        assert_eq!(ended, Ended::Late);
        let sleeper = format!("/proc/{}/stat", lines[0]);
        let gone = || std::fs::read_to_string(&sleeper).map_or(true, |stat| stat.contains(") Z "));
        let patience = Instant::now() + Duration::from_secs(5);
        while !gone() {
            assert!(Instant::now() < patience, "process {} lives on", lines[0]);
            thread::sleep(Duration::from_millis(10));
        }
    }
}
