//! Terminate notification: the part of a scale set's model that announces deletions with a `Terminate` event.
//!
//! A scale set announces the deletion of an instance only if its model has a [`ScheduledEventsProfile`] that enables it. The
//! profile is that of the REST API, as JSON through any serde writer:
//!
//! ```
//! use scheduled_events_core::terminate::{NotBeforeTimeout, ProfileRule, ScheduledEventsProfile};
//!
//! let profile = ScheduledEventsProfile::terminate(NotBeforeTimeout::from_minutes(10)?);
//! assert_eq!(
//!     serde_json::to_string(&profile)?,
//!     r#"{"terminateNotificationProfile":{"notBeforeTimeout":"PT10M","enable":true}}"#
//! );
//! assert_eq!(NotBeforeTimeout::from_minutes(16), Err(ProfileRule::AtMost15Minutes));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What Azure refuses is refused here, by a [`ProfileRule`] with a name. The source is Microsoft's page "Terminate notification for
//! Azure Virtual Machine Scale Set instances"; for the OS image profile, the reference of the compute API.

use core::fmt;

use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};

use crate::error::BufferTooSmall;
use crate::slice_writer::SliceWriter;
use crate::words::words;

/// The oldest version of the compute API that knows the profile. Older ones refuse it: "Could not find member
/// 'scheduledEventsProfile'".
pub const COMPUTE_API_VERSION: &str = "2019-03-01";

/// The oldest version of the metadata service that delivers `Terminate` events.
pub const EVENTS_API_VERSION: &str = "2019-01-01";

/// A rule of Azure about these profiles, by which something is refused.
///
/// ```
/// use scheduled_events_core::terminate::{NotBeforeTimeout, ProfileRule};
///
/// let rule = NotBeforeTimeout::parse("PT1H").unwrap_err();
/// assert_eq!(rule, ProfileRule::AtMost15Minutes);
/// assert_eq!(rule.word(), "at-most-15-minutes");
/// assert_eq!(rule.message(), "the time-out must be at most 15 minutes (PT15M)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProfileRule {
    /// A time-out is a duration in ISO 8601. Here: days, hours, minutes and seconds as whole numbers, such as `PT5M`.
    Iso8601Duration,
    /// The time-out of a Terminate event is at least 5 minutes.
    AtLeast5Minutes,
    /// The time-out of a Terminate event is at most 15 minutes.
    AtMost15Minutes,
    /// The time-out of an OS image event is 15 minutes.
    Exactly15Minutes,
    /// Terminate notifications cannot be enabled on Spot instances.
    NotOnSpot,
    /// The compute API knows the profile since [`COMPUTE_API_VERSION`].
    ComputeApiVersion,
}

words!(ProfileRule {
    Iso8601Duration => "iso-8601-duration",
    AtLeast5Minutes => "at-least-5-minutes",
    AtMost15Minutes => "at-most-15-minutes",
    Exactly15Minutes => "exactly-15-minutes",
    NotOnSpot => "not-on-spot",
    ComputeApiVersion => "compute-api-version",
});

impl ProfileRule {
    /// The rule as a sentence, without a full stop.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Iso8601Duration => "the time-out must be a duration in ISO 8601, such as PT5M",
            Self::AtLeast5Minutes => "the time-out must be at least 5 minutes (PT5M)",
            Self::AtMost15Minutes => "the time-out must be at most 15 minutes (PT15M)",
            Self::Exactly15Minutes => {
                "the time-out of the OS image notification must be 15 minutes (PT15M)"
            }
            Self::NotOnSpot => "terminate notifications cannot be enabled on Spot instances",
            Self::ComputeApiVersion => "the compute API must be version 2019-03-01 or later",
        }
    }
}

impl core::error::Error for ProfileRule {}

/// How long a `Terminate` event waits for its approval: 5 to 15 minutes, in whole seconds.
///
/// It cannot be extended once an event is announced. A change in the model applies to later events, on instances that were updated
/// to the latest model.
///
/// ```
/// use scheduled_events_core::terminate::{NotBeforeTimeout, ProfileRule};
///
/// let timeout = NotBeforeTimeout::parse("PT0H7M30S")?;
/// assert_eq!((timeout.as_seconds(), timeout.to_string().as_str()), (450, "PT7M30S"));
/// assert_eq!(NotBeforeTimeout::parse("10 minutes"), Err(ProfileRule::Iso8601Duration));
/// assert_eq!(NotBeforeTimeout::parse("PT4M59S"), Err(ProfileRule::AtLeast5Minutes));
/// # Ok::<(), ProfileRule>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NotBeforeTimeout(u32);

