//! The user's commands beside the worker: their input, and their output in the log.

use std::time::Instant;

use super::message::{RunHandle, RunMessage};
use scheduled_events::hooks::{CommandEvent, CommandLine, RunningCommand, log_refused};
use scheduled_events::record::EventRecord;

/// Starts the user's commands and numbers them, so that the end of an earlier one is not mistaken
/// for that of a later one.
pub(crate) struct Commands {
    handle: RunHandle,
    log: fn(&str, &str),
    number: u64,
}

/// A command that was started.
pub(crate) struct Started {
    number: u64,
    running: RunningCommand,
}

/// The purpose of a command.
pub(crate) struct Purpose<'a> {
    /// Its name in the log, and the value of `SCHEDULED_EVENTS_PHASE`.
    pub(crate) label: &'static str,
    /// The event that it is about, if there is one.
    pub(crate) event: Option<&'a EventRecord>,
    pub(crate) worker: Option<u32>,
    pub(crate) deadline: Option<Instant>,
}

impl Commands {
    pub(crate) fn new(handle: RunHandle, log: fn(&str, &str)) -> Self {
        Self {
            handle,
            log,
            number: 0,
        }
    }

    /// Starts a command. Its end is a message.
    pub(crate) fn start(&mut self, command: &CommandLine, purpose: &Purpose<'_>) -> Started {
        self.number += 1;
        let (number, handle, log, label) =
            (self.number, self.handle.clone(), self.log, purpose.label);
        let worker = purpose.worker.map(|worker| worker.to_string());
        let mut variables = vec![("SCHEDULED_EVENTS_PHASE", label)];
        variables.extend(
            worker
                .as_deref()
                .map(|worker| ("SCHEDULED_EVENTS_WORKER_PID", worker)),
        );
        let on_event = move |event: CommandEvent| match event {
            CommandEvent::Line(line) => log(label, &line),
            CommandEvent::Refused(why) => log_refused(label, &why, log),
            CommandEvent::Ended(outcome) => handle.send(RunMessage::CommandEnded(number, outcome)),
        };
        let running = match purpose.event {
            Some(event) => command.start(event, &variables, purpose.deadline, on_event),
            None => command.start_without_event(&variables, purpose.deadline, on_event),
        };
        Started { number, running }
    }
}

impl Started {
    pub(crate) fn is(&self, number: u64) -> bool {
        self.number == number
    }

    #[cfg(test)]
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn running(&self) -> &RunningCommand {
        &self.running
    }
}
