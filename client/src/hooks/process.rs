//! One command: it is started, supervised and ended, all on one thread.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{self, Child};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::control::{CommandEvent, CommandOutcome, End, RunningCommand};
use super::excerpt::Excerpt;
use super::pipes::Pipes;
use super::register::Registered;
use crate::failure_log::FailureLog;
use crate::limits::{COMMAND_GRACE, COMMAND_TIME};
use crate::platform::{self, CommandTree};

/// How often a running command is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The delay before starting a command is tried again after the system refused.
const SPAWN_RETRY: Duration = Duration::from_millis(250);

/// How long the last output of a command is waited for after its end. A process that it left running may keep the pipe open.
const OUTPUT_GRACE: Duration = Duration::from_millis(200);

/// How often a command that is being killed is searched for new processes.
const KILL_INTERVAL: Duration = Duration::from_millis(250);

/// How often it is checked whether all is gone that an ended command had started.
const REST_INTERVAL: Duration = Duration::from_millis(50);

/// Reports what a command does.
pub(super) type Report = Box<dyn Fn(CommandEvent) + Send>;

/// A command that is to be run.
pub(super) struct Task {
    /// There is none if its program was not found.
    command: Option<process::Command>,
    program: String,
    input: Vec<u8>,
    /// Identifies the command's processes, in their environment.
    mark: String,
    control: RunningCommand,
    report: Report,
    output: Excerpt,
    /// Until when starting is tried if the command has no deadline.
    start_by: Instant,
}

impl Task {
    pub(super) fn new(
        command: Option<process::Command>,
        program: String,
        input: Vec<u8>,
        mark: String,
        control: RunningCommand,
        report: Report,
    ) -> Self {
        Self {
            command,
            program,
            input,
            mark,
            control,
            report,
            output: Excerpt::default(),
            start_by: Instant::now() + COMMAND_TIME,
        }
    }

    /// Runs the command to its end. Returns its pipes if something that it started keeps them open.
    pub(super) fn run(mut self) -> Option<OpenPipes> {
        let (mut child, mut tree, mut pipes) = match self.spawn() {
            Ok(started) => started,
            Err(error) => {
                self.give_up(&error);
                return None;
            }
        };
        let registered = Registered::new(child.id(), &self.mark);
        let outcome = self.supervise(&mut child, &mut tree, &mut pipes);
        drop(registered);
        self.end(outcome);
        pipes.is_open().then(|| OpenPipes {
            pipes,
            report: self.report,
            output: self.output,
        })
    }

    /// Whether starting the command is not to be tried again.
    pub(super) fn must_end(&self) -> bool {
        let control = self.control.lock();
        control.reason_to_end().is_some()
            || control.deadline.is_none() && self.start_by <= Instant::now()
    }

    /// Reports that starting the command is to be tried again, unless another command has reported that just now.
    pub(super) fn refused(&self, error: &io::Error) {
        static REPORTED: LazyLock<Mutex<FailureLog>> = LazyLock::new(Mutex::default);

        let reason = error.to_string();
        let reports = REPORTED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .reports(&reason);
        if reports {
            self.report(CommandEvent::Refused(format!("{}: {reason}", self.program)));
        }
    }

    /// Reports that the command could not be started, or that it was ended before.
    pub(super) fn give_up(&self, error: &io::Error) {
        let end = self.control.lock().end;
        self.end(match end {
            Some(End::Cancel) => CommandOutcome::Cancelled,
            Some(End::Terminate | End::Kill) => CommandOutcome::Stopped,
            None => CommandOutcome::NotStarted(format!("{}: {error}", self.program)),
        });
    }

    fn end(&self, outcome: CommandOutcome) {
        self.control.lock().has_ended = true;
        self.report(CommandEvent::Ended(outcome));
        self.control.lock().is_reported = true;
    }

    fn report(&self, event: CommandEvent) {
        report(&self.report, event);
    }

    /// Starts the process, and repeats that while the system is out of processes, threads or memory.
    fn spawn(&mut self) -> io::Result<(Child, CommandTree, Pipes)> {
        let not_found = || io::Error::new(io::ErrorKind::NotFound, "program not found");
        loop {
            let input = self.input.clone();
            let started = Pipes::new().and_then(|pipes| {
                let mut child = self.command.as_mut().ok_or_else(not_found)?.spawn()?;
                let tree = CommandTree::new(&mut child, &self.mark)?;
                let pipes = pipes.attach(&mut child, input);
                Ok((child, tree, pipes))
            });
            match started {
                Err(error) if platform::is_temporary_spawn_error(&error) && !self.must_end() => {
                    self.refused(&error);
                }
                started => return started,
            }
            thread::sleep(SPAWN_RETRY);
        }
    }

