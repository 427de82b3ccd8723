//! The metrics file, for Prometheus.

use std::cell::{Cell, RefCell};
use std::path::Path;

use scheduled_events::files::replace_readable;
use scheduled_events::metrics::exposition::{Family, FamilyKind, number};
use scheduled_events::record::HookOutcome;
use scheduled_events_common::log;
use scheduled_events_core::{Change, OpenFailures};

/// Counters since the start. Labels are words of this program, never of an event.
#[derive(Debug)]
pub struct Metrics {
    counters: RefCell<[Family; COUNTERS.len()]>,
    last_failure: RefCell<Family>,
    /// How many records were lost, and how many writes of states had failed, when the file was written last.
    counted: Cell<(u64, u64)>,
    has_failed: Cell<bool>,
}

/// The values that are measured when the file is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauges {
    /// Machines that have an open event or are out of service.
    pub machines: usize,
    /// Events that are not over.
    pub events: usize,
    /// What has failed for a machine and is not resolved yet.
    pub failures: OpenFailures,
    /// Commands that wait for their turn.
    pub waiting: usize,
    /// Records that are missing in the audit file.
    pub lost: u64,
    /// Failed attempts to write the state of a machine.
    pub save_failures: u64,
    /// Requests to approve.
    pub requests: u64,
    /// When Resource Graph last answered, in seconds since 1970.
    pub reconciled: i64,
}

/// The counters: name and help.
const COUNTERS: [(&str, &str); 6] = [
    ("changes_total", "Changes of events, once for each machine."),
    ("commands_total", "Commands that ended."),
    (
        "approvals_total",
        "Approvals of a machine's events, by the answer of Azure.",
    ),
    ("messages_total", "Messages of the queue."),
    ("notices_total", "What messages and rows say about events."),
    ("problems_total", "Requests that failed."),
];

/// Counters that start at 0: Prometheus sees no increase in a counter that appears with 1.
const FROM_ZERO: [(&str, &[(&str, &str)]); 13] = [
    (
        "commands_total",
        &[("command", "prepare"), ("outcome", "ready")],
    ),
    (
        "commands_total",
        &[("command", "prepare"), ("outcome", "failed")],
    ),
    (
        "commands_total",
        &[("command", "prepare"), ("outcome", "timed-out")],
    ),
    (
        "commands_total",
        &[("command", "recover"), ("outcome", "done")],
    ),
    (
        "commands_total",
        &[("command", "recover"), ("outcome", "failed")],
    ),
    ("approvals_total", &[("result", "approved")]),
    ("approvals_total", &[("result", "failed")]),
    ("messages_total", &[("result", "applied")]),
    ("messages_total", &[("result", "left-out")]),
    ("messages_total", &[("result", "set-aside")]),
    ("messages_total", &[("result", "missing")]),
    ("problems_total", &[("where", "queue")]),
    ("problems_total", &[("where", "graph")]),
];

/// What can fail once, so that an alert needs the time of it: Prometheus sees no increase in a counter that is 1 when it is scraped first.
const FAILURES: [&str; 4] = ["set-aside", "missing", "record", "state"];

/// How the names of all metrics start.
const PREFIX: &str = "scheduled_events_hub_";

impl Default for Metrics {
    fn default() -> Self {
        let counters = COUNTERS.map(|(name, help)| Family::new(name, help, FamilyKind::Counter));
        let metrics = Self {
            counters: RefCell::new(counters),
            last_failure: RefCell::new(Family::new(
                "last_failure_timestamp_seconds",
                "When something failed last, by what it was; 0 if it did not.",
                FamilyKind::Gauge,
            )),
            counted: Cell::default(),
            has_failed: Cell::default(),
        };
        for (name, labels) in FROM_ZERO {
            metrics.add(name, labels, 0.0);
        }
        for of in FAILURES {
            metrics.last_failure.borrow_mut().set(&[("of", of)], 0.0);
        }
        metrics
    }
}

impl Metrics {
    /// Counts a change of a machine's event.
    pub fn changed(&self, change: Change) {
        self.add("changes_total", &[("change", change.word())], 1.0);
    }

