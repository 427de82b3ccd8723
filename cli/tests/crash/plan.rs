//! The meaning of a seed: a timeline of events, the faults of the service, and where the program is
//! killed.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{freeze, in_future, with};

/// A random number generator: `SplitMix64`.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub(crate) fn percent(&mut self, cases: u64) -> bool {
        self.range(1, 100) <= cases
    }

    pub(crate) fn one_of<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        &things[usize::try_from(self.range(0, things.len() as u64 - 1)).expect("an index")]
    }
}

/// The program is killed as one of its threads enters this system call for the n-th time, before
/// the call takes effect; or once this command of the application has acted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kill {
    pub(crate) call: &'static str,
    pub(crate) nth: u64,
    /// Whether it is terminated instead. It then ends its hooks, which run again in the next run.
    pub(crate) politely: bool,
}

/// The system calls with outside effects, and how often one thread of a run makes each. The hooks
/// make none of them except a few `wait4`, so only the watcher is killed.
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

/// The commands of the application. A program that is to be killed once one of them has acted has a
/// slow disk, so that state that it saves only after starting the command is lost.
pub(crate) const COMMANDS: [&str; 2] = ["prepare", "recover"];

impl Kill {
    pub(crate) fn is_at_command(self) -> bool {
        COMMANDS.contains(&self.call)
    }
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {}",
            if self.politely { "stop at" } else { "kill at" },
            self.call,
            self.nth
        )
    }
}

/// The state of an event in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventState {
    Scheduled,
    /// Scheduled, an hour later.
    Moved,
    Started,
}

/// When the next scene follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Once one run has read it this often. A run polls again only after it has saved the document,
    /// so one that is killed before that reads the document again.
    Read(u64),
    /// Once it was read and these events were approved.
    Approved(Vec<&'static str>),
    Never,
}

/// A document, and when it is replaced.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) events: Vec<(&'static str, EventState)>,
    pub(crate) gate: Gate,
}

/// The changes that occur in plans.
pub(crate) const CHANGES: [&str; 7] = [
    "scheduled",
    "rescheduled",
    "started",
    "started-without-notice",
    "completed",
    "cancelled",
    "ended",
];

/// The id of another machine's event.
pub(crate) const FOREIGN: &str = "other";

#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // Independent facts.
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Whether the policy prepares before it approves.
    pub(crate) prepares: bool,
    /// Whether the preparation succeeds.
    pub(crate) preparation_succeeds: bool,
    /// How long preparing and recovering take, in milliseconds.
    pub(crate) pause: u64,
    /// Whether the program requests the machine's name.
    pub(crate) asks_name: bool,
    /// Whether the document may also change between two runs: events start and end while the
    /// program is down.
    pub(crate) changes_between_runs: bool,
    /// Whether there are hooks for changes.
    pub(crate) has_hooks: bool,
    pub(crate) scenes: Vec<Scene>,
    pub(crate) kills: Vec<Kill>,
    /// The largest numbers of polls and approvals that fail.
    pub(crate) faults: (u64, u64),
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let prepares = random.percent(80);
        let preparation_succeeds = random.percent(85);
        let approves = !prepares || preparation_succeeds;
        let kills = (0..random.range(1, 4)).map(|_| {
            if prepares && random.percent(30) {
                return Kill {
                    call: random.one_of::<&'static str>(&COMMANDS),
                    nth: 1,
                    politely: false,
                };
            }
            let &(call, low, high) = random.one_of(&CALLS);
            Kill {
                call,
                nth: random.range(low, high),
                politely: random.percent(15),
            }
        });
        Self {
            seed,
            prepares,
            preparation_succeeds,
            kills: kills.collect(),
            pause: *random.one_of(&[0, 0, 30, 250]),
            asks_name: random.percent(20),
            changes_between_runs: random.percent(40),
            has_hooks: random.percent(50),
            scenes: scenes(&mut random, approves),
            faults: (random.range(0, 2), random.range(0, 2)),
        }
    }

    /// The changes of an event, in order. The end of an event that did not start can be reported as
    /// one of two changes.
    pub(crate) fn changes(&self, id: &str) -> Vec<&'static [&'static str]> {
        let mut changes: Vec<&'static [&'static str]> = Vec::new();
        let mut last = None;
        for scene in &self.scenes {
            let state = scene
                .events
                .iter()
                .find(|(shown, _)| *shown == id)
                .map(|(_, state)| *state);
            match (last, state) {
                (before, now) if before == now => {}
                (None, Some(EventState::Started)) => changes.push(&["started-without-notice"]),
                (None, _) => changes.push(&["scheduled"]),
                (Some(EventState::Started), None) => changes.push(&["completed"]),
                (Some(_), None) => changes.push(&["ended", "cancelled"]),
                (Some(_), Some(EventState::Started)) => changes.push(&["started"]),
                (Some(_), Some(_)) => changes.push(&["rescheduled"]),
            }
            last = state;
        }
        changes
    }

    pub(crate) fn ids(&self) -> Vec<&'static str> {
        let mut ids: Vec<_> = self
            .scenes
            .iter()
            .flat_map(|scene| &scene.events)
            .map(|(id, _)| *id)
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Whether the event was ever announced before it started.
    pub(crate) fn announces(&self, id: &str) -> bool {
        self.scenes
            .iter()
            .flat_map(|scene| &scene.events)
            .any(|&(shown, state)| shown == id && state != EventState::Started)
    }
}

