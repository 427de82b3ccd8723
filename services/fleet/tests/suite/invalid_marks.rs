//! Marks that look valid although their machine is not ready: real watchers and daemons, and
//! machines with one event.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use scheduled_events_gate::engine::Engine;
use scheduled_events_gate::register::{EventRegister, Mark};
use scheduled_events_test_support::wait;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::fixture::{EtcdServer, Process, block_on, registers, restore, wait_for};
use crate::three_machines::{MACHINES, Machine, POLICY, replay, replay_of_two};

/// A folder for the machines, and the replay server with its address.
fn begin() -> (TempDir, Process, String) {
    let root = TempDir::new().expect("a folder");
    std::fs::write(root.path().join("policy.toml"), POLICY).expect("a policy");
    let (replay, url) = replay_of_two(root.path());
    (root, replay, url)
}

fn wait_for_record(machine: &Machine, kind: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    wait_for(&format!("a record {kind} of {}", machine.name), || {
        machine
            .records(kind)
            .into_iter()
            .find(|record| is_wanted(record))
    })
}

/// The machine completes its preparation, and its gate has an answer about the approval, which is returned.
fn is_ready(machine: &Machine) -> Value {
    machine.allow_preparation();
    let record = wait_for_record(machine, "gate", |record| record["phase"] == "approve");
    record["outcome"].clone()
}

/// The machine's watcher ends, and its state is lost. The next preparation waits until the test allows it.
fn loses_state(machine: &mut Machine) {
    machine.watcher = None;
    for name in ["state", "prepared"] {
        std::fs::remove_file(machine.folder.join(name)).expect("removed");
    }
}

fn approvals(machines: &[&Machine]) -> Vec<Value> {
    machines
        .iter()
        .flat_map(|machine| machine.records("approval"))
        .collect()
}

/// Nobody has approved. Once this machine is ready, somebody does.
fn is_approved_once_ready(last: &Machine, other: &Machine) {
    let machines = [last, other];
    assert_eq!(approvals(&machines), Vec::<Value>::new());
    last.allow_preparation();
    wait_for("an approval", || {
        approvals(&machines)
            .into_iter()
            .find(|record| record["status"] == 200)
    });
}

/// The register of the only event.
fn event_register(engine: &dyn Engine) -> EventRegister {
    let found = block_on(engine.list("events/")).expect("the events");
    let [(_, register)] = &found[..] else {
        panic!("found {found:?}, expected one event");
    };
    serde_json::from_str(&register.value).expect("an event")
}

fn mark_of(register: &EventRegister, machine: &Machine) -> Option<Mark> {
    let marked = register.marks.get(&machine.name.into())?;
    (marked.round == register.round).then_some(marked.mark)
}

/// In the backup the first machine is ready. It prepares again, as the other one has seen.
#[test]
fn a_mark_that_comes_back_from_a_backup_does_not_count() {
    let (root, _replay, url) = begin();
    let (root, etcd) = (root.path(), EtcdServer::start());
    let engine = etcd.engine();
    let [mut a, mut b] =
        [MACHINES[0], MACHINES[1]].map(|name| Machine::new(name, root, &etcd, &url));
    for machine in [&mut a, &mut b] {
        machine.start_daemon();
        machine.start_watcher(root, &url);
        wait_for_record(machine, "prepare", |record| record["outcome"] == "begun");
    }
    assert_eq!(is_ready(&a), "closed");
    let backup = registers(&*engine, "");
    let before = event_register(&*engine);
    assert_eq!(mark_of(&before, &a), Some(Mark::Ready));

    loses_state(&mut a);
    a.start_watcher(root, &url);
    wait_for("another preparation", || {
        let records = a.records("prepare").into_iter();
        (records
            .filter(|record| record["outcome"] == "begun")
            .count()
            == 2)
            .then_some(())
    });
    assert_eq!(
        mark_of(&event_register(&*engine), &a),
        Some(Mark::Withdrawn)
    );
    assert_eq!(is_ready(&b), "closed");
    restore(&*engine, &backup);
    // The other machine finds the older register with its next question, and begins a new round.
    wait_for("an answer", || {
        let is_new = event_register(&*engine).round != before.round;
        (is_new || !approvals(&[&a, &b]).is_empty()).then_some(())
    });
    is_approved_once_ready(&a, &b);
}

