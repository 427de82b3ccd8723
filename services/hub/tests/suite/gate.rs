//! An event of two machines, one of which has a watcher and a fleet's gate: it is approved once
//! both are ready.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use scheduled_events_common::names::Name;
use scheduled_events_common::program::block_on;
use scheduled_events_gate::config::Config;
use scheduled_events_gate::daemon::Daemon;
use scheduled_events_gate::driver::Question;
use scheduled_events_gate::engine;
use scheduled_events_gate::event::Event;
use scheduled_events_gate::protocol::Answer;
use scheduled_events_test_support::process::Process;
use scheduled_events_test_support::{quoted, wait};
use serde_json::{Value, json};

use crate::control::Control;
use crate::emulator::{Emulator, command};
use crate::fixture::{Hub, TestQueue, event_id, message, resource, row};

/// Writes the configuration of a fleet with the group `front`.
fn fleet(folder: &Path) -> PathBuf {
    let registers = folder.join("registers");
    fs::create_dir(&registers).expect("a folder");
    let group = "[[group]]\nname = \"front\"\nmachines = [\"front_*\"]\nmax_unavailable = 2\n";
    let text = format!(
        "engine = \"folder\"\nfolder = {{ path = \"{}\" }}\naudit = \"{}\"\nheartbeat = \"1s\"\nsilent_after = \"10s\"\n{group}",
        registers.display(),
        folder.join("audit").display(),
    );
    let file = folder.join("fleet.toml");
    fs::write(&file, text).expect("written");
    file
}

/// The value of a register, if it exists.
fn register(file: &Path, key: &str) -> Option<String> {
    let read = block_on(async {
        let engine = engine::open(&Config::load(file).expect("valid"))
            .await
            .expect("an engine");
        engine.read(key).await
    });
    read.unwrap_or_else(|failure| panic!("{}", failure.message))
        .expect("an answer")
        .map(|register| register.value)
}

/// The number of registers below a prefix.
fn registers(file: &Path, prefix: &str) -> usize {
    let list = block_on(async {
        let engine = engine::open(&Config::load(file).expect("valid"))
            .await
            .expect("an engine");
        engine.list(prefix).await
    });
    let list = list.unwrap_or_else(|failure| panic!("{}", failure.message));
    list.expect("an answer").len()
}

/// Waits until `front_1` has given back its place and is no longer a member of the fleet.
fn await_leave(file: &Path) {
    wait::until("the end of its membership", || {
        thread::sleep(Duration::from_millis(200));
        register(file, "machines/front_1").is_none().then_some(())
    });
}

/// Waits until nothing is left of the events that are over, where no other machine took part in them.
fn await_no_events(file: &Path) {
    for prefix in ["events/", "marks/"] {
        wait::until(prefix, || (registers(file, prefix) == 0).then_some(()));
    }
}

