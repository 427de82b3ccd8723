//! OpenTelemetry's protocol over HTTP, in its JSON encoding: a log record for each record, and
//! spans for each event that is over.
//!
//! An event's id has 128 bits, as many as a trace's, so it is the trace id: the spans of all
//! machines that an event affects are one trace. Ids of spans depend only on the event and the
//! machine: a span that is sent twice keeps its id.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Endpoint, Item, RequestError, Target, now};
use crate::config::{Signal, TargetConfig};
use crate::error::SettingError;
use crate::events::OpenEvent;
use crate::message::{clean, headline};
use crate::record::Record;
use crate::transport::{Outcome, Request};
use scheduled_events_common::hexadecimal::hexadecimal;
use scheduled_events_common::log;

/// How many records are sent at once.
const BATCH_MAX: usize = 64;

/// The prefix of attributes.
const PREFIX: &str = "azure.scheduled_event";

/// A receiver.
pub(super) struct Otlp {
    endpoint: Endpoint,
    machine: String,
    logs: bool,
    traces: bool,
}

impl Otlp {
    pub(super) fn new(config: &TargetConfig, machine: &str) -> Result<Self, SettingError> {
        let has = |signal| {
            config
                .signals
                .as_ref()
                .is_none_or(|signals| signals.contains(&signal))
        };
        let endpoint = Endpoint::new(config).check()?;
        let (logs, traces) = (has(Signal::Logs), has(Signal::Traces));
        if !logs && !traces {
            return Err("`signals` is empty".into());
        }
        Ok(Self {
            endpoint,
            machine: machine.to_owned(),
            logs,
            traces,
        })
    }

    /// The machine, as all data about it includes it.
    fn resource(&self) -> Value {
        json!({ "attributes": [
            attribute("service.name", &"scheduled-events".into()),
            attribute("host.name", &self.machine.clone().into()),
            attribute("cloud.provider", &"azure".into()),
        ] })
    }

    fn log_record(&self, record: &Record) -> Value {
        let is_failure = matches!(record.text("outcome"), Some("failed" | "timed-out"));
        let (number, text) = match record.kind() {
            "prepare" | "recover" if is_failure => (17, "ERROR"),
            "poll-failed" | "problem" | "untracked" | "gap" => (13, "WARN"),
            _ if record.change() == Some("started-without-notice") => (13, "WARN"),
            _ => (9, "INFO"),
        };
        let mut log_record = json!({
            "timeUnixNano": nanoseconds(record.time("time").map_or_else(now, |time| time.0)),
            "observedTimeUnixNano": nanoseconds(now()),
            "severityNumber": number,
            "severityText": text,
            "eventName": format!("{PREFIX}.{}", record.kind()),
            "body": { "stringValue": headline(record, &self.machine) },
            "attributes": record.members().map(|(name, value)| attribute(&format!("{PREFIX}.{name}"), value)).collect::<Vec<_>>(),
        });
        if let Some(id) = record.event_id() {
            log_record["traceId"] = trace_id(id).into();
            log_record["spanId"] = self.span_id(id, "").into();
        }
        log_record
    }

    /// The spans of an event that is over: the whole event on this machine, its notice, and its
    /// interruption.
    fn spans(&self, event: &OpenEvent, ended: i64) -> Vec<Value> {
        let id = &event.event_id;
        let name = event
            .event_type
            .as_deref()
            .map_or("ScheduledEvent".into(), clean);
        let attributes = [
            ("id", Some(id.as_str().into())),
            ("type", event.event_type.as_deref().map(Value::from)),
            ("source", event.event_source.as_deref().map(Value::from)),
            ("resources", Some(event.resources.clone().into())),
            ("description", event.description.as_deref().map(Value::from)),
        ];
        let attributes: Vec<_> = attributes
            .into_iter()
            .filter_map(|(name, value)| Some(attribute(&format!("{PREFIX}.{name}"), &value?)))
            .collect();
        let steps: Vec<_> = event
            .steps
            .iter()
            .map(|step| {
                let outcome = step
                    .outcome
                    .as_deref()
                    .map(|outcome| attribute("outcome", &outcome.into()));
                json!({
                    "timeUnixNano": nanoseconds(step.time),
                    "name": clean(&step.name),
                    "attributes": outcome.into_iter().collect::<Vec<_>>(),
                })
            })
            .collect();
        let span = |part: &str, name: &str, start: i64, end: i64| {
            json!({
                "traceId": trace_id(id),
                "spanId": self.span_id(id, part),
                "name": name,
                "kind": 1,
                "startTimeUnixNano": nanoseconds(start),
                // The clock may have stepped back meanwhile.
                "endTimeUnixNano": nanoseconds(end.max(start)),
                "attributes": attributes,
            })
        };
        let mut whole = span("", &name, event.since, ended);
        whole["events"] = steps.into();
        let mut spans = vec![whole];
        let mut part = |part: &str, start: i64, end: i64| {
            let mut span = span(part, part, start, end);
            span["parentSpanId"] = self.span_id(id, "").into();
            spans.push(span);
        };
        part("notice", event.since, event.started.unwrap_or(ended));
        if let Some(started) = event.started {
            part("interruption", started, ended);
        }
        spans
    }

