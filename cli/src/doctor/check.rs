//! What `doctor` checks. The rest of a finding has the same form in all programs.

use serde::{Deserialize, Serialize};

/// The result of one check.
pub(crate) type Finding = scheduled_events_text::finding::Finding<Check>;

/// What is checked, in the order in which it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Check {
    Service,
    Name,
    Clock,
    Policy,
    Prepare,
    Recover,
    On,
    State,
    Audit,
    Metrics,
    Gate,
    Proxy,
    Others,
    Unit,
}

impl AsRef<str> for Check {
    fn as_ref(&self) -> &str {
        match self {
            Self::Service => "service",
            Self::Name => "name",
            Self::Clock => "clock",
            Self::Policy => "policy",
            Self::Prepare => "prepare",
            Self::Recover => "recover",
            Self::On => "on",
            Self::State => "state",
            Self::Audit => "audit",
            Self::Metrics => "metrics",
            Self::Gate => "gate",
            Self::Proxy => "proxy",
            Self::Others => "others",
            Self::Unit => "unit",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_has_one_word_in_text_and_in_json() {
        for check in [Check::Service, Check::Others, Check::Recover] {
            assert_eq!(
                serde_json::to_string(&check).unwrap(),
                format!("{:?}", check.as_ref())
            );
        }
    }
}
