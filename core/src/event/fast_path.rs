//! Reads an event whose members are in the order, and in the form, in which Azure writes them.
//!
//! Each member is compared with what is expected next. At the first difference the plain path in `read` takes over with
//! the members that are left. Results are the same; the tests below compare both paths.

use super::layout::Span;
use super::read::id_problem;
use super::{Event, Member, MemberSet, NameBuffer};
use crate::json::fast_path::{
    Expected, PlainEnds, Separator, is_enabled, plain_string, short_integer, value,
};
use crate::json::{Quoted, Scanner};

impl Member {
    /// The text after the member's name and its colon. The opening quote of the name is before `text`. A constant member
    /// makes this a single comparison.
    #[inline(always)]
    #[allow(clippy::inline_always)] // So that the member is a constant.
    fn strip_name(self, text: &[u8]) -> Option<&[u8]> {
        match self {
            Self::EventId => text.strip_prefix(b"EventId\":"),
            Self::EventStatus => text.strip_prefix(b"EventStatus\":"),
            Self::EventType => text.strip_prefix(b"EventType\":"),
            Self::ResourceType => text.strip_prefix(b"ResourceType\":"),
            Self::Resources => text.strip_prefix(b"Resources\":"),
            Self::NotBefore => text.strip_prefix(b"NotBefore\":"),
            Self::Description => text.strip_prefix(b"Description\":"),
            Self::EventSource => text.strip_prefix(b"EventSource\":"),
            Self::DurationInSeconds => text.strip_prefix(b"DurationInSeconds\":"),
            Self::DocumentIncarnation | Self::Events => None,
        }
    }

    /// The text that the member usually has.
    const fn expected(self) -> Expected {
        match self {
            Self::EventId => Expected::Length(36),
            Self::EventStatus => Expected::Text(b"Scheduled"),
            Self::ResourceType => Expected::Text(b"VirtualMachine"),
            Self::NotBefore => Expected::Length(29),
            Self::EventSource => Expected::Text(b"Platform"),
            _ => Expected::Unknown,
        }
    }
}

impl<'a> Event<'a> {
    /// Reads the object's members from the first one on, as long as they are as expected. Returns those that it has read;
    /// the scanner is after the last of them.
    #[inline(never)] // Its stack frame is free again when the plain path runs.
    pub(super) fn read_in_usual_order(
        &mut self,
        scanner: &mut Scanner<'a>,
        names: &mut NameBuffer<'_, 'a>,
    ) -> MemberSet {
        let mut seen = MemberSet::EMPTY;
        if is_enabled() && scanner.text().len() <= Span::ALWAYS_FITS {
            let separator = scanner.separator();
            // In parts, so that their stack frames are not on top of each other.
            let _ = self
                .read_members_before_resources(&separator, scanner, &mut seen)
                .and_then(|name| {
                    self.read_expected_names(name, &separator, scanner, names, &mut seen)
                })
                .and_then(|name| {
                    self.read_members_after_resources(name, &separator, scanner, &mut seen)
                });
        }
        if seen.contains(Member::NotBefore)
            && let Some(span) = self.layout.span(Member::NotBefore)
            && self
                .set_not_before(span.text_in(scanner.text(), self.offset))
                .is_some()
        {
            self.layout.problems.insert(Member::NotBefore);
        }
        seen
    }

