//! Terminate notification: the part of a scale set's model that announces deletions.

use std::ffi::c_char;

use scheduled_events_core::terminate::{
    FifteenMinutes, NotBeforeTimeout, OsImageNotificationProfile, ProfileRule,
    ScheduledEventsProfile, TerminateNotificationProfile,
};

use crate::abi::pointers::{Flag, Output, optional_output, output, output_buffer, utf8};
use crate::abi::struct_size::{Growing, sized};
use crate::boundary::{Result, boundary};
use crate::error::schedev_error;
use crate::json::fill_json;
use crate::status::schedev_status::{
    self, SCHEDEV_ERROR_ARGUMENT, SCHEDEV_ERROR_INTERNAL, SCHEDEV_ERROR_PROFILE,
};

/// The shortest time-out of a Terminate event, in seconds. It is also Azure's default.
pub const SCHEDEV_TERMINATE_TIMEOUT_MIN_SECONDS: u32 = 300;
/// The longest time-out of a Terminate event, and the only one of an OS image event, in seconds.
pub const SCHEDEV_TERMINATE_TIMEOUT_MAX_SECONDS: u32 = 900;

const _: () = assert!(
    SCHEDEV_TERMINATE_TIMEOUT_MIN_SECONDS == NotBeforeTimeout::MIN.as_seconds()
        && SCHEDEV_TERMINATE_TIMEOUT_MAX_SECONDS == NotBeforeTimeout::MAX.as_seconds()
        && NotBeforeTimeout::WRITTEN_MAX < 16, // The header documents a buffer of 16 bytes.
);

/// A rule of Azure by which a profile or its time-out is refused. The numbers are not those of a schedev_parse_error: a
/// schedev_error has one or the other.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_profile_rule {
    /// A time-out is a duration in ISO 8601. Here: days, hours, minutes and seconds as whole numbers, such as "PT5M".
    SCHEDEV_PROFILE_RULE_ISO_8601_DURATION = 64,
    /// The time-out of a Terminate event is at least 5 minutes.
    SCHEDEV_PROFILE_RULE_AT_LEAST_5_MINUTES = 65,
    /// The time-out of a Terminate event is at most 15 minutes.
    SCHEDEV_PROFILE_RULE_AT_MOST_15_MINUTES = 66,
    /// The time-out of an OS image event is 15 minutes.
    SCHEDEV_PROFILE_RULE_EXACTLY_15_MINUTES = 67,
    /// Terminate notifications cannot be enabled on Spot instances.
    SCHEDEV_PROFILE_RULE_NOT_ON_SPOT = 68,
    /// The compute API knows the profile since version SCHEDEV_COMPUTE_API_VERSION_MIN.
    SCHEDEV_PROFILE_RULE_COMPUTE_API_VERSION = 69,
}

/// The number of a rule: its place in core's list, from 64.
fn number(rule: ProfileRule) -> u32 {
    ProfileRule::ALL
        .iter()
        .zip(64..)
        .find(|(known, _)| **known == rule)
        .map_or(0, |(_, number)| number)
}

/// Whether something is announced, and how long its event waits for its approval: terminateNotificationProfile, for deletions,
/// or osImageNotificationProfile, for reimages and OS upgrades, of the REST API. Initialise it with
/// SCHEDEV_NOTIFICATION_PROFILE_INIT, which announces nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_notification_profile {
    /// sizeof(schedev_notification_profile).
    pub struct_size: usize,
    /// The time-out in seconds, if has_not_before_timeout: SCHEDEV_TERMINATE_TIMEOUT_MIN_SECONDS to
    /// SCHEDEV_TERMINATE_TIMEOUT_MAX_SECONDS for deletions, the latter for OS images. 0 is refused as too short. Without
    /// has_not_before_timeout, everything but 0 is refused with SCHEDEV_ERROR_ARGUMENT.
    pub not_before_timeout_seconds: u32,
    /// Whether there is a time-out. Without one, the JSON has none, and Azure takes 5 minutes for deletions.
    pub has_not_before_timeout: Flag,
    /// Whether it is announced.
    pub enable: Flag,
}

