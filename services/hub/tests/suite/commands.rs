//! Commands that misbehave.

use std::fs;
use std::io::Write as _;
use std::process::Command;

use scheduled_events_test_support::process::Process;
use scheduled_events_test_support::wait;

use crate::control::Control;
use crate::fixture::{Hub, TestQueue, event_id, message, resource};

/// A preparation hangs, and only one command may run.
#[test]
fn a_machine_is_put_back_although_the_preparation_of_another_one_hangs() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    hub.prepare_with("test $SCHEDULED_EVENTS_MACHINE = db || exec sleep 1000\n");
    let config = hub
        .read("hub.toml")
        .replace("[hooks]", "[hooks]\nat_once = 1");
    fs::write(hub.path("hub.toml"), config).expect("written");
    hub.start();
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    queue.send(&message(&machine, &id, "Scheduled", &["db"]));
    hub.await_record("the approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    queue.send(&message(
        &resource("virtualMachines", "slow"),
        &event_id(2),
        "Scheduled",
        &["slow"],
    ));
    hub.await_record("the other command", |record| {
        record["record"] == "prepare" && record["event_id"] == event_id(2).as_str()
    });
    control.change(&queue, &machine, &id, "Completed", &["db"]);
    hub.await_hook(&format!("recover-db-{id}"));
}

#[test]
fn a_command_that_prints_without_end_costs_no_memory_and_holds_up_nobody() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    hub.prepare_with("test $SCHEDULED_EVENTS_MACHINE = db || exec yes\n");
    hub.start();
    queue.send(&message(
        &resource("virtualMachines", "loud"),
        &event_id(1),
        "Scheduled",
        &["loud"],
    ));
    let log = || fs::metadata(hub.path("log")).map_or(0, |file| file.len());
    wait::until("its output", || (log() > 10_000_000).then_some(()));
    queue.send(&message(
        &resource("virtualMachines", "db"),
        &event_id(2),
        "Scheduled",
        &["db"],
    ));
    hub.await_record("the approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    let process = hub.process.as_ref().expect("it runs").0.id();
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("its status");
    let peak = status.lines().find_map(|line| {
        line.strip_prefix("VmHWM:")?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    });
    let peak: u64 = peak.expect("a size");
    assert!(peak < 200_000, "{peak} KiB");
}

/// As when the log driver of a container hangs.
#[test]
fn a_log_that_nobody_reads_holds_up_no_event() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(&[b'\n'; 65536]).expect("it fits");
    hub.process = Some(Process::start(hub.command().arg("run").stderr(writer)));
    let machine = resource("virtualMachines", "db");
    queue.send(&message(&machine, &event_id(1), "Scheduled", &["db"]));
    hub.await_record("the approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    drop(hub);
    drop(reader);
}

#[test]
fn more_files_may_be_open_than_most_systems_allow_at_first() {
    let hub = Hub::new("http://127.0.0.1:1", None, "");
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -Sn 256; exec \"$0\" \"$@\""])
        .arg(hub.command().get_program());
    let process = Process::start(command.args(hub.command().get_args()).arg("run"));
    let limits = || fs::read_to_string(format!("/proc/{}/limits", process.0.id())).expect("limits");
    let most = limits().lines().find_map(|line| {
        line.strip_prefix("Max open files")?
            .split_whitespace()
            .nth(1)?
            .parse()
            .ok()
    });
    let expected = most.map_or(4096, |most: u64| most.min(4096)).to_string();
    wait::until("a higher limit", || {
        let limits = limits();
        let files = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max open files"))?;
        (files.split_whitespace().next() == Some(&expected)).then_some(())
    });
}
