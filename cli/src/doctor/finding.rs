//! What a check found, and how it is printed.

use anstyle::Style;
use serde::{Deserialize, Serialize};

use crate::error::CommandError;
use crate::output::format::{count, printable};
use crate::output::style::{BAD, CAUTION, DIM, GOOD, PLAIN};
use crate::output::table::Table;
use crate::output::{print, print_record, terminal};

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Check {
    Service,
    Name,
    Clock,
    Policy,
    Prepare,
    Recover,
    On,
    State,
    Audit,
    Metrics,
    Gate,
    Proxy,
    Others,
}

impl Check {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Name => "name",
            Self::Clock => "clock",
            Self::Policy => "policy",
            Self::Prepare => "prepare",
            Self::Recover => "recover",
            Self::On => "on",
            Self::State => "state",
            Self::Audit => "audit",
            Self::Metrics => "metrics",
            Self::Gate => "gate",
            Self::Proxy => "proxy",
            Self::Others => "others",
        }
    }
}

/// How bad what was found is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Ok,
    Warn,
    Fail,
}

impl Outcome {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
        }
    }

    const fn style(self) -> Style {
        match self {
            Self::Ok => GOOD,
            Self::Warn => CAUTION,
            Self::Fail => BAD,
        }
    }
}

/// The result of one check. Its texts are safe to print.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Finding {
    pub(crate) check: Check,
    pub(crate) outcome: Outcome,
    pub(crate) found: String,
    #[serde(rename = "do")]
    pub(crate) advice: Option<String>,
}

impl Finding {
    pub(crate) fn ok(check: Check, found: impl AsRef<str>) -> Self {
        Self::new(check, Outcome::Ok, found.as_ref(), None)
    }

    pub(crate) fn warn(check: Check, found: impl AsRef<str>, advice: impl AsRef<str>) -> Self {
        Self::new(check, Outcome::Warn, found.as_ref(), Some(advice.as_ref()))
    }

    pub(crate) fn fail(check: Check, found: impl AsRef<str>, advice: impl AsRef<str>) -> Self {
        Self::new(check, Outcome::Fail, found.as_ref(), Some(advice.as_ref()))
    }

    /// A warning whose text says what to do.
    pub(crate) fn caution(check: Check, found: impl AsRef<str>) -> Self {
        Self::new(check, Outcome::Warn, found.as_ref(), None)
    }

    /// What was found and what to do, as one sentence.
    pub(crate) fn sentence(&self) -> String {
        match &self.advice {
            Some(advice) => format!("{}; {advice}", self.found),
            None => self.found.clone(),
        }
    }

    fn new(check: Check, outcome: Outcome, found: &str, advice: Option<&str>) -> Self {
        Self {
            check,
            outcome,
            found: printable(found),
            advice: advice.map(printable),
        }
    }
}

/// One finding for each check, in the order of the checks: the worst part of it first.
pub(crate) fn by_check(findings: Vec<Finding>) -> Vec<Finding> {
    let mut parts = findings;
    // The order of parts that are equally bad is kept.
    parts.sort_by(|a, b| (a.check, b.outcome).cmp(&(b.check, a.outcome)));
    let mut whole: Vec<Finding> = Vec::new();
    for part in parts {
        match whole.last_mut().filter(|last| last.check == part.check) {
            Some(last) => {
                last.found = format!("{}; {}", last.found, part.found);
                last.advice = match (last.advice.take(), part.advice) {
                    (Some(one), Some(other)) if one != other => Some(format!("{one}; {other}")),
                    (one, other) => one.or(other),
                };
            }
            None => whole.push(part),
        }
    }
    whole
}

/// Prints the findings, as JSON Lines or for people.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn print_findings(findings: &[Finding], json: bool) -> Result<(), CommandError> {
    if json {
        return findings.iter().try_for_each(print_record);
    }
    print(&text(findings, terminal::output_width()))
}

/// The findings for people, for a terminal of this width, and a line that counts them.
pub(crate) fn text(findings: &[Finding], width: Option<usize>) -> Vec<u8> {
    let mut table = Table::default();
    for finding in findings {
        let outcome = finding.outcome;
        table.row([
            (outcome.word().to_owned(), outcome.style()),
            (finding.check.word().to_owned(), PLAIN),
            (finding.found.clone(), PLAIN),
        ]);
        if let Some(advice) = &finding.advice {
            let none = || (String::new(), PLAIN);
            table.row([none(), none(), (format!("-> {advice}"), DIM)]);
        }
    }
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = table.print(&mut text, width);
    text.extend_from_slice(summary(findings).as_bytes());
    text
}

fn summary(findings: &[Finding]) -> String {
    let number = |outcome| findings.iter().filter(|f| f.outcome == outcome).count();
    let (failures, warnings) = (number(Outcome::Fail), number(Outcome::Warn));
    format!(
        "\n{}, {}, {}\n",
        count(findings.len(), "check"),
        count(failures, "failure"),
        count(warnings, "warning")
    )
}

/// Whether there is a failure.
pub(crate) fn has_failure(findings: &[Finding]) -> bool {
    findings
        .iter()
        .any(|finding| finding.outcome == Outcome::Fail)
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    #[test]
    fn the_parts_of_a_check_are_one_finding_the_worst_first() {
        let whole = by_check(vec![
            Finding::ok(Check::State, "a"),
            Finding::ok(Check::Service, "answers"),
            Finding::fail(Check::State, "b", "x"),
            Finding::warn(Check::State, "c", "y"),
            Finding::warn(Check::State, "d", "y"),
        ]);
        assert_eq!(
            whole,
            [
                Finding::ok(Check::Service, "answers"),
                Finding::fail(Check::State, "b; c; d; a", "x; y; y"),
            ]
        );
        assert!(has_failure(&whole) && !has_failure(&whole[..1]));
    }

    #[test]
    fn a_finding_is_an_object_with_four_members() {
        let json = |finding| serde_json::to_string(&finding).unwrap();
        assert_eq!(
            json(Finding::fail(Check::Metrics, "no folder", "create it")),
            r#"{"check":"metrics","outcome":"fail","found":"no folder","do":"create it"}"#
        );
        assert_eq!(
            json(Finding::ok(Check::On, "none\n")),
            r#"{"check":"on","outcome":"ok","found":"none\\u{a}","do":null}"#
        );
        for check in [Check::Service, Check::Others, Check::Recover] {
            assert_eq!(
                serde_json::to_string(&check).unwrap(),
                format!("{:?}", check.word())
            );
        }
    }

    #[test]
    fn the_text_fits_the_terminal() {
        let long =
            "the program \"/usr/local/bin/drain-everything-that-there-is\" is not executable";
        let findings = [
            Finding::ok(Check::Service, "answers in 12 ms"),
            Finding::fail(Check::Prepare, long, "chmod +x it, or write another path"),
        ];
        for width in [40, 80, 120] {
            let mut plain = Vec::new();
            std::io::Write::write_all(
                &mut anstream::StripStream::new(&mut plain),
                &text(&findings, Some(width)),
            )
            .unwrap();
            let plain = String::from_utf8(plain).unwrap();
            assert!(plain.lines().all(|line| line.width() <= width), "{plain}");
            assert!(
                plain.ends_with("\n2 checks, 1 failure, 0 warnings\n"),
                "{plain}"
            );
        }
    }
}