// SAFETY: an integer and flags after the size.
unsafe impl Growing for schedev_notification_profile {
    const INIT: Self = Self {
        struct_size: size_of::<Self>(),
        not_before_timeout_seconds: 0,
        has_not_before_timeout: Flag::new(false),
        enable: Flag::new(false),
    };
}

impl schedev_notification_profile {
    fn timeout(self) -> Result<Option<u32>> {
        match (
            self.has_not_before_timeout.is_on(),
            self.not_before_timeout_seconds,
        ) {
            (true, seconds) => Ok(Some(seconds)),
            (false, 0) => Ok(None),
            // The program set the time-out and forgot the flag. Azure would use another time-out.
            (false, _) => Err(SCHEDEV_ERROR_ARGUMENT),
        }
    }

    fn terminate(self) -> Result<core::result::Result<TerminateNotificationProfile, ProfileRule>> {
        let timeout = self
            .timeout()?
            .map(NotBeforeTimeout::from_seconds)
            .transpose();
        let enable = self.enable.is_on();
        Ok(
            timeout.map(|not_before_timeout| TerminateNotificationProfile {
                not_before_timeout,
                enable,
            }),
        )
    }

    fn os_image(self) -> Result<core::result::Result<OsImageNotificationProfile, ProfileRule>> {
        let enable = self.enable.is_on();
        Ok(match self.timeout()? {
            None => Ok(OsImageNotificationProfile {
                not_before_timeout: None,
                enable,
            }),
            Some(SCHEDEV_TERMINATE_TIMEOUT_MAX_SECONDS) => Ok(OsImageNotificationProfile {
                not_before_timeout: Some(FifteenMinutes),
                enable,
            }),
            Some(_) => Err(ProfileRule::Exactly15Minutes),
        })
    }
}

/// Describes what is refused, and returns the status.
#[cold]
fn refused(error: Output<schedev_error>, rule: ProfileRule) -> schedev_status {
    error.write(schedev_error::of_rule(number(rule), rule));
    SCHEDEV_ERROR_PROFILE
}

/// Parses the time-out of a Terminate event: a duration in ISO 8601 such as "PT10M", with days, hours, minutes and seconds as
/// whole numbers.
///
/// @param data     the text, UTF-8; NULL if len is 0.
/// @param len      its length in bytes.
/// @param seconds  receives the time-out in seconds.
/// @param error    receives the rule by which the time-out is refused; may be NULL.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_PROFILE if Azure refuses it; SCHEDEV_ERROR_UTF8; SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_terminate_timeout_parse(
    data: *const c_char,
    len: usize,
    seconds: *mut u32,
    error: *mut schedev_error,
) -> schedev_status {
    let parse = |text: &str| NotBeforeTimeout::parse(text).map(NotBeforeTimeout::as_seconds);
    // SAFETY: the conventions of the header.
    unsafe { parse_timeout(data, len, seconds, error, parse) }
}

/// Parses the time-out of an OS image event, which can only be 15 minutes, such as "PT15M" or "PT900S".
///
/// @param data     the text, UTF-8; NULL if len is 0.
/// @param len      its length in bytes.
/// @param seconds  receives SCHEDEV_TERMINATE_TIMEOUT_MAX_SECONDS.
/// @param error    receives the rule by which the time-out is refused; may be NULL.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_PROFILE if Azure refuses it; SCHEDEV_ERROR_UTF8; SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_os_image_timeout_parse(
    data: *const c_char,
    len: usize,
    seconds: *mut u32,
    error: *mut schedev_error,
) -> schedev_status {
    let parse =
        |text: &str| FifteenMinutes::parse(text).map(|_| SCHEDEV_TERMINATE_TIMEOUT_MAX_SECONDS);
    // SAFETY: the conventions of the header.
    unsafe { parse_timeout(data, len, seconds, error, parse) }
}

