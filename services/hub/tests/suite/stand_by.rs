//! Two hubs on one store: the second takes over, whatever the first was doing when it was killed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use scheduled_events_common::program::block_on;
use scheduled_events_gate::engine::Engine as _;
use scheduled_events_gate::engine::folder::FolderEngine;
use scheduled_events_test_support::process::azurite;
use scheduled_events_test_support::wait;
use serde_json::Value;
use tempfile::TempDir;

use crate::control::Control;
use crate::fixture::{Hub, TestQueue, event_id, message, resource, row};

/// Two hubs that share a store and everything around it.
struct Pair {
    hubs: [Hub; 2],
    shared: TempDir,
    control: Control,
    queue: TestQueue,
}

impl Pair {
    /// Each command waits for a file with its name.
    fn new() -> Self {
        let (control, queue, shared) = (
            Control::start(),
            TestQueue::start(),
            TempDir::new().expect("a folder"),
        );
        let path = |name: &str| shared.path().join(name);
        fs::create_dir(path("registers")).expect("a folder");
        let store = format!(
            "engine = \"folder\"\nfolder = {{ path = \"{}\" }}\n",
            path("registers").display()
        );
        fs::write(path("fleet.toml"), store).expect("written");
        fs::write(
            path("hook"),
            "#!/bin/sh\ncd $(dirname $0)\necho x >>$1.runs\nuntil test -e $1.go; do sleep 0.05; done\n",
        )
        .expect("written");
        fs::set_permissions(path("hook"), fs::Permissions::from_mode(0o755)).expect("set");
        let more = format!(
            "store = \"{}\"\ntake_over_after = \"10s\"",
            path("fleet.toml").display()
        );
        let hubs = [(); 2].map(|()| {
            let hub = Hub::new(&control.url(), Some(&queue), &more);
            let mut config = hub.read("hub.toml");
            for name in ["prepare", "recover"] {
                let (own, shared) = (
                    format!("{} {name}", hub.path("hook").display()),
                    format!("{} {name}", path("hook").display()),
                );
                config = config.replace(&own, &shared);
            }
            fs::write(hub.path("hub.toml"), config).expect("written");
            hub
        });
        Self {
            hubs,
            shared,
            control,
            queue,
        }
    }

    fn reconcile_each_second(&self) {
        for hub in &self.hubs {
            let config = hub
                .read("hub.toml")
                .replace("[hooks]", "reconcile = \"1s\"\n[hooks]");
            fs::write(hub.path("hub.toml"), config).expect("written");
        }
    }

    fn runs(&self, name: &str) -> usize {
        fs::read_to_string(self.shared.path().join(format!("{name}.runs")))
            .unwrap_or_default()
            .lines()
            .count()
    }

    fn let_end(&self, name: &str) {
        fs::write(self.shared.path().join(format!("{name}.go")), "").expect("written");
    }

    fn await_runs(&self, name: &str, runs: usize) {
        wait::until(name, || (self.runs(name) == runs).then_some(()));
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for hub in &self.hubs {
                eprintln!("a hub's log:\n{}", hub.read("log"));
            }
            eprintln!("the queue: {:?}", self.queue.texts());
        }
    }
}

fn is(record: &str, outcome: &str) -> impl Fn(&Value) -> bool {
    move |found| {
        found["record"] == record && (found["outcome"] == outcome || found["status"] == 200)
    }
}

