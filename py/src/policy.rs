//! `Policy` and `Rule`: written as TOML, so that Python and policy files know the same words and the same mistakes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDelta, PyMapping, PyString};
use scheduled_events::imds::names_for;
use scheduled_events::policy_file;
use scheduled_events_core::Policy as CorePolicy;

use crate::convert::{Moment, Names};
use crate::errors;
use crate::event::Event;
use crate::words::{action, record_class};

/// What `Policy.sample()` is, as a file would spell it.
const SAMPLE: &str = r#"
[[rule]]
source = ["User"]
action = "approve"
[[rule]]
event = ["Freeze"]
max_duration = 8
action = "approve"
"#;

/// One rule of a policy: what it matches, and what is done.
///
/// ``event`` and ``source`` are one word or several, None for all. Durations are inclusive: seconds, a timedelta, or a
/// text such as "2min".
#[pyclass(frozen, module = "scheduled_events")]
pub(crate) struct Rule {
    action: String,
    #[pyo3(get)]
    event: Option<Vec<String>>,
    #[pyo3(get)]
    source: Option<Vec<String>>,
    #[pyo3(get)]
    min_duration: Option<u32>,
    #[pyo3(get)]
    max_duration: Option<u32>,
    #[pyo3(get)]
    scope: String,
}

#[pymethods]
impl Rule {
    #[new]
    #[pyo3(signature = (action, *, event=None, source=None, min_duration=None, max_duration=None, scope="mine"))]
    fn new(
        py: Python<'_>,
        action: &str,
        event: Option<&Bound<'_, PyAny>>,
        source: Option<&Bound<'_, PyAny>>,
        min_duration: Option<&Bound<'_, PyAny>>,
        max_duration: Option<&Bound<'_, PyAny>>,
        scope: &str,
    ) -> PyResult<Self> {
        let (event, source) = (event.map(words).transpose()?, source.map(words).transpose()?);
        let mut text = "[[rule]]\n".to_owned();
        for (name, words) in [("event", &event), ("source", &source)] {
            if let Some(words) = words {
                let _ = writeln!(text, "{name} = {}", list(words));
            }
        }
        for (name, duration) in [("min_duration", min_duration), ("max_duration", max_duration)] {
            if let Some(duration) = duration {
                let _ = writeln!(text, "{name} = {}", duration_of(duration)?);
            }
        }
        let _ = write!(text, "scope = {}\naction = {}\n", quoted(scope), quoted(action));
        let policy = policy_file::parse(&text).map_err(|error| errors::policy_text(py, &error.message))?;
        let rule = policy.rules().first().ok_or_else(|| PyValueError::new_err("no rule"))?;
        let (min_duration, max_duration) = (rule.min_duration, rule.max_duration);
        Ok(Self { action: action.to_owned(), event, source, min_duration, max_duration, scope: scope.to_owned() })
    }

    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str) {
        ("action", "event", "source")
    }

    /// What is done: an Action.
    #[getter]
    fn action<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("scheduled_events._words")?.getattr("Action")?.call1((&self.action,))
    }

    fn __richcmp__(&self, other: &Self, op: CompareOp) -> PyResult<bool> {
        match op {
            CompareOp::Eq => Ok(self.toml() == other.toml()),
            CompareOp::Ne => Ok(self.toml() != other.toml()),
            _ => Err(PyTypeError::new_err("rules have no order")),
        }
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.toml().hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        let mut text = format!("Rule({:?}", self.action);
        for (name, words) in [("event", &self.event), ("source", &self.source)] {
            if let Some(words) = words {
                let _ = write!(text, ", {name}={words:?}");
            }
        }
        for (name, seconds) in [("min_duration", self.min_duration), ("max_duration", self.max_duration)] {
            if let Some(seconds) = seconds {
                let _ = write!(text, ", {name}={seconds}");
            }
        }
        if self.scope != "mine" {
            let _ = write!(text, ", scope={:?}", self.scope);
        }
        text + ")"
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.import("scheduled_events._native")?.getattr("_rule")?, (self.toml(),)))
    }
}