/// Parses a time-out in seconds.
///
/// # Safety
/// The conventions of the header.
#[inline(never)] // Two functions call it.
unsafe fn parse_timeout(
    data: *const c_char,
    len: usize,
    seconds: *mut u32,
    error: *mut schedev_error,
    parse: fn(&str) -> core::result::Result<u32, ProfileRule>,
) -> schedev_status {
    boundary(|| {
        let (text, seconds, error) = (
            checked!(utf8(data, len)),
            checked!(output(seconds)),
            checked!(optional_output(error)),
        );
        seconds.write(parse(text).map_err(|rule| refused(error, rule))?);
        Ok(())
    })
}

/// Formats the time-out of a Terminate event in ISO 8601, such as "PT10M" or "PT7M30S".
///
/// @param seconds   the time-out in seconds.
/// @param buffer    receives the text, and a NUL after it if a byte is left; NULL if capacity is 0.
/// @param capacity  the size of the buffer in bytes; 16 bytes are enough for every time-out.
/// @param needed    receives the length of the text in bytes, without the NUL, even if the buffer is too small.
/// @param error     receives the rule by which the time-out is refused; may be NULL.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_PROFILE if Azure refuses it; SCHEDEV_ERROR_BUFFER_TOO_SMALL; SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_terminate_timeout_format(
    seconds: u32,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
    error: *mut schedev_error,
) -> schedev_status {
    boundary(|| {
        let (buffer, error) = (
            checked!(output_buffer(buffer, capacity, needed)),
            checked!(optional_output(error)),
        );
        let timeout =
            NotBeforeTimeout::from_seconds(seconds).map_err(|rule| refused(error, rule))?;
        let mut text = [0; NotBeforeTimeout::WRITTEN_MAX];
        let text = timeout
            .write(&mut text)
            .map_err(|_| SCHEDEV_ERROR_INTERNAL)?
            .as_bytes();
        buffer.fill_text(text.len(), |target| {
            target
                .get_mut(..text.len())
                .ok_or(SCHEDEV_ERROR_INTERNAL)?
                .copy_from_slice(text);
            Ok(text.len())
        })
    })
}

/// Checks that a scale set accepts a profile for deletions. An OS image profile needs no such check: schedev_notification_json()
/// checks its time-out.
///
/// @param profile          the profile.
/// @param is_spot          whether the instances of the scale set are Spot machines.
/// @param api_version      the version of the compute API, a date such as "2021-07-01"; NULL if its length is 0.
/// @param api_version_len  its length in bytes.
/// @param error            receives the rule by which the profile is refused; may be NULL.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_PROFILE if Azure refuses it; SCHEDEV_ERROR_ARGUMENT; SCHEDEV_ERROR_UTF8;
///         SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_terminate_check(
    profile: *const schedev_notification_profile,
    is_spot: Flag,
    api_version: *const c_char,
    api_version_len: usize,
    error: *mut schedev_error,
) -> schedev_status {
    boundary(|| {
        let (profile, api_version, error) = (
            checked!(sized(profile)),
            checked!(utf8(api_version, api_version_len)),
            checked!(optional_output(error)),
        );
        let checked = profile
            .terminate()?
            .and_then(|profile| profile.check(is_spot.is_on(), api_version));
        checked.map_err(|rule| refused(error, rule))
    })
}

