//! The cost of following a parsed document: observing it unchanged and deciding every event.

use std::hint::black_box;

use scheduled_events_core::{Document, Policy, Tracker, UnixSeconds, VmNames};

use crate::measure::Timed;

const NOW: UnixSeconds = UnixSeconds(1_649_715_000);
const OWN: [&str; 1] = ["WestNO_0"];

/// Parsing alone, observing and deciding alone, and all three.
pub fn calls(body: &[u8]) -> Vec<(&'static str, Timed<'_>)> {
    let document = Document::parse(body).expect("a valid document");
    let mut trackers = [
        Box::new(Tracker::<1024>::new()),
        Box::new(Tracker::<1024>::new()),
    ];
    for tracker in &mut trackers {
        follow(&document, tracker);
        assert_eq!(observe(&document, tracker), 0, "nothing changed");
    }
    assert_eq!(
        decide(&document),
        document.events().len() as u64,
        "every event was decided"
    );
    let [mut tracker, mut another] = trackers;
    vec![
        (
            "parse",
            Box::new(move || parse(black_box(body)).events().len() as u64),
        ),
        (
            "observe + decide",
            Box::new(move || follow(black_box(&document), &mut tracker)),
        ),
        (
            "parse + observe + decide",
            Box::new(move || follow(&parse(black_box(body)), &mut another)),
        ),
    ]
}

fn follow(document: &Document<'_>, tracker: &mut Tracker<1024>) -> u64 {
    observe(document, tracker) + decide(document)
}

#[inline(never)]
fn parse(body: &[u8]) -> Document<'_> {
    Document::parse(body).expect("a valid document")
}

/// Returns the number of changes.
#[inline(never)]
fn observe(document: &Document<'_>, tracker: &mut Tracker<1024>) -> u64 {
    let mut changes = 0;
    tracker
        .observe(document, VmNames::new(&OWN), NOW, |_, _| changes += 1)
        .expect("the tracker has the capacity");
    changes
}

/// Returns the number of events, each of which was decided.
#[inline(never)]
fn decide(document: &Document<'_>) -> u64 {
    let (policy, names) = (Policy::sample(), VmNames::new(&OWN));
    document.events().fold(0, |decided, event| {
        black_box(policy.decide(&event, names, NOW));
        decided + 1
    })
}
