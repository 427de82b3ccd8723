//! Wall clocks that are set, and machines that are suspended: polls and preparations continue.
//!
//! The program runs under libfaketime, which sets its wall clock to the contents of a file and
//! leaves its other clocks alone.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use scheduled_events_test_support::clock::control_wall_clock;
use serde_json::json;

use crate::support::{
    FakeService, Folder, PREPARE_ALL, Reply, Run, VM, WHILE_TEST_RUNS, command, eventually, freeze,
    in_future, lines, preparation_ended, together, with,
};

/// A watcher whose wall clock the test sets, and whose preparations wait for a file.
struct Fixture {
    service: FakeService,
    folder: Folder,
    log: String,
    run: Run,
}

impl Fixture {
    /// Starts the watcher with an event that starts after `notice`, and waits for its preparation.
    fn new(notice: Duration) -> Self {
        let (service, folder) = (FakeService::start(), Folder::new());
        service.show(2, &[event("a", notice)]);
        let (log, go) = (folder.path("log"), folder.path("go"));
        let prepare = format!(
            "sh -c 'echo $SCHEDULED_EVENTS_SECONDS_LEFT >> {log}.left; echo $SCHEDULED_EVENTS_EVENT_ID >> {log}; while ! test -e {go} && {WHILE_TEST_RUNS}; do sleep 0.2; done'"
        );
        let run = start(&service, &folder, PREPARE_ALL, &prepare, 0);
        let fixture = Self {
            service,
            folder,
            log,
            run,
        };
        fixture.await_preparation("a");
        fixture
    }

    /// Sets the watcher's wall clock forward by this many seconds.
    fn shift(&self, seconds: i64) {
        // Atomically, since the program reads the clock at any moment.
        let new = self.folder.file("new", format!("{seconds:+}"));
        fs::rename(new, self.folder.path("shift")).expect("a file");
    }

    fn let_preparations_end(&self) {
        self.folder.file("go", "");
    }

    fn await_preparation(&self, id: &str) {
        eventually(id, || {
            lines(&self.log).iter().any(|line| line == id).then_some(())
        });
    }

    /// The outcome of the event's preparation.
    fn prepared(&mut self, id: &str) -> String {
        let record = self.run.record("a preparation", |record| {
            preparation_ended(record) && record["event_id"] == id
        });
        record["outcome"].as_str().expect("a word").to_owned()
    }

    /// The longest time between two polls since the start.
    fn longest_pause(&self) -> Duration {
        let arrivals: Vec<_> = self
            .service
            .requests()
            .iter()
            .map(|request| request.arrived)
            .collect();
        arrivals
            .windows(2)
            .map(|two| two[1].duration_since(two[0]))
            .max()
            .expect("polls")
    }
}

/// A watcher whose wall clock is ahead by this many seconds, until the file `shift` changes that.
fn start(service: &FakeService, folder: &Folder, policy: &str, prepare: &str, seconds: i64) -> Run {
    let (policy, shift) = (
        folder.file("policy.toml", policy),
        folder.file("shift", format!("{seconds:+}")),
    );
    let mut watch = command(&[
        "watch",
        "--json",
        "--endpoint",
        &service.url(),
        "--interval",
        "200ms",
        "--vm-name",
        VM,
    ]);
    watch.args(["--policy", &policy, "--prepare", prepare]);
    control_wall_clock(&mut watch, Path::new(&shift));
    Run::start(watch)
}

/// A freeze of this machine that starts after `notice`.
fn event(id: &str, notice: Duration) -> serde_json::Value {
    with(freeze(id), &json!({ "NotBefore": in_future(notice) }))
}

const YEAR: i64 = 365 * 86_400;

/// The longest accepted time between two polls, which are 200 ms apart on an idle machine. Without what is tested it is 50 minutes, or a year.
const POLL_MAX: Duration = Duration::from_secs(30);

#[test]
fn setting_the_wall_clock_by_a_year_stops_no_poll_and_no_preparation() {
    together([YEAR, -YEAR], |shift| {
        let notice = Duration::from_secs(3600);
        let mut fixture = Fixture::new(notice);
        fixture.shift(shift);
        fixture.service.await_polls(4);
        fixture.run.wait_for_stderr(
            "warning: the wall clock was set by more than an hour, which is ignored",
        );
        // An event that is announced afterwards.
        fixture
            .service
            .show(3, &[event("a", notice), event("b", notice)]);
        fixture.await_preparation("b");
        let left = lines(&format!("{}.left", fixture.log));
        let of_b = left.last().and_then(|left| left.parse::<u64>().ok());
        assert!(
            of_b.is_some_and(|left| (3300..=3600).contains(&left)),
            "{left:?} after {shift}"
        );
        fixture.service.await_polls(4);
        assert!(
            !fixture.run.records().iter().any(preparation_ended),
            "{}",
            fixture.run.stdout()
        );
        fixture.let_preparations_end();
        for id in ["a", "b"] {
            assert_eq!(fixture.prepared(id), "ready", "{id} after {shift}");
        }
        assert!(
            fixture.longest_pause() < POLL_MAX,
            "{:?} without a poll after {shift}",
            fixture.longest_pause()
        );
        assert_eq!(
            fixture
                .run
                .stderr()
                .matches("the wall clock was set")
                .count(),
            1,
            "it is reported once"
        );
    });
}

