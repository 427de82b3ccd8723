//! Maintenance windows: when machines of a group may be taken out of service.
//!
//! A window defers only what can wait for it: Azure starts an event at its `NotBefore` in any case.
//! The times are in the configured time zone, by this machine's clock.

use std::collections::BTreeSet;

use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

/// A weekly window.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowConfig {
    /// The days on which it begins; by default, every day.
    #[serde(default = "every_day", deserialize_with = "days")]
    pub days: Vec<Weekday>,
    /// When it begins.
    #[serde(deserialize_with = "time_of_day")]
    pub from: Time,
    /// When it ends. If that is not later than `from`, it is on the next day.
    #[serde(deserialize_with = "time_of_day")]
    pub to: Time,
    /// The time zone of these times, as in the IANA database; by default, UTC.
    #[serde(default = "utc", deserialize_with = "time_zone")]
    pub time_zone: TimeZone,
}

/// A group whose windows are all closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Closed {
    /// When the next one begins.
    pub opens: Timestamp,
    /// Whether the event can wait until then: its `NotBefore` is not earlier, or unknown.
    pub can_wait: bool,
}

/// When the next window begins; `None` if one is open or there are none, both of which allow the
/// event.
pub fn opening(windows: &[WindowConfig], now: Timestamp) -> Option<Timestamp> {
    let next: Option<Vec<_>> = windows.iter().map(|window| window.opening(now)).collect();
    next?.into_iter().min()
}

impl WindowConfig {
    /// A text that is the same for equal windows.
    pub(crate) fn canonical(&self) -> String {
        let days: BTreeSet<_> = self
            .days
            .iter()
            .map(|day| day.to_monday_zero_offset())
            .collect();
        let zone = self.time_zone.iana_name().unwrap_or_default();
        format!("{days:?} {} {} {zone}", self.from, self.to)
    }

    /// When it begins next; `None` if it is open.
    fn opening(&self, now: Timestamp) -> Option<Timestamp> {
        let today = now.to_zoned(self.time_zone.clone()).date();
        // A window that began yesterday may be open; the next one begins at most a week after
        // today.
        for offset in -1..=8 {
            let Ok(date) = today.checked_add(offset.days()) else {
                continue;
            };
            if !self.days.contains(&date.weekday()) {
                continue;
            }
            let end_date = if self.to > self.from {
                Ok(date)
            } else {
                date.tomorrow()
            };
            // A time that the clocks skip becomes the time after the gap.
            let at = |time: Time, date: jiff::civil::Date| {
                date.to_datetime(time).to_zoned(self.time_zone.clone())
            };
            let (Ok(start), Ok(end)) = (
                at(self.from, date),
                end_date.and_then(|date| at(self.to, date)),
            ) else {
                continue;
            };
            if now < start.timestamp() {
                return Some(start.timestamp());
            }
            if now < end.timestamp() {
                return None;
            }
        }
        // Later than the library's calendar.
        Some(Timestamp::MAX)
    }
}

fn every_day() -> Vec<Weekday> {
    Weekday::Monday.cycle_forward().take(7).collect()
}

const fn utc() -> TimeZone {
    TimeZone::UTC
}

fn days<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Weekday>, D::Error> {
    const NAMES: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let names = Vec::<String>::deserialize(deserializer)?;
    if names.is_empty() {
        return Err(D::Error::custom(
            "found no day, expected some of Mon, Tue, Wed, Thu, Fri, Sat and Sun",
        ));
    }
    let day = |name: &String| {
        let index = NAMES
            .iter()
            .position(|known| known.eq_ignore_ascii_case(name));
        index
            .and_then(|index| every_day().get(index).copied())
            .ok_or_else(|| {
                D::Error::custom(format!(
                    "found the day {name:?}, expected Mon, Tue, Wed, Thu, Fri, Sat or Sun"
                ))
            })
    };
    names.iter().map(day).collect()
}

/// Hours and minutes.
fn time_of_day<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_time = text.len() == 5 && text.as_bytes()[2] == b':';
    Time::strptime("%H:%M", &text)
        .ok()
        .filter(|_| is_time)
        .ok_or_else(|| {
            D::Error::custom(format!(
                "found {text:?}, expected a time from \"00:00\" to \"23:59\""
            ))
        })
}

