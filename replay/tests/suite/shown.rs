//! The verdict on an approval depends on what the client was shown, not on what the scenario knows.

use scheduled_events_replay::Verdict;
use scheduled_events_replay::verdict::{Outcome, Rule};

use super::*;

const UNREADABLE: Rule = Rule::ApprovedUnreadable;
const OTHER: Rule = Rule::ApprovedOther;

fn failed(verdict: &Verdict) -> Vec<Rule> {
    verdict.rules_with(Outcome::Failed).collect()
}

fn messages(verdict: &Verdict) -> Vec<&str> {
    let of_approvals = |rule| [UNREADABLE, OTHER].contains(&rule);
    let findings = verdict.findings().iter();
    findings
        .filter(|finding| of_approvals(finding.rule))
        .map(|finding| finding.message.as_str())
        .collect()
}

#[test]
fn an_approval_of_what_nobody_can_read_is_a_finding() {
    for (fault, rules, message) in [
        ("member:EventType", &[UNREADABLE][..], "no EventType"),
        (
            "member:EventType,7",
            &[UNREADABLE],
            "an unreadable EventType",
        ),
        (
            r#"member:EventType,"""#,
            &[UNREADABLE],
            "an unreadable EventType",
        ),
        ("member:EventStatus", &[UNREADABLE], "no EventStatus"),
        (
            "member:EventSource,7",
            &[UNREADABLE],
            "an unreadable EventSource",
        ),
        (
            r#"member:DurationInSeconds,"unknown""#,
            &[UNREADABLE],
            "an unreadable DurationInSeconds",
        ),
        ("member:Resources", &[OTHER, UNREADABLE], "no Resources"),
        (
            r#"member:Resources,"WestNO_0""#,
            &[OTHER, UNREADABLE],
            "an unreadable Resources",
        ),
        (
            r#"member:Resources,[7,"WestNO_0"]"#,
            &[UNREADABLE],
            "an unreadable Resources",
        ),
        ("repeated-id", &[UNREADABLE], "its EventId twice"),
    ] {
        let server = faulty(&[fault]);
        let id = event_id(&get(&server, EVENTS).json(), 0);
        assert_eq!(
            server.verdict(0).outcome(UNREADABLE),
            Outcome::Passed,
            "{fault}"
        );
        assert_eq!(
            approve(&server, &[&id.to_lowercase()]).status,
            200,
            "{fault}"
        );
        let verdict = server.verdict(0);
        assert_eq!(failed(&verdict), rules, "{fault}");
        let messages = messages(&verdict);
        assert!(
            messages[0].contains(&format!("shown with {message}")),
            "{fault}: {messages:?}"
        );
    }
}

#[test]
fn an_approval_of_what_is_shown_with_another_status_is_a_finding() {
    for status in ["Completed", "Canceled", "Pending"] {
        let fault = format!("member:EventStatus,\"{status}\"");
        let server = faulty(&[&fault]);
        let id = event_id(&get(&server, EVENTS).json(), 0);
        assert_eq!(
            server.verdict(0).outcome(Rule::ApprovedStarted),
            Outcome::Passed
        );
        assert_eq!(approve(&server, &[&id]).status, 200, "{fault}");
        let verdict = server.verdict(0);
        assert_eq!(failed(&verdict), [Rule::ApprovedStarted], "{fault}");
        let found = verdict
            .findings()
            .iter()
            .find(|found| found.rule == Rule::ApprovedStarted);
        assert_eq!(
            found.map(|found| found.message.as_str()),
            Some("found the Freeze in StartRequests, shown as neither Scheduled nor Started")
        );
    }
}

#[test]
fn an_approval_of_what_can_be_read_is_none() {
    for fault in [
        r#"member:Description,"""#,
        "member:NotBefore",
        // As at older versions.
        "member:EventSource",
        "member:DurationInSeconds",
        r#"member:DurationInSeconds,"5""#,
        r#"member:Resources,["another","westno_0"]"#,
        r#"member:EventType,"Cool""#,
        "clock:600",
    ] {
        let server = faulty(&[fault]);
        let id = event_id(&get(&server, EVENTS).json(), 0);
        assert_eq!(approve(&server, &[&id]).status, 200, "{fault}");
        let verdict = server.verdict(0);
        assert_eq!(failed(&verdict), [], "{fault}: {:?}", verdict.findings());
        assert_eq!(verdict.outcome(UNREADABLE), Outcome::NotChecked, "{fault}");
        // It was shown no event of another machine.
        assert_eq!(verdict.outcome(OTHER), Outcome::NotChecked, "{fault}");
    }
}

