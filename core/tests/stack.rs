//! How much stack core needs, and that no document makes it need more.

use std::fmt::Write;
use std::hint::black_box;
use std::ptr::with_exposed_provenance;
use std::thread;

use scheduled_events_core::{
    Document, EventId, ParseErrorKind, Policy, Response, Rule, Session, SessionConfig,
    StartRequests, Step, Tracker, UnixMillis, UnixSeconds, VmNames,
};

const PAINTED: usize = 128 * 1024;
const COLOUR: u8 = 0xa5;

/// Paints the stack below this frame and returns its address.
#[inline(never)]
#[allow(clippy::large_stack_arrays)] // The point of it.
fn paint() -> usize {
    let mut painted = [COLOUR; PAINTED];
    black_box(&mut painted).as_ptr().expose_provenance()
}

/// How many bytes from the deepest changed one on are not painted any more.
#[inline(never)]
fn unpainted(start: usize) -> usize {
    let bytes = with_exposed_provenance::<u8>(start);
    let mut untouched = 0;
    while untouched < PAINTED {
        // SAFETY: these are addresses of this thread's own stack, mapped, since `paint` has written to them, and below
        // every frame that is alive but this small one at their upper end. The language knows no such memory; the
        // machine does, and a volatile read is a read of the machine. The bytes are not written to, and mean nothing
        // to the program but whether they are still what they were painted with.
        if unsafe { bytes.add(untouched).read_volatile() } != COLOUR {
            break;
        }
        untouched += 1;
    }
    PAINTED - untouched
}

/// The stack that a call needs, in bytes, including its result in the caller's frame.
fn stack_of<T: Send>(call: impl Fn() -> T + Send + Sync) -> usize {
    #[inline(never)]
    fn called<T>(call: &dyn Fn() -> T) {
        black_box(call());
    }
    let measured = thread::scope(|scope| {
        let thread = thread::Builder::new()
            .stack_size(4 * PAINTED)
            .spawn_scoped(scope, || {
                called(&|| ());
                let start = paint();
                called(&|| ());
                let empty = unpainted(start);
                let start = paint();
                called(&call);
                unpainted(start) - empty
            });
        thread.unwrap().join().unwrap()
    });
    assert!(measured < PAINTED / 2, "painted too little");
    measured
}

fn hide<T>(value: T) {
    let _ = black_box(value);
}