#[test]
fn the_second_hub_takes_over_at_each_step() {
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    let mut pair = Pair::new();
    pair.hubs[0].start();
    wait::until("the first hub", || {
        pair.hubs[0]
            .read("log")
            .contains("this hub works")
            .then_some(())
    });
    pair.hubs[1].start();
    wait::until("the second hub", || {
        pair.hubs[1]
            .read("log")
            .contains("standing by")
            .then_some(())
    });
    pair.control
        .change(&pair.queue, &machine, &id, "Scheduled", &["db"]);
    pair.await_runs("prepare", 1);

    // Killed while it prepares: the other hub prepares again.
    pair.hubs[0].kill();
    pair.await_runs("prepare", 2);
    pair.let_end("prepare");
    pair.hubs[1].await_record("the approval", is("approval", ""));
    pair.hubs[1].await_state("start");

    // Killed after the approval: nothing is repeated. The end arrives at the hub that is active by
    // then.
    pair.hubs[0].start();
    wait::until("the first hub again", || {
        pair.hubs[0]
            .read("log")
            .contains("standing by")
            .then_some(())
    });
    pair.hubs[1].kill();
    pair.queue.send(&message(&machine, &id, "Started", &["db"]));
    pair.control
        .change(&pair.queue, &machine, &id, "Completed", &["db"]);
    pair.await_runs("recover", 1);

    // Killed while it recovers: the other hub recovers again.
    pair.hubs[1].start();
    wait::until("the second hub again", || {
        (pair.hubs[1].read("log").matches("standing by").count() == 2).then_some(())
    });
    pair.hubs[0].kill();
    pair.await_runs("recover", 2);
    pair.let_end("recover");
    pair.hubs[1].await_record("the recovery", is("recover", "done"));
    assert_eq!((pair.runs("prepare"), pair.runs("recover")), (2, 2));
    assert_eq!(pair.control.with(|world| world.approvals.len()), 1);
    wait::until("the end of all messages", || {
        (pair.queue.length() == 0).then_some(())
    });
}

/// Each kill comes at another moment of an event's life, and of the end of the one before it: while
/// a message is read, a state written, a command run, an approval sent or answered, a message
/// deleted.
#[test]
fn whenever_the_working_hub_is_killed_each_event_is_prepared_for_approved_and_recovered_from() {
    const EVENTS: u32 = 6;
    let mut pair = Pair::new();
    // A message that a killed hub had received comes again, maybe after the end of its event, which
    // the next process does not know.
    pair.reconcile_each_second();
    let hook =
        "#!/bin/sh\ncd $(dirname $0)\necho x >>$1-$SCHEDULED_EVENTS_MACHINE.runs\nsleep 0.2\n";
    fs::write(pair.shared.path().join("hook"), hook).expect("written");
    let send = |pair: &Pair, number: u32, status: &str| {
        let (name, id) = (format!("db{number}"), event_id(number));
        let machine = resource("virtualMachines", &name);
        pair.control.with(|world| {
            world.rows.retain(|row| !row.to_string().contains(&id));
            world.rows.push(row(&machine, &id, status, &[&name]));
        });
        pair.queue.send(&message(&machine, &id, status, &[&name]));
    };
    let times =
        |pair: &Pair, hub: usize, text: &str| pair.hubs[hub].read("log").matches(text).count();
    let mut works = 0;
    pair.hubs[0].start();
    wait::until("the first hub", || {
        (times(&pair, 0, "this hub works") == 1).then_some(())
    });
    pair.hubs[1].start();
    wait::until("the second hub", || {
        (times(&pair, 1, "standing by") == 1).then_some(())
    });
    for number in 1..=EVENTS {
        send(&pair, number, "Scheduled");
        if number > 1 {
            send(&pair, number - 1, "Completed");
        }
        std::thread::sleep(Duration::from_millis(u64::from(number) * 150));
        let (other, before) = (1 - works, times(&pair, 1 - works, "this hub works"));
        pair.hubs[works].kill();
        wait::until("the take-over", || {
            (times(&pair, other, "this hub works") > before).then_some(())
        });
        let before = times(&pair, works, "standing by");
        pair.hubs[works].start();
        wait::until("the other one on standby", || {
            (times(&pair, works, "standing by") > before).then_some(())
        });
        // An event that was over before its approval is not approved.
        wait::until("the approval", || {
            (pair.control.approvals_of(&event_id(number)) > 0).then_some(())
        });
        works = other;
    }
    send(&pair, EVENTS, "Completed");
    for number in 1..=EVENTS {
        for name in ["prepare", "recover"] {
            let name = format!("{name}-db{number}");
            wait::until(&name, || (pair.runs(&name) > 0).then_some(()));
            // A kill may repeat it.
            assert!(
                pair.runs(&name) <= 4,
                "{name} ran {} times",
                pair.runs(&name)
            );
        }
    }
    wait::until("the end of all messages", || {
        (pair.queue.length() == 0).then_some(())
    });
    let registers = FolderEngine::new(&pair.shared.path().join("registers"));
    let is_empty = || {
        block_on(async {
            registers
                .list("hub/machines/")
                .await
                .is_ok_and(|states| states.is_empty())
        })
    };
    wait::until("no state is left", || {
        is_empty().is_ok_and(|is_empty| is_empty).then_some(())
    });
}

