//! Faults of others: services, messages, disks and people.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use scheduled_events_hub::azure::queue::emulator_sas;
use scheduled_events_test_support::wait;
use serde_json::{Value, json};

use crate::control::Control;
use crate::fixture::{Hub, TestQueue, event_id, message, resource, row};

fn approval(status: u16) -> impl Fn(&Value) -> bool {
    move |record| record["record"] == "approval" && record["status"] == status
}

#[test]
fn a_refusal_whose_details_name_no_event_approves_nothing() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    hub.start();
    control.await_query();
    let details = json!([{"code": "Inner", "target": "scheduledEvent", "message": "locked"}]);
    control.with(|world| {
        world.refusals.push((
            409,
            "",
            json!({"error": {"code": "Conflict", "message": "", "details": details}}),
        ));
    });
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    queue.send(&message(&machine, &id, "Scheduled", &["db"]));
    hub.await_record("the refusal", approval(409));
    hub.await_record("the approval", approval(200));
    assert_eq!(control.with(|world| world.approvals.len()), 1);
}

#[test]
fn an_error_with_the_status_of_a_success_approves_nothing() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    hub.start();
    control.await_query();
    control.with(|world| {
        world.refusals.push((
            200,
            "",
            json!({"error": {"code": "Conflict", "message": "try again"}}),
        ));
    });
    queue.send(&message(
        &resource("virtualMachines", "db"),
        &event_id(1),
        "Scheduled",
        &["db"],
    ));
    hub.await_record("the approval", approval(200));
    assert_eq!(
        control.with(|world| world.approvals.len()),
        1,
        "{}",
        hub.read("log")
    );
}

/// A hub with two events of one machine that are ready at the same time. The answer to the list of
/// both is a refusal that names the first.
fn first_of_two_is_refused(
    status: u16,
    code: &str,
    detail: &Value,
) -> (Control, TestQueue, Hub, [String; 2]) {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let (machine, ids) = (
        resource("virtualMachines", "db"),
        [event_id(1), event_id(2)],
    );
    hub.approve_unprepared();
    hub.start();
    control.await_query();
    let details = json!([{"target": ids[0], "code": detail["code"], "message": detail["message"]}]);
    let refusal = json!({"error": {"code": code, "message": "", "details": details}});
    control.with(|world| world.refusals.push((status, "", refusal)));
    queue.send(&json!(ids.each_ref().map(|id| message(
        &machine,
        id,
        "Scheduled",
        &["db"]
    ))));
    (control, queue, hub, ids)
}

#[test]
fn a_list_that_is_refused_for_one_of_its_events_approves_no_other() {
    let detail = json!({"code": "BadRequest", "message": "no such event"});
    let (control, _queue, hub, ids) = first_of_two_is_refused(400, "BadRequest", &detail);
    hub.await_record("the refusal", approval(400));
    for id in &ids {
        wait::until("both approvals", || {
            let is_in =
                |(path, body): &(String, Value)| path.contains(id) || body.to_string().contains(id);
            control
                .with(|world| world.approvals.iter().any(is_in))
                .then_some(())
        });
    }
}

#[test]
fn a_machine_that_an_event_no_longer_names_is_put_back() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let (set, id) = (resource("virtualMachineScaleSets", "front"), event_id(1));
    hub.start();
    queue.send(&message(&set, &id, "Scheduled", &["front_0", "front_1"]));
    hub.await_record("the approval", approval(200));
    for status in ["Started", "Completed"] {
        control.change(&queue, &set, &id, status, &["front_0"]);
    }
    hub.await_hook(&format!("recover-front_0-{id}"));
    hub.await_hook(&format!("recover-front_1-{id}"));
}

#[test]
fn one_row_that_cannot_be_read_does_not_hide_the_others() {
    let control = Control::start();
    let mut hub = Hub::new(&control.url(), None, "");
    let (machine, id) = (resource("virtualMachines", "db"), event_id(2));
    let mut deep = json!([]);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    control.with(|world| {
        world.rows = vec![
            row(&machine, &event_id(1), "Scheduled", &["db"]),
            row(&machine, &id, "Scheduled", &["db"]),
        ];
        world.rows[0]["properties"]["Description"] = deep;
    });
    hub.start();
    hub.await_hook(&format!("prepare-db-{id}"));
}

