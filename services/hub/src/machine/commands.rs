//! What runs for a machine: its commands, and its questions to the gate. Each belongs to an attempt
//! of the session, and its result comes back to the machine as a message with that attempt:
//!
//! | call | what runs | message | next call |
//! |---|---|---|---|
//! | `start` | a command that waits for its turn | `Permit` | `on_permit` |
//! | `on_permit` | a command | `Ended` | `ended` |
//! | `ask` | a question to the gate | `Gate` | `answered` |
//!
//! `cancel` ends what runs for an attempt, and `stop` ends everything.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use scheduled_events::hooks::{CommandEvent, CommandLine, RunningCommand, log_refused};
use scheduled_events::record::EventRecord;
use scheduled_events_common::log;
use scheduled_events_core::record::Printable;
use scheduled_events_core::{GatePhase, UnixMillis, UnixSeconds};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::gates::Asked;
use crate::hooks::Permit;
use crate::message::Message;
use crate::shared::Shared;
use crate::store::MachineFacts;

/// A command whose event starts within this time does not wait for commands that take long for
/// later events.
const SOON: Duration = Duration::from_secs(5 * 60);

/// How many lines of a command may wait for the log.
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
        asked_at: Instant,
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
        let event = hook.events.first();
        let due = event.and_then(|event| event.not_before);
        let due = due.unwrap_or(UnixSeconds(0));
        let left = due.since(self.shared.time_of_day().seconds());
        let left = Duration::from_secs(u64::try_from(left).unwrap_or(0));
        let turn = turn(self.shared.clone(), hook.kind, due, left);
        let sender = self.sender.clone();
        let task = tokio::task::spawn_local(async move {
            let permit = turn.await;
            let _ = sender.send(Message::Permit { attempt, permit });
        });
        self.running
            .insert(attempt, Running::Waiting { hook, task });
    }

    /// Starts the command, whose turn it is. Its end is reported.
    pub(super) fn on_permit(&mut self, attempt: u32, permit: Permit, facts: &MachineFacts) {
        let Some(Running::Waiting { hook, .. }) = self.running.remove(&attempt) else {
            return;
        };
        if !self.shared.store.has_turn() {
            // Another hub runs it. This one is about to stop.
            return;
        }
        let (Some(command), Some(event)) = (self.command(hook.kind), hook.events.first()) else {
            return;
        };
        let members = [
            ("resource_id", facts.resource_id.as_str()),
            ("machine", &facts.name),
            ("location", &facts.location),
            ("zone", &facts.zone),
        ];
        let own = hook.variables(event, self.shared.time_of_day());
        let attempt_text = attempt.to_string();
        let mut variables = vec![
            ("SCHEDULED_EVENTS_RESOURCE_ID", facts.resource_id.as_str()),
            ("SCHEDULED_EVENTS_MACHINE", &facts.name),
            ("SCHEDULED_EVENTS_LOCATION", &facts.location),
            ("SCHEDULED_EVENTS_ZONE", &facts.zone),
            ("SCHEDULED_EVENTS_ATTEMPT", &attempt_text),
        ];
        variables.extend(own.iter().map(|(name, value)| (*name, value.as_str())));
        let deadline = hook
            .deadline
            .and_then(|time| std::time::Instant::now().checked_add(time));
        let label = format!("{} {}", hook.kind.word(), facts.name);
        let on_event = reporter(label, attempt, self.sender.clone());
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

    /// Asks the gate about an event of a resource. Its answer is reported.
    pub(super) fn ask(
        &mut self,
        phase: GatePhase,
        event: EventRecord,
        resource_id: &str,
        attempt: u32,
        facts: &MachineFacts,
    ) {
        let asked = self.shared.gates.ask(phase, facts, resource_id, &event);
        let sender = self.sender.clone();
        let task = tokio::task::spawn_local(async move {
            let Asked { answer, has_agent } = asked.await;
            let _ = sender.send(Message::Gate { attempt, answer });
            if has_agent {
                let _ = sender.send(Message::Agent(true));
            }
        });
        let question = Running::Question {
            phase,
            event,
            asked_at: Instant::now(),
            task,
        };
        self.running.insert(attempt, question);
    }

    /// The question that was answered, and when it was asked, if it was not cancelled meanwhile.
    pub(super) fn answered(&mut self, attempt: u32) -> Option<(GatePhase, EventRecord, Instant)> {
        match self.running.remove(&attempt)? {
            Running::Question {
                phase,
                event,
                asked_at,
                ..
            } => Some((phase, event, asked_at)),
            other => {
                self.running.insert(attempt, other);
                None
            }
        }
    }

    /// Ends what runs for an attempt. The end of a command that has begun is reported later.
    pub(super) fn cancel(&mut self, attempt: u32) -> Option<Cancelled> {
        if let Running::Command { command, .. } = self.running.get(&attempt)? {
            command.cancel();
            return None;
        }
        match self.running.remove(&attempt)? {
            Running::Waiting { hook, task } => {
                task.abort();
                Some(Cancelled::Hook(hook))
            }
            Running::Question { task, .. } => {
                task.abort();
                Some(Cancelled::Question)
            }
            Running::Command { .. } => None,
        }
    }

    /// Ends everything: the hub stops. The ends of commands that have begun are reported later.
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

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Self::Prepare { .. } => "prepare",
            Self::Recover => "recover",
        }
    }
}

