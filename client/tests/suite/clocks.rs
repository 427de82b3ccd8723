//! Clocks that are moved and machines that stand still: polls go on, and a `NotBefore`, which is a moment of the day, is
//! kept by the time of day.
//!
//! The real command runs under libfaketime, which moves its wall clock when a file says so and leaves its other clocks
//! alone.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{
    Folder, PREPARE_ALL, Run, Stage, VM, command, eventually, freeze, in_future, lines, together, with,
};

/// A watch whose wall clock the test moves, and whose preparation waits for a file.
struct Bench {
    stage: Stage,
    folder: Folder,
    log: String,
    run: Run,
}

impl Bench {
    /// With an event that starts so long from now.
    fn new(notice: Duration) -> Self {
        let (stage, folder) = (Stage::start(), Folder::new());
        stage.show(2, &[event("a", notice)]);
        let policy = folder.file("policy.toml", PREPARE_ALL);
        let (log, go, shift) = (folder.path("log"), folder.path("go"), folder.file("shift", "+0"));
        let prepare = format!(
            "sh -c 'echo $SCHEDULED_EVENTS_EVENT_ID >> {log}; while ! test -e {go} && test -e {policy}; do sleep 0.1; done'"
        );
        let url = stage.url();
        let mut watch = command(&["watch", "--json", "--endpoint", &url, "--interval", "200ms", "--vm-name", VM]);
        watch.args(["--policy", &policy, "--prepare", &prepare]);
        move_wall_clock_by(&mut watch, &shift);
        let run = Run::start(watch);
        let bench = Self { stage, folder, log, run };
        bench.await_preparation("a");
        bench
    }

    /// Moves the watch's wall clock by so many seconds.
    fn shift(&self, seconds: i64) {
        // In one step, since the clock is read at any moment.
        let new = self.folder.file("new", format!("{seconds:+}"));
        fs::rename(new, self.folder.path("shift")).expect("a file");
    }

    fn let_preparations_end(&self) {
        self.folder.file("go", "");
    }

    fn await_preparation(&self, id: &str) {
        eventually(id, || lines(&self.log).iter().any(|line| line == id).then_some(()));
    }

    /// How the preparation of an event ended, and when.
    fn prepared(&mut self, id: &str) -> (String, Instant) {
        let record = self.run.record("a preparation", |told| told["record"] == "prepare" && told["event_id"] == id);
        (record["outcome"].as_str().expect("a word").to_owned(), Instant::now())
    }

    /// The longest pause between two polls since the beginning.
    fn longest_pause(&self) -> Duration {
        let arrivals: Vec<_> = self.stage.requests().iter().map(|request| request.arrived).collect();
        arrivals.windows(2).map(|two| two[1].duration_since(two[0])).max().expect("polls")
    }
}

/// A freeze of this machine that starts so long from now.
fn event(id: &str, notice: Duration) -> serde_json::Value {
    with(freeze(id), &json!({ "NotBefore": in_future(notice) }))
}

/// # Panics
/// Where there is no libfaketime, since nothing else shows what these tests show.
fn move_wall_clock_by(command: &mut Command, file: &str) {
    let library = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].iter().find_map(|folder| {
        let direct = PathBuf::from(folder).join("faketime/libfaketime.so.1");
        let architectures = fs::read_dir(folder).into_iter().flatten().flatten();
        let below = architectures.map(|entry| entry.path().join("faketime/libfaketime.so.1"));
        std::iter::once(direct).chain(below).find(|path| path.exists())
    });
    let library = library.expect("libfaketime is missing: `make setup` installs it, or the package faketime of Debian");
    command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", file);
    command.env("FAKETIME_NO_CACHE", "1").env("DONT_FAKE_MONOTONIC", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
}

const YEAR: i64 = 365 * 86_400;

/// What a busy machine may add to 200 milliseconds between two polls.
const BUSY: Duration = Duration::from_secs(5);

