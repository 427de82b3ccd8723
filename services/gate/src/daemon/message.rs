//! The messages between `ask` and the daemon: one line of JSON each.

use std::fmt;

use scheduled_events_core::GateAnswer;
use serde::{Deserialize, Serialize};

use crate::config::GroupConfig;
use crate::config::window::Closed;
use crate::event::Event;
use crate::members::Member;
use crate::protocol::{Answer, Why};
use scheduled_events_common::names::Name;
use scheduled_events_text::finding::Finding;

/// The longest line: enough for an event of some ten thousand machines.
pub const LINE_MAX: usize = 1024 * 1024;

/// The phase that the command asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// May this machine prepare?
    Prepare,
    /// May this machine approve?
    Approve,
}

/// A question. The event is the command's, unchanged.
#[derive(Debug, Deserialize)]
pub struct Request {
    /// The phase.
    pub phase: Phase,
    /// The event.
    pub event: Event,
}

/// A question about the daemon itself: `{"check":true}`.
#[derive(Debug, Serialize, Deserialize)]
pub struct CheckRequest {
    /// True.
    pub check: bool,
}

/// The daemon's answer to a [`CheckRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReply {
    /// The version of the program that runs.
    pub version: String,
    /// The machine for which it acts.
    pub machine: String,
    /// For how many seconds it has run.
    pub runs_for: u64,
    /// What does not work now, each with its reason.
    pub problems: Vec<String>,
    /// What it found of the store and of its groups.
    pub findings: Vec<Finding<String>>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The answer in one word.
    pub answer: GateAnswer,
    /// Why, for people.
    pub why: String,
}

impl Reply {
    /// The reply with this answer, or with the reason why there is none.
    pub fn of(answer: &Result<Answer, impl fmt::Display>) -> Self {
        let (word, why) = match answer {
            Ok(Answer::Open) => (GateAnswer::Open, String::new()),
            Ok(Answer::AnotherApproves { by }) => {
                (GateAnswer::AnotherApproves, format!("{by} approves"))
            }
            Ok(Answer::Closed(why)) => (GateAnswer::Closed, why.to_string()),
            Err(problem) => (GateAnswer::Closed, problem.to_string()),
        };
        Self { answer: word, why }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.answer {
            GateAnswer::Open => "yes",
            GateAnswer::AnotherApproves | GateAnswer::Closed => "not yet",
        };
        if self.why.is_empty() {
            f.write_str(word)
        } else {
            write!(f, "{word}: {}", self.why)
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Advice => f.write_str("the event is advice, which nobody approves"),
            Self::MayBePosted => f.write_str(
                "what was decided about the event as it was is void, and somebody may still approve it: wait some seconds",
            ),
            Self::MayBeCopy => f.write_str(
                "another computer, or this one before it was started anew, had this machine's name a moment ago: wait for a heartbeat",
            ),
            Self::DocumentsDiffer(machines) => write!(
                f,
                "documents differ: the event of other machines affects {}, too",
                list(machines)
            ),
            Self::NotReady(machines) => write!(f, "not ready: {}", list(machines)),
            Self::Silent(machines) => write!(
                f,
                "silent, so that nobody knows whether they are still ready: {}",
                list(machines)
            ),
            Self::NoSlot {
                group,
                held,
                silent,
                limit,
            } => {
                let count = held.len();
                write!(
                    f,
                    "{count} of the group {group} are out of service or about to be, at most {limit} may be: {}",
                    list(held)
                )?;
                if silent.is_empty() {
                    return Ok(());
                }
                write!(
                    f,
                    "; silent: {}",
                    list(&silent.iter().cloned().collect::<Vec<_>>())
                )
            }
            Self::Reserved { group, next } => {
                let machines = list(&next.slots.iter().cloned().collect::<Vec<_>>());
                write!(
                    f,
                    "the group {group} is reserved for an earlier event: {} of {machines}",
                    next.event_id.escape_debug()
                )
            }
            Self::Window {
                group,
                closed:
                    Closed {
                        opens,
                        can_wait: true,
                    },
            } => {
                write!(
                    f,
                    "outside the maintenance windows of the group {group}; the next one begins at {opens:.0}"
                )
            }
            Self::Window {
                group,
                closed:
                    Closed {
                        opens,
                        can_wait: false,
                    },
            } => {
                write!(
                    f,
                    "outside the maintenance windows of the group {group}; Azure starts the event at NotBefore, and the next \
                     window begins at {opens:.0}"
                )
            }
        }
    }
}

/// Machines that configure a group differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What differs, and where.
    pub what: String,
    /// What follows from it, or what to do.
    pub follows: &'static str,
    /// The machines.
    pub machines: Vec<Name>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.follows)
    }
}

/// What other machines configure differently for each group.
pub fn differing_groups(groups: &[GroupConfig], members: &[Member]) -> Vec<Difference> {
    let mut found = Vec::new();
    for group in groups {
        let (limits, rest): (Vec<_>, Vec<_>) = group
            .differences(members)
            .into_iter()
            .partition(|(_, limit)| limit.is_some());
        let [limits, rest] = [limits, rest].map(|of| {
            of.into_iter()
                .map(|(machine, _)| machine)
                .collect::<Vec<_>>()
        });
        let (name, limit) = (group.name.get_ref(), group.max_unavailable);
        let mut add = |machines: Vec<Name>, what: String, follows| {
            if !machines.is_empty() {
                found.push(Difference {
                    what: format!("the group {name} has {what} at {}", list(&machines)),
                    follows,
                    machines,
                });
            }
        };
        add(
            limits,
            format!("the limit {limit} here and another one"),
            "the smallest one counts",
        );
        add(
            rest,
            "other `machines`, `per_zone`, `pause` or `windows`".to_owned(),
            "configure it equally",
        );
    }
    found
}

/// Some names, and how many more there are.
pub fn list(names: &[Name]) -> String {
    const SHOWN: usize = 8;
    let shown = names
        .iter()
        .take(SHOWN)
        .map(Name::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > SHOWN {
        format!("{shown} and {} more", names.len() - SHOWN)
    } else {
        shown
    }
}
