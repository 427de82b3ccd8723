//! Arguments that several functions take: times, names, durations, answers.

use std::borrow::Cow;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDateTime, PyDelta, PyDict, PyString, PyTzInfo};
use scheduled_events::clock::Clock;
use scheduled_events_core::{GateAnswer, UnixMillis, UnixSeconds};

use crate::errors::{self, About};

/// An argument of any type: what PyO3 refuses about it is an error of this package.
pub(crate) struct Arg<T>(pub(crate) T);

impl<'a, 'py, T: FromPyObject<'a, 'py>> FromPyObject<'a, 'py> for Arg<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        T::extract(object)
            .map(Self)
            .map_err(|error| errors::of_argument(object.py(), error.into()))
    }
}

/// A time as an argument: seconds since 1970, or an aware `datetime`.
#[derive(Clone, Copy)]
pub(crate) struct Moment(pub(crate) UnixMillis);

impl Moment {
    /// The time that was given, or the current one.
    pub(crate) fn or_now(moment: Option<Self>) -> UnixSeconds {
        moment
            .map_or_else(|| Clock::start().now(), |moment| moment.0)
            .seconds()
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Moment {
    type Error = PyErr;

    #[allow(clippy::cast_possible_truncation)] // The range is checked.
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let seconds = if let Ok(seconds) = object.extract::<f64>() {
            seconds
        } else if object.is_instance_of::<PyDateTime>() {
            if object.call_method0("utcoffset")?.is_none() {
                return Err(errors::config(
                    object.py(),
                    "expected an aware datetime; this one has no tzinfo",
                ));
            }
            object.call_method0("timestamp")?.extract()?
        } else {
            let name = object.get_type().name()?;
            let message = format!("expected an aware datetime or a number of seconds, not {name}");
            return Err(errors::argument(object.py(), &message));
        };
        #[allow(clippy::cast_precision_loss)] // Both fit in 53 bits.
        if !(FIRST_SECOND as f64..=LAST_SECOND as f64).contains(&seconds) {
            return Err(errors::config(
                object.py(),
                "a time must be in the years 1 to 9999",
            ));
        }
        Ok(Self(UnixMillis((seconds * 1000.0).round() as i64)))
    }
}

/// A length of time as an argument, which may be negative: seconds, or a `timedelta`. In milliseconds.
pub(crate) struct Offset(pub(crate) i64);

impl<'a, 'py> FromPyObject<'a, 'py> for Offset {
    type Error = PyErr;

    #[allow(clippy::cast_possible_truncation)] // It saturates.
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let seconds: f64 = if object.is_instance_of::<PyDelta>() {
            object.call_method0("total_seconds")?.extract()?
        } else {
            object.extract::<Arg<f64>>()?.0
        };
        if !seconds.is_finite() {
            return Err(errors::config(
                object.py(),
                "expected a finite number of seconds, or a timedelta",
            ));
        }
        Ok(Self((seconds * 1000.0).round() as i64))
    }
}

/// Calls `with` with the names of this machine: one str, or several.
pub(crate) fn with_names<T>(
    names: &Bound<'_, PyAny>,
    with: impl FnOnce(&[&str]) -> T,
) -> PyResult<T> {
    match names.cast::<PyString>() {
        Ok(name) if !name.is_empty()? => Ok(with(&[&*utf8(name)?])),
        _ => {
            let names = names.extract::<Names>().about(names.py(), "vm_names")?;
            Ok(with(&names.borrowed()))
        }
    }
}

/// The text of an argument.
pub(crate) fn utf8<'a>(text: &'a Bound<'_, PyString>) -> PyResult<Cow<'a, str>> {
    text.to_cow()
        .map_err(|error| errors::of_argument(text.py(), error))
}

/// Names of this machine: one str, or several.
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
        let refused = |found: &Bound<'py, PyAny>| {
            let kind = found
                .get_type()
                .name()
                .map_or_else(|_| String::new(), |name| name.to_string());
            errors::argument(
                found.py(),
                &format!("expected a machine's name, or several, as str, not {kind}"),
            )
        };
        let names: Vec<String> = if object.is_instance_of::<PyString>() {
            vec![object.extract::<Arg<String>>()?.0]
        } else if object.is_instance_of::<PyBytes>() || object.is_instance_of::<PyByteArray>() {
            return Err(refused(&object));
        } else {
            let names = object.try_iter().map_err(|_| refused(&object))?;
            names
                .map(|name| {
                    let name = name?;
                    let text = name.cast::<PyString>().map_err(|_| refused(&name))?;
                    utf8(text).map(Cow::into_owned)
                })
                .collect::<PyResult<_>>()?
        };
        if names.iter().any(String::is_empty) {
            return Err(errors::config(
                object.py(),
                "a machine's name must not be empty",
            ));
        }
        Ok(Self(names))
    }
}

/// A duration of this many seconds.
pub(crate) fn span(py: Python<'_>, seconds: f64, what: &str) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|span| !span.is_zero())
        .ok_or_else(|| {
            errors::config(
                py,
                &format!("{what} must be a positive number of seconds, not {seconds}"),
            )
        })
}

/// A gate's answer: True, False, or a word of core's. Nothing else is one, so that a function without a `return` opens no gate.
pub(crate) fn gate_answer(answer: &Bound<'_, PyAny>) -> PyResult<GateAnswer> {
    if let Ok(open) = answer.cast::<PyBool>() {
        return Ok(if open.is_true() {
            GateAnswer::Open
        } else {
            GateAnswer::Closed
        });
    }
    let word: String = answer.extract().unwrap_or_default();
    let found = GateAnswer::ALL
        .into_iter()
        .find(|known| known.word() == word);
    let another = GateAnswer::AnotherApproves;
    found.ok_or_else(|| {
        let given = answer
            .repr()
            .map_or_else(|_| String::new(), |text| text.to_string());
        let message = format!(
            "expected True, False or {:?} from a gate, not {given}",
            another.word()
        );
        errors::config(answer.py(), &message)
    })
}

/// The first second of the year 1, and the last one of the year 9999.
const FIRST_SECOND: i64 = -62_135_596_800;
pub(crate) const LAST_SECOND: i64 = 253_402_300_799;

/// The time as an aware `datetime` in UTC; `None` outside of the years that Python has.
pub(crate) fn datetime(py: Python<'_>, moment: UnixSeconds) -> PyResult<Option<Bound<'_, PyAny>>> {
    static FROM_TIMESTAMP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if !(FIRST_SECOND..=LAST_SECOND).contains(&moment.0) {
        return Ok(None);
    }
    let make = FROM_TIMESTAMP
        .get_or_try_init(py, || {
            py.get_type::<PyDateTime>()
                .getattr("fromtimestamp")
                .map(Bound::unbind)
        })?
        .bind(py);
    make.call1((moment.0, PyTzInfo::utc(py)?)).map(Some)
}

/// The same for a time in milliseconds, exactly.
pub(crate) fn datetime_of_millis(
    py: Python<'_>,
    moment: UnixMillis,
) -> PyResult<Option<Bound<'_, PyAny>>> {
    let Some(second) = datetime(py, moment.seconds())? else {
        return Ok(None);
    };
    let fields = PyDict::new(py);
    fields.set_item(
        "microsecond",
        moment.millis_since(moment.seconds().into()) * 1000,
    )?;
    second.call_method("replace", (), Some(&fields)).map(Some)
}

/// The names that an argument is, checked; none for None.
#[pyfunction]
#[pyo3(name = "_names")]
pub(crate) fn names(vm_names: Option<Names>) -> Vec<String> {
    vm_names.unwrap_or_default().0
}
