//! Advice, and the version that shows it (`docs/inside/wire.md`, section 7).

use scheduled_events_replay::verdict::{Outcome, Rule};
use scheduled_events_replay::{ADVICE_API_VERSION, Finding};

use super::*;

fn advised(name: &str) -> ServerConfig {
    builtin(name).newest_api_version(ADVICE_API_VERSION)
}

/// Type and status of each event of a document in a version.
fn shown(server: &Server, target: &str) -> Vec<(String, String)> {
    let response = get(server, target);
    assert_eq!(response.status, 200, "{}", response.text());
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    events(&response.json())
        .iter()
        .map(|event| (text(&event["EventType"]), text(&event["EventStatus"])))
        .collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(one, two)| ((*one).to_owned(), (*two).to_owned()))
        .collect()
}

const ADVICE: (&str, &str) = ("SpotRebalanceRecommendation", "Advisory");

#[test]
fn advice_precedes_a_preempt_and_ends_with_it() {
    let server = start(advised("rebalance").speed(0.01));
    assert_eq!(shown(&server, ADVICE_EVENTS), []);
    assert!(server.step());
    assert_eq!(shown(&server, ADVICE_EVENTS), pairs(&[ADVICE]));
    let event = &get(&server, ADVICE_EVENTS).json()["Events"][0];
    assert_eq!(event["NotBefore"], "");
    assert!(server.step());
    assert_eq!(server.status().scenario_time.as_secs(), 190);
    let both = pairs(&[ADVICE, ("Preempt", "Scheduled")]);
    assert_eq!(shown(&server, ADVICE_EVENTS), both);
    assert!(server.step());
    let started = pairs(&[("Preempt", "Started")]);
    assert_eq!(shown(&server, ADVICE_EVENTS), started);
    assert!(server.step() && !server.step() && server.finished());
}

#[test]
fn advice_may_be_withdrawn_without_an_eviction() {
    let (sender, receiver) = mpsc::channel();
    let server = start(
        advised("rebalance-withdrawn")
            .speed(0.01)
            .observer(sender)
            .seed(1),
    );
    get(&server, ADVICE_EVENTS);
    assert!(server.step() && server.step() && server.finished());
    assert_eq!(shown(&server, ADVICE_EVENTS), []);
    let lines: Vec<_> = receiver
        .iter()
        .take_while(|event| *event != ReplayEvent::Finished)
        .filter(|event| matches!(event, ReplayEvent::Event { .. }))
        .map(|event| event.to_string())
        .collect();
    let [appears, withdrawn] = &lines[..] else {
        panic!("{lines:?}")
    };
    assert!(
        appears.ends_with(" of WestNO_0 appears, as advice"),
        "{appears}"
    );
    assert!(
        withdrawn.ends_with(" of WestNO_0 is withdrawn"),
        "{withdrawn}"
    );
}

#[test]
fn older_versions_do_not_show_advice() {
    let server = start(advised("rebalance").speed(0.01));
    get(&server, EVENTS);
    assert!(server.step());
    assert_eq!(shown(&server, EVENTS), []);
    assert_eq!(shown(&server, ADVICE_EVENTS), pairs(&[ADVICE]));
}

