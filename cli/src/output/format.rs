//! Text for people: times in words, and no character that is unsafe to print.

use std::collections::HashSet;
use std::fmt::Display;
use std::time::{SystemTime, UNIX_EPOCH};

use scheduled_events_core::UnixSeconds;
use scheduled_events_core::record::Printable;

use crate::output::table::{CELL_MAX, TEXT_MAX, cut};

pub(crate) use scheduled_events_text::words::{count, duration};

/// The meaning of the last call.
pub(crate) const LAST_CALL: &str = "the gate has not answered yes; preparing without it";

/// Text from outside, with unsafe characters escaped.
pub(crate) fn printable(text: &str) -> String {
    Printable(text).to_string()
}

/// A word from outside, such as a type or a name, with unsafe characters escaped: at most
/// [`CELL_MAX`] columns wide.
pub(crate) fn cell(text: &str) -> String {
    cut(&printable(text), CELL_MAX).into_owned()
}

/// A text from outside, such as a description, with unsafe characters escaped: at most [`TEXT_MAX`]
/// columns wide.
pub(crate) fn sentence(text: &str) -> String {
    cut(&printable(text), TEXT_MAX).into_owned()
}

/// The names without repetitions, in any case: a machine that is named twice is one machine.
pub(crate) fn distinct(names: impl IntoIterator<Item = impl Display>) -> Vec<String> {
    let mut seen = HashSet::new();
    let names = names.into_iter().map(|name| name.to_string());
    names
        .filter(|name| seen.insert(name.to_ascii_lowercase()))
        .collect()
}

/// The names of machines, the first few of them.
pub(crate) fn names(names: impl IntoIterator<Item = impl Display>) -> String {
    const FEW: usize = 3;
    let mut names = distinct(names).into_iter();
    let mut list: Vec<_> = names.by_ref().take(FEW).map(|name| cell(&name)).collect();
    match names.count() {
        0 if list.is_empty() => return "-".into(),
        0 => {}
        more => list.push(format!("and {more} more")),
    }
    list.join(", ")
}

/// The time of day now.
pub(crate) fn now() -> UnixSeconds {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    UnixSeconds(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// A time relative to now: `in 14 min 32 s`, `2 min ago`, `now`.
pub(crate) fn from_now(moment: UnixSeconds, now: UnixSeconds) -> String {
    match moment.since(now) {
        0 => "now".into(),
        ahead @ 1.. => format!("in {}", duration(ahead.unsigned_abs())),
        past => format!("{} ago", duration(past.unsigned_abs())),
    }
}

/// The date and the time of day in UTC: `2022-04-11` and `22:26:58`.
pub(crate) fn date_and_time(moment: UnixSeconds) -> (String, String) {
    let text = moment.to_string();
    let (date, time) = text
        .trim_end_matches('Z')
        .split_once('T')
        .unwrap_or((&text, ""));
    (date.to_owned(), time.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_times_are_in_words() {
        for (seconds, words) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (872, "14 min 32 s"),
            (3600, "1 h"),
            (7500, "2 h 5 min"),
            (86_400, "1 d"),
            (273_600, "3 d 4 h"),
        ] {
            assert_eq!(duration(seconds), words);
        }
        assert_eq!(from_now(UnixSeconds(10), UnixSeconds(75)), "1 min 5 s ago");
        assert_eq!(from_now(UnixSeconds(75), UnixSeconds(10)), "in 1 min 5 s");
    }

    #[test]
    fn a_machine_that_is_named_twice_counts_once() {
        for (given, expected) in [
            (&["vm_0", "VM_0"][..], "vm_0"),
            (&["a", "b", "A", "c", "B"], "a, b, c"),
            (&["a", "b", "c", "d", "D"], "a, b, c, and 1 more"),
        ] {
            assert_eq!(names(given), expected);
        }
    }

    #[test]
    fn unsafe_characters_are_escaped() {
        assert_eq!(
            printable("\u{1b}[2Jgone\r\n\u{202e}txt"),
            "\\u{1b}[2Jgone\\u{d}\\u{a}\\u{202e}txt"
        );
        assert_eq!(printable("Zoë 😀"), "Zoë 😀");
    }
}
