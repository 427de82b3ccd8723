//! The problems of a document. Parsing only notes whether there are any; listing them reads the events again.

use super::Document;
use super::events::Elements;
use crate::duplicate_ids::DuplicateIds;
use crate::event::{EVENT_DEPTH, Event, Member, NameBuffer, Problem, ProblemKind};
use crate::json::{Scanner, Value};

impl<'a> Document<'a> {
    /// What is invalid: the document's own problem first, then those of each event, in the document's order.
    pub fn problems(&self) -> Problems<'a> {
        let has_problems = self.has_problems;
        Problems {
            text: self.text,
            of_document: self.incarnation_problem,
            elements: if has_problems {
                Elements::new(self.text, self.events_offset, true)
            } else {
                Elements::NONE
            },
            duplicates: self.duplicates,
            ids: 0,
            of_event: None,
        }
    }
}

/// Iterator over a document's problems.
///
/// ```
/// use scheduled_events_core::Document;
///
/// let document = Document::parse(br#"{"Events":[{"EventId":"a","NotBefore":"soon","DurationInSeconds":0.5}]}"#)?;
/// let problems: Vec<_> = document.problems().map(|problem| problem.kind.word()).collect();
/// assert_eq!(problems, ["unreadable-time", "not-an-integer"]);
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Problems<'a> {
    text: &'a str,
    of_document: Option<(usize, ProblemKind)>,
    elements: Elements<'a>,
    duplicates: DuplicateIds,
    /// How many ids were passed.
    ids: usize,
    /// The rest of the event whose problems are being listed.
    of_event: Option<EventProblems<'a>>,
}

impl Iterator for Problems<'_> {
    type Item = Problem;

    fn next(&mut self) -> Option<Problem> {
        if let Some((offset, kind)) = self.of_document.take() {
            return Some(Problem {
                event: None,
                member: Some(Member::DocumentIncarnation),
                offset,
                kind,
            });
        }
        loop {
            if let Some(problems) = &mut self.of_event {
                if let Some(problem) = problems.next() {
                    return Some(problem);
                }
                self.of_event = None;
            }
            let element = self.elements.next()?;
            let Some(event) = element.event else {
                let kind = ProblemKind::NotAnObject;
                return Some(Problem {
                    event: Some(element.index),
                    member: None,
                    offset: element.offset,
                    kind,
                });
            };
            let repeats_id = event.has_id() && self.duplicates.contains(self.ids);
            if event.has_id() {
                self.ids = self.ids.saturating_add(1);
            }
            if event.has_problems() || repeats_id {
                self.of_event = EventProblems::new(self.text, &event, repeats_id);
            }
            if event.lacks_id() {
                let (member, kind) = (Some(Member::EventId), ProblemKind::Missing);
                return Some(Problem {
                    event: Some(element.index),
                    member,
                    offset: element.offset,
                    kind,
                });
            }
        }
    }
}

/// Reads an event member by member and returns the problems.
#[derive(Clone, Debug)]
struct EventProblems<'a> {
    event: Event<'a>,
    repeats_id: bool,
    scanner: Scanner<'a>,
    first: bool,
    /// Inside the array of `Resources`: whether the next element is its first.
    resources: Option<bool>,
}

impl<'a> EventProblems<'a> {
    fn new(text: &'a str, event: &Event<'a>, repeats_id: bool) -> Option<Self> {
        let mut scanner = Scanner::new(text, event.offset(), EVENT_DEPTH);
        let event = Event::unread(&scanner, event.index());
        scanner.open_object().ok()?;
        Some(Self {
            event,
            repeats_id,
            scanner,
            first: true,
            resources: None,
        })
    }

    /// The next problem of the event. Reading what was checked does not fail.
    fn next(&mut self) -> Option<Problem> {
        loop {
            let (member, offset, kind) = if let Some(first) = &mut self.resources {
                if !self.scanner.next_element(first).ok()? {
                    self.resources = None;
                    continue;
                }
                let offset = self.scanner.offset();
                let is_string = matches!(self.scanner.value().ok()?, Value::String(_));
                (
                    Member::Resources,
                    offset,
                    (!is_string).then_some(ProblemKind::WrongType),
                )
            } else {
                let (_, name) = self.scanner.next_member(&mut self.first).ok()??;
                let offset = self.scanner.offset();
                match Member::of_event(&name) {
                    Some(Member::Resources) if self.scanner.peek() == Some(b'[') => {
                        self.scanner.open_array().ok()?;
                        self.resources = Some(true);
                        continue;
                    }
                    Some(Member::EventId) if self.repeats_id => {
                        self.scanner.value().ok()?;
                        (Member::EventId, offset, Some(ProblemKind::Repeated))
                    }
                    Some(member) => (
                        member,
                        offset,
                        self.event
                            .read_value(member, &mut self.scanner, &mut NameBuffer::new(&mut []))
                            .ok()?,
                    ),
                    None => {
                        self.scanner.value().ok()?;
                        continue;
                    }
                }
            };
            if let Some(kind) = kind {
                return Some(Problem {
                    event: Some(self.event.index()),
                    member: Some(member),
                    offset,
                    kind,
                });
            }
        }
    }
}
