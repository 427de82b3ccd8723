//! The targets of records. A target turns records into requests, but sends nothing itself. `open`
//! sets up the target of a configuration.

mod alertmanager;
mod chat;
mod event_hubs;
mod open;
mod otlp;
mod pagerduty;
mod slack;
mod teams;
mod webhook;

use std::error::Error;
use std::fmt;
use std::time::{Duration, SystemTime};

use scheduled_events_core::EventKind;
use scheduled_events_core::record::PrintableJson;
use serde_json::Value;

use super::events::{OpenEvent, OpenEvents};
use super::record::Record;
use super::transport::{Address, Outcome, Request, read};
use crate::config::{Scope, TargetConfig};
use crate::error::SettingError;
pub use open::open;
use scheduled_events_common::secret::Secret;

/// A record, and the event that it is about.
#[derive(Clone, Debug)]
pub struct Item {
    /// The record.
    pub record: Record,
    /// Its event, as it is after the record.
    pub event: Option<OpenEvent>,
}

/// Why there is no request.
#[derive(Debug)]
#[non_exhaustive]
pub enum RequestError {
    /// A setting cannot be used. There may be a request later.
    Setting(SettingError),
    /// The record cannot be read. There is no request for it.
    Record(serde_json::Error),
    /// The template fails for the record. There is no request for it.
    Template(minijinja::Error),
    /// The template makes no valid JSON of the record. There is no request for it.
    NotJson(serde_json::Error),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(error) => error.fmt(f),
            Self::Record(error) => error.fmt(f),
            Self::Template(error) => write!(f, "the template fails: {error}"),
            Self::NotJson(error) => write!(f, "the template makes no valid JSON: {error}"),
        }
    }
}

impl Error for RequestError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Setting(error) => error.source(),
            Self::Record(error) => error.source(),
            Self::Template(error) => Some(error),
            Self::NotJson(error) => Some(error),
        }
    }
}

impl From<SettingError> for RequestError {
    fn from(error: SettingError) -> Self {
        Self::Setting(error)
    }
}

/// A receiver of records.
pub trait Target: Send + Sync {
    /// Whether it receives this record if its configuration names no kinds of records.
    fn wants(&self, _record: &Record) -> bool {
        true
    }

    /// Whether its configuration may name the kinds of records.
    fn has_choice(&self) -> bool {
        true
    }

    /// How many records one call of [`requests`](Self::requests) may receive.
    fn batch_max(&self) -> usize {
        1
    }

    /// The least time between two requests.
    fn pause(&self) -> Duration {
        Duration::ZERO
    }

    /// The requests that forward these records. If one fails, all of them are repeated.
    ///
    /// # Errors
    /// Why there is none.
    fn requests(&self, items: &[Item]) -> Result<Vec<Request>, RequestError>;

    /// How often [`refresh`](Self::refresh) is called while events are open.
    fn refresh_every(&self) -> Option<Duration> {
        None
    }

    /// The requests that repeat open events, for a target that forgets them.
    ///
    /// # Errors
    /// Why there is none.
    fn refresh(&self, _events: &OpenEvents) -> Result<Vec<Request>, RequestError> {
        Ok(Vec::new())
    }

    /// The meaning of an answer, if it differs from that of its status. Nothing of the body may be
    /// logged.
    fn classify(&self, _status: u16, _body: &str) -> Option<Outcome> {
        None
    }
}

/// Which records a target receives.
#[derive(Clone, Debug)]
pub struct Filter {
    records: Option<Vec<String>>,
    scope: Scope,
    types: Option<Vec<String>>,
}

impl Filter {
    /// The filter of a configuration.
    pub fn new(config: &TargetConfig) -> Self {
        let records = config
            .records
            .as_ref()
            .map(|records| records.get_ref().clone());
        Self {
            records,
            scope: config.scope,
            types: config.event.as_ref().map(|types| types.get_ref().clone()),
        }
    }

    /// Whether the target receives the record.
    pub fn passes(&self, record: &Record, target: &dyn Target) -> bool {
        let kind = match &self.records {
            Some(kinds) => kinds.iter().any(|kind| kind == record.kind()),
            None => target.wants(record),
        };
        let type_ = || match (&self.types, record.text("event_type")) {
            (Some(types), Some(found)) => {
                let mut known = EventKind::ALL.iter().map(|known| known.word());
                let found = known
                    .find(|known| known.eq_ignore_ascii_case(found))
                    .unwrap_or(EventKind::Other.word());
                types
                    .iter()
                    .any(|expected| expected.eq_ignore_ascii_case(found))
            }
            _ => true,
        };
        kind && (self.scope == Scope::Any || !record.is_of_others()) && type_()
    }
}

/// The address and the headers that a configuration sets for all requests of its target.
#[derive(Clone, Debug)]
struct Endpoint {
    config: TargetConfig,
    default_url: Option<&'static str>,
    /// Whether its requests have a secret besides those of the configuration.
    has_secret: bool,
}

impl Endpoint {
    fn new(config: &TargetConfig) -> Self {
        Self {
            config: config.clone(),
            default_url: None,
            has_secret: false,
        }
    }

    /// A request with this path after the address. Secrets are read from their files.
    fn request(
        &self,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<Request, SettingError> {
        let config = &self.config;
        let url = match (&config.url, &config.url_file, self.default_url) {
            (Some(url), ..) => Address::new(&Secret::new(url))?,
            (None, Some(file), _) => Address::new(&read("url_file", file)?)?.private()?,
            (None, None, Some(url)) => Address::new(&Secret::new(url))?,
            (None, None, None) => return Err("expected `url` or `url_file`".into()),
        };
        let url = if self.has_secret || !config.header_files.is_empty() {
            url.private()?
        } else {
            url
        };
        let url = if path.is_empty() {
            url
        } else {
            url.join(path)?
        };
        let mut headers = vec![("content-type".to_owned(), Secret::new(content_type))];
        headers.extend(
            config
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), Secret::new(value))),
        );
        for (name, file) in &config.header_files {
            let value = read(&format!("header_files.{name}"), file)?;
            headers.push((name.clone(), value));
        }
        Ok(Request {
            url,
            headers,
            body,
            identity: None,
        })
    }

    /// A request with a body in JSON, in which characters that are unsafe to print are escaped.
    fn json(&self, path: &str, body: &Value) -> Result<Request, SettingError> {
        let body = PrintableJson(&body.to_string()).to_string();
        self.request(path, "application/json", body.into_bytes())
    }

    /// Checks the settings, as far as that is possible without sending anything.
    fn check(self) -> Result<Self, SettingError> {
        for (name, _) in &self.request("", "text/plain", Vec::new())?.headers {
            if reqwest::header::HeaderName::try_from(name.as_str()).is_err() {
                return Err(SettingError::Invalid(format!(
                    "{name:?} is no name of a header"
                )));
            }
        }
        Ok(self)
    }
}

/// Seconds since 1970, by this machine's clock.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}