/// Its approval waits, and its event becomes another one meanwhile.
#[test]
fn a_hub_that_was_replaced_stops_before_it_acts() {
    let mut pair = Pair::new();
    pair.reconcile_each_second();
    // The stop waits for a command that does not end.
    let hook = "#!/bin/sh\ncase $SCHEDULED_EVENTS_MACHINE in\nslow) trap '' TERM; sleep 5 ;;\nfront_1) exec sleep 1000 ;;\nesac\n";
    fs::write(pair.shared.path().join("hook"), hook).expect("written");
    let (set, id, slow) = (
        resource("virtualMachineScaleSets", "front"),
        event_id(1),
        event_id(2),
    );
    pair.hubs[0].start();
    wait::until("the first hub", || {
        pair.hubs[0]
            .read("log")
            .contains("this hub works")
            .then_some(())
    });
    pair.control.hold_approvals();
    pair.control.with(|world| {
        world.rows.push(row(
            &resource("virtualMachines", "slow"),
            &slow,
            "Scheduled",
            &["slow"],
        ));
        world.rows.push(row(&set, &id, "Scheduled", &["front_0"]));
    });
    let prepare = |id: &str, outcome: &str, machine: &str| {
        let (id, outcome, machine) = (id.to_owned(), outcome.to_owned(), machine.to_owned());
        move |record: &Value| {
            let is_of = record["resource_id"]
                .as_str()
                .is_some_and(|resource| resource.ends_with(&machine));
            record["record"] == "prepare"
                && record["outcome"] == outcome
                && record["event_id"] == id
                && is_of
        }
    };
    pair.hubs[0].await_record("the first machine", prepare(&id, "ready", "/0"));
    pair.hubs[0].await_record("the command", prepare(&slow, "begun", "/slow"));
    std::thread::sleep(Duration::from_millis(500));
    pair.hubs[1].start();
    wait::until("the second hub", || {
        pair.hubs[1]
            .read("log")
            .contains("standing by")
            .then_some(())
    });
    // It hangs like a frozen machine, and then continues.
    let process = Pid::from_child(&pair.hubs[0].process.as_ref().expect("it runs").0);
    kill_process(process, Signal::STOP).expect("sent");
    let changed = row(&set, &id, "Scheduled", &["front_0", "front_1"]);
    pair.control
        .with(|world| *world.rows.last_mut().expect("a row") = changed);
    wait::until("the take-over", || {
        pair.hubs[1]
            .read("log")
            .contains("this hub works")
            .then_some(())
    });
    pair.hubs[1].await_record("the second machine", prepare(&id, "begun", "/1"));
    pair.control.with(|world| world.approvals_held = false);
    kill_process(process, Signal::CONT).expect("sent");
    wait::until("its end", || {
        let ended = pair.hubs[0]
            .process
            .as_mut()
            .expect("it runs")
            .0
            .try_wait()
            .expect("its state");
        ended.map(|status| assert_eq!(status.code(), Some(1)))
    });
    let log = pair.hubs[0].read("log");
    assert!(
        log.contains("error: another hub has taken over")
            || log.contains("another hub may take over"),
        "{log}"
    );
    assert_eq!(
        pair.control.approvals_of(&id),
        0,
        "the second machine is not ready"
    );
}