/// Writes the JSON of what a scale set announces: scheduledEventsProfile of the REST API, in
/// properties.virtualMachineProfile. For example:
/// {"terminateNotificationProfile":{"notBeforeTimeout":"PT10M","enable":true}}.
///
/// @param terminate  the profile for deletions; NULL leaves it out.
/// @param os_image   the profile for reimages and OS upgrades; NULL leaves it out.
/// @param buffer     receives the JSON, and a NUL after it if a byte is left; NULL if capacity is 0.
/// @param capacity   the size of the buffer in bytes; 192 bytes are always enough.
/// @param needed     receives the length of the JSON in bytes, without the NUL, even if the buffer is too small.
/// @param error      receives the rule by which a profile is refused; may be NULL.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_PROFILE if Azure refuses it; SCHEDEV_ERROR_BUFFER_TOO_SMALL; SCHEDEV_ERROR_ARGUMENT;
///         SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_notification_json(
    terminate: *const schedev_notification_profile,
    os_image: *const schedev_notification_profile,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
    error: *mut schedev_error,
) -> schedev_status {
    boundary(|| {
        let (buffer, error) = (
            checked!(output_buffer(buffer, capacity, needed)),
            checked!(optional_output(error)),
        );
        let terminate = if terminate.is_null() {
            None
        } else {
            Some(checked!(sized(terminate)).terminate()?)
        };
        let os_image = if os_image.is_null() {
            None
        } else {
            Some(checked!(sized(os_image)).os_image()?)
        };
        let profile = match (terminate.transpose(), os_image.transpose()) {
            (Ok(terminate_notification_profile), Ok(os_image_notification_profile)) => {
                ScheduledEventsProfile {
                    terminate_notification_profile,
                    os_image_notification_profile,
                }
            }
            (Err(rule), _) | (_, Err(rule)) => return Err(refused(error, rule)),
        };
        fill_json(buffer, &profile)
    })
}

#[cfg(test)]
mod tests {
    use std::string::String;

    use super::*;
    use crate::schedev_status::{
        SCHEDEV_ERROR_BUFFER_TOO_SMALL, SCHEDEV_ERROR_NULL, SCHEDEV_ERROR_UTF8, SCHEDEV_OK,
    };

    /// The result of a call: its output, or its status and the number of the rule, which is 0 if no error was written.
    type Called<T> = core::result::Result<T, (schedev_status, u32)>;

    fn called<T>(
        value: T,
        call: impl FnOnce(&mut T, *mut schedev_error) -> schedev_status,
    ) -> Called<T> {
        let (mut value, mut error) = (value, schedev_error::NONE);
        match call(&mut value, &raw mut error) {
            SCHEDEV_OK if error.kind == 0 => Ok(value),
            status => {
                if let Some(rule) = ProfileRule::ALL
                    .into_iter()
                    .find(|rule| number(*rule) == error.kind)
                {
                    // SAFETY: the error lives.
                    let message = unsafe {
                        core::ffi::CStr::from_ptr(crate::schedev_error_message(&raw const error))
                    };
                    assert_eq!(message.to_str(), Ok(rule.message()));
                    assert_eq!((error.line, error.column, error.offset), (0, 0, 0));
                }
                Err((status, error.kind))
            }
        }
    }

    fn refused_by(rule: ProfileRule) -> (schedev_status, u32) {
        (SCHEDEV_ERROR_PROFILE, number(rule))
    }

    fn parsed(text: &str) -> Called<u32> {
        // SAFETY: the text and the outputs are alive.
        called(7, |seconds, error| unsafe {
            schedev_terminate_timeout_parse(text.as_ptr().cast(), text.len(), seconds, error)
        })
    }

    fn parsed_for_os_image(text: &str) -> Called<u32> {
        // SAFETY: the text and the outputs are alive.
        called(7, |seconds, error| unsafe {
            schedev_os_image_timeout_parse(text.as_ptr().cast(), text.len(), seconds, error)
        })
    }

    /// The text that `write` writes into a buffer of this capacity.
    fn written(
        capacity: usize,
        write: impl FnOnce(*mut c_char, *mut usize, *mut schedev_error) -> schedev_status,
    ) -> Called<String> {
        let mut buffer = vec![0xa5_u8; capacity + 1];
        let end = called(99, |needed, error| {
            write(buffer.as_mut_ptr().cast(), needed, error)
        });
        assert_eq!(buffer.pop(), Some(0xa5));
        if end.is_err() {
            assert!(
                buffer.iter().all(|byte| *byte == 0xa5),
                "written in spite of an error"
            );
        }
        end.map(|length| {
            assert!(buffer.get(length).is_none_or(|byte| *byte == 0));
            String::from_utf8(buffer[..length].to_vec()).expect("UTF-8")
        })
    }

