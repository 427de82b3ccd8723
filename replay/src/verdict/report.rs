//! Verdicts as a report: `JUnit` XML for CI, NDJSON for programs, HTML for people.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use scheduled_events_core::UnixSeconds;
use scheduled_events_core::record::{Printable, PrintableJson};
use serde::Serialize;

use super::{ClientExit, EventTimes, Finding, Level, Outcome, Rule, Verdict};
use crate::markup::{Attributes, Markup};

/// The format of a report.
///
/// ```
/// use std::path::Path;
///
/// use scheduled_events_replay::verdict::report::ReportFormat;
///
/// assert_eq!(ReportFormat::of(Path::new("verdict.xml")), Some(ReportFormat::Junit));
/// assert_eq!(ReportFormat::of(Path::new("verdict.pdf")), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportFormat {
    /// `JUnit` XML: a test suite for each machine, a test case for each rule.
    Junit,
    /// One JSON object on each line.
    Ndjson,
    /// One page that needs no other file.
    Html,
}

impl ReportFormat {
    /// The format for the extension of a file's name: `.xml`, `.ndjson` or `.html`.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "xml" => Some(Self::Junit),
            "ndjson" => Some(Self::Ndjson),
            "html" => Some(Self::Html),
            _ => None,
        }
    }
}

/// The contents of a report.
///
/// ```
/// use std::time::SystemTime;
///
/// use scheduled_events_replay::verdict::report::{ReportFormat, VerdictReport};
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
///
/// let started = SystemTime::now();
/// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
/// // Run the client here.
/// let (verdicts, duration) = ([server.verdict(0)], server.started().elapsed());
/// let report = VerdictReport { scenario: "preempt", started, duration, verdicts: &verdicts, timeline: &[] };
/// assert!(report.write(ReportFormat::Junit).contains(r#"name="scheduled-events replay preempt""#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct VerdictReport<'a> {
    /// The scenario's name.
    pub scenario: &'a str,
    /// When the server started.
    pub started: SystemTime,
    /// How long it ran.
    pub duration: Duration,
    /// One verdict for each machine.
    pub verdicts: &'a [Verdict],
    /// The timeline of the run, in its order.
    pub timeline: &'a [TimelineLine],
}

/// A line of the timeline: a request, a change of an event, or a finding.
///
/// ```
/// use std::time::SystemTime;
///
/// use scheduled_events_replay::verdict::report::{ReportFormat, TimelineLine, VerdictReport};
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
/// let (started, duration) = (SystemTime::now(), server.started().elapsed());
/// let line = TimelineLine { at: duration, machine: Some(0), text: "the client was started".to_owned() };
/// let verdicts = [server.verdict(0)];
/// let report = VerdictReport { scenario: "preempt", started, duration, verdicts: &verdicts, timeline: &[line] };
/// assert!(report.write(ReportFormat::Html).contains("the client was started"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TimelineLine {
    /// The time since the server started.
    pub at: Duration,
    /// The number of the machine that it is about; `None` for all.
    pub machine: Option<usize>,
    /// The description.
    pub text: String,
}

