//! The start after a restart: states of an earlier process, and another configuration.

use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use scheduled_events_test_support::wait;

use crate::control::Control;
use crate::fixture::{Hub, TestQueue, event_id, message, resource, row};

/// The files of the machines' states, the newest version of each.
fn states(hub: &Hub) -> Vec<PathBuf> {
    let number = |path: &PathBuf| {
        path.file_name()?
            .to_str()?
            .strip_prefix('.')?
            .parse::<u64>()
            .ok()
    };
    let folders = fs::read_dir(hub.path("state/hub/machines"))
        .into_iter()
        .flatten()
        .flatten();
    let newest = |folder: PathBuf| {
        fs::read_dir(folder)
            .ok()?
            .flatten()
            .map(|file| file.path())
            .max_by_key(number)
    };
    folders.filter_map(|folder| newest(folder.path())).collect()
}

/// Starts the hub with another setting.
fn start_with(hub: &mut Hub, old: &str, new: &str) {
    let config = hub.read("hub.toml");
    assert!(config.contains(old), "{old}");
    fs::write(hub.path("hub.toml"), config.replace(old, new)).expect("written");
    hub.start();
}

/// A hub that was killed after the approval of the first event of a machine, and the file of that
/// machine's state.
fn killed_after_an_approval(control: &Control, queue: &TestQueue) -> (Hub, PathBuf) {
    let mut hub = Hub::new(&control.url(), Some(queue), "");
    hub.start();
    queue.send(&message(
        &resource("virtualMachines", "db"),
        &event_id(1),
        "Scheduled",
        &["db"],
    ));
    hub.await_record("the approval", |record| record["record"] == "approval");
    wait::until("the end of all messages", || {
        (queue.length() == 0).then_some(())
    });
    hub.kill();
    let [state] = &states(&hub)[..] else {
        panic!("one state")
    };
    let state = state.clone();
    (hub, state)
}

#[test]
fn a_state_that_cannot_be_used_costs_neither_the_event_nor_the_hub() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let (mut hub, state) = killed_after_an_approval(&control, &queue);
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    let text = fs::read_to_string(&state).expect("text");
    let (before, rest) = text.split_once("\"session\":\"").expect("a session");
    let (_, after) = rest.split_once('"').expect("its end");
    fs::write(
        state,
        format!("{before}\"session\":\"c2V2AgAAAA==\"{after}"),
    )
    .expect("written");
    hub.start();
    control.change(&queue, &machine, &id, "Started", &["db"]);
    hub.await_record("the start", |record| {
        record["change"]
            .as_str()
            .is_some_and(|change| change.starts_with("started"))
    });
    control.change(&queue, &machine, &id, "Completed", &["db"]);
    hub.await_hook(&format!("recover-db-{id}"));
    assert_eq!(
        hub.process
            .as_mut()
            .expect("it runs")
            .0
            .try_wait()
            .expect("its state"),
        None,
        "{}",
        hub.read("log")
    );
}

/// A broken disk leaves such a file.
#[test]
fn a_register_that_is_damaged_does_not_end_the_hub() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let (mut hub, state) = killed_after_an_approval(&control, &queue);
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    fs::write(state, "{").expect("written");
    let status = wait::output(hub.command().arg("status"));
    let problem = String::from_utf8_lossy(&status.stderr);
    assert!(
        status.status.code() == Some(1) && problem.contains("cannot be read"),
        "{problem}"
    );
    hub.start();
    control.change(&queue, &machine, &id, "Started", &["db"]);
    hub.await_record("the start", |record| {
        record["change"] == "started-without-notice"
    });
    queue.send(&message(&machine, &event_id(2), "Scheduled", &["db"]));
    hub.await_record("the next event", |record| {
        record["record"] == "prepare" && record["event_id"] == event_id(2).as_str()
    });
    assert_eq!(
        hub.process
            .as_mut()
            .expect("it runs")
            .0
            .try_wait()
            .expect("its state"),
        None,
        "{}",
        hub.read("log")
    );
}

#[test]
fn each_machine_of_an_event_learns_of_its_end_although_one_of_them_knew_it_before_a_crash() {
    for late in ["front_0", "front_1"] {
        let control = Control::start();
        let mut hub = Hub::new(&control.url(), None, "reconcile = \"1s\"");
        let (set, id, machines) = (
            resource("virtualMachineScaleSets", "front"),
            event_id(1),
            ["front_0", "front_1"],
        );
        // Recoveries take long.
        let config = hub.read("hub.toml").replace(
            &format!("sh {} recover", hub.path("hook").display()),
            "sleep 1000",
        );
        fs::write(hub.path("hub.toml"), config).expect("written");
        control.with(|world| world.rows = vec![row(&set, &id, "Scheduled", &machines)]);
        hub.start();
        hub.await_record("the approval", |record| {
            record["record"] == "approval" && record["status"] == 200
        });
        let name = format!("\"name\":\"{late}\"");
        let state = |hub: &Hub| {
            let of = |path: PathBuf| Some((path.clone(), fs::read_to_string(path).ok()?));
            states(hub)
                .into_iter()
                .filter_map(of)
                .find(|(_, text)| text.contains(&name))
        };
        let (_, before) = wait::until("its state", || state(&hub));
        control.with(|world| world.rows = vec![row(&set, &id, "Completed", &machines)]);
        let ends = |hub: &Hub| {
            hub.records()
                .iter()
                .filter(|record| record["change"] == "completed")
                .count()
        };
        wait::until("both ends", || (ends(&hub) == 2).then_some(()));
        let is_over =
            |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains("\"over\""));
        wait::until("both states", || {
            (states(&hub).into_iter().filter(is_over).count() == 2).then_some(())
        });
        hub.kill();
        // It was killed before it wrote this machine's state.
        fs::write(wait::until("its state", || state(&hub)).0, before).expect("written");
        hub.start();
        wait::until("its end", || (ends(&hub) == 3).then_some(()));
    }
}