#[test]
fn the_hub_takes_part_in_a_fleets_gate_for_a_machine_without_an_agent() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = fleet(folder.path());
    let more = format!(
        "gate = \"{}\"\nagents = {{ machines = [\"front_0\"] }}",
        file.display()
    );
    let mut hub = Hub::new(&control.url(), Some(&queue), &more);
    let (set, id) = (resource("virtualMachineScaleSets", "front"), event_id(1));
    hub.start();
    let names = ["front_0", "front_1"];
    queue.send(&message(&set, &id, "Scheduled", &names));
    // The machine without an agent is ready; the other one has not been asked yet.
    hub.await_record("the preparation", |record| {
        record["record"] == "prepare" && record["outcome"] == "ready"
    });
    let is_gate = |answer: &'static str| {
        move |record: &Value| {
            record["record"] == "gate"
                && record["phase"] == "approve"
                && record["outcome"] == answer
        }
    };
    hub.await_record("the gate", is_gate("closed"));
    assert!(control.with(|world| world.approvals.is_empty()));

    // The other machine's own daemon asks for it, at the request of its watcher.
    let event = Event::new(
        &id,
        "Reboot",
        names.map(Name::from).into_iter().collect::<BTreeSet<_>>(),
    );
    let is_approved = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let lives = block_on(async {
                let config = Config::load(&file).expect("valid");
                let engine = engine::open(&config).await.expect("an engine");
                let daemon = Daemon::new(config, Name::from("front_0"), None, engine);
                let asks = async {
                    let prepared = daemon.answer(Question::Prepare, event.clone()).await;
                    assert_eq!(prepared, Ok(Answer::Open));
                    let approved = daemon.answer(Question::Approve, event).await;
                    let is_decided =
                        matches!(approved, Ok(Answer::Open | Answer::AnotherApproves { .. }));
                    assert!(is_decided, "{approved:?}");
                    // It must not fall silent before the hub has posted.
                    while !is_approved.load(Ordering::Relaxed) {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                };
                tokio::select! {
                    () = daemon.maintain() => {}
                    result = tokio::time::timeout(2 * wait::LIMIT, asks) => result.expect("an approval"),
                }
            });
            lives.unwrap_or_else(|failure| panic!("{}", failure.message));
        });
        hub.await_record("the approval", |record| {
            record["record"] == "approval" && record["status"] == 200
        });
        is_approved.store(true, Ordering::Relaxed);
    });

    // After the recovery it gives the place back, and is no longer a member.
    control.change(&queue, &set, &id, "Completed", &names);
    hub.await_record("the recovery", |record| {
        record["record"] == "recover" && record["outcome"] == "done"
    });
    await_leave(&file);
}

/// The registers are read every few minutes. A daemon that has started since acts itself: two
/// participants with one name would both hold its turn to approve.
#[test]
fn the_hub_does_not_act_for_a_machine_whose_daemon_has_started_since_it_read_the_registers() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = fleet(folder.path());
    let more = format!("gate = \"{}\"", file.display());
    let mut hub = Hub::new(&control.url(), Some(&queue), &more);
    let set = resource("virtualMachineScaleSets", "front");
    hub.start();
    // It has read the registers, in which nobody is.
    queue.send(&message(&set, &event_id(1), "Scheduled", &["front_1"]));
    hub.await_record("the preparation of another machine", |record| {
        record["record"] == "prepare" && record["outcome"] == "ready"
    });
    let register_of_front_0 = || {
        let engine = block_on(async {
            let config = Config::load(&file).expect("valid");
            let engine = engine::open(&config).await.expect("an engine");
            let daemon = Daemon::new(config, Name::from("front_0"), None, engine);
            let beat = tokio::time::timeout(Duration::from_secs(1), daemon.maintain());
            assert!(beat.await.is_err(), "it runs without end");
        });
        engine.unwrap_or_else(|failure| panic!("{}", failure.message));
        register(&file, "machines/front_0")
    };
    // Not within a second where the machine is busy.
    wait::until("its register", register_of_front_0);
    queue.send(&message(&set, &event_id(2), "Scheduled", &["front_0"]));
    let of_front_0 = |record: &Value| {
        let id = record["resource_id"].as_str().unwrap_or_default();
        id.ends_with("/virtualMachines/0")
    };
    hub.await_record("a closed gate", |record| {
        of_front_0(record) && record["record"] == "gate" && record["outcome"] == "closed"
    });
    thread::sleep(Duration::from_secs(2));
    let acts: Vec<_> = hub.records().into_iter().filter(of_front_0).collect();
    let is_act = |record: &&Value| record["record"] == "prepare" || record["record"] == "approval";
    assert_eq!(acts.iter().find(is_act), None, "{acts:?}");
}