impl VerdictReport<'_> {
    /// Writes the report.
    pub fn write(&self, format: ReportFormat) -> String {
        match format {
            ReportFormat::Junit => self.junit(),
            ReportFormat::Ndjson => self.ndjson(),
            ReportFormat::Html => self.html(),
        }
    }

    fn junit(&self) -> String {
        let mut xml = Markup::new("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let sum = |count: fn(&Verdict) -> usize| self.verdicts.iter().map(count).sum::<usize>();
        let name = format!("scheduled-events replay {}", self.scenario);
        let time = Seconds(self.duration);
        xml.open(
            "testsuites",
            &[
                ("name", &name),
                ("tests", &sum(cases)),
                (
                    "failures",
                    &sum(|verdict| cases_with(verdict, Outcome::Failed)),
                ),
                ("errors", &0),
                ("time", &time),
            ],
        );
        let started = self
            .started
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs().cast_signed());
        let timestamp = UnixSeconds(started).to_string();
        for (id, verdict) in self.verdicts.iter().enumerate() {
            xml.open(
                "testsuite",
                &[
                    ("name", &verdict.machine()),
                    ("tests", &cases(verdict)),
                    ("failures", &cases_with(verdict, Outcome::Failed)),
                    ("errors", &0),
                    ("skipped", &cases_with(verdict, Outcome::NotChecked)),
                    ("time", &time),
                    ("timestamp", &timestamp.trim_end_matches('Z')),
                    ("hostname", &"localhost"),
                    ("id", &id),
                    ("package", &self.scenario),
                ],
            );
            xml.open("properties", &[]);
            for (name, value) in measures(verdict) {
                xml.empty("property", &[("name", &name), ("value", &value)]);
            }
            xml.close("properties");
            let class = format!("{}.{}", self.scenario, verdict.machine());
            for rule in Rule::ALL {
                xml.open(
                    "testcase",
                    &[("name", rule), ("classname", &class), ("time", &0)],
                );
                test_case(&mut xml, verdict, *rule);
                xml.close("testcase");
            }
            for (name, outcome, text) in other_cases(verdict) {
                xml.open(
                    "testcase",
                    &[("name", &name), ("classname", &class), ("time", &0)],
                );
                let message: Attributes<'_> = &[("message", &text), ("type", &name)];
                match outcome {
                    Outcome::Failed => xml.empty("failure", message),
                    Outcome::NotChecked => xml.empty("skipped", &message[..1]),
                    Outcome::Passed | Outcome::Warned => {}
                }
                xml.close("testcase");
            }
            xml.open("system-out", &[]);
            self.what_happened(&mut xml, id);
            xml.close("system-out");
            xml.empty("system-err", &[]);
            xml.close("testsuite");
        }
        xml.close("testsuites");
        xml.finish()
    }

    fn what_happened(&self, out: &mut Markup, machine: usize) {
        for line in self
            .timeline
            .iter()
            .filter(|line| line.machine.is_none_or(|number| number == machine))
        {
            out.line(&format_args!("{:>9} s  {}", Seconds(line.at), line.text));
        }
    }

    fn ndjson(&self) -> String {
        let mut out = Vec::new();
        for verdict in self.verdicts {
            let machine = verdict.machine();
            let polls = verdict.polls();
            let mut write = |line: &ReportLine<'_>| {
                // Writing to memory does not fail.
                let json = serde_json::to_string(line).unwrap_or_default();
                out.extend_from_slice(format!("{}\n", PrintableJson(&json)).as_bytes());
            };
            write(&ReportLine::Client {
                machine,
                scenario: self.scenario,
                clean: verdict.is_clean(),
                polls: polls.count,
                documents: polls.documents,
                longest_gap_ms: ms(polls.longest_gap),
                average_gap_ms: ms(polls.average_gap),
                tested: verdict.was_tested(),
            });
            if let Some(exit) = verdict.exit() {
                write(&ReportLine::Exit {
                    machine,
                    outcome: exit.outcome().word(),
                    code: exit.code(),
                    message: &exit.to_string(),
                });
            }
            for event in verdict.events() {
                write(&ReportLine::Event {
                    machine,
                    event_id: &event.event_id,
                    event_type: &event.event_type,
                    announced_ms: ms(event.announced),
                    not_before_ms: event.not_before.map(ms),
                    seen_ms: event.seen.map(ms),
                    approved_ms: event.approved.map(ms),
                    started_ms: event.started.map(ms),
                    ended_ms: event.ended.map(ms),
                    approval_delay_ms: event.approval_delay().map(ms),
                    share_of_notice: event.share_of_notice(),
                });
            }
            for rule in Rule::ALL {
                write(&ReportLine::Rule {
                    machine,
                    rule: rule.id(),
                    outcome: verdict.outcome(*rule).word(),
                    findings: verdict.count(*rule),
                    level: if rule.level() == Level::Must {
                        "must"
                    } else {
                        "should"
                    },
                    section: rule.section(),
                    item: rule.item(),
                    about: rule.about(),
                    reason: verdict.reason(*rule),
                });
            }
            for Finding {
                rule,
                at,
                event_id,
                message,
                times,
            } in verdict.findings()
            {
                let event_id = event_id.as_deref();
                write(&ReportLine::Finding {
                    machine,
                    rule: rule.id(),
                    at_ms: ms(*at),
                    event_id,
                    message,
                    times: *times,
                });
            }
        }
        String::from_utf8(out).unwrap_or_default()
    }

    fn html(&self) -> String {
        let mut html = Markup::new(HTML_HEAD);
        let title = format!("Verdict: {}", self.scenario);
        html.element("title", &[], &title);
        html.open("main", &[]);
        html.element("h1", &[], &title);
        for (id, verdict) in self.verdicts.iter().enumerate() {
            let judged = match (verdict.has_failed(), verdict.untested()) {
                (true, _) if !verdict.breaks_a_rule() => "ended with a failure".to_owned(),
                (true, _) => "breaks the wire contract".to_owned(),
                (false, Some(why)) => why.to_string(),
                (false, None) => "keeps the wire contract".to_owned(),
            };
            html.element("h2", &[], &format_args!("{} {judged}", verdict.machine()));
            html.open("dl", &[]);
            for (name, value) in measures(verdict) {
                html.element("dt", &[], &name);
                html.element("dd", &[], &value);
            }
            html.close("dl");
            html.open("table", &[]);
            html.element("caption", &[], &"Rules of docs/inside/wire.md");
            html.open("tr", &[]);
            for column in [
                "Rule",
                "Result",
                "Section",
                "What a client does, and what was found",
            ] {
                html.element("th", &[("scope", &"col")], &column);
            }
            html.close("tr");
            for rule in Rule::ALL {
                let word = verdict.outcome(*rule).word();
                html.open("tr", &[]);
                html.element("th", &[("scope", &"row")], rule);
                html.element("td", &[("class", &word)], &word);
                html.element(
                    "td",
                    &[],
                    &format_args!("{}, {}", rule.section(), rule.item()),
                );
                html.open("td", &[]);
                html.text(&rule.about());
                if let Some(reason) = verdict.reason(*rule) {
                    html.empty("br", &[]);
                    html.text(&format_args!("Not checked: {reason}."));
                }
                for finding in findings(verdict, *rule) {
                    html.empty("br", &[]);
                    html.text(&format_args!(
                        "{} s: {}",
                        Seconds(finding.at),
                        finding.text()
                    ));
                }
                html.close("td");
                html.close("tr");
            }
            if let Some(exit) = verdict.exit() {
                let word = exit.outcome().word();
                html.open("tr", &[]);
                html.element("th", &[("scope", &"row")], &ClientExit::ID);
                html.element("td", &[("class", &word)], &word);
                html.element("td", &[], &"");
                html.element("td", &[], &exit);
                html.close("tr");
            }
            html.close("table");
            html.element("h3", &[], &"What happened");
            html.open("pre", &[("tabindex", &0)]);
            self.what_happened(&mut html, id);
            html.close("pre");
        }
        html.close("main");
        html.close("html");
        html.finish()
    }
}