    /// Counts a command that ended.
    pub fn command(&self, is_recovery: bool, outcome: HookOutcome) {
        let command = if is_recovery { "recover" } else { "prepare" };
        let labels = [("command", command), ("outcome", outcome.word())];
        self.add("commands_total", &labels, 1.0);
    }

    /// Notes that this failed now.
    fn failed(&self, of: &str) {
        let now = number(jiff::Timestamp::now().as_second());
        self.last_failure.borrow_mut().set(&[("of", of)], now);
    }

    /// Counts Azure's answer to an approval.
    pub fn approval(&self, is_approved: bool) {
        let result = if is_approved { "approved" } else { "failed" };
        self.add("approvals_total", &[("result", result)], 1.0);
    }

    /// Counts a message that was read: `applied`, `left-out` or `set-aside`; or one that is
    /// `missing`.
    pub fn message(&self, result: &str) {
        self.add("messages_total", &[("result", result)], 1.0);
        if FAILURES.contains(&result) {
            self.failed(result);
        }
    }

    /// Counts a notice: `news`, `repeated`, `late`, `other-subscription` or `invalid`.
    pub fn notice(&self, arrival: &str) {
        self.add("notices_total", &[("arrival", arrival)], 1.0);
    }

    /// Counts a failed request: to the `queue` or the `graph`.
    pub fn problem(&self, place: &str) {
        self.add("problems_total", &[("where", place)], 1.0);
    }

    fn add(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        if let Some(index) = COUNTERS.iter().position(|(known, _)| *known == name) {
            self.counters.borrow_mut()[index].add(labels, value);
        }
    }

    /// Replaces the file.
    pub fn write(&self, path: &Path, gauges: Gauges) {
        let failed = replace_readable(path, self.text(gauges).as_bytes());
        if let Err(error) = &failed
            && !self.has_failed.get()
        {
            log::printable(&format!(
                "warning: cannot write the metrics file {}: {error}",
                path.display()
            ));
        }
        self.has_failed.set(failed.is_err());
    }

