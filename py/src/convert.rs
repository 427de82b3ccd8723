//! Arguments that several functions take: moments, names, spans of time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDateTime, PyString, PyType, PyTzInfo};
use scheduled_events::clock::Clock;
use scheduled_events_core::{UnixMillis, UnixSeconds};

/// A moment that a caller names: seconds since 1970, or an aware `datetime`.
#[derive(Clone, Copy)]
pub(crate) struct Moment(pub(crate) UnixMillis);

impl Moment {
    /// The moment that was given, or the current one.
    pub(crate) fn or_now(moment: Option<Self>) -> UnixSeconds {
        moment.map_or_else(|| Clock::start().now(), |moment| moment.0).seconds()
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Moment {
    type Error = PyErr;

    #[allow(clippy::cast_possible_truncation)] // It was looked at.
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let seconds = if let Ok(seconds) = object.extract::<f64>() {
            seconds
        } else if object.is_instance_of::<PyDateTime>() {
            if object.call_method0("utcoffset")?.is_none() {
                return Err(PyValueError::new_err("a datetime without a time zone names no moment; give it a tzinfo"));
            }
            object.call_method0("timestamp")?.extract()?
        } else {
            let name = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!("a moment is an aware datetime or a number, not {name}")));
        };
        #[allow(clippy::cast_precision_loss)] // Both are whole in 53 bits.
        if !(FIRST_SECOND as f64..=LAST_SECOND as f64).contains(&seconds) {
            return Err(PyValueError::new_err("a moment must lie in the years 1 to 9999"));
        }
        Ok(Self(UnixMillis((seconds * 1000.0).round() as i64)))
    }
}

/// Calls `with` with the names of this machine: a text, which is not copied, or several.
pub(crate) fn with_names<T>(names: &Bound<'_, PyAny>, with: impl FnOnce(&[&str]) -> T) -> PyResult<T> {
    match names.cast::<PyString>() {
        Ok(name) if !name.is_empty()? => Ok(with(&[name.to_str()?])),
        _ => Ok(with(&names.extract::<Names>()?.borrowed())),
    }
}

/// Names of this machine: a text, or several.
#[derive(Clone, Default)]
pub(crate) struct Names(pub(crate) Vec<String>);

impl Names {
    /// The names, borrowed.
    pub(crate) fn borrowed(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Names {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let names: Vec<String> = if object.is_instance_of::<PyString>() {
            vec![object.extract()?]
        } else {
            object.try_iter()?.map(|name| name?.extract()).collect::<PyResult<_>>()?
        };
        if names.iter().any(String::is_empty) {
            return Err(PyValueError::new_err("a machine's name is empty"));
        }
        Ok(Self(names))
    }
}

/// A span of time, from a number of seconds.
pub(crate) fn span(seconds: f64, what: &str) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|span| !span.is_zero())
        .ok_or_else(|| PyValueError::new_err(format!("{what} must be a positive number of seconds, not {seconds}")))
}

const DAY: i64 = 86_400;
/// The first second of the year 1, and the last one of the year 9999.
const FIRST_SECOND: i64 = -62_135_596_800;
pub(crate) const LAST_SECOND: i64 = 253_402_300_799;

/// The moment as an aware `datetime` in UTC; `None` outside of the years that Python knows.
pub(crate) fn datetime(py: Python<'_>, moment: UnixSeconds) -> PyResult<Option<Bound<'_, PyAny>>> {
    // The one that was made last: a document mostly says what it said when it was polled before, and so do its events.
    static LAST: Mutex<Option<(UnixSeconds, Py<PyAny>)>> = Mutex::new(None);
    let known = |last: &(UnixSeconds, Py<PyAny>)| (last.0 == moment).then(|| last.1.bind(py).clone());
    if let Some(last) = LAST.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(known) {
        return Ok(Some(last));
    }
    let made = new_datetime(py, moment)?;
    let kept = made.as_ref().map(|made| (moment, made.clone().unbind()));
    // What was kept before goes when the lock is open again.
    drop(std::mem::replace(&mut *LAST.lock().unwrap_or_else(PoisonError::into_inner), kept));
    Ok(made)
}

fn new_datetime(py: Python<'_>, moment: UnixSeconds) -> PyResult<Option<Bound<'_, PyAny>>> {
    static MAKER: PyOnceLock<(Py<PyType>, Py<PyTzInfo>)> = PyOnceLock::new();
    if !(FIRST_SECOND..=LAST_SECOND).contains(&moment.0) {
        return Ok(None);
    }
    // Both are small and positive now, and 32 bits are divided faster.
    let day = u32::try_from(moment.0.div_euclid(DAY) + MARCH_OF_YEAR_0).unwrap_or(0);
    let second = u32::try_from(moment.0.rem_euclid(DAY)).unwrap_or(0);
    let (year, month, day) = civil(day);
    // The form that pickles use, which every Python reads, and reads faster than eight numbers.
    let [_, _, century, year] = year.to_be_bytes();
    let [month, day, hour, minute, second] =
        [month, day, second / 3600, second / 60 % 60, second % 60].map(|part| part.to_be_bytes()[3]);
    let state = [century, year, month, day, hour, minute, second, 0, 0, 0];
    let (class, utc) = MAKER.get_or_try_init(py, || {
        PyResult::Ok((py.get_type::<PyDateTime>().unbind(), PyTzInfo::utc(py)?.to_owned().unbind()))
    })?;
    class.bind(py).call1((PyBytes::new(py, &state), utc)).map(Some)
}

/// Days from 0000-03-01 to 1970-01-01.
const MARCH_OF_YEAR_0: i64 = 719_468;

/// Year, month and day of a day counted from 0000-03-01, in years that begin in March.
const fn civil(days: u32) -> (u32, u32, u32) {
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let (month, later) = if month_from_march < 10 { (month_from_march + 3, 0) } else { (month_from_march - 9, 1) };
    (year_of_era + era * 400 + later, month, day)
}
