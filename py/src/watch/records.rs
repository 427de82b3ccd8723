//! The records of a watcher that Python has not read yet, so that polling and approving never wait for a reader.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use scheduled_events::watch::{Completion, StopReason};

use crate::words::Fields;

/// The most records that wait. Beyond it the oldest is dropped and counted, changes last.
pub(crate) const RECORDS_MAX: usize = 1024;

/// A bounded queue of records, from the watcher's thread to Python.
#[derive(Default)]
pub(crate) struct Records {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Unread>,
    dropped: u64,
    /// How many records were ever added.
    added: u64,
    has_ended: bool,
    /// Why the watcher ended, until that is reported.
    end: Option<StopReason>,
}

/// A record that was not read yet.
pub(crate) struct Unread {
    pub(crate) record: Fields,
    pub(crate) kind: UnreadKind,
}

/// What the queue has to know about a record.
pub(crate) enum UnreadKind {
    /// A change. It counts as reported once this is completed.
    Change(Completion),
    /// A failed poll, and the number of earlier ones with the same cause that were merged into it.
    PollFailed {
        cause: String,
        repeated: u64,
    },
    Other,
}

/// What a reader gets.
pub(crate) enum Next {
    /// This many records were dropped before the ones that follow.
    Dropped(u64),
    Record(Unread),
    /// The watcher has ended, which is reported once.
    Ended(StopReason),
    /// The end was reported before, or the watcher panicked.
    Over,
    /// There is none yet.
    Nothing,
}

impl Records {
    /// Adds a record.
    pub(crate) fn add(&self, mut record: Unread) {
        let mut state = self.lock();
        if let UnreadKind::PollFailed { cause, repeated } = &mut record.kind
            && let Some(Unread {
                kind:
                    UnreadKind::PollFailed {
                        cause: last,
                        repeated: before,
                    },
                ..
            }) = state.queue.back()
            && cause == last
        {
            *repeated = before + 1;
            state.queue.pop_back();
        }
        if state.queue.len() >= RECORDS_MAX {
            let oldest = state
                .queue
                .iter()
                .position(|unread| !matches!(unread.kind, UnreadKind::Change(_)));
            if let Some(dropped) = state.queue.remove(oldest.unwrap_or(0)) {
                state.dropped += dropped.count();
                if let UnreadKind::Change(completion) = dropped.kind {
                    completion.complete();
                }
            }
        }
        state.queue.push_back(record);
        state.added += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Notes that no record follows; `reason` is `None` after a panic.
    pub(crate) fn end(&self, reason: Option<StopReason>) {
        let mut state = self.lock();
        if !state.has_ended {
            state.has_ended = true;
            state.end = reason;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Takes the next record, and waits for it up to `span`.
    pub(crate) fn next(&self, span: Duration) -> Next {
        let is_empty =
            |state: &mut State| state.queue.is_empty() && state.dropped == 0 && !state.has_ended;
        let waiting = self.changed.wait_timeout_while(self.lock(), span, is_empty);
        let mut state = waiting.unwrap_or_else(PoisonError::into_inner).0;
        if state.dropped > 0 {
            return Next::Dropped(std::mem::take(&mut state.dropped));
        }
        match state.queue.pop_front() {
            Some(unread) => Next::Record(unread),
            None if !state.has_ended => Next::Nothing,
            None => state.end.take().map_or(Next::Over, Next::Ended),
        }
    }

    /// Waits until more records were added than `seen`, and returns their number; `None` at the end.
    pub(crate) fn wait(&self, seen: u64, span: Duration) -> Option<u64> {
        let unchanged = |state: &mut State| state.added == seen && !state.has_ended;
        let waiting = self
            .changed
            .wait_timeout_while(self.lock(), span, unchanged);
        let state = waiting.unwrap_or_else(PoisonError::into_inner).0;
        (!state.has_ended).then_some(state.added)
    }

    /// Whether no record is added any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unread {
    /// How many records it replaces.
    fn count(&self) -> u64 {
        match self.kind {
            UnreadKind::PollFailed { repeated, .. } => repeated + 1,
            _ => 1,
        }
    }
}
