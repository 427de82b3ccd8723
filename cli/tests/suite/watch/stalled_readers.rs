//! No reader takes the records or the diagnostics, as with a pager, a full pipe or a stopped
//! journal: the watcher continues.

use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{FakeService, VM, command, document, eventually, freeze, signal, with};

/// Starts a watcher whose output has no reader.
fn watch(service: &FakeService, arguments: &[&str]) -> Child {
    let url = service.url();
    let common = [
        "watch",
        "--json",
        "--endpoint",
        &url,
        "--interval",
        "200ms",
        "--vm-name",
        VM,
        "--policy",
        "sample",
    ];
    command(&[&common[..], arguments].concat())
        .spawn()
        .expect("the command starts")
}

/// Events of other machines, whose records exceed the capacity of a pipe.
fn crowd() -> Vec<Value> {
    let other = |number| json!({ "EventId": format!("other-{number}"), "Resources": ["WestNO_9"] });
    (0..900)
        .map(|number| with(freeze(""), &other(number)))
        .collect()
}

#[test]
fn unread_records_delay_no_approval_and_are_complete_once_they_are_read() {
    let service = FakeService::start();
    let mut events = crowd();
    service.show_body(&document(2, &events));
    let mut watch = watch(&service, &[]);
    service.await_polls(3);
    events.push(freeze("mine"));
    service.show_body(&document(3, &events));
    eventually("the approval", || {
        (service.posted() == ["mine"]).then_some(())
    });
    // From here on, the test reads the records.
    let lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let mut records =
        lines.map(|line| serde_json::from_str::<Value>(&line.expect("a line")).expect("a record"));
    let changes = records
        .by_ref()
        .filter(|record| record["record"] == "change");
    assert_eq!(changes.take(901).count(), 901);
    signal(watch.id(), Signal::TERM);
    assert!(eventually("its end", || watch.try_wait().expect("a child")).success());
    assert!(records.all(|record| record["record"] != "change"));
}

#[test]
fn a_watcher_with_unread_output_is_stopped_by_a_signal() {
    let service = FakeService::start();
    service.show_body(&document(2, &crowd()));
    let mut watch = watch(&service, &[]);
    service.await_polls(4);
    signal(watch.id(), Signal::TERM);
    assert!(eventually("its end", || watch.try_wait().expect("a child")).success());
}

#[test]
fn a_reader_that_is_slow_but_never_stalls_delays_no_poll_and_no_approval() {
    let service = FakeService::start();
    let long = json!({ "Description": "x".repeat(1000) });
    let mut events: Vec<_> = crowd()
        .into_iter()
        .map(|event| with(event, &long))
        .collect();
    service.show_body(&document(2, &events));
    let mut watch = watch(&service, &[]);
    let mut stdout = watch.stdout.take().expect("a pipe");
    // 10 KB/s: each record takes 150 ms once the pipe is full.
    std::thread::spawn(move || {
        let mut some = [0; 500];
        while stdout.read(&mut some).is_ok_and(|read| read > 0) {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    service.await_polls(4);
    events.push(freeze("mine"));
    service.show_body(&document(3, &events));
    eventually("the approval", || {
        (service.posted() == ["mine"]).then_some(())
    });
    service.await_polls(4);
    let polls: Vec<_> = service
        .requests()
        .iter()
        .filter(|request| request.is_get())
        .map(|get| get.arrived)
        .collect();
    let longest = polls
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .max()
        .expect("two polls");
    // Without a common limit for all records it would take more than a minute. The tolerance is for
    // a busy machine.
    assert!(
        longest < Duration::from_secs(40),
        "{longest:?} between two polls"
    );
    signal(watch.id(), Signal::TERM);
    assert!(eventually("its end", || watch.try_wait().expect("a child")).success());
}

#[test]
fn unread_output_of_a_command_delays_no_approval() {
    let service = FakeService::start();
    // The command fills stderr, to which failed polls are reported.
    let mut watch = watch(
        &service,
        &[
            "--on",
            "scheduled=sh -c 'yes chatter | head -c 300000; echo done >&2'",
        ],
    );
    service.show(
        2,
        &[with(freeze("other"), &json!({ "Resources": ["WestNO_9"] }))],
    );
    service.await_polls(5);
    service.intercept(|_| Some(crate::support::Reply::new(500, "", "")));
    service.await_polls(2);
    service.intercept(|_| None);
    service.show(3, &[freeze("mine")]);
    eventually("the approval", || {
        (service.posted() == ["mine"]).then_some(())
    });
    signal(watch.id(), Signal::TERM);
    assert!(
        eventually("its end", || watch.try_wait().expect("a child")).success(),
        "it failed"
    );
}