    fn profile(timeout: Option<u32>, enable: bool) -> schedev_notification_profile {
        schedev_notification_profile {
            not_before_timeout_seconds: timeout.unwrap_or_default(),
            has_not_before_timeout: Flag::new(timeout.is_some()),
            enable: Flag::new(enable),
            ..schedev_notification_profile::INIT
        }
    }

    fn json(
        terminate: Option<&schedev_notification_profile>,
        os_image: Option<&schedev_notification_profile>,
        capacity: usize,
    ) -> Called<String> {
        let pointer = |profile: Option<&schedev_notification_profile>| {
            profile.map_or(core::ptr::null(), |profile| profile)
        };
        // SAFETY: the profiles and the outputs are alive.
        written(capacity, |buffer, needed, error| unsafe {
            schedev_notification_json(
                pointer(terminate),
                pointer(os_image),
                buffer,
                capacity,
                needed,
                error,
            )
        })
    }

    #[test]
    fn the_numbers_are_those_of_core_in_their_order() {
        use schedev_profile_rule::*;
        for (rule, expected) in [
            (
                ProfileRule::Iso8601Duration,
                SCHEDEV_PROFILE_RULE_ISO_8601_DURATION,
            ),
            (
                ProfileRule::AtLeast5Minutes,
                SCHEDEV_PROFILE_RULE_AT_LEAST_5_MINUTES,
            ),
            (
                ProfileRule::AtMost15Minutes,
                SCHEDEV_PROFILE_RULE_AT_MOST_15_MINUTES,
            ),
            (
                ProfileRule::Exactly15Minutes,
                SCHEDEV_PROFILE_RULE_EXACTLY_15_MINUTES,
            ),
            (ProfileRule::NotOnSpot, SCHEDEV_PROFILE_RULE_NOT_ON_SPOT),
            (
                ProfileRule::ComputeApiVersion,
                SCHEDEV_PROFILE_RULE_COMPUTE_API_VERSION,
            ),
        ] {
            assert_eq!(number(rule), expected as u32);
        }
        assert_eq!(ProfileRule::ALL.len(), 6);
    }

    #[test]
    fn a_timeout_is_cores_both_ways() {
        for seconds in 0..=1000 {
            // SAFETY: the outputs are alive.
            let text = written(16, |buffer, needed, error| unsafe {
                schedev_terminate_timeout_format(seconds, buffer, 16, needed, error)
            });
            let expected =
                NotBeforeTimeout::from_seconds(seconds).map(|timeout| timeout.to_string());
            assert_eq!(text, expected.map_err(refused_by), "{seconds}");
            if let Ok(text) = text {
                assert_eq!(parsed(&text), Ok(seconds));
            }
        }
        for text in [
            "", "P", "PT", "PT0S", "PT4M59S", "PT5M", "PT900S", "PT15M1S", "P1D", "5", "PT5m",
            "PT5M\0", "P1DT",
        ] {
            let expected = NotBeforeTimeout::parse(text).map(NotBeforeTimeout::as_seconds);
            assert_eq!(parsed(text), expected.map_err(refused_by), "{text}");
            let expected =
                FifteenMinutes::parse(text).map(|_| SCHEDEV_TERMINATE_TIMEOUT_MAX_SECONDS);
            assert_eq!(
                parsed_for_os_image(text),
                expected.map_err(refused_by),
                "{text}"
            );
        }
        // SAFETY: the bytes and the outputs are alive.
        let invalid = called(7, |seconds, error| unsafe {
            schedev_terminate_timeout_parse(b"PT5\xff".as_ptr().cast(), 4, seconds, error)
        });
        assert_eq!(invalid, Err((SCHEDEV_ERROR_UTF8, 0)));
        // SAFETY: the outputs are alive; the buffer is shorter than the text.
        let short = written(3, |buffer, needed, error| unsafe {
            schedev_terminate_timeout_format(300, buffer, 3, needed, error)
        });
        assert_eq!(short, Err((SCHEDEV_ERROR_BUFFER_TOO_SMALL, 0)));
    }