impl Hook {
    /// The variables of the environment that only this kind of command has.
    fn variables(&self, event: &EventRecord, now: UnixMillis) -> Vec<(&'static str, String)> {
        match self.kind {
            Kind::Recover => {
                let ids = self.events.iter();
                let ids: Vec<_> = ids
                    .map(|event| Printable(&event.event_id).to_string())
                    .collect();
                vec![("SCHEDULED_EVENTS_EVENT_IDS", ids.join("\n"))]
            }
            Kind::Prepare { by_last_call } => {
                let left = event.not_before.map(|at| {
                    let seconds = UnixMillis::from(at).millis_since(now) / 1000;
                    ("SCHEDULED_EVENTS_SECONDS_LEFT", seconds.to_string())
                });
                let last_call =
                    by_last_call.then(|| ("SCHEDULED_EVENTS_LAST_CALL", "1".to_owned()));
                left.into_iter().chain(last_call).collect()
            }
        }
    }
}

/// Waits for the turn of a command, whose event is due at this time, and `left` from now.
async fn turn(shared: Rc<Shared>, kind: Kind, due: UnixSeconds, left: Duration) -> Permit {
    if kind == Kind::Recover {
        // None has a deadline. By their events, those that fail again and again would always be the
        // first.
        return shared.recoveries.enter(UnixSeconds(0)).await;
    }
    let soon = async {
        sleep(left.saturating_sub(SOON)).await;
        shared.reserve.enter(due).await
    };
    tokio::select! {
        permit = shared.pool.enter(due) => permit,
        permit = soon => permit,
    }
}

/// The function that receives what a command reports, from threads of its own. Its lines are
/// logged, and its end is passed on.
fn reporter(
    label: String,
    attempt: u32,
    sender: mpsc::UnboundedSender<Message>,
) -> impl Fn(CommandEvent) + Clone + Send + 'static {
    let (reports, mut reported) = mpsc::channel(LINES_MAX);
    tokio::task::spawn_local(async move {
        let diagnose = |severity: &str, text: &str| log::printable(&format!("{severity}: {text}"));
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
    move |event| {
        // A command that prints faster than the log accepts has to wait. Only the first report may
        // come from this thread, of a command that cannot be started, and there is capacity for it.
        if let Err(TrySendError::Full(event)) = reports.try_send(event) {
            let _ = reports.blocking_send(event);
        }
    }
}
