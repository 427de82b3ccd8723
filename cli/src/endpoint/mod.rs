//! Shared by all commands that send requests of their own to the metadata service.
//!
//! `automatic` finds the service for `--endpoint auto`, in the `leases` of DHCP clients.

pub(crate) mod automatic;
pub(crate) mod leases;

use std::fmt;
use std::time::{Duration, SystemTime};

use scheduled_events_core::wire::{ADVICE_API_VERSION, API_VERSION};
use scheduled_events_core::{Cause, Document, EventKind, StartRequests, UnixSeconds, limits};

use crate::api_version::type_warning;
use crate::args::{ENDPOINT_VARIABLE, ServiceArgs};
use crate::error::CommandError;
use crate::output::diagnose;
use automatic::{AUTO, automatic};
use scheduled_events::clock;
use scheduled_events::imds::{self, HttpResponse, Imds, ImdsError};
use scheduled_events::limits::REPEAT_AFTER;
use scheduled_events::watch::{Note, Polled, Poller};

/// The first request enables the service for this machine, which takes up to two minutes.
pub(crate) const FIRST_TIMEOUT: Duration = Duration::from_millis(limits::FIRST_TIMEOUT_MS as u64);

/// An approval follows a document, so the service is enabled. It is posted once: whether one without an
/// answer arrived, `list` shows, and a second one beside it could only say less.
const POST_TIMEOUT: Duration = Duration::from_millis(limits::TIMEOUT_MS as u64);

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
    prepared(
        &endpoint,
        is_allowed || args.allow_endpoint,
        &args.api_version,
        "--allow-endpoint",
    )
}

/// What is wrong with an endpoint and a version of a configuration file, without a request.
pub(crate) fn check(
    endpoint: &str,
    is_allowed: bool,
    api_version: &str,
) -> Result<(), CommandError> {
    let endpoint = if endpoint == AUTO {
        imds::ENDPOINT
    } else {
        endpoint
    };
    prepared(endpoint, is_allowed, api_version, "`allow_endpoint = true`").map(|_| ())
}

fn prepared(
    endpoint: &str,
    is_allowed: bool,
    api_version: &str,
    allowing: &str,
) -> Result<Imds, CommandError> {
    let imds = if is_allowed {
        Imds::at_any_endpoint(endpoint)
    } else {
        Imds::new(endpoint)
    };
    let imds = imds.and_then(|imds| imds.with_api_version(api_version));
    imds.map_err(|error| match error {
        ImdsError::NotLocal { .. } => {
            CommandError::usage(format!("{error}; {allowing} accepts it"))
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
/// document: most services do not have it, and some may accept its requests and never answer.
pub(crate) fn request_with_advice(imds: &Imds) -> Result<HttpResponse, CommandError> {
    let mut poller = Poller::new(imds);
    let reply = patiently(
        &mut poller,
        ADVICE_API_VERSION,
        API_VERSION,
        FIRST_TIMEOUT,
        &mut |_| (),
    );
    // A failure in that version says nothing about the other one.
    if let Ok(answer) = reply.answer
        && answer.status == 200
        && Document::parse(&answer.body).is_ok()
    {
        if reply.repeated {
            let text = format!(
                "advice is not shown, if there is any: no answer in API version {ADVICE_API_VERSION}"
            );
            diagnose("warning", &text);
        }
        return Ok(answer);
    }
    request_with(imds, &mut poller)
}

/// Polls once. The answer has a body, which need not be a document.
pub(crate) fn request_document(imds: &Imds) -> Result<HttpResponse, CommandError> {
    request_with(imds, &mut Poller::new(imds))
}

fn request_with(imds: &Imds, poller: &mut Poller) -> Result<HttpResponse, CommandError> {
    let version = imds.api_version();
    let reply = patiently(poller, version, version, FIRST_TIMEOUT, &mut |_| ());
    let answer = reply
        .answer
        .map_err(|failure| unreachable(imds, &failure))?;
    accepted(imds, answer)
}

/// The answer, if it has status 200 and a body.
fn accepted(imds: &Imds, answer: HttpResponse) -> Result<HttpResponse, CommandError> {
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

/// The time of day by the `Date` of one answer. Says so if that is too far off to be believed.
pub(crate) fn time_of_day_by(date: Option<SystemTime>) -> UnixSeconds {
    if date.is_some_and(clock::is_doubtful) {
        diagnose(
            "warning",
            "the metadata service's clock and this machine's differ by more than a day; times are by this machine's",
        );
    }
    clock::time_of_day_by(date)
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

/// Polls as a watcher does: a request that may take two minutes is sent again beside the first one,
/// in `repeat_version`, and the delay is explained. `waiting` is called each second.
pub(crate) fn patiently(
    poller: &mut Poller,
    version: &str,
    repeat_version: &str,
    timeout: Duration,
    waiting: &mut dyn FnMut(Duration),
) -> Polled {
    let mut is_explained = false;
    poller.poll(version, repeat_version, timeout, &mut |waited| {
        if waited >= REPEAT_AFTER && timeout > REPEAT_AFTER && !is_explained {
            is_explained = true;
            diagnose("warning", &Note::NoAnswerYet.to_string());
        }
        waiting(waited);
    })
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
