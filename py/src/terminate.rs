//! The time-outs of `scheduled_events.terminate`.

use pyo3::prelude::*;
use scheduled_events_core::terminate::{FifteenMinutes, NotBeforeTimeout};

use crate::convert::Arg;
use crate::errors;

/// The seconds of a time-out in ISO 8601; raises ProfileError.
#[pyfunction]
pub(crate) fn parse_timeout(py: Python<'_>, text: Arg<String>) -> PyResult<u32> {
    NotBeforeTimeout::parse(&text.0)
        .map(NotBeforeTimeout::as_seconds)
        .map_err(|rule| errors::profile(py, rule))
}

/// A time-out in ISO 8601; raises ProfileError.
#[pyfunction]
pub(crate) fn format_timeout(py: Python<'_>, seconds: u32) -> PyResult<String> {
    let timeout =
        NotBeforeTimeout::from_seconds(seconds).map_err(|rule| errors::profile(py, rule))?;
    Ok(timeout.to_string())
}

/// Checks the time-out of an OS image notification; raises ProfileError.
#[pyfunction]
pub(crate) fn check_os_image_timeout(py: Python<'_>, text: Arg<String>) -> PyResult<()> {
    FifteenMinutes::parse(&text.0)
        .map(drop)
        .map_err(|rule| errors::profile(py, rule))
}

/// Checks what a profile is for; raises ProfileError.
#[pyfunction]
pub(crate) fn check_profile(
    py: Python<'_>,
    enable: bool,
    is_spot: Arg<bool>,
    api_version: Arg<String>,
) -> PyResult<()> {
    use scheduled_events_core::terminate::TerminateNotificationProfile;

    let profile = TerminateNotificationProfile {
        enable,
        not_before_timeout: None,
    };
    profile
        .check(is_spot.0, &api_version.0)
        .map_err(|rule| errors::profile(py, rule))
}