#[test]
fn a_wall_clock_moved_by_a_year_stops_no_poll_and_moves_no_deadline() {
    together([YEAR, -YEAR], |shift| {
        let notice = Duration::from_secs(16);
        let start = Instant::now() + notice;
        let mut bench = Bench::new(notice);
        bench.shift(shift);
        bench.stage.await_polls(20);
        bench.run.says("warning: the wall clock was moved by more than an hour, which is not believed");
        // It is neither late already nor a year ahead.
        let (outcome, when) = bench.prepared("a");
        assert_eq!(outcome, "timed-out", "{shift}");
        assert!(when + Duration::from_secs(3) > start, "{:?} too early after {shift}", start - when);
        assert!(when < start + Duration::from_secs(10), "{:?} too late after {shift}", when - start);

        // The same for an event that is announced afterwards.
        bench.stage.show(3, &[event("b", notice)]);
        let start = Instant::now() + notice;
        bench.await_preparation("b");
        let (outcome, when) = bench.prepared("b");
        assert_eq!(outcome, "timed-out", "{shift}");
        assert!(when + Duration::from_secs(3) > start && when < start + Duration::from_secs(10), "{shift}");
        assert!(bench.longest_pause() < BUSY, "{:?} without a poll after {shift}", bench.longest_pause());
        assert!(bench.stage.posted().is_empty());
        assert_eq!(bench.run.stderr().matches("the wall clock was moved").count(), 1, "told once");
    });
}

#[test]
fn a_machine_that_stood_still_ends_a_preparation_whose_time_is_over() {
    let mut bench = Bench::new(Duration::from_secs(40 * 60));
    // What a suspended or frozen machine sees: the process stops, and afterwards the wall clock is 50 minutes on.
    let pid = Pid::from_raw(bench.run.id().cast_signed()).expect("a process id");
    kill_process(pid, Signal::STOP).expect("a running child");
    thread::sleep(Duration::from_secs(2));
    bench.shift(50 * 60);
    let polls = bench.stage.polls();
    kill_process(pid, Signal::CONT).expect("a stopped child");
    let resumed = Instant::now();
    eventually("a poll", || (bench.stage.polls() > polls).then_some(()));
    assert!(resumed.elapsed() < BUSY, "the first poll came {:?} after the pause", resumed.elapsed());
    // It gets the few seconds that every command gets, and is ended.
    let (outcome, when) = bench.prepared("a");
    assert_eq!(outcome, "timed-out");
    assert!(when < resumed + Duration::from_secs(20), "{:?} after the pause", when - resumed);
    assert!(bench.stage.posted().is_empty());
    // What has not come by then is told as what it is: the event is announced still.
    bench.stage.await_polls(3);
    assert_eq!(bench.run.records().iter().filter(|record| record["record"] == "change").count(), 1);
}

#[test]
fn a_wall_clock_set_back_by_half_an_hour_gives_a_preparation_the_time_that_is_left() {
    let mut bench = Bench::new(Duration::from_secs(8));
    let begun = Instant::now();
    bench.shift(-30 * 60);
    bench.stage.await_polls(3);
    thread::sleep(Duration::from_secs(14).saturating_sub(begun.elapsed()));
    assert!(bench.run.records().iter().all(|record| record["record"] != "prepare"), "{}", bench.run.stdout());
    bench.let_preparations_end();
    assert_eq!(bench.prepared("a").0, "ready");
    eventually("an approval", || (bench.stage.posted() == ["a"]).then_some(()));
    assert!(bench.longest_pause() < BUSY);
}

#[test]
fn a_process_that_was_stopped_for_a_while_polls_at_once_and_hammers_nobody() {
    let mut bench = Bench::new(Duration::from_secs(3600));
    let pid = Pid::from_raw(bench.run.id().cast_signed()).expect("a process id");
    kill_process(pid, Signal::STOP).expect("a running child");
    thread::sleep(Duration::from_secs(4));
    kill_process(pid, Signal::CONT).expect("a stopped child");
    bench.stage.await_polls(10);
    // The polls that were missed are not made up for.
    crate::support::assert_well_behaved(&bench.stage.requests());
    bench.let_preparations_end();
    assert_eq!(bench.prepared("a").0, "ready");
    eventually("an approval", || (bench.stage.posted() == ["a"]).then_some(()));
}

#[test]
fn an_event_that_is_gone_after_its_start_by_a_clock_that_was_set_right_was_not_cancelled() {
    let mut bench = Bench::new(Duration::from_secs(1200));
    bench.shift(1800);
    bench.stage.await_polls(3);
    bench.stage.show(3, &[]);
    // Whether it took place cannot be told.
    bench.run.change("ended", "a");
    bench.let_preparations_end();
}
