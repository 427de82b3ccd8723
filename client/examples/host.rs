//! A whole host of core's `Session`, in one thread: it prepares this machine, approves, and takes it back into service.
//!
//! `cargo run --example host -- URL NAME STATE`: the URL of the metadata service or of `scheduled-events replay`, this machine's
//! name, and a file. The watcher of this crate is such a host with threads, so that no command delays a poll.

use std::error::Error;
use std::time::Duration;
use std::{env, fs, thread};

use scheduled_events::clock::Clock;
use scheduled_events::imds::Imds;
use scheduled_events::session::{EventRecords, OwnedStep, with_report};
use scheduled_events_core::{
    Action, Document, Policy, Preparation, Response, Rule, Session, SessionConfig, VmNames,
};

/// Runs until an event was seen and none is left. Returns what was done.
pub(crate) fn run(url: &str, name: &str, state: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let (imds, clock, names) = (Imds::new(url)?, Clock::start(), [name]);
    let names = VmNames::new(&names);
    let config = SessionConfig {
        policy: Policy::new(&[Rule::new(Action::Prepare)])?,
        ..SessionConfig::new(names)
    };
    let mut session = Box::new(Session::<64>::new(&config)?);
    if let Ok(snapshot) = fs::read(state) {
        session.restore(&snapshot)?;
    }
    let (mut events, mut done) = (EventRecords::default(), Vec::new());
    while !(session.has_seen_event() && session.is_idle()) {
        let step = OwnedStep::new(session.take_step(clock.now()), |event| events.of(event));
        // First store, then act: a restart must know what was begun.
        if step.is_stored_first() && session.is_changed() {
            let mut snapshot = vec![0; Session::<64>::SNAPSHOT_MAX];
            let length = session.snapshot(&mut snapshot)?;
            fs::write(state, &snapshot[..length])?;
            session.saved();
        }
        let answer = match step {
            OwnedStep::Get { timeout_ms, .. } => {
                imds.events(Duration::from_millis(timeout_ms.into()))
            }
            OwnedStep::Post {
                body, timeout_ms, ..
            } => {
                done.extend(session.posted().map(|id| format!("approve {id}")));
                imds.approve(&body, Duration::from_millis(timeout_ms.into()))
            }
            // A real host starts a command here, and answers when it has ended.
            OwnedStep::Prepare { event, attempt, .. } => {
                done.push(format!("prepare for {}", event.event_id));
                let _ = session.prepared(attempt, Preparation::Ready);
                continue;
            }
            OwnedStep::Recover {
                events, attempt, ..
            } => {
                done.extend(
                    events
                        .iter()
                        .map(|event| format!("recover from {}", event.event_id)),
                );
                let _ = session.recovered(attempt, true, clock.now());
                continue;
            }
            OwnedStep::Report(report) => {
                let json = with_report(&report, None, |record| serde_json::to_string(&record))?;
                println!("{json}");
                continue;
            }
            OwnedStep::Wait { until } => {
                thread::sleep(Duration::from_millis(until.millis_since(clock.now())));
                continue;
            }
            // There is no gate, and nothing runs while a step is taken.
            OwnedStep::Gate { .. } | OwnedStep::Cancel { .. } => continue,
        };
        let outcome = match answer {
            Ok(http) => {
                let response = Response {
                    status: http.status,
                    retry_after: http.retry_after,
                    body: &http.body,
                };
                let copy = |newest: &Document<'_>| events.apply(newest, names);
                session.on_response_with(&response, clock.now(), copy)
            }
            Err(failure) => session.on_failure(failure.cause, clock.now()),
        };
        eprintln!("{outcome:?}");
    }
    Ok(done)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [url, name, state] = &arguments[..] else {
        return Err("expected URL, NAME and STATE".into());
    };
    println!("{}", run(url, name, state)?.join("\n"));
    Ok(())
}