impl NotBeforeTimeout {
    /// The shortest time-out: 5 minutes. It is also Azure's default.
    pub const MIN: Self = Self(5 * 60);
    /// The longest time-out: 15 minutes.
    pub const MAX: Self = Self(15 * 60);
    /// The longest text that [`write`](Self::write) writes, in bytes: `PT14M59S`.
    pub const WRITTEN_MAX: usize = 8;

    /// A time-out of this many seconds.
    ///
    /// # Errors
    /// [`ProfileRule::AtLeast5Minutes`] or [`ProfileRule::AtMost15Minutes`].
    ///
    /// ```
    /// use scheduled_events_core::terminate::{NotBeforeTimeout, ProfileRule};
    ///
    /// assert_eq!(NotBeforeTimeout::from_seconds(300), Ok(NotBeforeTimeout::MIN));
    /// assert_eq!(NotBeforeTimeout::from_seconds(299), Err(ProfileRule::AtLeast5Minutes));
    /// ```
    pub const fn from_seconds(seconds: u32) -> Result<Self, ProfileRule> {
        if seconds < Self::MIN.0 {
            return Err(ProfileRule::AtLeast5Minutes);
        }
        if seconds > Self::MAX.0 {
            return Err(ProfileRule::AtMost15Minutes);
        }
        Ok(Self(seconds))
    }

    /// A time-out of this many minutes.
    ///
    /// # Errors
    /// As [`from_seconds`](Self::from_seconds).
    ///
    /// ```
    /// use scheduled_events_core::terminate::NotBeforeTimeout;
    ///
    /// assert_eq!(NotBeforeTimeout::from_minutes(15), Ok(NotBeforeTimeout::MAX));
    /// ```
    pub const fn from_minutes(minutes: u32) -> Result<Self, ProfileRule> {
        Self::from_seconds(minutes.saturating_mul(60))
    }

    /// Parses a duration in ISO 8601: `P`, days, `T`, hours, minutes and seconds, each a whole number and optional, in upper case.
    /// Years, months and weeks are refused, since no time-out has them.
    ///
    /// # Errors
    /// [`ProfileRule::Iso8601Duration`] if the text is something else, or as [`from_seconds`](Self::from_seconds).
    pub fn parse(text: &str) -> Result<Self, ProfileRule> {
        Self::from_seconds(parse_duration(text).ok_or(ProfileRule::Iso8601Duration)?)
    }

    /// The time-out in seconds.
    pub const fn as_seconds(self) -> u32 {
        self.0
    }

    /// The time-out in minutes if it is a whole number of them, as the portal, the Azure CLI and PowerShell require.
    ///
    /// ```
    /// use scheduled_events_core::terminate::NotBeforeTimeout;
    ///
    /// assert_eq!(NotBeforeTimeout::parse("PT600S")?.as_whole_minutes(), Some(10));
    /// assert_eq!(NotBeforeTimeout::parse("PT601S")?.as_whole_minutes(), None);
    /// # Ok::<(), scheduled_events_core::terminate::ProfileRule>(())
    /// ```
    pub const fn as_whole_minutes(self) -> Option<u32> {
        if self.0.is_multiple_of(60) {
            Some(self.0.wrapping_div(60))
        } else {
            None
        }
    }

    /// Writes the time-out in ISO 8601 to the front of `buffer`, without [`core::fmt`].
    ///
    /// # Errors
    /// [`BufferTooSmall`] with the number of bytes needed.
    ///
    /// ```
    /// use scheduled_events_core::terminate::NotBeforeTimeout;
    ///
    /// let mut buffer = [0; NotBeforeTimeout::WRITTEN_MAX];
    /// assert_eq!(NotBeforeTimeout::MIN.write(&mut buffer), Ok("PT5M"));
    /// ```
    pub fn write(self, buffer: &mut [u8]) -> Result<&str, BufferTooSmall> {
        let mut writer = SliceWriter::new(buffer);
        writer.bytes(b"PT");
        // A time-out is not zero, so one of the two is written.
        for (number, unit) in [(self.0.wrapping_div(60), b'M'), (self.0 % 60, b'S')] {
            if number > 0 {
                decimal(&mut writer, number);
                writer.byte(unit);
            }
        }
        // What was written is ASCII.
        writer
            .written()
            .map(|text| core::str::from_utf8(text).unwrap_or_default())
    }
}

impl fmt::Display for NotBeforeTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = [0; Self::WRITTEN_MAX];
        f.pad(self.write(&mut buffer).unwrap_or_default())
    }
}

