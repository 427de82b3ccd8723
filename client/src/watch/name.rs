//! The machine's own name: given as an option, or requested from the metadata service until it is known.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use scheduled_events_core::{SessionConfigError, VmNames};

use super::host::Note;
use super::message::{Message, ask};
use crate::imds::{Imds, names_for};
use crate::limits::{NAME_RETRY_FIRST, NAME_RETRY_MAX, NAME_TIMEOUT};

/// The names that events may use for this machine.
pub(super) struct MachineName {
    names: Vec<String>,
    api_version: String,
    imds: Imds,
    responses: Sender<Message>,
    /// When the name is requested again, and the delay that led to this moment.
    retry: Option<(Instant, Duration)>,
    /// The failure that was reported last.
    reported: String,
}

impl MachineName {
    pub(super) fn new(
        names: Vec<String>,
        api_version: String,
        imds: Imds,
        responses: Sender<Message>,
    ) -> Self {
        Self {
            names,
            api_version,
            imds,
            responses,
            retry: None,
            reported: String::new(),
        }
    }

    pub(super) fn is_known(&self) -> bool {
        !self.names.is_empty()
    }

    /// The name, or the first of several, once it is known.
    pub(super) fn first(&self) -> Option<&str> {
        self.names.first().map(String::as_str)
    }

    /// Calls the function with the names as events of this API version spell them.
    pub(super) fn with_names<T>(&self, use_names: impl FnOnce(VmNames<'_>) -> T) -> T {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        use_names(names_for(&names, &self.api_version))
    }

    /// Requests the name on a thread of its own, which answers with a [`Message::Name`].
    pub(super) fn request(&mut self) {
        if let Some((at, delay)) = &mut self.retry {
            // No second request before this one is answered.
            *at = Instant::now() + *delay + NAME_TIMEOUT * 2;
        }
        let imds = self.imds.clone();
        ask(
            &self.responses,
            move || imds.vm_name(NAME_TIMEOUT),
            Message::Name,
        );
    }

    /// The request has no answer in time: it is repeated. Returns what the log should say.
    pub(super) fn on_silence(&mut self) -> Option<Note> {
        self.on_answer(Err("the request has no answer".to_owned()), |_| Ok(()))
    }

    /// Requests the name again if that is due. Returns the time until it is due otherwise.
    pub(super) fn retry(&mut self) -> Option<Duration> {
        let (at, _) = self.retry?;
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            self.request();
            return None;
        }
        Some(left)
    }

    /// Applies the answer to a request. `set_names` passes a new name on to the session. Returns what the log should say.
    pub(super) fn on_answer(
        &mut self,
        answer: Result<String, String>,
        set_names: impl FnOnce(VmNames<'_>) -> Result<(), SessionConfigError>,
    ) -> Option<Note> {
        let reason = match answer {
            Ok(name) => match set_names(names_for(&[&name], &self.api_version)) {
                Ok(()) => {
                    self.names = vec![name.clone()];
                    self.retry = None;
                    self.reported.clear();
                    return Some(Note::NameKnown(name));
                }
                Err(error) => error.to_string(),
            },
            Err(reason) => reason,
        };
        let delay = self.retry.map_or(NAME_RETRY_FIRST, |(_, delay)| {
            (delay * 2).min(NAME_RETRY_MAX)
        });
        self.retry = Some((Instant::now() + delay, delay));
        // Reported once, not every few seconds for months.
        if self.reported == reason {
            return None;
        }
        self.reported.clone_from(&reason);
        Some(Note::NameUnknown(reason))
    }
}
