//! `list` and `approve`: one request to the metadata service.

use std::time::Duration;

use scheduled_events_core::{Document, StartRequests, limits};

use super::Failure;
use super::check::{now, print};
use super::look::{self, GOOD, shown};
use super::options::{Approve, ENDPOINT_VARIABLE, List, Service};
use crate::imds::{self, Answer, Imds, NAME_TIMEOUT};
use crate::record::Record;
use crate::watch::names_for;

/// The first request may wake the service up.
const FIRST_TIMEOUT: Duration = Duration::from_millis(limits::FIRST_TIMEOUT_MS as u64);

/// How long silence lasts before a person is told that it may last longer.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) fn connect(service: &Service) -> Result<Imds, Failure> {
    // A variable that is set to nothing counts as one that is not set.
    let nothing = service.endpoint.is_empty() && std::env::var_os(ENDPOINT_VARIABLE).is_some();
    let endpoint = if nothing { imds::ENDPOINT } else { &service.endpoint };
    Imds::new(endpoint, &service.api_version, service.allow_endpoint).map_err(Failure::usage)
}

pub(super) fn list(options: &List) -> Result<(), Failure> {
    let imds = connect(&options.service)?;
    let mut names: Vec<String> = options.machine.vm_name.clone();
    let answer = patiently(|| imds.events(None, FIRST_TIMEOUT)).map_err(|failure| unreachable(&imds, &failure))?;
    if answer.status != 200 {
        return Err(refused(&imds, &answer));
    }
    if answer.body.trim_ascii().is_empty() {
        return Err(Failure::endpoint(format!(
            "{} answered with an empty body, which says nothing about events; try again in a minute",
            imds.endpoint()
        )));
    }
    let document = Document::parse(&answer.body).map_err(|error| {
        let position = error.position(&answer.body);
        Failure::document(format!("{}:{position}: {}", imds.endpoint(), error.kind.message()))
    })?;
    if names.is_empty() && document.events().len() > 0 {
        match imds.vm_name(NAME_TIMEOUT) {
            Ok(name) => names.push(name),
            Err(why) => look::diagnose(
                "warning",
                &format!("this machine's own name could not be asked ({why}); --vm-name tells whose events these are"),
            ),
        }
    }
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let names = names_for(&names, &options.service.api_version);
    print(&document, &answer.body, names, now(), options.output.json, None)
}

pub(super) fn approve(options: &Approve) -> Result<(), Failure> {
    if options.ids.iter().any(|id| id.trim().is_empty()) {
        return Err(Failure::usage("an EventId is empty; `scheduled-events list` shows them"));
    }
    let imds = connect(&options.service)?;
    let approval = StartRequests::new(&options.ids);
    let mut body = vec![0; approval.len()];
    approval.write(&mut body).map_err(|error| Failure::usage(error.to_string()))?;
    let answer = patiently(|| imds.approve(&body, FIRST_TIMEOUT)).map_err(|failure| unreachable(&imds, &failure))?;
    let record = Record::Approval { event_ids: options.ids.clone(), status: Some(answer.status) };
    let done = (200..300).contains(&answer.status);
    if options.output.json {
        look::say_record(&record);
    } else if done {
        for id in &options.ids {
            look::say(&format!("{GOOD}approved{GOOD:#}  {}\n", shown(id)));
        }
    }
    if done { Ok(()) } else { Err(refused(&imds, &answer)) }
}

/// Does what may take two minutes, and says so when it begins to.
fn patiently<T>(request: impl FnOnce() -> T) -> T {
    let (done, waiting) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if waiting.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            look::diagnose("note", "no answer yet; the first request after a day's pause can take two minutes");
        }
    });
    let result = request();
    drop(done);
    result
}

fn unreachable(imds: &Imds, failure: &imds::Failure) -> Failure {
    Failure::endpoint(format!(
        "cannot reach {}: {} ({}); on a machine outside Azure try `scheduled-events demo`",
        imds.endpoint(),
        failure.cause,
        failure.detail
    ))
}

fn refused(imds: &Imds, answer: &Answer) -> Failure {
    let remark = imds::remark(answer);
    let colon = if remark.is_empty() { "" } else { ": " };
    Failure::endpoint(format!("{} refused with status {}{colon}{remark}", imds.endpoint(), answer.status))
}