    fn span_id(&self, event_id: &str, part: &str) -> String {
        hexadecimal(
            &Sha256::digest(format!(
                "{}\n{}\n{part}",
                event_id.to_ascii_lowercase(),
                self.machine
            ))[..8],
        )
    }
}

impl Target for Otlp {
    fn batch_max(&self) -> usize {
        BATCH_MAX
    }

    fn requests(&self, items: &[Item]) -> Result<Vec<Request>, RequestError> {
        let scope =
            json!({ "name": "scheduled-events-fleet", "version": env!("CARGO_PKG_VERSION") });
        let mut requests = Vec::new();
        if self.logs {
            let records: Vec<_> = items
                .iter()
                .map(|item| self.log_record(&item.record))
                .collect();
            let scopes = json!([{ "scope": scope, "logRecords": records }]);
            let body =
                json!({ "resourceLogs": [{ "resource": self.resource(), "scopeLogs": scopes }] });
            requests.push(self.endpoint.json("v1/logs", &body)?);
        }
        let over = items
            .iter()
            .filter_map(|item| item.event.as_ref())
            .filter_map(|event| Some((event, event.ended?)));
        let spans: Vec<_> = over
            .flat_map(|(event, ended)| self.spans(event, ended))
            .collect();
        if self.traces && !spans.is_empty() {
            let scopes = json!([{ "scope": scope, "spans": spans }]);
            let body =
                json!({ "resourceSpans": [{ "resource": self.resource(), "scopeSpans": scopes }] });
            requests.push(self.endpoint.json("v1/traces", &body)?);
        }
        Ok(requests)
    }

    /// A receiver may accept a part. The specification forbids sending it again.
    fn classify(&self, status: u16, body: &str) -> Option<Outcome> {
        let answer = serde_json::from_str::<Value>(body)
            .ok()
            .filter(|_| status == 200)?;
        let partial = answer.get("partialSuccess")?;
        let rejected = |name: &str| {
            partial
                .get(name)
                .is_some_and(|count| !matches!(count.as_str(), Some("0" | "")) && count != 0)
        };
        if rejected("rejectedLogRecords") || rejected("rejectedSpans") {
            log::line(
                "the receiver of OpenTelemetry's protocol rejected a part: its own log has the reason",
            );
        }
        Some(Outcome::Accepted)
    }
}

/// The event's id, if that has 128 bits; otherwise a digest of it.
fn trace_id(event_id: &str) -> String {
    let digits: String = event_id
        .chars()
        .filter(|char| *char != '-')
        .collect::<String>()
        .to_ascii_lowercase();
    let is_id = digits.len() == 32
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        && digits.bytes().any(|byte| byte != b'0');
    if is_id {
        digits
    } else {
        hexadecimal(&Sha256::digest(event_id.to_ascii_lowercase())[..16])
    }
}

/// Nanoseconds since 1970, as this protocol writes integers of 64 bits in JSON.
fn nanoseconds(seconds: i64) -> String {
    (i128::from(seconds.max(0)) * 1_000_000_000)
        .min(i128::from(u64::MAX))
        .to_string()
}

fn attribute(name: &str, value: &Value) -> Value {
    json!({ "key": name, "value": any_value(value) })
}

/// A value of a record. Its objects are those in `events`, one level deep.
fn any_value(value: &Value) -> Value {
    match value {
        Value::Null => json!({}),
        Value::Bool(value) => json!({ "boolValue": value }),
        Value::String(text) => json!({ "stringValue": text }),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => json!({ "intValue": integer.to_string() }),
            None => json!({ "doubleValue": number }),
        },
        Value::Array(values) => {
            json!({ "arrayValue": { "values": values.iter().map(any_value).collect::<Vec<_>>() } })
        }
        Value::Object(members) => {
            let values: Vec<_> = members
                .iter()
                .map(|(name, value)| attribute(name, value))
                .collect();
            json!({ "kvlistValue": { "values": values } })
        }
    }
}
