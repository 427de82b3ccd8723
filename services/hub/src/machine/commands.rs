//! What runs for a machine: its commands, those that wait for their turn, and its questions to the gate.
//!
//! `start` only queues a command: the permit of the pool in `hooks` comes back to the machine as `Message::Permit`, and `on_permit`
//! runs it.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use scheduled_events::hooks::{CommandEvent, CommandLine, RunningCommand, log_refused};
use scheduled_events::record::EventRecord;
use scheduled_events_common::log;
use scheduled_events_core::record::Printable;
use scheduled_events_core::{GatePhase, UnixMillis, UnixSeconds};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::hooks::Permit;
use crate::message::Message;
use crate::shared::Shared;
use crate::store::MachineFacts;

/// A command whose event starts so soon runs beside those that take long for later ones.
const SOON: Duration = Duration::from_secs(5 * 60);

/// So many lines of a command wait for the log.
const LINES_MAX: usize = 1024;

/// What runs for a machine, by attempt.
pub(super) struct Commands {
    shared: Rc<Shared>,
    sender: mpsc::UnboundedSender<Message>,
    running: HashMap<u32, Running>,
}

/// What runs for an attempt.
enum Running {
    /// A command that waits for its turn.
    Waiting { hook: Hook, task: JoinHandle<()> },
    /// A command.
    Command {
        hook: Hook,
        command: RunningCommand,
        _permit: Permit,
    },
    /// A question to the gate.
    Question {
        phase: GatePhase,
        event: EventRecord,
        task: JoinHandle<()>,
    },
}

/// A command to be run.
#[derive(Clone)]
pub(super) struct Hook {
    pub(super) kind: Kind,
    /// The event that it is for, and the others that ended, for a recovery.
    pub(super) events: Vec<EventRecord>,
    pub(super) deadline: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Prepare { by_last_call: bool },
    Recover,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Self::Prepare { .. } => "prepare",
            Self::Recover => "recover",
        }
    }
}

/// What was ended at once.
pub(super) enum Cancelled {
    /// A command that had not begun.
    Hook(Hook),
    /// A question.
    Question,
}

