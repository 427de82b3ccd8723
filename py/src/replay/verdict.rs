//! `Verdict` and `Finding`: which rules of the wire contract the clients of a replay server kept.

use pyo3::exceptions::PyAssertionError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use scheduled_events_core::record::Printable;
use scheduled_events_replay::Server;
use scheduled_events_replay::verdict::{Finding, Level, Outcome, Rule, Verdict};

/// Which rules of the wire contract the clients of a replay server kept.
///
/// ``str`` is the report: each broken rule with what the client did, where the contract has the rule, and the rule as a
/// sentence. A client that ends while an event of its machine is open did not poll to the event's end.
#[pyclass(frozen, name = "Verdict", module = "scheduled_events")]
pub(crate) struct PyVerdict {
    is_clean: bool,
    findings: Vec<Py<PyFinding>>,
    /// The outcome of each rule, the worst one of all machines.
    rules: Vec<(Rule, Outcome)>,
    /// Why a rule was not checked, for each such rule.
    reasons: Vec<(Rule, String)>,
    report: String,
}

/// A client's violation of a rule. ``str`` is a line for people, with text from outside escaped.
#[pyclass(frozen, get_all, name = "Finding", module = "scheduled_events")]
pub(crate) struct PyFinding {
    /// The rule's id, such as ``poll-gap``.
    rule: &'static str,
    /// ``must`` or ``should``: a verdict with findings of rules that a client should keep is clean.
    level: &'static str,
    /// The rule as a sentence: what a client does that keeps it.
    about: &'static str,
    /// Where the contract, docs/inside/wire.md, has the rule: the section's number and the row or paragraph.
    section: String,
    /// What the client did. It may have text that the client sent.
    message: String,
    /// The machine whose client it was.
    machine: String,
    /// The event that it is about; None if it is about none.
    event_id: Option<String>,
    /// Seconds since the server started.
    at: f64,
}

/// Ends the test: the verdict on each machine's client.
pub(super) fn conclude(server: &Server) -> Vec<Verdict> {
    // The worst one, which the others include.
    let _ = server.finish();
    let machines = 0..server.machines().len();
    machines.map(|machine| server.verdict(machine)).collect()
}

impl PyVerdict {
    pub(super) fn new(py: Python<'_>, verdicts: &[Verdict]) -> PyResult<Self> {
        let findings = verdicts.iter().flat_map(|verdict| {
            let machine = verdict.machine();
            let findings = verdict.findings().iter();
            findings.map(move |finding| Py::new(py, PyFinding::new(finding, machine)))
        });
        let rules = Rule::ALL.iter().map(|rule| {
            let outcomes = verdicts.iter().map(|verdict| verdict.outcome(*rule));
            let worst = outcomes.min_by_key(|outcome| severity(*outcome));
            (*rule, worst.unwrap_or(Outcome::NotChecked))
        });
        let rules: Vec<_> = rules.collect();
        let unchecked = rules
            .iter()
            .filter(|(_, worst)| *worst == Outcome::NotChecked);
        let reasons =
            unchecked.filter_map(|(rule, _)| Some((*rule, verdicts.first()?.reason(*rule)?)));
        let reasons = reasons.collect();
        let mut report: Vec<_> = verdicts.iter().map(ToString::to_string).collect();
        for (rule, outcome) in &rules {
            if matches!(outcome, Outcome::Failed | Outcome::Warned) {
                report.push(format!("  {rule} means: {}", rule.about()));
            }
        }
        Ok(Self {
            is_clean: verdicts.iter().all(Verdict::is_clean),
            findings: findings.collect::<PyResult<_>>()?,
            rules,
            reasons,
            report: report.join("\n"),
        })
    }
}

#[pymethods]
impl PyVerdict {
    /// Whether the client of every machine was shown its events, and broke no rule that a client must keep.
    #[getter]
    fn is_clean(&self) -> bool {
        self.is_clean
    }

    /// The findings, oldest first for each machine: a tuple of Finding.
    ///
    /// Those of rules that a client should keep are included.
    #[getter]
    fn findings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.findings)
    }

    /// The outcome of each rule by its id, the worst one of all machines.
    ///
    /// It is ``passed``, ``broken``, ``warned`` or ``not-checked``.
    #[getter]
    fn rules<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rules = PyDict::new(py);
        for (rule, outcome) in &self.rules {
            rules.set_item(rule.id(), outcome.word())?;
        }
        Ok(rules)
    }

    /// Why each rule that is ``not-checked`` was not, by its id, of the first machine.
    #[getter]
    fn reasons<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let reasons = PyDict::new(py);
        for (rule, reason) in &self.reasons {
            reasons.set_item(rule.id(), reason)?;
        }
        Ok(reasons)
    }

    /// Raise AssertionError with the report unless the verdict is clean.
    fn assert_clean(&self) -> PyResult<()> {
        if self.is_clean {
            return Ok(());
        }
        Err(PyAssertionError::new_err(self.report.clone()))
    }

    fn __str__(&self) -> &str {
        &self.report
    }

    fn __repr__(&self) -> String {
        let clean = if self.is_clean { "clean" } else { "not clean" };
        format!("<Verdict {clean}, {} findings>", self.findings.len())
    }
}

impl PyFinding {
    fn new(finding: &Finding, machine: &str) -> Self {
        let rule = finding.rule;
        Self {
            rule: rule.id(),
            level: match rule.level() {
                Level::Must => "must",
                Level::Should => "should",
            },
            about: rule.about(),
            section: format!("{}, {}", rule.section(), rule.item()),
            message: finding.text(),
            machine: machine.to_owned(),
            event_id: finding.event_id.clone(),
            at: finding.at.as_secs_f64(),
        }
    }
}

#[pymethods]
impl PyFinding {
    fn __str__(&self) -> String {
        let Self {
            rule,
            section,
            message,
            machine,
            at,
            ..
        } = self;
        format!(
            "{} at {at:.1} s: {rule}: {} (docs/inside/wire.md, section {section})",
            Printable(machine),
            Printable(message)
        )
    }

    fn __repr__(&self) -> String {
        format!("<Finding {}: {}>", self.rule, Printable(&self.message))
    }
}

/// The order of outcomes, the worst first.
fn severity(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Failed => 0,
        Outcome::Warned => 1,
        Outcome::Passed => 2,
        Outcome::NotChecked => 3,
    }
}
