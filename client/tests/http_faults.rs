//! Every way in which the metadata service is known to misbehave, met by the real command: nothing ends but what ended,
//! the event is approved exactly once, and what failed is told and repeated.
//!
//! The courses run all at once, since they mostly wait: the first test that asks starts them, and each takes its own.

mod support;

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

use support::{
    Finished, Reply, Request, Run, Stage, VM, assert_well_behaved, document, eventually, freeze, of_replay, play,
};
use support::{started, with};

/// A freeze that is announced from the first document on, waits for its approval, starts soon after, and lasts a while.
const FREEZE: &str = r#"
    about = "A freeze of five seconds, started by its approval."
    [[event]]
    event_type = "Freeze"
    duration_in_seconds = 5
    notice = "1h"
    starts_after_approval = "30s"
    started_for = "2min"
"#;

/// The same while the service forgets how far it has counted.
const RESET: &str = r#"
    about = "A freeze, and an incarnation that starts again while it is announced."
    first_incarnation = 279
    incarnation_reset = { after = "18s", to = 1 }
    [[event]]
    event_type = "Freeze"
    duration_in_seconds = 5
    notice = "1h"
    starts_after_approval = "1min"
    started_for = "2min"
"#;

/// Each course's name, its faults, and what failed polls must give as their cause; nothing where none must fail.
///
/// The first poll meets the fault before anything is known, the fourth while the event is followed, the first approval
/// while it is due.
const COURSES: &[(&str, &[&str], Option<&str>)] = &[
    ("none", &[], None),
    ("empty", &["get.empty@1", "get.empty@3-6"], Some("empty-body")),
    ("404", &["get.status:404@1", "get.status:404@4", "post.status:404@1"], Some("status-404")),
    ("408", &["get.status:408@1", "get.status:408@4", "post.status:408@1"], Some("status-408")),
    ("410", &["status:410@0s-3s", "get.status:410@8"], Some("status-410")),
    ("429", &["get.status:429@1", "get.status:429@4", "post.status:429@1"], Some("status-429")),
    ("429-seconds", &["get.retry-after:3@1", "post.retry-after:2@1"], Some("status-429")),
    ("429-date", &["get.retry-after:date+3@1", "post.retry-after:date+3@1"], Some("status-429")),
    ("429-odd", &["get.retry-after:soon@1", "post.retry-after:-1@1"], Some("status-429")),
    ("500", &["get.status:500@1-3", "post.status:500@1-2"], Some("status-500")),
    ("503", &["get.status:503@2-4", "post.status:503@1-3"], Some("status-503")),
    ("silence", &["get.silence@3"], Some("timeout")),
    ("slow-headers", &["get.slow-headers:2@1", "get.slow-headers:1@4", "post.slow-headers:1@1"], None),
    ("slow-body", &["get.slow-body:30@3"], Some("timeout")),
    ("reset", &["get.reset@1", "get.reset@4", "post.reset@1"], Some("broken-off")),
    ("reset-mid-body", &["get.reset-mid-body@1", "get.reset-mid-body@4"], Some("broken-off")),
    ("short-body", &["get.short-body@1", "get.short-body@4"], Some("broken-off")),
    ("half-document", &["get.half-document@1", "get.half-document@4"], Some("not-a-document")),
    ("not-json", &["get.not-json@1", "get.not-json@4", "post.not-json@1"], Some("not-a-document")),
    ("gzip", &["get.gzip@1", "get.gzip@4"], Some("not-a-document")),
    ("content-type", &["content-type:text/html; charset=utf-16"], None),
    ("post-reset", &["post.reset-mid-body@1"], None),
    ("post-short", &["post.short-body@1"], None),
    ("post-endless", &["post.endless-body@1"], None),
    ("post-huge", &["post.huge-body:1GB@1"], None),
    ("post-gzip", &["post.gzip@1"], None),
    ("post-not-json", &["post.not-json@1"], None),
    ("first-call", &["first-call-delay:11"], None),
    ("stale", &["get.stale:2@4-6"], None),
    ("incarnation-back", &["get.incarnation-back:2@3-4", "get.incarnation-back:1@6-"], None),
    ("incarnation-reset", &[], None),
    (
        "several",
        &["get.reset@1", "status:500@2-3", "get.empty@4", "get.not-json@5", "post.reset@1"],
        Some("broken-off"),
    ),
];

/// How a course went.
struct Course {
    name: &'static str,
    finished: Finished,
    requests: Vec<Request>,
    cause: Option<&'static str>,
}