impl Commands {
    pub(super) fn new(shared: Rc<Shared>, sender: mpsc::UnboundedSender<Message>) -> Self {
        Self {
            shared,
            sender,
            running: HashMap::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether the configuration has a command of this kind.
    pub(super) fn has(&self, kind: Kind) -> bool {
        self.command(kind).is_some()
    }

    fn command(&self, kind: Kind) -> Option<&CommandLine> {
        let hooks = &self.shared.config.hooks;
        if kind == Kind::Recover {
            hooks.recover.as_ref()
        } else {
            hooks.prepare.as_ref()
        }
    }

    /// Waits for the command's turn, which is reported.
    pub(super) fn start(&mut self, hook: Hook, attempt: u32) {
        let due = hook
            .events
            .first()
            .and_then(|event| event.not_before)
            .unwrap_or(UnixSeconds(0));
        let (shared, sender, kind) = (self.shared.clone(), self.sender.clone(), hook.kind);
        let now = shared.time_of_day().seconds();
        let task = tokio::task::spawn_local(async move {
            let soon = async {
                sleep(
                    Duration::from_secs(u64::try_from(due.since(now)).unwrap_or(0))
                        .saturating_sub(SOON),
                )
                .await;
                shared.reserve.enter(due).await
            };
            let permit = if kind == Kind::Recover {
                // None has a deadline. By their events, those that fail again and again would always be the first.
                shared.recoveries.enter(UnixSeconds(0)).await
            } else {
                tokio::select! {
                    permit = shared.pool.enter(due) => permit,
                    permit = soon => permit,
                }
            };
            let _ = sender.send(Message::Permit { attempt, permit });
        });
        self.running
            .insert(attempt, Running::Waiting { hook, task });
    }

    /// Starts the command, whose turn it is.
    pub(super) fn on_permit(&mut self, attempt: u32, permit: Permit, facts: &MachineFacts) {
        let Some(Running::Waiting { hook, .. }) = self.running.remove(&attempt) else {
            return;
        };
        if !self.shared.store.has_turn() {
            // Another hub runs it. This one is about to stop.
            return;
        }
        let (Some(command), Some(event)) = (self.command(hook.kind).cloned(), hook.events.first())
        else {
            return;
        };
        let MachineFacts {
            resource_id,
            name,
            location,
            zone,
            ..
        } = facts;
        let members = [
            ("resource_id", resource_id.as_str()),
            ("machine", name),
            ("location", location),
            ("zone", zone),
        ];
        let attempt_text = attempt.to_string();
        let mut variables = vec![
            ("SCHEDULED_EVENTS_RESOURCE_ID", resource_id.as_str()),
            ("SCHEDULED_EVENTS_MACHINE", name),
            ("SCHEDULED_EVENTS_LOCATION", location),
            ("SCHEDULED_EVENTS_ZONE", zone),
            ("SCHEDULED_EVENTS_ATTEMPT", &attempt_text),
        ];
        let ids: Vec<_> = hook
            .events
            .iter()
            .map(|event| Printable(&event.event_id).to_string())
            .collect();
        let ids = ids.join("\n");
        let now = self.shared.time_of_day();
        let seconds_left = event
            .not_before
            .map(|at| (UnixMillis::from(at).millis_since(now) / 1000).to_string());
        match hook.kind {
            Kind::Recover => variables.push(("SCHEDULED_EVENTS_EVENT_IDS", &ids)),
            Kind::Prepare { by_last_call } => {
                let left = seconds_left
                    .as_deref()
                    .map(|seconds| ("SCHEDULED_EVENTS_SECONDS_LEFT", seconds));
                variables.extend(
                    left.into_iter()
                        .chain(by_last_call.then_some(("SCHEDULED_EVENTS_LAST_CALL", "1"))),
                );
            }
        }
        let deadline = hook
            .deadline
            .and_then(|time| Instant::now().checked_add(time));
        // It reports from threads of its own.
        let (reports, mut reported) = mpsc::channel(LINES_MAX);
        let (sender, label) = (self.sender.clone(), format!("{} {name}", hook.kind.word()));
        tokio::task::spawn_local(async move {
            let diagnose =
                |severity: &str, text: &str| log::printable(&format!("{severity}: {text}"));
            while let Some(event) = reported.recv().await {
                match event {
                    CommandEvent::Line(line) => log::printable(&format!("{label}: {line}")),
                    CommandEvent::Refused(why) => log_refused(&label, &why, diagnose),
                    CommandEvent::Ended(ended) => {
                        ended.log(&label, diagnose);
                        let _ = sender.send(Message::Ended { attempt, ended });
                    }
                }
            }
        });
        let on_event = move |event| {
            // What prints faster than the log takes it waits. This thread would report a command that cannot be started, and nothing
            // precedes that.
            if let Err(TrySendError::Full(event)) = reports.try_send(event) {
                let _ = reports.blocking_send(event);
            }
        };
        let command = command.start_with_members(event, &members, &variables, deadline, on_event);
        self.running.insert(
            attempt,
            Running::Command {
                hook,
                command,
                _permit: permit,
            },
        );
    }

    /// The command that has ended.
    pub(super) fn ended(&mut self, attempt: u32) -> Option<Hook> {
        match self.running.remove(&attempt)? {
            Running::Command { hook, .. } => Some(hook),
            other => {
                self.running.insert(attempt, other);
                None
            }
        }
    }

    /// Asks the gate, whose answer is reported.
    pub(super) fn ask(
        &mut self,
        phase: GatePhase,
        event: EventRecord,
        attempt: u32,
        facts: &MachineFacts,
    ) {
        let (gates, facts, sender) = (
            self.shared.gates.clone(),
            facts.clone(),
            self.sender.clone(),
        );
        let question = event.clone();
        let task = tokio::task::spawn_local(async move {
            let answer = gates.ask(phase, &facts, &question).await;
            let _ = sender.send(Message::Gate { attempt, answer });
        });
        self.running
            .insert(attempt, Running::Question { phase, event, task });
    }

    /// The question that was answered, if it was not cancelled meanwhile.
    pub(super) fn answered(&mut self, attempt: u32) -> Option<(GatePhase, EventRecord)> {
        match self.running.remove(&attempt)? {
            Running::Question { phase, event, .. } => Some((phase, event)),
            other => {
                self.running.insert(attempt, other);
                None
            }
        }
    }

    /// Ends what runs for an attempt. The end of a command that runs is reported later.
    pub(super) fn cancel(&mut self, attempt: u32) -> Option<Cancelled> {
        match self.running.remove(&attempt)? {
            Running::Waiting { hook, task } => {
                task.abort();
                Some(Cancelled::Hook(hook))
            }
            Running::Question { task, .. } => {
                task.abort();
                Some(Cancelled::Question)
            }
            running @ Running::Command { .. } => {
                if let Running::Command { command, .. } = &running {
                    command.cancel();
                }
                self.running.insert(attempt, running);
                None
            }
        }
    }

    /// Ends everything: the hub stops.
    pub(super) fn stop(&mut self) {
        self.running.retain(|_, running| match running {
            Running::Command { command, .. } => {
                command.terminate();
                true
            }
            Running::Waiting { task, .. } | Running::Question { task, .. } => {
                task.abort();
                false
            }
        });
    }
}