impl Serialize for NotBeforeTimeout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut buffer = [0; Self::WRITTEN_MAX];
        serializer.serialize_str(self.write(&mut buffer).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for NotBeforeTimeout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = NotBeforeTimeout;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration in ISO 8601 from PT5M to PT15M")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<NotBeforeTimeout, E> {
                NotBeforeTimeout::parse(text).map_err(|rule| E::custom(rule.message()))
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}

/// Whether deletions of instances are announced, and how long they wait: `terminateNotificationProfile` of the REST API.
///
/// ```
/// use scheduled_events_core::terminate::{NotBeforeTimeout, TerminateNotificationProfile};
///
/// let on = TerminateNotificationProfile::enabled(NotBeforeTimeout::from_minutes(10)?);
/// assert_eq!(serde_json::to_string(&on)?, r#"{"notBeforeTimeout":"PT10M","enable":true}"#);
/// let off = TerminateNotificationProfile::disabled();
/// assert_eq!(serde_json::to_string(&off)?, r#"{"enable":false}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminateNotificationProfile {
    /// How long an event waits for its approval; left out of the JSON if it is `None`, and Azure then takes 5 minutes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_before_timeout: Option<NotBeforeTimeout>,
    /// Whether deletions are announced.
    pub enable: bool,
}

impl TerminateNotificationProfile {
    /// Announces deletions, which then wait this long for their approval.
    pub const fn enabled(timeout: NotBeforeTimeout) -> Self {
        Self {
            not_before_timeout: Some(timeout),
            enable: true,
        }
    }

    /// Announces no deletions.
    pub const fn disabled() -> Self {
        Self {
            not_before_timeout: None,
            enable: false,
        }
    }

    /// Checks that a scale set accepts the profile: `is_spot` is whether its instances are Spot machines, and `api_version` the
    /// version of the compute API, a date such as `2021-07-01`.
    ///
    /// # Errors
    /// [`ProfileRule::NotOnSpot`], if it would be enabled, or [`ProfileRule::ComputeApiVersion`].
    ///
    /// ```
    /// use scheduled_events_core::terminate::{NotBeforeTimeout, ProfileRule, TerminateNotificationProfile};
    ///
    /// let profile = TerminateNotificationProfile::enabled(NotBeforeTimeout::MIN);
    /// assert_eq!(profile.check(false, "2019-03-01"), Ok(()));
    /// assert_eq!(profile.check(false, "2018-10-01"), Err(ProfileRule::ComputeApiVersion));
    /// assert_eq!(profile.check(true, "2021-07-01"), Err(ProfileRule::NotOnSpot));
    /// ```
    pub fn check(self, is_spot: bool, api_version: &str) -> Result<(), ProfileRule> {
        // Versions are dates, so they compare as text.
        if api_version < COMPUTE_API_VERSION {
            return Err(ProfileRule::ComputeApiVersion);
        }
        if is_spot && self.enable {
            return Err(ProfileRule::NotOnSpot);
        }
        Ok(())
    }
}

/// Whether reimaging an instance and upgrading its OS image are announced: `osImageNotificationProfile` of the REST API.
///
/// Its time-out is always 15 minutes.
///
/// ```
/// use scheduled_events_core::terminate::OsImageNotificationProfile;
///
/// let on = OsImageNotificationProfile::enabled();
/// assert_eq!(serde_json::to_string(&on)?, r#"{"notBeforeTimeout":"PT15M","enable":true}"#);
/// let off = OsImageNotificationProfile::disabled();
/// assert_eq!(serde_json::to_string(&off)?, r#"{"enable":false}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OsImageNotificationProfile {
    /// How long an event waits for its approval, which can only be 15 minutes; left out of the JSON if it is `None`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_before_timeout: Option<FifteenMinutes>,
    /// Whether these changes are announced.
    pub enable: bool,
}

impl OsImageNotificationProfile {
    /// Announces reimaging and OS upgrades.
    pub const fn enabled() -> Self {
        Self {
            not_before_timeout: Some(FifteenMinutes),
            enable: true,
        }
    }

    /// Announces neither.
    pub const fn disabled() -> Self {
        Self {
            not_before_timeout: None,
            enable: false,
        }
    }
}

/// The only time-out of the OS image notification, `PT15M`.
///
/// ```
/// use scheduled_events_core::terminate::{FifteenMinutes, OsImageNotificationProfile};
///
/// let read: OsImageNotificationProfile = serde_json::from_str(r#"{"notBeforeTimeout":"PT15M","enable":true}"#)?;
/// assert_eq!(read.not_before_timeout, Some(FifteenMinutes));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FifteenMinutes;

