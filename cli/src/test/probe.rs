//! What `capture` asks that no client should: requests that the service refuses, every version, and an approval twice.

use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use scheduled_events_core::api_version::VERSIONS;
use scheduled_events_core::wire::{API_VERSION, HEADER_NAME, HEADER_VALUE, PATH};

use crate::endpoint::post;
use scheduled_events::imds::Imds;

/// How long an answer may take. The service is switched on.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The time between two requests: beside the polls, and those of a watcher, there are no five in a second.
const PAUSE: Duration = Duration::from_millis(500);

/// An `EventId` that no event has.
const NO_EVENT: &str = "00000000-0000-4000-8000-000000000000";

/// A group of requests.
pub(super) enum Probe {
    /// What the service refuses.
    Refusals,
    /// The document in every version.
    Versions,
    /// The approval of the event with this id, twice.
    Approval(String),
}

/// Sends the requests that are asked for, until nobody asks any more. What comes back is for the trace.
pub(super) fn run_probes(imds: &Imds, probes: &Mutex<Receiver<Probe>>) {
    let probes = probes.lock().unwrap_or_else(PoisonError::into_inner);
    for probe in probes.iter() {
        run_probe(imds, &probe, PAUSE);
    }
}

pub(super) fn run_probe(imds: &Imds, probe: &Probe, pause: Duration) {
    match probe {
        Probe::Refusals => {
            for (query, headers) in refused() {
                let _ = imds.probe(&format!("{PATH}{query}"), headers, TIMEOUT);
                thread::sleep(pause);
            }
            let _ = post(imds, &[NO_EVENT]);
            thread::sleep(pause);
        }
        Probe::Versions => {
            for (version, _) in VERSIONS {
                let _ = imds.events_in(version, TIMEOUT);
                thread::sleep(pause);
            }
        }
        Probe::Approval(id) => {
            for _ in 0..2 {
                let _ = post(imds, &[id]);
                thread::sleep(pause);
            }
        }
    }
}

type Fields = &'static [(&'static str, &'static str)];

/// The query and the header of each request that is refused.
fn refused() -> [(String, Fields); 5] {
    const OWN: Fields = &[(HEADER_NAME, HEADER_VALUE)];
    const FORWARDED: Fields = &[
        (HEADER_NAME, HEADER_VALUE),
        ("X-Forwarded-For", "192.0.2.1"),
    ];
    let query = format!("?api-version={API_VERSION}");
    [
        (query.clone(), &[]),
        (query.clone(), FORWARDED),
        (format!("{query}&api-version={API_VERSION}"), OWN),
        (String::new(), OWN),
        ("?api-version=2099-01-01".to_owned(), OWN),
    ]
}