    fn text(&self, gauges: Gauges) -> String {
        let Gauges {
            machines,
            events,
            failures,
            waiting,
            lost,
            save_failures,
            requests,
            reconciled,
        } = gauges;
        let counted = self.counted.replace((lost, save_failures));
        if lost > counted.0 {
            self.failed("record");
        }
        if save_failures > counted.1 {
            self.failed("state");
        }
        let mut text = String::new();
        self.last_failure.borrow().write(PREFIX, &mut text);
        for family in self.counters.borrow().iter() {
            family.write(PREFIX, &mut text);
        }
        for (name, kind, help, value) in [
            (
                "machines",
                FamilyKind::Gauge,
                "Machines that have an open event or are out of service.",
                number(machines),
            ),
            (
                "events",
                FamilyKind::Gauge,
                "Events that are not over.",
                number(events),
            ),
            (
                "preparation_failed",
                FamilyKind::Gauge,
                "Preparations of machines that failed, until they succeed or the event is over.",
                number(failures.preparations),
            ),
            (
                "recovery_failed",
                FamilyKind::Gauge,
                "Machines that could not be recovered, until they are.",
                number(failures.recoveries),
            ),
            (
                "approval_failed",
                FamilyKind::Gauge,
                "Approvals for a machine that failed, until they succeed or the event has started or is over.",
                number(failures.approvals),
            ),
            (
                "commands_waiting",
                FamilyKind::Gauge,
                "Commands that wait for their turn.",
                number(waiting),
            ),
            (
                "audit_records_lost_total",
                FamilyKind::Counter,
                "Records that the audit file lacks.",
                number(lost),
            ),
            (
                "state_save_failures_total",
                FamilyKind::Counter,
                "Failed attempts to write the state of a machine.",
                number(save_failures),
            ),
            (
                "approval_requests_total",
                FamilyKind::Counter,
                "Requests to approve one event or a list.",
                number(requests),
            ),
            (
                "reconciled_timestamp_seconds",
                FamilyKind::Gauge,
                "When Resource Graph answered last.",
                number(reconciled),
            ),
        ] {
            let mut family = Family::new(name, help, kind);
            family.set(&[], value);
            family.write(PREFIX, &mut text);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_metric_and_the_alerts_have_no_other_ones() {
        let text = Metrics::default().text(Gauges::default());
        let page = include_str!("../../../docs/run/outside.md");
        let mut metrics = 0;
        for name in text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        {
            assert!(
                page.contains(&format!("\n| `{}` | ", name.trim_start_matches(PREFIX))),
                "outside.md lacks {name}"
            );
            metrics += 1;
        }
        let rules = include_str!("../../../packaging/prometheus/rules.yml");
        let mut alerts = 0;
        for rest in rules.split(PREFIX).skip(1) {
            // With its first label, if it has one.
            let end = rest
                .find(|c: char| !c.is_ascii_lowercase() && c != '_')
                .unwrap_or(rest.len());
            let labels = rest[end..]
                .starts_with('{')
                .then(|| rest[end..].split('"').nth(1))
                .flatten();
            let end = labels.map_or(end, |label| {
                end + rest[end..].find('"').unwrap_or(0) + label.len() + 2
            });
            assert!(
                text.contains(&format!("\n{PREFIX}{}", &rest[..end])),
                "no metric {PREFIX}{}",
                &rest[..end]
            );
            alerts += 1;
        }
        assert!(
            metrics > 10 && alerts > 6,
            "{metrics} metrics, {alerts} in alerts"
        );
    }

    #[test]
    fn what_is_counted_continues_what_begins_with_zero() {
        let metrics = Metrics::default();
        let count = |labels: &str| {
            let text = metrics.text(Gauges::default());
            let line = text.lines().find_map(|line| {
                line.strip_prefix(&format!("{PREFIX}{labels} "))
                    .map(str::to_owned)
            });
            line.and_then(|value| value.parse::<u64>().ok())
        };
        metrics.command(false, HookOutcome::TimedOut);
        metrics.command(false, HookOutcome::Stopped);
        metrics.command(true, HookOutcome::Failed);
        metrics.approval(false);
        metrics.message("set-aside");
        metrics.problem("graph");
        for (labels, expected) in [
            (
                "commands_total{command=\"prepare\",outcome=\"timed-out\"}",
                Some(1),
            ),
            (
                "commands_total{command=\"prepare\",outcome=\"failed\"}",
                Some(0),
            ),
            (
                "commands_total{command=\"prepare\",outcome=\"stopped\"}",
                Some(1),
            ),
            (
                "commands_total{command=\"recover\",outcome=\"failed\"}",
                Some(1),
            ),
            ("approvals_total{result=\"failed\"}", Some(1)),
            ("messages_total{result=\"set-aside\"}", Some(1)),
            ("problems_total{where=\"graph\"}", Some(1)),
            ("problems_total{where=\"queue\"}", Some(0)),
            ("problems_total{where=\"nowhere\"}", None),
        ] {
            assert_eq!(count(labels), expected, "{labels}");
        }
        // What failed has a time, and what did not has none.
        for of in FAILURES {
            let time = count(&format!("last_failure_timestamp_seconds{{of=\"{of}\"}}"));
            let failed = of == "set-aside";
            assert_eq!(time.map(|time| time > 0), Some(failed), "{of}");
        }
        let gauges = Gauges {
            lost: 1,
            save_failures: 2,
            ..Gauges::default()
        };
        let text = metrics.text(gauges);
        for of in ["record", "state"] {
            let none = format!("{PREFIX}last_failure_timestamp_seconds{{of=\"{of}\"}} 0\n");
            assert!(!text.contains(&none), "{text}");
        }
        let started: Vec<_> = FROM_ZERO
            .iter()
            .map(|(name, labels)| {
                let labels = labels
                    .iter()
                    .map(|(name, value)| format!("{name}=\"{value}\""));
                count(&format!(
                    "{name}{{{}}}",
                    labels.collect::<Vec<_>>().join(",")
                ))
            })
            .collect();
        assert!(started.iter().all(Option::is_some), "{started:?}");
    }
}