/// The test cases that are no rules, with their messages: whether anything was tested, and the exit
/// status of a command.
fn other_cases(verdict: &Verdict) -> Vec<(&'static str, Outcome, String)> {
    let why = verdict.untested();
    let why = why.map_or_else(String::new, |why| format!("it {why}"));
    let mut cases = vec![(TESTED, verdict.tested(), why)];
    cases.extend(
        verdict
            .exit()
            .map(|exit| (ClientExit::ID, exit.outcome(), exit.to_string())),
    );
    cases
}

/// The name of the test case that fails when nothing was tested.
const TESTED: &str = "tested";

fn cases(verdict: &Verdict) -> usize {
    Rule::ALL.len() + other_cases(verdict).len()
}

fn cases_with(verdict: &Verdict, outcome: Outcome) -> usize {
    let others = other_cases(verdict);
    let others = others.iter().filter(|(_, other, _)| *other == outcome);
    verdict.rules_with(outcome).count() + others.count()
}

/// The content of a rule's test case: nothing if it passed.
fn test_case(xml: &mut Markup, verdict: &Verdict, rule: Rule) {
    let tag = match verdict.outcome(rule) {
        Outcome::Passed => return,
        Outcome::NotChecked => {
            let reason = verdict.reason(rule).unwrap_or_default();
            return xml.empty("skipped", &[("message", &reason)]);
        }
        Outcome::Failed => "failure",
        Outcome::Warned => "system-out",
    };
    let first = findings(verdict, rule)
        .next()
        .map_or("", |finding| finding.message.as_str());
    let attributes: Attributes<'_> = &[("message", &first), ("type", &rule)];
    xml.open(tag, if tag == "failure" { attributes } else { &[] });
    for finding in findings(verdict, rule) {
        xml.line(&format_args!(
            "{:>9} s  {}",
            Seconds(finding.at),
            finding.text()
        ));
    }
    xml.line(&rule.about());
    xml.line(&format_args!(
        "docs/inside/wire.md, section {}, {}",
        rule.section(),
        rule.item()
    ));
    xml.close(tag);
}