fn play_course(name: &'static str) -> Course {
    let &(_, faults, cause) = COURSES.iter().find(|(known, ..)| *known == name).expect(name);
    let server = play(if name == "incarnation-reset" { RESET } else { FREEZE }, faults);
    // The name is given, so that the first request is the first poll.
    let run = Run::watch(&server.url(), &["--policy", "sample", "--vm-name", VM, "--until-idle"]);
    let finished = run.finish();
    Course { name, finished, requests: of_replay(&server.requests()), cause }
}

/// How the course of this name went, once it is over.
fn course(name: &'static str) -> Course {
    static RUNNING: LazyLock<Mutex<HashMap<&'static str, JoinHandle<Course>>>> = LazyLock::new(|| {
        // Who asks for some tests only shall not leave the other courses behind, running.
        let all = std::env::args().skip(1).all(|argument| argument.starts_with("--"));
        let wanted = COURSES.iter().filter(|_| all);
        Mutex::new(wanted.map(|&(name, ..)| (name, thread::spawn(move || play_course(name)))).collect())
    });
    let running = RUNNING.lock().expect("a lock").remove(name);
    running.map_or_else(|| play_course(name), |running| running.join().expect("the course is run"))
}

impl Course {
    /// What holds in every course.
    fn is_well_done(&self) -> &Self {
        let Self { name, finished, requests, cause } = self;
        assert_eq!(finished.code, Some(0), "{name}\n{}\n{}", finished.stdout, finished.stderr);
        assert_well_behaved(requests);

        let posts: Vec<_> = requests.iter().filter(|request| request.is_post()).collect();
        let id = posts.first().unwrap_or_else(|| panic!("{name}: no POST\n{}", finished.stdout)).ids().remove(0);
        let approvals = finished.of_kind("approval");
        let (last, failed) = approvals.split_last().expect("an approval");
        assert_eq!(last["status"], 200, "{name}: {approvals:?}");
        assert!(failed.iter().all(|approval| approval["status"] != 200), "{name}: approved twice: {approvals:?}");
        assert_eq!(posts.len(), approvals.len(), "{name}");
        assert!(posts.iter().all(|post| post.ids() == [id.as_str()]), "{name}");

        let changes = finished.changes(&id);
        assert_eq!(finished.of_kind("change").len(), changes.len(), "{name}: one event only");
        // On a busy machine the time between start and end may fall between two polls.
        let legal = [&["scheduled", "started", "completed"][..], &["scheduled", "ended"]];
        assert!(
            legal.contains(&changes.iter().map(String::as_str).collect::<Vec<_>>().as_slice()),
            "{name}: {changes:?}"
        );

        let failures = finished.of_kind("poll-failed");
        for failure in &failures {
            let retry = failure["retry_in_ms"].as_u64().expect("milliseconds");
            assert!(failure["cause"].is_string() && retry <= 10_000, "{name}: {failure}");
        }
        match cause {
            Some(cause) => assert_eq!(failures.first().map(|failure| &failure["cause"]), Some(&json!(cause)), "{name}"),
            None => assert!(failures.is_empty(), "{name}: {failures:?}"),
        }
        self
    }

    /// The time between two polls, counted from 1.
    fn gap(&self, from: usize, to: usize) -> Duration {
        let polls: Vec<_> = self.requests.iter().filter(|request| request.is_get()).collect();
        polls[to - 1].arrived.duration_since(polls[from - 1].arrived)
    }

    fn posts(&self) -> Vec<&Request> {
        self.requests.iter().filter(|request| request.is_post()).collect()
    }

    fn causes(&self) -> Vec<Value> {
        self.finished.of_kind("poll-failed").into_iter().map(|failure| failure["cause"].clone()).collect()
    }
}

#[test]
fn without_a_fault_nothing_is_repeated() {
    let course = course("none");
    assert_eq!(course.is_well_done().posts().len(), 1);
    assert_eq!(course.finished.stderr, "");
}

#[test]
fn an_empty_200_says_nothing_and_is_asked_again_at_the_usual_pace() {
    let course = course("empty");
    assert_eq!(course.is_well_done().causes().len(), 5);
    assert!(course.finished.of_kind("poll-failed").iter().all(|failure| failure["retry_in_ms"].as_u64() <= Some(200)));
}

#[test]
fn a_404_is_retried_for_polls_and_approvals() {
    assert_eq!(course("404").is_well_done().posts().len(), 2);
}