/// Events with all members, and many more, with problems and repeated ids among them.
fn body() -> String {
    let mut events = vec![
        r#"{"EventId":"C7061BAC-AFDC-4513-B24B-AA5F13A16123","EventStatus":"Scheduled","EventType":"Freeze",
        "ResourceType":"VirtualMachine","Resources":["vm","vm_1"],"NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT",
        "Description":"caf\u00e9 \ud83d\ude00","EventSource":"Platform","DurationInSeconds":"5"}"#
            .to_owned(),
    ];
    // The same with the white space of an indented document.
    events.push(
        events[0]
            .replace("C706", "D706")
            .replace(",\"", ",\n  \"")
            .replace('[', "[\n  "),
    );
    let events_of = |ids: std::ops::Range<u32>, members: &str| {
        ids.map(|id| format!(r#"{{"EventId":"{id:064}",{members}}}"#))
            .collect::<Vec<_>>()
    };
    events.extend(events_of(
        0..40,
        r#""EventStatus":"Scheduled","Resources":["vm"]"#,
    ));
    events.extend(events_of(
        30..40,
        r#""NotBefore":[[[{"a":1}]]],"EventType":7"#,
    ));
    events.extend(events_of(
        40..80,
        r#""EventStatus":"Scheduled","Resources":["vm"]"#,
    ));
    format!(
        r#"{{"DocumentIncarnation":1,"Events":[{}]}}"#,
        events.join(",")
    )
}

/// The most stack for parsing a document.
const PARSE_MAX: usize = 1700;

const NOW: UnixSeconds = UnixSeconds(1_649_715_600);

fn session() -> Box<Session<128>> {
    let policy = Policy::new(&[Rule::new(scheduled_events_core::Action::Approve)]).unwrap();
    Box::new(
        Session::new(&SessionConfig {
            policy,
            ..SessionConfig::new(VmNames::new(&["vm"]))
        })
        .unwrap(),
    )
}

/// Drives a session for some steps.
fn drive(session: &mut Session<128>, body: &[u8], steps: u32) {
    let mut now = UnixMillis::from(NOW);
    for _ in 0..steps {
        match session.take_step(now) {
            Step::Get { .. } | Step::Post { .. } => {
                session.on_response(
                    &Response {
                        status: 200,
                        retry_after: None,
                        body,
                    },
                    now,
                );
            }
            Step::Wait { until } => now = until,
            _ => {}
        }
    }
}

#[test]
fn calls_stay_within_their_stack() {
    let body = body();
    let body = body.as_bytes();
    let broken = &body[..body.len() - 1];
    let session = std::sync::Mutex::new(session());
    drive(&mut session.lock().unwrap(), body, 50);
    let mut snapshot = vec![0; 1 << 16];
    let length = session.lock().unwrap().snapshot(&mut snapshot).unwrap();
    let snapshot = &snapshot[..length];
    let buffer = std::sync::Mutex::new(vec![0_u8; 1 << 16]);
    let tracker = std::sync::Mutex::new(Box::new(Tracker::<128>::new()));
    let names = VmNames::new(&["vm"]);
    let document = Document::parse(body).unwrap();
    let event = document.events().next().unwrap();
    let policy = Policy::sample();
    let now = UnixMillis::from(NOW);

    let measured = [
        (
            "parse, accepted",
            PARSE_MAX,
            stack_of(|| Document::parse(black_box(body)).is_ok()),
        ),
        (
            "parse, refused",
            PARSE_MAX,
            stack_of(|| Document::parse(black_box(broken)).is_ok()),
        ),
        (
            "events",
            1700,
            stack_of(|| black_box(&document).events().for_each(hide)),
        ),
        (
            "problems",
            1600,
            stack_of(|| black_box(&document).problems().for_each(hide)),
        ),
        (
            "observe",
            2560,
            stack_of(|| {
                tracker
                    .lock()
                    .unwrap()
                    .observe(black_box(&document), names, NOW, |change, _| hide(change))
            }),
        ),
        (
            "decide",
            1024,
            stack_of(|| policy.decide(black_box(&event), names, NOW)),
        ),
        (
            "approve",
            1024,
            stack_of(|| StartRequests::new(&[event.event_id()]).write(&mut buffer.lock().unwrap())),
        ),
        (
            "event id",
            1024,
            stack_of(|| EventId::new(&black_box(&event).event_id())),
        ),
        (
            "session: next",
            8192,
            stack_of(|| hide(session.lock().unwrap().take_step(now.plus(900_000)))),
        ),
        (
            "session: on_response",
            8192,
            stack_of(|| {
                let mut session = session.lock().unwrap();
                session.on_failure(scheduled_events_core::Cause::Timeout, now);
                // The deepest call applies a document.
                for minute in 1..9 {
                    drive_once(&mut session, body, now.plus(minute * 60_000));
                }
            }),
        ),
        (
            "session: snapshot",
            8192,
            stack_of(|| {
                session
                    .lock()
                    .unwrap()
                    .snapshot(&mut buffer.lock().unwrap())
            }),
        ),
        (
            "session: restore",
            8192,
            stack_of(|| session.lock().unwrap().restore(black_box(snapshot))),
        ),
    ];
    println!(
        "{} bytes: a session of 128 events, {} each",
        size_of::<Session<128>>(),
        size_of::<Session<128>>() / 128
    );
    println!(
        "{} bytes: a tracker of 128 events",
        size_of::<Tracker<128>>()
    );
    println!("{} bytes: a document", size_of::<Document<'_>>());
    for (call, limit, bytes) in measured {
        println!("{bytes} bytes of stack: {call} (at most {limit})");
    }
    for (call, limit, bytes) in measured {
        assert!(
            bytes <= limit,
            "{call} takes {bytes} bytes of stack, more than {limit}"
        );
    }
}

fn drive_once(session: &mut Session<128>, body: &[u8], now: UnixMillis) {
    for _ in 0..400 {
        match session.take_step(now) {
            Step::Get { .. } | Step::Post { .. } => {
                session.on_response(
                    &Response {
                        status: 200,
                        retry_after: None,
                        body,
                    },
                    now,
                );
            }
            Step::Wait { .. } => break,
            _ => {}
        }
    }
}

/// Runs the call with 64 KiB of stack: recursion over a hostile document would overflow it.
fn in_a_small_thread<T: Send>(call: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        thread::Builder::new()
            .stack_size(64 * 1024)
            .spawn_scoped(scope, call)
            .unwrap()
            .join()
            .unwrap()
    })
}