impl FifteenMinutes {
    /// Parses a duration in ISO 8601 that is 15 minutes, such as `PT15M` or `PT900S`.
    ///
    /// # Errors
    /// [`ProfileRule::Iso8601Duration`] or [`ProfileRule::Exactly15Minutes`].
    ///
    /// ```
    /// use scheduled_events_core::terminate::{FifteenMinutes, ProfileRule};
    ///
    /// assert_eq!(FifteenMinutes::parse("PT900S"), Ok(FifteenMinutes));
    /// assert_eq!(FifteenMinutes::parse("PT5M"), Err(ProfileRule::Exactly15Minutes));
    /// ```
    pub fn parse(text: &str) -> Result<Self, ProfileRule> {
        match parse_duration(text) {
            None => Err(ProfileRule::Iso8601Duration),
            Some(seconds) if seconds == NotBeforeTimeout::MAX.0 => Ok(Self),
            Some(_) => Err(ProfileRule::Exactly15Minutes),
        }
    }
}

impl Serialize for FifteenMinutes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        NotBeforeTimeout::MAX.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FifteenMinutes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let timeout = NotBeforeTimeout::deserialize(deserializer)?;
        if timeout == NotBeforeTimeout::MAX {
            Ok(Self)
        } else {
            Err(de::Error::custom(ProfileRule::Exactly15Minutes.message()))
        }
    }
}

/// What a scale set announces beyond Azure's own maintenance: `scheduledEventsProfile` of the REST API, in
/// `properties.virtualMachineProfile`.
///
/// ```
/// use scheduled_events_core::terminate::{NotBeforeTimeout, OsImageNotificationProfile, ScheduledEventsProfile};
///
/// let profile = ScheduledEventsProfile {
///     os_image_notification_profile: Some(OsImageNotificationProfile::enabled()),
///     ..ScheduledEventsProfile::terminate(NotBeforeTimeout::MIN)
/// };
/// let json = serde_json::to_string(&profile)?;
/// assert_eq!(serde_json::from_str::<ScheduledEventsProfile>(&json)?, profile);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledEventsProfile {
    /// Deletions; left out of the JSON if it is `None`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub terminate_notification_profile: Option<TerminateNotificationProfile>,
    /// Reimaging and OS upgrades; left out of the JSON if it is `None`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub os_image_notification_profile: Option<OsImageNotificationProfile>,
}

impl ScheduledEventsProfile {
    /// Announces deletions, which then wait this long for their approval.
    pub const fn terminate(timeout: NotBeforeTimeout) -> Self {
        let profile = TerminateNotificationProfile::enabled(timeout);
        Self {
            terminate_notification_profile: Some(profile),
            os_image_notification_profile: None,
        }
    }
}

/// The seconds of a duration in ISO 8601 without years, months, weeks and fractions, in one pass.
fn parse_duration(text: &str) -> Option<u32> {
    const DATE: &[(u8, u32)] = &[(b'D', 86_400)];
    const TIME: &[(u8, u32)] = &[(b'H', 3600), (b'M', 60), (b'S', 1)];
    // The units that may follow; the sum so far; the number that waits for its unit.
    let (mut units, mut sum, mut number) = (DATE, 0_u32, None::<u32>);
    let (mut in_time, mut is_complete) = (false, false);
    for byte in text.strip_prefix('P')?.bytes() {
        if byte.is_ascii_digit() {
            let digit = u32::from(byte.wrapping_sub(b'0'));
            number = Some(
                number
                    .unwrap_or_default()
                    .checked_mul(10)?
                    .checked_add(digit)?,
            );
        } else if byte == b'T' && !in_time && number.is_none() {
            // Something must follow it, as it must follow `P`.
            (units, in_time, is_complete) = (TIME, true, false);
        } else {
            let mut rest = units.iter();
            // Each unit occurs at most once, and in this order.
            let (_, seconds) = rest.find(|(unit, _)| *unit == byte)?;
            sum = sum.checked_add(number.take()?.checked_mul(*seconds)?)?;
            (units, is_complete) = (rest.as_slice(), true);
        }
    }
    (is_complete && number.is_none()).then_some(sum)
}

/// Writes a number up to 999.
fn decimal(writer: &mut SliceWriter<'_>, number: u32) {
    let mut started = false;
    for unit in [100, 10, 1] {
        let digit = number.checked_div(unit).unwrap_or_default() % 10;
        started |= digit > 0 || unit == 1;
        if started {
            writer.byte(b'0'.wrapping_add(u8::try_from(digit).unwrap_or_default()));
        }
    }
}