#[test]
fn a_suspended_machine_polls_at_once_and_its_preparation_goes_on() {
    let mut fixture = Fixture::new(Duration::from_secs(40 * 60));
    // As for a suspended or frozen machine: the process stops, and afterwards the wall clock is 50
    // minutes ahead.
    let pid = Pid::from_raw(fixture.run.id().cast_signed()).expect("a process id");
    kill_process(pid, Signal::STOP).expect("a running child");
    thread::sleep(Duration::from_secs(1));
    fixture.shift(50 * 60);
    let polls = fixture.service.polls();
    kill_process(pid, Signal::CONT).expect("a stopped child");
    let resumed = Instant::now();
    eventually("a poll", || (fixture.service.polls() > polls).then_some(()));
    assert!(
        resumed.elapsed() < POLL_MAX,
        "the first poll came {:?} after the pause",
        resumed.elapsed()
    );
    // No change is reported: the event is still announced, although it could have started.
    fixture.service.await_polls(2);
    assert_eq!(
        fixture
            .run
            .records()
            .iter()
            .filter(|record| record["record"] == "change")
            .count(),
        1
    );
    fixture.let_preparations_end();
    assert_eq!(fixture.prepared("a"), "ready");
    eventually("an approval", || {
        (fixture.service.posted() == ["a"]).then_some(())
    });
}

#[test]
fn a_process_that_was_stopped_polls_at_once_and_does_not_make_up_for_missed_polls() {
    let mut fixture = Fixture::new(Duration::from_secs(3600));
    let pid = Pid::from_raw(fixture.run.id().cast_signed()).expect("a process id");
    kill_process(pid, Signal::STOP).expect("a running child");
    thread::sleep(Duration::from_secs(2));
    kill_process(pid, Signal::CONT).expect("a stopped child");
    fixture.service.await_polls(7);
    crate::support::assert_well_behaved(&fixture.service.requests());
    fixture.let_preparations_end();
    assert_eq!(fixture.prepared("a"), "ready");
    eventually("an approval", || {
        (fixture.service.posted() == ["a"]).then_some(())
    });
}

#[test]
fn an_event_that_disappears_after_its_start_by_the_corrected_clock_is_not_cancelled() {
    let mut fixture = Fixture::new(Duration::from_secs(1200));
    fixture.shift(1800);
    fixture.service.await_polls(3);
    fixture.service.show(3, &[]);
    // Whether it took place is unknown.
    fixture.run.change("ended", "a");
    fixture.let_preparations_end();
}

#[test]
fn a_machine_whose_clock_lags_prepares_by_the_clock_of_the_service() {
    let (service, folder) = (FakeService::start(), Folder::new());
    show_with_date(&service, 2, &[event("a", Duration::from_secs(600))]);
    let policy = "[[rule]]\naction = \"prepare\"\nprepare_before = \"15m\"\n";
    // By this clock, the event starts in half an hour.
    let mut run = start(&service, &folder, policy, "true", -1200);
    let record = run.record("a preparation", preparation_ended);
    assert_eq!(
        (&record["event_id"], &record["outcome"]),
        (&json!("a"), &json!("ready"))
    );
    run.wait_for_stderr("warning: this machine's clock lags the metadata service's");
    service.await_polls(3);
    assert_eq!(
        run.stderr().matches("lags the metadata service's").count(),
        1,
        "it is reported once: {}",
        run.stderr()
    );
}

#[test]
fn a_machine_whose_clock_is_ahead_prepares_by_the_clock_of_the_service() {
    let (service, folder) = (FakeService::start(), Folder::new());
    show_with_date(&service, 2, &[event("a", Duration::from_secs(600))]);
    let (policy, left) = (PREPARE_ALL, folder.path("left"));
    let prepare = format!("sh -c 'echo $SCHEDULED_EVENTS_SECONDS_LEFT > {left}'");
    // By this clock, the event was due ten minutes ago.
    let mut run = start(&service, &folder, policy, &prepare, 1200);
    run.record("a preparation", preparation_ended);
    let left: u64 = lines(&left)[0].parse().expect("a number");
    assert!((540..=601).contains(&left), "{left} s are left");
    run.wait_for_stderr("warning: this machine's clock is ahead of the metadata service's");
}

#[test]
fn list_counts_by_the_clock_of_the_service() {
    let (service, folder) = (FakeService::start(), Folder::new());
    show_with_date(&service, 2, &[event("a", Duration::from_secs(600))]);
    for seconds in [-600, 0, 600] {
        let mut list = command(&["list", "--endpoint", &service.url(), "--vm-name", VM]);
        let shift = folder.file("shift", format!("{seconds:+}"));
        control_wall_clock(&mut list, Path::new(&shift));
        let finished = Run::start(list).finish().with_code(0);
        assert!(
            finished.stdout.contains("in 9 min") || finished.stdout.contains("in 10 min"),
            "{seconds}: {}",
            finished.stdout
        );
    }
}