/// Two machines have a watcher and a daemon of the fleet; the hub acts for the third.
#[test]
fn three_machines_of_which_one_has_no_agent_are_approved_once_when_all_are_ready() {
    let fleet_command = Path::new(env!("CARGO_BIN_EXE_scheduled-events-hub"))
        .with_file_name("scheduled-events-fleet");
    assert!(
        fleet_command.exists(),
        "build it: cargo build --package scheduled-events-fleet"
    );
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let names = ["WestNO_0", "WestNO_1", "WestNO_2"];
    fs::write(
        path("scenario.toml"),
        format!(
            "about = \"Three machines are rebooted together.\"\n[[event]]\nevent_type = \"Reboot\"\nevent_source = \"Platform\"\n\
             description = \"Maintenance.\"\nduration_in_seconds = -1\nresources = {names:?}\nappears = \"1s\"\nnotice = \"15min\"\n\
             starts_after_approval = \"1s\"\nstarted_for = \"2s\"\n"
        ),
    )
    .expect("written");
    let (queue, more) = (TestQueue::start(), ["--vm-name", names[0]]);
    let emulator = Emulator::start(&path("scenario.toml"), Some(&queue), &more);
    fs::create_dir(path("registers")).expect("a folder");
    let group = "[[group]]\nname = \"web\"\nmachines = [\"WestNO_*\"]\nmax_unavailable = 3\n";
    let fleet = |name: &str| {
        let text = format!(
            "machine = \"{name}\"\nengine = \"folder\"\nfolder = {{ path = \"{}\" }}\nsocket = \"{}\"\naudit = \"{}\"\n\
             heartbeat = \"1s\"\nmetadata = \"{}\"\n{group}",
            path("registers"),
            path(&format!("{name}.socket")),
            path(&format!("{name}.audit")),
            emulator.endpoint,
        );
        let file = path(&format!("{name}.toml"));
        fs::write(&file, text).expect("written");
        file
    };
    let agents = &names[..2];
    let daemons: Vec<_> = agents
        .iter()
        .map(|name| {
            let daemon = Process::start(Command::new(&fleet_command).args([
                "--config",
                &fleet(name),
                "run",
            ]));
            wait::until("the socket", || {
                UnixStream::connect(path(&format!("{name}.socket"))).ok()
            });
            daemon
        })
        .collect();
    fs::write(path("policy.toml"), "[[rule]]\naction = \"prepare\"\n").expect("written");
    let watchers: Vec<_> = agents
        .iter()
        .map(|name| {
            let program = quoted(&fleet_command.display().to_string());
            let ask = format!(
                "{program} --config {} ask",
                quoted(&path(&format!("{name}.toml")))
            );
            let prepare = format!(
                "sh -c 'until test -e {}; do sleep 0.05; done'",
                path(&format!("{name}.go"))
            );
            let mut watch = Command::new(command());
            watch.args([
                "watch",
                "--endpoint",
                &emulator.endpoint,
                "--vm-name",
                name,
                "--interval",
                "200ms",
            ]);
            watch.args([
                "--gate",
                &ask,
                "--prepare",
                &prepare,
                "--policy",
                &path("policy.toml"),
            ]);
            watch.args([
                "--audit",
                &path(&format!("{name}.audit")),
                "--state",
                &path(&format!("{name}.state")),
            ]);
            Process::start(watch.args(["--until-idle", "--json"]).stdout(Stdio::null()))
        })
        .collect();
    let records = |name: &str, kind: &str| -> Vec<Value> {
        let text = fs::read_to_string(path(&format!("{name}.audit"))).unwrap_or_default();
        let records = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        records.filter(|record| record["record"] == kind).collect()
    };
    // The fleet's registers show which machines have one.
    let more = format!("gate = \"{}\"", fleet(names[2]));
    let mut hub = Hub::new(&emulator.management, Some(&queue), &more);
    hub.prepare_with("until test -e $(dirname $0)/go; do sleep 0.05; done\n");
    hub.start();
    let approvals = || {
        let own = hub
            .records()
            .into_iter()
            .filter(|record| record["record"] == "approval");
        own.chain(agents.iter().flat_map(|name| records(name, "approval")))
            .collect::<Vec<_>>()
    };
    let is_closed = |record: &Value| {
        record["record"] == "gate" && record["phase"] == "approve" && record["outcome"] == "closed"
    };

    // Two of three are ready, one of each kind.
    fs::write(path(&format!("{}.go", names[0])), "").expect("written");
    fs::write(hub.path("go"), "").expect("written");
    hub.await_record("a closed gate", is_closed);
    wait::until("a closed gate", || {
        records(names[0], "gate").into_iter().find(is_closed)
    });
    assert_eq!(approvals(), [json!(null); 0]);
    // All are.
    fs::write(path(&format!("{}.go", names[1])), "").expect("written");
    wait::until("the approval", || approvals().pop());
    hub.await_record("the recovery", |record| {
        record["record"] == "recover" && record["outcome"] == "done"
    });
    for mut watcher in watchers {
        assert!(wait::ended(&mut watcher.0).success());
    }
    let approvals = approvals();
    assert!(
        approvals.len() == 1 && approvals[0]["status"] == 200,
        "{approvals:?}"
    );
    let is_command =
        |record: &&Value| record["record"] == "prepare" || record["record"] == "recover";
    for record in hub.records().iter().filter(is_command) {
        let machine = record["resource_id"].as_str().expect("an id");
        assert!(
            machine.ends_with("/virtualMachines/2"),
            "the hub acts for {machine}"
        );
    }
    drop(daemons);
}

