//! What a check found, and the lines that show it.

use anstyle::Style;
use scheduled_events_core::record::Printable;
use serde::{Deserialize, Serialize};

use crate::style::{BAD, CAUTION, DIM, GOOD, PLAIN};
use crate::table::Table;
use crate::words::count;

/// How bad what was found is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As it should be.
    Ok,
    /// It works, and somebody should look at it.
    Warn,
    /// It does not work.
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

/// The result of one check. As JSON it is an object with the members `check`, `outcome`,
/// `found` and `do`, which is null if there is nothing to do, and `machines` if its texts name some.
///
/// ```
/// use scheduled_events_text::finding::Finding;
///
/// let finding = Finding::fail("queue", "it does not exist", "create it");
/// assert_eq!(finding.sentence(), "it does not exist; create it");
/// assert_eq!(
///     serde_json::to_string(&finding).unwrap(),
///     r#"{"check":"queue","outcome":"fail","found":"it does not exist","do":"create it"}"#
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding<C> {
    /// What was checked.
    pub check: C,
    /// How bad it is.
    pub outcome: Outcome,
    /// What was found.
    pub found: String,
    /// What to do.
    #[serde(rename = "do")]
    pub advice: Option<String>,
    /// The machines and nodes that the texts name: not written if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<String>,
}

impl<C> Finding<C> {
    /// As it should be.
    pub fn ok(check: C, found: impl AsRef<str>) -> Self {
        Self::new(check, Outcome::Ok, found.as_ref(), None)
    }

    /// A warning.
    pub fn warn(check: C, found: impl AsRef<str>, advice: impl AsRef<str>) -> Self {
        Self::new(check, Outcome::Warn, found.as_ref(), Some(advice.as_ref()))
    }

    /// A failure.
    pub fn fail(check: C, found: impl AsRef<str>, advice: impl AsRef<str>) -> Self {
        Self::new(check, Outcome::Fail, found.as_ref(), Some(advice.as_ref()))
    }

    /// A warning whose text says what to do.
    pub fn caution(check: C, found: impl AsRef<str>) -> Self {
        Self::new(check, Outcome::Warn, found.as_ref(), None)
    }

    /// With the names of machines and nodes that its texts have.
    #[must_use]
    pub fn naming(mut self, machines: impl IntoIterator<Item = impl ToString>) -> Self {
        self.machines = machines.into_iter().map(|name| name.to_string()).collect();
        self
    }

    /// What was found and what to do, as one sentence.
    pub fn sentence(&self) -> String {
        match &self.advice {
            Some(advice) => format!("{}; {advice}", self.found),
            None => self.found.clone(),
        }
    }

    /// A finding with texts that may come from outside: unsafe characters are escaped.
    pub fn new(check: C, outcome: Outcome, found: &str, advice: Option<&str>) -> Self {
        Self {
            check,
            outcome,
            found: printable(found),
            advice: advice.map(printable),
            machines: Vec::new(),
        }
    }
}

/// The text with unsafe characters escaped. What is escaped already stays as it is.
fn printable(text: &str) -> String {
    Printable(text).to_string()
}

/// One finding for each check, in the order of the checks: the worst part of it first.
pub fn by_check<C: Copy + Ord>(findings: Vec<Finding<C>>) -> Vec<Finding<C>> {
    let mut parts = findings;
    // The order of parts that are equally bad is kept.
    parts.sort_by_key(|part| (part.check, std::cmp::Reverse(part.outcome)));
    let mut whole: Vec<Finding<C>> = Vec::new();
    for part in parts {
        match whole.last_mut().filter(|last| last.check == part.check) {
            Some(last) => {
                last.found = format!("{}; {}", last.found, part.found);
                last.advice = match (last.advice.take(), part.advice) {
                    (Some(one), Some(other)) if one != other => Some(format!("{one}; {other}")),
                    (one, other) => one.or(other),
                };
                last.machines.extend(part.machines);
            }
            None => whole.push(part),
        }
    }
    whole
}

/// The findings for people, for a terminal of this width, and a line that counts them. It has colours: strip them where it goes
/// to anything else.
///
/// ```
/// use scheduled_events_text::finding::{Finding, text};
///
/// let findings = [Finding::ok("policy", "2 rules"), Finding::fail("queue", "it does not exist", "create it")];
/// let text = anstream::adapter::strip_str(&text(&findings, Some(80))).to_string();
/// assert_eq!(
///     text,
///     "ok    policy  2 rules\n\
///      FAIL  queue   it does not exist\n              -> create it\n\
///      \n2 checks, 1 failure, 0 warnings\n"
/// );
/// ```
pub fn text<C: AsRef<str>>(findings: &[Finding<C>], width: Option<usize>) -> String {
    let mut table = Table::default();
    for finding in findings {
        let outcome = finding.outcome;
        table.row([
            (outcome.word().to_owned(), outcome.style()),
            // It may have been read from another program.
            (printable(finding.check.as_ref()), PLAIN),
            (printable(&finding.found), PLAIN),
        ]);
        if let Some(advice) = &finding.advice {
            let none = || (String::new(), PLAIN);
            table.row([none(), none(), (format!("-> {}", printable(advice)), DIM)]);
        }
    }
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = table.print(&mut text, width);
    String::from_utf8_lossy(&text).into_owned() + &summary(findings)
}

fn summary<C>(findings: &[Finding<C>]) -> String {
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
pub fn has_failure<C>(findings: &[Finding<C>]) -> bool {
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
            Finding::ok(2, "a"),
            Finding::ok(1, "answers"),
            Finding::fail(2, "b", "x"),
            Finding::warn(2, "c", "y"),
            Finding::warn(2, "d", "y"),
        ]);
        assert_eq!(
            whole,
            [
                Finding::ok(1, "answers"),
                Finding::fail(2, "b; c; d; a", "x; y; y"),
            ]
        );
        assert!(has_failure(&whole) && !has_failure(&whole[..1]));
    }

    #[test]
    fn a_finding_is_an_object_with_four_members_and_the_machines_that_it_names() {
        assert_eq!(
            serde_json::to_string(&Finding::ok("on", "none\n")).unwrap(),
            r#"{"check":"on","outcome":"ok","found":"none\\u{a}","do":null}"#
        );
        assert_eq!(
            serde_json::to_string(&Finding::ok("gate", "a and b").naming(["a", "b"])).unwrap(),
            r#"{"check":"gate","outcome":"ok","found":"a and b","do":null,"machines":["a","b"]}"#
        );
    }

    #[test]
    fn a_finding_of_another_program_is_safe_to_print() {
        let line = r#"{"check":"a\u001b","outcome":"warn","found":"b\u001b","do":"c\u202e"}"#;
        let finding: Finding<String> = serde_json::from_str(line).unwrap();
        let plain = anstream::adapter::strip_str(&text(&[finding], None)).to_string();
        for word in ["a\\u{1b}", "b\\u{1b}", "c\\u{202e}"] {
            assert!(plain.contains(word), "{plain}");
        }
    }

    #[test]
    fn the_text_fits_the_terminal() {
        let long =
            "the program \"/usr/local/bin/drain-everything-that-there-is\" is not executable";
        let findings = [
            Finding::ok("service", "answers in 12 ms"),
            Finding::fail("prepare", long, "chmod +x it, or write another path"),
        ];
        for width in [40, 80, 120] {
            let plain = anstream::adapter::strip_str(&text(&findings, Some(width))).to_string();
            assert!(plain.lines().all(|line| line.width() <= width), "{plain}");
            assert!(
                plain.ends_with("\n2 checks, 1 failure, 0 warnings\n"),
                "{plain}"
            );
        }
    }
}
