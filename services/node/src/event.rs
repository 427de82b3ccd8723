//! The event that a hook gets on its standard input.

use std::error::Error;
use std::fmt;
use std::io::{self, IsTerminal, Read};

use k8s_openapi::jiff::{self, Timestamp};
use serde::Deserialize;

/// The longest input that is read. An event of a thousand machines has some 70 KiB.
const INPUT_MAX: u64 = 1024 * 1024;

/// An event, as `scheduled-events` passes it to a hook.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct HookEvent {
    /// Its id.
    pub event_id: String,
    /// Its type, such as `Reboot`.
    pub event_type: Option<String>,
    /// Its status, such as `Scheduled`.
    pub event_status: Option<String>,
    /// When it starts at the earliest, in RFC 3339.
    pub not_before: Option<String>,
    /// Azure's description.
    pub description: Option<String>,
    /// Whether it names this machine.
    pub mine: Option<bool>,
}

/// Why standard input has no event.
#[derive(Debug)]
#[non_exhaustive]
pub enum HookEventError {
    /// The system cannot read it.
    Unreadable(io::Error),
    /// It is too long.
    TooLong,
    /// It is not an event.
    NotEvent(serde_json::Error),
    /// The event has an invalid time.
    NotBefore {
        /// The time.
        found: String,
        /// What is wrong with it.
        error: jiff::Error,
    },
}

impl fmt::Display for HookEventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => {
                write!(f, "cannot read the event on standard input: {error}")
            }
            Self::TooLong => write!(
                f,
                "the event on standard input has more than {INPUT_MAX} bytes"
            ),
            Self::NotEvent(error) => write!(
                f,
                "standard input is not an event as hooks get it, in JSON: {error}"
            ),
            Self::NotBefore { found, error } => write!(
                f,
                "`not_before` is {found:?}, expected a time in RFC 3339: {error}"
            ),
        }
    }
}

impl Error for HookEventError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable(error) => Some(error),
            Self::TooLong => None,
            Self::NotEvent(error) => Some(error),
            Self::NotBefore { error, .. } => Some(error),
        }
    }
}

impl HookEvent {
    /// Reads standard input; `None` if it is a terminal, or empty.
    ///
    /// # Errors
    /// The input cannot be read, is too long, or is not an event.
    pub fn from_stdin() -> Result<Option<Self>, HookEventError> {
        let stdin = std::io::stdin();
        if stdin.is_terminal() {
            return Ok(None);
        }
        let mut text = String::new();
        let mut input = stdin.lock().take(INPUT_MAX + 1);
        input
            .read_to_string(&mut text)
            .map_err(HookEventError::Unreadable)?;
        if text.len() as u64 > INPUT_MAX {
            return Err(HookEventError::TooLong);
        }
        if text.trim().is_empty() {
            return Ok(None);
        }
        Self::parse(&text).map(Some)
    }

    /// Reads an event.
    ///
    /// # Errors
    /// It is not an event, or its time is invalid.
    pub fn parse(text: &str) -> Result<Self, HookEventError> {
        let event: Self = serde_json::from_str(text).map_err(HookEventError::NotEvent)?;
        event.start()?;
        Ok(event)
    }

    /// When it starts at the earliest.
    ///
    /// # Errors
    /// The time is invalid.
    pub fn start(&self) -> Result<Option<Timestamp>, HookEventError> {
        let Some(text) = &self.not_before else {
            return Ok(None);
        };
        let time = text.parse().map_err(|error| HookEventError::NotBefore {
            found: text.clone(),
            error,
        })?;
        Ok(Some(time))
    }

    /// Whether it is advice: it is not announced, and may never come.
    pub fn is_advice(&self) -> bool {
        self.event_type.as_deref() == Some("SpotRebalanceRecommendation")
            || self.event_status.as_deref() == Some("Advisory")
    }

    /// Whether it is an eviction.
    pub fn is_preempt(&self) -> bool {
        self.event_type.as_deref() == Some("Preempt") && !self.is_advice()
    }

    /// Its type as one word of letters and digits, which it always is: for names in the API, which
    /// allow little else.
    pub fn type_word(&self) -> &str {
        let word = self.event_type.as_deref().unwrap_or_default();
        let is_word = !word.is_empty()
            && word.len() <= 32
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if is_word { word } else { "Other" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_a_hook_gets() {
        let event = HookEvent::parse(
            r#"{"record":"event","event_id":"A-1","event_type":"Reboot","event_status":"Scheduled",
                "resources":["WestNO_0"],"not_before":"2022-04-11T22:26:58Z","description":null,"mine":true}"#,
        )
        .unwrap();
        assert_eq!(
            (event.event_id.as_str(), event.type_word(), event.mine),
            ("A-1", "Reboot", Some(true))
        );
        assert_eq!(event.start().unwrap().unwrap().as_second(), 1_649_716_018);
    }

    #[test]
    fn refuses_what_is_no_event() {
        for (text, expected) in [
            ("{}", "missing field `event_id`"),
            ("[1]", "not an event"),
            (
                r#"{"event_id":"A","not_before":"tomorrow"}"#,
                "`not_before` is \"tomorrow\"",
            ),
        ] {
            let error = HookEvent::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_type_from_outside_is_one_word() {
        for (given, expected) in [
            ("Reboot", "Reboot"),
            ("a/b", "Other"),
            ("", "Other"),
            ("é", "Other"),
        ] {
            let event = HookEvent {
                event_type: Some(given.into()),
                ..HookEvent::default()
            };
            assert_eq!(event.type_word(), expected);
        }
    }
}