#[test]
fn two_events_of_a_machine_pass_the_gate_side_by_side() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = fleet(folder.path());
    let mut hub = Hub::new(
        &control.url(),
        Some(&queue),
        &format!("gate = \"{}\"", file.display()),
    );
    let (set, ids) = (
        resource("virtualMachineScaleSets", "front"),
        [event_id(1), event_id(2)],
    );
    hub.start();
    let send = |status: &str| {
        control.with(|world| {
            world.rows = ids
                .each_ref()
                .map(|id| row(&set, id, status, &["front_1"]))
                .to_vec();
        });
        queue.send(&Value::from(
            ids.each_ref()
                .map(|id| message(&set, id, status, &["front_1"]))
                .to_vec(),
        ));
    };
    send("Scheduled");
    let is_approved = |record: &&Value| record["record"] == "approval" && record["status"] == 200;
    let approved = || -> usize {
        let ids = |record: Value| record["event_ids"].as_array().map_or(0, Vec::len);
        hub.records()
            .iter()
            .filter(is_approved)
            .cloned()
            .map(ids)
            .sum()
    };
    wait::until("both approvals", || (approved() == 2).then_some(()));
    send("Completed");
    hub.await_record("the recovery", |record| {
        record["record"] == "recover" && record["outcome"] == "done"
    });
    await_leave(&file);
}

/// The configuration of [`fleet`] with this time for `return_within`.
fn fleet_that_waits(folder: &Path, return_within: &str) -> PathBuf {
    let file = fleet(folder);
    let config = fs::read_to_string(&file).expect("text");
    fs::write(
        &file,
        format!("return_within = \"{return_within}\"\n{config}"),
    )
    .expect("written");
    file
}

/// The place is in the fleet's store, and nobody else gives it back.
#[test]
fn a_place_is_given_back_although_the_hub_starts_again_meanwhile() {
    // On the same machine, and on another one, which has the states of the machines, but not the
    // audit file: during the event, and after it, when only the registers show the place.
    for (is_moved, is_moved_after) in [(false, false), (true, false), (false, true)] {
        let (control, queue) = (Control::start(), TestQueue::start());
        let folder = tempfile::TempDir::new().expect("a folder");
        let file = fleet_that_waits(folder.path(), "15s");
        let mut hub = Hub::new(
            &control.url(),
            Some(&queue),
            &format!("gate = \"{}\"", file.display()),
        );
        let (set, id) = (resource("virtualMachineScaleSets", "front"), event_id(1));
        hub.start();
        queue.send(&message(&set, &id, "Scheduled", &["front_1"]));
        hub.await_record("the approval", |record| {
            record["record"] == "approval" && record["status"] == 200
        });
        hub.kill();
        if is_moved {
            fs::remove_file(hub.path("audit")).expect("removed");
        }
        hub.start();
        control.change(&queue, &set, &id, "Completed", &["front_1"]);
        hub.await_record("the recovery", |record| {
            record["record"] == "recover" && record["outcome"] == "done"
        });
        // Before it could give the place back.
        hub.kill();
        if is_moved_after {
            fs::remove_file(hub.path("audit")).expect("removed");
        }
        hub.start();
        await_leave(&file);
        if !is_moved_after {
            await_no_events(&file);
        }
    }
}