fn scenes(random: &mut Random, approves: bool) -> Vec<Scene> {
    let mut scenes = Vec::new();
    if random.percent(30) {
        scenes.push(Scene {
            events: Vec::new(),
            gate: Gate::Read(1),
        });
    }
    let mut events = vec![("a", EventState::Scheduled)];
    if random.percent(40) {
        // A few start without notice.
        events.push((
            "b",
            if random.percent(25) {
                EventState::Started
            } else {
                EventState::Scheduled
            },
        ));
    }
    if random.percent(15) {
        events.push((FOREIGN, EventState::Scheduled));
    }
    if random.percent(20) {
        scenes.push(Scene {
            events: events.clone(),
            gate: Gate::Read(1),
        });
        events[0].1 = EventState::Moved;
    }
    let awaited = events
        .iter()
        .filter(|(id, state)| *id != FOREIGN && *state != EventState::Started)
        .map(|(id, _)| *id);
    let gate = match awaited.collect::<Vec<_>>() {
        // Some are cancelled or start before they are approved.
        awaited if approves && random.percent(85) => Gate::Approved(awaited),
        _ => Gate::Read(random.range(1, 3)),
    };
    scenes.push(Scene {
        events: events.clone(),
        gate,
    });
    if random.percent(50) {
        // The approved event does not start at once.
        scenes.push(Scene {
            events: events.clone(),
            gate: Gate::Read(2),
        });
    }
    if random.percent(70) {
        for (_, state) in &mut events {
            *state = EventState::Started;
        }
        scenes.push(Scene {
            events: events.clone(),
            gate: Gate::Read(1),
        });
    }
    if random.percent(30) {
        // Another event is announced while the first ones are open.
        events.push(("c", EventState::Scheduled));
        let gate = if approves && random.percent(60) {
            Gate::Approved(vec!["c"])
        } else {
            Gate::Read(1)
        };
        scenes.push(Scene {
            events: events.clone(),
            gate,
        });
    }
    while events.len() > 1 && random.percent(50) {
        events.remove(0);
        scenes.push(Scene {
            events: events.clone(),
            gate: Gate::Read(1),
        });
    }
    scenes.push(Scene {
        events: Vec::new(),
        gate: Gate::Never,
    });
    scenes
}

/// The event in the document.
pub(crate) fn event(id: &str, state: EventState) -> Value {
    let machine = if id == FOREIGN {
        "WestNO_1"
    } else {
        crate::support::VM
    };
    let event = with(freeze(id), &json!({ "Resources": [machine] }));
    match state {
        EventState::Scheduled => event,
        // The same time in each call, or each poll would reschedule the event.
        EventState::Moved => {
            static LATER: std::sync::LazyLock<String> =
                std::sync::LazyLock::new(|| in_future(Duration::from_secs(7200)));
            with(event, &json!({ "NotBefore": *LATER }))
        }
        EventState::Started => with(event, &json!({ "EventStatus": "Started", "NotBefore": "" })),
    }
}