    #[inline(never)]
    fn read_members_before_resources(
        &mut self,
        separator: &Separator,
        scanner: &mut Scanner<'a>,
        seen: &mut MemberSet,
    ) -> Option<&'a [u8]> {
        let name = scanner.rest().strip_prefix(b"\"")?;
        let name = self.read_expected_text(Member::EventId, name, separator, scanner, seen)?;
        let name = self.read_expected_text(Member::EventStatus, name, separator, scanner, seen)?;
        let name = self.read_expected_text(Member::EventType, name, separator, scanner, seen)?;
        self.read_expected_text(Member::ResourceType, name, separator, scanner, seen)
    }

    #[inline(never)]
    fn read_members_after_resources(
        &mut self,
        name: &'a [u8],
        separator: &Separator,
        scanner: &mut Scanner<'a>,
        seen: &mut MemberSet,
    ) -> Option<()> {
        let name = self.read_expected_text(Member::NotBefore, name, separator, scanner, seen)?;
        let name = self.read_expected_text(Member::Description, name, separator, scanner, seen)?;
        let name = self.read_expected_text(Member::EventSource, name, separator, scanner, seen)?;
        let number = Member::DurationInSeconds.strip_name(name)?;
        let (seconds, after) = short_integer(number.strip_prefix(b" ").unwrap_or(number))?;
        scanner.step_to(after);
        seen.insert(Member::DurationInSeconds);
        if self.set_duration(seconds).is_some() {
            self.layout.problems.insert(Member::DurationInSeconds);
        }
        Some(())
    }

    /// Reads a member if it is this one and its value is a string. `name` starts after the opening quote of the member's
    /// name; the result is the same for the next member.
    #[inline(always)]
    #[allow(clippy::inline_always)] // So that the rest of the text stays in registers.
    fn read_expected_text(
        &mut self,
        member: Member,
        name: &'a [u8],
        separator: &Separator,
        scanner: &mut Scanner<'a>,
        seen: &mut MemberSet,
    ) -> Option<&'a [u8]> {
        let inside = value(b'"', member.strip_name(name)?)?.get(1..)?;
        let Some((length, after)) = plain_string(member.expected(), inside) else {
            return self.read_escaped_text(member, inside, separator, scanner, seen);
        };
        let start = scanner.offset_of(inside);
        scanner.step_to(after);
        seen.insert(member);
        if member.is_empty_word(length) {
            self.layout.problems.insert(member);
            return separator.strip_any(after);
        }
        self.layout.set_span(
            member,
            Span::new_unchecked(start.wrapping_sub(self.offset), length),
        );
        let string = Quoted {
            start,
            end: start.wrapping_add(length),
            escaped: false,
        };
        if member == Member::EventId && id_problem(scanner, string).is_some() {
            self.layout.problems.insert(member);
        }
        separator.strip_any(after)
    }

    /// Reads the member's text, which has escapes, or is near the end of the document.
    #[cold]
    #[inline(never)]
    fn read_escaped_text(
        &mut self,
        member: Member,
        inside: &'a [u8],
        separator: &Separator,
        scanner: &mut Scanner<'a>,
        seen: &mut MemberSet,
    ) -> Option<&'a [u8]> {
        let quote = scanner.offset_of(inside).wrapping_sub(1);
        let mut ahead = Scanner::new(scanner.text(), quote, 0);
        let string = ahead.string_here().ok()?;
        scanner.step_to(ahead.rest());
        seen.insert(member);
        if self.set_text(member, scanner, string).is_some() {
            self.layout.problems.insert(member);
        }
        separator.strip_any(scanner.rest())
    }

    /// Reads `Resources`, if they are an array of strings.
    #[inline(always)]
    #[allow(clippy::inline_always)] // It has one caller.
    fn read_expected_names(
        &mut self,
        name: &'a [u8],
        separator: &Separator,
        scanner: &mut Scanner<'a>,
        names: &mut NameBuffer<'_, 'a>,
        seen: &mut MemberSet,
    ) -> Option<&'a [u8]> {
        let array = value(b'[', Member::Resources.strip_name(name)?)?;
        let before = *scanner;
        scanner.step_to(array);
        if !names.read(scanner).is_ok_and(|only_strings| only_strings) {
            *scanner = before;
            return None;
        }
        seen.insert(Member::Resources);
        let start = scanner.offset_of(array).wrapping_sub(self.offset);
        self.layout
            .set_span(Member::Resources, Span::new_unchecked(start, 0));
        separator.strip_any(scanner.rest())
    }
}

