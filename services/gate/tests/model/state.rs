//! The parts of the model: its setup, the state of each machine, event and register, and the
//! actions.

use std::time::Duration;

use scheduled_events_common::names::Name;
use scheduled_events_gate::event::Event;
use scheduled_events_gate::protocol::{GateStep, Participant, Progress, Share};

use crate::kept::{Keep, Kept};

/// The most machines, events and groups that a setup has.
pub(crate) const MACHINES: usize = 3;
pub(crate) const EVENTS: usize = 2;
pub(crate) const GROUPS: usize = 2;

/// A rule of the protocol that a check can remove, so that it has something to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Registers change by compare-and-swap.
    Swaps,
    /// The decision about an event uses the marks of all its machines.
    AllMarks,
    /// A machine that prepares again withdraws its mark first.
    Withdrawal,
    /// A machine that sees another event than the register's begins a round.
    Rounds,
    /// So does a machine that prepares although the event is decided.
    VoidDecision,
    /// It prepares only when nobody can still post because of the decision.
    PostsAreOver,
    /// A machine posts only after a swap that shows that the decision still counts.
    ConfirmedDecision,
    /// A register that names more machines than a machine's documents is left as it is.
    Newcomers,
    /// Places do not expire by time.
    NoExpiry,
    /// The marks of silent machines do not count for a decision.
    SilentMarks,
    /// A machine whose process has ended withdraws the marks of that one before others hear of it again.
    EarlierMarks,
    /// Silent machines count as out of service.
    SilenceCounts,
    /// Machines that are out of service by a last call count.
    LateCounts,
    /// Another machine posts a decided approval.
    TakeOver,
    /// A machine keeps its places until it has recovered.
    KeptUntilRecovery,
    /// Others free only the places of machines that are silent.
    SilenceFirst,
    /// A machine that stays takes back that it is about to leave.
    LeavingTakenBack,
    /// A machine that has lost its state compares its places with its own document.
    OwnDocument,
    /// A machine that has lost its state gives back its places once the event is over.
    NoGhosts,
    /// A machine prepares by its last call, whatever the gate answers.
    LastCall,
    /// No machine takes places that the next event needs.
    Next,
    /// Nobody decides about advice.
    Advice,
    /// A machine that finds an older register than it knows begins a round.
    OlderStore,
    /// A daemon that may have another machine's name marks nothing as ready.
    Copies,
}

/// The setup of a model.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // Each is a fault that a model either has or does not have.
pub(crate) struct Setup {
    /// The machines of each event.
    pub(crate) events: Vec<Vec<usize>>,
    /// The machines of each group, and how many of them may be out of service together.
    pub(crate) groups: Vec<(Vec<usize>, u32)>,
    /// How many machines there are.
    pub(crate) machines: usize,
    /// How many times a process is killed and restarted.
    pub(crate) crashes: u8,
    /// How many machines end for good.
    pub(crate) deaths: u8,
    /// A machine that ends counts as silent only some time later.
    pub(crate) ends_unseen: bool,
    /// How many times a machine loses everything that it has written, and starts anew.
    pub(crate) losses: u8,
    /// How many times a machine's daemon is silent for a while.
    pub(crate) silences: u8,
    /// Nothing happens between a read and the swap that follows. With compare-and-swap this leaves
    /// out only swaps that are refused, and it reduces the states greatly; the models with `false`
    /// check what it leaves out.
    pub(crate) atomic: bool,
    /// Reads may return the value before the last one.
    pub(crate) stale_reads: bool,
    /// A reply to a swap may be lost, whether or not the swap was carried out.
    pub(crate) lost_replies: bool,
    /// Azure may start an event that is not approved.
    pub(crate) not_before: bool,
    /// Machines may prepare without the gate, by their last calls, and have done so by `NotBefore`.
    pub(crate) last_call: bool,
    /// A machine prepares by its last call only while its daemon is silent, and undoes first what an
    /// earlier process has prepared.
    pub(crate) cut_off: bool,
    /// The first event is a `Terminate`: its machines do not come back, unless it is cancelled.
    pub(crate) terminates: bool,
    /// The first event is advice: it is withdrawn some time, and never starts.
    pub(crate) advice: bool,
    /// How many preparations fail, and are tried again.
    pub(crate) failures: u8,
    /// How many times the first event changes: it takes longer, and then again less long.
    pub(crate) changes: u8,
    /// The machine that the first event affects, too, once it has changed; its duration stays.
    pub(crate) joins: Option<usize>,
    /// Marks are registers of their own: one is written whatever the state of the others, unless
    /// the event is decided.
    pub(crate) marks_apart: bool,
    /// How many times the first event's register comes back from a backup. All machines of the event
    /// have read the register that is lost, and nobody is about to post: the guide says what is
    /// possible otherwise.
    pub(crate) restores: u8,
    /// How many times a copy of a machine, with a daemon of the same name, asks about the first event.
    pub(crate) copies: u8,
    /// The rule that is removed.
    pub(crate) without: Option<Rule>,
}