impl Rule {
    fn toml(&self) -> String {
        let mut text = "[[rule]]\n".to_owned();
        for (name, words) in [("event", &self.event), ("source", &self.source)] {
            if let Some(words) = words {
                let _ = writeln!(text, "{name} = {}", list(words));
            }
        }
        for (name, seconds) in [("min_duration", self.min_duration), ("max_duration", self.max_duration)] {
            if let Some(seconds) = seconds {
                let _ = writeln!(text, "{name} = {seconds}");
            }
        }
        let _ = write!(text, "scope = {}\naction = {}\n", quoted(&self.scope), quoted(&self.action));
        text
    }
}

/// Rules in order, of which the first that matches decides.
///
/// Some things no rule can change: only Scheduled events are approved, none with a problem in a member that decisions
/// rest on, none while this machine's name is unknown, and never another machine's Terminate.
#[pyclass(frozen, module = "scheduled_events")]
pub(crate) struct Policy {
    pub(crate) core: CorePolicy,
    /// The policy as a file would spell it.
    toml: String,
}

impl Policy {
    fn read(py: Python<'_>, toml: String, name: &str) -> PyResult<Self> {
        let core = policy_file::parse(&toml).map_err(|error| errors::policy(py, &error, name))?;
        Ok(Self { core, toml })
    }

    /// A policy that an argument names: one, `observe`, `sample`, or a file.
    pub(crate) fn named(argument: Option<&Bound<'_, PyAny>>) -> PyResult<CorePolicy> {
        let Some(argument) = argument else { return Ok(CorePolicy::observe()) };
        if let Ok(policy) = argument.cast::<Self>() {
            return Ok(policy.get().core.clone());
        }
        match argument.extract::<String>().as_deref() {
            Ok("observe") => Ok(CorePolicy::observe()),
            Ok("sample") => Ok(CorePolicy::sample()),
            _ => Ok(Self::from_file(argument.py(), argument.extract()?)?.core),
        }
    }
}

#[pymethods]
impl Policy {
    #[new]
    #[pyo3(signature = (rules=Vec::new(), leader=None), text_signature = "(rules=(), leader=None)")]
    fn new(py: Python<'_>, rules: Vec<Py<Rule>>, leader: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let mut toml = String::new();
        if let Some(leader) = leader {
            if leader.is_instance_of::<PyString>() {
                let _ = writeln!(toml, "leader = {}", quoted(&leader.extract::<String>()?));
            } else {
                let leader = leader.cast::<PyMapping>()?;
                let mut members = Vec::new();
                for item in leader.items()?.iter() {
                    let (name, value): (String, Bound<'_, PyAny>) = item.extract()?;
                    let text = if name == "mode" { quoted(&value.extract::<String>()?) } else { duration_of(&value)? };
                    members.push(format!("{} = {text}", quoted(&name)));
                }
                let _ = writeln!(toml, "leader = {{ {} }}", members.join(", "));
            }
        }
        for rule in rules {
            toml += &rule.get().toml();
        }
        let core = policy_file::parse(&toml).map_err(|error| errors::policy_text(py, &error.message))?;
        Ok(Self { core, toml })
    }

    /// The policy that never approves anything: every event is held. It is the default everywhere.
    #[staticmethod]
    fn observe() -> Self {
        Self { core: CorePolicy::observe(), toml: String::new() }
    }

    /// The policy of Microsoft's published sample: approve what a user started, and freezes of less than nine seconds.
    #[staticmethod]
    fn sample() -> Self {
        Self { core: CorePolicy::sample(), toml: SAMPLE.to_owned() }
    }

    /// Reads a policy from TOML. Raises PolicyError with .line and .column.
    #[staticmethod]
    fn from_toml(py: Python<'_>, text: String) -> PyResult<Self> {
        Self::read(py, text, "")
    }

    /// Reads a policy from a TOML file. Raises PolicyError, or OSError where the file cannot be read.
    #[staticmethod]
    fn from_file(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Self::read(py, read(&path)?, &format!("{}:", path.display()))
    }

    /// The policy as TOML, as from_toml reads it.
    fn to_toml(&self) -> &str {
        &self.toml
    }

    /// Decides about one event at the moment ``now``, for the machine of these names.
    #[pyo3(signature = (event, vm_names=None, now=None, *, api_version="2020-07-01"))]
    fn decide<'py>(
        &self,
        py: Python<'py>,
        event: &Bound<'py, Event>,
        vm_names: Option<Names>,
        now: Option<Moment>,
        api_version: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let vm_names = vm_names.unwrap_or_default();
        let event = event.get().core();
        let decision = self.core.decide(&event, names_for(&vm_names.borrowed(), api_version), Moment::or_now(now));
        let fields =
            (action(py, decision.action)?, decision.rule, decision.reason.to_string(), event.event_id().to_string());
        record_class(py, "Decision")?.call1(fields)
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast::<Self>() else { return Ok(py.NotImplemented()) };
        Ok((self.core == other.get().core).into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __hash__(&self) -> usize {
        self.core.rules().len()
    }

    fn __repr__(&self) -> String {
        if self.core == CorePolicy::observe() {
            return "Policy.observe()".to_owned();
        }
        if self.core == CorePolicy::sample() {
            return "Policy.sample()".to_owned();
        }
        format!("<Policy of {} rules>", self.core.rules().len())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<Self>().getattr("from_toml")?, (self.toml.clone(),)))
    }
}