/// A register is a pipe, so that reading it hangs, as a network file system can.
#[test]
fn a_hub_that_still_reads_the_states_stays_the_one_that_works_and_can_be_stopped() {
    let mut pair = Pair::new();
    let folder = pair.shared.path().join("registers/hub/machines/x");
    fs::create_dir_all(&folder).expect("a folder");
    assert!(
        wait::output(std::process::Command::new("mkfifo").arg(folder.join(".1")))
            .status
            .success()
    );
    pair.hubs[0].start();
    wait::until("the first hub", || {
        pair.hubs[0]
            .read("log")
            .contains("this hub works")
            .then_some(())
    });
    pair.hubs[1].start();
    wait::until("the second hub", || {
        pair.hubs[1]
            .read("log")
            .contains("standing by")
            .then_some(())
    });
    std::thread::sleep(Duration::from_secs(14));
    assert!(
        !pair.hubs[1].read("log").contains("this hub works"),
        "{}",
        pair.hubs[1].read("log")
    );
    assert!(
        !pair.hubs[0].read("log").contains("running"),
        "{}",
        pair.hubs[0].read("log")
    );
    let process = &mut pair.hubs[0].process.as_mut().expect("it runs").0;
    kill_process(Pid::from_child(process), Signal::TERM).expect("sent");
    assert!(wait::ended(process).success());
    wait::until("the take-over", || {
        pair.hubs[1]
            .read("log")
            .contains("this hub works")
            .then_some(())
    });
}

#[test]
fn a_store_that_does_not_answer_is_logged_once_and_not_at_each_attempt() {
    let mut pair = Pair::new();
    pair.hubs[0].start();
    wait::until("the hub", || {
        pair.hubs[0]
            .read("log")
            .contains("this hub works")
            .then_some(())
    });
    pair.hubs[1].start();
    wait::until("the other hub", || {
        pair.hubs[1]
            .read("log")
            .contains("standing by")
            .then_some(())
    });
    fs::rename(
        pair.shared.path().join("registers"),
        pair.shared.path().join("away"),
    )
    .expect("renamed");
    wait::until("the end of the first hub", || {
        pair.hubs[0]
            .read("log")
            .contains("has not answered for")
            .then_some(())
    });
    for hub in &pair.hubs {
        let times = || hub.read("log").matches("the store does not answer").count();
        wait::until("the reason", || (times() > 0).then_some(()));
        assert_eq!(times(), 1, "{}", hub.read("log"));
    }
}

/// Its store is another folder by then, as after a mount is lost.
#[test]
fn a_hub_that_loses_its_store_deletes_no_message_that_the_other_hub_needs() {
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    let mut pair = Pair::new();
    let path = |name: &str| pair.shared.path().join(name);
    let (link, own) = (path("mount"), path("own.toml"));
    std::os::unix::fs::symlink(path("registers"), &link).expect("a link");
    let store = fs::read_to_string(path("fleet.toml")).expect("text");
    fs::write(&own, store.replace("/registers\"", "/mount\"")).expect("written");
    let config = pair.hubs[0].read("hub.toml").replace(
        &path("fleet.toml").display().to_string(),
        &own.display().to_string(),
    );
    fs::write(pair.hubs[0].path("hub.toml"), config).expect("written");
    pair.let_end("prepare");
    for (hub, word) in [(0, "this hub works"), (1, "standing by")] {
        pair.hubs[hub].start();
        wait::until(word, || {
            pair.hubs[hub].read("log").contains(word).then_some(())
        });
    }
    fs::remove_file(&link).expect("removed");
    pair.queue
        .send(&message(&machine, &id, "Scheduled", &["db"]));
    pair.hubs[1].await_record("its preparation", is("prepare", "ready"));
    pair.hubs[1].await_record("the approval", is("approval", ""));
}

