//! `Policy` and `Rule`: core's, built from Python values or read from TOML.

use std::collections::HashMap;
use std::fmt::{Display, Write as _};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDelta, PyDict, PyString};
use scheduled_events::imds::{API_VERSION, names_for};
use scheduled_events::policy_file;
use scheduled_events_core::record::{EventMembers, Record};
use scheduled_events_core::{
    Action, EventKind, EventSources, EventTypes, LastCall, Leader, Policy, Rule, Scope, SourceKind,
};

use crate::convert::{Arg, Moment, Names, utf8};
use crate::document::event::PyEvent;
use crate::errors::{self, About};
use crate::words::{Enumeration, Fields};

/// One rule of a policy: which events it matches, and what is done about them.
///
/// ``event`` and ``source`` are one word or several, None for all; only rules that name SpotRebalanceRecommendation match
/// advice. Durations are inclusive: seconds, a timedelta, or a text such as "2min". The notice is the time from the first sight of a NotBefore until it. ``prepare_before`` is how long
/// before NotBefore the event is prepared for or approved at the earliest. Raises PolicyError for unknown words.
#[pyclass(frozen, name = "Rule", module = "scheduled_events")]
pub(crate) struct PyRule {
    rule: Rule,
    /// The event types that it matches; None for all.
    #[pyo3(get)]
    event: Option<Vec<String>>,
    /// The event sources that it matches; None for all.
    #[pyo3(get)]
    source: Option<Vec<String>>,
}

#[pymethods]
impl PyRule {
    #[new]
    #[pyo3(signature = (action, *, event=None, source=None, min_duration=None, max_duration=None, min_notice=None,
                        max_notice=None, prepare_before=None, scope=Arg("mine".to_owned())),
           text_signature = "(action, *, event=None, source=None, min_duration=None, max_duration=None, min_notice=None, \
                             max_notice=None, prepare_before=None, scope='mine')")]
    fn new(
        py: Python<'_>,
        action: Arg<String>,
        event: Option<&Bound<'_, PyAny>>,
        source: Option<&Bound<'_, PyAny>>,
        min_duration: Option<&Bound<'_, PyAny>>,
        max_duration: Option<&Bound<'_, PyAny>>,
        min_notice: Option<&Bound<'_, PyAny>>,
        max_notice: Option<&Bound<'_, PyAny>>,
        prepare_before: Option<&Bound<'_, PyAny>>,
        scope: Arg<String>,
    ) -> PyResult<Self> {
        let words_of = |argument: Option<&Bound<'_, PyAny>>, name| {
            argument.map(words).transpose().about(py, name)
        };
        let seconds = |argument: Option<&Bound<'_, PyAny>>, name| {
            argument.map(duration).transpose().about(py, name)
        };
        let (event, source) = (words_of(event, "event")?, words_of(source, "source")?);
        let mut rule = Rule::new(known(py, "action", &action.0, &Action::ALL)?);
        if let Some(words) = &event {
            rule.event_types = EventTypes::of(&several(py, "event", words, &EventKind::ALL)?);
        }
        if let Some(words) = &source {
            rule.sources = EventSources::of(&several(py, "source", words, &SourceKind::ALL)?);
        }
        rule.min_duration = seconds(min_duration, "min_duration")?;
        rule.max_duration = seconds(max_duration, "max_duration")?;
        rule.min_notice = seconds(min_notice, "min_notice")?;
        rule.max_notice = seconds(max_notice, "max_notice")?;
        rule.prepare_before = seconds(prepare_before, "prepare_before")?;
        rule.scope = known(py, "scope", &scope.0, &Scope::ALL)?;
        let checked = policy_file::check_ranges(&rule)
            .and_then(|()| policy_file::check_prepare_before(&rule));
        checked.map_err(|error| errors::policy(py, &error.to_string()))?;
        Ok(Self {
            rule,
            event,
            source,
        })
    }

    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str) {
        ("action", "event", "source")
    }

    /// What is done: an Action.
    #[getter]
    fn action<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Enumeration::Action.member(py, self.rule.action.word())
    }

    /// The shortest interruption that it matches, in seconds.
    #[getter]
    fn min_duration(&self) -> Option<u32> {
        self.rule.min_duration
    }

    /// The longest interruption that it matches, in seconds.
    #[getter]
    fn max_duration(&self) -> Option<u32> {
        self.rule.max_duration
    }

    /// The shortest notice that it matches, in seconds.
    #[getter]
    fn min_notice(&self) -> Option<u32> {
        self.rule.min_notice
    }

    /// The longest notice that it matches, in seconds.
    #[getter]
    fn max_notice(&self) -> Option<u32> {
        self.rule.max_notice
    }

    /// How many seconds before NotBefore the event is prepared for or approved at the earliest; None: no limit.
    #[getter]
    fn prepare_before(&self) -> Option<u32> {
        self.rule.prepare_before
    }

    /// Whose events it matches: ``mine``, ``others`` or ``any``.
    #[getter]
    fn scope(&self) -> &'static str {
        self.rule.scope.word()
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.rule == other.rule
    }

    fn __hash__(&self) -> u64 {
        let Rule {
            action,
            event_types,
            sources,
            ..
        } = self.rule;
        let mut hasher = DefaultHasher::new();
        (action, event_types, sources).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        let mut text = format!("Rule({:?}", self.rule.action.word());
        for (name, words) in [("event", &self.event), ("source", &self.source)] {
            if let Some(words) = words {
                let _ = write!(text, ", {name}={words:?}");
            }
        }
        for (name, seconds) in self.times() {
            if let Some(seconds) = seconds {
                let _ = write!(text, ", {name}={seconds}");
            }
        }
        if self.rule.scope != Scope::Mine {
            let _ = write!(text, ", scope={:?}", self.scope());
        }
        text + ")"
    }

    fn __getnewargs_ex__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<((&'static str,), Bound<'py, PyDict>)> {
        let options = PyDict::new(py);
        options.set_item("event", &self.event)?;
        options.set_item("source", &self.source)?;
        for (name, seconds) in self.times() {
            options.set_item(name, seconds)?;
        }
        options.set_item("scope", self.scope())?;
        Ok(((self.rule.action.word(),), options))
    }
}

