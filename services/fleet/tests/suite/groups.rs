//! Which machines of a group may be out of service together, and when: real daemons on a shared
//! folder.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::ToSpan;
use serde_json::{Value, json};

use crate::fixture::wait_for;
use crate::gate::{AskAnswer, Fleet, event};

const ALWAYS_CLOSED_BUT: &str =
    "windows = [{ days = [\"DAY\"], from = \"00:00\", to = \"00:00\" }]";

pub(crate) fn not_yet(answer: AskAnswer) -> String {
    match answer {
        AskAnswer::NotYet(why) => why,
        answer => panic!("found {answer:?}, expected not yet"),
    }
}

#[test]
fn a_number_of_machines_and_a_pause_between_them() {
    let fleet = Fleet::new(
        "[[group]]\nname = \"web\"\nmachines = [\"web_*\"]\nmax_unavailable = 1\npause = \"3s\"\n",
    );
    let (first, second) = (fleet.start("web_1", None), fleet.start("web_2", None));
    let (one, two) = (
        event("e1", "Reboot", &["web_1"]),
        event("e2", "Reboot", &["WEB_2"]),
    );
    assert_eq!(first.ask("prepare", &one), AskAnswer::Yes);
    let why = not_yet(second.ask("prepare", &two));
    assert_eq!(
        why,
        "1 of the group web are out of service or about to be, at most 1 may be: web_1"
    );
    // A machine that is prepared, for an approved event, keeps its place until it has recovered.
    first.prepared("e1");
    assert_eq!(first.ask("approve", &one), AskAnswer::Yes);
    assert_ne!(second.ask("prepare", &two), AskAnswer::Yes);
    let recovered = Instant::now();
    first.recovered("e1");
    second.wait_for_yes("prepare", &two);
    assert!(
        recovered.elapsed() >= Duration::from_secs(3),
        "after {:?}",
        recovered.elapsed()
    );
}

#[test]
fn a_share_of_the_machines() {
    let fleet = Fleet::new(
        "[[group]]\nname = \"db\"\nmachines = [\"db_1\", \"db_2\", \"db_3\", \"db_4\", \"db_5\"]\nmax_unavailable = \"40%\"\n",
    );
    let gates = ["db_1", "db_2", "db_3"].map(|machine| fleet.start(machine, None));
    let events = ["db_1", "db_2", "db_3"].map(|machine| event(machine, "Reboot", &[machine]));
    assert_eq!(gates[0].ask("prepare", &events[0]), AskAnswer::Yes);
    assert_eq!(gates[1].ask("prepare", &events[1]), AskAnswer::Yes);
    let why = not_yet(gates[2].ask("prepare", &events[2]));
    assert_eq!(
        why,
        "2 of the group db are out of service or about to be, at most 2 may be: db_1, db_2"
    );
    gates[1].prepared("db_2");
    gates[1].recovered("db_2");
    gates[2].wait_for_yes("prepare", &events[2]);
}

#[test]
fn each_zone_counts_for_itself() {
    let fleet = Fleet::new(
        "[[group]]\nname = \"db\"\nmachines = [\"*\"]\nmax_unavailable = \"50%\"\nper_zone = true\n",
    );
    let zones = [("a1", "1"), ("a2", "1"), ("b1", "2"), ("b2", "2")];
    let gates = zones.map(|(machine, zone)| fleet.start(machine, Some(zone)));
    let events = zones.map(|(machine, _)| event(machine, "Reboot", &[machine]));
    wait_for("all machines", || {
        (gates[0]
            .status(&["--json"])
            .matches("\"record\":\"machine\"")
            .count()
            == 4)
            .then_some(())
    });
    assert_eq!(gates[0].ask("prepare", &events[0]), AskAnswer::Yes);
    // The other machine of the zone waits, but not that of another zone.
    let why = not_yet(gates[1].ask("prepare", &events[1]));
    assert_eq!(
        why,
        "1 of the group db/zone-1 are out of service or about to be, at most 1 may be: a1"
    );
    assert_eq!(gates[2].ask("prepare", &events[2]), AskAnswer::Yes);
    assert!(not_yet(gates[3].ask("prepare", &events[3])).contains("db/zone-2"));
}

#[test]
fn a_machine_knows_its_own_zone_before_anybody_else_does() {
    let fleet = Fleet::new(
        "[[group]]\nname = \"db\"\nmachines = [\"*\"]\nmax_unavailable = 1\nper_zone = true\n",
    );
    // Its own register is not read again in this test.
    let gate = fleet.start_with(
        "a1",
        Some("1"),
        "heartbeat = \"1h\"\nsilent_after = \"3h\"\nforget_after = \"3h\"",
    );
    assert_eq!(
        gate.ask("prepare", &event("e", "Reboot", &["a1"])),
        AskAnswer::Yes
    );
    let status = gate.status(&[]);
    assert!(
        status.contains("db/zone-1") && !status.contains("no-zone"),
        "{status}"
    );
}

