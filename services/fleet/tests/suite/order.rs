//! Which event comes next, and which event a mark is for: real daemons on a shared folder.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::wait_for;
use crate::gate::{AskAnswer, Fleet, Gate, event};
use crate::groups::{not_yet, starts_in};

const QUICK: &str = "heartbeat = \"200ms\"\nsilent_after = \"15s\"";

/// Starts this many daemons, and waits for their first heartbeats: no event waits for a machine
/// that seems to be gone.
fn start(fleet: &Fleet, names: &[String]) -> Vec<Gate> {
    let gates: Vec<_> = names
        .iter()
        .map(|name| fleet.start_with(name, None, QUICK))
        .collect();
    wait_for("the first heartbeats", || {
        (gates[0].status(&["--json"]).matches("\"beating\"").count() == names.len()).then_some(())
    });
    gates
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("web_{number}")).collect()
}

/// An event of five machines among events of one, where two may be out of service.
#[test]
fn a_large_event_has_its_turn_among_small_ones() {
    let fleet =
        Fleet::new("[[group]]\nname = \"web\"\nmachines = [\"web_*\"]\nmax_unavailable = 2\n");
    let names = names(8);
    let mut gates = start(&fleet, &names);
    let of = |id: &str, numbers: &[usize], hours: i64| {
        let machines: Vec<_> = numbers
            .iter()
            .map(|&number| names[number].as_str())
            .collect();
        starts_in(event(id, "Reboot", &machines), hours)
    };
    let (large, late) = (of("large", &[2, 3, 4, 5, 6], 2), of("late", &[7], 4));
    for number in [0, 1] {
        gates[number].wait_for_yes("prepare", &of(&names[number], &[number], 3));
    }
    assert!(
        not_yet(gates[2].ask("prepare", &large))
            .starts_with("2 of the group web are out of service")
    );
    let ends = |gate: &Gate, id: &str| {
        gate.prepared(id);
        gate.recovered(id);
    };
    ends(&gates[0], "web_0");
    // A place is free, and the large event needs it.
    wait_for("a reservation", || {
        let _ = gates[2].ask("prepare", &large);
        not_yet(gates[7].ask("prepare", &late))
            .contains("is reserved for an earlier event: large")
            .then_some(())
    });
    ends(&gates[1], "web_1");
    gates[2].wait_for_yes("prepare", &large);
    for gate in &gates[3..7] {
        gate.wait_for_yes("prepare", &large);
    }
    assert!(not_yet(gates[7].ask("prepare", &late)).contains("web_2, web_3, web_4, web_5, web_6"));
    for gate in &gates[2..7] {
        ends(gate, "large");
    }
    gates[7].wait_for_yes("prepare", &late);

    // No event waits for a machine that is gone.
    let next = of("next", &[0, 1, 2], 1);
    let why = not_yet(gates[0].ask("prepare", &next));
    assert!(
        why.contains(" of the group web are out of service"),
        "{why}"
    );
    let after = of("after", &[3], 2);
    wait_for("a reservation", || {
        let _ = gates[0].ask("prepare", &next);
        not_yet(gates[3].ask("prepare", &after))
            .contains("is reserved for an earlier event: next")
            .then_some(())
    });
    gates[0].daemon = None;
    ends(&gates[7], "late");
    gates[3].wait_for_yes("prepare", &after);
}

/// Ends the stream when it is dropped, even if the test fails.
struct EndOfStream<'a>(&'a AtomicBool);

impl Drop for EndOfStream<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A machine has one event after another, until the stream is over.
fn have_events(gate: &Gate, name: &str, is_over: &AtomicBool, granted: &AtomicUsize) {
    while !is_over.load(Ordering::SeqCst) {
        let id = format!("{name}-{}", granted.load(Ordering::SeqCst));
        let single = starts_in(event(&id, "Reboot", &[name]), 3);
        while gate.ask("prepare", &single) != AskAnswer::Yes {
            if is_over.load(Ordering::SeqCst) {
                return;
            }
        }
        gate.prepared(&id);
        std::thread::sleep(Duration::from_millis(500));
        gate.recovered(&id);
        granted.fetch_add(1, Ordering::SeqCst);
    }
}