#[test]
fn a_machine_that_has_an_agent_by_now_is_left_to_it() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    hub.approve_unprepared();
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    hub.start();
    control.await_query();
    control.with(|world| world.refusals = vec![(503, "", serde_json::Value::Null); 1000]);
    queue.send(&message(&machine, &id, "Scheduled", &["db"]));
    hub.await_record("a refusal", |record| {
        record["record"] == "approval" && record["status"] == 503
    });
    hub.kill();
    control.with(|world| world.refusals.clear());
    start_with(
        &mut hub,
        "[hooks]",
        "agents = { machines = [\"db\"] }\n[hooks]",
    );
    control.change(&queue, &machine, &id, "Started", &["db"]);
    hub.await_record("the start", |record| record["change"] == "started");
    assert_eq!(control.with(|world| world.approvals.len()), 0);
}

/// While the hub does not run, an event that a machine is ready for may become another one.
#[test]
fn an_event_of_an_earlier_run_is_not_approved_before_it_is_seen_again() {
    let control = Control::start();
    let mut hub = Hub::new(&control.url(), None, "reconcile = \"1s\"");
    let (set, id) = (resource("virtualMachineScaleSets", "front"), event_id(1));
    hub.prepare_with("test $SCHEDULED_EVENTS_MACHINE = front_0\n");
    control.with(|world| {
        world.rows = vec![row(&set, &id, "Scheduled", &["front_0"])];
        world.approvals_refused = Some(503);
    });
    hub.start();
    hub.await_record("a refusal", |record| {
        record["record"] == "approval" && record["status"] == 503
    });
    hub.kill();
    control.with(|world| {
        world.rows = vec![row(&set, &id, "Scheduled", &["front_0", "front_1"])];
        (world.approvals_refused, world.queries_refused) = (None, Some(503));
    });
    hub.start();
    let approvals = || control.with(|world| world.approvals.len());
    wait::until("two queries", || {
        (control.with(|world| world.refused_queries) >= 2).then_some(())
    });
    assert_eq!(approvals(), 0, "nobody knows what the event is");
    control.with(|world| world.queries_refused = None);
    hub.await_record("the other machine", |record| {
        record["record"] == "prepare" && record["outcome"] == "failed"
    });
    assert_eq!(approvals(), 0, "the other machine is not ready");
    // The same event as before.
    control.with(|world| world.rows = vec![row(&set, &id, "Scheduled", &["front_0"])]);
    hub.await_record("the approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
}

/// An update of the package, or a move of the pod, ends the command. That is no failure.
#[test]
fn a_hub_that_is_stopped_while_it_prepares_or_recovers_does_it_again_after_its_restart() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    let script = "cd $(dirname $0)\necho x >>$1.runs\nuntil test -e $1.go; do sleep 0.05; done\n";
    fs::write(hub.path("hook"), script).expect("written");
    hub.start();
    // After the restart, its row is needed for the approval.
    control.change(&queue, &machine, &id, "Scheduled", &["db"]);
    let await_runs = |hub: &Hub, name: &str, runs| {
        wait::until(name, || {
            (hub.read(&format!("{name}.runs")).lines().count() == runs).then_some(())
        });
    };
    for (name, record) in [("prepare", "approval"), ("recover", "recover")] {
        await_runs(&hub, name, 1);
        let process = &mut hub.process.as_mut().expect("it runs").0;
        kill_process(Pid::from_child(process), Signal::TERM).expect("sent");
        assert!(wait::ended(process).success(), "{}", hub.read("log"));
        hub.start();
        await_runs(&hub, name, 2);
        fs::write(hub.path(&format!("{name}.go")), "").expect("written");
        hub.await_record(record, |found| found["record"] == record);
        if name == "prepare" {
            control.change(&queue, &machine, &id, "Completed", &["db"]);
        }
    }
    let failed: Vec<_> = hub
        .records()
        .into_iter()
        .filter(|record| record["outcome"] == "failed")
        .collect();
    assert_eq!(failed, [serde_json::Value::Null; 0]);
}
