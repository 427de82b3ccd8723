//! The three kinds of registers, and the changes to them.
//!
//! A change is a function of a register's value. The caller reads the register, applies the change
//! and swaps the result in, so that no change is lost, and none applies to a value that the caller
//! has not read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::event::Event;
use scheduled_events_common::names::Name;

/// Seconds since 1970, by the clock of the machine that wrote them. They are for people; no
/// decision depends on them.
pub type Stamp = u64;

/// A machine's statement about itself and an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// It is ready for the event.
    Ready,
    /// It is not ready, or no longer ready.
    Withdrawn,
}

/// A mark and when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Marked {
    /// The mark.
    pub mark: Mark,
    /// When it was made.
    pub at: Stamp,
    /// The [round](EventRegister::round) that it was made in.
    #[serde(default)]
    pub round: u64,
}

/// A mark that is a register of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MarkRegister {
    /// The machine that it belongs to.
    pub machine: Name,
    /// The mark.
    pub mark: Mark,
    /// When it was made.
    pub at: Stamp,
    /// The round that it was made in.
    #[serde(default)]
    pub round: u64,
}

impl MarkRegister {
    /// The mark, as the event's register has it.
    pub const fn marked(&self) -> Marked {
        Marked {
            mark: self.mark,
            at: self.at,
            round: self.round,
        }
    }
}

/// The decision that an event is approved. It counts as long as the round does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Go {
    /// The machine that decided, or took over. It posts first.
    pub by: Name,
    /// When it decided.
    pub at: Stamp,
}

/// `E`: one event, as the machine that began the round sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EventRegister {
    /// The id as the service wrote it, for people; `None` if an earlier version of this program wrote the register.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The type.
    pub event_type: String,
    /// Whether it is advice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub advice: bool,
    /// Its duration in seconds; `None` if that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<u64>,
    /// When Azure starts it at the latest, in seconds since 1970, according to the last machine
    /// that marked itself; `None` if that is unknown. For people: a new time voids no mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<u64>,
    /// The machines that it affects.
    pub resources: BTreeSet<Name>,
    /// A random number. A machine that sees another event than this one, or prepares although the
    /// event is decided, begins another round: only marks of the current round count, and so does
    /// the decision.
    #[serde(default)]
    pub round: u64,
    /// How many times it was written. A register with fewer than before is of a store that came back
    /// from a backup.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub writes: u64,
    /// Whether an earlier round was decided: somebody may still post its approval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_decided: bool,
    /// The marks. A machine without one has not marked itself yet.
    pub marks: BTreeMap<Name, Marked>,
    /// The decision.
    pub go: Option<Go>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference.
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl EventRegister {
    /// Whether it is about the event as it is: with another type, another duration or other machines,
    /// its marks and its decision are about another interruption. The incarnation does not matter,
    /// since it changes with every other event. An unknown duration differs from every number.
    pub fn is_about(&self, event: &Event) -> bool {
        self.event_type == event.event_type
            && self.advice == event.is_advice
            && self.duration == event.duration
            && self.resources == event.resources
    }

    /// The event that it is about, which has this id.
    pub(crate) fn event(&self, id: &str) -> Event {
        let event = Event::new(id, &self.event_type, self.resources.clone());
        Event {
            duration: self.duration,
            is_advice: event.is_advice || self.advice,
            ..event
        }
    }

    /// Whether this machine is marked as ready, in this round.
    pub fn is_ready(&self, machine: &Name) -> bool {
        self.marks
            .get(machine)
            .is_some_and(|marked| marked.mark == Mark::Ready && marked.round == self.round)
    }

    fn set_mark(&mut self, machine: &Name, mark: Mark, at: Stamp) {
        let round = self.round;
        // A repeated mark keeps its time.
        let before = self.marks.get(machine);
        let before = before.filter(|marked| (marked.mark, marked.round) == (mark, round));
        let at = before.map_or(at, |marked| marked.at);
        self.marks
            .insert(machine.clone(), Marked { mark, at, round });
    }
}

/// An event's claim to places of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// The machines that are out of service for the event, or will be.
    pub slots: BTreeSet<Name>,
    /// The machines that rely on the claim.
    pub by: BTreeSet<Name>,
    /// The machines of `slots` that are out of service by a last call, whether or not a place was
    /// free. That is no claim.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub late: BTreeSet<Name>,
    /// When it was made.
    pub at: Stamp,
}