    /// Writes the command's input, reports its output, waits for its end, and ends it when it is time.
    fn supervise(
        &self,
        child: &mut Child,
        tree: &mut CommandTree,
        pipes: &mut Pipes,
    ) -> CommandOutcome {
        let on_line = |line| {
            self.output
                .add(line, |line| self.report(CommandEvent::Line(line)));
        };
        let outcome = self.wait(child, tree, pipes, &on_line);
        let deadline = Instant::now() + OUTPUT_GRACE;
        while pipes.is_open() && Instant::now() < deadline {
            pipes.serve(Duration::from_millis(2), &on_line);
        }
        self.output
            .end(|line| self.report(CommandEvent::Line(line)));
        outcome
    }

    fn wait(
        &self,
        child: &mut Child,
        tree: &mut CommandTree,
        pipes: &mut Pipes,
        on_line: &dyn Fn(String),
    ) -> CommandOutcome {
        let mut ending: Option<(Instant, CommandOutcome)> = None;
        let mut killed: Option<Instant> = None;
        loop {
            match child.try_wait() {
                Ok(Some(status)) => {
                    if let Some((since, reason)) = ending {
                        // The command has ended; what it started has the rest of the grace.
                        let has_time = || {
                            since.elapsed() < COMMAND_GRACE
                                && self.control.lock().end != Some(End::Kill)
                        };
                        while has_time() && tree.has_others() {
                            pipes.serve(REST_INTERVAL, on_line);
                        }
                        tree.kill_rest(child);
                        return reason;
                    }
                    tree.release();
                    return if status.success() {
                        CommandOutcome::Succeeded
                    } else {
                        CommandOutcome::Failed {
                            code: status.code(),
                            reason: status.to_string(),
                        }
                    };
                }
                Ok(None) => {}
                Err(error) => {
                    return CommandOutcome::Failed {
                        code: None,
                        reason: error.to_string(),
                    };
                }
            }
            let (reason, kill) = {
                let control = self.control.lock();
                (control.reason_to_end(), control.end == Some(End::Kill))
            };
            if let (None, Some(reason)) = (&ending, reason) {
                if !kill {
                    tree.terminate(child);
                    self.control.lock().signalled = Some(End::Terminate);
                }
                ending = Some((Instant::now(), reason));
            }
            let is_over = ending
                .as_ref()
                .is_some_and(|(since, _)| kill || since.elapsed() >= COMMAND_GRACE);
            if is_over && killed.is_none_or(|at| at.elapsed() >= KILL_INTERVAL) {
                tree.kill(child);
                self.control.lock().signalled = Some(End::Kill);
                killed = Some(Instant::now());
            }
            pipes.serve(CHECK_INTERVAL, on_line);
        }
    }
}

/// The pipes of a command that has ended, which something that it started keeps open.
pub(super) struct OpenPipes {
    pipes: Pipes,
    report: Report,
    output: Excerpt,
}

impl OpenPipes {
    /// Reports what was written, without waiting. Returns whether the pipes are still open.
    pub(super) fn read(&mut self) -> bool {
        let on_line = |line| report(&self.report, CommandEvent::Line(line));
        let output = &self.output;
        self.pipes
            .serve(Duration::ZERO, &|line| output.add(line, on_line));
        self.pipes.is_open()
    }
}

impl Drop for OpenPipes {
    /// Reports the last part, also of pipes that nobody can read any more.
    fn drop(&mut self) {
        self.output
            .end(|line| report(&self.report, CommandEvent::Line(line)));
    }
}

/// Calls the user's function. Its panic must not leave a command unsupervised.
fn report(report: &Report, event: CommandEvent) {
    let _ = catch_unwind(AssertUnwindSafe(|| report(event)));
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// As when more of them are open than are read.
    #[test]
    fn the_last_part_of_an_output_that_is_not_read_any_more_is_reported() {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let seen = lines.clone();
        let report: Report = Box::new(move |event| {
            if let CommandEvent::Line(line) = event {
                seen.lock().expect("not poisoned").push(line);
            }
        });
        let (pipes, output) = (Pipes::new().expect("pipes"), Excerpt::default());
        for number in 0..200 {
            output.add(format!("{number:>1023}"), |_| {});
        }
        drop(OpenPipes {
            pipes,
            report,
            output,
        });
        let lines = lines.lock().expect("not poisoned");
        assert!(lines[0].contains("left out"), "{:?}", lines[0]);
        assert!(lines.last().is_some_and(|line| line.ends_with("199")));
    }
}
