//! Which version of the API requests name.

use scheduled_events_core::{
    Action, AnswerOutcome, ApiVersion, Cause, EventKind, EventTypes, Policy, Preparation, Report,
    RequestOutcome, Response, Rule, Session, SessionConfig, SessionConfigError, Step, TrackedEvent,
    UnixMillis, VmNames,
};

use scheduled_events_core::limits::{ADVICE_UNSEEN_MAX_MS, STALE_GRACE_MS, VERSION_MISSES_MAX};

use crate::common::{START, VM, document, event};

const STABLE: &str = "2020-07-01";
const PREVIEW: &str = "2024-07-09";
const DAY_MS: u32 = 86_400_000;

/// How a service answers a poll.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Status(u16),
    Body(&'static str),
    Silence,
}

struct Watcher {
    session: Session<4>,
    now: UnixMillis,
    reports: Vec<String>,
}

fn policy() -> Policy {
    let event_types = EventTypes::of(&[EventKind::SpotRebalanceRecommendation]);
    let prepare = Rule {
        event_types,
        ..Rule::new(Action::Hold)
    };
    Policy::new(&[prepare, Rule::new(Action::Approve)]).unwrap()
}

impl Watcher {
    fn new(policy: Policy, api_version: ApiVersion<'_>) -> Self {
        let config = SessionConfig {
            policy,
            api_version,
            ..SessionConfig::new(VmNames::new(&[VM]))
        };
        Self {
            session: Session::new(&config).unwrap(),
            now: START,
            reports: Vec::new(),
        }
    }

    /// The version of the next poll, and after how many milliseconds it is sent.
    fn poll(&mut self) -> (String, u64) {
        let since = self.now;
        loop {
            match self.session.take_step(self.now) {
                Step::Get { api_version, .. } => {
                    let version = api_version.to_owned();
                    return (version, self.now.millis_since(since));
                }
                Step::Post { api_version, .. } => {
                    assert_eq!(api_version, STABLE);
                    let done = Response {
                        status: 200,
                        ..Response::default()
                    };
                    self.session.on_response(&done, self.now);
                }
                Step::Wait { until } => self.now = until,
                Step::Report(report) => {
                    if matches!(report, Report::NoAdvice | Report::Change { .. }) {
                        self.reports.push(report.to_string());
                    }
                }
                step => panic!("{step:?}"),
            }
        }
    }

    fn answer(&mut self, answer: Answer) -> RequestOutcome {
        let (status, body) = match answer {
            Answer::Silence => return self.session.on_failure(Cause::Timeout, self.now),
            Answer::Status(status) => (status, ""),
            Answer::Body(body) => (200, body),
        };
        let response = Response {
            status,
            body: body.as_bytes(),
            ..Response::default()
        };
        self.session.on_response(&response, self.now)
    }

    /// Answers with a status and a `Retry-After` of so many seconds.
    fn answer_later(&mut self, status: u16, seconds: u32) -> RequestOutcome {
        let response = Response {
            status,
            retry_after: Some(seconds),
            body: b"",
        };
        self.session.on_response(&response, self.now)
    }

    /// Answers one poll of this version, which is sent after this time at most.
    fn expect(&mut self, version: &str, within_ms: u64, answer: Answer) {
        let (found, after) = self.poll();
        assert_eq!(found, version, "{answer:?} at {:?}", self.now);
        assert!(after <= within_ms, "sent after {after} ms");
        self.answer(answer);
    }

    /// Answers all polls for less than this time, which are of this version, with one document. Returns the reports.
    fn expect_for(&mut self, time_ms: u32, version: &str, body: &'static str) -> Vec<String> {
        let begin = self.now;
        while self.now.millis_since(begin) + 2_000 < u64::from(time_ms) {
            self.expect(version, 1_000, Answer::Body(body));
        }
        self.take_reports()
    }