impl PyRule {
    /// The arguments that are times, in seconds.
    fn times(&self) -> [(&'static str, Option<u32>); 5] {
        let Rule {
            min_duration,
            max_duration,
            min_notice,
            max_notice,
            prepare_before,
            ..
        } = self.rule;
        [
            ("min_duration", min_duration),
            ("max_duration", max_duration),
            ("min_notice", min_notice),
            ("max_notice", max_notice),
            ("prepare_before", prepare_before),
        ]
    }
}

/// Rules in order; the first that matches an event decides.
///
/// Four limits hold whatever the rules are: only Scheduled events are approved, none with a problem in a member that
/// the decision depends on, none while this machine's name is unknown, and never another machine's Terminate.
///
/// ``leader`` chooses which of several machines approves an event that names them: "first-resource", "everyone", "rank", or
/// ``{"mode": "rank", "take_over_after": 30}``. By default, None, the first one approves what a rule says to approve; what a
/// rule says to prepare for is not approved then, since nobody knows whether the other machines are ready.
#[pyclass(frozen, name = "Policy", module = "scheduled_events")]
pub(crate) struct PyPolicy(Policy);

impl PyPolicy {
    fn read(py: Python<'_>, toml: &str, name: &str) -> PyResult<Self> {
        policy_file::parse(toml)
            .map(Self)
            .map_err(|error| errors::policy_file(py, &error, name))
    }

    /// The policy that an argument names: a `Policy`, `observe`, `sample`, or a file. None is `observe`.
    pub(crate) fn named(argument: Option<&Bound<'_, PyAny>>) -> PyResult<Policy> {
        let Some(argument) = argument else {
            return Ok(Policy::observe());
        };
        if let Ok(policy) = argument.cast::<Self>() {
            return Ok(policy.get().0.clone());
        }
        match argument.extract::<String>().as_deref() {
            Ok("observe") => Ok(Policy::observe()),
            Ok("sample") => Ok(Policy::sample()),
            // A misspelled name, rather than a file that is missing.
            Ok(name) if !name.contains(['/', '\\', '.']) && !Path::new(name).exists() => {
                match policy_file::load(name) {
                    Ok(policy) => Ok(policy),
                    Err(error) => Err(errors::policy(argument.py(), &error.to_string())),
                }
            }
            _ => {
                let path = argument.extract().about(argument.py(), "policy")?;
                Ok(Self::from_file(argument.py(), path)?.0)
            }
        }
    }
}

#[pymethods]
impl PyPolicy {
    #[new]
    #[pyo3(signature = (rules=Arg(Vec::new()), leader=None), text_signature = "(rules=(), leader=None)")]
    fn new(
        py: Python<'_>,
        rules: Arg<Vec<Py<PyRule>>>,
        leader: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let rules: Vec<Rule> = rules.0.iter().map(|rule| rule.get().rule).collect();
        let mut policy =
            Policy::new(&rules).map_err(|error| errors::policy(py, &error.to_string()))?;
        policy.leader = leader.map(leader_of).transpose()?;
        Ok(Self(policy))
    }

