//! `wait`: polls until an event that matches and is not over is announced, for shell scripts.

use std::thread;
use std::time::{Duration, Instant};

use scheduled_events_core::wire::ADVICE_API_VERSION;
use scheduled_events_core::{
    ApiVersion, Cause, Document, EventKind, ProblemKind, Report, RequestOutcome, Response, Session,
    SessionConfig, SessionConfigError, Step, VmNames,
};

use crate::args::WaitArgs;
use crate::endpoint::{connect, name_unknown, patiently, time_of_day_by, warn_of_missing_types};
use crate::error::CommandError;
use crate::event_filter::EventFilter;
use crate::look::document::Listing;
use crate::output::diagnose;
use crate::output::format::duration;
use scheduled_events::clock::Clock;
use scheduled_events::imds::{AUTO_API_VERSION, HttpResponse, Imds, names_for};
use scheduled_events::limits::{BLIND_AFTER, EVENTS_MAX, NAME_TIMEOUT};
use scheduled_events::watch::{Note, Poller};

/// The shortest timeout of a request at the end of the waiting time.
const REQUEST_MIN: Duration = Duration::from_millis(100);

pub(crate) fn wait(args: &WaitArgs) -> Result<(), CommandError> {
    let imds = connect(&args.service)?;
    warn_of_missing_types(&args.types, &args.service);
    let filter = EventFilter {
        mine: args.mine,
        types: args.types.clone(),
        ongoing: true,
    };
    let end = args
        .timeout
        .and_then(|timeout| Instant::now().checked_add(timeout));
    let left = || {
        end.map_or(Duration::MAX, |end| {
            end.saturating_duration_since(Instant::now())
        })
    };
    let mut machine = Machine {
        names: args.machine.vm_name.clone(),
        reported: String::new(),
        args,
    };
    let mut pace = pacing_session(args).map_err(|error| CommandError::usage(error.to_string()))?;
    let clock = Clock::start();
    let mut poller = Poller::new(&imds);
    let (mut answered, mut last_failure) = (false, String::new());
    let mut no_advice_said = false;
    let mut sight = Sight::new();
    loop {
        match pace.take_step(clock.now()) {
            Step::Get {
                api_version,
                timeout_ms,
            } => {
                let timeout = Duration::from_millis(timeout_ms.into())
                    .min(left())
                    .max(REQUEST_MIN);
                let mut version = api_version.to_owned();
                let repeat_version = pace.repeat_version().to_owned();
                let reply = patiently(&mut poller, &version, &repeat_version, timeout, &mut |_| {
                    sight.check(&last_failure);
                });
                if reply.repeated {
                    pace.repeat_answered();
                    version = repeat_version;
                }
                let (outcome, detail) = match reply.answer {
                    Ok(answer) => {
                        if answer.status == 200
                            && let Ok(document) = Document::parse(&answer.body)
                            && machine.has_match(
                                &document,
                                &filter,
                                &imds,
                                NAME_TIMEOUT.min(left()).max(REQUEST_MIN),
                            )
                        {
                            return machine.print(&document, &answer, filter);
                        }
                        let (status, retry_after) = (answer.status, answer.retry_after);
                        let outcome = pace.on_response(
                            &Response {
                                status,
                                retry_after,
                                body: &answer.body,
                            },
                            clock.now(),
                        );
                        (outcome, answer.refusal().unwrap_or_default())
                    }
                    Err(failure) => (pace.on_failure(failure.cause, clock.now()), failure.detail),
                };
                let is_refused = version == ADVICE_API_VERSION
                    && args.service.api_version == AUTO_API_VERSION
                    && matches!(
                        outcome,
                        RequestOutcome::PollFailed {
                            cause: Cause::Status(400 | 404),
                            ..
                        }
                    );
                if is_refused {
                    // The session asks for an older version at once, and reports it.
                } else if let RequestOutcome::PollFailed { cause, retry_in_ms } = outcome {
                    let detail = if detail.is_empty() {
                        detail
                    } else {
                        format!(" ({detail})")
                    };
                    last_failure = format!("{cause}{detail}");
                    sight.failed_polls += 1;
                    let next = duration(retry_in_ms.div_ceil(1000).into());
                    if !left().is_zero() {
                        diagnose(
                            "warning",
                            &format!("poll failed: {last_failure}; next poll in {next}"),
                        );
                    }
                } else {
                    answered = true;
                    sight.on_document();
                }
                sight.check(&last_failure);
            }
            Step::Wait { until } => {
                if !no_advice_said && pace.advice_unseen_since().is_some() {
                    no_advice_said = true;
                    diagnose("warning", &Note::AdviceUnseen.to_string());
                }
                thread::sleep(Duration::from_millis(until.millis_since(clock.now())).min(left()));
            }
            Step::Report(report @ Report::NoAdvice) => {
                no_advice_said = true;
                diagnose("warning", &report.to_string());
            }
            // The session only observes, so there is nothing to prepare, to approve or to recover
            // from.
            _ => {}
        }
        if left().is_zero() {
            let time = args.timeout.map_or(String::new(), |time| {
                format!(" within {}", humantime::format_duration(time))
            });
            return Err(if !answered {
                let endpoint = imds.endpoint();
                let text = format!(
                    "no poll of {endpoint} was answered with a document{time}; the last failure: {last_failure}"
                );
                CommandError::endpoint(text)
            } else if let Some(why) = machine.name_missing(&filter) {
                let text = format!(
                    "an event was announced{time}, but whether it is this machine's is unknown"
                );
                CommandError::endpoint(format!(
                    "{text}: {}",
                    name_unknown(&why, "use --vm-name NAME").message
                ))
            } else if let Some(dark) = sight.dark() {
                CommandError::endpoint(format!(
                    "whether an event{} was announced{time} is unknown: no poll was answered with a document for {}; the last failure: {last_failure}",
                    filter.describe(),
                    duration(dark.as_secs())
                ))
            } else {
                CommandError::time_over(format!(
                    "no event{} was announced{time}",
                    filter.describe()
                ))
            });
        }
    }
}