#[test]
fn a_408_is_retried_for_polls_and_approvals() {
    assert_eq!(course("408").is_well_done().posts().len(), 2);
}

#[test]
fn a_410_for_a_while_is_waited_out() {
    let course = course("410");
    let causes = course.is_well_done().causes();
    assert!(causes.len() >= 3 && causes.iter().all(|cause| cause == "status-410"), "{causes:?}");
}

#[test]
fn a_429_is_backed_off_from_and_ends_nothing() {
    let course = course("429");
    course.is_well_done();
    assert!(course.gap(1, 2) > Duration::from_millis(450));
}

#[test]
fn a_429_with_retry_after_in_seconds_is_obeyed_for_polls_and_approvals() {
    let course = course("429-seconds");
    course.is_well_done();
    assert!(course.gap(1, 2) > Duration::from_millis(2_700), "{:?}", course.gap(1, 2));
    // After the POST's refusal nothing at all is asked for two seconds.
    let refused = course.posts()[0].arrived;
    let next = course.requests.iter().find(|request| request.arrived > refused).expect("another request");
    assert!(next.arrived.duration_since(refused) > Duration::from_millis(1_700));
}

#[test]
fn a_429_with_a_retry_after_date_is_obeyed() {
    let course = course("429-date");
    course.is_well_done();
    // A date has whole seconds, so up to one of the three is lost.
    assert!(course.gap(1, 2) > Duration::from_millis(1_700), "{:?}", course.gap(1, 2));
}

#[test]
fn a_retry_after_that_cannot_be_read_is_as_good_as_none() {
    assert_eq!(course("429-odd").is_well_done().posts().len(), 2);
}

#[test]
fn a_storm_of_500_is_backed_off_from_longer_and_longer() {
    let course = course("500");
    course.is_well_done();
    assert_eq!(course.causes(), vec![json!("status-500"); 3]);
    for (poll, least) in [(1, 450), (2, 950), (3, 1_900)] {
        assert!(
            course.gap(poll, poll + 1) > Duration::from_millis(least),
            "after {poll}: {:?}",
            course.gap(poll, poll + 1)
        );
    }
    assert_eq!(course.posts().len(), 3);
}

#[test]
fn a_storm_of_503_while_an_event_is_followed_ends_nothing() {
    let course = course("503");
    course.is_well_done();
    let posts = course.posts();
    assert_eq!(posts.len(), 4);
    assert!(
        posts[3].arrived.duration_since(posts[2].arrived) > Duration::from_millis(1_900),
        "approvals back off, too"
    );
}

#[test]
fn silence_runs_into_the_time_out_and_is_asked_again() {
    let course = course("silence");
    assert_eq!(course.is_well_done().causes(), ["timeout"]);
    assert!(course.gap(3, 4) > Duration::from_secs(9));
}

#[test]
fn a_body_that_trickles_in_for_too_long_runs_into_the_time_out() {
    assert_eq!(course("slow-body").is_well_done().causes(), ["timeout"]);
}

#[test]
fn an_answer_that_is_merely_slow_is_waited_for() {
    assert_eq!(course("slow-headers").is_well_done().posts().len(), 1);
}

#[test]
fn a_reset_connection_is_made_anew() {
    assert_eq!(course("reset").is_well_done().posts().len(), 2);
}

#[test]
fn a_reset_in_the_middle_of_a_body_is_no_document() {
    course("reset-mid-body").is_well_done();
}

#[test]
fn a_body_shorter_than_its_content_length_is_no_document() {
    course("short-body").is_well_done();
}

#[test]
fn half_a_document_is_no_document() {
    let course = course("half-document");
    course.is_well_done();
    assert!(course.finished.stderr.contains("no document: line 1, column"), "{}", course.finished.stderr);
}

#[test]
fn what_is_not_json_is_no_document_and_no_matter_in_the_answer_to_an_approval() {
    assert_eq!(course("not-json").is_well_done().posts().len(), 1);
}

#[test]
fn gzip_is_not_asked_for_and_not_understood() {
    course("gzip").is_well_done();
}

#[test]
fn a_wrong_content_type_is_no_matter() {
    course("content-type").is_well_done();
}

#[test]
fn the_first_call_may_take_longer_than_any_other() {
    let course = course("first-call");
    course.is_well_done();
    assert!(course.gap(1, 2) > Duration::from_secs(10), "longer than the usual time-out");
}