fn time_zone<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TimeZone, D::Error> {
    let name = String::deserialize(deserializer)?;
    TimeZone::get(&name).map_err(|_| {
        D::Error::custom(format!(
            "found the time zone {name:?}, expected one such as \"Europe/Oslo\""
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::{Config, GroupConfig};
    use crate::event::Event;
    use crate::group::closed_windows;
    use scheduled_events_common::toml_file;

    /// Groups that each have one of these windows.
    fn groups(windows: &str) -> Vec<GroupConfig> {
        let text = format!(
            "engine = \"folder\"\nfolder.path = \"/x\"\n[[group]]\nname = \"Web\"\nmachines = [\"web_*\"]\n\
             max_unavailable = 1\n{windows}"
        );
        Config::parse(&text)
            .unwrap_or_else(|error| panic!("{}", toml_file::place(&text, error)))
            .groups
    }

    /// For each of these times, checks when the next of these windows begins; "open" if one is
    /// open.
    fn check(windows: &str, expected: &[(&str, &str)]) {
        let groups = groups(windows);
        for (now, expected) in expected {
            let opens = opening(&groups[0].windows, now.parse().expect("a time"));
            assert_eq!(
                opens.map_or("open".to_owned(), |opens| opens.to_string()),
                *expected,
                "at {now}: {windows}"
            );
        }
    }

    #[test]
    fn without_windows_it_is_always_open() {
        check("", &[("2026-11-23T12:00:00Z", "open")]);
    }

    #[test]
    fn a_window_on_some_days() {
        // 2026-11-23 is a Monday.
        check(
            "windows = [{ days = [\"Tue\", \"sat\"], from = \"09:30\", to = \"11:00\" }]",
            &[
                ("2026-11-23T10:00:00Z", "2026-11-24T09:30:00Z"),
                ("2026-11-24T09:29:59Z", "2026-11-24T09:30:00Z"),
                ("2026-11-24T09:30:00Z", "open"),
                ("2026-11-24T10:59:59Z", "open"),
                ("2026-11-24T11:00:00Z", "2026-11-28T09:30:00Z"),
                ("2026-11-28T11:00:00Z", "2026-12-01T09:30:00Z"),
            ],
        );
        check(
            "windows = [{ days = [\"Mon\"], from = \"09:00\", to = \"10:00\" }]",
            &[("2026-11-23T10:00:00Z", "2026-11-30T09:00:00Z")],
        );
    }

    #[test]
    fn a_window_belongs_to_the_day_on_which_it_begins() {
        check(
            "windows = [{ days = [\"Sat\"], from = \"22:00\", to = \"04:00\", time_zone = \"Europe/Oslo\" }]",
            &[
                ("2026-11-28T20:59:59Z", "2026-11-28T21:00:00Z"),
                ("2026-11-29T02:59:59Z", "open"),
                ("2026-11-29T03:00:00Z", "2026-12-05T21:00:00Z"),
                // In summer it is an hour earlier in UTC.
                ("2026-07-04T19:59:59Z", "2026-07-04T20:00:00Z"),
            ],
        );
        // A whole day.
        check(
            "windows = [{ days = [\"Sun\"], from = \"00:00\", to = \"00:00\" }]",
            &[
                ("2026-11-28T23:59:59Z", "2026-11-29T00:00:00Z"),
                ("2026-11-29T23:59:59Z", "open"),
                ("2026-11-30T00:00:00Z", "2026-12-06T00:00:00Z"),
            ],
        );
    }

    #[test]
    fn days_on_which_the_clocks_change() {
        // Oslo skips from 02:00 to 03:00 on 2026-03-29, and repeats 02:00 to 03:00 on 2026-10-25.
        let night = "windows = [{ from = \"02:30\", to = \"04:00\", time_zone = \"Europe/Oslo\" }]";
        check(
            night,
            &[
                ("2026-03-29T00:59:00Z", "2026-03-29T01:30:00Z"),
                ("2026-03-29T01:59:00Z", "open"),
            ],
        );
        check(
            night,
            &[
                ("2026-10-25T00:29:00Z", "2026-10-25T00:30:00Z"),
                ("2026-10-25T01:45:00Z", "open"),
            ],
        );
    }

    #[test]
    fn one_of_several_windows_is_enough() {
        check(
            "windows = [{ from = \"22:00\", to = \"23:00\" }, { days = [\"Mon\"], from = \"12:00\", to = \"13:00\" }]",
            &[
                ("2026-11-23T11:00:00Z", "2026-11-23T12:00:00Z"),
                ("2026-11-23T12:00:00Z", "open"),
                ("2026-11-24T12:00:00Z", "2026-11-24T22:00:00Z"),
            ],
        );
    }

    #[test]
    fn an_event_waits_for_a_window_only_if_it_can() {
        let groups = groups("windows = [{ days = [\"Sat\"], from = \"22:00\", to = \"23:00\" }]");
        let now = "2026-11-23T12:00:00Z".parse().expect("a time");
        for (not_before, can_wait) in [
            (None, true),
            (Some("2026-11-23T12:15:00Z"), false),
            (Some("2026-11-28T21:59:59Z"), false),
            (Some("2026-11-28T22:00:00Z"), true),
        ] {
            let mut event = Event::new("e", "Reboot", ["web_1".into(), "db_1".into()].into());
            event.not_before = not_before.map(|text| text.parse().expect("a time"));
            let opens = "2026-11-28T22:00:00Z".parse().expect("a time");
            let expected = BTreeMap::from([("web".to_owned(), Closed { opens, can_wait })]);
            assert_eq!(
                closed_windows(&groups, &event, now),
                expected,
                "{not_before:?}"
            );
        }
        let other = Event::new("e", "Reboot", ["db_1".into()].into());
        assert_eq!(closed_windows(&groups, &other, now), BTreeMap::new());
    }

    #[test]
    fn what_is_no_window_is_refused() {
        let text = |window: &str| {
            format!(
                "engine = \"folder\"\nfolder.path = \"/x\"\n[[group]]\nname = \"a\"\nmachines = []\nmax_unavailable = 1\n\
                 windows = [{{ {window} }}]\n"
            )
        };
        for (window, expected) in [
            (
                "from = \"9:00\", to = \"10:00\"",
                "7:21 found \"9:00\", expected a time from \"00:00\" to \"23:59\"",
            ),
            (
                "from = \"24:00\", to = \"10:00\"",
                "7:21 found \"24:00\", expected a time",
            ),
            ("from = \"09:00\"", "missing field `to`"),
            (
                "days = [], from = \"09:00\", to = \"10:00\"",
                "7:21 found no day",
            ),
            (
                "days = [\"Saturday\"], from = \"09:00\", to = \"10:00\"",
                "7:21 found the day \"Saturday\", expected Mon",
            ),
            (
                "from = \"09:00\", to = \"10:00\", time_zone = \"Mars/North\"",
                "7:56 found the time zone \"Mars/North\"",
            ),
        ] {
            let text = text(window);
            let error = toml_file::place(&text, Config::parse(&text).expect_err("an error"));
            assert!(error.contains(expected), "{error}\nexpected: {expected}");
        }
    }
}