#[test]
fn a_service_without_the_version_refuses_it_as_the_fault_says() {
    for (faults, status, has_list) in [
        (&[][..], 400, true),
        (&["unknown-version:400"], 400, false),
        (&["unknown-version:404"], 404, false),
        (&["get.unknown-version:404"], 404, false),
        (&["post.unknown-version:404"], 400, true),
        // Other faults leave such a request alone, and this one the others.
        (&["status:503@2-"], 400, true),
    ] {
        let server = faulty(faults);
        let refused = get(&server, ADVICE_EVENTS);
        assert_eq!(refused.status, status, "{faults:?}");
        let newest = &refused.json()["newest-versions"];
        assert_eq!(newest.is_array(), has_list, "{faults:?}");
        assert_eq!(events(&document(&server)).len(), 1, "{faults:?}");
    }
    let server = faulty(&["unknown-version:404@2", "unknown-version:200@3"]);
    let statuses = [1, 2, 3, 4].map(|_| {
        get(&server, EVENTS);
        get(&server, ADVICE_EVENTS).status
    });
    assert_eq!(statuses, [400, 404, 200, 400]);
    assert_eq!(start(advised("preempt")).requests().len(), 0);
    for (fault, expected) in [
        ("name.unknown-version:404", "remove the scope"),
        ("unknown-version", "write unknown-version:CODE"),
    ] {
        let error = fault.parse::<Fault>().expect_err(fault).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_service_may_be_older_than_the_newest_documented_version() {
    let server = start(steady().newest_api_version("2019-08-01"));
    let refused = get(&server, EVENTS);
    assert_eq!(refused.status, 400);
    let versions = serde_json::json!(["2019-08-01", "2019-04-01", "2019-01-01"]);
    assert_eq!(refused.json()["newest-versions"], versions);
    let older = get(&server, &EVENTS.replace("2020-07-01", "2019-08-01"));
    assert_eq!(older.status, 200);
    let error = Server::start(steady().newest_api_version("2020-07-02")).expect_err("unknown");
    assert!(
        error.to_string().contains("2020-07-01, 2024-07-09"),
        "{error}"
    );
}

#[test]
fn an_approval_of_advice_is_a_finding_and_has_no_effect() {
    let server = start(advised("rebalance").speed(0.01));
    get(&server, ADVICE_EVENTS);
    assert!(server.step() && server.step());
    let document = get(&server, ADVICE_EVENTS).json();
    assert_eq!(
        server.verdict(0).outcome(Rule::ApprovedAdvice),
        Outcome::Passed
    );
    assert_eq!(approve(&server, &[&event_id(&document, 1)]).status, 200);
    assert!(server.verdict(0).is_clean());
    assert_eq!(approve(&server, &[&event_id(&document, 0)]).status, 200);
    let verdict = server.verdict(0);
    let rules: Vec<_> = verdict.rules_with(Outcome::Failed).collect();
    assert_eq!(rules, [Rule::ApprovedAdvice]);
    let of_rule = |finding: &&Finding| finding.rule == Rule::ApprovedAdvice;
    assert_eq!(
        verdict
            .findings()
            .iter()
            .find(of_rule)
            .expect("one")
            .message,
        "found the SpotRebalanceRecommendation in StartRequests, which an approval does not change"
    );
}

#[test]
fn a_client_that_needs_no_advice_and_leaves_it_is_clean() {
    let server = start(advised("rebalance-withdrawn").speed(0.01));
    get(&server, ADVICE_EVENTS);
    assert!(server.step());
    get(&server, ADVICE_EVENTS);
    // Nothing has to follow advice, so the client may end.
    server.client_ended(0);
    assert!(server.verdict(0).is_clean(), "{:?}", server.verdict(0));
    assert!(server.step());
    assert!(server.verdict(0).is_clean(), "{:?}", server.verdict(0));
}

#[test]
fn a_client_may_try_a_newer_version_but_not_blind_itself() {
    let failed = |requests: &[&str]| {
        let server = start(steady());
        for request in requests {
            get(&server, request);
        }
        server.client_ended(0);
        let verdict = server.verdict(0);
        let rules: Vec<_> = verdict.rules_with(Outcome::Failed).collect();
        let messages: Vec<_> = verdict
            .findings()
            .iter()
            .filter(|finding| finding.rule == Rule::Fallback)
            .map(|finding| finding.message.clone())
            .collect();
        (rules.contains(&Rule::Fallback), messages)
    };
    let (newer, older) = (ADVICE_EVENTS, EVENTS);
    assert!(!failed(&[older]).0);
    assert!(!failed(&[newer, older]).0);
    // Two programs of a machine.
    assert!(!failed(&[newer, newer, older, newer, older]).0);
    let (is_broken, messages) = failed(&[newer, newer, newer, newer, older]);
    assert!(is_broken);
    assert_eq!(
        messages,
        // Twice.
        ["found 3 requests in a row for version \"2024-07-09\", which the service does not have"]
    );
    let (is_broken, messages) = failed(&[older, newer]);
    assert!(is_broken);
    assert_eq!(
        messages,
        ["it ended after the service refused version \"2024-07-09\""]
    );
    // A version that no service has is wrong at once.
    let server = start(steady());
    get(&server, &EVENTS.replace("2020-07-01", "2024-07-10"));
    let verdict = server.verdict(0);
    assert_eq!(verdict.outcome(Rule::Version), Outcome::Failed);
}
