//! Slots of this machine whose event is over although no record says so: the disk is new, the pod
//! was replaced, the audit file is gone, the watcher did not see the event, or the event no longer
//! names this machine.
//!
//! The daemon compares them with the machine's own document. It never gives slots back on a guess:
//! an event that names this machine in the document keeps its slots, and so does an event for which
//! this machine was out of service when the file was last written. A new file may have no record
//! yet because its watcher waits for its first document, so it counts after `return_within`.

use std::fmt;
use std::time::Duration;

use scheduled_events_core::{Document, ParseError, Resources};
use tokio::time::{sleep, timeout};

use super::{ANSWER_TIME, ASKED_AGAIN_WITHIN, Daemon, Source};
use scheduled_events_common::log;
use scheduled_events_common::metadata::{self, MetadataError};
use scheduled_events_common::names::Name;

/// The minimum time between the two documents: one may be older than the other.
const DOCUMENTS_APART: Duration = Duration::from_millis(2500);

/// Why the machine's own document cannot be read.
#[derive(Debug)]
pub(super) enum DocumentError {
    /// The metadata service at this address did not answer in time.
    Late(String),
    /// It refuses, or cannot be reached.
    Metadata(MetadataError),
    /// The document of the metadata service at this address is invalid.
    Invalid(String, ParseError),
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(endpoint) => {
                let seconds = ANSWER_TIME.as_secs();
                write!(f, "{endpoint} did not answer within {seconds} s")
            }
            Self::Metadata(error) => error.fmt(f),
            Self::Invalid(endpoint, error) => {
                write!(f, "{endpoint}: the document is invalid: {error}")
            }
        }
    }
}

impl Daemon {
    /// Whether an event for which this machine holds a slot is over for it although no record says
    /// so: in two documents it does not affect this machine, the watcher does not ask about it, and
    /// the machine is in service.
    ///
    /// # Errors
    /// The document cannot be read.
    pub(super) async fn is_lost(&self, id: &str) -> Result<bool, DocumentError> {
        // A hub knows nothing of this machine's document, and gives slots back itself.
        if matches!(self.source, Source::Hub) {
            return Ok(false);
        }
        let is_settled = || {
            let is_waiting = self.is_waiting(id);
            let history = self.history.borrow();
            let has_file = self
                .has_file_since
                .get()
                .is_some_and(|since| since.elapsed() >= self.config.return_within);
            let is_in_service = has_file && history.is_in_service();
            is_waiting || history.over_since(id).is_some() || !is_in_service
        };
        // The watcher asks again if the event is open.
        if self.started_at.elapsed() < ASKED_AGAIN_WITHIN.min(self.config.heartbeat) || is_settled()
        {
            return Ok(false);
        }
        for pause in [Duration::ZERO, DOCUMENTS_APART] {
            sleep(pause).await;
            if self.document_affects(id).await? || is_settled() {
                return Ok(false);
            }
        }
        let id = id.escape_debug();
        log::line(&format!(
            "warning: {id} is over although no record says so: by its document, it does not affect {}",
            self.machine
        ));
        Ok(true)
    }

    /// Whether, by the machine's own document, an event affects this machine. One that names no
    /// machine at all may.
    async fn document_affects(&self, id: &str) -> Result<bool, DocumentError> {
        let endpoint = &self.config.metadata;
        let body = timeout(ANSWER_TIME, metadata::events_with_advice(endpoint)).await;
        let body = body.map_err(|_| DocumentError::Late(endpoint.clone()))?;
        let body = body.map_err(DocumentError::Metadata)?;
        let document = Document::parse(&body)
            .map_err(|error| DocumentError::Invalid(endpoint.clone(), error))?;
        let affects_this = |names: Resources<'_>| {
            let mut names = names.iter().map(|name| Name::from(name.to_string()));
            names
                .next()
                .is_none_or(|first| first == self.machine || names.any(|name| name == self.machine))
        };
        Ok(document.events().any(|event| {
            event.event_id().to_string().eq_ignore_ascii_case(id) && affects_this(event.resources())
        }))
    }
}
