//! What identifies this machine and its boot: the state of another machine is not this one's.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use super::message::{Message, ask};
use crate::imds::Imds;
use crate::limits::NAME_TIMEOUT;

/// The delays before the machine's id is requested again. After them it stays unknown: some services do not have it.
const RETRIES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(8),
    Duration::from_secs(60),
];

/// The machine's `vmId`: requested for a watcher with a state file until it is known, or a few times.
pub(super) struct MachineId {
    /// `None` without a state file, and once the id is known.
    imds: Option<Imds>,
    /// The id, once it is known.
    id: Option<String>,
    responses: Sender<Message>,
    retries: std::slice::Iter<'static, Duration>,
    retry_at: Option<Instant>,
}

impl MachineId {
    pub(super) fn new(imds: Option<Imds>, responses: Sender<Message>) -> Self {
        Self {
            imds,
            id: None,
            responses,
            retries: RETRIES.iter(),
            retry_at: None,
        }
    }

    /// Requests the id on a thread of its own, which answers with a [`Message::MachineId`]. Returns whether it is needed.
    pub(super) fn request(&mut self) -> bool {
        let Some(imds) = self.imds.clone() else {
            return false;
        };
        ask(
            &self.responses,
            move || imds.vm_id(NAME_TIMEOUT),
            Message::MachineId,
        );
        true
    }

    pub(super) fn known(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Records the answer to a request, if it was an id.
    pub(super) fn on_answer(&mut self, id: Option<&String>) {
        if let Some(id) = id {
            self.id = Some(id.clone());
            self.imds = None;
        } else {
            self.retry_at = self.retries.next().map(|delay| Instant::now() + *delay);
        }
    }

    /// Requests the id again if that is due. Returns the time until it is due otherwise.
    pub(super) fn retry(&mut self) -> Option<Duration> {
        let left = self.retry_at?.saturating_duration_since(Instant::now());
        if left.is_zero() {
            self.retry_at = None;
            self.request();
            return None;
        }
        Some(left)
    }
}
