//! Commands that misbehave.

use std::fs;
use std::io::Write as _;
use std::process::Command;

use scheduled_events_test_support::not_run;
use scheduled_events_test_support::process::Process;
use scheduled_events_test_support::wait;

use crate::control::Control;
use crate::fixture::{Hub, TestQueue, event_id, message, resource, row};

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
    hub.prepare_with(
        "test $SCHEDULED_EVENTS_MACHINE = db && exit\nyes | head -c 10000000\n: >$(dirname \"$0\")/printed\nexec yes\n",
    );
    hub.start();
    queue.send(&message(
        &resource("virtualMachines", "loud"),
        &event_id(1),
        "Scheduled",
        &["loud"],
    ));
    wait::until("its output", || hub.path("printed").exists().then_some(()));
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
    // Two bytes of each line are the command's.
    let log = fs::metadata(hub.path("log")).expect("a log").len();
    assert!((32_000..1_000_000).contains(&log), "{log} bytes");
}

/// A shell script whose two children ignore SIGTERM: one in the command's process group, and one in
/// a session of its own. Their process ids are in the file `children`.
const STUBBORN: &str = "trap '' TERM\nhere=$(dirname \"$0\")\nchild='echo $$ >>\"$0/children\"; while :; do sleep 1; done'\n\
    sh -c \"$child\" \"$here\" &\nsetsid sh -c \"sh -c '$child' $here &\"\n";

/// The children that have started so far.
fn children(hub: &Hub) -> Vec<String> {
    let children = fs::read_to_string(hub.path("children")).unwrap_or_default();
    children.lines().map(str::to_owned).collect()
}

fn runs(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn what_a_killed_hub_left_running_has_ended_when_it_is_run_again() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    hub.prepare_with(&format!("{STUBBORN}wait\n"));
    hub.start();
    let machine = resource("virtualMachines", "db");
    queue.send(&message(&machine, &event_id(1), "Scheduled", &["db"]));
    let first = wait::until("both", || Some(children(&hub)).filter(|all| all.len() == 2));
    assert!(first.iter().all(|process| runs(process)), "{first:?}");
    hub.kill();
    hub.start();
    wait::until("the next run", || (children(&hub).len() > 2).then_some(()));
    assert!(!first.iter().any(|process| runs(process)), "{first:?}");
}

#[test]
fn what_a_command_has_left_to_another_session_ends_at_its_deadline() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    hub.prepare_with(&format!("{STUBBORN}sleep 1000\n"));
    let config = hub.read("hub.toml");
    let config = config.replace("[hooks]", "[hooks]\nprepare_timeout = \"15s\"");
    fs::write(hub.path("hub.toml"), config).expect("written");
    hub.start();
    let machine = resource("virtualMachines", "db");
    queue.send(&message(&machine, &event_id(1), "Scheduled", &["db"]));
    let first = wait::until("both", || Some(children(&hub)).filter(|all| all.len() == 2));
    hub.await_record("the deadline", |record| record["outcome"] == "timed-out");
    assert!(!first.iter().any(|process| runs(process)), "{first:?}");
}

/// Nobody else waits for what its commands leave running.
#[test]
fn a_hub_that_is_the_first_process_of_a_container_leaves_no_zombies() {
    let words = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let container = || {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    };
    if !wait::output(container().arg("true")).status.success() {
        not_run("this user may not create a process namespace");
        return;
    }
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    hub.prepare_with("for i in 1 2 3; do (sh -c 'sleep 0.2; echo >>\"$0/ended\"' \"$(dirname \"$0\")\" &); done\n");
    let run = hub.command();
    let mut command = container();
    command
        .arg(run.get_program())
        .args(run.get_args())
        .arg("run");
    let process = Process::start(&mut command);
    let outer = process.0.id();
    hub.process = Some(process);
    let machine = resource("virtualMachines", "db");
    queue.send(&message(&machine, &event_id(1), "Scheduled", &["db"]));
    wait::until("their ends", || {
        let ended = fs::read_to_string(hub.path("ended")).unwrap_or_default();
        (ended.lines().count() == 3).then_some(())
    });
    let children = |process: &str| {
        let path = format!("/proc/{process}/task/{process}/children");
        let children = fs::read_to_string(path).unwrap_or_default();
        children
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let first = children(&outer.to_string())
        .pop()
        .expect("the first process");
    wait::until("no zombies", || {
        let mut found = children(&first);
        found.extend(found.clone().iter().flat_map(|child| children(child)));
        found.iter().all(|process| runs(process)).then_some(())
    });
}

/// As when the log driver of a container hangs.
#[test]
fn a_log_that_nobody_reads_holds_up_no_event() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(&vec![b'\n'; 65536]).expect("it fits");
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

/// The failure is shown for as long as somebody has to look, and not for some minutes only.
#[test]
fn what_has_failed_is_a_metric_until_it_is_resolved() {
    let control = Control::start();
    let mut hub = Hub::new(&control.url(), None, "reconcile = \"1s\"");
    hub.prepare_with("exit 78\n");
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    let await_metric = |hub: &Hub, value: u32| {
        wait::until("the metric", || {
            let line = format!("scheduled_events_hub_preparation_failed {value}\n");
            hub.read("hub.prom").contains(&line).then_some(())
        });
    };
    hub.start();
    await_metric(&hub, 0);
    control.with(|world| world.rows = vec![row(&machine, &id, "Scheduled", &["db"])]);
    await_metric(&hub, 1);
    control.with(|world| world.rows = vec![row(&machine, &id, "Canceled", &["db"])]);
    await_metric(&hub, 0);
}
