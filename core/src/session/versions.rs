//! Which version of the API each request names.
//!
//! Advice exists only in a version that is a preview. So a session asks for that version only if something needs it, and goes on with
//! the version that every service knows as soon as an answer is no document.

use super::limits::{API_VERSION_MAX, VERSION_RETRY_MS};
use crate::time::UnixMillis;
use crate::wire::{ADVICE_API_VERSION, API_VERSION};

/// Which version of the API the requests of a session name.
///
/// ```
/// use scheduled_events_core::{ApiVersion, Session, SessionConfig, Step, UnixMillis, VmNames};
///
/// let mut config = SessionConfig::new(VmNames::new(&["vm"]));
/// for (choice, expected) in [
///     (ApiVersion::Auto, "2020-07-01"), // no rule of the policy names advice
///     (ApiVersion::Advice, "2024-07-09"),
///     (ApiVersion::Fixed("2019-08-01"), "2019-08-01"),
/// ] {
///     config.api_version = choice;
///     let mut session = Session::<16>::new(&config)?;
///     assert!(matches!(session.take_step(UnixMillis(0)), Step::Get { api_version, .. } if api_version == expected));
/// }
/// # Ok::<(), scheduled_events_core::SessionConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApiVersion<'a> {
    /// [`API_VERSION`], and [`ADVICE_API_VERSION`] for polls if a rule of the policy names advice. Where the service does not
    /// know that version (400, 404), the next request, at once, has [`API_VERSION`], and the newer one is tried again once a
    /// day. After any other answer without a document, one request has [`API_VERSION`].
    #[default]
    Auto,
    /// As [`Auto`](Self::Auto) with a rule that names advice: the host needs it.
    Advice,
    /// This one, whatever the answers: at most [`API_VERSION_MAX`] bytes.
    Fixed(&'a str),
}

/// The versions of a session's requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Versions {
    /// Empty if the session chooses.
    pub(super) fixed: heapless::String<API_VERSION_MAX, u8>,
    /// Whether the host needs advice.
    pub(super) needs_advice: bool,
    preview: Preview,
    /// Whether the preview brought a document, and was not refused since.
    has_worked: bool,
    last: LastPoll,
    report: Refusal,
}

/// What is known of the version that has advice.
#[derive(Clone, Copy, Debug, Default)]
enum Preview {
    /// The next poll has it.
    #[default]
    Next,
    /// One poll has the other version, since the last answer was no document.
    Skipped,
    /// It was refused, and the answer to the other version decides whether that was the reason.
    Refused,
    /// The other version was refused, too: the preview is tried again once that one brings a document.
    Doubtful,
    /// The service does not know it, as it answered then.
    Unknown { since: UnixMillis },
}

/// What the last poll asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LastPoll {
    /// The version that is wanted.
    #[default]
    Wanted,
    Preview,
    /// The version without advice, though advice is wanted.
    Fallback,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Refusal {
    #[default]
    None,
    Unreported,
    Reported,
}

/// How a poll was answered, as far as the version is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PollAnswer {
    Document,
    /// Status 400 or 404: the service may not know the version.
    Refused,
    Other,
}

/// What follows for the session from an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionOutcome {
    /// Nothing.
    None,
    /// The next poll has another version, and is sent at once.
    PollAgain,
    /// The document has no advice, although there may be some.
    WithoutAdvice,
    /// From now on documents have no advice.
    AdviceEnds,
}

impl Versions {
    /// Chooses the version of a poll; `wants_advice` is whether a rule names it.
    pub(super) fn choose(&mut self, wants_advice: bool, now: UnixMillis) {
        if let Preview::Unknown { since } = &mut self.preview {
            *since = (*since).min(now);
            if now.millis_since(*since) >= u64::from(VERSION_RETRY_MS) {
                self.preview = Preview::Next;
            }
        }
        let wants = (wants_advice || self.needs_advice) && self.fixed.is_empty();
        self.last = match self.preview {
            Preview::Next if wants => LastPoll::Preview,
            Preview::Skipped | Preview::Refused | Preview::Doubtful if wants => LastPoll::Fallback,
            _ => LastPoll::Wanted,
        };
    }

    /// The version of the poll that was chosen last.
    pub(super) fn of_poll(&self) -> &str {
        if self.last == LastPoll::Preview {
            ADVICE_API_VERSION
        } else {
            self.of_post()
        }
    }

    /// The version of an approval. Advice is never approved, so that none depends on the preview.
    pub(super) fn of_post(&self) -> &str {
        if self.fixed.is_empty() {
            API_VERSION
        } else {
            &self.fixed
        }
    }

    /// Records the answer to the last poll.
    pub(super) fn answered(&mut self, answer: PollAnswer, now: UnixMillis) -> VersionOutcome {
        if self.last == LastPoll::Preview {
            let is_refused = answer == PollAnswer::Refused;
            self.preview = match answer {
                PollAnswer::Document => Preview::Next,
                // A version that has worked is not unknown after one bad answer.
                PollAnswer::Refused if !self.has_worked => Preview::Refused,
                _ => Preview::Skipped,
            };
            self.has_worked = answer == PollAnswer::Document || self.has_worked && !is_refused;
            return if is_refused {
                VersionOutcome::PollAgain
            } else {
                VersionOutcome::None
            };
        }
        if self.last == LastPoll::Wanted {
            return VersionOutcome::None;
        }
        let is_document = answer == PollAnswer::Document;
        (self.preview, self.report) = match (self.preview, self.report) {
            (Preview::Refused, report) if is_document => {
                let report = if report == Refusal::None {
                    Refusal::Unreported
                } else {
                    report
                };
                (Preview::Unknown { since: now }, report)
            }
            (Preview::Refused | Preview::Doubtful, report) if !is_document => {
                (Preview::Doubtful, report)
            }
            (_, report) => (Preview::Next, report),
        };
        match self.preview {
            Preview::Unknown { .. } => VersionOutcome::AdviceEnds,
            _ if is_document => VersionOutcome::WithoutAdvice,
            _ => VersionOutcome::None,
        }
    }

    /// Whether it is to be reported now that the service does not know the preview: once.
    pub(super) fn take_report(&mut self) -> bool {
        let is_due = self.report == Refusal::Unreported;
        if is_due {
            self.report = Refusal::Reported;
        }
        is_due
    }

    pub(super) fn has_report(&self) -> bool {
        self.report == Refusal::Unreported
    }
}