/// The second hub is on another machine, which has the states of the machines, but not the audit
/// file.
#[test]
fn a_place_is_kept_for_a_recovery_that_takes_long_although_no_record_has_the_preparation() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = fleet_that_waits(folder.path(), "1s");
    let mut hub = Hub::new(
        &control.url(),
        Some(&queue),
        &format!("gate = \"{}\"", file.display()),
    );
    let wait_for_go = "until test -e $(dirname $0)/go; do sleep 0.05; done\n";
    fs::write(hub.path("wait"), wait_for_go).expect("written");
    let hook = |name: &str| hub.path(name).display().to_string();
    let config = hub
        .read("hub.toml")
        .replace(&format!("{} recover", hook("hook")), &hook("wait"));
    fs::write(hub.path("hub.toml"), config).expect("written");
    let (set, id) = (resource("virtualMachineScaleSets", "front"), event_id(1));
    hub.start();
    queue.send(&message(&set, &id, "Scheduled", &["front_1"]));
    hub.await_record("the approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    hub.kill();
    fs::remove_file(hub.path("audit")).expect("removed");
    hub.start();
    control.change(&queue, &set, &id, "Completed", &["front_1"]);
    hub.await_record("the end", |record| record["change"] == "completed");
    // A machine that may not have been prepared gets 10 s more.
    thread::sleep(Duration::from_secs(14));
    let group = register(&file, "groups/front").expect("a register");
    assert!(group.contains("front_1"), "{group}");
    fs::write(hub.path("go"), "").expect("written");
    await_leave(&file);
}

/// The second hub is on another machine, which has the states of the machines, but not the audit
/// file.
#[test]
fn an_event_that_was_not_prepared_for_takes_no_machine_out_of_service() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = fleet_that_waits(folder.path(), "1s");
    let mut hub = Hub::new(
        &control.url(),
        Some(&queue),
        &format!("gate = \"{}\"", file.display()),
    );
    let policy = "[[rule]]\nevent = [\"Reboot\"]\naction = \"prepare\"\nscope = \"mine\"\n";
    fs::write(hub.path("policy.toml"), policy).expect("written");
    let (set, ids) = (
        resource("virtualMachineScaleSets", "front"),
        [event_id(1), event_id(2)],
    );
    hub.start();
    let mut held = message(&set, &ids[1], "Scheduled", &["front_1"]);
    let properties = &mut held["data"]["resourceInfo"]["properties"];
    assert!(properties["EventType"].is_string(), "{held}");
    properties["EventType"] = "Terminate".into();
    queue.send(&held);
    hub.await_record("the decision", |record| {
        record["record"] == "decision" && record["action"] == "hold"
    });
    queue.send(&message(&set, &ids[0], "Scheduled", &["front_1"]));
    hub.await_record("the approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    hub.kill();
    fs::remove_file(hub.path("audit")).expect("removed");
    hub.start();
    control.change(&queue, &set, &ids[0], "Completed", &["front_1"]);
    hub.await_record("the recovery", |record| {
        record["record"] == "recover" && record["outcome"] == "done"
    });
    // The other event is still announced, and would take the machine away for good.
    thread::sleep(Duration::from_secs(3));
    let machine = register(&file, "machines/front_1").expect("a register");
    assert!(!machine.contains("\"leaving\":true"), "{machine}");
}
