//! Whether a client blinds itself: it asks for a version that the service does not have, and never for
//! an older one.

use std::time::Duration;

use super::exchange::Exchange;
use super::finding::Findings;
use super::polls::{POLL_GAP_MAX, seconds};
use super::rules::Rule;

/// From this number of refused requests in a row on, there is a finding. Two programs of one machine
/// may both try a version.
const IN_A_ROW: u32 = 3;

/// The requests for a version that the service refused, since the last one for a version that it has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fallback {
    in_a_row: u32,
    /// The version, and when the first of them was refused.
    refused: Option<(&'static str, Duration)>,
    /// Whether the client has ended since.
    has_ended: bool,
}

impl Fallback {
    pub(crate) fn exchange(&mut self, exchange: &Exchange<'_>, findings: &mut Findings) {
        // With these it may ask for the same version again, later.
        let is_temporary = matches!(exchange.status, None | Some(401 | 403 | 408 | 429 | 500..));
        if is_temporary && exchange.refused_version().is_some() {
            return;
        }
        let Some(version) = exchange.refused_version() else {
            if exchange.is_poll() {
                if self.refused.is_some() {
                    findings.check(Rule::Fallback);
                }
                *self = Self::default();
            }
            return;
        };
        self.in_a_row += 1;
        self.refused.get_or_insert((version, exchange.answered));
        if self.in_a_row >= IN_A_ROW {
            let message = format!(
                "found {} requests in a row for version {version:?}, which the service does not have",
                self.in_a_row
            );
            findings.add(Rule::Fallback, exchange.arrived, None, message);
        }
    }

    /// Whether the client's last request was refused.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    pub(crate) fn client_ended(&mut self) {
        self.has_ended = self.refused.is_some();
    }

    /// Adds the finding from the silence until now.
    pub(crate) fn conclude(&self, now: Duration, findings: &mut Findings) {
        let Some((version, since)) = self.refused.filter(|_| self.in_a_row < IN_A_ROW) else {
            return;
        };
        let silence = now.saturating_sub(since);
        if self.has_ended || silence > POLL_GAP_MAX {
            let message = if self.has_ended {
                format!("it ended after the service refused version {version:?}")
            } else {
                format!(
                    "found no request for an older version for {} after the service refused version {version:?}",
                    seconds(silence)
                )
            };
            findings.add(Rule::Fallback, now, None, message);
        }
    }
}