impl Claim {
    /// Whether this machine has claimed, or is out of service by a last call.
    pub fn is_of(&self, machine: &Name) -> bool {
        self.by.contains(machine) || self.late.contains(machine)
    }
}

/// The event for which a group is reserved: the refused one with the earliest `NotBefore`. No other
/// event takes slots that it needs, so that small events do not overtake a large one for ever.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Next {
    /// The event.
    pub event_id: String,
    /// The machines of the group that it affects.
    pub slots: BTreeSet<Name>,
    /// The machine that was refused.
    pub by: Name,
    /// When Azure starts it, in seconds since 1970; `None` if that is unknown, which counts as
    /// later than every known time.
    pub not_before: Option<u64>,
}

impl Next {
    /// The sort key of the order in which events get their turn.
    pub fn order(&self) -> (u64, &str) {
        (self.not_before.unwrap_or(u64::MAX), &self.event_id)
    }
}

/// `G`: the machines of a group that may be out of service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupRegister {
    /// How many machines may be out of service together, according to the last writer. For people.
    pub limit: u32,
    /// The claims, by the event's id. A claim stays the same when the event's machines change.
    pub claims: BTreeMap<String, Claim>,
    /// The event for which the group is reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
}

impl GroupRegister {
    /// Whether these machines may go out of service for an event: afterwards at most `limit` are
    /// out of service, `silent` ones included, or only the event's own, since an event of more
    /// machines than that must be possible, too.
    pub fn admits(
        &self,
        event_id: &str,
        slots: &BTreeSet<Name>,
        limit: u32,
        silent: &BTreeSet<Name>,
    ) -> bool {
        if self.has(event_id, slots) {
            return true;
        }
        let own = self.claims.get(event_id).map(|claim| &claim.slots);
        let own: BTreeSet<_> = own.into_iter().flatten().chain(slots).collect();
        let others = self
            .claims
            .iter()
            .filter(|(id, _)| *id != event_id)
            .flat_map(|(_, claim)| &claim.slots);
        let others: BTreeSet<_> = others
            .chain(silent.iter().filter(|name| !own.contains(name)))
            .collect();
        others.is_empty() || others.union(&own).count() <= limit as usize
    }

    /// Whether all these machines are already claimed for an event.
    pub fn has(&self, event_id: &str, slots: &BTreeSet<Name>) -> bool {
        self.claims
            .get(event_id)
            .is_some_and(|claim| !claim.by.is_empty() && claim.slots.is_superset(slots))
    }

    /// The changes that release each slot for which `is_over` returns true, given an event's id and
    /// a machine.
    pub fn releases(&self, mut is_over: impl FnMut(&str, &Name) -> bool) -> Vec<GroupChange> {
        let slots = self
            .claims
            .iter()
            .flat_map(|(id, claim)| claim.slots.iter().map(move |machine| (id, machine)));
        let over = slots.filter(|(id, machine)| is_over(id, machine));
        over.map(|(id, machine)| GroupChange::Release {
            event_id: id.clone(),
            machine: machine.clone(),
        })
        .collect()
    }

    /// All machines that are out of service, or will be.
    pub fn held(&self) -> BTreeSet<&Name> {
        self.claims
            .values()
            .flat_map(|claim| &claim.slots)
            .collect()
    }
}

/// `M`: one machine. Only that machine writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MachineRegister {
    /// The machine's name.
    pub machine: Option<Name>,
    /// Raised regularly while the machine's daemon runs.
    pub beat: u64,
    /// When the beat was raised, by the store's clock, in milliseconds; `None` if no answer of the
    /// store had shown its clock. The time may be too early, since the clock advances during the
    /// request, but too late by at most the time of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<u64>,
    /// When the computer was started, as an opaque text: it differs from one computer to another.
    /// `None` if that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// Whether it has prepared for an event after which it does not come back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
    /// Whether a hub acts for the machine, which has no daemon of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_hub: bool,
    /// The limits of its groups in its configuration, by the groups' names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    /// The digests of its groups in its configuration, by the groups' names; `None` if an earlier
    /// version of this program wrote the register.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digests: Option<BTreeMap<String, String>>,
    /// The availability zone, where the machine has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// How many events of this machine started without a decision of the gate.
    #[serde(default)]
    pub forced: u64,
    /// The ids of the last such events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forced_events: Vec<String>,
    /// How far the machine is with its events, by their ids in lower case, as of the last heartbeat.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub events: BTreeMap<String, Progress>,
    /// When it was written.
    pub at: Stamp,
}

