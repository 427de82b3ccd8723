//! Shared by all commands that send requests of their own to the metadata service.
//!
//! `automatic` finds the service for `--endpoint auto`, in the `leases` of DHCP clients.

pub(crate) mod automatic;
pub(crate) mod leases;

use std::fmt;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use scheduled_events_core::wire::ADVICE_API_VERSION;
use scheduled_events_core::{Cause, Document, EventKind, StartRequests, limits};

use crate::api_version::type_warning;
use crate::args::{ENDPOINT_VARIABLE, ServiceArgs};
use crate::error::CommandError;
use crate::output::diagnose;
use automatic::{AUTO, automatic};
use scheduled_events::imds::{self, HttpResponse, Imds, ImdsError};

/// The first request enables the service for this machine, which takes up to two minutes.
const FIRST_TIMEOUT: Duration = Duration::from_millis(limits::FIRST_TIMEOUT_MS as u64);

/// An approval follows a document, so the service is enabled.
const POST_TIMEOUT: Duration = Duration::from_millis(limits::TIMEOUT_MS as u64);

/// How long a request takes before the command explains the delay.
const EXPLAIN_AFTER: Duration = Duration::from_secs(3);

pub(crate) fn connect(args: &ServiceArgs) -> Result<Imds, CommandError> {
    // A variable that is set to the empty string counts as unset.
    let is_unset = args.endpoint.is_empty() && std::env::var_os(ENDPOINT_VARIABLE).is_some();
    let endpoint = if is_unset {
        imds::ENDPOINT
    } else {
        &args.endpoint
    };
    let (endpoint, is_allowed) = if endpoint == AUTO {
        automatic()
    } else {
        (endpoint.to_owned(), false)
    };
    let is_allowed = is_allowed || args.allow_endpoint;
    Imds::new(&endpoint, &args.api_version, is_allowed).map_err(|error| match error {
        ImdsError::NotLocal { .. } => {
            CommandError::usage(format!("{error}; --allow-endpoint accepts it"))
        }
        _ => CommandError::usage(error),
    })
}

/// Warns if the API version leaves out events of these types; an empty list means any type.
pub(crate) fn warn_of_missing_types(types: &[EventKind], service: &ServiceArgs) {
    if let Some(warning) = type_warning(types, &service.api_version) {
        diagnose("warning", &warning);
    }
}

/// Polls once in the version that shows advice, and once more in another one if that brings no
/// document: most services do not have it.
pub(crate) fn request_with_advice(imds: &Imds) -> Result<HttpResponse, CommandError> {
    let answer = patiently(|| imds.events_in(ADVICE_API_VERSION, FIRST_TIMEOUT))
        .map_err(|failure| unreachable(imds, &failure))?;
    if answer.status == 200 && Document::parse(&answer.body).is_ok() {
        return Ok(answer);
    }
    request_document(imds)
}

/// Polls once. The answer has a body, which need not be a document.
pub(crate) fn request_document(imds: &Imds) -> Result<HttpResponse, CommandError> {
    let answer =
        patiently(|| imds.events(FIRST_TIMEOUT)).map_err(|failure| unreachable(imds, &failure))?;
    if answer.status != 200 {
        return Err(refused(imds, &answer));
    }
    if answer.body.trim_ascii().is_empty() {
        return Err(CommandError::endpoint(format!(
            "{} sent an empty body instead of a document; try again in a minute",
            imds.endpoint()
        )));
    }
    Ok(answer)
}

/// Parses the body of a poll.
pub(crate) fn parse<'a>(imds: &Imds, body: &'a [u8]) -> Result<Document<'a>, CommandError> {
    Document::parse(body).map_err(|error| {
        let position = error.position(body);
        CommandError::document(format!(
            "{}:{position}: {}",
            imds.endpoint(),
            error.message()
        ))
    })
}

/// Posts the approval of these events.
pub(crate) fn post(imds: &Imds, event_ids: &[&str]) -> Result<HttpResponse, CommandError> {
    let approval = StartRequests::new(event_ids);
    let mut body = vec![0; approval.len()];
    approval
        .write(&mut body)
        .map_err(|error| CommandError::usage(error.to_string()))?;
    imds.approve(&body, POST_TIMEOUT).map_err(|failure| match failure.cause {
        Cause::Unreachable => unreachable(imds, &failure),
        cause => CommandError::endpoint(format!(
            "no answer to the approval from {}: {cause} ({}); it may have arrived: see `scheduled-events list`",
            imds.endpoint(),
            failure.detail
        )),
    })
}

/// The error that this machine's name is unknown, with the reason.
pub(crate) fn name_unknown(why: &dyn fmt::Display, advice: &str) -> CommandError {
    CommandError::endpoint(format!("{}; {advice}", imds::name_unknown(why)))
}

/// Sends a request that may take two minutes, and explains the delay if it does.
pub(crate) fn patiently<T>(request: impl FnOnce() -> T) -> T {
    let (done, waiting) = mpsc::channel::<()>();
    // Without a thread, the delay stays unexplained.
    let _ = thread::Builder::new().spawn(move || {
        if waiting.recv_timeout(EXPLAIN_AFTER) == Err(RecvTimeoutError::Timeout) {
            diagnose(
                "note",
                "no answer yet; the first request in 24 hours can take two minutes",
            );
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

pub(crate) fn refused(imds: &Imds, answer: &HttpResponse) -> CommandError {
    let remark = answer.error_message("--api-version");
    let colon = if remark.is_empty() { "" } else { ": " };
    CommandError::endpoint(format!(
        "{} refused with status {}{colon}{remark}",
        imds.endpoint(),
        answer.status
    ))
}