#[test]
fn names_are_those_that_were_shown() {
    for (fault, message) in [
        (
            r#"member:Resources,["WestNO_1"]"#,
            "found the Freeze of WestNO_1 in StartRequests",
        ),
        (
            "member:Resources,[]",
            "found the Freeze of no machine in StartRequests",
        ),
    ] {
        let server = faulty(&[fault]);
        let id = event_id(&document(&server), 0);
        approve(&server, &[&id]);
        let verdict = server.verdict(0);
        assert_eq!(failed(&verdict), [OTHER], "{fault}");
        assert_eq!(messages(&verdict), [message]);
    }
    // A neighbour's event that is shown as this machine's, and a version that puts `_` before names.
    let neighbours = STEADY.replace("event_type", "resources = [\"{peer:1}\"]\nevent_type");
    for (target, names) in [
        (EVENTS, r#"member:Resources,["WestNO_0"]"#),
        (
            "/metadata/scheduledevents?api-version=2017-03-01",
            r#"member:Resources,["_WestNO_0"]"#,
        ),
    ] {
        let scenario = Scenario::parse(&neighbours).expect("valid");
        let server = start(ServerConfig::new(scenario).fault(names.parse().expect(names)));
        let id = event_id(&get(&server, target).json(), 0);
        approve(&server, &[&id]);
        let verdict = server.verdict(0);
        assert_eq!(failed(&verdict), [], "{:?}", verdict.findings());
    }
}

#[test]
fn an_id_is_known_if_it_was_shown() {
    let server = faulty(&[r#"member:EventId,"another""#]);
    assert_eq!(event_id(&document(&server), 0), "another");
    approve(&server, &["another"]);
    assert_eq!(failed(&server.verdict(0)), []);
    approve(&server, &["unknown"]);
    assert_eq!(failed(&server.verdict(0)), [Rule::StartRequests]);
}

#[test]
fn the_status_is_the_one_that_was_shown() {
    let server = faulty(&[r#"member:EventStatus,"Started""#]);
    let id = event_id(&document(&server), 0);
    approve(&server, &[&id]);
    assert_eq!(failed(&server.verdict(0)), [Rule::ApprovedStarted]);
    let server = faulty(&[r#"member:EventStatus,"Scheduled""#]);
    let id = event_id(&document(&server), 0);
    assert!(server.step());
    assert_eq!(statuses(&document(&server)), ["Scheduled"]);
    approve(&server, &[&id]);
    assert_eq!(failed(&server.verdict(0)), []);
}

#[test]
fn the_last_document_before_the_approval_counts() {
    // Readable, then not: what was known before is no excuse.
    let server = faulty(&["member:EventStatus@2"]);
    let id = event_id(&document(&server), 0);
    document(&server);
    approve(&server, &[&id]);
    assert_eq!(failed(&server.verdict(0)), [UNREADABLE]);
    // Not readable, then without the event or without a document.
    for later in ["vanish@2", "empty@2", "half-document@2", "status:500@2"] {
        let server = faulty(&["member:EventStatus@1-2", later]);
        let id = event_id(&document(&server), 0);
        get(&server, EVENTS);
        approve(&server, &[&id]);
        let both = [Rule::StartRequests, UNREADABLE];
        let expected = &both[usize::from(!later.starts_with("vanish"))..];
        assert_eq!(failed(&server.verdict(0)), expected, "{later}");
    }
    // Not readable, then readable: also if the client may not have received that, or unpacked it.
    for later in ["clock:0", "slow-body:1@2", "gzip@2"] {
        let server = faulty(&["member:EventStatus@1", later]);
        let id = event_id(&document(&server), 0);
        get(&server, EVENTS);
        approve(&server, &[&id]);
        let verdict = server.verdict(0);
        assert_eq!(failed(&verdict), [], "{later}: {:?}", verdict.findings());
        assert_eq!(verdict.outcome(UNREADABLE), Outcome::Passed, "{later}");
    }
    // Readable, then a document that is not, which the client may not have received.
    let server = faulty(&["member:EventStatus@2", "slow-body:1@2"]);
    let id = event_id(&document(&server), 0);
    document(&server);
    approve(&server, &[&id]);
    assert_eq!(failed(&server.verdict(0)), []);
}

#[test]
fn the_end_of_an_event_makes_it_no_more_readable() {
    let server = faulty(&["repeated-id@1"]);
    let id = event_id(&document(&server), 0);
    while server.step() {}
    approve(&server, &[&id]);
    assert_eq!(failed(&server.verdict(0)), [UNREADABLE]);
}

#[test]
fn an_event_that_nobody_can_read_need_not_be_approved() {
    let two = format!(
        "{STEADY}{}",
        STEADY
            .split_once('\n')
            .and_then(|(_, rest)| rest.split_once('\n'))
            .expect("an event")
            .1
    );
    let scenario = Scenario::parse(&two).expect("valid");
    let fault = "get.member:EventType@2".parse().expect("a fault");
    let server = start(ServerConfig::new(scenario).fault(fault));
    let first = event_id(&document(&server), 0);
    approve(&server, &[&first]);
    document(&server);
    while server.step() {}
    let verdict = server.verdict(0);
    assert_eq!(
        verdict.outcome(Rule::NotApproved),
        Outcome::NotChecked,
        "{:?}",
        verdict.findings()
    );
}

#[test]
fn a_redirect_is_not_followed_only_where_that_would_be_seen() {
    for (fault, followed, outcome) in [
        ("redirect:302@1", None, Outcome::Passed),
        ("redirect:302@1", Some("/redirected"), Outcome::Failed),
        (
            "redirect:302,/elsewhere@1",
            Some("/elsewhere"),
            Outcome::Failed,
        ),
        (
            "redirect:302,http://169.254.169.254/x@1",
            None,
            Outcome::Passed,
        ),
        (
            "redirect:302,http://127.0.0.1:9/@1",
            None,
            Outcome::NotChecked,
        ),
        (
            "redirect:302,http://127.0.0.1:9@1",
            Some("/"),
            Outcome::Failed,
        ),
    ] {
        let server = faulty(&[fault]);
        assert_eq!(get(&server, EVENTS).status, 302, "{fault}");
        if let Some(path) = followed {
            assert_eq!(get(&server, path).status, 404, "{fault}");
        }
        let verdict = server.verdict(0);
        assert_eq!(verdict.outcome(Rule::Redirect), outcome, "{fault}");
    }
}
