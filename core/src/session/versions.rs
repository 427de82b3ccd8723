//! Which version of the API each request names.
//!
//! Advice exists only in a version that is a preview. So a session asks for that version only if something needs it, and goes on with
//! the version that every service knows as soon as an answer is no document.

use super::limits::{
    ADVICE_UNSEEN_MAX_MS, API_VERSION_MAX, VERSION_MISSES_MAX, VERSION_PAUSE_MS, VERSION_RETRY_MS,
};
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
    /// [`API_VERSION`], and [`ADVICE_API_VERSION`] for polls if a rule of the policy names advice. After any answer to that
    /// without a document, and after none, the next request, at once, has [`API_VERSION`] (after 429, which holds for both, once
    /// its pause is over), and so have all others until one brings a document. Where the service does not know the newer version
    /// (400, 404, and it never brought a document), that is tried again once a day.
    /// If [`API_VERSION`] alone is answered with a document [`VERSION_MISSES_MAX`] times in a row, the newer version pauses: for
    /// [`VERSION_PAUSE_MS`], then twice as long each time, up to a day. After [`ADVICE_UNSEEN_MAX_MS`] advice that was announced
    /// counts as withdrawn, and after [`VERSION_PAUSE_MS`] if all these requests were refused.
    #[default]
    Auto,
    /// As [`Auto`](Self::Auto) with a rule that names advice: the host needs it.
    Advice,
    /// This one, whatever the answers: at most [`API_VERSION_MAX`] bytes.
    Fixed(&'a str),
}

/// The versions of a session's requests.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // They are independent of each other.
pub(super) struct Versions {
    /// Empty if the session chooses.
    pub(super) fixed: heapless::String<API_VERSION_MAX, u8>,
    /// Whether the host needs advice.
    pub(super) needs_advice: bool,
    /// Whether the preview ever brought a document, in this run or before the snapshot that was restored.
    pub(super) has_worked: bool,
    preview: Preview,
    first: FirstPoll,
    /// How often in a row the preview brought no document, and the other version did. At most [`VERSION_UNKNOWN`], which says that
    /// the service does not know the preview.
    misses: u8,
    /// When the first of these misses was: in this run or in an earlier one.
    missing_since: Option<UnixMillis>,
    /// Whether all of them were refusals.
    only_refused: bool,
    /// Whether documents of the other version count as whole: after so long without the preview, advice that they lack has ended.
    is_whole: bool,
    last: LastPoll,
    report: Refusal,
}

/// So many misses are those of a version that the service does not know.
const VERSION_UNKNOWN: u8 = u8::MAX;

/// What is known of the version that has advice.
#[derive(Clone, Copy, Debug, Default)]
enum Preview {
    /// The next poll has it.
    #[default]
    Next,
    /// Polls have the other version until that brings a document, since the answer to this one was none: a version that is not
    /// answered must not take the time of the one that is refused just now.
    Skipped,
    /// It brought no document before a restart, or was not answered before the process was killed: one document of the other version
    /// comes first, so that a process which is killed again and again has one.
    Resumed,
    /// It never worked and was refused: the answer to the other version decides whether that was the reason.
    Refused,
    /// The other version was refused, too: the preview is tried again once that one brings a document.
    Doubtful,
    /// It is tried again after a pause.
    Paused { since: UnixMillis },
}

/// The first poll of the preview since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FirstPoll {
    #[default]
    NotSent,
    /// It counts as missed until a document follows.
    Sent,
    Over,
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
    /// The next poll has another version, and is sent at once, unless the service limits the rate of all requests.
    PollAgain,
    /// From now on documents of the same bytes mean something else: they end the advice that they do not have.
    Anew,
}

impl Versions {
    /// Chooses the version of a poll; `wants_advice` is whether a rule names it.
    pub(super) fn choose(&mut self, wants_advice: bool, now: UnixMillis) {
        self.missing_since = self.missing_since.map(|since| since.min(now));
        if let Preview::Paused { since } = &mut self.preview {
            *since = (*since).min(now);
            let doublings = self.misses.saturating_sub(VERSION_MISSES_MAX).min(11);
            let pause = (VERSION_PAUSE_MS << doublings).min(VERSION_RETRY_MS);
            if now.millis_since(*since) >= u64::from(pause) {
                self.preview = Preview::Next;
            }
        }
        let wants = (wants_advice || self.needs_advice) && self.fixed.is_empty();
        self.last = match self.preview {
            _ if !wants => LastPoll::Wanted,
            Preview::Next => LastPoll::Preview,
            _ => LastPoll::Fallback,
        };
        if self.last == LastPoll::Preview && self.first == FirstPoll::NotSent {
            self.first = FirstPoll::Sent;
        }
    }

    /// What a snapshot has: since when the preview brings no document, and how many polls in a row that are. The first one counts as soon
    /// as it is sent: a session that continues from the snapshot has no answer to it.
    pub(super) fn unseen(&self) -> (Option<UnixMillis>, u8) {
        let sent = u8::from(self.first == FirstPoll::Sent);
        let misses = self.misses.saturating_add(sent).min(VERSION_MISSES_MAX);
        (self.missing_since, misses)
    }

