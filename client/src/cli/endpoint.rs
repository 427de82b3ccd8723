//! `list` and `approve`: one request to the metadata service.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use scheduled_events_core::{Document, StartRequests, limits};

use super::args::{ApproveArgs, ENDPOINT_VARIABLE, ListArgs, ServiceArgs};
use super::document::Listing;
use super::error::CommandError;
use super::format::{GOOD, now, printable};
use super::output::{diagnose, print_progress, print_progress_record};
use crate::imds::{self, HttpResponse, Imds, name_unknown, names_for};
use crate::limits::NAME_TIMEOUT;
use crate::record::Record;

/// The first request enables the service for this machine, which takes up to two minutes.
const FIRST_TIMEOUT: Duration = Duration::from_millis(limits::FIRST_TIMEOUT_MS as u64);

/// How long a request takes before the command explains the delay.
const EXPLAIN_AFTER: Duration = Duration::from_secs(3);

pub(super) fn connect(args: &ServiceArgs) -> Result<Imds, CommandError> {
    // A variable that is set to the empty string counts as unset.
    let is_unset = args.endpoint.is_empty() && std::env::var_os(ENDPOINT_VARIABLE).is_some();
    let endpoint = if is_unset { imds::ENDPOINT } else { &args.endpoint };
    Imds::new(endpoint, &args.api_version, args.allow_endpoint).map_err(CommandError::usage)
}

pub(super) fn list(args: &ListArgs) -> Result<(), CommandError> {
    let imds = connect(&args.service)?;
    let mut names: Vec<String> = args.machine.vm_name.clone();
    let answer = patiently(|| imds.events(FIRST_TIMEOUT)).map_err(|failure| unreachable(&imds, &failure))?;
    if answer.status != 200 {
        return Err(refused(&imds, &answer));
    }
    if answer.body.trim_ascii().is_empty() {
        return Err(CommandError::endpoint(format!(
            "{} sent an empty body instead of a document; try again in a minute",
            imds.endpoint()
        )));
    }
    let document = Document::parse(&answer.body).map_err(|error| {
        let position = error.position(&answer.body);
        CommandError::document(format!("{}:{position}: {}", imds.endpoint(), error.message()))
    })?;
    if names.is_empty() && document.events().len() > 0 {
        match imds.vm_name(NAME_TIMEOUT) {
            Ok(name) => names.push(name),
            Err(why) => diagnose("warning", &format!("{}; use --vm-name NAME to mark its events", name_unknown(&why))),
        }
    }
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let names = names_for(&names, &args.service.api_version);
    Listing { document: &document, body: &answer.body, names, now: now(), decisions: None }.print(args.output.json)
}

pub(super) fn approve(args: &ApproveArgs) -> Result<(), CommandError> {
    if args.ids.iter().any(|id| id.trim().is_empty()) {
        return Err(CommandError::usage("an ID is empty; `scheduled-events list` shows the ids of events"));
    }
    let imds = connect(&args.service)?;
    let approval = StartRequests::new(&args.ids);
    let mut body = vec![0; approval.len()];
    approval.write(&mut body).map_err(|error| CommandError::usage(error.to_string()))?;
    let answer = patiently(|| imds.approve(&body, FIRST_TIMEOUT)).map_err(|failure| unreachable(&imds, &failure))?;
    let is_approved = (200..300).contains(&answer.status);
    if args.output.json {
        let event_ids: Vec<_> = args.ids.iter().map(String::as_str).collect();
        print_progress_record(&Record::Approval { event_ids: &event_ids, status: Some(answer.status) });
    } else if is_approved {
        for id in &args.ids {
            print_progress(&format!("{GOOD}approved{GOOD:#}  {}\n", printable(id)));
        }
    }
    if is_approved { Ok(()) } else { Err(refused(&imds, &answer)) }
}

/// Sends a request that may take two minutes, and explains the delay if it does.
fn patiently<T>(request: impl FnOnce() -> T) -> T {
    let (done, waiting) = mpsc::channel::<()>();
    // Without a thread the delay is not explained.
    let _ = thread::Builder::new().spawn(move || {
        if waiting.recv_timeout(EXPLAIN_AFTER) == Err(RecvTimeoutError::Timeout) {
            diagnose("note", "no answer yet; the first request in 24 hours can take two minutes");
        }
    });
    let result = request();
    drop(done);
    result
}

fn unreachable(imds: &Imds, failure: &imds::RequestFailure) -> CommandError {
    CommandError::endpoint(format!(
        "cannot reach {}: {} ({}); on a machine outside Azure try `scheduled-events demo`",
        imds.endpoint(),
        failure.cause,
        failure.detail
    ))
}

fn refused(imds: &Imds, answer: &HttpResponse) -> CommandError {
    let remark = answer.error_message();
    let colon = if remark.is_empty() { "" } else { ": " };
    CommandError::endpoint(format!("{} refused with status {}{colon}{remark}", imds.endpoint(), answer.status))
}