    /// The policy that never approves anything: every event is held. It is the default everywhere.
    #[staticmethod]
    fn observe() -> Self {
        Self(Policy::observe())
    }

    /// Approve events that a user caused, and freezes shorter than nine seconds, as Microsoft's sample of 2020 does.
    ///
    /// Hold the others. Unlike the sample, approve only events whose first resource is this machine.
    #[staticmethod]
    fn sample() -> Self {
        Self(Policy::sample())
    }

    /// Read a policy from TOML. Raises PolicyError with .line and .column.
    #[staticmethod]
    fn from_toml(py: Python<'_>, text: Arg<String>) -> PyResult<Self> {
        Self::read(py, &text.0, "")
    }

    /// Read a policy from a TOML file. Raises PolicyError, or OSError if the file cannot be read.
    #[staticmethod]
    fn from_file(py: Python<'_>, path: Arg<PathBuf>) -> PyResult<Self> {
        Self::read(py, &read(py, &path.0)?, &format!("{}:", path.0.display()))
    }

    /// Decide about one event at the moment ``now``, for the machine of these names.
    #[pyo3(signature = (event, vm_names=None, now=None, *, api_version=Arg(API_VERSION.to_owned())),
           text_signature = "($self, event, vm_names=None, now=None, *, api_version='2020-07-01')")]
    fn decide<'py>(
        &self,
        py: Python<'py>,
        event: Arg<Bound<'py, PyEvent>>,
        vm_names: Option<Names>,
        now: Option<Moment>,
        api_version: Arg<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let vm_names = vm_names.unwrap_or_default();
        let event = event.0.get().core();
        let names = vm_names.borrowed();
        let names = names_for(&names, &api_version.0);
        let decision = self.0.decide(&event, names, Moment::or_now(now));
        let event = EventMembers::from_event(&event, names);
        let record = Record::from_decision(&decision, event);
        Fields::of(&record)
            .with("act_from", decision.act_from)
            .record(py)
    }

    /// Which of several machines approves, as in the constructor: a mode, a dict for "rank", or None.
    #[getter]
    fn leader<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mode = match self.0.leader {
            None => return Ok(None),
            Some(Leader::FirstResource) => "first-resource",
            Some(Leader::Everyone) => "everyone",
            Some(Leader::Rank { take_over_after }) => {
                let table = PyDict::new(py);
                table.set_item("mode", "rank")?;
                table.set_item("take_over_after", take_over_after)?;
                return Ok(Some(table.into_any()));
            }
        };
        Ok(Some(PyString::new(py, mode).into_any()))
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    fn __hash__(&self) -> usize {
        self.0.rules().len()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        if self.0 == Policy::observe() {
            return Ok("Policy.observe()".to_owned());
        }
        if self.0 == Policy::sample() {
            return Ok("Policy.sample()".to_owned());
        }
        let leader = match self.leader(py)? {
            Some(leader) => format!(", leader={}", leader.repr()?),
            None => String::new(),
        };
        Ok(format!(
            "<Policy of {} rules{leader}>",
            self.0.rules().len()
        ))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let text = serde_json::to_string(&self.0)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((
            py.import("scheduled_events._native")?.getattr("_policy")?,
            (text,),
        ))
    }
}