/// The first machine is replaced when it is ready, and cannot reach the store any more: so it
/// prepares again by its last call.
#[test]
fn the_mark_of_a_machine_that_was_replaced_and_is_cut_off_does_not_count() {
    let (root, _replay, url) = begin();
    let root = root.path();
    std::fs::create_dir(root.join("registers")).expect("a folder");
    // Each machine has the folder under a path of its own, which can go away as a mount can.
    let mount = |name: &str| {
        std::os::unix::fs::symlink(root.join("registers"), mount_of(root, name)).expect("a link");
    };
    let [mut a, b] = [MACHINES[0], MACHINES[1]].map(|name| {
        mount(name);
        let store = format!(
            "engine = \"folder\"\nfolder.path = {:?}\nsilent_after = \"3s\"",
            mount_of(root, name)
        );
        let mut machine = Machine::on_store(name, root, &store, &url);
        machine.start_daemon();
        machine.start_watcher(root, &url);
        machine
    });
    for machine in [&a, &b] {
        wait_for_record(machine, "prepare", |record| record["outcome"] == "begun");
    }
    assert_eq!(is_ready(&a), "closed");

    a.daemon = None;
    loses_state(&mut a);
    std::fs::remove_file(a.folder.join("audit")).expect("removed");
    std::fs::remove_file(mount_of(root, a.name)).expect("removed");
    a.start_daemon();
    let mut command = a.watch_and_prepare(root, &url, &a.gate());
    a.watcher = Some(Process::start(command.args(["--last-call", "14m59s"])));
    wait_for_record(&a, "gate", |record| record["outcome"] == "last-call");
    wait_for_record(&a, "prepare", |record| record["outcome"] == "begun");
    let status = || {
        let output = wait::output(b.fleet().args(["status", "--json"])).stdout;
        let records = String::from_utf8(output).expect("text");
        let records = records
            .lines()
            .map(|line| serde_json::from_str(line).expect("a record"));
        records.collect::<Vec<Value>>()
    };
    let wait_for_state = |state: &str| {
        let is_so = |record: &Value| record["machine"] == a.name && record["state"] == state;
        wait_for(state, || status().iter().any(is_so).then_some(()));
    };
    wait_for_state("silent");
    assert_eq!(is_ready(&b), "closed");
    assert_eq!(approvals(&[&a, &b]), Vec::<Value>::new());

    // It withdraws the mark before others hear of it.
    mount(a.name);
    wait_for_state("beating");
    let engine = scheduled_events_gate::engine::folder::FolderEngine::new(&root.join("registers"));
    assert_eq!(mark_of(&event_register(&engine), &a), Some(Mark::Withdrawn));
    is_approved_once_ready(&a, &b);
}

fn mount_of(root: &Path, name: &str) -> std::path::PathBuf {
    root.join(format!("{name}-registers"))
}

/// A copy of the first machine's disk starts on another computer while the first one prepares, and
/// could be ready at once. With the default heartbeat, neither finds the other one for long.
#[test]
fn the_mark_of_a_copy_does_not_count() {
    let (root, _replay, url) = begin();
    let (root, etcd) = (root.path(), EtcdServer::start());
    let start = |folder: &Path, name, computer: &str| {
        std::fs::create_dir_all(folder).expect("a folder");
        let mut machine = Machine::new(name, folder, &etcd, &url);
        let text = std::fs::read_to_string(&machine.config).expect("a configuration");
        let text = text.replace("heartbeat = \"200ms\"\n", "");
        std::fs::write(&machine.config, text).expect("written");
        machine.start_daemon_with(|command| {
            command.env("SCHEDULED_EVENTS_BOOT_ID", computer);
        });
        machine.start_watcher(root, &url);
        machine
    };
    let [a, b] = [MACHINES[0], MACHINES[1]].map(|name| start(root, name, name));
    for machine in [&a, &b] {
        wait_for_record(machine, "prepare", |record| record["outcome"] == "begun");
    }
    assert_eq!(is_ready(&b), "closed");
    let copy = start(&root.join("copy"), a.name, "another one");
    copy.allow_preparation();
    let refused = wait_for_record(&copy, "gate", |_| true);
    assert_eq!(
        [&refused["phase"], &refused["outcome"]],
        ["prepare", "closed"]
    );
    assert_eq!(copy.records("prepare"), Vec::<Value>::new());
    assert_eq!(approvals(&[&copy]), Vec::<Value>::new());
    assert_eq!(
        mark_of(&event_register(&*etcd.engine()), &a),
        Some(Mark::Withdrawn)
    );
    drop(copy);
    is_approved_once_ready(&a, &b);
}

/// What earlier versions wrote into their register of the event: all machines but the second one are
/// ready, or all of them, and the third one has decided.
fn earlier_register(is_decided: bool) -> Value {
    let mark = |mark: &str| json!({ "mark": mark, "at": 1 });
    let second = mark(if is_decided { "ready" } else { "withdrawn" });
    json!({
        "format": 1, "event_type": "Reboot", "resources": MACHINES,
        "marks": { MACHINES[0]: mark("ready"), MACHINES[1]: second, MACHINES[2]: mark("ready") },
        "go": is_decided.then(|| json!({ "by": MACHINES[2], "at": 1 })),
    })
}

