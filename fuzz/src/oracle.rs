//! A second reader of documents: it reads the tree of `serde_json`, and implements the rules of meaning once more, without
//! regard to speed or memory.

use std::fmt;

use scheduled_events_core::{
    DUPLICATE_ID_WINDOW, EVENT_ID_MAX, MAX_DEPTH, Member, ProblemKind, UnixSeconds,
};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value with everything kept: repeated members, their order, and the notation of numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Null,
    Boolean,
    Number(String),
    String(String),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// `serde_json` passes on a number that it keeps as text as a map with one member of this name.
pub const NUMBER_TOKEN: &str = "$serde_json::private::Number";

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Null)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
                Ok(Node::Boolean)
            }

            // Numbers that fit arrive as such, all others, fractions and exponents included, as text.
            fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
                Ok(Node::Number(number.to_string()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
                Ok(Node::Number(number.to_string()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Node, E> {
                Ok(Node::String(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Node, A::Error> {
                let mut array = Vec::new();
                while let Some(element) = elements.next_element()? {
                    array.push(element);
                }
                Ok(Node::Array(array))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
                let mut object: Vec<(String, Node)> = Vec::new();
                while let Some(member) = members.next_entry()? {
                    object.push(member);
                }
                match object.as_slice() {
                    [(name, Node::String(number))] if name == NUMBER_TOKEN => {
                        Ok(Node::Number(number.clone()))
                    }
                    _ => Ok(Node::Object(object)),
                }
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

impl Node {
    /// How many objects and arrays are nested at most.
    fn depth(&self) -> u32 {
        match self {
            Self::Array(array) => 1 + array.iter().map(Self::depth).max().unwrap_or(0),
            Self::Object(object) => {
                1 + object
                    .iter()
                    .map(|(_, value)| value.depth())
                    .max()
                    .unwrap_or(0)
            }
            _ => 0,
        }
    }
}

/// The contents of a document. Problems are without their offsets, which the corpus and the `document` target check.
#[derive(Debug, Default, PartialEq)]
pub struct Reading {
    pub incarnation: Incarnation,
    pub events: Vec<EventReading>,
    pub problems: Vec<(Option<usize>, Option<Member>, ProblemKind)>,
}

#[derive(Debug, Default, PartialEq)]
pub enum Incarnation {
    #[default]
    Absent,
    Number(u64),
    Text(String),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventReading {
    pub index: usize,
    pub id: String,
    pub event_type: Option<String>,
    pub status: Option<String>,
    pub resource_type: Option<String>,
    pub resources: Option<Vec<String>>,
    pub not_before: NotBefore,
    pub description: Option<String>,
    pub source: Option<String>,
    pub duration: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum NotBefore {
    #[default]
    Unset,
    At(UnixSeconds),
    Unreadable,
}

/// Reads a document; `None` if it must be refused.
pub fn read(input: &[u8]) -> Option<Reading> {
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    let node: Node = serde_json::from_slice(input).ok()?;
    if node.depth() > MAX_DEPTH {
        return None;
    }
    let Node::Object(members) = node else {
        return None;
    };
    let mut reading = Reading::default();
    let mut events = None;
    let mut incarnation_seen = false;
    for (name, value) in members {
        match name.as_str() {
            "Events" if events.is_some() => return None,
            "Events" => {
                let Node::Array(elements) = value else {
                    return None;
                };
                events = Some(elements);
            }
            "DocumentIncarnation" if incarnation_seen => return None,
            "DocumentIncarnation" => {
                incarnation_seen = true;
                match incarnation(value) {
                    Ok(incarnation) => reading.incarnation = incarnation,
                    Err(kind) => {
                        reading
                            .problems
                            .push((None, Some(Member::DocumentIncarnation), kind));
                    }
                }
            }
            _ => {}
        }
    }
    let mut ids: Vec<String> = Vec::new();
    for (index, element) in events?.into_iter().enumerate() {
        let Node::Object(members) = element else {
            reading
                .problems
                .push((Some(index), None, ProblemKind::NotAnObject));
            continue;
        };
        let (event, problems) = event(index, &members)?;
        let mut problems: Vec<_> = problems;
        let has_id = members
            .iter()
            .any(|(name, value)| name == "EventId" && matches!(value, Node::String(_)));
        let id = event.id.to_ascii_uppercase();
        let repeated = has_id && ids.len() < DUPLICATE_ID_WINDOW && ids.contains(&id);
        if has_id {
            ids.push(id);
        }
        if has_id && !repeated {
            reading.events.push(event);
        }
        if !has_id
            && !problems
                .iter()
                .any(|(member, _)| *member == Member::EventId)
        {
            reading
                .problems
                .push((Some(index), Some(Member::EventId), ProblemKind::Missing));
        }
        if repeated {
            // At the place of the id among the event's members.
            let at = problems_before(&members, "EventId");
            problems.retain(|(member, _)| *member != Member::EventId);
            problems.insert(at, (Member::EventId, ProblemKind::Repeated));
        }
        reading.problems.extend(
            problems
                .into_iter()
                .map(|(member, kind)| (Some(index), Some(member), kind)),
        );
    }
    Some(reading)
}

/// How many problems are before the member of this name.
fn problems_before(members: &[(String, Node)], name: &str) -> usize {
    let before: Vec<_> = members
        .iter()
        .take_while(|(member, _)| member != name)
        .cloned()
        .collect();
    event(0, &before).map_or(0, |(_, problems)| problems.len())
}

fn incarnation(value: Node) -> Result<Incarnation, ProblemKind> {
    match value {
        Node::Null => Ok(Incarnation::Absent),
        Node::String(text) => Ok(Incarnation::Text(text)),
        Node::Number(number) => {
            let number = Decimal::of(&number).whole()?;
            u64::try_from(number)
                .map(Incarnation::Number)
                .map_err(|_| ProblemKind::OutOfRange)
        }
        _ => Err(ProblemKind::WrongType),
    }
}

type EventProblems = Vec<(Member, ProblemKind)>;

/// `None` if a known member occurs twice.
fn event(index: usize, members: &[(String, Node)]) -> Option<(EventReading, EventProblems)> {
    let mut event = EventReading {
        index,
        ..EventReading::default()
    };
    let mut problems = Vec::new();
    let mut seen = Vec::new();
    for (name, value) in members {
        let Some(member) = member(name) else { continue };
        if seen.contains(&member) {
            return None;
        }
        seen.push(member);
        let mut problem = |kind| problems.push((member, kind));
        let text = match (member, value) {
            (_, Node::Null) => continue,
            (Member::Resources, Node::Array(array)) => {
                let name = |node: &Node| {
                    if let Node::String(name) = node {
                        Some(name.clone())
                    } else {
                        None
                    }
                };
                array
                    .iter()
                    .filter(|node| name(node).is_none())
                    .for_each(|_| problem(ProblemKind::WrongType));
                event.resources = Some(array.iter().filter_map(name).collect());
                continue;
            }
            (Member::DurationInSeconds, Node::Number(_) | Node::String(_)) => {
                match duration(value) {
                    Ok(seconds) => event.duration = seconds,
                    Err(kind) => problem(kind),
                }
                continue;
            }
            (Member::NotBefore, value) => {
                let Node::String(text) = value else {
                    event.not_before = NotBefore::Unreadable;
                    problem(ProblemKind::WrongType);
                    continue;
                };
                let blank = text.chars().all(|char| char == ' ' || char == '\t');
                // A longer text is not read as a time.
                let moment = if text.len() <= 64 {
                    UnixSeconds::parse(text)
                } else {
                    None
                };
                event.not_before = match moment {
                    _ if blank => NotBefore::Unset,
                    Some(moment) => NotBefore::At(moment),
                    None => {
                        problem(ProblemKind::UnreadableTime);
                        NotBefore::Unreadable
                    }
                };
                continue;
            }
            (Member::Resources | Member::DurationInSeconds, _) => {
                problem(ProblemKind::WrongType);
                continue;
            }
            (_, Node::String(text)) => text.clone(),
            _ => {
                problem(ProblemKind::WrongType);
                continue;
            }
        };
        match member {
            Member::EventId => {
                if text.is_empty() {
                    problem(ProblemKind::Empty);
                } else if text.len() > EVENT_ID_MAX {
                    problem(ProblemKind::TooLong);
                }
                event.id = text;
            }
            Member::EventType | Member::EventStatus if text.is_empty() => {
                problem(ProblemKind::Empty);
            }
            Member::EventType => event.event_type = Some(text),
            Member::EventStatus => event.status = Some(text),
            Member::EventSource => event.source = Some(text),
            Member::ResourceType => event.resource_type = Some(text),
            Member::Description => event.description = Some(text),
            _ => unreachable!("{member} was handled above"),
        }
    }
    Some((event, problems))
}

fn member(name: &str) -> Option<Member> {
    use Member::{
        Description, DurationInSeconds, EventId, EventSource, EventStatus, EventType, NotBefore,
        ResourceType, Resources,
    };
    let members = [
        EventId,
        EventStatus,
        EventType,
        ResourceType,
        Resources,
        NotBefore,
        Description,
        EventSource,
        DurationInSeconds,
    ];
    members.into_iter().find(|member| member.name() == name)
}

fn duration(value: &Node) -> Result<Option<u32>, ProblemKind> {
    let number = match value {
        Node::Number(number) => number.clone(),
        // A text of at most 32 bytes that is a JSON number.
        Node::String(text) if text.len() <= 32 => match serde_json::from_str(text) {
            Ok(Node::Number(number)) if text.trim() == text && !text.is_empty() => number,
            _ => return Err(ProblemKind::NotAnInteger),
        },
        Node::String(_) => return Err(ProblemKind::NotAnInteger),
        _ => return Err(ProblemKind::WrongType),
    };
    match Decimal::of(&number).whole()? {
        -1 => Ok(None),
        seconds => match u32::try_from(seconds) {
            Ok(seconds) if seconds != u32::MAX => Ok(Some(seconds)),
            _ => Err(ProblemKind::OutOfRange),
        },
    }
}

/// A number as its digits and the place of its point.
struct Decimal {
    negative: bool,
    digits: String,
    /// How many digits are before the point; beyond both ends there are zeros.
    point: i128,
}

impl Decimal {
    fn of(number: &str) -> Self {
        let lower = number.to_ascii_lowercase();
        let (mantissa, exponent) = lower.split_once('e').unwrap_or((&lower, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let negative = whole.starts_with('-');
        let digits = format!("{}{fraction}", whole.trim_start_matches('-'));
        let leading = digits.len() - digits.trim_start_matches('0').len();
        let huge = if exponent.starts_with('-') {
            i64::MIN
        } else {
            i64::MAX
        };
        let exponent = exponent
            .trim_start_matches('+')
            .parse::<i64>()
            .unwrap_or(huge);
        let before = i128::try_from(whole.trim_start_matches('-').len()).unwrap();
        let point = before + i128::from(exponent) - i128::try_from(leading).unwrap();
        Self {
            negative,
            digits: digits.trim_matches('0').to_owned(),
            point,
        }
    }

    /// The number, if it is whole and not too large for any member. If it is neither, the error is the size.
    fn whole(&self) -> Result<i128, ProblemKind> {
        if self.digits.is_empty() {
            return Ok(0);
        }
        let length = i128::try_from(self.digits.len()).unwrap();
        let before: String = self
            .digits
            .chars()
            .take(usize::try_from(self.point.clamp(0, 1000)).unwrap())
            .collect();
        let zeros = usize::try_from((self.point - length).clamp(0, 21)).unwrap();
        let before = before + &"0".repeat(zeros);
        if !before.is_empty() && before.parse::<u64>().is_err() {
            return Err(ProblemKind::OutOfRange);
        }
        if length > self.point {
            return Err(ProblemKind::NotAnInteger);
        }
        let number = i128::from(before.parse::<u64>().unwrap());
        Ok(if self.negative { -number } else { number })
    }
}