/// The rule of this text, for pickles.
#[pyfunction]
#[pyo3(name = "_rule")]
pub(crate) fn rule_of_text(py: Python<'_>, text: &str) -> PyResult<Rule> {
    let words: toml_rule::Words =
        toml_rule::read(text).ok_or_else(|| errors::policy_text(py, "the text is no rule"))?;
    let policy = policy_file::parse(text).map_err(|error| errors::policy(py, &error, ""))?;
    let rule = policy.rules().first().ok_or_else(|| errors::policy_text(py, "the text is no rule"))?;
    let (min_duration, max_duration) = (rule.min_duration, rule.max_duration);
    let toml_rule::Words { action, event, source, scope } = words;
    Ok(Rule { action, event, source, min_duration, max_duration, scope })
}

/// The words of a rule that [`Rule::toml`] has written: each on a line of its own, in JSON's spelling.
mod toml_rule {
    #[derive(Default)]
    pub(super) struct Words {
        pub(super) action: String,
        pub(super) event: Option<Vec<String>>,
        pub(super) source: Option<Vec<String>>,
        pub(super) scope: String,
    }

    pub(super) fn read(text: &str) -> Option<Words> {
        let mut words = Words::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once(" = ")) {
            match name {
                "action" => words.action = serde_json::from_str(value).ok()?,
                "scope" => words.scope = serde_json::from_str(value).ok()?,
                "event" => words.event = serde_json::from_str(value).ok()?,
                "source" => words.source = serde_json::from_str(value).ok()?,
                _ => {}
            }
        }
        Some(words)
    }
}

/// One word or several.
fn words(argument: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if argument.is_instance_of::<PyString>() {
        return Ok(vec![argument.extract()?]);
    }
    argument.try_iter()?.map(|word| word?.extract()).collect()
}

/// A duration in TOML: seconds, a `timedelta`, or a text such as `"2min"`.
fn duration_of(argument: &Bound<'_, PyAny>) -> PyResult<String> {
    if argument.is_instance_of::<PyString>() {
        return Ok(quoted(&argument.extract::<String>()?));
    }
    let seconds = if argument.is_instance_of::<PyDelta>() {
        let seconds: f64 = argument.call_method0("total_seconds")?.extract()?;
        if seconds.fract() != 0.0 {
            return Err(PyValueError::new_err("a duration has whole seconds"));
        }
        format!("{seconds:.0}")
    } else {
        argument.extract::<i64>()?.to_string()
    };
    Ok(seconds)
}

/// A text as TOML and JSON both spell it.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

fn list(words: &[String]) -> String {
    serde_json::to_string(words).unwrap_or_default()
}

fn read(path: &Path) -> PyResult<String> {
    std::fs::read_to_string(path).map_err(|error| match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, error.to_string(), path.to_path_buf())),
        None => PyValueError::new_err(format!("{}: {error}", path.display())),
    })
}
