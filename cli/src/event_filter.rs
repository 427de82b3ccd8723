//! Selects the events of a document for a command: `--mine` and `--type`.

use scheduled_events_core::{Event, EventKind, VmNames};

/// Selects the events of a document for a command; by default, all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventFilter {
    /// Only those of this machine.
    pub(crate) mine: bool,
    /// Only those of these types; empty for all types.
    pub(crate) types: Vec<EventKind>,
    /// Only those that are not over, and no advice that is not named.
    pub(crate) ongoing: bool,
}

impl EventFilter {
    pub(crate) fn matches(&self, event: &Event<'_>, names: VmNames<'_>) -> bool {
        self.matches_document(event) && (!self.mine || names.owns(event) == Some(true))
    }

    /// Whether the event matches, as far as that can be decided without this machine's name.
    pub(crate) fn matches_document(&self, event: &Event<'_>) -> bool {
        let is_over = || event.event_status().is_some_and(|status| status.is_over());
        let is_of_type = || {
            let kind = event.event_type().map(EventKind::from);
            // As in a policy: advice is that alone, whatever its type.
            let kind = if event.is_advice() {
                Some(EventKind::SpotRebalanceRecommendation)
            } else {
                kind
            };
            kind.is_some_and(|kind| self.types.contains(&kind))
        };
        if self.types.is_empty() {
            !(self.ongoing && (is_over() || event.is_advice()))
        } else {
            is_of_type() && !(self.ongoing && is_over())
        }
    }

    /// The filter as text that follows `events`: ` of this machine`, ` of type Freeze or Reboot`.
    /// Empty for all events.
    pub(crate) fn describe(&self) -> String {
        let mut words = String::new();
        if !self.types.is_empty() {
            let types: Vec<_> = self.types.iter().map(|kind| kind.word()).collect();
            words = format!(" of type {}", types.join(" or "));
        }
        if self.mine {
            words += " of this machine";
        }
        words
    }
}

/// Parses one word of `--type`. Case does not count.
pub(crate) fn event_kind(word: &str) -> Result<EventKind, String> {
    let word = word.trim();
    let known = || EventKind::ALL.into_iter();
    known()
        .find(|kind| kind.word().eq_ignore_ascii_case(word))
        .ok_or_else(|| {
            let words: Vec<_> = known().map(EventKind::word).collect();
            let nearest = scheduled_events::suggest::nearest(word, words.iter().copied());
            let nearest = nearest.map_or(String::new(), |nearest| {
                format!("did you mean `{nearest}`? ")
            });
            format!(
                "{nearest}expected one or more of {}, separated by commas",
                words.join(", ")
            )
        })
}
