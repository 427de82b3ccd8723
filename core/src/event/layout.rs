//! Where an event's members are in its object.

use super::member::{Member, MemberSet};
use crate::json::Text;
use crate::time::UnixSeconds;

/// Where the members of an event are, counted from its opening brace.
///
/// It borrows nothing, for a caller that keeps the event's bytes elsewhere, such as in an object of another language.
///
/// ```
/// use scheduled_events_core::{Document, EventType};
///
/// let (object, layout) = {
///     let body = br#"{"Events":[{"EventId":"a","EventType":"Reboot"}]}"#.to_vec();
///     let document = Document::parse(&body)?;
///     let event = document.events().next().unwrap();
///     (event.object().to_owned(), event.layout())
/// };
/// let event = layout.event(&object);
/// assert_eq!(event.event_type(), Some(EventType::Reboot));
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EventLayout {
    pub(super) index: usize,
    /// Of each member but `DurationInSeconds`: its text, or the bracket of `Resources`.
    values: [Span; MEMBERS_WITH_SPAN],
    pub(super) not_before: NotBeforeKind,
    /// `u32::MAX` if it is unknown.
    pub(super) duration_in_seconds: u32,
    pub(super) problems: MemberSet,
}

const MEMBERS_WITH_SPAN: usize = Member::DurationInSeconds as usize;

/// A [`NotBefore`](super::NotBefore) without its text.
#[derive(Clone, Copy, Debug)]
pub(super) enum NotBeforeKind {
    At(UnixSeconds),
    Unset,
    Unreadable,
}

impl EventLayout {
    pub(super) const fn new(index: usize) -> Self {
        Self {
            index,
            values: [Span::NONE; MEMBERS_WITH_SPAN],
            not_before: NotBeforeKind::Unset,
            duration_in_seconds: u32::MAX,
            problems: MemberSet::EMPTY,
        }
    }

    #[inline]
    pub(super) fn span(&self, member: Member) -> Option<Span> {
        self.values
            .get(member as usize)
            .copied()
            .filter(|span| span.start != 0)
    }

    #[inline]
    pub(super) fn set_span(&mut self, member: Member, span: Span) {
        if let Some(value) = self.values.get_mut(member as usize) {
            *value = span;
        }
    }
}

/// A text of the event: its start after the opening quote, counted from the event's brace, and its length, whose highest
/// bit is set if the text has escapes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// 0, which is the brace, for a text that is absent.
    pub(super) start: u32,
    length: u32,
}

const ESCAPED: u32 = 1 << 31;

impl Span {
    const NONE: Self = Self {
        start: 0,
        length: 0,
    };

    /// `None` if start or length do not fit.
    #[inline]
    pub(super) fn new(start: usize, length: usize, escaped: bool) -> Option<Self> {
        let start = u32::try_from(start).ok().filter(|start| *start != 0)?;
        let length = u32::try_from(length)
            .ok()
            .filter(|length| length & ESCAPED == 0)?;
        Some(Self {
            start,
            length: if escaped { length | ESCAPED } else { length },
        })
    }

    /// The text at this span, counted from byte `offset` of `text`.
    #[inline]
    pub(super) fn text_in(self, text: &str, offset: usize) -> Text<'_> {
        let (start, length) = (
            offset.wrapping_add(self.start as usize),
            (self.length & !ESCAPED) as usize,
        );
        let raw = text
            .get(start..)
            .and_then(|rest| rest.get(..length))
            .unwrap_or_default();
        Text::from_raw(raw, self.length & ESCAPED != 0)
    }
}

#[cfg(all(feature = "fast-path", target_pointer_width = "64"))]
impl Span {
    /// In a text of at most this many bytes, every span fits.
    pub(super) const ALWAYS_FITS: usize = (ESCAPED - 1) as usize;

    /// A span without escapes in a text of at most [`ALWAYS_FITS`](Self::ALWAYS_FITS) bytes.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // It fits.
    pub(super) const fn new_unchecked(start: usize, length: usize) -> Self {
        Self {
            start: start as u32,
            length: length as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_too_far_from_the_brace_does_not_fit() {
        let span =
            |start, length| Span::new(start, length, true).map(|span| (span.start, span.length));
        assert_eq!(span(1, 0), Some((1, ESCAPED)));
        assert_eq!(
            span(u32::MAX as usize, (ESCAPED - 1) as usize),
            Some((u32::MAX, u32::MAX))
        );
        assert_eq!(span(0, 0), None);
        assert_eq!(span(1, ESCAPED as usize), None);
        #[cfg(target_pointer_width = "64")]
        assert_eq!(span(1 << 32, 0), None);
    }
}
