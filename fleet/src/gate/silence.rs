//! Which machines are silent, by this process's own clock.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::names::Name;

/// Heartbeats as this process has seen them. The clocks of other machines do not count.
#[derive(Debug, Default)]
pub struct Silence {
    seen: HashMap<Name, Seen>,
}

#[derive(Debug)]
struct Seen {
    /// The last beat, and when it was first seen.
    beat: Option<u64>,
    since: Instant,
    /// It was seen to change: somebody raises it.
    has_changed: bool,
}

impl Silence {
    /// A machine's counter was read; `None`: it has none.
    pub fn observe(&mut self, machine: &Name, beat: Option<u64>, now: Instant) {
        let seen = self.seen.entry(machine.clone()).or_insert(Seen { beat, since: now, has_changed: false });
        if seen.beat != beat {
            *seen = Seen { beat, since: now, has_changed: true };
        }
    }

    /// For how long the machine's counter has not changed. `None`: it was never looked at.
    pub fn silent_for(&self, machine: &Name, now: Instant) -> Option<Duration> {
        self.seen.get(machine).map(|seen| now.saturating_duration_since(seen.since))
    }

    /// Whether the machine's counter was seen to change within this time. A machine that is neither beating nor silent was not
    /// looked at for long enough.
    pub fn is_beating(&self, machine: &Name, within: Duration, now: Instant) -> bool {
        let is_beating =
            |seen: &Seen| seen.has_changed && seen.beat.is_some() && now.saturating_duration_since(seen.since) < within;
        self.seen.get(machine).is_some_and(is_beating)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_silent_while_its_counter_stays() {
        let (mut silence, start) = (Silence::default(), Instant::now());
        let (name, second) = (Name::from("a"), Duration::from_secs(1));
        assert_eq!(silence.silent_for(&name, start), None, "a process that has just started judges nobody");
        silence.observe(&name, Some(7), start);
        silence.observe(&name, Some(7), start + second);
        assert_eq!(silence.silent_for(&name, start + second), Some(second));
        assert!(!silence.is_beating(&name, 2 * second, start + second), "it was never seen to change");
        // A counter that begins again is a sign of life, too.
        silence.observe(&name, Some(1), start + 2 * second);
        assert_eq!(silence.silent_for(&name, start + 2 * second), Some(Duration::ZERO));
        assert!(silence.is_beating(&name, 2 * second, start + 3 * second));
        assert!(!silence.is_beating(&name, 2 * second, start + 4 * second));
        silence.observe(&name, None, start + 3 * second);
        assert_eq!(silence.silent_for(&name, start + 4 * second), Some(second));
        assert!(!silence.is_beating(&name, 2 * second, start + 4 * second), "its register is gone");
    }
}