/// How far a machine is with an event, beyond its mark. It is for people; no decision depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Progress {
    /// The machine has approved it.
    Approved,
    /// It has started.
    Started,
    /// It is over, and the machine is not back in service.
    Recovering,
    /// It is over, and the machine is in service.
    Over,
    /// A word of a later version.
    #[serde(other)]
    Unknown,
}

/// A change to the register of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EventChange {
    /// A machine marks itself.
    Mark(Name, Mark),
    /// A machine that is not ready begins a round: all marks and the decision are void.
    Begin {
        /// The machine.
        by: Name,
        /// The event as this machine sees it.
        event: Box<Event>,
        /// The number of the round.
        round: u64,
    },
    /// A machine marks itself as ready and decides, or takes a decision over.
    Go(Name),
}

impl EventChange {
    /// Applies the change.
    pub fn apply(&self, register: &mut EventRegister, at: Stamp) {
        match self {
            Self::Mark(machine, mark) => register.set_mark(machine, *mark, at),
            Self::Begin { by, event, round } => {
                register.event_type.clone_from(&event.event_type);
                register.advice = event.is_advice;
                register.duration = event.duration;
                register.resources.clone_from(&event.resources);
                register.round = *round;
                register.was_decided |= register.go.take().is_some();
                register.marks.clear();
                register.set_mark(by, Mark::Withdrawn, at);
            }
            Self::Go(machine) => {
                register.set_mark(machine, Mark::Ready, at);
                register.was_decided = false;
                register.go = Some(Go {
                    by: machine.clone(),
                    at,
                });
            }
        }
    }
}

/// A change to the register of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GroupChange {
    /// A machine claims slots for all machines of an event.
    Claim {
        /// The event.
        event_id: String,
        /// The machine that claims.
        by: Name,
        /// The machines of the group that the event affects.
        slots: BTreeSet<Name>,
        /// How many machines may be out of service.
        limit: u32,
    },
    /// A machine is out of service for an event, whether or not a slot was free.
    Occupy {
        /// The event.
        event_id: String,
        /// The machine.
        machine: Name,
    },
    /// A machine was refused, and its event becomes the next one, unless an earlier one is.
    Reserve {
        /// The event that the group is reserved for.
        next: Next,
        /// How many machines may be out of service.
        limit: u32,
    },
    /// An event is no longer the next one.
    Unreserve {
        /// The event.
        event_id: String,
    },
    /// A machine no longer relies on its claim. When no machine relies on it, the claim ends,
    /// except for machines that are out of service by a last call.
    GiveBack {
        /// The event.
        event_id: String,
        /// The machine that claimed.
        by: Name,
        /// Whether it is in service, even if a last call took it out.
        is_back: bool,
    },
    /// A machine is back in service after an event, or will never be.
    Release {
        /// The event.
        event_id: String,
        /// The machine.
        machine: Name,
    },
}

impl fmt::Display for GroupChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim { event_id, by, .. } => {
                write!(f, "{by} claimed slots for {}", event_id.escape_debug())
            }
            Self::Occupy { event_id, machine } => {
                write!(
                    f,
                    "{machine} is out of service for {}, whether or not a place was free",
                    event_id.escape_debug()
                )
            }
            Self::Reserve { next, .. } => write!(
                f,
                "{} reserved it for {}",
                next.by,
                next.event_id.escape_debug()
            ),
            Self::Unreserve { event_id } => write!(
                f,
                "it is not reserved for {} any more",
                event_id.escape_debug()
            ),
            Self::GiveBack { event_id, by, .. } => {
                write!(
                    f,
                    "{by} gave back its claim for {}",
                    event_id.escape_debug()
                )
            }
            Self::Release { event_id, machine } => {
                write!(f, "freed {machine} of {}", event_id.escape_debug())
            }
        }
    }
}