impl Setup {
    /// Three machines in one group, of which two may be out of service, and two events that share a
    /// machine.
    pub(crate) fn three_machines() -> Self {
        Self {
            events: vec![vec![0, 1], vec![1, 2]],
            groups: vec![(vec![0, 1, 2], 2)],
            machines: 3,
            crashes: 0,
            deaths: 0,
            ends_unseen: false,
            losses: 0,
            silences: 0,
            atomic: true,
            stale_reads: false,
            lost_replies: false,
            not_before: true,
            last_call: false,
            cut_off: false,
            terminates: false,
            advice: false,
            failures: 0,
            changes: 0,
            joins: None,
            marks_apart: false,
            restores: 0,
            copies: 0,
            without: None,
        }
    }

    /// Two machines, of which one may be out of service, an event of both, and one of the second
    /// machine.
    pub(crate) fn two_machines() -> Self {
        let (events, groups) = (vec![vec![0, 1], vec![1]], vec![(vec![0, 1], 1)]);
        Self {
            machines: 2,
            events,
            groups,
            ..Self::three_machines()
        }
    }

    /// Two machines, of which one may be out of service, and one event for each.
    pub(crate) fn an_event_each() -> Self {
        Self {
            events: vec![vec![0], vec![1]],
            ..Self::two_machines()
        }
    }

    /// An event of two machines, which may both be out of service.
    pub(crate) fn one_event() -> Self {
        Self {
            events: vec![vec![0, 1]],
            groups: vec![(vec![0, 1], 2)],
            ..Self::two_machines()
        }
    }

    /// The same, and a machine that loses its state while its daemon is silent prepares again without
    /// having withdrawn its mark.
    pub(crate) fn cut_off() -> Self {
        Self {
            silences: 1,
            crashes: 1,
            last_call: true,
            cut_off: true,
            ..Self::one_event()
        }
    }

    /// The register of an event of two machines comes back from a backup, and one of them is restarted.
    pub(crate) fn restored() -> Self {
        Self {
            restores: 1,
            crashes: 1,
            ..Self::one_event()
        }
    }

    /// There is a copy of one of an event's two machines.
    pub(crate) fn copied() -> Self {
        Self {
            copies: 2,
            crashes: 1,
            ..Self::one_event()
        }
    }

    /// An event of two machines, and a third machine that joins it.
    pub(crate) fn one_joins() -> Self {
        Self {
            changes: 1,
            joins: Some(2),
            machines: 3,
            groups: vec![(vec![0, 1, 2], 3)],
            ..Self::one_event()
        }
    }

    pub(crate) fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    /// Whether an event's machines do not come back.
    pub(crate) fn is_final(&self, event: usize) -> bool {
        self.terminates && event == 0
    }

    /// Whether an event is advice.
    pub(crate) fn is_advice(&self, event: usize) -> bool {
        self.advice && event == 0
    }

    /// The machines of an event that has changed so many times.
    pub(crate) fn machines_of(&self, event: usize, changes: u8) -> Vec<usize> {
        let joins = self.joins.filter(|_| event == 0 && is_changed(changes));
        self.events[event].iter().copied().chain(joins).collect()
    }