impl<'a> NameBuffer<'_, 'a> {
    /// Reads strings from the start of the array on, separated by a comma alone, or without escapes and separated alike.
    /// Returns whether that was the whole array, and leaves the scanner after the last name if not.
    #[inline]
    pub(super) fn read_plain_names(&mut self, scanner: &mut Scanner<'a>) -> bool {
        if !is_enabled() {
            return false;
        }
        // Measured: one loop for compact and spaced names takes a fifth longer.
        scanner.peek() == Some(b'"')
            && (self.read_compact_names(scanner) || self.read_escaped_names(scanner))
            || self.read_spaced_names(scanner)
    }

    #[inline(always)]
    #[allow(clippy::inline_always)] // It has one caller.
    fn read_compact_names(&mut self, scanner: &mut Scanner<'a>) -> bool {
        let first = scanner.rest_of_text().strip_prefix('"');
        self.read_separated_names::<false>(scanner, first, |after| after.strip_prefix(",\""))
    }

    /// Reads on, names with escapes included.
    #[inline(never)] // So that it takes no registers from plain names.
    fn read_escaped_names(&mut self, scanner: &mut Scanner<'a>) -> bool {
        let first = scanner
            .rest_of_text()
            .strip_prefix(if self.count == 0 { "\"" } else { ",\"" });
        self.read_separated_names::<true>(scanner, first, |after| after.strip_prefix(",\""))
    }

    #[inline(never)] // So that it takes no registers from compact names.
    fn read_spaced_names(&mut self, scanner: &mut Scanner<'a>) -> bool {
        let separator = scanner.separator();
        let rest = scanner.rest_of_text();
        let first = if self.count == 0 {
            rest.strip_prefix('"')
        } else {
            separator.strip(rest)
        };
        self.read_separated_names::<false>(scanner, first, |after| separator.strip(after))
    }

    /// Reads names from `next` on, which starts after the opening quote. `strip` removes what separates them.
    #[inline(always)]
    #[allow(clippy::inline_always)] // So that each caller has a loop of its own.
    fn read_separated_names<const ESCAPES: bool>(
        &mut self,
        scanner: &mut Scanner<'a>,
        mut next: Option<&'a str>,
        strip: impl Fn(&'a str) -> Option<&'a str>,
    ) -> bool {
        let mut last = scanner.rest_of_text();
        let mut ends = PlainEnds::new(next.unwrap_or_default());
        let mut count = self.count;
        while let Some(inside) = next
            && let Some((name, after)) = ends.split::<ESCAPES>(inside)
        {
            if let Some(entry) = self.buffer.get_mut(count) {
                *entry = name;
            }
            count = count.wrapping_add(1);
            last = after;
            next = strip(after);
        }
        self.count = count;
        scanner.step_to(last.as_bytes());
        scanner.eat_closing(b']')
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::ToOwned;
    use std::fmt::Write;
    use std::format;
    use std::fs;
    use std::path::Path;
    use std::string::{String, ToString};
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::document::Document;
    use crate::json::Text;
    use crate::json::fast_path::DISABLED;

    /// Everything that can be read from the document, as text.
    fn reading(body: &[u8]) -> String {
        let mut reading = String::new();
        let document =
            Document::parse_each(body, &mut [Text::plain(""); 4], |event, bytes, names| {
                writeln!(
                    reading,
                    "{bytes:?} {event:?} {names:?} {:?}",
                    event.layout()
                )
                .unwrap();
            });
        match document {
            Ok(document) => {
                for event in document.events() {
                    writeln!(reading, "{event:?} {:?} {}", event.layout(), event.object()).unwrap();
                }
                document
                    .problems()
                    .for_each(|problem| writeln!(reading, "{problem:?}").unwrap());
                writeln!(reading, "{document:?}").unwrap();
            }
            Err(error) => writeln!(reading, "{error:?}: {error}").unwrap(),
        }
        writeln!(
            reading,
            "{:?}",
            Event::parse(body).map_err(|error| error.to_string())
        )
        .unwrap();
        reading
    }

    fn assert_both_paths_agree(body: &[u8]) {
        let fast = reading(body);
        DISABLED.set(true);
        let plain = reading(body);
        DISABLED.set(false);
        assert_eq!(fast, plain, "{}", body.escape_ascii());
    }

    #[test]
    fn an_event_as_azure_writes_it_takes_the_fast_path() {
        let compact = r#"{"EventId":"C7061BAC-AFDC-4513-B24B-AA5F13A16123","EventStatus":"Started","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["vm_0","vm_1"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT","Description":"Virtual machine is being paused","EventSource":"Platform","DurationInSeconds":9}"#;
        for text in [
            compact.to_owned(),
            compact.replace(",\"", ", \""),
            compact.replace(",\"", ",\n  \"").replace("{\"", "{\n  \""),
        ] {
            let mut scanner = Scanner::new(&text, 0, 0);
            scanner.open_object().unwrap();
            let mut event = Event::unread(&scanner, 0);
            let seen = event.read_in_usual_order(&mut scanner, &mut NameBuffer::new(&mut []));
            assert!(
                seen.contains(Member::EventId) && seen.contains(Member::DurationInSeconds),
                "{text}"
            );
        }
    }

    /// The files of a folder of the repository's `tests`.
    fn files(folder: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../tests")
            .join(folder);
        let paths = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        paths
            .filter(|path| path.is_file())
            .map(|path| fs::read(path).unwrap())
            .collect()
    }

    #[test]
    fn both_paths_read_the_corpus_alike() {
        let files = files("corpus");
        assert!(files.len() > 100);
        for body in files {
            assert_both_paths_agree(&body);
            // Truncated in many places of the first events.
            for end in (0..body.len().min(1_000)).step_by(13) {
                assert_both_paths_agree(&body[..end]);
            }
        }
    }

    #[test]
    fn both_paths_read_the_conformance_cases_alike() {
        for file in files("conformance") {
            for line in String::from_utf8(file).unwrap().lines() {
                // Not unescaped: any text is a case, and most are read differently in different members.
                let Some(value) = line.split('\t').rev().nth(1) else {
                    continue;
                };
                for member in [
                    "EventId",
                    "EventStatus",
                    "Resources",
                    "NotBefore",
                    "DurationInSeconds",
                    "New",
                ] {
                    let before = r#"{"Events":[{"EventId":"a","EventStatus":"Scheduled","EventType":"Freeze","#;
                    assert_both_paths_agree(
                        format!(r#"{before}"{member}":{value}}}]}}"#).as_bytes(),
                    );
                    assert_both_paths_agree(
                        format!(r#"{{"Events":[{{"{member}":{value}}}]}}"#).as_bytes(),
                    );
                    assert_both_paths_agree(
                        format!(r#"{{"Events":[{{"{member}":[{value}]}}]}}"#).as_bytes(),
                    );
                }
                for rest in [
                    r#","Events":[]"#,
                    r#", "Events" : []"#,
                    r#","DocumentIncarnation":2,"Events":[]"#,
                    "",
                ] {
                    assert_both_paths_agree(
                        format!(r#"{{"DocumentIncarnation":{value}{rest}}}"#).as_bytes(),
                    );
                }
            }
        }
    }

    /// The members of an event, mostly in Azure's order and form.
    fn members() -> impl Strategy<Value = Vec<String>> {
        let text = prop_oneof![
            Just(""),
            Just("C7061BAC-AFDC-4513-B24B-AA5F13A16123"),
            Just("Scheduled"),
            Just("Started"),
            Just("VirtualMachine"),
            Just("Mon, 19 Sep 2016 18:29:47 GMT"),
            Just("Platform"),
            Just("caf\u{e9} \\u00e9"),
            Just(
                "a text that is longer than a block of sixty-four bytes, so that two of them are needed"
            ),
        ];
        let value = prop_oneof![
            6 => text.prop_map(|text| format!("\"{text}\"")),
            1 => Just(String::from("null")),
            1 => Just(String::from("-1")),
            1 => (0..20_000_000_000_u64).prop_map(|number| number.to_string()),
            2 => prop::collection::vec(prop_oneof![5 => Just("\"vm_0\""), 1 => Just("\"\\u0061\""), 1 => Just("7")], 0..9)
                .prop_map(|names| format!("[{}]", names.join(","))),
            1 => Just(String::from("{\"a\":[]}")),
            1 => Just(String::from("\"\n\"")),
        ];
        prop::collection::vec(value, 9).prop_map(|values| {
            let names = [
                "EventId",
                "EventStatus",
                "EventType",
                "ResourceType",
                "Resources",
                "NotBefore",
                "Description",
                "EventSource",
                "DurationInSeconds",
            ];
            names
                .iter()
                .zip(values)
                .map(|(name, value)| format!("\"{name}\":{value}"))
                .collect()
        })
    }

    proptest! {
        #[test]
        fn both_paths_read_random_documents_alike(
            events in prop::collection::vec((members(), any::<bool>(), 0_usize..9, prop::sample::select(&[",", ", ", ",\n  ", " ,"])), 1..4),
            inner in prop::sample::select(&["", " ", "\n    "]),
            end in any::<prop::sample::Index>(),
            byte: u8,
        ) {
            let mut objects = Vec::new();
            for (mut members, shuffled, at, separator) in events {
                if shuffled {
                    members.rotate_left(at);
                    members.swap(0, at);
                }
                let mut object = format!("{{{inner}{}{inner}}}", members.join(separator));
                if separator.len() > 1 {
                    object = object.replace("\":", "\": ").replace("\",\"vm", &format!("\"{separator}\"vm"));
                }
                objects.push(object);
            }
            let document = format!("{{\"DocumentIncarnation\":1,\"Events\":[{}]}}", objects.join(","));
            assert_both_paths_agree(document.as_bytes());
            let mut bytes = document.into_bytes();
            let at = end.index(bytes.len());
            assert_both_paths_agree(&bytes[..at]);
            bytes[at] = byte;
            assert_both_paths_agree(&bytes);
        }
    }
}
