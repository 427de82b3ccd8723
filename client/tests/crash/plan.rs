//! What a seed stands for: the course of some events, what the service does wrong, and where the command is killed.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{freeze, in_future, with};

/// Numbers by chance, the same for the same seed: `SplitMix64`.
#[derive(Clone, Debug)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From `low` to `high`, both possible.
    pub(crate) fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub(crate) fn in_a_hundred(&mut self, cases: u64) -> bool {
        self.within(1, 100) <= cases
    }

    pub(crate) fn one_of<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        &things[usize::try_from(self.within(0, things.len() as u64 - 1)).expect("an index")]
    }
}

/// A boundary: the command is killed as one of its threads enters this system call for the n-th time. What comes before
/// the call has happened then, the call itself has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kill {
    pub(crate) call: &'static str,
    pub(crate) nth: u64,
    /// Whether it is asked to stop instead. It then ends its commands, and those that it ends run again.
    pub(crate) politely: bool,
}

/// The calls through which the command acts on anything outside, and how often a run makes each in one thread. The user's
/// commands make none of them, so that only the watcher is hit; `wait4` is theirs a few times.
pub(crate) const CALLS: [(&str, u64, u64); 11] = [
    ("write", 1, 24),    // a record, the state file, a command's input
    ("fsync", 1, 24),    // the state file, and its folder
    ("rename", 1, 12),   // the state file
    ("sendto", 1, 14),   // a poll, an approval's head, its body
    ("recvfrom", 1, 24), // an answer
    ("connect", 1, 1),
    ("clone3", 1, 9),    // a thread, a command
    ("pipe2", 1, 3),     // a command is about to start
    ("wait4", 2, 12),    // a command has ended, or runs
    ("futex", 1, 36),    // a message between threads
    ("ftruncate", 1, 1), // the lock is taken
];

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", if self.politely { "stop at" } else { "kill at" }, self.call, self.nth)
    }
}

/// How far an event is, as the document says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    Scheduled,
    /// Scheduled, for another hour.
    Moved,
    Started,
}

/// When the document moves on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Once one run has read it so often. It asks for the next only when it has kept what it made of the last, so a run
    /// that is killed before that sees the document again.
    Read(u64),
    /// Once it was read, and these events were approved.
    Approved(Vec<&'static str>),
    Never,
}

/// A document, and when the next one takes its place.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) events: Vec<(&'static str, Stand)>,
    pub(crate) gate: Gate,
}

/// The changes that come about here.
pub(crate) const CHANGES: [&str; 7] =
    ["scheduled", "rescheduled", "started", "started-without-notice", "completed", "cancelled", "ended"];

/// Another machine's event.
pub(crate) const FOREIGN: &str = "other";