/// An event of five machines, where two may be out of service, while three others have one event
/// after another: there is always one that could take a free place.
#[test]
fn a_large_event_has_its_turn_in_a_stream_of_single_ones() {
    let fleet =
        Fleet::new("[[group]]\nname = \"web\"\nmachines = [\"web_*\"]\nmax_unavailable = 2\n");
    let names = names(8);
    let gates = start(&fleet, &names);
    let affected: Vec<_> = names[3..].iter().map(String::as_str).collect();
    let large = starts_in(event("large", "Reboot", &affected), 2);
    let (is_over, granted) = (AtomicBool::new(false), [0; 3].map(AtomicUsize::new));
    let wait_for_singles = || {
        let before = granted.each_ref().map(|count| count.load(Ordering::SeqCst));
        wait_for("single events", || {
            let more = granted
                .iter()
                .zip(before)
                .all(|(count, before)| count.load(Ordering::SeqCst) >= before + 2);
            more.then_some(())
        });
    };
    std::thread::scope(|scope| {
        let _end = EndOfStream(&is_over);
        for ((gate, name), granted) in gates.iter().zip(&names).zip(&granted) {
            let is_over = &is_over;
            scope.spawn(move || have_events(gate, name, is_over, granted));
        }
        wait_for_singles();
        for gate in &gates[3..] {
            gate.wait_for_yes("prepare", &large);
        }
        for gate in &gates[3..] {
            gate.prepared("large");
            gate.recovered("large");
        }
        wait_for_singles();
    });
}

/// While a large event waits for its places, an earlier one goes first, and a later one does not.
#[test]
fn events_are_taken_in_the_order_of_not_before() {
    let fleet =
        Fleet::new("[[group]]\nname = \"web\"\nmachines = [\"web_*\"]\nmax_unavailable = 3\n");
    let gates = start(&fleet, &names(6));
    let of =
        |id: &str, machines: &[&str], hours: i64| starts_in(event(id, "Reboot", machines), hours);
    let (first, large) = (
        of("first", &["web_0"], 2),
        of("large", &["web_1", "web_2", "web_3"], 2),
    );
    let (later, earlier) = (of("later", &["web_4"], 3), of("earlier", &["web_5"], 1));
    gates[0].wait_for_yes("prepare", &first);
    wait_for("a reservation", || {
        let _ = gates[1].ask("prepare", &large);
        not_yet(gates[4].ask("prepare", &later))
            .contains("is reserved for an earlier event: large")
            .then_some(())
    });
    gates[5].wait_for_yes("prepare", &earlier);
    for (gate, id) in [(&gates[0], "first"), (&gates[5], "earlier")] {
        assert_ne!(gates[4].ask("prepare", &later), AskAnswer::Yes);
        gate.prepared(id);
        gate.recovered(id);
    }
    wait_for("the large event", || {
        assert_ne!(gates[4].ask("prepare", &later), AskAnswer::Yes);
        (gates[1].ask("prepare", &large) == AskAnswer::Yes).then_some(())
    });
    for gate in &gates[1..=3] {
        gate.wait_for_yes("prepare", &large);
        gate.prepared("large");
        gate.recovered("large");
    }
    gates[4].wait_for_yes("prepare", &later);
}