    /// Continues from that; `None` if it cannot be.
    pub(super) fn resume(&mut self, since: Option<UnixMillis>, misses: u8) -> Option<()> {
        if misses > VERSION_MISSES_MAX {
            return None;
        }
        (self.missing_since, self.misses) = (since, misses);
        if misses > 0 {
            self.preview = Preview::Resumed;
        }
        Some(())
    }

    /// Forgets everything but the configuration.
    pub(super) fn forget(&mut self) {
        *self = Self {
            fixed: core::mem::take(&mut self.fixed),
            needs_advice: self.needs_advice,
            ..Self::default()
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

    /// The version of an approval, and of a poll that is sent again beside the first one. Advice is never approved, so that none
    /// depends on the preview.
    pub(super) fn of_post(&self) -> &str {
        if self.fixed.is_empty() {
            API_VERSION
        } else {
            &self.fixed
        }
    }

    /// Whether the last poll asked for the preview: what its answer says about when to ask again does not hold for the other version.
    pub(super) fn asked_for_preview(&self) -> bool {
        self.last == LastPoll::Preview
    }

    /// Whether the last poll could have asked for the preview: the documents before the start may be of another version.
    pub(super) fn has_choice(&self) -> bool {
        self.last != LastPoll::Wanted
    }

    /// The last poll is answered in the version of its repetition.
    pub(super) fn repeat_answered(&mut self) {
        if self.last == LastPoll::Preview {
            self.last = LastPoll::Fallback;
            self.only_refused = false;
        }
    }

    /// Records the answer to the last poll.
    pub(super) fn answered(&mut self, answer: PollAnswer, now: UnixMillis) -> VersionOutcome {
        match self.last {
            LastPoll::Wanted => VersionOutcome::None,
            LastPoll::Preview => self.preview_answered(answer),
            LastPoll::Fallback => self.fallback_answered(answer == PollAnswer::Document, now),
        }
    }

    fn preview_answered(&mut self, answer: PollAnswer) -> VersionOutcome {
        if answer == PollAnswer::Document {
            let had_paused = self.misses >= VERSION_MISSES_MAX;
            (self.preview, self.misses) = (Preview::Next, 0);
            (self.first, self.missing_since) = (FirstPoll::Over, None);
            (self.has_worked, self.is_whole) = (true, false);
            return if had_paused {
                VersionOutcome::Anew
            } else {
                VersionOutcome::None
            };
        }
        let is_refused = answer == PollAnswer::Refused;
        self.only_refused = is_refused && (self.misses == 0 || self.only_refused);
        // A version that has worked is not unknown after one bad answer.
        self.preview = if is_refused && !self.has_worked {
            Preview::Refused
        } else {
            Preview::Skipped
        };
        VersionOutcome::PollAgain
    }

    fn fallback_answered(&mut self, is_document: bool, now: UnixMillis) -> VersionOutcome {
        if !is_document {
            self.preview = match self.preview {
                Preview::Refused | Preview::Doubtful => Preview::Doubtful,
                Preview::Paused { since } => Preview::Paused { since },
                Preview::Resumed => Preview::Resumed,
                Preview::Next | Preview::Skipped => Preview::Skipped,
            };
            return VersionOutcome::None;
        }
        let had_paused = self.misses >= VERSION_MISSES_MAX;
        let mut is_unknown = false;
        match self.preview {
            Preview::Paused { .. } => {}
            Preview::Doubtful => self.preview = Preview::Next,
            // It was counted before the restart.
            Preview::Resumed => {
                self.missing_since.get_or_insert(now);
                self.preview = Preview::Next;
            }
            Preview::Refused | Preview::Next | Preview::Skipped => {
                self.missing_since.get_or_insert(now);
                self.first = FirstPoll::Over;
                self.misses = self.misses.saturating_add(1);
                // A version that has worked was refused again after a pause.
                is_unknown = matches!(self.preview, Preview::Refused)
                    || self.only_refused && self.misses > VERSION_MISSES_MAX;
                if is_unknown {
                    self.misses = VERSION_UNKNOWN;
                    if self.report == Refusal::None {
                        self.report = Refusal::Unreported;
                    }
                }
                self.preview = if self.misses >= VERSION_MISSES_MAX {
                    Preview::Paused { since: now }
                } else {
                    Preview::Next
                };
            }
        }
        if self.misses < VERSION_MISSES_MAX {
            return VersionOutcome::None;
        }
        let was_whole = self.is_whole;
        let is_late = |since| now.millis_since(since) >= u64::from(ADVICE_UNSEEN_MAX_MS);
        self.is_whole |= is_unknown || self.missing_since.is_some_and(is_late);
        if had_paused && self.is_whole == was_whole {
            VersionOutcome::None
        } else {
            VersionOutcome::Anew
        }
    }

    /// Whether the last document does not end advice that it does not have.
    pub(super) fn keeps_advice(&self) -> bool {
        self.last == LastPoll::Fallback && !self.is_whole
    }

    /// Since when the preview brings no document, once it pauses.
    pub(super) fn advice_unseen_since(&self) -> Option<UnixMillis> {
        self.missing_since
            .filter(|_| self.misses >= VERSION_MISSES_MAX && self.has_choice())
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
