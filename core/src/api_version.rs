//! The versions of the Scheduled Events API, and what each of them added (`docs/inside/wire.md`, section 2).
//!
//! Documents of an older version lack what later versions added, so a client that depends on it has to ask for a newer one.
//!
//! ```
//! use scheduled_events_core::EventKind;
//! use scheduled_events_core::api_version::{Feature, versions};
//!
//! let terminate = Feature::Events(EventKind::Terminate);
//! assert_eq!(terminate.since(), "2019-01-01");
//! assert!(versions().all(|version| terminate.is_in(version) == (version >= "2019-01-01")));
//! ```

use crate::policy::EventKind;
use crate::wire::{ADVICE_API_VERSION, API_VERSION, UNDERSCORED_API_VERSION};

/// Something that documents of older versions do not have.
///
/// The list is exhaustive, so that the compiler names every place where a new feature has to be considered.
///
/// ```
/// use scheduled_events_core::api_version::Feature;
///
/// assert!(Feature::DurationInSeconds.is_in("2020-07-01"));
/// assert!(!Feature::DurationInSeconds.is_in("2019-08-01"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// Events of this type.
    Events(EventKind),
    /// The member `Description`.
    Description,
    /// The member `EventSource`.
    EventSource,
    /// The member `DurationInSeconds`.
    DurationInSeconds,
}

/// All known versions, oldest first, and what each of them added. The version [`UNDERSCORED_API_VERSION`] differs from
/// the next one in the names of resources; [`ADVICE_API_VERSION`] is a preview that not every service knows.
pub const VERSIONS: &[(&str, Option<Feature>)] = &[
    (UNDERSCORED_API_VERSION, None),
    ("2017-08-01", None),
    ("2017-11-01", Some(Feature::Events(EventKind::Preempt))),
    ("2019-01-01", Some(Feature::Events(EventKind::Terminate))),
    ("2019-04-01", Some(Feature::Description)),
    ("2019-08-01", Some(Feature::EventSource)),
    (API_VERSION, Some(Feature::DurationInSeconds)),
    (
        ADVICE_API_VERSION,
        Some(Feature::Events(EventKind::SpotRebalanceRecommendation)),
    ),
];

/// All versions that are generally available, oldest first.
///
/// ```
/// use scheduled_events_core::{api_version, wire};
///
/// assert_eq!(api_version::versions().next(), Some("2017-03-01"));
/// assert_eq!(api_version::versions().next_back(), Some(wire::API_VERSION));
/// ```
pub fn versions() -> impl DoubleEndedIterator<Item = &'static str> {
    let all = VERSIONS.iter().map(|(version, _)| *version);
    all.filter(|version| *version != ADVICE_API_VERSION)
}

impl Feature {
    /// The first version that has it.
    ///
    /// ```
    /// use scheduled_events_core::EventKind;
    /// use scheduled_events_core::api_version::Feature;
    ///
    /// assert_eq!(Feature::EventSource.since(), "2019-08-01");
    /// assert_eq!(Feature::Events(EventKind::Freeze).since(), "2017-03-01"); // since the first version
    /// ```
    pub fn since(self) -> &'static str {
        let added = VERSIONS.iter().find(|(_, added)| *added == Some(self));
        added.map_or(UNDERSCORED_API_VERSION, |(version, _)| version)
    }

    /// Whether documents of this version have it. Versions are dates, so they compare as text. A version of another form
    /// counts as new.
    ///
    /// ```
    /// use scheduled_events_core::api_version::Feature;
    ///
    /// assert!(!Feature::Description.is_in("2019-01-01"));
    /// assert!(Feature::Description.is_in("2024-07-09") && Feature::Description.is_in("latest"));
    /// ```
    pub fn is_in(self, version: &str) -> bool {
        !is_date(version) || version >= self.since()
    }

    /// What messages call it: a member's name, or the type of events, as in "Preempt events".
    ///
    /// ```
    /// use scheduled_events_core::EventKind;
    /// use scheduled_events_core::api_version::Feature;
    ///
    /// assert_eq!(Feature::EventSource.words(), "EventSource");
    /// assert_eq!(Feature::Events(EventKind::Preempt).words(), "Preempt events");
    /// ```
    pub const fn words(self) -> &'static str {
        match self {
            Self::Events(EventKind::Freeze) => "Freeze events",
            Self::Events(EventKind::Reboot) => "Reboot events",
            Self::Events(EventKind::Redeploy) => "Redeploy events",
            Self::Events(EventKind::Preempt) => "Preempt events",
            Self::Events(EventKind::Terminate) => "Terminate events",
            Self::Events(EventKind::Other) => "Other events",
            Self::Events(EventKind::SpotRebalanceRecommendation) => {
                "SpotRebalanceRecommendation events"
            }
            Self::Description => "Description",
            Self::EventSource => "EventSource",
            Self::DurationInSeconds => "DurationInSeconds",
        }
    }
}

fn is_date(version: &str) -> bool {
    version.len() == 10
        && version
            .bytes()
            .zip(*b"dddd-dd-dd")
            .all(|(byte, form)| match form {
                b'd' => byte.is_ascii_digit(),
                separator => byte == separator,
            })
}

#[cfg(test)]
mod tests {
    use std::format;

    use super::*;

    #[test]
    fn versions_ascend_and_end_with_the_newest() {
        assert!(VERSIONS.is_sorted_by_key(|(version, _)| version));
        assert_eq!(
            (versions().next(), versions().next_back()),
            (Some(UNDERSCORED_API_VERSION), Some(API_VERSION))
        );
    }

    #[test]
    fn events_are_called_by_their_type() {
        for kind in EventKind::ALL {
            assert_eq!(Feature::Events(kind).words(), format!("{kind} events"));
        }
    }

    #[test]
    fn only_dates_are_compared() {
        let feature = Feature::DurationInSeconds;
        for (version, expected) in [
            ("2020-06-30", false),
            ("2020-07-01", true),
            ("2020-07-02", true),
            ("2017-03-01", false),
            ("2017_03-01", true),
            ("2017-03-01-preview", true),
            ("1", true),
            ("", true),
        ] {
            assert_eq!(feature.is_in(version), expected, "{version}");
        }
    }
}