/// Creates a container of Azurite's account.
fn create_container(url: &str) {
    // As `emulator_sas`, for blobs.
    const SAS: &str = "sv=2021-08-06&ss=b&srt=sco&sp=rwdlacup&se=2099-01-01T00:00:00Z&spr=https,http&\
                       sig=xWTEkoUMKrThHHc0Pc0O2Ao4PZT2oZz3AA4ocZo7pW4%3D";
    let created = block_on(async {
        let client = scheduled_events_common::http::client(Duration::from_secs(60));
        let request = client
            .expect("a client")
            .put(format!("{url}?restype=container&{SAS}"));
        let request = request
            .header("x-ms-version", "2021-08-06")
            .header("Content-Length", "0");
        request.send().await.expect("an answer").status()
    });
    let status = created.unwrap_or_else(|failure| panic!("{}", failure.message));
    assert!(status.is_success(), "{status}");
}

/// The hub that works receives a message, and ends since its store is a black hole: it accepts
/// connections, and answers nothing.
#[test]
fn a_message_that_a_hub_cannot_keep_is_handled_soon_after_its_store_is_back() {
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    let mut pair = Pair::new();
    let (store, port) = azurite(
        "blob",
        |_| {},
        |port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok(),
    );
    let url = format!("http://127.0.0.1:{port}/devstoreaccount1/hub");
    create_container(&url);
    let blob = format!("engine = \"blob\"\nblob = {{ url = \"{url}\", emulator = true }}\n");
    fs::write(pair.shared.path().join("fleet.toml"), blob).expect("written");
    let black_hole = Pid::from_child(&store.0);
    pair.let_end("prepare");
    pair.hubs[0].start();
    wait::until("the hub", || {
        pair.hubs[0]
            .read("log")
            .contains("this hub works")
            .then_some(())
    });
    pair.control.await_query();
    kill_process(black_hole, Signal::STOP).expect("it runs");
    // The store may get the state of the machine once it is back: then the event needs its row.
    let begin = std::time::Instant::now();
    pair.control
        .change(&pair.queue, &machine, &id, "Scheduled", &["db"]);
    let process = &mut pair.hubs[0].process.as_mut().expect("it runs").0;
    assert!(!wait::ended(process).success());
    kill_process(black_hole, Signal::CONT).expect("it runs");
    pair.hubs[1].start();
    pair.hubs[1].await_record("the approval", is("approval", ""));
    // A message that nobody gives back is invisible for a minute.
    assert!(
        begin.elapsed() < Duration::from_secs(58),
        "{:?}",
        begin.elapsed()
    );
}

/// The container does not exist.
#[test]
fn a_store_that_cannot_be_written_is_named_and_so_are_different_times() {
    let mut pair = Pair::new();
    let store = pair.shared.path().join("fleet.toml");
    let folder = fs::read_to_string(&store).expect("text");
    let (_azurite, port) = azurite(
        "blob",
        |_| {},
        |port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok(),
    );
    let blob = format!(
        "engine = \"blob\"\nblob = {{ url = \"http://127.0.0.1:{port}/devstoreaccount1/missing\", emulator = true }}\n"
    );
    fs::write(&store, blob).expect("written");
    pair.hubs[0].start();
    wait::until("the reason", || {
        pair.hubs[0]
            .read("log")
            .contains("no hub works, and this one cannot take over")
            .then_some(())
    });
    pair.hubs[0].kill();
    // The longer time counts: the hub that works renews its lease every five seconds.
    fs::write(&store, folder).expect("written");
    for (hub, time) in [(0, "25s"), (1, "3s")] {
        let config = pair.hubs[hub].read("hub.toml").replace(
            "take_over_after = \"10s\"",
            &format!("take_over_after = \"{time}\""),
        );
        fs::write(pair.hubs[hub].path("hub.toml"), config).expect("written");
    }
    let times = |hub: &Hub| hub.read("log").matches("this hub works").count();
    pair.hubs[0].start();
    wait::until("the hub", || (times(&pair.hubs[0]) == 1).then_some(()));
    pair.hubs[1].start();
    wait::until("the warning", || {
        pair.hubs[1]
            .read("log")
            .contains("`take_over_after` is 3s, and that of the hub that works is 25s")
            .then_some(())
    });
    std::thread::sleep(Duration::from_secs(12));
    assert_eq!(times(&pair.hubs[1]), 0, "{}", pair.hubs[1].read("log"));
}