/// Restores a pickled policy.
#[pyfunction]
#[pyo3(name = "_policy")]
pub(crate) fn unpickle_policy(text: &str) -> PyResult<PyPolicy> {
    serde_json::from_str(text)
        .map(PyPolicy)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// One word or several.
fn words(argument: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if argument.is_instance_of::<PyString>() {
        return Ok(vec![argument.extract::<Arg<String>>()?.0]);
    }
    let words = argument
        .try_iter()
        .map_err(|error| errors::of_argument(argument.py(), error))?;
    words
        .map(|word| word?.extract::<Arg<String>>().map(|word| word.0))
        .collect()
}

fn several<T: Copy + Display>(
    py: Python<'_>,
    what: &str,
    words: &[String],
    all: &[T],
) -> PyResult<Vec<T>> {
    if words.is_empty() {
        return Err(errors::policy(
            py,
            &format!("{what}: {}", policy_file::EMPTY_LIST),
        ));
    }
    words
        .iter()
        .map(|word| known(py, what, word, all))
        .collect()
}

/// The value that `word` names, of all that core knows; `what` names the argument in the error.
fn known<T: Copy + Display>(py: Python<'_>, what: &str, word: &str, all: &[T]) -> PyResult<T> {
    all.iter()
        .copied()
        .find(|value| value.to_string() == word)
        .ok_or_else(|| {
            let words: Vec<_> = all.iter().map(T::to_string).collect();
            errors::policy(
                py,
                &format!(
                    "unknown {what} {word:?}; expected one of {}",
                    words.join(", ")
                ),
            )
        })
}

/// A leader: a mode, or a `dict` of a mode and its options.
fn leader_of(argument: &Bound<'_, PyAny>) -> PyResult<Leader> {
    let refused = |message: &str| errors::policy(argument.py(), message);
    if let Ok(mode) = argument.extract::<String>() {
        return policy_file::leader(&mode, None).map_err(|error| refused(&error.to_string()));
    }
    let py = argument.py();
    let Arg(mut table): Arg<HashMap<String, Bound<'_, PyAny>>> =
        argument.extract().about(py, "leader")?;
    let mode: String = table
        .remove("mode")
        .ok_or_else(|| refused("leader has no mode"))?
        .extract::<Arg<_>>()
        .about(py, "mode")?
        .0;
    let take_over_after = table
        .remove("take_over_after")
        .map(|seconds| duration(&seconds))
        .transpose()
        .about(py, "take_over_after")?;
    if let Some(key) = table.keys().next() {
        return Err(refused(&format!(
            "unknown key {key:?} of leader; expected mode or take_over_after"
        )));
    }
    policy_file::leader(&mode, take_over_after).map_err(|error| refused(&error.to_string()))
}

/// When a machine prepares although its gate has not answered yes: None, "never", or a duration before `NotBefore`.
pub(crate) fn last_call_of(value: Option<&Bound<'_, PyAny>>) -> PyResult<LastCall> {
    let Some(value) = value else {
        return Ok(LastCall::Standard);
    };
    if value.extract::<String>().is_ok_and(|word| word == "never") {
        return Ok(LastCall::Never);
    }
    seconds_of(value, errors::config)
        .about(value.py(), "last_call")
        .map(LastCall::Before)
}

/// A duration of a policy, in seconds.
fn duration(argument: &Bound<'_, PyAny>) -> PyResult<u32> {
    seconds_of(argument, errors::policy)
}

/// A duration in seconds: a number, a `timedelta`, or a text such as `"2min"`. `refused` makes the error of another value.
fn seconds_of(
    argument: &Bound<'_, PyAny>,
    refused: fn(Python<'_>, &str) -> PyErr,
) -> PyResult<u32> {
    let py = argument.py();
    if let Ok(text) = argument.cast::<PyString>() {
        return policy_file::duration_in_seconds(&utf8(text)?)
            .map_err(|error| refused(py, &error.to_string()));
    }
    let seconds = if argument.is_instance_of::<PyDelta>() {
        let seconds = argument.call_method0("total_seconds")?;
        if !seconds.call_method0("is_integer")?.is_truthy()? {
            return Err(refused(
                py,
                &format!("{} is not a whole number of seconds", argument.str()?),
            ));
        }
        seconds.call_method0("__int__")?
    } else {
        argument.clone()
    };
    let range = || {
        refused(
            py,
            &format!("a duration is 0 to {} seconds, not {seconds}", u32::MAX),
        )
    };
    u32::try_from(seconds.extract::<Arg<i64>>()?.0).map_err(|_| range())
}

fn read(py: Python<'_>, path: &Path) -> PyResult<String> {
    std::fs::read_to_string(path).map_err(|error| match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, error.to_string(), path.to_path_buf())),
        None => errors::policy(py, &format!("{}: {error}", path.display())),
    })
}
