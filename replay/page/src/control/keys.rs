//! The keys of the control, and whether a request has one.

use std::error::Error;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue};
use subtle::ConstantTimeEq as _;

/// How long the ticket is valid: a browser that starts needs seconds.
const TICKET_LIFETIME: Duration = Duration::from_secs(60);

/// The keys of the control.
#[derive(Debug)]
pub(super) struct Keys {
    port: u16,
    /// Gives access to everything.
    token: String,
    /// Is exchanged for the token, once, and only soon after its creation.
    ticket: Mutex<Option<String>>,
    created: Instant,
    /// Lets clients post their log lines, and nothing else: other users may see it among the
    /// arguments of processes.
    records: String,
}

impl Keys {
    pub(super) fn new(port: u16) -> Result<Self, NoRandomNumbers> {
        let ticket = Mutex::new(Some(random_key()?));
        Ok(Self {
            port,
            token: random_key()?,
            ticket,
            created: Instant::now(),
            records: random_key()?,
        })
    }

    pub(super) fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    pub(super) fn ticket(&self) -> String {
        self.ticket
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
            .unwrap_or_default()
    }

    /// The token for the ticket, the first time.
    pub(super) fn exchange(&self, ticket: &str) -> Option<&str> {
        let mut kept = self.ticket.lock().unwrap_or_else(PoisonError::into_inner);
        let is_right = kept.as_ref().is_some_and(|kept| same(kept, ticket));
        (is_right && self.created.elapsed() < TICKET_LIFETIME).then(|| {
            *kept = None;
            self.token.as_str()
        })
    }

    pub(super) fn records(&self) -> &str {
        &self.records
    }

    pub(super) fn opens_records(&self, key: &str) -> bool {
        same(&self.records, key)
    }

    pub(super) fn opens(&self, headers: &HeaderMap) -> bool {
        let value = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        value
            .and_then(|value| value.strip_prefix("Bearer "))
            .is_some_and(|token| same(&self.token, token))
    }

    /// Whether a browser would send this `Host` for the page's own address.
    fn is_own_host(&self, host: &str) -> bool {
        let port = format!(":{}", self.port);
        // A browser leaves out the default port of HTTP.
        let name = host
            .strip_suffix(&port)
            .or_else(|| (self.port == 80).then_some(host));
        name.is_some_and(|name| ["127.0.0.1", "localhost"].contains(&name))
    }

    pub(super) fn check_address(&self, headers: &HeaderMap) -> Result<(), ForeignRequest> {
        let text = |name| {
            headers
                .get(name)
                .map(|value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()))
        };
        let host = text(HOST).unwrap_or_default();
        if headers.get_all(HOST).iter().count() != 1 || !self.is_own_host(&host) {
            return Err(ForeignRequest::Host {
                found: host.into_owned(),
                expected: self.authority(),
            });
        }
        if let Some(origin) = text(ORIGIN)
            && origin.strip_prefix("http://") != Some(&*host)
        {
            return Err(ForeignRequest::Origin {
                found: origin.into_owned(),
                host: host.into_owned(),
            });
        }
        Ok(())
    }
}

/// Why there can be no keys.
#[derive(Debug)]
pub(crate) struct NoRandomNumbers(getrandom::Error);

impl fmt::Display for NoRandomNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the system has no random numbers: {}", self.0)
    }
}

impl Error for NoRandomNumbers {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// A header that only a request for another address, or of another site, has.
#[derive(Debug)]
pub(super) enum ForeignRequest {
    Host { found: String, expected: String },
    Origin { found: String, host: String },
}

impl fmt::Display for ForeignRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { found, expected } => write!(f, "found Host: {found}, expected {expected}"),
            Self::Origin { found, host } => {
                write!(f, "found Origin: {found}, expected http://{host}")
            }
        }
    }
}

impl Error for ForeignRequest {}

fn same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// 128 random bits as hexadecimal digits.
fn random_key() -> Result<String, NoRandomNumbers> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(NoRandomNumbers)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    #[test]
    fn only_the_own_address_is_answered() {
        let keys = Keys::new(8000).expect("random numbers");
        let check = |fields: &[_]| keys.check_address(&headers(fields)).is_ok();
        assert!(check(&[("host", "127.0.0.1:8000")]) && check(&[("host", "localhost:8000")]));
        assert!(check(&[
            ("host", "127.0.0.1:8000"),
            ("origin", "http://127.0.0.1:8000")
        ]));
        for host in [
            "evil.example:8000",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.0.0.1:80000",
            "",
            "x127.0.0.1:8000",
            "[::1]:8000",
        ] {
            assert!(!check(&[("host", host)]), "{host}");
        }
        for origin in [
            "http://evil.example",
            "null",
            "https://127.0.0.1:8000",
            "http://127.0.0.1:8001",
            "http://localhost:8000",
        ] {
            assert!(
                !check(&[("host", "127.0.0.1:8000"), ("origin", origin)]),
                "{origin}"
            );
        }
        assert!(!check(&[]));
        let mut twice = headers(&[("host", "127.0.0.1:8000")]);
        twice.append(HOST, HeaderValue::from_static("127.0.0.1:8000"));
        assert!(keys.check_address(&twice).is_err());
    }

    #[test]
    fn each_key_opens_its_own_part_and_the_ticket_once() {
        let keys = Keys::new(8000).expect("random numbers");
        assert!(
            keys.token().len() == 32
                && keys.token() != keys.records()
                && keys.token() != keys.ticket()
        );
        let ticket = keys.ticket();
        assert_eq!(keys.exchange("x"), None);
        assert_eq!(keys.exchange(&ticket), Some(keys.token()));
        assert_eq!(keys.exchange(&ticket), None);
        assert_eq!(keys.exchange(""), None);
        let mut old = Keys::new(8000).expect("random numbers");
        old.created = old
            .created
            .checked_sub(TICKET_LIFETIME)
            .expect("a time after the boot");
        assert_eq!(old.exchange(&old.ticket()), None);
        assert!(keys.opens_records(keys.records()) && !keys.opens_records(keys.token()));
    }
}