#[test]
fn a_message_stays_in_the_queue_until_the_audit_file_has_it() {
    let (control, queue, poison) = (Control::start(), TestQueue::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    fs::create_dir(hub.path("kept")).expect("a folder");
    let name = poison.url.rsplit('/').next().expect("a name");
    let config = hub.read("hub.toml") + &format!("poison = \"{name}\"\n");
    let old = hub.path("audit").display().to_string();
    fs::write(
        hub.path("hub.toml"),
        config.replace(&old, &hub.path("kept/audit").display().to_string()),
    )
    .expect("written");
    hub.start();
    control.await_query();
    // Nothing can be written, as on a full disk.
    fs::rename(hub.path("kept"), hub.path("away")).expect("renamed");
    queue.send(&message(
        &resource("virtualMachines", "db"),
        &event_id(1),
        "Scheduled",
        &["db"],
    ));
    // Urgent actions do not wait.
    wait::until("the approval", || {
        control
            .with(|world| world.approvals.len() == 1)
            .then_some(())
    });
    // Now there are records that cannot be written.
    queue.send_text("not Base64!");
    std::thread::sleep(Duration::from_secs(3));
    // It would be copied each minute.
    assert_eq!(
        (queue.length(), poison.texts().len()),
        (2, 0),
        "{}",
        hub.read("log")
    );
}

/// A command for an event days ahead hangs, and only one may run.
#[test]
fn a_preempt_does_not_wait_for_the_command_of_a_later_event() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    hub.prepare_with(
        "test $SCHEDULED_EVENTS_MACHINE = slow && until test -e $(dirname $0)/go; do sleep 0.05; done\n\
         exec sh $(dirname $0)/hook prepare\n",
    );
    let config = hub
        .read("hub.toml")
        .replace("[hooks]", "[hooks]\nat_once = 1");
    fs::write(hub.path("hub.toml"), config).expect("written");
    hub.start();
    queue.send(&message(
        &resource("virtualMachines", "slow"),
        &event_id(1),
        "Scheduled",
        &["slow"],
    ));
    hub.await_record("its command", |record| {
        record["record"] == "prepare" && record["outcome"] == "begun"
    });
    let (machine, id) = (resource("virtualMachines", "spot"), event_id(2));
    let mut preempt = message(&machine, &id, "Scheduled", &["spot"]);
    let properties = &mut preempt["data"]["resourceInfo"]["properties"];
    (properties["EventType"], properties["NotBefore"]) =
        (json!("Preempt"), json!("Mon, 19 Sep 2016 18:29:47 GMT"));
    queue.send(&preempt);
    hub.await_hook(&format!("prepare-spot-{id}"));
    fs::write(hub.path("go"), "").expect("written");
    hub.await_hook(&format!("prepare-slow-{}", event_id(1)));
}

/// From now on no state can be saved, as on a full disk.
fn fill_state(hub: &Hub) {
    fs::create_dir_all(hub.path("state/hub")).expect("a folder");
    fs::rename(hub.path("state/hub"), hub.path("away")).expect("renamed");
    fs::write(hub.path("state/hub"), "").expect("written");
}

fn free_state(hub: &Hub) {
    fs::remove_file(hub.path("state/hub")).expect("removed");
    fs::rename(hub.path("away"), hub.path("state/hub")).expect("renamed");
}

fn is_closed(record: &Value) -> bool {
    record["record"] == "gate" && record["phase"] == "prepare" && record["outcome"] == "closed"
}

/// The event ends before the hub starts again, and then Resource Graph has only its end.
#[test]
fn a_hub_that_is_killed_while_no_state_can_be_kept_forgets_no_recovery() {
    let control = Control::start();
    let mut hub = Hub::new(&control.url(), None, "reconcile = \"1s\"");
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    hub.start();
    control.await_query();
    fill_state(&hub);
    control.with(|world| world.rows = vec![row(&machine, &id, "Scheduled", &["db"])]);
    let is_ready = |record: &Value| record["record"] == "prepare" && record["outcome"] == "ready";
    hub.await_record("a decision about the preparation", |record| {
        is_closed(record) || is_ready(record)
    });
    hub.kill();
    free_state(&hub);
    let queries = control.with(|world| {
        world.rows = vec![row(&machine, &id, "Completed", &["db"])];
        world.queries.len()
    });
    hub.start();
    wait::until("three queries", || {
        (control.with(|world| world.queries.len()) >= queries + 3).then_some(())
    });
    let has_run = |hook: &str| hub.path("hooks").join(format!("{hook}-db-{id}")).exists();
    assert!(
        !has_run("prepare") || has_run("recover"),
        "the machine stays out of service"
    );
}

