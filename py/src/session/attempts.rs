//! The steps of a session that Python has not answered yet: core knows them by number, Python by the event's id.

use scheduled_events_core::{EventId, Text};

/// What a step asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Prepare,
    Recover,
    Gate,
}

/// The steps that await an answer, oldest first.
#[derive(Default)]
pub(crate) struct Attempts(Vec<Attempt>);

struct Attempt {
    number: u32,
    task: Task,
    event_id: EventId,
}

impl Attempts {
    /// Remembers that a step was issued.
    pub(crate) fn issued(&mut self, number: u32, task: Task, event_id: &str) {
        self.0.push(Attempt {
            number,
            task,
            event_id: EventId::new(&Text::plain(event_id)),
        });
    }

    /// The event that the attempt is for.
    pub(crate) fn event_id(&self, number: u32) -> Option<&EventId> {
        self.0
            .iter()
            .find(|attempt| attempt.number == number)
            .map(|attempt| &attempt.event_id)
    }

    /// Takes out the attempt that an answer is for: the one with this number, or else the newest for this event.
    pub(crate) fn answered(
        &mut self,
        task: Task,
        event_id: &str,
        number: Option<u32>,
    ) -> Option<u32> {
        let event_id = EventId::new(&Text::plain(event_id));
        let index = self.0.iter().rposition(|attempt| {
            attempt.task == task
                && attempt.event_id == event_id
                && number.is_none_or(|number| attempt.number == number)
        })?;
        Some(self.0.remove(index).number)
    }

    /// Forgets all: the session was restored, and issues anew what is still to be done.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