    /// Answers polls of the stable version with an empty document until one names the preview. Returns how many that were, and how
    /// long it took.
    fn until_preview(&mut self, within_ms: u64) -> (u64, u64) {
        let (since, mut polls) = (self.now, 0);
        loop {
            let (version, after) = self.poll();
            assert!(after <= within_ms, "sent after {after} ms");
            if version == PREVIEW {
                return (polls, self.now.millis_since(since));
            }
            polls += 1;
            self.answer(Answer::Body(EMPTY));
        }
    }

    fn take_reports(&mut self) -> Vec<String> {
        self.poll_reports();
        std::mem::take(&mut self.reports)
    }

    /// Takes the reports that are due, and begins no poll.
    fn poll_reports(&mut self) {
        while let Step::Report(report) = self.session.take_step(self.now) {
            if matches!(report, Report::NoAdvice | Report::Change { .. }) {
                self.reports.push(report.to_string());
            }
        }
    }
}

const EMPTY: &str = r#"{"DocumentIncarnation":1,"Events":[]}"#;
const ADVICE: &str = r#"{"DocumentIncarnation":2,"Events":[{"EventId":"a","EventStatus":"Advisory",
    "EventType":"SpotRebalanceRecommendation","Resources":["vm_1"]}]}"#;
const LATER: &str = r#"{"DocumentIncarnation":3,"Events":[]}"#;
const PREEMPT: &str = r#"{"DocumentIncarnation":2,"Events":[{"EventId":"p","EventStatus":"Scheduled",
    "EventType":"Preempt","Resources":["vm_1"]}]}"#;

#[test]
fn only_who_needs_advice_asks_for_its_version() {
    let any = Policy::new(&[Rule::new(Action::Prepare)]).unwrap();
    for (policy, choice, expected) in [
        (Policy::observe(), ApiVersion::Auto, STABLE),
        (any.clone(), ApiVersion::Auto, STABLE),
        (policy(), ApiVersion::Auto, PREVIEW),
        (any, ApiVersion::Advice, PREVIEW),
        (policy(), ApiVersion::Fixed("2019-08-01"), "2019-08-01"),
        (policy(), ApiVersion::Fixed(STABLE), STABLE),
    ] {
        let mut watcher = Watcher::new(policy, choice);
        for answer in [EMPTY, ADVICE, EMPTY] {
            watcher.expect(expected, 1_000, Answer::Body(answer));
        }
        if expected != PREVIEW {
            // A version that is not the preview has no other in its place.
            for status in [400, 404, 500] {
                watcher.expect(expected, 10_000, Answer::Status(status));
            }
            watcher.expect(expected, 10_000, Answer::Body(EMPTY));
            assert!(!watcher.take_reports().contains(&no_advice()));
        }
    }
    for version in ["", &"9".repeat(33)] {
        let config = SessionConfig {
            api_version: ApiVersion::Fixed(version),
            ..SessionConfig::new(VmNames::UNKNOWN)
        };
        let refused = Session::<4>::new(&config).err();
        assert_eq!(refused, Some(SessionConfigError::ApiVersion));
    }
}

fn no_advice() -> String {
    format!("no advice: the service does not know API version {PREVIEW}")
}

#[test]
fn a_service_that_does_not_know_the_version_is_asked_for_the_other_at_once_and_again_a_day_later() {
    for status in [400, 404] {
        let mut watcher = Watcher::new(policy(), ApiVersion::Auto);
        watcher.expect(PREVIEW, 0, Answer::Status(status));
        watcher.expect(STABLE, 200, Answer::Body(PREEMPT));
        let refused_at = watcher.now;
        assert_eq!(watcher.take_reports(), ["p: scheduled", &no_advice()]);
        while watcher.now.millis_since(refused_at) < u64::from(DAY_MS) - 60_000 {
            watcher.expect(STABLE, 60_000, Answer::Body(PREEMPT));
            watcher.now = watcher.now.plus(59_000);
        }
        watcher.now = refused_at.plus(DAY_MS);
        watcher.expect(PREVIEW, 1_000, Answer::Status(status));
        watcher.expect(STABLE, 200, Answer::Body(PREEMPT));
        watcher.expect(STABLE, 1_000, Answer::Body(PREEMPT));
        assert!(watcher.take_reports().is_empty(), "it is reported once");
        // A clock that is set back does not make the day longer.
        watcher.now = START;
        watcher.expect(STABLE, 10_000, Answer::Body(PREEMPT));
        watcher.now = watcher.now.plus(DAY_MS);
        watcher.expect(PREVIEW, 1_000, Answer::Body(ADVICE));
        assert_eq!(watcher.take_reports(), ["a: advised"]);
        assert!(
            watcher
                .expect_for(STALE_GRACE_MS, PREVIEW, ADVICE)
                .is_empty()
        );
        watcher.expect_for(4_000, PREVIEW, ADVICE);
        assert_eq!(watcher.session.events().count(), 1, "the Preempt is over");
    }
}