#[test]
fn a_stale_answer_ends_nothing() {
    course("stale").is_well_done();
}

#[test]
fn an_incarnation_that_goes_back_and_forth_is_no_matter() {
    course("incarnation-back").is_well_done();
}

#[test]
fn an_incarnation_that_starts_again_is_no_matter() {
    course("incarnation-reset").is_well_done();
}

#[test]
fn faults_of_every_kind_one_after_another_are_survived() {
    let course = course("several");
    let causes = course.is_well_done().causes();
    assert!(causes.len() >= 3, "{causes:?}");
    assert_eq!(course.finished.of_kind("approval")[0]["status"], Value::Null, "a reset has no status");
}

/// A megabyte of a child's memory, as the kernel counts it.
const MB: u64 = 1_024;

/// Polls meet this fault first, then the event is found and approved; memory stays small all the while.
fn survives_in_bounded_memory(faults: &[&str], causes: &[&str]) {
    let server = play(FREEZE, faults);
    let mut run = Run::watch(&server.url(), &["--policy", "sample", "--vm-name", VM]);
    let failed = run.record("a failure", |record| record["record"] == "poll-failed");
    assert!(causes.contains(&failed["cause"].as_str().expect("a word")), "{failed}");
    run.record("an approval", |record| record["record"] == "approval" && record["status"] == 200);
    let peak = run.memory_peak_kb();
    assert!(peak < 40 * MB, "{faults:?} took {peak} kB");
}

#[test]
fn an_endless_body_is_cut_off_in_bounded_memory() {
    survives_in_bounded_memory(&["get.endless-body@1", "post.endless-body@1"], &["too-large"]);
}

#[test]
fn a_huge_body_is_cut_off_in_bounded_memory() {
    survives_in_bounded_memory(&["get.huge-body:1GB@1", "post.huge-body:1GB@1"], &["too-large"]);
}

#[test]
fn a_hundred_thousand_headers_are_cut_off_in_bounded_memory() {
    survives_in_bounded_memory(&["get.many-headers:100000@1"], &["too-large", "broken-off"]);
}

#[test]
fn a_header_line_without_an_end_is_cut_off_in_bounded_memory() {
    let stage = Stage::start();
    stage.show(2, &[freeze("a")]);
    let mut answers = 0;
    stage.intercept(move |_| {
        answers += 1;
        let endless = [&b"HTTP/1.1 200 OK\r\nX-Odd: "[..], &vec![b'x'; 50_000_000]].concat();
        (answers == 1).then(|| Reply::raw(endless).close())
    });
    let mut run = Run::watch(&stage.url(), &["--policy", "sample", "--vm-name", VM]);
    run.record("a failure", |record| record["record"] == "poll-failed");
    run.record("an approval", |record| record["record"] == "approval");
    assert!(run.memory_peak_kb() < 40 * MB);
}

#[test]
fn an_approval_has_succeeded_with_its_status_whatever_becomes_of_the_body() {
    for name in ["post-reset", "post-short", "post-endless", "post-huge", "post-gzip", "post-not-json"] {
        assert_eq!(course(name).is_well_done().posts().len(), 1, "posted again after a 2xx: {name}");
    }
}

#[test]
fn a_429_whose_body_breaks_off_still_asks_for_patience() {
    let stage = Stage::start();
    let mut answers = 0;
    stage.intercept(move |_| {
        answers += 1;
        let bytes = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 100\r\n\r\nThrottle";
        (answers == 1).then(|| Reply::raw(bytes).close())
    });
    let mut run = Run::watch(&stage.url(), &["--vm-name", VM]);
    let failed = run.record("a failure", |record| record["record"] == "poll-failed");
    assert_eq!(failed["cause"], "status-429");
    assert!(failed["retry_in_ms"].as_u64() > Some(2_000), "{failed}");
}

#[test]
fn what_is_no_http_at_all_is_survived() {
    let stage = Stage::start();
    stage.show(2, &[freeze("a")]);
    let mut answers = vec!["\0\0\0\0", "SSH-2.0-OpenSSH_9.6\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"];
    stage.intercept(move |_| answers.pop().map(|bytes| Reply::raw(bytes).close()));
    let mut run = Run::watch(&stage.url(), &["--policy", "sample", "--vm-name", VM]);
    run.record("an approval", |record| record["record"] == "approval");
    let failures = run.records().iter().filter(|record| record["record"] == "poll-failed").count();
    assert_eq!(failures, 3, "{}", run.stdout());
}