    /// The protocol's participant for a machine and an event, as it is after so many changes.
    pub(crate) fn participant(&self, machine: usize, event: usize, changes: u8) -> Participant {
        let machines = self.machines_of(event, changes);
        let resources = machines.iter().map(|&machine| name(machine)).collect();
        let event_type = if self.is_final(event) {
            "Terminate"
        } else if self.is_advice(event) && self.has(Rule::Advice) {
            "SpotRebalanceRecommendation"
        } else {
            "Reboot"
        };
        let mut facts = Event::new(event_id(event), event_type, resources);
        if event == 0 && is_changed(changes) && self.joins.is_none() {
            facts.duration = Some(900);
        }
        let shares = self
            .groups
            .iter()
            .enumerate()
            .map(|(index, (members, limit))| {
                let slots = machines.iter().filter(|machine| members.contains(machine));
                Share {
                    group: format!("group-{index}"),
                    slots: slots.map(|&machine| name(machine)).collect(),
                    limit: *limit,
                }
            });
        let shares = shares.filter(|share| !share.slots.is_empty()).collect();
        Participant::new(name(machine), facts, shares, Duration::from_secs(2))
    }

    /// All participants, by machine, event, and whether it is changed.
    pub(crate) fn participants(&self) -> Vec<Vec<[Participant; 2]>> {
        let of_machine = |machine| {
            (0..self.events.len())
                .map(|event| [0, 1].map(|changes| self.participant(machine, event, changes)))
                .collect()
        };
        (0..self.machines).map(of_machine).collect()
    }
}

/// Whether an event that has changed so many times is another one than at first.
pub(crate) const fn is_changed(changes: u8) -> bool {
    changes % 2 == 1
}

pub(crate) fn name(machine: usize) -> Name {
    Name::from(["a", "b", "c"][machine])
}

pub(crate) fn event_id(event: usize) -> &'static str {
    ["event-0", "event-1"][event]
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

/// The phase of a machine in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// The event does not name the machine.
    NotConcerned,
    /// The machine is in service with regard to this event.
    Idle,
    /// The same, for a machine that does not know what it did before.
    Lost,
    AskPrepare,
    Preparing,
    /// Out of service.
    Ready,
    AskApprove,
    /// The gate said yes, and the POST is not sent yet.
    Posting,
    /// Back in service; the slots are not free yet.
    Releasing,
    Done,
}

impl Phase {
    /// The phase of the next question.
    pub(crate) fn asking(self) -> Self {
        match self {
            Self::Idle | Self::Lost => Self::AskPrepare,
            Self::Ready => Self::AskApprove,
            phase => phase,
        }
    }

    /// Whether the machine has not begun to prepare.
    pub(crate) fn is_in_service(self) -> bool {
        matches!(self, Self::Idle | Self::Lost | Self::AskPrepare)
    }
}

/// A register and its previous value.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Register<T: 'static> {
    pub(crate) current: Kept<T>,
    pub(crate) previous: Kept<T>,
}

impl<T> Clone for Register<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Register<T> {}

impl<T: Keep> Default for Register<T> {
    fn default() -> Self {
        Self {
            current: Kept::default(),
            previous: Kept::default(),
        }
    }
}

impl<T: Keep> Register<T> {
    /// Sets the value. `keeps_previous` is for stale reads; otherwise the previous value would only
    /// multiply the states.
    pub(crate) fn put(&mut self, value: T, keeps_previous: bool) {
        let previous = std::mem::replace(&mut self.current, Kept::new(value));
        self.previous = if keeps_previous {
            previous
        } else {
            self.current
        };
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.current != self.previous
    }

    pub(crate) fn read(&self, outcome: Outcome) -> Kept<T> {
        if outcome == Outcome::Stale {
            self.previous
        } else {
            self.current
        }
    }
}

/// The state of a machine in one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools)] // Each is a fact of its own.
pub(crate) struct Participation {
    pub(crate) phase: Phase,
    /// The drain has ended and was not undone.
    pub(crate) is_ready: bool,
    /// The drain is, or was, for the event as it is when it takes longer.
    pub(crate) is_for_longer: bool,
    /// It went out of service by its last call.
    pub(crate) is_late: bool,
    /// The last drain failed, which left the machine out of service.
    pub(crate) has_failed: bool,
    pub(crate) progress: Kept<Progress>,
}

impl Participation {
    pub(crate) fn new(phase: Phase) -> Self {
        Self {
            phase,
            is_ready: false,
            is_for_longer: false,
            is_late: false,
            has_failed: false,
            progress: Kept::default(),
        }
    }

    /// The machine is back in service.
    pub(crate) fn has_recovered(self) -> bool {
        matches!(self.phase, Phase::Releasing | Phase::Done)
    }

