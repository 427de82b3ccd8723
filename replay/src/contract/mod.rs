//! The verdict on the service: which rules of the wire contract a capture shows it to keep or to break.
//!
//! A [verdict](crate::verdict) checks a client by its requests to the replay server; this checks the service by its answers. It reads
//! the lines of `scheduled-events capture`, one by one, and keeps a few numbers for each rule and each event.
//!
//! - `rules`: the table of rules, each with its place in `docs/inside/wire.md`.
//! - `answers`: what one answer shows. `document`: what one document shows.
//! - `life`: what documents and approvals show of an event together.
//!
//! ```
//! use scheduled_events_replay::contract::{Contract, ServiceRule, Sighting};
//!
//! let line = r#"{"record":"exchange","time":"2026-03-01T10:00:00Z","unix_ms":1772359200250,"took_ms":3,"method":"GET",
//!     "target":"/metadata/scheduledevents?api-version=2020-07-01","request_headers":[["Metadata","true"]],"request_body":"",
//!     "status":200,"headers":[],"body":"{\"DocumentIncarnation\":1,\"Events\":[]}","failure":null,"sequence":1}"#;
//! let mut contract = Contract::default();
//! contract.add(line);
//! assert_eq!(contract.sighting(ServiceRule::Incarnation), Sighting::Seen);
//! // It answers although the request has no header `Metadata: true`.
//! contract.add(&line.replace(r#"["Metadata","true"]"#, "").replace(":1}", ":2}"));
//! assert_eq!(contract.sighting(ServiceRule::Header), Sighting::Contradicted);
//! assert_eq!(contract.evidence(ServiceRule::Header)[0].exchange, 2);
//! assert_eq!(contract.sighting(ServiceRule::NoticeFreeze), Sighting::NotSeen);
//! assert!(!contract.is_clean());
//! ```

mod answers;
mod document;
mod life;
mod rules;

use crate::capture::CapturedExchange;
use answers::Answers;
use life::Lives;

pub use life::ObservedEvent;
pub use rules::ServiceRule;

/// The most pieces of evidence against a rule that are kept. Others are only counted.
pub const EVIDENCE_MAX: usize = 20;

/// Whether a capture shows a rule.
///
/// ```
/// use scheduled_events_replay::contract::Sighting;
///
/// let words = [Sighting::Seen, Sighting::Contradicted, Sighting::NotSeen].map(Sighting::word);
/// assert_eq!(words, ["seen", "contradicted", "not-seen"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// The service kept it whenever the capture shows.
    Seen,
    /// The service broke it at least once.
    Contradicted,
    /// The capture has nothing that would show it.
    NotSeen,
}

impl Sighting {
    /// The word in reports.
    ///
    /// ```
    /// use scheduled_events_replay::contract::Sighting;
    ///
    /// assert_eq!(Sighting::NotSeen.word(), "not-seen");
    /// ```
    pub const fn word(self) -> &'static str {
        match self {
            Self::Seen => "seen",
            Self::Contradicted => "contradicted",
            Self::NotSeen => "not-seen",
        }
    }
}

/// What contradicts a rule.
///
/// ```
/// use scheduled_events_replay::contract::Evidence;
///
/// let evidence = Evidence { exchange: 7, message: "found status 418".to_owned() };
/// assert!(evidence.message.contains("418"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The `sequence` of the line, or its number if it has none.
    pub exchange: u64,
    /// What was found. It may contain text that the service sent.
    pub message: String,
}

/// The service, as far as the lines of a capture show it.
///
/// ```
/// use scheduled_events_replay::contract::{Contract, ServiceRule};
///
/// let mut contract = Contract::default();
/// contract.add("no exchange");
/// contract.add(r#"{"record":"gap","lost":17,"time":"2026-01-01T00:00:00Z"}"#);
/// assert_eq!((contract.exchanges, contract.unreadable, contract.lost), (0, 1, 17));
/// assert!(contract.is_clean() && contract.events().next().is_none());
/// assert_eq!((contract.times_seen(ServiceRule::Date), contract.first_seen(ServiceRule::Date)), (0, None));
/// assert_eq!(contract.times_contradicted(ServiceRule::Date), 0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Contract {
    /// The number of exchanges that were read.
    pub exchanges: u64,
    /// The number of lines that are no records.
    pub unreadable: u64,
    /// The number of exchanges that the file lacks.
    pub lost: u64,
    lines: u64,
    sightings: Sightings,
    answers: Answers,
    lives: Lives,
}

impl Contract {
    /// Adds a line of a capture. Other records change nothing.
    pub fn add(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        self.lines += 1;
        let Some(exchange) = CapturedExchange::parse(line) else {
            match serde_json::from_str::<serde_json::Value>(line) {
                Ok(value) if value["record"] == "gap" => {
                    self.lost += value["lost"].as_u64().unwrap_or(1);
                }
                Ok(value) if value["record"].is_string() && value["record"] != "exchange" => {}
                _ => self.unreadable += 1,
            }
            return;
        };
        self.exchanges += 1;
        self.sightings.exchange = exchange.sequence.unwrap_or(self.lines);
        self.answers.add(&exchange, &mut self.sightings);
        let is_regular = answers::irregularity(&exchange).is_none();
        if exchange.is_poll() && is_regular {
            if let Some(body) = exchange.answer().filter(|body| !body.trim().is_empty()) {
                let version = exchange.api_version().unwrap_or_default();
                let document = document::read(body, version, &mut self.sightings);
                if let Some(document) = document {
                    self.lives
                        .document(&exchange, &document, &mut self.sightings);
                }
            }
        } else if exchange.is_approval() {
            self.lives.approval(&exchange, &mut self.sightings);
        }
    }