#[test]
fn an_old_document_that_shows_up_again_ends_nothing() {
    let old = document(2, &[freeze("first"), freeze("second")]);
    let new = document(3, &[freeze("first"), freeze("second"), freeze("third")]);
    let stage = Stage::start();
    stage.show_body(&old);
    let mut run = Run::watch(&stage.url(), &["--policy", "observe"]);
    run.change("scheduled", "second");
    stage.show_body(&new);
    run.change("scheduled", "third");
    // One of several servers behind the address lags behind.
    for _ in 0..3 {
        stage.show_body(&old);
        stage.await_polls(2);
        stage.show_body(&new);
        stage.await_polls(2);
    }
    run.says("an old document was served again");
    assert!(run.records().iter().all(|record| record["change"].is_null() || record["change"] == "scheduled"));
    assert_eq!(run.records().iter().filter(|record| record["record"] == "change").count(), 3);
}

#[test]
fn an_event_that_flickers_is_not_approved_again() {
    let stage = Stage::start();
    let other = || with(freeze("other"), &json!({ "Resources": ["other"] }));
    stage.show(2, &[freeze("a"), other()]);
    let mut run = Run::watch(&stage.url(), &["--policy", "sample"]);
    run.record("an approval", |record| record["record"] == "approval");
    for round in 0..3 {
        stage.show(3 + 2 * round, &[other()]);
        stage.await_polls(2);
        stage.show(4 + 2 * round, &[freeze("a"), other()]);
        stage.await_polls(2);
    }
    stage.await_polls(2);
    assert_eq!(stage.posted(), ["a"]);
    stage.show(20, &[started("a"), other()]);
    run.change("started", "a");
    assert!(run.is_running());
}

#[test]
fn an_event_that_was_never_scheduled_is_told_and_never_approved() {
    let scenario = FREEZE.replace("notice = \"1h\"", "notice = \"1min\"");
    let server = play(&scenario, &["started-without-scheduled"]);
    let finished = Run::watch(&server.url(), &["--policy", "sample", "--until-idle"]).finish().with_code(0);
    let changes: Vec<_> = finished.of_kind("change").iter().map(|record| record["change"].clone()).collect();
    assert_eq!(changes, ["started-without-notice", "completed"]);
    assert_eq!(finished.of_kind("decision")[0]["reason"], "already started");
    assert!(of_replay(&server.requests()).iter().all(|request| !request.is_post()));
}

#[test]
fn an_approval_is_given_up_once_its_event_has_left_scheduled() {
    let stage = Stage::start();
    stage.show(2, &[freeze("a")]);
    stage.set_post_status(500);
    let mut run = Run::watch(&stage.url(), &["--policy", "sample", "--until-idle"]);
    eventually("two attempts", || (stage.posted().len() >= 2).then_some(()));
    stage.show(3, &[started("a")]);
    run.change("started", "a");
    stage.set_post_status(200);
    let attempts = stage.posted().len();
    stage.await_polls(12);
    assert_eq!(stage.posted().len(), attempts, "a Started event was approved");
    stage.show(4, &[]);
    let finished = run.finish().with_code(0);
    assert!(finished.approved().is_empty());
    assert_eq!(finished.changes("a"), ["scheduled", "started", "completed"]);
}

#[test]
fn an_id_that_the_service_refuses_does_not_hold_up_the_others() {
    let stage = Stage::start();
    stage.show(2, &[freeze("bad"), freeze("good")]);
    stage.intercept(|request| {
        let bad = request.is_post() && request.ids().iter().any(|id| id == "bad");
        bad.then(|| Reply::new(400, "", r#"{"error":"Bad request. There is no event bad"}"#))
    });
    let mut run = Run::watch(&stage.url(), &["--policy", "sample"]);
    let done = run.record("an approval", |record| record["record"] == "approval" && record["status"] == 200);
    assert_eq!(done["event_ids"], json!(["good"]));
}

#[test]
fn a_request_that_is_refused_for_good_is_not_hammered() {
    for status in [400, 405] {
        let stage = Stage::start();
        stage.intercept(move |_| Some(Reply::new(status, "", "{}")));
        let mut run = Run::watch(&stage.url(), &["--vm-name", VM]);
        let failed = run.record("a failure", |record| record["record"] == "poll-failed");
        assert_eq!(
            failed,
            json!({"record": "poll-failed", "cause": format!("status-{status}"), "retry_in_ms": 10_000})
        );
    }
}
