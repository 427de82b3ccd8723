//! Verdicts as the page shows them, and as reports.

use std::time::Duration;

use scheduled_events_replay::verdict::report::{ReportFormat, VerdictReport, measures};
use scheduled_events_replay::verdict::{Level, Outcome, Rule, Verdict};
use serde_json::{Value, json};

use crate::run::Run;

/// A line for each machine: how many rules its client broke.
pub(crate) fn summaries(run: &Run) -> Value {
    let number = run.server.machines().len();
    (0..number)
        .map(|machine| summary(&run.server.verdict(machine)))
        .collect()
}

fn summary(verdict: &Verdict) -> Value {
    let with = |outcome| verdict.rules_with(outcome).count();
    json!({
        // So far: a client that has not polled yet has broken nothing.
        "clean": !verdict.breaks_a_rule(),
        "polls": verdict.polls().count,
        "passed": with(Outcome::Passed),
        "broken": with(Outcome::Failed),
        "warned": with(Outcome::Warned),
    })
}

/// The verdict on the client of one machine, with each rule.
pub(crate) fn details(run: &Run, machine: usize) -> Value {
    let verdict = run.server.verdict(machine);
    let rules: Vec<_> = Rule::ALL
        .iter()
        .map(|rule| {
            let findings = verdict.findings().iter().filter(|finding| finding.rule == *rule);
            json!({
                "rule": rule.id(),
                "must": rule.level() == Level::Must,
                "section": rule.section(),
                "item": rule.item(),
                "about": rule.about(),
                "outcome": verdict.outcome(*rule).word(),
                "reason": verdict.reason(*rule),
                "count": verdict.count(*rule),
                "findings": findings.map(|it| json!({"at": ms(it.at), "message": it.message, "times": it.times})).collect::<Vec<_>>(),
            })
        })
        .collect();
    let measures: Vec<_> = measures(&verdict)
        .into_iter()
        .map(|(name, value)| json!([name, value]))
        .collect();
    json!({"machine": machine, "summary": summary(&verdict), "measures": measures, "rules": rules})
}

/// The report on all clients.
pub(crate) fn report(run: &Run, format: ReportFormat) -> String {
    let verdicts: Vec<_> = (0..run.server.machines().len())
        .map(|machine| run.server.verdict(machine))
        .collect();
    let (scenario, timeline) = (run.settings.name.as_str(), run.journal.lines());
    let duration = run.journal.now();
    VerdictReport {
        scenario,
        started: run.started,
        duration,
        verdicts: &verdicts,
        timeline: &timeline,
    }
    .write(format)
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::sync::Arc;

    use super::*;
    use crate::run::Player;
    use crate::settings::Settings;

    fn run() -> Arc<Run> {
        let settings = Settings::load("preempt").expect("a built-in name");
        Player::new(settings, ([127, 0, 0, 1], 0).into(), None)
            .expect("a run")
            .current()
    }

    /// The rules that a client has broken after it has also sent these requests.
    fn broken(run: &Run, targets: &[&str]) -> Vec<&'static str> {
        for target in targets {
            let mut stream = TcpStream::connect(run.server.addr()).expect("the machine");
            let head = format!(
                "GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nMetadata: true\r\nUser-Agent: test\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).expect("a request");
            stream
                .read_to_string(&mut String::new())
                .expect("an answer");
        }
        let verdict = run.server.verdict(0);
        let broken = verdict.rules_with(Outcome::Failed);
        broken.map(Rule::id).collect()
    }

    #[test]
    fn a_client_may_ask_for_a_token_in_the_versions_of_tokens() {
        let token =
            "/metadata/identity/oauth2/token?resource=https://storage.azure.com/&api-version=";
        assert_eq!(broken(&run(), &[&format!("{token}2018-02-01")]), [""; 0]);
        assert_eq!(
            broken(&run(), &[&format!("{token}2020-07-01")]),
            ["api-version"]
        );
        assert_eq!(
            broken(
                &run(),
                &["/metadata/scheduledevents?api-version=2018-02-01"]
            ),
            ["api-version"]
        );
    }

    #[test]
    fn a_client_may_end_once_the_removal_of_its_machine_is_approved() {
        let poll = "/metadata/scheduledevents?api-version=2020-07-01";
        for (approves, expected) in [(false, &["stops-polling"][..]), (true, &[])] {
            let run = run();
            broken(&run, &[poll]);
            assert!(run.server.step(), "the Preempt appears");
            broken(&run, &[poll]);
            if approves {
                let id = run.server.document().events[0].facts.event_id.clone();
                run.server.approve(&id);
            }
            run.server.client_ended(0);
            assert_eq!(broken(&run, &[]), expected);
        }
    }
}