/// The name of the day that is this many days from now, in UTC.
fn day_in(days: i64) -> String {
    let day = Timestamp::now() + (days * 24).hours();
    day.strftime("%a").to_string()
}

pub(crate) fn starts_in(mut event: Value, hours: i64) -> Value {
    event["not_before"] = json!(
        (Timestamp::now() + hours.hours())
            .strftime("%FT%TZ")
            .to_string()
    );
    event
}

#[test]
fn a_maintenance_window() {
    let windows = ALWAYS_CLOSED_BUT.replace("DAY", &day_in(3));
    let group = |windows: &str| {
        format!(
            "[[group]]\nname = \"web\"\nmachines = [\"web_*\"]\nmax_unavailable = 2\n{windows}\n"
        )
    };
    let fleet = Fleet::new(&group(&windows));
    let mut gate = fleet.start("web_1", None);
    // An event that can wait does.
    let patient = starts_in(event("e1", "Reboot", &["web_1"]), 24 * 7);
    let why = not_yet(gate.ask("prepare", &patient));
    assert!(
        why.starts_with(
            "outside the maintenance windows of the group web; the next one begins at "
        ),
        "{why}"
    );
    assert_eq!(not_yet(gate.ask("approve", &patient)), why);
    let status = gate.status(&[]);
    assert!(
        status.contains(
            "e1 waits: not ready: web_1; outside the maintenance windows of the group web until "
        ),
        "{status}"
    );
    assert!(status.contains("no place is taken"), "{status}");

    // An event that cannot wait is prepared for, and Azure starts it.
    let urgent = starts_in(event("e2", "Reboot", &["web_1"]), 1);
    assert_eq!(gate.ask("prepare", &urgent), AskAnswer::Yes);
    gate.prepared("e2");
    let why = not_yet(gate.ask("approve", &urgent));
    assert!(
        why.contains(
            "of the group web; Azure starts the event at NotBefore, and the next window begins at "
        ),
        "{why}"
    );

    // A Preempt waits for no window.
    let preempt = starts_in(event("e3", "Preempt", &["web_1", "db_1"]), 24 * 7);
    assert_eq!(gate.ask("prepare", &preempt), AskAnswer::Yes);
    assert_eq!(not_yet(gate.ask("approve", &preempt)), "not ready: db_1");

    // In the window both continue.
    gate.daemon = None;
    let text = std::fs::read_to_string(&gate.config).expect("the configuration");
    let today = ALWAYS_CLOSED_BUT.replace("\"DAY\"", &format!("{:?}, {:?}", day_in(0), day_in(1)));
    std::fs::write(&gate.config, text.replace(&windows, &today)).expect("written");
    gate.start_daemon();
    assert_eq!(gate.ask("prepare", &patient), AskAnswer::Yes);
    assert_eq!(gate.ask("approve", &urgent), AskAnswer::Yes);

    // An event that began in the window continues after its end.
    gate.daemon = None;
    std::fs::write(&gate.config, text).expect("written");
    gate.start_daemon();
    assert_eq!(gate.ask("prepare", &patient), AskAnswer::Yes);
    assert_eq!(gate.ask("approve", &patient), AskAnswer::Yes);
}

#[test]
fn a_preempt_waits_for_nobody_but_the_machines_that_it_names() {
    let fleet =
        Fleet::new("[[group]]\nname = \"web\"\nmachines = [\"web_*\"]\nmax_unavailable = 1\n");
    let (first, second) = (fleet.start("web_1", None), fleet.start("web_2", None));
    assert_eq!(
        first.ask("prepare", &event("e1", "Reboot", &["web_1"])),
        AskAnswer::Yes
    );
    // The group is full, and a Preempt takes no place in it.
    let alone = event("p1", "Preempt", &["web_2"]);
    assert_eq!(second.ask("prepare", &alone), AskAnswer::Yes);
    assert_eq!(second.ask("approve", &alone), AskAnswer::Yes);
    // An event of two machines needs both of them.
    let both = event("p2", "Preempt", &["web_1", "web_2"]);
    assert_eq!(second.ask("prepare", &both), AskAnswer::Yes);
    assert_eq!(not_yet(second.ask("approve", &both)), "not ready: web_1");
    assert_eq!(first.ask("prepare", &both), AskAnswer::Yes);
    // The other machine counts as silent until its second heartbeat, which has the folder's time.
    first.wait_for_yes("approve", &both);
    assert_eq!(second.ask("approve", &both), AskAnswer::AnotherApproves);
    // An event of one machine alone needs no register at all: here none can be read.
    let registers = fleet.path().join("registers");
    wait_for("a moment in which no daemon writes", || {
        let _ = std::fs::remove_dir_all(&registers);
        std::fs::write(&registers, "").ok()
    });
    assert_eq!(
        second.ask("prepare", &event("p3", "Preempt", &["web_2"])),
        AskAnswer::Yes
    );
    assert_ne!(
        second.ask("prepare", &event("e3", "Reboot", &["web_2"])),
        AskAnswer::Yes
    );
}