/// Its key, in which they have a hash of the event. The duration is unknown.
fn earlier_key(id: &str) -> String {
    let machines = MACHINES.map(|name| format!("\0{}", name.to_ascii_lowercase()));
    let hash = Sha256::digest(format!("Reboot\0{}", machines.concat()));
    let digits = hash[..12].iter().map(|byte| format!("{byte:02x}"));
    let hash = digits.collect::<Vec<_>>().concat();
    format!("events/{}/{hash}", id.to_ascii_lowercase())
}

/// Raises the heartbeat of the third machine as earlier versions did.
fn beat_as_earlier(engine: &dyn Engine, is_over: &AtomicBool) {
    for beat in 1.. {
        let found = wait_for("etcd", || block_on(engine.read("machines/westno_2")).ok());
        let revision = found.map(|found| found.revision);
        let register = json!({
            "format": 1, "machine": MACHINES[2], "beat": beat, "limits": { "web": "1" }, "at": 1,
        });
        // One that fails is followed by the next.
        let _ = block_on(engine.swap(
            "machines/westno_2",
            revision.as_ref(),
            &register.to_string(),
        ));
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Ends the heartbeat, also after a failure.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// No earlier version runs here: the test writes the registers of the third machine as that did, and
/// what it would answer to the other two follows from the marks that they leave in its register. They
/// are updated while the event is open.
#[test]
fn a_fleet_that_is_updated_during_an_event_approves_nothing_by_earlier_marks() {
    for is_decided in [false, true] {
        let (root, etcd) = (TempDir::new().expect("a folder"), EtcdServer::start());
        let root = root.path();
        std::fs::write(root.join("policy.toml"), POLICY).expect("a policy");
        let (_replay, url) = replay(root);
        let mut machines =
            [MACHINES[0], MACHINES[1]].map(|name| Machine::new(name, root, &etcd, &url));
        for machine in &mut machines {
            let mut command = machine.watch_and_prepare(root, &url, &machine.gate());
            if is_decided {
                // Some seconds after the event is first seen.
                command.args(["--last-call", "14m48s"]);
            }
            let log = File::create(machine.folder.join("log")).expect("a log");
            command.stdout(Stdio::null()).stderr(log);
            machine.watcher = Some(Process::start(&mut command));
        }
        let announced = wait_for_record(&machines[0], "change", |record| {
            record["change"] == "scheduled"
        });
        let key = earlier_key(announced["event_id"].as_str().expect("an id"));
        let engine = etcd.engine();
        let register = earlier_register(is_decided).to_string();
        block_on(engine.swap(&key, None, &register)).expect("written");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| beat_as_earlier(&*etcd.engine(), &is_over));
            let _end = End(&is_over);
            is_updated(&mut machines, is_decided);
        });
        let third = block_on(engine.read("machines/westno_2")).expect("read");
        let third: Value =
            serde_json::from_str(&third.expect("its heartbeats").value).expect("JSON");
        assert!(third["beat"].as_u64() > Some(1), "{third}");
        // It would approve only with the marks of all three.
        let left = block_on(engine.read(&key))
            .expect("read")
            .expect("a register");
        let left: Value = serde_json::from_str(&left.value).expect("JSON");
        assert_eq!(left["format"], 1, "it can read it");
        assert_eq!(left["go"], Value::Null);
        for machine in &machines {
            assert_eq!(left["marks"][machine.name]["mark"], "withdrawn", "{left}");
        }
    }
}

/// The two machines get the daemon of this version, prepare and wait for the third one.
fn is_updated(machines: &mut [Machine; 2], is_decided: bool) {
    machines.iter_mut().for_each(Machine::start_daemon);
    for machine in &*machines {
        let log = || std::fs::read_to_string(machine.folder.join("log")).expect("a log");
        if is_decided {
            wait_for("the reason", || {
                log()
                    .contains("somebody may still approve it")
                    .then_some(())
            });
            wait_for_record(machine, "gate", |record| record["outcome"] == "last-call");
        }
        wait_for_record(machine, "prepare", |record| record["outcome"] == "begun");
        assert_eq!(is_ready(machine), "closed");
    }
    for machine in &*machines {
        let log = || std::fs::read_to_string(machine.folder.join("log")).expect("a log");
        wait_for("the reason", || {
            log().contains("not ready: WestNO_2").then_some(())
        });
    }
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(
        approvals(&[&machines[0], &machines[1]]),
        Vec::<Value>::new()
    );
}
