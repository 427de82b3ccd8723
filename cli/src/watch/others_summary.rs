//! Summarizes the changes of other machines' events in one poll, in one line.

use std::fmt::Write as _;

use scheduled_events_core::UnixSeconds;

use crate::output::format::cell;

/// The changes of other machines' events since the last summary.
#[derive(Default)]
pub(crate) struct OthersSummary {
    groups: Vec<Group>,
    time: Option<UnixSeconds>,
    /// Whether a report has arrived since the last call of [`take`](Self::take).
    grows: bool,
}

/// The events with the same report, such as `scheduled`.
struct Group {
    word: &'static str,
    types: Vec<(String, usize)>,
    /// The names of the machines of the first event.
    machines: String,
}

impl OthersSummary {
    /// Notes a report, added or not, so that more may follow.
    pub(crate) fn report(&mut self) {
        self.grows = true;
    }

    /// Adds a change or a decision of an event of this type and these machines.
    pub(crate) fn add(
        &mut self,
        word: &'static str,
        event_type: &str,
        machines: &str,
        time: UnixSeconds,
    ) {
        self.time.get_or_insert(time);
        let index = self
            .groups
            .iter()
            .position(|group| group.word == word)
            .unwrap_or_else(|| {
                self.groups.push(Group {
                    word,
                    types: Vec::new(),
                    machines: machines.to_owned(),
                });
                self.groups.len() - 1
            });
        let types = &mut self.groups[index].types;
        let event_type = cell(event_type);
        match types.iter_mut().find(|(known, _)| *known == event_type) {
            Some((_, events)) => *events += 1,
            None => types.push((event_type, 1)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The summary and its time, once no report has arrived since the last call.
    pub(crate) fn take(&mut self) -> Option<(String, UnixSeconds)> {
        if std::mem::take(&mut self.grows) {
            return None;
        }
        self.take_now()
    }

    /// The summary so far and its time.
    pub(crate) fn take_now(&mut self) -> Option<(String, UnixSeconds)> {
        let time = self.time.take()?;
        self.grows = false;
        let mut text = String::new();
        for Group {
            word,
            types,
            machines,
        } in self.groups.drain(..)
        {
            let between = if text.is_empty() { "" } else { "; " };
            // Writing to a string does not fail.
            let _ = match types.as_slice() {
                [(event_type, 1)] => write!(text, "{between}{word} {event_type} of {machines}"),
                types => {
                    let types: Vec<_> = types
                        .iter()
                        .map(|(event_type, events)| format!("{events} {event_type}"))
                        .collect();
                    write!(text, "{between}{word} {}", types.join(", "))
                }
            };
        }
        Some((text, time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_by_word_and_type() {
        let mut others = OthersSummary::default();
        assert_eq!(others.take(), None);
        others.add("scheduled", "Freeze", "vm_1", UnixSeconds(7));
        others.add("scheduled", "Reboot", "vm_2", UnixSeconds(8));
        others.add("scheduled", "Freeze", "vm_3", UnixSeconds(8));
        others.add("started", "Freeze", "vm_4", UnixSeconds(8));
        others.report();
        assert_eq!(others.take(), None, "more may follow");
        let text = "scheduled 2 Freeze, 1 Reboot; started Freeze of vm_4".to_owned();
        assert_eq!(others.take(), Some((text, UnixSeconds(7))));
        assert!(others.is_empty() && others.take().is_none() && others.take_now().is_none());
    }
}