/// Whether documents arrive.
struct Sight {
    /// When the last one did, or the waiting began.
    since: Instant,
    failed_polls: u32,
    is_blind: bool,
}

impl Sight {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            failed_polls: 0,
            is_blind: false,
        }
    }

    fn on_document(&mut self) {
        if self.is_blind {
            diagnose(
                "note",
                &Note::SeesAgain {
                    after: self.since.elapsed(),
                }
                .to_string(),
            );
        }
        *self = Self::new();
    }

    /// Reports once that no document arrives.
    fn check(&mut self, last_failure: &str) {
        if self.is_blind {
            return;
        }
        if let Some(after) = self.dark() {
            self.is_blind = true;
            let note = Note::Blind {
                after,
                failed_polls: self.failed_polls,
                cause: Some(last_failure.to_owned()).filter(|cause| !cause.is_empty()),
            };
            diagnose("warning", &note.to_string());
        }
    }

    /// For how long none has arrived, if that is too long.
    fn dark(&self) -> Option<Duration> {
        Some(self.since.elapsed()).filter(|dark| *dark >= BLIND_AFTER)
    }
}

/// A session that paces the polls. Its capacity is that of a watcher, since another one would
/// compile its code a second time.
// It is large, and inlining would take this space on the caller's stack for every command.
#[inline(never)]
fn pacing_session(args: &WaitArgs) -> Result<Box<Session<EVENTS_MAX>>, SessionConfigError> {
    let advice = EventKind::SpotRebalanceRecommendation;
    Session::new(&SessionConfig {
        dry_run: true,
        api_version: match args.service.api_version.as_str() {
            AUTO_API_VERSION if args.types.contains(&advice) => ApiVersion::Advice,
            AUTO_API_VERSION => ApiVersion::Auto,
            version => ApiVersion::Fixed(version),
        },
        ..SessionConfig::new(VmNames::UNKNOWN)
    })
    .map(Box::new)
}

/// Whether two events of the document have one id.
fn repeats_an_id(document: &Document<'_>) -> bool {
    document
        .problems()
        .any(|problem| problem.kind == ProblemKind::Repeated)
}

/// This machine's names: those of the options, or otherwise the one that the metadata service
/// returns when it is needed.
struct Machine<'a> {
    names: Vec<String>,
    /// The last reported reason why the name is unknown.
    reported: String,
    args: &'a WaitArgs,
}

impl Machine<'_> {
    /// Whether the document has an event that matches. Requests this machine's name if it is
    /// unknown and there is an event.
    fn has_match(
        &mut self,
        document: &Document<'_>,
        filter: &EventFilter,
        imds: &Imds,
        timeout: Duration,
    ) -> bool {
        let mut events = document.events();
        // An event of this machine can have the id of another one, which hides it while the name is unknown.
        if !events.any(|event| filter.matches_document(&event)) && !repeats_an_id(document) {
            return false;
        }
        if self.names.is_empty() {
            match imds.vm_name(timeout) {
                Ok(name) => self.names.push(name),
                // Reported once, not with each poll.
                Err(why) if why.to_string() != self.reported => {
                    let advice = if filter.mine {
                        "use --vm-name NAME"
                    } else {
                        "use --vm-name NAME to mark its events"
                    };
                    diagnose("warning", &name_unknown(&why, advice).message);
                    self.reported = why.to_string();
                }
                Err(_) => {}
            }
        }
        let names: Vec<_> = self.names.iter().map(String::as_str).collect();
        let names = names_for(&names, &self.args.service.api_version);
        document
            .events_for(names)
            .any(|event| filter.matches(&event, names))
    }

    /// Why this machine's name is unknown, if no event matches for this reason.
    fn name_missing(&self, filter: &EventFilter) -> Option<&str> {
        let is_missing = filter.mine && self.names.is_empty() && !self.reported.is_empty();
        is_missing.then_some(self.reported.as_str())
    }

    fn print(
        &self,
        document: &Document<'_>,
        answer: &HttpResponse,
        filter: EventFilter,
    ) -> Result<(), CommandError> {
        let names: Vec<_> = self.names.iter().map(String::as_str).collect();
        let names = names_for(&names, &self.args.service.api_version);
        Listing {
            document,
            body: &answer.body,
            names,
            now: time_of_day_by(answer.date),
            decisions: None,
            filter,
        }
        .print(self.args.output.json)
    }
}