/// Without a store no other hub can take over, so urgent actions do not wait.
#[test]
fn while_no_state_can_be_kept_machines_are_prepared_by_the_last_call() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let (later, soon) = (
        resource("virtualMachines", "later"),
        resource("virtualMachines", "soon"),
    );
    let prepared = |hub: &Hub, name: &str| hub.path("hooks").join(name).exists();
    hub.start();
    control.await_query();
    fill_state(&hub);
    queue.send(&message(&later, &event_id(1), "Scheduled", &["later"]));
    hub.await_record("the answer to the first one", is_closed);
    let mut preempt = message(&soon, &event_id(2), "Scheduled", &["soon"]);
    preempt["data"]["resourceInfo"]["properties"]["EventType"] = json!("Preempt");
    queue.send(&preempt);
    hub.await_hook(&format!("prepare-soon-{}", event_id(2)));
    control.change(&queue, &soon, &event_id(2), "Completed", &["soon"]);
    hub.await_hook(&format!("recover-soon-{}", event_id(2)));
    let failures = "\nscheduled_events_hub_state_save_failures_total ";
    let has_failed = |text: &str| {
        text.split(failures)
            .nth(1)
            .is_some_and(|rest| !rest.starts_with("0\n"))
    };
    wait::until("the failures in the metrics", || {
        has_failed(&hub.read("hub.prom")).then_some(())
    });
    let first = format!("prepare-later-{}", event_id(1));
    assert!(
        !prepared(&hub, &first) && queue.length() == 3,
        "{}",
        hub.read("log")
    );
    free_state(&hub);
    hub.await_record("the approval of the first one", approval(200));
    assert!(prepared(&hub, &first));
    wait::until("the end of all messages", || {
        (queue.length() == 0).then_some(())
    });
    assert!(
        hub.read("log").matches("cannot keep the state").count() < 10,
        "{}",
        hub.read("log")
    );
}

#[test]
fn two_events_of_a_machine_of_which_one_is_refused_are_each_approved_once() {
    let detail = json!({"code": "Conflict", "message": "try again"});
    let (control, _queue, _hub, ids) = first_of_two_is_refused(207, "MultiStatusResponse", &detail);
    let of = |id: &str| {
        let requests = control.with(|world| world.approvals.clone());
        requests
            .iter()
            .filter(|(path, body)| path.contains(id) || body["value"].to_string().contains(id))
            .count()
    };
    wait::until("the second attempt", || (of(&ids[0]) == 1).then_some(()));
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(
        (of(&ids[0]), of(&ids[1])),
        (1, 0),
        "{:?}",
        control.with(|world| world.approvals.clone())
    );
}

/// XML uses four bytes for each of their characters.
#[test]
fn long_messages_that_cannot_be_read_do_not_hide_one_that_is_received_with_them() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    (0..18).for_each(|_| queue.send_text(&"&lt;".repeat(64_000)));
    queue.send(&message(
        &resource("virtualMachines", "db"),
        &event_id(1),
        "Scheduled",
        &["db"],
    ));
    hub.start();
    hub.await_record("the approval", approval(200));
    wait::until("the end of all messages", || {
        (queue.length() == 0).then_some(())
    });
}

#[test]
fn a_sas_token_is_replaced_while_the_hub_runs() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let sas = hub.path("sas");
    let config = hub.read("hub.toml").replace(
        "emulator = true",
        &format!("sas_file = \"{}\"", sas.display()),
    );
    fs::write(hub.path("hub.toml"), config).expect("written");
    let write = |token: &str| {
        fs::write(&sas, token).expect("written");
        fs::set_permissions(&sas, fs::Permissions::from_mode(0o600)).expect("set");
    };
    write(&emulator_sas().replace("2099", "2019"));
    hub.start();
    wait::until("a warning", || {
        hub.read("log")
            .contains("cannot read the queue")
            .then_some(())
    });
    write(emulator_sas());
    queue.send(&message(
        &resource("virtualMachines", "db"),
        &event_id(1),
        "Scheduled",
        &["db"],
    ));
    hub.await_record("the approval", approval(200));
}

#[test]
fn a_queue_that_disappears_is_read_again() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    hub.start();
    control.await_query();
    queue.delete();
    wait::until("a warning", || {
        hub.read("log")
            .contains("cannot read the queue")
            .then_some(())
    });
    queue.create();
    queue.send(&message(
        &resource("virtualMachines", "db"),
        &event_id(1),
        "Scheduled",
        &["db"],
    ));
    hub.await_record("the approval", approval(200));
}