    /// Whether the capture shows a rule.
    ///
    /// ```
    /// use scheduled_events_replay::contract::{Contract, ServiceRule, Sighting};
    ///
    /// assert_eq!(Contract::default().sighting(ServiceRule::Date), Sighting::NotSeen);
    /// ```
    pub fn sighting(&self, rule: ServiceRule) -> Sighting {
        match (self.times_contradicted(rule), self.times_seen(rule)) {
            (0, 0) => Sighting::NotSeen,
            (0, _) => Sighting::Seen,
            _ => Sighting::Contradicted,
        }
    }

    /// Whether nothing contradicts any rule.
    pub fn is_clean(&self) -> bool {
        ServiceRule::ALL
            .iter()
            .all(|rule| self.sighting(*rule) != Sighting::Contradicted)
    }

    /// What contradicts a rule: the first [`EVIDENCE_MAX`].
    ///
    /// ```
    /// use scheduled_events_replay::contract::{Contract, ServiceRule};
    ///
    /// assert!(Contract::default().evidence(ServiceRule::Date).is_empty());
    /// ```
    pub fn evidence(&self, rule: ServiceRule) -> &[Evidence] {
        &self.sightings.of(rule).evidence
    }

    /// How often the service kept a rule.
    pub fn times_seen(&self, rule: ServiceRule) -> u64 {
        self.sightings.of(rule).seen
    }

    /// How often the service broke a rule.
    pub fn times_contradicted(&self, rule: ServiceRule) -> u64 {
        self.sightings.of(rule).contradicted
    }

    /// The exchange that shows first that the service keeps a rule.
    pub fn first_seen(&self, rule: ServiceRule) -> Option<u64> {
        self.sightings.of(rule).first
    }

    /// What was seen of each event, in the order of its first sight.
    pub fn events(&self) -> impl Iterator<Item = &ObservedEvent> {
        self.lives.events.iter()
    }
}

/// What was seen of each rule, and the exchange that is being read.
#[derive(Clone, Debug)]
struct Sightings {
    exchange: u64,
    rules: Vec<Tally>,
}

#[derive(Clone, Debug, Default)]
struct Tally {
    seen: u64,
    first: Option<u64>,
    contradicted: u64,
    evidence: Vec<Evidence>,
}

impl Default for Sightings {
    fn default() -> Self {
        Self {
            exchange: 0,
            rules: vec![Tally::default(); ServiceRule::ALL.len()],
        }
    }
}

impl Sightings {
    fn of(&self, rule: ServiceRule) -> &Tally {
        &self.rules[rule as usize]
    }

    /// Notes whether the service kept a rule, with what was found if not.
    fn note(&mut self, rule: ServiceRule, is_kept: bool, message: impl FnOnce() -> String) {
        let exchange = self.exchange;
        let tally = &mut self.rules[rule as usize];
        if is_kept {
            tally.seen += 1;
            tally.first.get_or_insert(exchange);
            return;
        }
        tally.contradicted += 1;
        if tally.evidence.len() < EVIDENCE_MAX {
            let message = message();
            tally.evidence.push(Evidence { exchange, message });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_lines_of_any_numbers_and_texts_are_read() {
        let numbers = [i64::MIN, -1, 0, i64::MAX];
        let bodies = [
            "",
            "[]",
            "{\"DocumentIncarnation\":1e999,\"Events\":[{}]}",
            "{\"DocumentIncarnation\":-1,\"Events\":[{\"EventId\":\"\",\"Resources\":[1,null]}]}",
            "{\"DocumentIncarnation\":1,\"Events\":[{\"EventId\":\"a\",\"EventStatus\":\"Scheduled\",\"EventType\":\"Reboot\",\
             \"NotBefore\":\"Fri, 31 Dec 9999 23:59:59 GMT\"},{\"EventId\":\"a\",\"EventStatus\":\"Started\"}]}",
            &"[".repeat(1_000),
        ];
        let mut contract = Contract::default();
        let mut recording = crate::scenario::Recording::default();
        let mut mask = crate::capture::Mask::default();
        for unix_ms in numbers {
            for took_ms in numbers {
                for body in bodies {
                    for (method, status) in [("GET", 200), ("POST", 200), ("GET", 410)] {
                        let mut exchange = CapturedExchange {
                            unix_ms,
                            took_ms,
                            method: method.into(),
                            target: "/metadata/scheduledevents?api-version=2020-07-01".into(),
                            request_headers: vec![("metadata".into(), "true".into())],
                            request_body: "{\"StartRequests\":[{\"EventId\":\"A\"}]}".into(),
                            status: Some(status),
                            body: body.into(),
                            ..CapturedExchange::default()
                        };
                        mask.exchange(&mut exchange);
                        let line = serde_json::to_string(&exchange).unwrap();
                        contract.add(&line);
                        recording.add(&line);
                    }
                }
            }
        }
        assert_eq!(contract.unreadable, 0);
        assert!(contract.evidence(ServiceRule::Document).len() == EVIDENCE_MAX);
        let _ = recording.scenario(true);
    }
}