    #[test]
    fn a_check_is_cores() {
        for timeout in [None, Some(0), Some(299), Some(300), Some(900), Some(901)] {
            for (enable, is_spot) in [(false, false), (false, true), (true, false), (true, true)] {
                for version in ["", "2018-10-01", "2019-03-01", "2021-07-01", "x"] {
                    let core = timeout
                        .map(NotBeforeTimeout::from_seconds)
                        .transpose()
                        .and_then(|not_before_timeout| {
                            TerminateNotificationProfile {
                                not_before_timeout,
                                enable,
                            }
                            .check(is_spot, version)
                        });
                    let profile = profile(timeout, enable);
                    let version = (version.as_ptr().cast(), version.len());
                    // SAFETY: the profile, the text and the error are alive.
                    let checked = called((), |(), error| unsafe {
                        schedev_terminate_check(
                            &raw const profile,
                            Flag::new(is_spot),
                            version.0,
                            version.1,
                            error,
                        )
                    });
                    assert_eq!(checked, core.map_err(refused_by), "{profile:?} {is_spot}");
                }
            }
        }
    }

    #[test]
    fn the_json_is_cores() {
        let timeouts = [None, Some(0), Some(300), Some(450), Some(899), Some(900)];
        let profiles = || {
            [false, true]
                .into_iter()
                .flat_map(|enable| timeouts.map(|timeout| Some((timeout, enable))))
        };
        for terminate in profiles().chain([None]) {
            for os_image in profiles().chain([None]) {
                let given = [terminate, os_image]
                    .map(|given| given.map(|(timeout, enable)| profile(timeout, enable)));
                let terminate = terminate.map(|(timeout, enable)| {
                    let timeout = timeout.map(NotBeforeTimeout::from_seconds).transpose();
                    timeout.map(|not_before_timeout| TerminateNotificationProfile {
                        not_before_timeout,
                        enable,
                    })
                });
                let os_image = os_image.map(|(timeout, enable)| match timeout {
                    None => Ok(OsImageNotificationProfile {
                        not_before_timeout: None,
                        enable,
                    }),
                    Some(900) => Ok(OsImageNotificationProfile {
                        not_before_timeout: Some(FifteenMinutes),
                        enable,
                    }),
                    Some(_) => Err(ProfileRule::Exactly15Minutes),
                });
                let expected = terminate
                    .transpose()
                    .and_then(|terminate_notification_profile| {
                        let os_image_notification_profile = os_image.transpose()?;
                        let profile = ScheduledEventsProfile {
                            terminate_notification_profile,
                            os_image_notification_profile,
                        };
                        Ok(serde_json::to_string(&profile).expect("JSON"))
                    });
                let written = json(given[0].as_ref(), given[1].as_ref(), 192);
                assert_eq!(written, expected.map_err(refused_by), "{given:?}");
                assert!(written.is_err() || json(given[0].as_ref(), given[1].as_ref(), 1).is_err());
            }
        }
    }

    #[test]
    fn a_timeout_without_its_flag_is_refused() {
        let forgotten = schedev_notification_profile {
            not_before_timeout_seconds: 600,
            ..profile(None, true)
        };
        assert_eq!(
            json(Some(&forgotten), None, 192),
            Err((SCHEDEV_ERROR_ARGUMENT, 0))
        );
        assert_eq!(
            json(None, Some(&forgotten), 192),
            Err((SCHEDEV_ERROR_ARGUMENT, 0))
        );
        let other_size = schedev_notification_profile {
            struct_size: 15,
            ..profile(Some(600), true)
        };
        assert_eq!(
            json(Some(&other_size), None, 192),
            Err((SCHEDEV_ERROR_ARGUMENT, 0))
        );
        // SAFETY: NULL is refused.
        let refused = called((), |(), error| unsafe {
            schedev_terminate_check(
                core::ptr::null(),
                Flag::new(false),
                core::ptr::null(),
                0,
                error,
            )
        });
        assert_eq!(refused, Err((SCHEDEV_ERROR_NULL, 0)));
    }
}
