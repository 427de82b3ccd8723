//! Whoever should read the records or the diagnostics stands still: a pager, a full pipe to a log, a stopped journal. The
//! watch goes on all the same.

use std::io::Read;
use std::process::Child;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Stage, VM, command, document, eventually, freeze, signal, with};

/// Watches with these arguments; nobody reads what it says.
fn watch(stage: &Stage, arguments: &[&str]) -> Child {
    let url = stage.url();
    let common = ["watch", "--json", "--endpoint", &url, "--interval", "200ms", "--vm-name", VM, "--policy", "sample"];
    command(&[&common[..], arguments].concat()).spawn().expect("the command starts")
}

/// Events of other machines, whose records are more than a pipe holds.
fn crowd() -> Vec<Value> {
    let other = |number| json!({ "EventId": format!("other-{number}"), "Resources": ["WestNO_9"] });
    (0..900).map(|number| with(freeze(""), &other(number))).collect()
}

#[test]
fn records_that_nobody_reads_hold_up_no_approval_and_no_end_and_come_in_full_later() {
    let stage = Stage::start();
    let mut events = crowd();
    stage.show_body(&document(2, &events));
    let mut watch = watch(&stage, &[]);
    stage.await_polls(3);
    events.push(freeze("mine"));
    stage.show_body(&document(3, &events));
    eventually("the approval", || (stage.posted() == ["mine"]).then_some(()));
    // Somebody reads again.
    let mut stdout = watch.stdout.take().expect("a pipe");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).expect("text");
        text
    });
    stage.await_polls(3);
    signal(watch.id(), Signal::TERM);
    assert!(eventually("its end", || watch.try_wait().expect("a child")).success());
    let text = reader.join().expect("a reader");
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a record"));
    assert_eq!(records.filter(|record| record["record"] == "change").count(), 901);
}

#[test]
fn a_watch_that_nobody_reads_is_ended_by_a_signal() {
    let stage = Stage::start();
    stage.show_body(&document(2, &crowd()));
    let mut watch = watch(&stage, &[]);
    stage.await_polls(4);
    signal(watch.id(), Signal::TERM);
    assert!(eventually("its end", || watch.try_wait().expect("a child")).success());
}

#[test]
fn a_command_that_says_more_than_anybody_reads_holds_up_no_approval() {
    let stage = Stage::start();
    // A poll that fails is told on the stream that the command has filled.
    let mut watch = watch(&stage, &["--on", "scheduled=sh -c 'yes chatter | head -c 300000; echo done >&2'"]);
    stage.show(2, &[with(freeze("other"), &json!({ "Resources": ["WestNO_9"] }))]);
    stage.await_polls(5);
    stage.intercept(|_| Some(crate::support::Reply::new(500, "", "")));
    stage.await_polls(2);
    stage.intercept(|_| None);
    stage.show(3, &[freeze("mine")]);
    eventually("the approval", || (stage.posted() == ["mine"]).then_some(()));
    signal(watch.id(), Signal::TERM);
    assert!(eventually("its end", || watch.try_wait().expect("a child")).success(), "within {PATIENCE:?}");
}