/// The beginning of a page. It loads nothing and runs nothing.
const HTML_HEAD: &str = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width\">\n\
    <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
    <style>:root{color-scheme:light dark}body{font:16px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
    table{border-collapse:collapse}th,td{border:1px solid #8888;padding:.3rem .6rem;text-align:left;vertical-align:top}\
    dl{display:grid;grid-template-columns:auto 1fr;gap:0 1rem}dd{margin:0}pre{overflow:auto;border:1px solid #8888;padding:.6rem}\
    .broken{background:#b3261e;color:#fff}.warned{background:#ffd34d;color:#000}.passed{background:#1e6b34;color:#fff}</style>\n";

/// A line of NDJSON. Times are in milliseconds since the server started.
#[derive(Serialize)]
#[serde(tag = "report", rename_all = "snake_case")]
enum ReportLine<'a> {
    Client {
        machine: &'a str,
        scenario: &'a str,
        clean: bool,
        polls: u64,
        documents: u64,
        longest_gap_ms: u64,
        average_gap_ms: u64,
        /// Whether it was shown an event that it has to deal with.
        tested: bool,
    },
    Exit {
        machine: &'a str,
        outcome: &'a str,
        code: Option<i32>,
        message: &'a str,
    },
    Event {
        machine: &'a str,
        event_id: &'a str,
        event_type: &'a str,
        announced_ms: u64,
        not_before_ms: Option<u64>,
        seen_ms: Option<u64>,
        approved_ms: Option<u64>,
        started_ms: Option<u64>,
        ended_ms: Option<u64>,
        approval_delay_ms: Option<u64>,
        share_of_notice: Option<f64>,
    },
    Rule {
        machine: &'a str,
        rule: &'a str,
        outcome: &'a str,
        findings: u64,
        level: &'a str,
        section: u8,
        item: &'a str,
        about: &'a str,
        /// Why it was not checked.
        reason: Option<String>,
    },
    Finding {
        machine: &'a str,
        rule: &'a str,
        at_ms: u64,
        event_id: Option<&'a str>,
        message: &'a str,
        times: u64,
    },
}

/// A verdict in some lines for people, without the characters that a terminal would interpret: a
/// line with the sums, the measured values, and a line for each rule with findings. `clean` alone in the first line means that
/// nothing was found, and that no rule needs a lower speed to be checked.
///
/// ```
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
/// let text = server.finish().to_string();
/// assert!(text.starts_with("WestNO_0: not tested; 0 rules kept, 0 broken, "), "{text}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = |outcome| self.rules_with(outcome).count();
        let kept = with(Outcome::Passed);
        let has_warnings = with(Outcome::Warned) > 0;
        let word = match (self.has_failed(), self.was_tested()) {
            (true, _) => "not clean",
            (false, false) => "not tested",
            // Who reads no further must not take this for more than it is.
            (false, true) => match (self.is_too_fast(), has_warnings) {
                (false, false) => "clean",
                (false, true) => "clean but for warnings",
                (true, false) => "clean as far as checked",
                (true, true) => "clean as far as checked, but for warnings",
            },
        };
        write!(
            f,
            "{}: {word}; {kept} rule{} kept, {} broken, {} with a warning, {} not checked",
            Printable(self.machine()),
            if kept == 1 { "" } else { "s" },
            with(Outcome::Failed),
            with(Outcome::Warned),
            with(Outcome::NotChecked),
        )?;
        for (name, value) in measures(self) {
            write!(f, "\n  {}: {}", Printable(&name), Printable(&value))?;
        }
        if let Some(exit) = self.exit() {
            let word = match exit.outcome() {
                Outcome::Failed => "broken",
                Outcome::NotChecked => "not checked",
                Outcome::Passed | Outcome::Warned => "kept",
            };
            write!(f, "\n  {word} {}: {exit}", ClientExit::ID)?;
        }
        for rule in Rule::ALL {
            let word = match self.outcome(*rule) {
                Outcome::Failed => "broken",
                Outcome::Warned => "warning",
                Outcome::Passed | Outcome::NotChecked => continue,
            };
            write!(f, "\n  {word} at ")?;
            let mut more = self.count(*rule);
            if let Some(first) = findings(self, *rule).next() {
                let text = format!("{:.1} s: {first}", first.at.as_secs_f64());
                write!(f, "{}", Printable(&text))?;
                more = more.saturating_sub(first.times);
            }
            if more > 0 {
                write!(f, "; {more} more")?;
            }
        }
        // One line for each reason, in the order of the rules.
        let mut reasons = Vec::<(String, Vec<&str>)>::new();
        for rule in Rule::ALL {
            let Some(reason) = self.reason(*rule) else {
                continue;
            };
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, rules)) => rules.push(rule.id()),
                None => reasons.push((reason, vec![rule.id()])),
            }
        }
        for (reason, rules) in reasons {
            write!(f, "\n  not checked {}: {reason}", rules.join(", "))?;
        }
        Ok(())
    }
}