#[test]
fn eight_hostile_mebibytes_are_refused_or_read() {
    const SIZE: usize = 8 << 20;
    let filled = |before: &str, unit: &str, after: &str| {
        let mut text = String::with_capacity(SIZE + 64);
        text.push_str(before);
        let count = (SIZE - before.len() - after.len()) / unit.len();
        (0..count).for_each(|_| text.push_str(unit));
        // A list does not end with a comma.
        if unit.ends_with(',') {
            text.pop();
        }
        text.push_str(after);
        text
    };
    let too_deep = Err(ParseErrorKind::TooDeep);
    let cases: [(&str, String, Result<usize, ParseErrorKind>); 16] = [
        ("arrays in arrays", filled("", "[", ""), too_deep),
        ("objects in objects", filled("", "{\"a\":", ""), too_deep),
        (
            "arrays in events",
            filled("{\"Events\":", "[", ""),
            too_deep,
        ),
        (
            "mixed, in an event",
            filled("{\"Events\":[{\"x\":", "[{\"y\":", ""),
            too_deep,
        ),
        (
            "arrays in resources",
            filled("{\"Events\":[{\"Resources\":", "[", ""),
            too_deep,
        ),
        (
            "one string",
            filled("{\"Events\":[],\"x\":\"", "x", "\"}"),
            Ok(0),
        ),
        (
            "one string without an end",
            filled("{\"Events\":[],\"x\":\"", "x", ""),
            Err(ParseErrorKind::UnexpectedEnd),
        ),
        (
            "one event id",
            filled("{\"Events\":[{\"EventId\":\"", "é", "\"}]}"),
            Ok(1),
        ),
        (
            "escapes",
            filled("{\"Events\":[{\"EventId\":\"", "\\ud83d\\ude00", "\"}]}"),
            Ok(1),
        ),
        (
            "escapes in a member's name",
            filled("{\"Events\":[{\"", "\\u0041", "\":1}]}"),
            Ok(0),
        ),
        (
            "one number",
            filled("{\"Events\":[],\"DocumentIncarnation\":", "9", "}"),
            Ok(0),
        ),
        (
            "one duration",
            filled("{\"Events\":[{\"DurationInSeconds\":0.", "0", "1}]}"),
            Ok(0),
        ),
        (
            "white space",
            filled("{\"Events\":", " \n\t\r", "[]}"),
            Ok(0),
        ),
        (
            "a million events of one id",
            filled("{\"Events\":[", "{\"EventId\":\"a\"},", "]}"),
            Ok(0),
        ),
        (
            "a million resources",
            filled(
                "{\"Events\":[{\"EventId\":\"a\",\"Resources\":[",
                "\"vm\",",
                "]}]}",
            ),
            Ok(1),
        ),
        (
            "a million members",
            filled("{\"Events\":[{\"EventId\":\"a\",", "\"x\":1,", "}]}"),
            Ok(1),
        ),
    ];
    for (name, text, expected) in cases {
        let body = text.as_bytes();
        assert!(body.len() + 64 > SIZE, "{name}");
        let read = in_a_small_thread(|| match Document::parse(body) {
            Ok(document) => {
                let count = document.events().count();
                assert_eq!(count, document.events().len(), "{name}");
                let mut tracker = Tracker::<16>::new();
                let _ = tracker.observe(&document, VmNames::new(&["v"]), NOW, |_, _| {});
                for event in document.events().take(3) {
                    let decision = Policy::sample().decide(&event, VmNames::new(&["v"]), NOW);
                    assert!(decision.approve_after.is_none(), "{name}");
                    let _ = (
                        event.event_id().decoded_len(),
                        event.resources().iter().count(),
                    );
                }
                let _ = document.problems().count();
                Ok(if name.contains("events of one id") {
                    0
                } else {
                    count
                })
            }
            Err(error) => {
                let _ = error.position(body);
                Err(error.kind)
            }
        });
        assert_eq!(read, expected, "{name}");
    }
}

#[test]
fn a_million_different_events_are_read_in_a_small_thread() {
    let mut text = String::from("{\"Events\":[");
    for n in 0..400_000 {
        write!(text, "{{\"EventId\":\"{n:x}\"}},").unwrap();
    }
    text.pop();
    text.push_str("]}");
    let body = text.as_bytes();
    let (events, untracked) = in_a_small_thread(|| {
        let document = Document::parse(body).unwrap();
        (document.events().len(), untracked(body))
    });
    assert_eq!(events, 400_000);
    assert_eq!(untracked, Some(400_000 - 16));
}

/// How many events of a large document a small session reports as untracked.
fn untracked(body: &[u8]) -> Option<usize> {
    let mut session = Session::<16>::new(&SessionConfig::new(VmNames::new(&["vm"]))).unwrap();
    let now = UnixMillis::from(NOW);
    let mut untracked = None;
    for _ in 0..100 {
        match session.take_step(now) {
            Step::Get { .. } => {
                session.on_response(
                    &Response {
                        status: 200,
                        body,
                        ..Response::default()
                    },
                    now,
                );
            }
            Step::Report(scheduled_events_core::Report::Untracked(count)) => {
                untracked = Some(count.own + count.others);
            }
            Step::Wait { .. } => break,
            _ => {}
        }
    }
    untracked
}