/// Serves these events with the time of day of the service.
fn show_with_date(service: &FakeService, incarnation: u64, events: &[serde_json::Value]) {
    let body = crate::support::document(incarnation, events);
    service.intercept(move |request| {
        let date = httpdate::fmt_http_date(SystemTime::now());
        request
            .is_get()
            .then(|| Reply::new(200, &format!("Date: {date}\r\n"), &body))
    });
}

/// What `status` shows on a machine whose wall clock is ahead by what the file says.
fn status(folder: &Folder, arguments: &[&str]) -> crate::support::Finished {
    let state = folder.path("state");
    let mut status = command(&[&["status", "--state", &state][..], arguments].concat());
    control_wall_clock(&mut status, Path::new(&folder.path("shift")));
    Run::start(status).finish()
}

fn starts_in_ten_minutes(shown: &str) -> bool {
    shown.contains("UTC (in 9 min") || shown.contains("UTC (in 10 min")
}

/// The distance from now of a record's time, in seconds.
fn distance_from_now(time: &serde_json::Value) -> u64 {
    let parsed = time
        .as_str()
        .and_then(scheduled_events_core::UnixSeconds::parse)
        .expect("a time");
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("a time")
        .as_secs();
    parsed.0.unsigned_abs().abs_diff(now)
}

#[test]
fn fault_31_status_and_records_count_by_the_clock_of_the_service() {
    together([-600, 0, 600], |seconds| {
        let (service, folder) = (FakeService::start(), Folder::new());
        show_with_date(&service, 2, &[event("a", Duration::from_secs(600))]);
        let (state, shift) = (
            folder.path("state"),
            folder.file("shift", format!("{seconds:+}")),
        );
        let url = service.url();
        let arguments = ["watch", "--json", "--endpoint", &url, "--state", &state];
        let mut watch = command(&[&arguments[..], &["--vm-name", VM]].concat());
        control_wall_clock(&mut watch, Path::new(&shift));
        let mut run = Run::start(watch);
        let record = run.change("scheduled", "a");
        assert!(
            distance_from_now(&record["time"]) < 60,
            "{seconds}: {record}"
        );
        service.await_polls(2);
        let shown = status(&folder, &[]).with_code(0).stdout;
        assert!(starts_in_ten_minutes(&shown), "{seconds}: {shown}");
        let record = status(&folder, &["--json"]).of_kind("status").remove(0);
        assert!(
            distance_from_now(&record["last_document"]) < 60,
            "{seconds}: {record}"
        );
    });
}

#[test]
fn fault_31_a_clock_that_jumps_by_a_day_changes_no_decision() {
    const DAY: i64 = 86_400;
    together([DAY, -DAY], |jump| {
        let (service, folder) = (FakeService::start(), Folder::new());
        let notice = Duration::from_secs(600);
        show_with_date(&service, 2, &[event("a", notice)]);
        let (state, left) = (folder.path("state"), folder.path("left"));
        let policy = folder.file(
            "policy.toml",
            "[[rule]]\naction = \"prepare\"\nprepare_before = \"15m\"\n",
        );
        let shift = folder.file("shift", "+0");
        let prepare = format!("sh -c 'echo $SCHEDULED_EVENTS_SECONDS_LEFT >> {left}'");
        let url = service.url();
        let arguments = ["watch", "--json", "--endpoint", &url, "--interval", "200ms"];
        let files = [
            "--state",
            &state,
            "--policy",
            &policy,
            "--prepare",
            &prepare,
        ];
        let mut watch = command(&[&arguments[..], &files, &["--vm-name", VM]].concat());
        control_wall_clock(&mut watch, Path::new(&shift));
        let mut run = Run::start(watch);
        run.record("a preparation", preparation_ended);
        let new = folder.file("new", format!("{jump:+}"));
        fs::rename(new, &shift).expect("a file");
        service.await_polls(3);
        // One that is due, and one that is not due for a day.
        let later = Duration::from_secs(86_400 + 600);
        let events = [event("a", notice), event("b", notice), event("c", later)];
        show_with_date(&service, 3, &events);
        run.record("a preparation of b", |record| {
            preparation_ended(record) && record["event_id"] == "b"
        });
        service.await_polls(3);
        for seconds in lines(&left) {
            let seconds: u64 = seconds.parse().expect("a number");
            assert!(
                (540..=601).contains(&seconds),
                "{jump}: {seconds} s are left"
            );
        }
        assert_eq!(lines(&left).len(), 2, "{jump}: c is not due");
        for record in run.records() {
            assert!(distance_from_now(&record["time"]) < 60, "{jump}: {record}");
        }
        let shown = eventually("a report after the jump", || {
            let shown = status(&folder, &[]);
            (shown.code == Some(0)).then_some(shown.stdout)
        });
        assert!(
            starts_in_ten_minutes(&shown) && shown.contains("not due before"),
            "{jump}: {shown}"
        );
        eventually("approvals", || {
            (service.posted() == ["a", "b"]).then_some(())
        });
    });
}