/// The measured values, as names and values for people.
///
/// ```
/// use scheduled_events_replay::verdict::report::measures;
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
/// assert_eq!(measures(&server.verdict(0))[0], ("polls".to_owned(), "0".to_owned()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn measures(verdict: &Verdict) -> Vec<(String, String)> {
    let polls = verdict.polls();
    let mut measures = vec![
        ("polls".to_owned(), polls.count.to_string()),
        ("documents".to_owned(), polls.documents.to_string()),
        (
            "longest gap between polls".to_owned(),
            format!("{} s", Seconds(polls.longest_gap)),
        ),
        (
            "average gap between polls".to_owned(),
            format!("{} s", Seconds(polls.average_gap)),
        ),
    ];
    measures.extend(verdict.events().iter().map(|event| {
        (
            format!("{} {}", event.event_type, event.event_id),
            times(event),
        )
    }));
    measures
}

fn times(event: &EventTimes) -> String {
    let mut text = match event.seen {
        Some(seen) => format!(
            "seen {} s after its announcement",
            Seconds(seen.saturating_sub(event.announced))
        ),
        None => "not seen".to_owned(),
    };
    if let Some(delay) = event.approval_delay() {
        let _ = write!(text, ", approved after {} s", Seconds(delay));
    }
    if let Some(share) = event.share_of_notice() {
        let _ = write!(
            text,
            ", when {:.0} % of the notice had passed",
            share * 100.0
        );
    }
    text
}

fn findings(verdict: &Verdict, rule: Rule) -> impl Iterator<Item = &Finding> {
    verdict
        .findings()
        .iter()
        .filter(move |finding| finding.rule == rule)
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A time in seconds.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:03}", self.0.as_secs(), self.0.subsec_millis());
        f.pad(&text)
    }
}
