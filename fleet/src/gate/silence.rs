//! Which machines are silent, by this process's own clock.
//!
//! Only what was looked at counts: while the store is down nobody can raise a heartbeat, and this process cannot see one.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::Revision;
use crate::names::Name;

/// Heartbeats as this process has seen them. The clocks of other machines do not count.
#[derive(Debug, Default)]
pub struct Silence {
    seen: HashMap<Name, Seen>,
    /// The most that counts between two looks.
    interval: Duration,
}

#[derive(Debug)]
struct Seen {
    /// The last revision of its register, when it was first seen, and when it was looked at last. Each beat is a write.
    revision: Option<Revision>,
    since: Instant,
    looked_at: Instant,
    /// For how long it has not changed.
    silent: Duration,
    /// It was seen to change: somebody raises it.
    has_changed: bool,
}

impl Silence {
    /// Nothing is known yet. `interval` is the usual time between two looks.
    pub fn new(interval: Duration) -> Self {
        Self { seen: HashMap::new(), interval }
    }

    /// A machine's register has this revision; `None`: it has none.
    pub fn observe(&mut self, machine: &Name, revision: Option<&Revision>, now: Instant) {
        let new = |has_changed| Seen {
            revision: revision.cloned(),
            since: now,
            looked_at: now,
            silent: Duration::ZERO,
            has_changed,
        };
        let seen = self.seen.entry(machine.clone()).or_insert_with(|| new(false));
        if seen.revision.as_ref() == revision {
            // A little more than an interval may pass between two looks.
            seen.silent += now.saturating_duration_since(seen.looked_at).min(self.interval * 3 / 2);
            seen.looked_at = now;
        } else {
            *seen = new(true);
        }
    }

    /// For how long the machine's register was seen not to change. `None`: it was never looked at.
    pub fn silent_for(&self, machine: &Name) -> Option<Duration> {
        self.seen.get(machine).map(|seen| seen.silent)
    }

    /// Whether the machine's register was seen to change within this time. A machine that is neither beating nor silent was not
    /// looked at for long enough.
    pub fn is_beating(&self, machine: &Name, within: Duration, now: Instant) -> bool {
        let is_beating = |seen: &Seen| {
            seen.has_changed && seen.revision.is_some() && now.saturating_duration_since(seen.since) < within
        };
        self.seen.get(machine).is_some_and(is_beating)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_silent_while_its_register_stays() {
        let (name, second) = (Name::from("a"), Duration::from_secs(1));
        let (mut silence, start) = (Silence::new(second), Instant::now());
        let [one, two] = ["1", "2"].map(|text| Revision(text.into()));
        assert_eq!(silence.silent_for(&name), None, "a process that has just started judges nobody");
        silence.observe(&name, Some(&one), start);
        silence.observe(&name, Some(&one), start + second);
        assert_eq!(silence.silent_for(&name), Some(second));
        assert!(!silence.is_beating(&name, 2 * second, start + second), "it was never seen to change");
        // Any other revision is a sign of life.
        silence.observe(&name, Some(&two), start + 2 * second);
        assert_eq!(silence.silent_for(&name), Some(Duration::ZERO));
        assert!(silence.is_beating(&name, 2 * second, start + 3 * second));
        assert!(!silence.is_beating(&name, 2 * second, start + 4 * second));
        silence.observe(&name, None, start + 3 * second);
        silence.observe(&name, None, start + 4 * second);
        assert_eq!(silence.silent_for(&name), Some(second));
        assert!(!silence.is_beating(&name, 2 * second, start + 4 * second), "its register is gone");
        // Time in which nobody looked does not count.
        silence.observe(&name, None, start + 100 * second);
        assert_eq!(silence.silent_for(&name), Some(second + second * 3 / 2));
    }
}
