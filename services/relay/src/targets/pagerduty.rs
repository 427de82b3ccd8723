//! PagerDuty, by its Events API, version 2.
//!
//! All machines of an event use the same key, so that one event is one alert, however many machines
//! it affects. The first machine that sees its end resolves it.

use serde_json::{Value, json};

use super::{Endpoint, Item, RequestError, Target};
use crate::audit::digest;
use crate::config::TargetConfig;
use crate::error::SettingError;
use crate::message::{clean, details, headline, severity};
use crate::record::Record;
use crate::transport::{Request, read};
use scheduled_events_common::secret::SecretFile;

/// The address for events.
const URL: &str = "https://events.pagerduty.com/v2/enqueue";

/// The longest id of an event that is used as a key unchanged. PagerDuty's limit for keys is 255
/// characters.
const ID_MAX: usize = 200;

/// The longest summary, in characters: PagerDuty's limit.
const SUMMARY_MAX: usize = 1024;

/// An integration.
pub(super) struct PagerDuty {
    endpoint: Endpoint,
    machine: String,
    key: SecretFile,
}

impl PagerDuty {
    pub(super) fn new(config: &TargetConfig, machine: &str) -> Result<Self, SettingError> {
        let key = config
            .key_file
            .clone()
            .ok_or("expected `key_file`, a file with the integration's key")?;
        let endpoint = Endpoint {
            default_url: Some(URL),
            has_secret: true,
            ..Endpoint::new(config)
        };
        let pager_duty = Self {
            endpoint: endpoint.check()?,
            machine: machine.to_owned(),
            key,
        };
        read("key_file", &pager_duty.key)?;
        Ok(pager_duty)
    }

    fn event(&self, record: &Record, id: &str) -> Value {
        let key = if id.len() <= ID_MAX {
            id.to_ascii_lowercase()
        } else {
            digest(id.as_bytes())
        };
        let mut event = json!({ "dedup_key": format!("azure-scheduled-event/{key}") });
        if record.is_end() {
            event["event_action"] = "resolve".into();
            return event;
        }
        let headline = headline(record, &self.machine);
        let details: serde_json::Map<_, _> = details(record)
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        event["event_action"] = "trigger".into();
        event["client"] = "scheduled-events".into();
        event["payload"] = json!({
            "summary": headline.chars().take(SUMMARY_MAX).collect::<String>(),
            "source": self.machine,
            "severity": severity(record.text("event_type"), record.change() == Some("started-without-notice")),
            "timestamp": record.text("time"),
            "component": "virtual machine",
            "class": record.text("event_type").map(clean),
            "custom_details": details,
        });
        event
    }
}

impl Target for PagerDuty {
    fn wants(&self, record: &Record) -> bool {
        record.change().is_some() && record.event_id().is_some()
    }

    fn has_choice(&self) -> bool {
        false
    }

    fn requests(&self, items: &[Item]) -> Result<Vec<Request>, RequestError> {
        let key = read("key_file", &self.key)?;
        let mut requests = Vec::new();
        for Item { record, .. } in items {
            let Some(id) = record.event_id() else {
                continue;
            };
            let mut event = self.event(record, id);
            event["routing_key"] = key.reveal().into();
            requests.push(self.endpoint.json("", &event)?);
        }
        Ok(requests)
    }
}