#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // Independent facts.
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Whether the policy prepares before it approves.
    pub(crate) prepares: bool,
    /// Whether the preparation succeeds.
    pub(crate) prepares_well: bool,
    /// How long preparing and recovering take, in milliseconds.
    pub(crate) pause: u64,
    /// Whether the command asks for the machine's name.
    pub(crate) asks_name: bool,
    /// Whether the document also moves on while nobody watches.
    pub(crate) moves_unseen: bool,
    /// Whether there are commands for changes.
    pub(crate) tells: bool,
    pub(crate) scenes: Vec<Scene>,
    pub(crate) kills: Vec<Kill>,
    /// How many polls and approvals go wrong at most.
    pub(crate) faults: (u64, u64),
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let prepares = chance.in_a_hundred(80);
        let prepares_well = chance.in_a_hundred(85);
        let approves = !prepares || prepares_well;
        let kills = (0..chance.within(1, 4)).map(|_| {
            let &(call, low, high) = chance.one_of(&CALLS);
            Kill { call, nth: chance.within(low, high), politely: chance.in_a_hundred(15) }
        });
        Self {
            seed,
            prepares,
            prepares_well,
            kills: kills.collect(),
            pause: *chance.one_of(&[0, 0, 30, 250]),
            asks_name: chance.in_a_hundred(20),
            moves_unseen: chance.in_a_hundred(20),
            tells: chance.in_a_hundred(50),
            scenes: scenes(&mut chance, approves),
            faults: (chance.within(0, 2), chance.within(0, 2)),
        }
    }

    /// The changes of an event, in their order; the end of one that did not start can be seen as either of two.
    pub(crate) fn changes(&self, id: &str) -> Vec<&'static [&'static str]> {
        let mut changes: Vec<&'static [&'static str]> = Vec::new();
        let mut last = None;
        for scene in &self.scenes {
            let stand = scene.events.iter().find(|(shown, _)| *shown == id).map(|(_, stand)| *stand);
            match (last, stand) {
                (before, now) if before == now => {}
                (None, Some(Stand::Started)) => changes.push(&["started-without-notice"]),
                (None, _) => changes.push(&["scheduled"]),
                (Some(Stand::Started), None) => changes.push(&["completed"]),
                (Some(_), None) => changes.push(&["ended", "cancelled"]),
                (Some(_), Some(Stand::Started)) => changes.push(&["started"]),
                (Some(_), Some(_)) => changes.push(&["rescheduled"]),
            }
            last = stand;
        }
        changes
    }

    pub(crate) fn ids(&self) -> Vec<&'static str> {
        let mut ids: Vec<_> = self.scenes.iter().flat_map(|scene| &scene.events).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Whether the event was ever announced before it started.
    pub(crate) fn announces(&self, id: &str) -> bool {
        self.scenes.iter().flat_map(|scene| &scene.events).any(|&(shown, stand)| shown == id && stand != Stand::Started)
    }
}

fn scenes(chance: &mut Chance, approves: bool) -> Vec<Scene> {
    let mut scenes = Vec::new();
    if chance.in_a_hundred(30) {
        scenes.push(Scene { events: Vec::new(), gate: Gate::Read(1) });
    }
    let mut events = vec![("a", Stand::Scheduled)];
    if chance.in_a_hundred(40) {
        // Some start without notice.
        events.push(("b", if chance.in_a_hundred(25) { Stand::Started } else { Stand::Scheduled }));
    }
    if chance.in_a_hundred(15) {
        events.push((FOREIGN, Stand::Scheduled));
    }
    if chance.in_a_hundred(20) {
        scenes.push(Scene { events: events.clone(), gate: Gate::Read(1) });
        events[0].1 = Stand::Moved;
    }
    let awaited = events.iter().filter(|(id, stand)| *id != FOREIGN && *stand != Stand::Started).map(|(id, _)| *id);
    let gate = match awaited.collect::<Vec<_>>() {
        // Some are called off, or start, before they are approved.
        awaited if approves && chance.in_a_hundred(85) => Gate::Approved(awaited),
        _ => Gate::Read(chance.within(1, 3)),
    };
    scenes.push(Scene { events: events.clone(), gate });
    if chance.in_a_hundred(50) {
        // Azure takes its time, and the approved event stays as it is.
        scenes.push(Scene { events: events.clone(), gate: Gate::Read(2) });
    }
    if chance.in_a_hundred(70) {
        for (_, stand) in &mut events {
            *stand = Stand::Started;
        }
        scenes.push(Scene { events: events.clone(), gate: Gate::Read(1) });
    }
    while events.len() > 1 && chance.in_a_hundred(50) {
        events.remove(0);
        scenes.push(Scene { events: events.clone(), gate: Gate::Read(1) });
    }
    scenes.push(Scene { events: Vec::new(), gate: Gate::Never });
    scenes
}

/// An event as the document shows it.
pub(crate) fn event(id: &str, stand: Stand) -> Value {
    let machine = if id == FOREIGN { "WestNO_1" } else { crate::support::VM };
    let event = with(freeze(id), &json!({ "Resources": [machine] }));
    match stand {
        Stand::Scheduled => event,
        // The same moment however often it is asked for, or each poll would move it again.
        Stand::Moved => {
            static LATER: std::sync::LazyLock<String> =
                std::sync::LazyLock::new(|| in_future(Duration::from_secs(7200)));
            with(event, &json!({ "NotBefore": *LATER }))
        }
        Stand::Started => with(event, &json!({ "EventStatus": "Started", "NotBefore": "" })),
    }
}
