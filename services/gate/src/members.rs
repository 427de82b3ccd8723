//! The machines that have a register: which run, which are silent, and which are gone.
//!
//! Only the store's clock determines ages, at the time of a question. So a daemon that has just
//! started knows as much as any other, and no machine's clock is compared with another's. The
//! store's clock may jump, too: then machines seem to be silent, which refuses places until their
//! next heartbeat. To treat a machine as gone, which lets others go, takes more: this process has
//! seen no jump for as long as the machine must be silent, and has itself observed the silence
//! several times, over [`SilenceLimits::silent_after`] in total. While the store is down, nobody
//! can raise a heartbeat, and nobody sees one: that time does not count.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::config::Config;
use crate::engine::{Clock, Revision, StoreTime};
use crate::register::MachineRegister;
use crate::store::{self, Invalid};
use scheduled_events_common::names::Name;

/// How long a machine may be silent.
#[derive(Clone, Copy, Debug)]
pub struct SilenceLimits {
    /// After this long without a heartbeat, it counts as out of service.
    pub silent_after: Duration,
    /// After this long, it is no longer a member.
    pub forget_after: Duration,
}

impl SilenceLimits {
    /// Those of a configuration.
    pub const fn of(config: &Config) -> Self {
        Self {
            silent_after: config.silent_after,
            forget_after: config.forget_after,
        }
    }
}

/// A machine that has a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: Name,
    /// Its register.
    pub register: MachineRegister,
    /// Whether it runs, as far as its heartbeat shows.
    pub presence: Presence,
}

/// The register of a machine, as it was listed under this key.
///
/// # Errors
/// It is none, or a copy of one: tools that copy the files of a shared folder leave such a copy,
/// whose heartbeat has stopped.
pub fn listed(key: &str, value: &str) -> Result<MachineRegister, Invalid> {
    let register: MachineRegister = store::check(value)?;
    match &register.machine {
        Some(name) if key.strip_prefix("machines/") != Some(&*name.key()) => {
            Err(Invalid::Copy(name.clone()))
        }
        _ => Ok(register),
    }
}

/// Whether a machine runs, as far as its heartbeat shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Its heartbeat continues.
    Beating,
    /// It has stopped.
    Silent,
    /// It has stopped for good: the machine was about to leave, or it has been silent for so long
    /// that it is forgotten.
    Gone,
}

/// Whether a heartbeat of this time shows that its machine runs. No time, or a time ahead of the
/// clock, shows nothing. [`Presence::Gone`] is not certain yet.
pub fn presence(
    register: &MachineRegister,
    written: Option<StoreTime>,
    clock: Option<Clock>,
    patience: SilenceLimits,
) -> Presence {
    let written = written.or(register.written.map(StoreTime));
    let (Some(written), Some(Clock { now, steady_for })) = (written, clock) else {
        return Presence::Silent;
    };
    match now.since(written) {
        Some(age) if age < patience.silent_after => Presence::Beating,
        Some(age) if register.leaving || age.min(steady_for) >= patience.forget_after => {
            Presence::Gone
        }
        _ => Presence::Silent,
    }
}

/// Machines that were observed to be silent, and for how long.
#[derive(Debug)]
pub struct Sightings {
    seen: HashMap<Name, Sighting>,
    /// The longest time between two observations that counts in full.
    gap_max: Duration,
}

#[derive(Debug)]
struct Sighting {
    /// The revision of its register; `None` if it has none.
    revision: Option<Revision>,
    looked_at: Instant,
    silent: Duration,
}

impl Sightings {
    /// Starts without observations. `interval` is the usual time between two of them.
    pub fn new(interval: Duration) -> Self {
        Self {
            seen: HashMap::new(),
            gap_max: interval * 3 / 2,
        }
    }