#[test]
fn a_mark_is_for_the_event_as_it_is() {
    let fleet = Fleet::new("");
    let [a, b] = ["a", "b"].map(|machine| fleet.start(machine, None));
    let of = |event_type: &str, machines: &[&str], duration: Value| {
        let mut event = event("e", event_type, machines);
        event["duration_in_seconds"] = duration;
        event
    };
    let both = ["a", "b"];
    let announced = of("Reboot", &both, json!(9));
    a.wait_for_yes("prepare", &announced);
    a.prepared("e");
    assert_eq!(not_yet(a.ask("approve", &announced)), "not ready: b");
    for (changed, missing) in [
        (of("Reboot", &both, json!(90)), "a"),
        (of("Reboot", &both, json!(5)), "a"),
        (of("Reboot", &both, json!(-1)), "a"),
        (of("Reboot", &both, Value::Null), "a"),
        (of("Redeploy", &both, json!(9)), "a"),
        (of("Reboot", &["a", "b", "c"], json!(9)), "a, c"),
    ] {
        b.wait_for_yes("prepare", &changed);
        assert_eq!(
            not_yet(b.ask("approve", &changed)),
            format!("not ready: {missing}"),
            "{changed}"
        );
    }
    b.wait_for_yes("prepare", &announced);
    // A watcher that waits asks again; a mark whose watcher does not wait is withdrawn.
    assert_eq!(not_yet(a.ask("approve", &announced)), "not ready: b");
    b.prepared("e");
    assert_eq!(b.ask("approve", &announced), AskAnswer::Yes);
    assert_eq!(a.ask("approve", &announced), AskAnswer::AnotherApproves);
    // The event comes back under its id: the earlier decision does not count.
    for gate in [&a, &b] {
        gate.recovered("e");
        gate.record(
            json!({ "record": "change", "change": "scheduled", "event_id": "e", "mine": true }),
        );
    }
    a.wait_for_yes("prepare", &announced);
    a.prepared("e");
    assert_eq!(not_yet(a.ask("approve", &announced)), "not ready: b");
    b.wait_for_yes("prepare", &announced);
    b.prepared("e");
    assert_eq!(b.ask("approve", &announced), AskAnswer::Yes);
}

#[test]
fn machines_with_other_limits_are_named_and_the_smallest_limit_counts() {
    let mut fleet =
        Fleet::new("[[group]]\nname = \"web\"\nmachines = [\"web_*\"]\nmax_unavailable = 2\n");
    let first = fleet.start("web_1", None);
    fleet.change_groups("max_unavailable = 2", "max_unavailable = 1");
    let second = fleet.start("web_2", None);
    fleet.change_groups("max_unavailable = 1", "max_unavailable = 2\npause = \"1m\"");
    let third = fleet.start("web_3", None);
    fleet.change_groups("name = \"web\"", "name = \"net\"");
    let _fourth = fleet.start("web_4", None);
    let lines = wait_for("all machines", || {
        let status = first.status(&[]);
        let lines: Vec<_> = status
            .lines()
            .filter(|line| line.starts_with("the group web"))
            .map(str::to_owned)
            .collect();
        (lines.len() == 2
            && ["web_3", "web_4"]
                .iter()
                .all(|name| lines[1].contains(name)))
        .then_some(lines)
    });
    assert_eq!(
        lines[0],
        "the group web has the limit 2 here and another one at web_2: the smallest one counts"
    );
    assert_eq!(
        lines[1],
        "the group web has other `machines`, `per_zone`, `pause` or `windows` at web_3, web_4: configure it equally"
    );
    assert!(
        first
            .status(&["--json"])
            .contains(r#""differs":["web_2","web_3","web_4"],"group":"web""#)
    );
    first.wait_for_yes("prepare", &event("e1", "Reboot", &["web_1"]));
    for (gate, id, machine) in [(&third, "e3", "web_3"), (&second, "e2", "web_2")] {
        let why = not_yet(gate.ask("prepare", &event(id, "Reboot", &[machine])));
        assert_eq!(
            why,
            "1 of the group web are out of service or about to be, at most 1 may be: web_1"
        );
    }
    let log = std::fs::read_to_string(first.folder.join("log")).expect("the log");
    assert_eq!(
        log.matches("warning: the limits: the group web").count(),
        1,
        "{log}"
    );
}
