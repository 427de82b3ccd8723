//! Values in records that are not words of core already.

use core::fmt;

use serde::{Serialize, Serializer};

use crate::event::Resources;
use crate::json::Text;
use crate::session::{AnswerOutcome, Cause, GateAnswer, Preparation};
use crate::words::words;

/// The names of machines in a record: those of a document, or a list of the caller's.
///
/// ```
/// use scheduled_events_core::record::ResourceList;
///
/// let names = ResourceList::Names(&["web_0", "web_1"]);
/// assert!(names.iter().any(|name| name == "web_1"));
/// assert_eq!(serde_json::to_string(&names)?, r#"["web_0","web_1"]"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum ResourceList<'a> {
    /// From the document.
    Document(Resources<'a>),
    /// From the caller.
    Names(&'a [&'a str]),
}

impl<'a> ResourceList<'a> {
    /// The names, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Text<'a>> {
        let (document, names) = match self {
            Self::Document(resources) => (Some(resources.iter()), [].as_slice()),
            Self::Names(names) => (None, *names),
        };
        document
            .into_iter()
            .flatten()
            .chain(names.iter().map(|name| Text::plain(name)))
    }
}

impl Serialize for ResourceList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// The beginning of a preparation, or the result of a preparation or a recovery.
///
/// ```
/// use scheduled_events_core::record::HookOutcome;
///
/// assert_eq!(HookOutcome::TimedOut.word(), "timed-out");
/// assert_eq!(serde_json::to_string(&HookOutcome::TimedOut)?, r#""timed-out""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HookOutcome {
    /// The preparation begins.
    Begun,
    /// The preparation succeeded.
    Ready,
    /// The recovery succeeded.
    Done,
    /// It failed. A preparation is tried again as long as there is time.
    Failed,
    /// The preparation failed, and is not to be tried again.
    Abandoned,
    /// It took too long and was ended.
    TimedOut,
    /// It was ended because the program that ran it stops.
    Stopped,
    /// It was ended because it is not needed any more: the event is over or another one than before, or the machine has to
    /// stay out of service.
    Cancelled,
    /// There is nothing to run.
    NoCommand,
    /// Nothing was run: the watcher only reports.
    DryRun,
}

impl HookOutcome {
    /// What to report of a command with this outcome, after the session made `answer` of it: that it was cancelled if it does
    /// not count, and nothing if the session did not expect it.
    ///
    /// ```
    /// use scheduled_events_core::AnswerOutcome;
    /// use scheduled_events_core::record::HookOutcome;
    ///
    /// assert_eq!(HookOutcome::Ready.to_report(AnswerOutcome::Accepted), Some(HookOutcome::Ready));
    /// assert_eq!(HookOutcome::Ready.to_report(AnswerOutcome::Cancelled), Some(HookOutcome::Cancelled));
    /// assert_eq!(HookOutcome::Ready.to_report(AnswerOutcome::Unexpected), None);
    /// ```
    pub const fn to_report(self, answer: AnswerOutcome) -> Option<Self> {
        match answer {
            AnswerOutcome::Accepted => Some(self),
            AnswerOutcome::Cancelled => Some(Self::Cancelled),
            AnswerOutcome::Unexpected => None,
        }
    }

    /// What a session is answered about a preparation with this outcome.
    ///
    /// ```
    /// use scheduled_events_core::Preparation;
    /// use scheduled_events_core::record::HookOutcome;
    ///
    /// assert_eq!(HookOutcome::Ready.preparation(), Preparation::Ready);
    /// assert_eq!(HookOutcome::TimedOut.preparation(), Preparation::Failed);
    /// assert_eq!(HookOutcome::NoCommand.preparation(), Preparation::Abandoned);
    /// ```
    pub const fn preparation(self) -> Preparation {
        match self {
            Self::Ready => Preparation::Ready,
            Self::Abandoned | Self::NoCommand | Self::DryRun => Preparation::Abandoned,
            _ => Preparation::Failed,
        }
    }

    /// Whether a machine is back in service after a recovery with this outcome: it is if there was nothing to run.
    ///
    /// ```
    /// use scheduled_events_core::record::HookOutcome;
    ///
    /// assert!(HookOutcome::NoCommand.has_recovered() && !HookOutcome::TimedOut.has_recovered());
    /// ```
    pub const fn has_recovered(self) -> bool {
        matches!(self, Self::Done | Self::NoCommand | Self::DryRun)
    }
}

words!(HookOutcome {
    Begun => "begun",
    Ready => "ready",
    Done => "done",
    Failed => "failed",
    Abandoned => "abandoned",
    TimedOut => "timed-out",
    Stopped => "stopped",
    Cancelled => "cancelled",
    NoCommand => "no-command",
    DryRun => "dry-run",
});

/// The gate's answer as records have it, or the last call.
///
/// ```
/// use scheduled_events_core::GateAnswer;
/// use scheduled_events_core::record::GateOutcome;
///
/// assert_eq!(GateOutcome::LastCall.word(), "last-call");
/// assert_eq!(GateOutcome::from(GateAnswer::AnotherApproves).word(), GateAnswer::AnotherApproves.word());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GateOutcome {
    /// The gate answered yes.
    Open,
    /// Another machine approves the event for this one too.
    AnotherApproves,
    /// The gate answered not yet.
    Closed,
    /// The gate has not answered yes, and the preparation cannot wait any longer.
    LastCall,
}

words!(GateOutcome {
    Open => "open",
    AnotherApproves => "another-approves",
    Closed => "closed",
    LastCall => "last-call",
});

impl From<GateAnswer> for GateOutcome {
    fn from(answer: GateAnswer) -> Self {
        match answer {
            GateAnswer::Open => Self::Open,
            GateAnswer::AnotherApproves => Self::AnotherApproves,
            GateAnswer::Closed => Self::Closed,
        }
    }
}

/// The cause of a failed poll as records spell it, with the status: `timeout`, `status-503`.
///
/// ```
/// use scheduled_events_core::Cause;
/// use scheduled_events_core::record::CauseWord;
///
/// assert_eq!(CauseWord(Cause::Status(503)).to_string(), "status-503");
/// assert_eq!(CauseWord(Cause::Timeout).to_string(), "timeout");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CauseWord(pub Cause);

impl fmt::Display for CauseWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Cause::Status(status) | Cause::Redirect(status) => {
                write!(f, "{}-{status}", self.0.word())
            }
            _ => f.write_str(self.0.word()),
        }
    }
}

impl Serialize for CauseWord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
