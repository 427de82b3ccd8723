//! The reports of a server: the requests that it received, and the course of the scenario.

use std::collections::HashSet;
use std::fmt;
use std::time::{Instant, SystemTime};

use crate::timeline::document::TransitionKind;
use crate::verdict::Finding;

/// A request that a server received.
///
/// ```
/// use scheduled_events_replay::{Scenario, Server, ServerConfig};
///
/// let server = Server::start(ServerConfig::new(Scenario::builtin("preempt").ok_or("a built-in name")?))?;
/// let events = format!("{}/metadata/scheduledevents?api-version=2020-07-01", server.url());
/// ureq::get(&events).header("Metadata", "true").call()?;
/// let requests = server.requests();
/// assert_eq!((requests[0].method.as_str(), requests[0].status), ("GET", Some(200)));
/// assert!(requests[0].headers.iter().any(|(name, value)| name.eq_ignore_ascii_case("metadata") && value == "true"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// The number of the machine whose address received it, from 0: an index of
    /// [`Server::machines`](crate::Server::machines). A request to the control plane has the number
    /// after those.
    pub machine: usize,
    /// The method; empty for data that is not HTTP and for a request over a limit.
    pub method: String,
    /// Path and query, undecoded.
    pub target: String,
    /// The header fields, in their order.
    pub headers: Vec<(String, String)>,
    /// The body, with chunks joined.
    pub body: Vec<u8>,
    /// When the request was complete.
    pub arrived: Instant,
    /// The status of the response; `None` if a fault suppressed it.
    pub status: Option<u16>,
}

/// An event of a replay. `Display` writes it as a line of a log.
///
/// ```
/// use std::sync::mpsc;
///
/// use scheduled_events_replay::{ReplayEvent, Scenario, Server, ServerConfig};
///
/// let (sender, events) = mpsc::channel();
/// let scenario = Scenario::builtin("preempt").ok_or("a built-in name")?;
/// let server = Server::start(ServerConfig::new(scenario).observer(sender))?;
/// let url = format!("{}/metadata/scheduledevents?api-version=2020-07-01", server.url());
/// ureq::get(&url).header("Metadata", "true").call()?;
/// assert!(events.iter().any(|event| matches!(event, ReplayEvent::ScenarioStarted)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayEvent {
    /// A request was answered, or a fault suppressed the response.
    Answered {
        /// The number of the machine whose address received the request, from 0.
        machine: usize,
        /// The method.
        method: String,
        /// Path and query.
        target: String,
        /// The `EventIds` that an approval names.
        approves: Vec<String>,
        /// The status; `None` if a fault suppressed the response.
        status: Option<u16>,
        /// The faults that applied, as written.
        faults: Vec<String>,
    },
    /// A request to the control plane was answered, or a fault suppressed the response.
    ControlPlane {
        /// The method.
        method: String,
        /// Path and query.
        target: String,
        /// The status; `None` if a fault suppressed the response.
        status: Option<u16>,
        /// The faults that applied, as written.
        faults: Vec<String>,
    },
    /// A message of Event Grid was delivered to the queue, or was not.
    Message {
        /// `EventId`.
        event_id: String,
        /// `EventStatus`.
        event_status: &'static str,
        /// Why it was not delivered. The server tries again, unless a fault has lost it.
        failure: Option<String>,
        /// The faults that apply, as written.
        faults: Vec<String>,
    },
    /// The scenario starts: the first document or the first query of Resource Graph was requested,
    /// or a queue is filled.
    ScenarioStarted,
    /// An event appeared, was approved, changed or ended.
    Event {
        /// The change.
        change: TransitionKind,
        /// `EventId`.
        event_id: String,
        /// `EventType`.
        event_type: String,
        /// `Resources`.
        resources: Vec<String>,
        /// Whether the event is Started, or was before it ended.
        started: bool,
        /// Whether it is advice, which never starts.
        is_advice: bool,
        /// `NotBefore`, unless Started, and not of advice.
        not_before: Option<SystemTime>,
        /// The incarnation of the first document that shows the change.
        incarnation: u64,
    },
    /// The incarnation started again.
    IncarnationReset {
        /// The new incarnation.
        incarnation: u64,
    },
    /// A client broke a rule of the wire contract.
    Finding {
        /// The number of the client's machine, from 0.
        machine: usize,
        /// The broken rule, with the details.
        finding: Finding,
    },
    /// Every event of the scenario has ended.
    Finished,
}