    /// The protocol's next step.
    pub(crate) fn next(
        phase: Phase,
        progress: &Progress,
        participant: &Participant,
        has_waited: bool,
        posts_are_over: bool,
    ) -> GateStep {
        match phase {
            Phase::AskPrepare => participant.prepare(progress, posts_are_over),
            _ => participant.approve(
                progress,
                Some(if has_waited {
                    Duration::MAX
                } else {
                    Duration::ZERO
                }),
            ),
        }
    }
}

/// A machine, as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Presence {
    Beating,
    /// Its daemon does not run for a while, but the machine and its watcher do.
    Hushed,
    /// It has ended for good, and others see no difference from a living machine that does nothing.
    Ended,
    /// The same, and its last heartbeat is so old that it counts as silent.
    Silent,
    /// It is no longer a member.
    Forgotten,
}

impl Presence {
    pub(crate) fn is_alive(self) -> bool {
        matches!(self, Self::Beating | Self::Hushed)
    }

    pub(crate) fn is_silent(self) -> bool {
        matches!(self, Self::Hushed | Self::Silent)
    }

    /// Whether others know that it has ended.
    pub(crate) fn is_gone(self) -> bool {
        matches!(self, Self::Silent | Self::Forgotten)
    }
}

/// The invariants that a transition broke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools)] // One for each invariant.
pub(crate) struct Broken {
    pub(crate) s1: bool,
    pub(crate) s2: bool,
    pub(crate) s3: bool,
    pub(crate) s4: bool,
    pub(crate) s5: bool,
    pub(crate) s6: bool,
    pub(crate) l2: bool,
    pub(crate) l3: bool,
}

/// How a step of the protocol ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// Normally.
    Usual,
    /// The read returns the value before the last one.
    Stale,
    /// The swap was carried out, and the reply is lost.
    ReplyLost,
    /// The swap was not carried out, but the machine does not know.
    RequestLost,
    /// The machine has waited for its turn to take over.
    Waited,
}

/// The actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// The next step of the protocol, or the next swap with the reads before it; for a machine
    /// without a question, the first step of one. An answer involves no other machine, so it
    /// follows at once.
    Step(usize, usize, Outcome),
    /// The last call: the machine prepares although the gate has not said yes.
    LastCall(usize, usize),
    /// The daemon writes that the machine is out of service by a last call.
    Occupy(usize, usize),
    /// The drain ends.
    Prepared(usize, usize),
    /// The drain fails, and the watcher tries again some time. It asks again only if the gate has not said yes.
    Fail(usize, usize),
    /// The machine polls, finds the event unchanged, and posts.
    Post(usize, usize),
    /// The POST arrives.
    Deliver(usize),
    /// The POST is lost.
    LosePost(usize),
    /// The event changes.
    Change(usize),
    /// A machine's document shows the event as it was after so many changes.
    See(usize, usize, u8),
    /// The event's time comes.
    NotBefore(usize),
    /// The event disappears before it has started; advice is withdrawn.
    Cancel(usize),
    /// The event is over.
    End(usize),
    /// The machine sees that the event is over, and is back in service.
    Recover(usize, usize),
    /// A defect: the daemon takes the machine out of the group before it has recovered.
    ReleaseEarly(usize, usize),
    /// Another machine frees the slot of one that is gone.
    Free { holder: usize, event: usize },
    /// The processes of a machine are killed and restarted; the state of the watcher is kept or
    /// lost.
    Crash { machine: usize, state_kept: bool },
    /// A machine starts anew, with an empty disk.
    LoseState(usize),
    /// A machine ends for good, and its silence counts, at once or later.
    Die(usize),
    /// The silence of a machine that has ended counts from now on.
    Quiet(usize),
    /// A machine's daemon falls silent, and its silence counts.
    Hush(usize),
    /// It continues.
    Resume(usize),
    /// A silent machine is forgotten.
    Forget(usize),
    /// The store is backed up: the first event's register.
    BackUp,
    /// It comes back from the backup.
    Restore,
    /// A daemon on a copy of a machine has the machine's name, and its watcher asks about the first
    /// event.
    Copy(usize),
    /// A defect: a slot expires.
    Expire { event: usize, machine: usize },
}