/// Between the decision and the request, changes still count.
#[test]
fn an_approval_that_waits_is_not_sent_once_its_event_is_another_one() {
    let control = Control::start();
    let mut hub = Hub::new(&control.url(), None, "reconcile = \"1s\"");
    let (set, id) = (resource("virtualMachineScaleSets", "front"), event_id(1));
    hub.prepare_with("test $SCHEDULED_EVENTS_MACHINE = front_1 && exec sleep 1000\nexit 0\n");
    hub.start();
    control.hold_approvals();
    control.with(|world| world.rows.push(row(&set, &id, "Scheduled", &["front_0"])));
    let of_front = |record: &Value, outcome: &str| {
        record["record"] == "prepare"
            && record["outcome"] == outcome
            && record["event_id"] == id.as_str()
    };
    hub.await_record("the first machine", |record| of_front(record, "ready"));
    std::thread::sleep(Duration::from_millis(500));
    control.with(|world| {
        *world.rows.last_mut().expect("a row") =
            row(&set, &id, "Scheduled", &["front_0", "front_1"]);
    });
    hub.await_record("the second machine", |record| {
        of_front(record, "begun")
            && record["resource_id"]
                .as_str()
                .is_some_and(|id| id.ends_with('1'))
    });
    control.with(|world| world.approvals_held = false);
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(
        control.approvals_of(&id),
        0,
        "the second machine is not ready"
    );
}

/// A command that does not end at once delays the hub's end.
#[test]
fn a_hub_that_stops_deletes_no_message_that_it_could_not_keep() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    hub.prepare_with(
        "test $SCHEDULED_EVENTS_MACHINE = slow && { trap '' TERM; sleep 5; }\nexit 0\n",
    );
    hub.start();
    let send = |name: &str, number| {
        queue.send(&message(
            &resource("virtualMachines", name),
            &event_id(number),
            "Scheduled",
            &[name],
        ));
    };
    send("slow", 1);
    hub.await_record("its command", |record| {
        record["record"] == "prepare" && record["outcome"] == "begun"
    });
    wait::until("the end of its message", || {
        (queue.length() == 0).then_some(())
    });
    fill_state(&hub);
    send("db", 2);
    hub.await_record("the other machine", is_closed);
    let process = &mut hub.process.as_mut().expect("it runs").0;
    kill_process(Pid::from_child(process), Signal::TERM).expect("sent");
    assert!(wait::ended(process).success());
    assert_eq!(queue.length(), 1, "{}", hub.read("log"));
}

/// Each attempt would add another record.
#[test]
fn a_message_is_set_aside_once_the_queue_for_these_exists() {
    let (control, queue, poison) = (Control::start(), TestQueue::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let name = poison.url.rsplit('/').next().expect("a name");
    fs::write(
        hub.path("hub.toml"),
        format!("{}poison = \"{name}\"\n", hub.read("hub.toml")),
    )
    .expect("written");
    poison.delete();
    hub.start();
    queue.send_text("not Base64!");
    wait::until("a warning", || {
        hub.read("log")
            .contains(&format!("to the queue {name}"))
            .then_some(())
    });
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(
        (hub.records().len(), queue.length()),
        (0, 1),
        "{}",
        hub.read("log")
    );
    poison.create();
    queue.send_text("not Base64, either!");
    hub.await_record("the second message", |record| {
        record["content"] == "not Base64, either!"
    });
    wait::until("its end", || {
        (queue.length() == 1 && poison.length() == 1).then_some(())
    });
}

#[test]
fn azure_starts_events_by_its_own_clock() {
    let control = Control::start();
    let mut hub = Hub::new(&control.url(), None, "");
    let mut event = row(
        &resource("virtualMachines", "db"),
        &event_id(1),
        "Scheduled",
        &["db"],
    );
    event["properties"]["NotBefore"] = json!("Mon, 19 Sep 2016 18:29:47 GMT");
    control.with(|world| {
        world.rows.push(event);
        world.date = Some("Mon, 19 Sep 2016 18:14:47 GMT");
    });
    hub.start();
    hub.await_record("the approval", approval(200));
    assert!(
        hub.read("log")
            .contains(" s ahead of Azure's, which counts"),
        "{}",
        hub.read("log")
    );
    // A command that used this machine's clock would get another time.
    let prepared = hub.await_hook(&format!("prepare-db-{}", event_id(1)));
    let mut variables = prepared
        .lines()
        .filter_map(|line| line.strip_prefix("SCHEDULED_EVENTS_SECONDS_LEFT="));
    let left = variables.next().and_then(|seconds| seconds.parse().ok());
    assert!(
        left.is_some_and(|seconds: u32| (840..=901).contains(&seconds)),
        "{prepared}"
    );
}

#[test]
fn what_cannot_be_read_of_a_message_is_kept_although_the_rest_is_applied() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let id = event_id(1);
    let mut other = message(
        &resource("virtualMachines", "web"),
        &event_id(2),
        "Scheduled",
        &["web"],
    );
    other["data"]["resourceInfo"]["id"] = json!("/nowhere");
    hub.start();
    queue.send(&json!([
        message(
            &resource("virtualMachines", "db"),
            &id,
            "Scheduled",
            &["db"]
        ),
        other
    ]));
    hub.await_hook(&format!("prepare-db-{id}"));
    hub.await_record("the other one", |record| {
        record["record"] == "set-aside"
            && record["content"]
                .as_str()
                .is_some_and(|text| text.contains(&event_id(2)))
    });
    wait::until("the end of the message", || {
        (queue.length() == 0).then_some(())
    });
}

