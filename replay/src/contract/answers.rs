//! What a single answer shows, whatever document it has.

use scheduled_events_core::api_version;
use scheduled_events_core::wire::{
    ADVICE_API_VERSION, HEADER_NAME, HEADER_VALUE, UNDERSCORED_API_VERSION,
};

use super::{ServiceRule, Sightings};
use crate::capture::CapturedExchange;

/// The longest delay of the first response.
const FIRST_RESPONSE_MAX_MS: i64 = 120_000;

/// How long the service answers 410.
const UPDATE_MAX_MS: i64 = 70_000;

/// The statuses in the table, besides those of 500 and above. A 304 answers a conditional request.
const STATUSES: [u16; 9] = [200, 304, 400, 401, 403, 404, 405, 410, 429];

/// Why a request is none that a client should send: the service refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Irregularity {
    NoHeader,
    Forwarded,
    NoVersion,
    RepeatedParameter,
    UnknownVersion,
}

impl Irregularity {
    const fn rule(self) -> ServiceRule {
        match self {
            Self::NoHeader => ServiceRule::Header,
            Self::Forwarded => ServiceRule::Forwarded,
            Self::NoVersion => ServiceRule::VersionRequired,
            Self::RepeatedParameter => ServiceRule::RepeatedParameter,
            Self::UnknownVersion => ServiceRule::UnknownVersion,
        }
    }
}

/// What a request has that the service refuses.
pub(super) fn irregularity(exchange: &CapturedExchange) -> Option<Irregularity> {
    let query = exchange
        .target
        .split_once('?')
        .map_or("", |(_, query)| query);
    let names = || {
        let parameters = query.split('&');
        parameters.map(|parameter| parameter.split('=').next().unwrap_or_default())
    };
    let is_repeated = |name: &&str| names().filter(|other| other == name).count() > 1;
    if names().any(|name| !name.is_empty() && is_repeated(&name)) {
        return Some(Irregularity::RepeatedParameter);
    }
    let Some(version) = exchange.api_version() else {
        return Some(Irregularity::NoVersion);
    };
    if exchange.request_header("X-Forwarded-For").is_some() {
        return Some(Irregularity::Forwarded);
    }
    // The oldest version does not need it.
    if exchange.request_header(HEADER_NAME) != Some(HEADER_VALUE)
        && version != UNDERSCORED_API_VERSION
    {
        return Some(Irregularity::NoHeader);
    }
    let is_known = api_version::VERSIONS
        .iter()
        .any(|(known, _)| *known == version);
    let is_of_events = exchange.is_poll() || exchange.is_approval();
    (is_of_events && !is_known).then_some(Irregularity::UnknownVersion)
}

/// What the answers so far have shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    /// Whether a request for a document was answered, or waited for long enough.
    has_first: bool,
    /// When the first 410 in a row was sent.
    updating_since: Option<i64>,
}

impl Answers {
    pub(super) fn add(&mut self, exchange: &CapturedExchange, sightings: &mut Sightings) {
        self.first_response(exchange, sightings);
        let Some(status) = exchange.status else {
            return;
        };
        let is_listed = STATUSES.contains(&status) || status >= 500;
        sightings.note(ServiceRule::StatusCodes, is_listed, || {
            format!("found status {status}")
        });
        sightings.note(ServiceRule::Date, exchange.header("Date").is_some(), || {
            "found a response without it".to_owned()
        });
        self.update_time(exchange, status, sightings);
        // A failure of the service says nothing about a request.
        if matches!(status, 401 | 403 | 410 | 429 | 500..) {
            return;
        }
        match irregularity(exchange) {
            Some(irregularity) => refusal(exchange, irregularity, status, sightings),
            None if exchange.is_poll() => known_version(exchange, status, sightings),
            None if exchange.is_own_name() => own_name(exchange, status, sightings),
            None => {}
        }
    }

    fn first_response(&mut self, exchange: &CapturedExchange, sightings: &mut Sightings) {
        if self.has_first || !exchange.is_poll() {
            return;
        }
        let is_late = exchange.took_ms > FIRST_RESPONSE_MAX_MS;
        // A refusal does not switch the service on, and what failed earlier says nothing.
        if exchange.status == Some(200) || is_late {
            self.has_first = true;
            sightings.note(ServiceRule::FirstResponse, !is_late, || {
                format!("found {} s", exchange.took_ms / 1000)
            });
        }
    }

    fn update_time(&mut self, exchange: &CapturedExchange, status: u16, sightings: &mut Sightings) {
        if status != 410 {
            if self.updating_since.take().is_some() {
                sightings.note(ServiceRule::UpdateTime, true, String::new);
            }
            return;
        }
        let since = *self.updating_since.get_or_insert(exchange.unix_ms);
        let so_far = exchange.unix_ms.saturating_sub(since);
        if so_far > UPDATE_MAX_MS {
            sightings.note(ServiceRule::UpdateTime, false, || {
                format!("found 410 for {} s", so_far / 1000)
            });
        }
    }
}

fn refusal(
    exchange: &CapturedExchange,
    irregularity: Irregularity,
    status: u16,
    sightings: &mut Sightings,
) {
    let is_refused = if irregularity == Irregularity::UnknownVersion {
        let body: Option<serde_json::Value> = serde_json::from_str(&exchange.body).ok();
        let names_versions = body.is_some_and(|body| body["newest-versions"].is_array());
        status == 404 || (status == 400 && names_versions)
    } else {
        status == 400
    };
    sightings.note(irregularity.rule(), is_refused, || {
        if status == 400 {
            "found a 400 without `newest-versions`".to_owned()
        } else {
            format!("found status {status}")
        }
    });
}

fn known_version(exchange: &CapturedExchange, status: u16, sightings: &mut Sightings) {
    let version = exchange.api_version().unwrap_or_default();
    if version == ADVICE_API_VERSION {
        return;
    }
    sightings.note(
        ServiceRule::KnownVersions,
        !matches!(status, 400 | 404),
        || format!("found status {status} for version {version}"),
    );
}

fn own_name(exchange: &CapturedExchange, status: u16, sightings: &mut Sightings) {
    let name = exchange.body.trim();
    let is_name = !name.is_empty()
        && !name.contains(|char: char| char.is_whitespace() || "<>{}\"".contains(char));
    sightings.note(ServiceRule::OwnName, status == 200 && is_name, || {
        if status == 200 {
            format!("found {name:?}")
        } else {
            format!("found status {status}")
        }
    });
}
