//! Tests of the rules with times as arguments: a client is a list of requests and their answers.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::fault::plan::RequestKind;
use crate::http::ReplayRequest;
use crate::http::wire::ApiVersion;
use crate::timeline::document::{DocumentEvent, EventFacts};

const TARGET: &str = "/metadata/scheduledevents?api-version=2020-07-01";

/// A client of `WestNO_0`, and the documents that it gets.
struct Client {
    verdict: Verdict,
    shown: Vec<(Arc<EventFacts>, bool)>,
    retry_after: Option<Duration>,
    /// How long the service took for each answer.
    took: Duration,
    is_slow: bool,
    is_broken: bool,
    /// Whether documents show another machine's event.
    shows_any: bool,
}

fn seconds(time: f64) -> Duration {
    Duration::from_secs_f64(time)
}

impl Client {
    fn new() -> Self {
        Self {
            verdict: Verdict::new("WestNO_0".to_owned(), true),
            shown: Vec::new(),
            retry_after: None,
            took: Duration::ZERO,
            is_slow: false,
            is_broken: false,
            shows_any: false,
        }
    }

    fn send(&mut self, kind: RequestKind, at: f64, status: impl Into<Option<u16>>) {
        let status = status.into();
        let (method, body) = match kind {
            RequestKind::EventsPost => ("POST", r#"{"StartRequests":[{"EventId":"A"}]}"#),
            _ => ("GET", ""),
        };
        let fields = [("Metadata", "true"), ("User-Agent", "test")];
        let request = ReplayRequest {
            method: method.to_owned(),
            target: TARGET.to_owned(),
            headers: fields
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            body: body.into(),
            keep_alive: true,
        };
        let is_poll = kind == RequestKind::EventsGet;
        let approves = [("A".to_owned(), Some(facts()))];
        self.verdict.exchange(&Exchange {
            kind: Some(kind),
            answered: seconds(at) + self.took,
            status,
            retry_after: self.retry_after,
            is_intact: status == Some(200),
            is_slow: self.is_slow,
            is_broken: self.is_broken,
            shown: if is_poll { &self.shown } else { &[] },
            shows_any: is_poll && (self.shows_any || !self.shown.is_empty()),
            approves: if is_poll { &[] } else { &approves },
            ..Exchange::unanswered(&request, seconds(at), ApiVersion::STABLE)
        });
    }

    fn poll(&mut self, at: f64, status: impl Into<Option<u16>>) {
        self.send(RequestKind::EventsGet, at, status);
    }

    fn approve(&mut self, at: f64, status: impl Into<Option<u16>>) {
        self.send(RequestKind::EventsPost, at, status);
    }

    /// Changes the event.
    fn event(&mut self, at: f64, kind: TransitionKind) {
        let started = kind == TransitionKind::Started;
        let event = DocumentEvent {
            facts: facts(),
            started,
            not_before: (!started).then_some(seconds(100.0)),
        };
        self.shown = match kind {
            TransitionKind::Cancelled | TransitionKind::Gone => Vec::new(),
            _ => vec![(facts(), started)],
        };
        let transition = Transition::Event {
            at: seconds(at),
            kind,
            event,
            incarnation: 2,
        };
        self.verdict.transition(&transition, Duration::ZERO);
    }

    /// The rules for which there are findings, and those that were checked without any.
    fn concluded(&self, now: f64) -> Verdict {
        self.concluded_after(now, None)
    }

    /// The same, if the scenario ended at a time.
    fn concluded_after(&self, now: f64, over: Option<f64>) -> Verdict {
        let mut verdict = self.verdict.clone();
        verdict.conclude(seconds(now), 1.0, over.map(seconds));
        verdict
    }
}

fn facts() -> Arc<EventFacts> {
    Arc::new(EventFacts {
        event_id: "A".to_owned(),
        event_type: "Freeze".to_owned(),
        event_source: "Platform".to_owned(),
        description: String::new(),
        duration_in_seconds: 9,
        resources: vec!["WestNO_0".to_owned()],
        is_advisory: false,
    })
}

/// The outcome of `back-off` for a client that waits these times after polls with these statuses.
fn after_failures(statuses: &[Option<u16>], waits: &[f64], retry_after: Option<u64>) -> Outcome {
    let mut client = Client::new();
    client.retry_after = retry_after.map(Duration::from_secs);
    let mut at = 0.0;
    for (number, wait) in [0.0].iter().chain(waits).enumerate() {
        at += wait;
        client.poll(at, statuses[number % statuses.len()]);
    }
    client.concluded(at).outcome(Rule::BackOff)
}

#[test]
fn a_client_backs_off_from_every_status_that_asks_for_it_and_from_lost_connections() {
    let hasty = [0.3; 3];
    let patient = [1.0, 2.0, 4.0];
    for status in [401, 403, 404, 408, 410, 429, 500, 503] {
        let statuses = [Some(status)];
        assert_eq!(
            after_failures(&statuses, &hasty, None),
            Outcome::Warned,
            "{status}"
        );
        assert_eq!(
            after_failures(&statuses, &patient, None),
            Outcome::Passed,
            "{status}"
        );
    }
    assert_eq!(after_failures(&[None], &hasty, None), Outcome::Warned);
    assert_eq!(
        after_failures(&[None, Some(503)], &hasty, None),
        Outcome::Warned
    );
    assert_eq!(after_failures(&[None], &patient, None), Outcome::Passed);
    // 200, as for a document.
    assert_eq!(
        after_failures(&[Some(200)], &hasty, None),
        Outcome::NotChecked
    );
}

#[test]
fn a_client_backs_off_from_answers_that_nobody_can_read() {
    for (is_broken, expected) in [(true, Outcome::Warned), (false, Outcome::NotChecked)] {
        let mut client = Client::new();
        client.is_broken = is_broken;
        for second in 0..5 {
            client.poll(f64::from(second), 200);
        }
        assert_eq!(client.concluded(5.0).outcome(Rule::BackOff), expected);
    }
}

#[test]
fn a_client_goes_on_backing_off() {
    let waits = |waits: &[f64]| after_failures(&[Some(503)], waits, None);
    assert_eq!(waits(&[0.3, 0.6, 1.2, 0.1, 0.1, 0.1]), Outcome::Warned);
    assert_eq!(waits(&[6.0, 0.2, 0.2, 0.2]), Outcome::Warned);
    // With jitter of one half, up to a limit.
    assert_eq!(
        waits(&[1.0, 1.0, 2.0, 4.0, 4.0, 5.0, 8.0, 5.0, 5.1]),
        Outcome::Passed
    );
    assert_eq!(waits(&[0.5, 1.0, 2.0, 3.0, 3.0, 3.0]), Outcome::Passed);
    assert_eq!(waits(&[5.0; 6]), Outcome::Passed);
    // The first one came late.
    assert_eq!(waits(&[2.5, 2.0, 3.0, 3.5]), Outcome::Passed);
    assert_eq!(waits(&[0.0, 1.0, 1.0, 1.0]), Outcome::Warned);
}

#[test]
fn a_client_that_waits_as_long_as_it_was_asked_to_need_not_wait_longer() {
    let waits = |wait, asked| after_failures(&[Some(429)], &[wait; 4], Some(asked));
    assert_eq!(waits(0.3, 3), Outcome::Warned);
    assert_eq!(waits(1.0, 3600), Outcome::Warned);
    assert_eq!(waits(3.0, 3), Outcome::Passed);
    assert_eq!(waits(10.0, 3600), Outcome::Passed);
    assert_eq!(
        after_failures(&[Some(429)], &[1.0, 2.0, 4.0], Some(3)),
        Outcome::Passed
    );
}

#[test]
fn why_back_off_was_not_checked_is_true() {
    let mut client = Client::new();
    for second in 0..3 {
        client.poll(f64::from(second), 503);
    }
    let reason = client
        .concluded(3.0)
        .reason(Rule::BackOff)
        .expect("a reason");
    assert_eq!(
        reason,
        "no poll followed three in a row from which a client backs off: without a readable answer, or with 401, 403, 404, 408, 410, 429 or 5xx"
    );
}

/// The outcome of `request-rate` for a client that polls so often for a time.
fn at_rate(gap: f64, time: f64) -> Outcome {
    let mut client = Client::new();
    let mut at = 0.0;
    while at < time {
        client.poll(at, 200);
        at += gap;
    }
    client.concluded(at).outcome(Rule::RequestRate)
}

#[test]
fn the_rate_of_requests_counts_in_the_long_run_too() {
    assert_eq!(at_rate(0.15, 20.0), Outcome::Failed);
    assert_eq!(at_rate(0.05, 1.0), Outcome::Failed);
    assert_eq!(at_rate(0.2, 20.0), Outcome::Passed);
    assert_eq!(at_rate(1.0, 20.0), Outcome::Passed);
    // Too short to show whether it lasts.
    assert_eq!(at_rate(0.15, 2.0), Outcome::NotChecked);
    assert_eq!(at_rate(1.0, 5.0), Outcome::NotChecked);
}

#[test]
fn a_client_that_was_answered_at_once_polls_again_soon_before_the_first_document_too() {
    let second_poll = |is_slow, at| {
        let mut client = Client::new();
        client.is_slow = is_slow;
        client.poll(0.0, 503);
        client.poll(at, 200);
        client.concluded(at).outcome(Rule::PollGap)
    };
    assert_eq!(second_poll(false, 20.0), Outcome::Failed);
    assert_eq!(second_poll(false, 15.0), Outcome::NotChecked);
    assert_eq!(second_poll(true, 140.0), Outcome::NotChecked);
    let mut silent = Client::new();
    silent.poll(0.0, 503);
    assert_eq!(
        silent.concluded(20.0).outcome(Rule::GaveUp),
        Outcome::Failed
    );
}

#[test]
fn an_approval_that_may_not_be_made_now_is_repeated() {
    for (status, expected) in [
        (401, Outcome::Failed),
        (403, Outcome::Failed),
        (429, Outcome::Failed),
        (400, Outcome::NotChecked),
    ] {
        let mut client = Client::new();
        client.event(0.0, TransitionKind::Appeared);
        client.poll(0.5, 200);
        client.approve(1.0, status);
        for second in 2..30 {
            client.poll(f64::from(second), 200);
        }
        let verdict = client.concluded(30.0);
        assert_eq!(verdict.outcome(Rule::GaveUp), expected, "{status}");
    }
}

#[test]
fn approving_what_has_left_the_document_is_a_finding() {
    let mut client = Client::new();
    client.event(0.0, TransitionKind::Appeared);
    client.poll(0.5, 200);
    client.event(1.0, TransitionKind::Cancelled);
    // The client does not know that yet.
    client.approve(1.1, 200);
    assert_eq!(
        client.concluded(1.2).outcome(Rule::StartRequests),
        Outcome::Passed
    );

    let mut client = Client::new();
    client.event(0.0, TransitionKind::Appeared);
    client.poll(0.5, 200);
    client.event(1.0, TransitionKind::Cancelled);
    client.poll(1.5, 200);
    client.approve(1.6, 200);
    let verdict = client.concluded(2.0);
    assert_eq!(verdict.outcome(Rule::StartRequests), Outcome::Failed);
    assert_eq!(
        verdict.findings()[0].message,
        "found the Freeze in StartRequests, which has left the document"
    );
}

#[test]
fn approvals_that_overlap_are_not_repeated_ones() {
    let second_at = |at| {
        let mut client = Client::new();
        client.event(0.0, TransitionKind::Appeared);
        client.poll(0.5, 200);
        client.took = seconds(0.2);
        client.approve(1.0, 200);
        client.approve(at, 200);
        client.concluded(2.0).outcome(Rule::ApprovedAgain)
    };
    assert_eq!(second_at(1.1), Outcome::NotChecked);
    assert_eq!(second_at(1.3), Outcome::Failed);
}

#[test]
fn an_event_that_a_document_lacked_may_be_approved_again_when_it_is_back() {
    let outcome = |lacks_it: bool| {
        let mut client = Client::new();
        client.event(0.0, TransitionKind::Appeared);
        client.poll(0.5, 200);
        client.approve(1.0, 200);
        if lacks_it {
            let shown = std::mem::take(&mut client.shown);
            client.poll(1.5, 200);
            client.shown = shown;
        }
        client.poll(2.0, 200);
        client.approve(2.5, 200);
        client.concluded(3.0).outcome(Rule::ApprovedAgain)
    };
    assert_eq!(outcome(false), Outcome::Failed);
    assert_eq!(outcome(true), Outcome::NotChecked);
}

#[test]
fn a_client_that_saw_no_event_of_its_own_was_not_tested() {
    let mut client = Client::new();
    client.poll(0.5, 200);
    let unseen = client.concluded(1.0);
    assert_eq!(unseen.untested(), Some(Untested::NoEvent));
    // A neighbour's event comes first.
    client.shows_any = true;
    client.poll(1.5, 200);
    let unseen = client.concluded(2.0);
    assert_eq!(unseen.untested(), Some(Untested::NoEventOfItsOwn));
    assert!(!unseen.is_clean());
    client.event(2.0, TransitionKind::Appeared);
    client.poll(2.5, 200);
    assert_eq!(client.concluded(3.0).untested(), None);

    // The scenario has none of this machine.
    let mut bystander = Client::new();
    bystander.verdict = Verdict::new("WestNO_9".to_owned(), false);
    bystander.shows_any = true;
    bystander.poll(0.5, 200);
    assert_eq!(bystander.concluded(1.0).untested(), None);
}

#[test]
fn the_time_of_polling_ends_with_the_last_poll() {
    let mut client = Client::new();
    client.poll(0.0, 200);
    client.poll(3.0, 200);
    let reason = client.concluded(14.0).reason(Rule::PollGap);
    assert_eq!(
        reason.as_deref(),
        Some("it polled for 3.0 s; a gap is longer than 15.5 s")
    );
}

#[test]
fn a_client_that_hangs_while_the_scenario_goes_on_is_found_after_its_end() {
    let outcome = |over: f64| {
        let mut client = Client::new();
        client.event(0.0, TransitionKind::Appeared);
        client.poll(0.5, 200);
        client.event(2.0, TransitionKind::Cancelled);
        client.poll(2.5, 200);
        // Another machine's event goes on.
        client
            .concluded_after(100.0, Some(over))
            .outcome(Rule::PollGap)
    };
    assert_eq!(outcome(50.0), Outcome::Failed);
    assert_eq!(outcome(10.0), Outcome::NotChecked);
}

#[test]
fn a_client_that_hangs_after_a_failure_while_the_scenario_goes_on_gave_up() {
    let outcome = |over: f64| {
        let mut client = Client::new();
        client.poll(0.5, 200);
        client.poll(1.5, 503);
        client
            .concluded_after(100.0, Some(over))
            .outcome(Rule::GaveUp)
    };
    assert_eq!(outcome(50.0), Outcome::Failed);
    assert_eq!(outcome(10.0), Outcome::NotChecked);
}

#[test]
fn approving_what_the_last_document_lacked_is_a_finding() {
    let outcome = |is_shown: bool| {
        let mut client = Client::new();
        client.event(0.0, TransitionKind::Appeared);
        client.poll(0.5, 200);
        let shown = client.shown.clone();
        client.shown.clear();
        client.poll(1.5, 200);
        if is_shown {
            client.shown = shown;
            client.poll(2.0, 200);
        }
        client.approve(2.5, 200);
        client.concluded(3.0).outcome(Rule::StartRequests)
    };
    assert_eq!(outcome(false), Outcome::Failed);
    assert_eq!(outcome(true), Outcome::Passed);
}

#[test]
fn an_approval_that_failed_is_not_repeated_for_what_a_document_lacked() {
    let outcome = |is_shown: bool| {
        let mut client = Client::new();
        client.event(0.0, TransitionKind::Appeared);
        client.poll(0.5, 200);
        client.approve(1.0, 503);
        if !is_shown {
            client.shown.clear();
        }
        for second in 2..30 {
            client.poll(f64::from(second), 200);
        }
        client.concluded(30.0).outcome(Rule::GaveUp)
    };
    assert_eq!(outcome(true), Outcome::Failed);
    assert_eq!(outcome(false), Outcome::NotChecked);
}

#[test]
fn a_client_that_waits_for_its_first_answer_misses_no_event() {
    let outcome = |is_slow: bool| {
        let mut client = Client::new();
        client.is_slow = is_slow;
        client.poll(0.0, 503);
        client.event(1.0, TransitionKind::Appeared);
        client.concluded(30.0).outcome(Rule::MissedEvent)
    };
    assert_eq!(outcome(false), Outcome::Failed);
    assert_eq!(outcome(true), Outcome::NotChecked);
}

#[test]
fn a_late_answer_to_an_abandoned_poll_is_no_poll_of_its_time() {
    let mut client = Client::new();
    client.event(0.0, TransitionKind::Appeared);
    client.poll(6.0, 200);
    client.poll(7.0, 200);
    client.took = seconds(120.0);
    client.poll(0.5, 200);
    let verdict = client.concluded(130.0);
    assert_eq!(verdict.outcome(Rule::StopsPolling), Outcome::Failed);
    assert_eq!(verdict.polls().count, 3);
}

#[test]
fn a_client_may_wait_as_long_as_retry_after_asks_but_not_beyond_the_shortest_notice() {
    let gap = |asked: u64, gap: f64| {
        let mut client = Client::new();
        client.poll(0.0, 200);
        client.retry_after = Some(Duration::from_secs(asked));
        client.poll(1.0, 429);
        client.retry_after = None;
        client.poll(1.0 + gap, 200);
        client.concluded(2.0 + gap).outcome(Rule::PollGap)
    };
    assert_eq!(gap(20, 20.0), Outcome::Passed);
    assert_eq!(gap(20, 25.0), Outcome::Failed);
    assert_eq!(gap(3600, 40.0), Outcome::Failed);
}

#[test]
fn an_approval_that_a_fault_refused_was_made_all_the_same() {
    let mut client = Client::new();
    client.event(0.0, TransitionKind::Appeared);
    client.poll(0.5, 200);
    client.approve(1.0, 400);
    client.event(2.0, TransitionKind::Started);
    client.poll(2.5, 200);
    assert_eq!(
        client.concluded(3.0).outcome(Rule::NotApproved),
        Outcome::Passed
    );
}