/// The log has its output.
#[test]
fn a_command_that_prints_without_end_delays_no_other_machine_and_not_the_end_of_the_hub() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    hub.prepare_with("trap '' TERM\ntest $SCHEDULED_EVENTS_MACHINE = loud || exit 0\nwhile :; do echo $SCHEDULED_EVENTS_MACHINE; done\n");
    hub.start();
    let send = |name: &str, number| {
        queue.send(&message(
            &resource("virtualMachines", name),
            &event_id(number),
            "Scheduled",
            &[name],
        ));
    };
    send("loud", 1);
    wait::until("a line", || {
        hub.read("log").contains("prepare loud: loud").then_some(())
    });
    send("db", 2);
    hub.await_record("the approval", approval(200));
    let process = &mut hub.process.as_mut().expect("it runs").0;
    kill_process(Pid::from_child(process), Signal::TERM).expect("sent");
    assert!(wait::ended(process).success());
    let log = hub.read("log");
    assert!(
        log.contains("the prepare loud command was terminated, because this program stops"),
        "{log}"
    );
}

/// The machines are gone, and their commands hang. Their events came first.
#[test]
fn recoveries_that_fail_again_and_again_keep_no_other_one_waiting() {
    let (control, queue) = (Control::start(), TestQueue::start());
    let mut hub = Hub::new(&control.url(), Some(&queue), "");
    let recover = format!("sh {} recover", hub.path("hook").display());
    let began = hub.path("began").display().to_string();
    let hanging = format!(
        "sh -c 'test $SCHEDULED_EVENTS_MACHINE = db || {{ echo >>{began}; sleep 8; exit 1; }}'"
    );
    let config = hub
        .read("hub.toml")
        .replace(&recover, &hanging)
        .replace("[hooks]", "[hooks]\nat_once = 1");
    fs::write(hub.path("hub.toml"), config).expect("written");
    hub.start();
    let send = |name: &str, number, status: &str| {
        let mut message = message(
            &resource("virtualMachines", name),
            &event_id(number),
            status,
            &[name],
        );
        if name == "db" {
            message["data"]["resourceInfo"]["properties"]["NotBefore"] =
                json!("Tue, 20 Sep 2039 18:29:47 GMT");
        }
        if status == "Canceled" {
            let machine = resource("virtualMachines", name);
            control.with(|world| {
                world
                    .rows
                    .push(row(&machine, &event_id(number), status, &[name]));
            });
        }
        queue.send(&message);
    };
    let all = [("gone1", 1), ("gone2", 2), ("db", 3)];
    for (name, number) in all {
        send(name, number, "Scheduled");
    }
    wait::until("all preparations", || {
        let is_ready =
            |record: &&Value| record["record"] == "prepare" && record["outcome"] == "ready";
        (hub.records().iter().filter(is_ready).count() == 3).then_some(())
    });
    for (name, number) in all {
        send(name, number, "Canceled");
        wait::until("a recovery", || hub.path("began").exists().then_some(()));
    }
    hub.await_record("its recovery", |record| {
        record["record"] == "recover" && record["outcome"] == "done"
    });
    let recoveries: Vec<_> = hub
        .records()
        .into_iter()
        .filter(|record| record["record"] == "recover")
        .collect();
    // The queue is not read in order.
    let place = recoveries
        .iter()
        .position(|record| record["outcome"] == "done");
    assert!(
        place.is_some_and(|place| place <= 2),
        "it was not its turn: {recoveries:?}"
    );
}
