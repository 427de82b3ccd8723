//! How long it takes to read a document, every field of it, and to track and decide it. Prints nanoseconds; only ratios
//! within one run mean anything.
//!
//! `cargo bench --package scheduled-events-core`

#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Figures for people.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use scheduled_events_core::{Document, Policy, Tracker, UnixSeconds, VmNames};

const ROUNDS: usize = 31;

fn document(events: usize, resources: usize) -> String {
    let mut text = String::from(r#"{"DocumentIncarnation":2,"Events":["#);
    for event in 0..events {
        if event > 0 {
            text.push(',');
        }
        let names: Vec<_> = (0..resources).map(|name| format!("\"WestNO_{name}\"")).collect();
        let _ = write!(
            text,
            "{{\"EventId\":\"C7061BAC-AFDC-4513-B24B-{event:012X}\",\"EventStatus\":\"Scheduled\",\"EventType\":\
             \"Freeze\",\"ResourceType\":\"VirtualMachine\",\"Resources\":[{}],\"NotBefore\":\"Mon, 11 Apr 2022 22:26:58 \
             GMT\",\"Description\":\"Virtual machine is being paused because of a memory-preserving Live Migration \
             operation.\",\"EventSource\":\"Platform\",\"DurationInSeconds\":5}}",
            names.join(",")
        );
    }
    text.push_str("]}");
    text
}

/// Reads every field and sums up what it saw, so that nothing can be left out.
fn read(body: &[u8]) -> usize {
    let document = Document::parse(body).expect("a document");
    let mut sum = 0;
    for event in document.events() {
        sum += event.event_id().decoded_len();
        sum += event.event_type().map_or(0, |word| word.text().decoded_len());
        sum += event.event_status().map_or(0, |word| word.text().decoded_len());
        sum += event.resource_type().map_or(0, |text| text.decoded_len());
        sum += event.event_source().map_or(0, |word| word.text().decoded_len());
        sum += event.description().map_or(0, |text| text.decoded_len());
        sum += event.resources().iter().map(|name| name.decoded_len()).sum::<usize>();
        sum += event.duration_in_seconds().unwrap_or(0) as usize;
        sum += event.not_before().moment().map_or(0, |moment| (moment.0 & 0xff) as usize);
    }
    sum
}

fn follow(tracker: &mut Tracker<1024>, body: &[u8]) -> usize {
    let document = Document::parse(body).expect("a document");
    let names = VmNames::new(&["WestNO_0"]);
    let now = UnixSeconds(1_649_715_000);
    let mut sum = 0;
    tracker.observe(&document, names, now, |_, _| sum += 1).expect("there is room");
    let policy = Policy::sample();
    sum + document.events().filter(|event| policy.decide(event, names, now).rule.is_some()).count()
}

/// The median time of one call.
fn median(mut call: impl FnMut() -> usize) -> Duration {
    let begun = Instant::now();
    black_box(call());
    let calls = (Duration::from_millis(3).as_nanos() / begun.elapsed().as_nanos().max(1)).clamp(1, 20_000) as u32;
    let mut times: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let begun = Instant::now();
            for _ in 0..calls {
                black_box(call());
            }
            begun.elapsed() / calls
        })
        .collect();
    times.sort();
    times[ROUNDS / 2]
}

fn main() {
    println!("{:<24} {:>9} {:>12} {:>9} {:>12}", "document", "bytes", "read ns", "ns/byte", "follow ns");
    for (name, events, resources) in [
        ("S 1 x 2", 1, 2),
        ("M 10 x 4", 10, 4),
        ("L 100 x 10", 100, 10),
        ("X 1 x 1000", 1, 1000),
        ("XL 1000 x 100", 1000, 100),
    ] {
        let body = document(events, resources).into_bytes();
        let read = median(|| read(black_box(&body)));
        let mut tracker = Box::new(Tracker::new());
        let follow = median(|| follow(&mut tracker, black_box(&body)));
        let per_byte = read.as_secs_f64() * 1e9 / body.len() as f64;
        println!("{name:<24} {:>9} {:>12} {per_byte:>9.2} {:>12}", body.len(), read.as_nanos(), follow.as_nanos());
    }
}