impl GroupChange {
    /// The same with another spelling of the event's id, for people.
    pub(crate) fn with_id(&self, written: impl Fn(&str) -> String) -> Self {
        let mut change = self.clone();
        let id = match &mut change {
            Self::Claim { event_id, .. }
            | Self::Occupy { event_id, .. }
            | Self::Unreserve { event_id }
            | Self::GiveBack { event_id, .. }
            | Self::Release { event_id, .. } => event_id,
            Self::Reserve { next, .. } => &mut next.event_id,
        };
        *id = written(id);
        change
    }

    /// Whether this releases a slot of this machine.
    pub fn is_of(&self, name: &Name) -> bool {
        matches!(self, Self::Release { machine, .. } if machine == name)
    }

    /// Applies the change.
    pub fn apply(&self, register: &mut GroupRegister, at: Stamp) {
        match self {
            Self::Claim {
                event_id,
                by,
                slots,
                limit,
            } => {
                // Before the members were read, the number that a percentage means is unknown.
                if *limit != u32::MAX {
                    register.limit = *limit;
                }
                let claim = register.claims.entry(event_id.clone()).or_default();
                if claim.slots.is_empty() {
                    claim.at = at;
                }
                claim.slots.extend(slots.iter().cloned());
                claim.by.insert(by.clone());
                register.unreserve(event_id);
            }
            Self::Reserve { next, limit } => {
                register.limit = *limit;
                register.next = Some(next.clone());
            }
            Self::Unreserve { event_id } => register.unreserve(event_id),
            Self::Occupy { event_id, machine } => {
                let claim = register.claims.entry(event_id.clone()).or_default();
                if claim.slots.is_empty() {
                    claim.at = at;
                }
                claim.slots.insert(machine.clone());
                claim.late.insert(machine.clone());
            }
            Self::GiveBack {
                event_id,
                by,
                is_back,
            } => {
                register.change_claim(event_id, |claim| {
                    claim.by.remove(by);
                    claim.late.retain(|machine| !is_back || machine != by);
                    if claim.by.is_empty() {
                        claim.slots.clone_from(&claim.late);
                    }
                    !claim.slots.is_empty()
                });
            }
            Self::Release { event_id, machine } => {
                register.change_claim(event_id, |claim| {
                    claim.by.remove(machine);
                    claim.late.remove(machine);
                    claim.slots.remove(machine);
                    !claim.slots.is_empty()
                });
            }
        }
    }
}

impl GroupRegister {
    fn unreserve(&mut self, event_id: &str) {
        self.next.take_if(|next| next.event_id == event_id);
    }

    /// Changes a claim, if it exists, and removes it unless `change` returns that it stays.
    fn change_claim(&mut self, event_id: &str, change: impl FnOnce(&mut Claim) -> bool) {
        if let Some(claim) = self.claims.get_mut(event_id)
            && !change(claim)
        {
            self.claims.remove(event_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_is_about_the_event_as_it_is() {
        let event = |more: &str| -> Event {
            let text = format!(r#"{{"event_id":"E","event_type":"Freeze"{more}}}"#);
            serde_json::from_str(&text).expect("an event")
        };
        let with = |more: &str| event(&format!(r#","resources":["a","B"]{more}"#));
        let register = |event: Event| {
            let mut register = EventRegister::default();
            let (by, event) = ("a".into(), Box::new(event));
            let change = EventChange::Begin {
                by,
                event,
                round: 1,
            };
            change.apply(&mut register, 0);
            register
        };
        let distinct = [
            with(""),
            with(r#","duration_in_seconds":0"#),
            with(r#","duration_in_seconds":9"#),
            with(r#","event_status":"Advisory""#),
            Event::new("E", "Reboot", ["a", "B"].map(Into::into).into()),
            event(r#","resources":["a"]"#),
        ];
        for (number, event) in distinct.iter().enumerate() {
            let of: Vec<_> = distinct
                .iter()
                .map(|other| register(other.clone()).is_about(event))
                .collect();
            let expected: Vec<_> = (0..distinct.len()).map(|other| other == number).collect();
            assert_eq!(of, expected, "{event:?}");
        }
        for same in [
            with(r#","duration_in_seconds":null"#),
            with(r#","duration_in_seconds":-1"#),
            event(r#","resources":["b","A","b"]"#),
        ] {
            assert!(register(with("")).is_about(&same), "{same:?}");
        }
        assert!(!EventRegister::default().is_about(&with("")));
    }
}