    /// Records that a machine is silent now, and that its register has this revision. Returns
    /// whether that has lasted long enough.
    pub fn confirm(
        &mut self,
        machine: &Name,
        revision: Option<&Revision>,
        enough: Duration,
        now: Instant,
    ) -> bool {
        let new = || Sighting {
            revision: revision.cloned(),
            looked_at: now,
            silent: Duration::ZERO,
        };
        let seen = self.seen.entry(machine.clone()).or_insert_with(new);
        if seen.revision.as_ref() == revision {
            seen.silent += now
                .saturating_duration_since(seen.looked_at)
                .min(self.gap_max);
            seen.looked_at = now;
        } else {
            *seen = new();
        }
        seen.silent >= enough
    }

    /// Records that a machine is not silent.
    pub fn forget(&mut self, machine: &Name) {
        self.seen.remove(machine);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: SilenceLimits = SilenceLimits {
        silent_after: Duration::from_secs(120),
        forget_after: Duration::from_secs(3600),
    };
    const NOW: u64 = 1_000_000_000;

    fn clock(steady_for: u64) -> Clock {
        Clock {
            now: StoreTime(NOW),
            steady_for: Duration::from_secs(steady_for),
        }
    }

    fn at(written: Option<u64>, leaving: bool) -> Presence {
        presence(
            &MachineRegister {
                written,
                leaving,
                ..MachineRegister::default()
            },
            None,
            Some(clock(7200)),
            PATIENCE,
        )
    }

    #[test]
    fn a_heartbeat_counts_by_the_clock_of_the_store() {
        for (age, expected, leaving) in [
            (0, Presence::Beating, Presence::Beating),
            (119_999, Presence::Beating, Presence::Beating),
            (120_000, Presence::Silent, Presence::Gone),
            (3_599_999, Presence::Silent, Presence::Gone),
            (3_600_000, Presence::Gone, Presence::Gone),
        ] {
            assert_eq!(at(Some(NOW - age), false), expected, "{age}");
            assert_eq!(at(Some(NOW - age), true), leaving, "{age}");
        }
        // A time that the store records takes precedence.
        let register = MachineRegister {
            written: Some(NOW),
            ..MachineRegister::default()
        };
        assert_eq!(
            presence(
                &register,
                Some(StoreTime(NOW - 200_000)),
                Some(clock(0)),
                PATIENCE
            ),
            Presence::Silent
        );
    }

    #[test]
    fn nothing_shows_that_a_machine_runs_after_the_clock_has_jumped_nor_that_it_is_gone() {
        let day = 86_400_000;
        assert_eq!(
            at(Some(NOW + 30_000), false),
            Presence::Beating,
            "servers of one store differ a little"
        );
        assert_eq!(at(Some(NOW + day), false), Presence::Silent);
        assert_eq!(at(Some(NOW + day), true), Presence::Silent);
        assert_eq!(at(None, true), Presence::Silent);
        assert_eq!(
            presence(&MachineRegister::default(), None, None, PATIENCE),
            Presence::Silent
        );
        let register = MachineRegister {
            written: Some(NOW - day),
            ..MachineRegister::default()
        };
        assert_eq!(
            presence(&register, None, Some(clock(3599)), PATIENCE),
            Presence::Silent,
            "it may have jumped an hour ago"
        );
        assert_eq!(
            presence(&register, None, Some(clock(3600)), PATIENCE),
            Presence::Gone
        );
    }

    #[test]
    fn that_a_machine_is_silent_for_certain_needs_several_looks() {
        let (name, start, minute) = (Name::from("a"), Instant::now(), Duration::from_secs(60));
        let mut sightings = Sightings::new(minute);
        let [one, two] = ["1", "2"].map(|text| Revision(text.into()));
        let mut look = |revision: Option<&Revision>, minutes: u32| {
            sightings.confirm(&name, revision, 2 * minute, start + minutes * minute)
        };
        assert!(!look(Some(&one), 0) && !look(Some(&one), 1) && look(Some(&one), 2));
        assert!(
            !look(Some(&two), 3) && !look(Some(&two), 4) && look(Some(&two), 5),
            "it wrote in between"
        );
        assert!(
            !look(None, 6) && !look(None, 100),
            "time in which nobody looked does not count"
        );
        assert!(look(None, 101));
        sightings.forget(&name);
        assert!(!sightings.confirm(&name, None, 2 * minute, start + 102 * minute));
    }
}
