//! What the model is made of: its setup, what is kept of each machine, event and register, and what can happen.

use std::sync::Arc;
use std::time::Duration;

use scheduled_events_fleet::gate::{Event, Part, Progress, Share, Step};
use scheduled_events_fleet::names::Name;

/// What is modelled.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // Each is a fault or a defect that a model has or has not.
pub(crate) struct Setup {
    /// The machines of each event.
    pub(crate) events: Vec<Vec<usize>>,
    /// The machines of each group, and how many of them may be out of service together.
    pub(crate) groups: Vec<(Vec<usize>, u32)>,
    /// How many machines there are.
    pub(crate) machines: usize,
    /// How often a process is killed and started again.
    pub(crate) crashes: u8,
    /// How many machines end for good.
    pub(crate) deaths: u8,
    /// Nothing happens between a read and the swap that follows. With compare-and-swap that leaves out nothing but swaps that
    /// are refused, and it makes the states far fewer; the models with `false` check what it leaves out.
    pub(crate) atomic: bool,
    /// Reads may return the value before the last one.
    pub(crate) stale_reads: bool,
    /// A reply to a swap may get lost, whether or not it was carried out.
    pub(crate) lost_replies: bool,
    /// Azure may start an event that is not approved.
    pub(crate) not_before: bool,
    /// Marks are registers of their own: one is written whatever became of the others, unless it is decided.
    pub(crate) marks_apart: bool,
    /// A defect: writes replace whatever is there.
    pub(crate) plain_writes: bool,
    /// A defect: a slot is freed at some time, whatever its holder does.
    pub(crate) slots_expire: bool,
    /// A defect: only the machine that decided posts.
    pub(crate) no_take_over: bool,
    /// A defect: machines that are silent do not count as out of service.
    pub(crate) ignores_silence: bool,
}

impl Setup {
    /// Three machines in one group, of which two may be out of service, and two events that share a machine.
    pub(crate) fn three_machines() -> Self {
        Self {
            events: vec![vec![0, 1], vec![1, 2]],
            groups: vec![(vec![0, 1, 2], 2)],
            machines: 3,
            crashes: 0,
            deaths: 0,
            atomic: true,
            stale_reads: false,
            lost_replies: false,
            not_before: true,
            marks_apart: false,
            plain_writes: false,
            slots_expire: false,
            no_take_over: false,
            ignores_silence: false,
        }
    }

    /// The protocol's fixed part for a machine and an event.
    pub(crate) fn part(&self, machine: usize, event: usize) -> Part {
        let resources = self.events[event].iter().map(|&machine| name(machine)).collect();
        let facts = Event::new(&format!("event-{event}"), "Reboot", resources);
        let shares = self.groups.iter().enumerate().map(|(index, (members, limit))| {
            let slots = self.events[event].iter().filter(|machine| members.contains(machine));
            Share {
                group: format!("group-{index}"),
                slots: slots.map(|&machine| name(machine)).collect(),
                limit: *limit,
            }
        });
        let shares = shares.filter(|share| !share.slots.is_empty()).collect();
        Part::new(name(machine), facts, shares, Duration::from_secs(2))
    }

    /// All parts, by machine and event.
    pub(crate) fn parts(&self) -> Vec<Vec<Part>> {
        let of_machine = |machine| (0..self.events.len()).map(|event| self.part(machine, event)).collect();
        (0..self.machines).map(of_machine).collect()
    }
}

pub(crate) fn name(machine: usize) -> Name {
    Name::from(["a", "b", "c", "d"][machine])
}

/// An event, as the metadata service has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Status {
    Scheduled,
    /// Started because of a POST.
    Approved,
    /// Started because its time came.
    Forced,
    Over {
        approved: bool,
    },
}

/// What a machine does about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// The event does not name the machine.
    NotConcerned,
    /// In service, as far as this event is concerned.
    Idle,
    AskPrepare,
    Preparing,
    /// Out of service.
    Ready,
    AskApprove,
    /// The gate said yes, and the POST is not sent yet.
    Posting,
    /// Back in service, and the slots are to be freed.
    Releasing,
    Done,
}

impl Phase {
    /// The phase with the question that comes next.
    pub(crate) fn asking(self) -> Self {
        match self {
            Self::Idle => Self::AskPrepare,
            Self::Ready => Self::AskApprove,
            phase => phase,
        }
    }
}

/// A register and the value before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Register<T> {
    pub(crate) current: Arc<T>,
    pub(crate) previous: Arc<T>,
}

impl<T: Clone> Register<T> {
    /// `keeps_previous`: with stale reads. Else it would only make more states.
    pub(crate) fn put(&mut self, value: Arc<T>, keeps_previous: bool) {
        let previous = std::mem::replace(&mut self.current, value);
        self.previous = if keeps_previous { previous } else { self.current.clone() };
    }
}

/// A machine and one event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Involvement {
    pub(crate) phase: Phase,
    /// The drain has ended and was not undone.
    pub(crate) is_ready: bool,
    pub(crate) progress: Progress,
}

/// What others see of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Presence {
    Beating,
    /// It has ended for good, and its last heartbeat is so old that it counts as silent. Before that it is to others like one
    /// that lives and does nothing.
    Silent,
    /// It is no member any more.
    Forgotten,
}

/// Which invariant a transition broke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools)] // One for each invariant.
pub(crate) struct Broken {
    pub(crate) s1: bool,
    pub(crate) s2: bool,
    pub(crate) s3: bool,
    pub(crate) s4: bool,
    pub(crate) s5: bool,
}

/// How a step of the protocol ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// As it should.
    Usual,
    /// The read returns the value before the last one.
    Stale,
    /// The swap was carried out, and the reply is lost.
    ReplyLost,
    /// The swap was not carried out, and nobody knows.
    RequestLost,
    /// The machine has waited for its turn to take over.
    Waited,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// The next step of the protocol, or the next swap with what is read before it; of a machine that asks nothing the first step of a question. An answer needs no other
    /// machine, so that it follows at once.
    Step(usize, usize, Outcome),
    /// The drain ends.
    Prepared(usize, usize),
    /// The machine polls, sees the event unchanged, and posts.
    Post(usize, usize),
    /// The POST arrives.
    Deliver(usize),
    /// The POST is lost.
    LosePost(usize),
    /// The event's time comes.
    NotBefore(usize),
    /// The event is over.
    End(usize),
    /// The machine sees that the event is over, and is back in service.
    Recover(usize, usize),
    /// A machine frees the slot of a dead one.
    Free { by: usize, dead: usize, event: usize },
    /// The processes of a machine are killed and started again; the state of the watcher is kept or lost.
    Crash { machine: usize, state_kept: bool },
    /// A machine ends for good, and its silence counts.
    Die(usize),
    /// One that is silent is forgotten.
    Forget(usize),
    /// A slot expires.
    Expire { event: usize, machine: usize },
}

impl<T> Register<T> {
    pub(crate) fn is_stale(&self) -> bool
    where
        T: PartialEq,
    {
        self.current != self.previous
    }

    pub(crate) fn read(&self, outcome: Outcome) -> Arc<T> {
        if outcome == Outcome::Stale { self.previous.clone() } else { self.current.clone() }
    }
}

impl Involvement {
    /// The protocol's next step.
    pub(crate) fn next(&self, part: &Part, has_waited: bool) -> Step {
        match self.phase {
            Phase::Idle | Phase::AskPrepare => part.prepare(&self.progress),
            _ => part.approve(&self.progress, Some(if has_waited { Duration::MAX } else { Duration::ZERO })),
        }
    }
}