#[test]
fn an_answer_that_is_no_document_is_followed_by_one_request_for_the_other_version() {
    for bad in [
        Answer::Status(500),
        Answer::Status(429),
        Answer::Status(304),
        Answer::Status(410),
        Answer::Body(""),
        Answer::Body("<html>"),
        Answer::Body(r#"{"events":[]}"#),
        Answer::Silence,
    ] {
        let mut watcher = Watcher::new(policy(), ApiVersion::Auto);
        watcher.expect(PREVIEW, 0, Answer::Body(ADVICE));
        assert_eq!(watcher.take_reports(), ["a: advised"]);
        for _ in 0..3 {
            watcher.expect(PREVIEW, 1_000, bad);
            // It has no advice, and does not end any. What else it has counts.
            watcher.expect(STABLE, 1_000, Answer::Body(PREEMPT));
            assert_eq!(watcher.session.events().count(), 2, "{bad:?}");
        }
        assert_eq!(watcher.take_reports(), ["p: scheduled"]);
        // The same bytes as before: the maintenance that they do not have is over once they cannot be outdated any more.
        let held = watcher.expect_for(STALE_GRACE_MS, PREVIEW, ADVICE);
        assert!(held.is_empty(), "{bad:?}: {held:?}");
        let ended = watcher.expect_for(6_000, PREVIEW, ADVICE);
        assert_eq!(ended, ["p: ended"]);
        watcher.expect(PREVIEW, 1_000, Answer::Body(EMPTY));
        assert_eq!(watcher.take_reports(), ["a: advice-withdrawn"]);
        assert!(watcher.session.is_idle());
    }
}

#[test]
fn a_service_that_refuses_both_versions_does_not_count_as_one_that_does_not_know_the_newer() {
    let mut watcher = Watcher::new(policy(), ApiVersion::Auto);
    watcher.expect(PREVIEW, 0, Answer::Status(404));
    watcher.expect(STABLE, 200, Answer::Status(404));
    watcher.expect(STABLE, 10_000, Answer::Silence);
    watcher.expect(STABLE, 10_000, Answer::Body(EMPTY));
    watcher.expect(PREVIEW, 1_000, Answer::Body(ADVICE));
    assert_eq!(watcher.take_reports(), ["a: advised"]);
}

/// The advice stays until there is enough evidence that nobody can see it any more.
#[test]
fn a_version_that_has_worked_is_given_up_after_refusals_over_a_minute() {
    let mut watcher = Watcher::new(policy(), ApiVersion::Auto);
    watcher.expect(PREVIEW, 0, Answer::Body(ADVICE));
    watcher.take_reports();
    watcher.expect(PREVIEW, 1_000, Answer::Status(404));
    watcher.expect(STABLE, 200, Answer::Body(EMPTY));
    watcher.expect(PREVIEW, 1_000, Answer::Body(ADVICE));
    let refused_since = watcher.now;
    for _ in 0..VERSION_MISSES_MAX {
        watcher.expect(PREVIEW, 1_000, Answer::Status(404));
        watcher.expect(STABLE, 200, Answer::Body(EMPTY));
        assert!(watcher.take_reports().is_empty());
    }
    assert!(watcher.session.advice_unseen_since() > Some(refused_since));
    let (polls, _) = watcher.until_preview(1_000);
    assert!(polls > 50, "{polls}");
    assert!(watcher.take_reports().is_empty());
    watcher.answer(Answer::Status(404));
    watcher.expect(STABLE, 200, Answer::Body(EMPTY));
    assert!(watcher.now.millis_since(refused_since) >= 60_000);
    // Nobody knows any more whether the advice holds.
    assert_eq!(
        watcher.take_reports(),
        ["a: advice-withdrawn", &no_advice()]
    );
    assert!(watcher.session.is_idle());
    watcher.now = watcher.now.plus(DAY_MS - 60_000);
    watcher.expect(STABLE, 60_000, Answer::Body(EMPTY));
    watcher.now = watcher.now.plus(60_000);
    watcher.expect(PREVIEW, 1_000, Answer::Body(ADVICE));
    assert_eq!(watcher.take_reports(), ["a: advised"]);
    assert_eq!(watcher.session.advice_unseen_since(), None);
}

/// Whatever it is: a refusal, an outage that asks to come back later, a redirect, an answer that is none.
#[test]
fn an_answer_of_the_preview_that_is_no_document_delays_no_poll_of_the_other_version() {
    for has_worked in [true, false] {
        for status in [204, 302, 304, 400, 401, 403, 404, 410, 500, 503] {
            let mut watcher = Watcher::new(policy(), ApiVersion::Auto);
            if has_worked {
                watcher.expect(PREVIEW, 0, Answer::Body(EMPTY));
            }
            let (version, _) = watcher.poll();
            assert_eq!(version, PREVIEW);
            let outcome = watcher.answer_later(status, 120);
            assert!(
                matches!(outcome, RequestOutcome::PollFailed { retry_in_ms, .. } if retry_in_ms <= 200),
                "{status}: {outcome:?}"
            );
            watcher.expect(STABLE, 200, Answer::Body(PREEMPT));
            assert_eq!(watcher.take_reports()[0], "p: scheduled", "{status}");
        }
        for bad in [Answer::Silence, Answer::Body(""), Answer::Body("<html>")] {
            let mut watcher = Watcher::new(policy(), ApiVersion::Auto);
            if has_worked {
                watcher.expect(PREVIEW, 0, Answer::Body(EMPTY));
            }
            watcher.expect(PREVIEW, 1_000, bad);
            watcher.expect(STABLE, 200, Answer::Body(PREEMPT));
        }
        // The limit of the rate holds for both, and its pause for no longer than polls may be apart.
        let mut watcher = Watcher::new(policy(), ApiVersion::Auto);
        if has_worked {
            watcher.expect(PREVIEW, 0, Answer::Body(EMPTY));
        }
        for (seconds, expected) in [(3, 3_000), (120, 10_000)] {
            watcher.poll();
            watcher.answer_later(429, seconds);
            let (version, after) = watcher.poll();
            assert_eq!((version.as_str(), after), (STABLE, expected));
            watcher.answer(Answer::Body(PREEMPT));
        }
    }
}

/// The preview hangs, the other version has a bad moment, and a Preempt gives half a minute.
#[test]
fn a_preview_that_hangs_does_not_take_the_time_of_the_other_version() {
    let mut watcher = Watcher::new(policy(), ApiVersion::Auto);
    watcher.expect(PREVIEW, 0, Answer::Body(EMPTY));
    let mut last_stable = watcher.now;
    let (mut bad, mut hung, mut polls) = (0, 0, 0);
    while polls < 100 {
        let (version, _) = watcher.poll();
        if version == PREVIEW {
            watcher.now = watcher.now.plus(5_000);
            watcher.answer(Answer::Silence);
            (bad, hung) = (0, hung + 1);
            continue;
        }
        polls += 1;
        let gap = watcher.now.millis_since(last_stable);
        assert!(
            gap <= 10_000,
            "{gap} ms at poll {polls}, after {bad} bad ones"
        );
        last_stable = watcher.now;
        let is_bad = bad < 2;
        bad += 1;
        watcher.answer(if is_bad {
            Answer::Status(500)
        } else {
            Answer::Body(EMPTY)
        });
    }
    assert!(watcher.session.advice_unseen_since().is_some());
    assert!(hung <= 6, "it pauses: {hung}");
}

/// Two versions are two answers, and one of them may be some seconds older: it does not take the machine back into service.
#[test]
fn an_older_document_of_the_other_version_ends_no_event() {
    for bad in [Answer::Status(500), Answer::Silence, Answer::Status(404)] {
        let mut watcher = Watcher::new(policy(), ApiVersion::Auto);
        watcher.expect(PREVIEW, 0, Answer::Body(EMPTY));
        watcher.expect(PREVIEW, 1_000, bad);
        watcher.expect(STABLE, 200, Answer::Body(PREEMPT));
        assert_eq!(watcher.take_reports(), ["p: scheduled"]);
        // The preview is outdated for some seconds, and then shows it, too.
        let held = watcher.expect_for(8_000, PREVIEW, EMPTY);
        assert!(held.is_empty(), "{bad:?}: {held:?}");
        watcher.expect(PREVIEW, 1_000, Answer::Body(PREEMPT));
        // An outdated server of the preview: as with one version.
        let stale = watcher.expect_for(8_000, PREVIEW, EMPTY);
        assert!(stale.is_empty(), "{bad:?}: {stale:?}");
        watcher.expect(PREVIEW, 1_000, Answer::Body(PREEMPT));
        // The end of the event is another document, and the version does not change: it counts at once.
        watcher.expect(PREVIEW, 1_000, Answer::Body(LATER));
        assert_eq!(watcher.take_reports(), ["p: ended"]);
    }
}

#[test]
fn the_first_documents_after_a_pause_end_no_event_either() {
    let mut watcher = Watcher::new(policy(), ApiVersion::Auto);
    watcher.expect(PREVIEW, 0, Answer::Body(EMPTY));
    for _ in 0..VERSION_MISSES_MAX {
        watcher.expect(PREVIEW, 1_000, Answer::Status(500));
        watcher.expect(STABLE, 1_000, Answer::Body(EMPTY));
    }
    watcher.expect(STABLE, 1_000, Answer::Body(PREEMPT));
    assert_eq!(watcher.take_reports(), ["p: scheduled"]);
    watcher.now = watcher.now.plus(60_000);
    watcher.expect(PREVIEW, 1_000, Answer::Body(LATER));
    let held = watcher.expect_for(STALE_GRACE_MS, PREVIEW, LATER);
    assert!(held.is_empty(), "{held:?}");
    // The event is still there, but not in the documents of one version: that is its end.
    watcher.now = watcher.now.plus(2_000);
    watcher.expect(PREVIEW, 1_000, Answer::Body(LATER));
    assert_eq!(watcher.take_reports(), ["p: ended"]);
    assert!(watcher.session.is_idle());
}

/// However the versions take turns: what both lack for so long is over.
#[test]
fn an_event_that_no_version_has_any_more_is_over_although_they_take_turns() {
    let mut watcher = Watcher::new(policy(), ApiVersion::Auto);
    watcher.expect(PREVIEW, 0, Answer::Body(PREEMPT));
    watcher.expect(PREVIEW, 1_000, Answer::Status(500));
    watcher.expect(STABLE, 1_000, Answer::Body(PREEMPT));
    watcher.take_reports();
    let begin = watcher.now;
    loop {
        watcher.expect(PREVIEW, 1_000, Answer::Body(LATER));
        watcher.expect(PREVIEW, 1_000, Answer::Status(500));
        watcher.expect(STABLE, 1_000, Answer::Body(LATER));
        let after = watcher.now.millis_since(begin);
        if !watcher.take_reports().is_empty() {
            assert!(after >= u64::from(STALE_GRACE_MS), "{after}");
            break;
        }
        assert!(after < 15_000, "{after}");
    }
}

/// Prepared for, ready, and not in the newest document: it is approved once a document shows it, and never recovered from before its end.
#[test]
fn an_event_that_a_document_lacks_is_not_approved_until_one_shows_it() {
    let prepares = Policy::new(&[policy().rules()[0], Rule::new(Action::Prepare)]).unwrap();
    let mut watcher = Watcher::new(prepares, ApiVersion::Auto);
    watcher.expect(PREVIEW, 0, Answer::Body(EMPTY));
    watcher.expect(PREVIEW, 1_000, Answer::Status(500));
    watcher.expect(STABLE, 200, Answer::Body(PREEMPT));
    let attempt = loop {
        match watcher.session.take_step(watcher.now) {
            Step::Prepare { attempt, .. } => break attempt,
            Step::Report(_) => {}
            step => panic!("{step:?}"),
        }
    };
    watcher.expect(PREVIEW, 1_000, Answer::Body(EMPTY));
    let ready = watcher.session.prepared(attempt, Preparation::Ready);
    assert_eq!(ready, AnswerOutcome::Accepted);
    watcher.expect_for(8_000, PREVIEW, EMPTY);
    assert!(!watcher.session.events().any(TrackedEvent::is_approved));
    watcher.expect(PREVIEW, 1_000, Answer::Body(PREEMPT));
    watcher.poll();
    assert!(watcher.session.events().all(TrackedEvent::is_approved));
}

/// Fault 30 of `tests/field-faults.md`.
#[test]
fn a_first_poll_that_is_never_answered_is_answered_by_its_repetition_in_the_other_version() {
    let mut watcher = Watcher::new(policy(), ApiVersion::Auto);
    let (version, _) = watcher.poll();
    assert_eq!(
        (version.as_str(), watcher.session.repeat_version()),
        (PREVIEW, STABLE)
    );
    watcher.now = watcher.now.plus(5_000);
    watcher.session.repeat_answered();
    watcher.answer(Answer::Body(PREEMPT));
    // What that document does not have may still be there.
    watcher.expect(PREVIEW, 1_000, Answer::Body(ADVICE));
    watcher.expect(PREVIEW, 1_000, Answer::Body(ADVICE));
    assert_eq!(watcher.take_reports(), ["p: scheduled", "a: advised"]);
    watcher.expect_for(STALE_GRACE_MS + 2_000, PREVIEW, ADVICE);
    assert_eq!(watcher.session.events().count(), 1, "the Preempt is over");
    let (version, _) = watcher.poll();
    assert_eq!(version, PREVIEW);
    watcher.session.repeat_answered();
    watcher.answer(Answer::Body(EMPTY));
    assert!(watcher.take_reports().is_empty());
    // A repetition that fails is repeated in its version, since the other one was not answered. One of which nothing is known changes
    // nothing.
    watcher.poll();
    watcher.session.repeat_answered();
    watcher.answer(Answer::Status(404));
    watcher.session.repeat_answered();
    watcher.expect(STABLE, 10_000, Answer::Body(EMPTY));
    watcher.expect(PREVIEW, 1_000, Answer::Body(EMPTY));
    assert_eq!(watcher.take_reports(), ["a: advice-withdrawn"]);

    let mut fixed = Watcher::new(policy(), ApiVersion::Fixed("2019-08-01"));
    assert_eq!(fixed.poll().0, fixed.session.repeat_version());
}

/// Fault 35 of `tests/field-faults.md`.
#[test]
fn a_version_that_is_not_answered_any_more_pauses_and_its_advice_ends_after_an_hour() {
    for bad in [Answer::Silence, Answer::Status(500), Answer::Body("")] {
        let mut watcher = Watcher::new(policy(), ApiVersion::Auto);
        watcher.expect(PREVIEW, 0, Answer::Body(ADVICE));
        watcher.take_reports();
        let mut failures = Vec::new();
        let mut gone_after = None;
        let begin = watcher.now;
        while gone_after.is_none() {
            let (polls, after) = watcher.until_preview(1_000);
            failures.push(after / 1_000);
            // All other polls keep their pace.
            assert!(
                polls * 1_000 + 1_100 >= after,
                "{bad:?}: {polls} in {after}"
            );
            watcher.answer(bad);
            watcher.expect(STABLE, 1_000, Answer::Body(EMPTY));
            if !watcher.take_reports().is_empty() {
                gone_after = Some(watcher.now.millis_since(begin));
            }
            assert!(failures.len() < 20, "{failures:?}");
        }
        let minutes: Vec<_> = failures[4..].iter().map(|seconds| seconds / 60).collect();
        assert_eq!(minutes[..6], [1, 2, 4, 8, 16, 32], "{bad:?}: {failures:?}");
        let hour = u64::from(ADVICE_UNSEEN_MAX_MS);
        assert!(gone_after >= Some(hour), "{gone_after:?}");
        assert!(watcher.session.is_idle());
        // A preview that comes back has advice again.
        watcher.until_preview(1_000);
        watcher.answer(Answer::Body(ADVICE));
        assert_eq!(watcher.take_reports(), ["a: advised"]);
    }
}

/// The document of the other version is the same as the one of the preview that follows: the advice that it does not have is over.
#[test]
fn a_preview_that_comes_back_without_the_advice_ends_it() {
    let mut watcher = Watcher::new(policy(), ApiVersion::Auto);
    watcher.expect(PREVIEW, 0, Answer::Body(ADVICE));
    for _ in 0..VERSION_MISSES_MAX {
        watcher.expect(PREVIEW, 1_000, Answer::Silence);
        watcher.expect(STABLE, 1_000, Answer::Body(EMPTY));
    }
    watcher.until_preview(1_000);
    assert_eq!(watcher.take_reports(), ["a: advised"]);
    watcher.answer(Answer::Body(EMPTY));
    assert_eq!(watcher.take_reports(), ["a: advice-withdrawn"]);
}

#[test]
fn a_restart_does_not_make_one_refusal_withdraw_advice() {
    let mut watcher = Watcher::new(policy(), ApiVersion::Auto);
    watcher.expect(PREVIEW, 0, Answer::Body(ADVICE));
    watcher.take_reports();
    let mut snapshot = vec![0; Session::<4>::SNAPSHOT_MAX];
    watcher.session.snapshot(&mut snapshot).unwrap();
    let mut again = Watcher::new(policy(), ApiVersion::Auto);
    again.session.restore(&snapshot).unwrap();
    again.expect(PREVIEW, 0, Answer::Status(404));
    again.expect(STABLE, 200, Answer::Body(EMPTY));
    assert!(again.take_reports().is_empty());
    again.expect(PREVIEW, 1_000, Answer::Body(ADVICE));
    assert!(again.take_reports().is_empty());
}

#[test]
fn what_an_earlier_run_prepared_for_is_recovered_from_although_the_preview_never_answers() {
    let prepares = Policy::new(&[policy().rules()[0], Rule::new(Action::Prepare)]).unwrap();
    let config = SessionConfig {
        policy: prepares,
        ..SessionConfig::new(VmNames::new(&[VM]))
    };
    let mut session = Session::<4>::new(&config).unwrap();
    let body = document(1, &[event("b")]);
    let document = Response {
        status: 200,
        body: body.as_bytes(),
        ..Response::default()
    };
    assert!(matches!(session.take_step(START), Step::Get { .. }));
    session.on_response(&document, START);
    while !matches!(session.take_step(START), Step::Prepare { .. }) {}
    let mut snapshot = vec![0; Session::<4>::SNAPSHOT_MAX];
    session.snapshot(&mut snapshot).unwrap();

    let mut watcher = Watcher::new(config.policy.clone(), ApiVersion::Auto);
    watcher.session.restore(&snapshot).unwrap();
    watcher.expect(PREVIEW, 0, Answer::Status(500));
    watcher.expect(STABLE, 1_000, Answer::Body(EMPTY));
    // It is not known which version showed the event, so that this document may be too old for it.
    let begin = watcher.now;
    while watcher.now.millis_since(begin) < u64::from(STALE_GRACE_MS) {
        let (version, _) = watcher.poll();
        watcher.answer(if version == PREVIEW {
            Answer::Status(500)
        } else {
            Answer::Body(EMPTY)
        });
    }
    let recovers = std::iter::from_fn(|| match watcher.session.take_step(watcher.now) {
        Step::Recover { attempt, .. } => Some(Some(attempt)),
        Step::Report(_) => Some(None),
        _ => None,
    });
    assert_eq!(recovers.flatten().count(), 1);
}

impl Watcher {
    /// Another process continues from the snapshot, if one was stored: as a host does, before each step that changes it.
    fn restarted(&self) -> Self {
        let mut again = Self::new(policy(), ApiVersion::Auto);
        let mut snapshot = vec![0; Session::<4>::SNAPSHOT_MAX];
        self.session.snapshot(&mut snapshot).unwrap();
        again.session.restore(&snapshot).unwrap();
        assert!(!again.session.is_changed());
        again.now = self.now;
        again
    }

    /// Answers polls for so long: those of the preview never. Returns how many documents it had.
    fn run_without_preview(&mut self, time_ms: u32) -> u32 {
        let end = self.now.plus(time_ms);
        let mut documents = 0;
        while self.now < end {
            let (version, _) = self.poll();
            if version == PREVIEW {
                if self.now.plus(5_000) > end {
                    // It is killed meanwhile.
                    break;
                }
                self.now = self.now.plus(5_000);
                self.answer(Answer::Silence);
            } else {
                documents += 1;
                self.answer(Answer::Body(EMPTY));
            }
        }
        self.now = self.now.max(end);
        documents
    }
}

/// The hour counts across restarts, however often they are.
#[test]
fn advice_that_nobody_sees_holds_for_no_longer_than_an_hour_across_restarts() {
    let hour = u64::from(ADVICE_UNSEEN_MAX_MS);
    for run_ms in [3_000_000, 20_000, 4_500] {
        let mut watcher = Watcher::new(policy(), ApiVersion::Auto);
        watcher.expect(PREVIEW, 0, Answer::Body(ADVICE));
        let begin = watcher.now;
        watcher.take_reports();
        let gone_after = loop {
            let documents = watcher.run_without_preview(run_ms);
            let after = watcher.now.millis_since(begin);
            assert!(documents > 0 || after < 10_000, "{run_ms}: {after}");
            if watcher.take_reports() == ["a: advice-withdrawn"] {
                break after;
            }
            assert!(after < 2 * hour, "{run_ms}");
            watcher = watcher.restarted();
        };
        // A run of 50 minutes is looked at only at its end.
        let late = if run_ms > 60_000 { hour } else { 120_000 };
        assert!(
            (hour..hour + late).contains(&gone_after),
            "{run_ms}: {gone_after}"
        );
        // A preview that comes back counts.
        watcher = watcher.restarted();
        watcher.expect(STABLE, 1_000, Answer::Body(EMPTY));
        watcher.expect(PREVIEW, 1_000, Answer::Body(ADVICE));
        assert_eq!(watcher.take_reports(), ["a: advised"]);
        assert_eq!(watcher.session.advice_unseen_since(), None);
        let mut again = watcher.restarted();
        again.expect(PREVIEW, 0, Answer::Body(ADVICE));
    }
}

/// The first request hangs, and the process does not live until the time-out.
#[test]
fn a_process_that_is_killed_again_and_again_has_documents_although_the_preview_hangs() {
    let mut watcher = Watcher::new(policy(), ApiVersion::Auto);
    assert_eq!(watcher.run_without_preview(4_500), 0);
    for _ in 0..20 {
        watcher = watcher.restarted();
        assert!(watcher.run_without_preview(4_500) > 0);
    }
    watcher = watcher.restarted();
    // A service that answers neither is asked for the stable version.
    watcher.expect(STABLE, 0, Answer::Status(500));
    watcher.expect(STABLE, 1_000, Answer::Body(PREEMPT));
    assert_eq!(watcher.take_reports(), ["p: scheduled"]);
}
