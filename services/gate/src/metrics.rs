//! The metrics file of the daemon.

use std::io;
use std::path::Path;

use scheduled_events::files::replace_readable;
use scheduled_events::metrics::exposition::{Family, FamilyKind, number};

/// The values in the metrics file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metrics {
    /// How many events of this machine started without a decision of the gate.
    pub(crate) forced: u64,
    /// When this process saw the last one, in seconds since 1970; 0 if it has seen none.
    pub(crate) last_forced: i64,
    /// How many open events the watcher asked about.
    pub(crate) events: usize,
    /// Whether the engine answers, and its registers are valid.
    pub(crate) engine_up: bool,
    /// How many machines had other limits for a group than this one at the last read.
    pub(crate) limits_differ: usize,
    /// How many machines this process has forgotten.
    pub(crate) forgotten: u64,
    /// How many slots of other machines this process has freed.
    pub(crate) freed: u64,
}

impl Metrics {
    /// The text in Prometheus' format.
    fn text(self) -> String {
        let mut text = String::new();
        for (name, kind, help, value) in [
            (
                "forced_total",
                FamilyKind::Counter,
                "Events of this machine that started without a decision of the gate.",
                number(self.forced),
            ),
            (
                "last_forced_timestamp_seconds",
                FamilyKind::Gauge,
                "When this daemon last saw an event start without a decision of the gate; 0 if it has seen none.",
                number(self.last_forced),
            ),
            (
                "events",
                FamilyKind::Gauge,
                "Events that the gate was asked about and that are not over.",
                number(self.events),
            ),
            (
                "forgotten_total",
                FamilyKind::Counter,
                "Machines that were silent for so long that this daemon deleted their registers.",
                number(self.forgotten),
            ),
            (
                "freed_total",
                FamilyKind::Counter,
                "Places of silent machines that this daemon has freed after an event.",
                number(self.freed),
            ),
            (
                "limits_differ",
                FamilyKind::Gauge,
                "Machines that had other limits of a group than this one at the last look.",
                number(self.limits_differ),
            ),
            (
                "engine_up",
                FamilyKind::Gauge,
                "Whether the store of the registers answers, and what was read of it is valid.",
                number(self.engine_up),
            ),
        ] {
            let mut family = Family::new(name, help, kind);
            family.set(&[], value);
            family.write("scheduled_events_fleet_", &mut text);
        }
        text
    }

    /// Replaces the file, which other users may read: the metrics collector is one.
    pub(crate) fn write(self, path: &Path) -> io::Result<()> {
        replace_readable(path, self.text().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_each_metric_with_its_type() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fleet.prom");
        let metrics = Metrics {
            forced: 2,
            last_forced: 1_700_000_000,
            events: 1,
            engine_up: true,
            limits_differ: 0,
            forgotten: 3,
            freed: 4,
        };
        metrics.write(&path).expect("written");
        let text = std::fs::read_to_string(&path).expect("the file");
        assert!(text.contains(
            "# TYPE scheduled_events_fleet_forced_total counter\nscheduled_events_fleet_forced_total 2\n"
        ));
        assert!(
            text.ends_with("scheduled_events_fleet_engine_up 1\n"),
            "{text}"
        );
    }
}