impl fmt::Display for ReplayEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered {
                method,
                target,
                status,
                faults,
                ..
            }
            | Self::ControlPlane {
                method,
                target,
                status,
                faults,
            } => {
                if method.is_empty() {
                    f.write_str("malformed request")?;
                } else {
                    write!(f, "{method} {target}")?;
                }
                match status {
                    Some(status) => write!(f, " -> {status}")?,
                    None => f.write_str(" -> no response")?,
                }
                write_faults(f, faults)
            }
            Self::Message {
                event_id,
                event_status,
                failure,
                faults,
            } => {
                write!(f, "message {event_status} of {event_id} ")?;
                match failure {
                    None => f.write_str("is delivered")?,
                    Some(why) => write!(f, "is not delivered: {why}")?,
                }
                write_faults(f, faults)
            }
            Self::ScenarioStarted => f.write_str("the scenario starts"),
            Self::Event {
                change,
                event_id,
                event_type,
                resources,
                started,
                is_advice,
                not_before,
                ..
            } => {
                write!(f, "{event_type} {event_id} of {} ", summary(resources))?;
                f.write_str(match change {
                    TransitionKind::Appeared if *started => "appears, Started without notice",
                    TransitionKind::Appeared if *is_advice => "appears, as advice",
                    TransitionKind::Appeared => "appears, Scheduled",
                    TransitionKind::Approved => "is approved",
                    TransitionKind::Rescheduled => "is rescheduled",
                    TransitionKind::Started => "is Started",
                    TransitionKind::Cancelled if *is_advice => "is withdrawn",
                    TransitionKind::Cancelled => "is cancelled",
                    TransitionKind::Gone => "has ended",
                })?;
                match (change, not_before) {
                    (TransitionKind::Appeared | TransitionKind::Rescheduled, Some(time)) => {
                        write!(f, ", not before {}", httpdate::fmt_http_date(*time))
                    }
                    _ => Ok(()),
                }
            }
            Self::IncarnationReset { incarnation } => {
                write!(f, "the incarnation starts again at {incarnation}")
            }
            Self::Finding { finding, .. } => write!(f, "finding: {finding}"),
            Self::Finished => f.write_str("the scenario is over: every event has ended"),
        }
    }
}

fn write_faults(f: &mut fmt::Formatter<'_>, faults: &[String]) -> fmt::Result {
    if faults.is_empty() {
        Ok(())
    } else {
        write!(f, " (fault: {})", faults.join(", "))
    }
}

/// Names one or two resources, or one and the number of the others.
fn summary(resources: &[String]) -> String {
    // A machine that is named twice is one machine.
    let mut seen = HashSet::new();
    let resources: Vec<_> = resources
        .iter()
        .filter(|name| seen.insert(name.to_ascii_lowercase()))
        .collect();
    match &resources[..] {
        [] => "no VM".to_owned(),
        [one] => (*one).clone(),
        [one, two] => format!("{one} and {two}"),
        [one, rest @ ..] => format!("{one} and {} more", rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(change: TransitionKind, resources: &[&str]) -> String {
        let event = ReplayEvent::Event {
            change,
            event_id: "ID".into(),
            event_type: "Freeze".into(),
            resources: resources.iter().map(|name| (*name).to_owned()).collect(),
            started: false,
            is_advice: false,
            not_before: Some(SystemTime::UNIX_EPOCH),
            incarnation: 2,
        };
        event.to_string()
    }

    #[test]
    fn displays_an_event() {
        assert_eq!(
            event(TransitionKind::Approved, &["a", "A"]),
            "Freeze ID of a is approved"
        );
        assert_eq!(
            event(TransitionKind::Appeared, &["a", "b"]),
            "Freeze ID of a and b appears, Scheduled, not before Thu, 01 Jan 1970 00:00:00 GMT"
        );
        assert_eq!(
            event(TransitionKind::Gone, &["a", "b", "c"]),
            "Freeze ID of a and 2 more has ended"
        );
        assert_eq!(
            event(TransitionKind::Approved, &[]),
            "Freeze ID of no VM is approved"
        );
    }

    #[test]
    fn displays_a_request() {
        let answered = |method: &str, status, faults: &[&str]| {
            let faults = faults.iter().map(|fault| (*fault).to_owned()).collect();
            let (machine, approves) = (0, Vec::new());
            let (method, target) = (method.into(), "/x".into());
            ReplayEvent::Answered {
                machine,
                method,
                target,
                approves,
                status,
                faults,
            }
            .to_string()
        };
        assert_eq!(
            answered("GET", None, &["reset"]),
            "GET /x -> no response (fault: reset)"
        );
        assert_eq!(answered("POST", Some(200), &[]), "POST /x -> 200");
        assert_eq!(answered("", Some(400), &[]), "malformed request -> 400");
    }
}
