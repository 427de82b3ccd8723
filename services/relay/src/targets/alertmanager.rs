//! Prometheus' Alertmanager, by its API version 2: an alert for each open event of this machine.
//!
//! Alertmanager forgets alerts when it restarts, and resolves alerts that nobody repeats, so the
//! relay repeats open ones. Only the last of several changes of an event matters.

use std::collections::BTreeMap;
use std::time::Duration;

use scheduled_events_core::UnixSeconds;
use serde_json::{Value, json};

use super::{Endpoint, Item, RequestError, Target, now};
use crate::config::TargetConfig;
use crate::error::SettingError;
use crate::events::{OpenEvent, OpenEvents};
use crate::message::{clean, severity};
use crate::record::Record;
use crate::transport::Request;

/// How often open events are repeated.
const REPEAT: Duration = Duration::from_secs(60);

/// How long Alertmanager keeps an alert that is not repeated, in seconds.
const LIFE: i64 = 300;

/// How many records are sent at once.
const BATCH_MAX: usize = 64;

/// An Alertmanager.
pub(super) struct Alertmanager {
    endpoint: Endpoint,
    machine: String,
}

impl Alertmanager {
    pub(super) fn new(config: &TargetConfig, machine: &str) -> Result<Self, SettingError> {
        Ok(Self {
            endpoint: Endpoint::new(config).check()?,
            machine: machine.to_owned(),
        })
    }

    fn request<'a>(
        &self,
        events: impl Iterator<Item = &'a OpenEvent>,
    ) -> Result<Vec<Request>, RequestError> {
        let alerts: Vec<_> = events.map(|event| self.alert(event)).collect();
        if alerts.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![self.endpoint.json("api/v2/alerts", &alerts.into())?])
    }

    fn alert(&self, event: &OpenEvent) -> Value {
        let now = now();
        let ends = event
            .ended
            .map_or(now.saturating_add(LIFE), |ended| ended.min(now));
        // Alertmanager rejects an end before the start, which a step of the clock could cause.
        let starts = event.since.min(ends);
        let time = |seconds: i64| UnixSeconds(seconds).to_string();
        let event_type = event.event_type.as_deref();
        let state = match (event.ended, event.started) {
            (Some(_), _) => "over",
            (None, Some(_)) => "started",
            (None, None) => "scheduled",
        };
        let shown = event_type.map_or("Event".into(), clean);
        let mut annotations =
            json!({ "summary": format!("{shown} {state} on {}", clean(&self.machine)) });
        for (name, value) in [
            ("description", event.description.as_deref().map(clean)),
            ("not_before", event.not_before.map(time)),
            ("resources", Some(clean(&event.resources.join(", ")))),
        ] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                annotations[name] = value.into();
            }
        }
        let is_sudden = event
            .steps
            .iter()
            .any(|step| step.name == "change.started-without-notice");
        // A value that may change while the event is open is no label: it would make another alert.
        let mut labels = json!({
            "alertname": "ScheduledEvent",
            "instance": self.machine,
            "event_id": event.event_id.to_ascii_lowercase(),
            "severity": severity(event_type, is_sudden),
        });
        for (name, value) in [
            ("event_type", event_type),
            ("event_source", event.event_source.as_deref()),
        ] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                labels[name] = clean(value).into();
            }
        }
        json!({ "labels": labels, "annotations": annotations, "startsAt": time(starts), "endsAt": time(ends) })
    }
}

impl Target for Alertmanager {
    fn wants(&self, record: &Record) -> bool {
        record.change().is_some()
    }

    fn has_choice(&self) -> bool {
        false
    }

    fn batch_max(&self) -> usize {
        BATCH_MAX
    }

    fn requests(&self, items: &[Item]) -> Result<Vec<Request>, RequestError> {
        let events = items.iter().filter_map(|item| item.event.as_ref());
        let last: BTreeMap<_, _> = events
            .map(|event| (event.event_id.to_ascii_lowercase(), event))
            .collect();
        self.request(last.into_values())
    }

    fn refresh_every(&self) -> Option<Duration> {
        Some(REPEAT)
    }

    fn refresh(&self, events: &OpenEvents) -> Result<Vec<Request>, RequestError> {
        self.request(events.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::RelayFile;

    /// Alertmanager rejects an alert that ends before it starts.
    #[test]
    fn an_alert_never_ends_before_it_starts_whatever_the_clock_does() {
        let file = "[[relay.target]]\nname = \"x\"\nkind = \"alertmanager\"\nurl = \"http://127.0.0.1:9093\"";
        let config = RelayFile::parse(file).unwrap().relay.targets.remove(0);
        let alertmanager = Alertmanager::new(&config, "WestNO_0").unwrap();
        let now = now();
        for (since, ended) in [
            (now + 86_400, None),
            (now + 86_400, Some(now + 90_000)),
            (now, Some(now - 3600)),
            (now - 60, Some(now + 3600)),
            (now - 60, Some(now - 30)),
        ] {
            let event = OpenEvent {
                since,
                ended,
                ..OpenEvent::default()
            };
            let alert = alertmanager.alert(&event);
            let time = |name: &str| UnixSeconds::parse(alert[name].as_str().unwrap()).unwrap().0;
            assert!(time("startsAt") <= time("endsAt"), "{alert}");
            // By this machine's clock, an event that is over is not open, and an open event is.
            assert_eq!(
                time("endsAt") > super::now() + 60,
                ended.is_none(),
                "{alert}"
            );
        }
    }
}
