//! The package's enumerations and record classes, looked up once.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use scheduled_events_core::Action;
use serde::Serialize;
use serde_json::Value;

/// The members of the enumerations, in the order of core's.
pub(crate) struct Words {
    pub(crate) types: Vec<Known>,
    pub(crate) statuses: Vec<Known>,
    pub(crate) sources: Vec<Known>,
    pub(crate) actions: Vec<Known>,
}

/// A known word, and the enumeration's member for it.
pub(crate) struct Known {
    pub(crate) word: &'static str,
    pub(crate) member: Py<PyAny>,
}

impl Words {
    /// The enumerations of the package.
    pub(crate) fn get(py: Python<'_>) -> PyResult<&Self> {
        static WORDS: PyOnceLock<Words> = PyOnceLock::new();
        WORDS.get_or_try_init(py, || {
            let module = py.import("scheduled_events._words")?;
            let members = |name: &str, words: &[&'static str]| -> PyResult<Vec<Known>> {
                let kind = module.getattr(name)?;
                words.iter().map(|word| Ok(Known { word, member: kind.call1((*word,))?.unbind() })).collect()
            };
            Ok(Self {
                types: members("EventType", &["Freeze", "Reboot", "Redeploy", "Preempt", "Terminate"])?,
                statuses: members("EventStatus", &["Scheduled", "Started"])?,
                sources: members("EventSource", &["Platform", "User"])?,
                actions: members("Action", &["approve", "prepare", "hold", "ignore"])?,
            })
        })
    }
}

/// The action as a member of the enumeration `Action`.
pub(crate) fn action(py: Python<'_>, action: Action) -> PyResult<Py<PyAny>> {
    Ok(Words::get(py)?.actions[action as usize].member.clone_ref(py))
}

/// A class or function of the package's `_records`.
pub(crate) fn record_class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("scheduled_events._records")?.getattr(name)
}

/// The package's object for a record of the client.
pub(crate) fn record<'py>(py: Python<'py>, record: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let value = serde_json::to_value(record).unwrap_or_default();
    record_class(py, "from_dict")?.call1((python(py, &value)?,))
}

/// A JSON value as Python's `json` would read it.
pub(crate) fn python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.into_pyobject(py)?.into_any(),
            (None, Some(number)) => number.into_pyobject(py)?.into_any(),
            (None, None) => number.as_f64().into_pyobject(py)?,
        },
        Value::String(text) => text.into_pyobject(py)?.into_any(),
        Value::Array(values) => {
            let values = values.iter().map(|value| python(py, value)).collect::<PyResult<Vec<_>>>()?;
            values.into_pyobject(py)?
        }
        Value::Object(members) => {
            let dict = PyDict::new(py);
            for (name, value) in members {
                dict.set_item(name, python(py, value)?)?;
            }
            dict.into_any()
        }
    })
}
