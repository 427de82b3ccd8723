//! The metrics file, for Prometheus.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use scheduled_events::record::HookOutcome;
use scheduled_events_common::log;
use scheduled_events_common::supervision::replace;
use scheduled_events_core::Change;

/// Counters since the start. Labels are words of this program, never of an event.
#[derive(Debug)]
pub struct Metrics {
    counters: RefCell<BTreeMap<(&'static str, String), u64>>,
    has_failed: Cell<bool>,
}

/// The values that are measured when the file is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauges {
    /// Machines that have an open event or are out of service.
    pub machines: usize,
    /// Events that are not over.
    pub events: usize,
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

/// The counters: name, label and help.
const COUNTERS: [(&str, &str, &str); 6] = [
    (
        "changes_total",
        "change",
        "Changes of events, once for each machine.",
    ),
    ("commands_total", "command", "Commands that ended."),
    (
        "approvals_total",
        "result",
        "Approvals of a machine's events, by the answer of Azure.",
    ),
    ("messages_total", "result", "Messages of the queue."),
    (
        "notices_total",
        "arrival",
        "What messages and rows say about events.",
    ),
    ("problems_total", "where", "Requests that failed."),
];

/// Counters that start at 0: Prometheus sees no increase in a counter that appears with 1.
const FROM_ZERO: [(&str, &str); 13] = [
    ("commands_total", "command=\"prepare\",outcome=\"ready\""),
    ("commands_total", "command=\"prepare\",outcome=\"failed\""),
    (
        "commands_total",
        "command=\"prepare\",outcome=\"timed-out\"",
    ),
    ("commands_total", "command=\"recover\",outcome=\"done\""),
    ("commands_total", "command=\"recover\",outcome=\"failed\""),
    ("approvals_total", "result=\"approved\""),
    ("approvals_total", "result=\"failed\""),
    ("messages_total", "result=\"applied\""),
    ("messages_total", "result=\"left-out\""),
    ("messages_total", "result=\"set-aside\""),
    ("messages_total", "result=\"missing\""),
    ("problems_total", "where=\"queue\""),
    ("problems_total", "where=\"graph\""),
];

impl Default for Metrics {
    fn default() -> Self {
        let counters = FROM_ZERO.map(|(name, labels)| ((name, labels.to_owned()), 0));
        Self {
            counters: RefCell::new(counters.into()),
            has_failed: Cell::default(),
        }
    }
}

impl Metrics {
    /// Counts a change of a machine's event.
    pub fn changed(&self, change: Change) {
        self.count("changes_total", &format!("change=\"{}\"", change.word()));
    }

    /// Counts a command that ended.
    pub fn command(&self, is_recovery: bool, outcome: HookOutcome) {
        let command = if is_recovery { "recover" } else { "prepare" };
        self.count(
            "commands_total",
            &format!("command=\"{command}\",outcome=\"{}\"", outcome.word()),
        );
    }

    /// Counts Azure's answer to an approval.
    pub fn approval(&self, is_approved: bool) {
        self.count(
            "approvals_total",
            if is_approved {
                "result=\"approved\""
            } else {
                "result=\"failed\""
            },
        );
    }

    /// Counts a message that was read: `applied`, `left-out` or `set-aside`; or one that is
    /// `missing`.
    pub fn message(&self, result: &str) {
        self.count("messages_total", &format!("result=\"{result}\""));
    }

    /// Counts a notice: `news`, `repeated`, `late`, `other-subscription` or `invalid`.
    pub fn notice(&self, arrival: &str) {
        self.count("notices_total", &format!("arrival=\"{arrival}\""));
    }

    /// Counts a failed request: to the `queue` or the `graph`.
    pub fn problem(&self, place: &str) {
        self.count("problems_total", &format!("where=\"{place}\""));
    }

    fn count(&self, name: &'static str, labels: &str) {
        *self
            .counters
            .borrow_mut()
            .entry((name, labels.to_owned()))
            .or_default() += 1;
    }

    /// Replaces the file.
    pub fn write(&self, path: &Path, gauges: Gauges) {
        let failed = replace(path, &self.text(gauges));
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
            waiting,
            lost,
            save_failures,
            requests,
            reconciled,
        } = gauges;
        let mut text = String::new();
        let counters = self.counters.borrow();
        // Writing to a string does not fail.
        for (name, _, help) in COUNTERS {
            let _ = write!(
                text,
                "# HELP scheduled_events_hub_{name} {help}\n# TYPE scheduled_events_hub_{name} counter\n"
            );
            for ((_, labels), value) in counters.iter().filter(|((found, _), _)| *found == name) {
                let _ = writeln!(text, "scheduled_events_hub_{name}{{{labels}}} {value}");
            }
        }
        for (name, kind, help, value) in [
            (
                "machines",
                "gauge",
                "Machines that have an open event or are out of service.",
                machines.to_string(),
            ),
            (
                "events",
                "gauge",
                "Events that are not over.",
                events.to_string(),
            ),
            (
                "commands_waiting",
                "gauge",
                "Commands that wait for their turn.",
                waiting.to_string(),
            ),
            (
                "audit_records_lost_total",
                "counter",
                "Records that the audit file lacks.",
                lost.to_string(),
            ),
            (
                "state_save_failures_total",
                "counter",
                "Failed attempts to write the state of a machine.",
                save_failures.to_string(),
            ),
            (
                "approval_requests_total",
                "counter",
                "Requests to approve one event or a list.",
                requests.to_string(),
            ),
            (
                "reconciled_timestamp_seconds",
                "gauge",
                "When Resource Graph answered last.",
                reconciled.to_string(),
            ),
        ] {
            let name = format!("scheduled_events_hub_{name}");
            let _ = write!(
                text,
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "scheduled_events_hub_";

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
        let started: Vec<_> = FROM_ZERO
            .iter()
            .map(|(name, labels)| count(&format!("{name}{{{labels}}}")))
            .collect();
        assert!(started.iter().all(Option::is_some), "{started:?}");
    }
}
