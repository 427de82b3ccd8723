//! Times and the time-outs of notification profiles, compared with jiff.
//!
//! jiff reads every time that core reads, as the same time; core reads every time that jiff writes in one of the two
//! forms. jiff gets the text without the weekday, which core ignores, and without white space around it.
//!
//! API versions are dates, too: one that has a feature has all that were added before.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::fmt::rfc2822;
use jiff::tz::Offset;
use jiff::{Span, SpanRelativeTo, Timestamp};
use scheduled_events_core::api_version;
use scheduled_events_core::terminate::NotBeforeTimeout;
use scheduled_events_core::{TickClock, UnixMillis, UnixSeconds};

pub fn run(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Some(ours) = UnixSeconds::parse(text)
        // jiff's moments end a day before its dates do.
        && ours.0 <= Timestamp::MAX.as_second()
    {
        let theirs = jiff_reads(text)
            .unwrap_or_else(|| panic!("jiff reads no time in {text:?}, we read {ours}"));
        assert_eq!(ours.0, theirs, "{text:?}");
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(ours) = NotBeforeTimeout::parse(text)
    {
        assert_eq!(
            i64::from(ours.as_seconds()),
            jiff_reads_duration(text),
            "{text:?}"
        );
        assert_eq!(NotBeforeTimeout::parse(&ours.to_string()), Ok(ours));
    }
    if let Ok(version) = std::str::from_utf8(data) {
        let features = api_version::VERSIONS.iter().filter_map(|(_, added)| *added);
        assert!(
            features
                .map(|feature| feature.is_in(version))
                .is_sorted_by(|older, newer| older >= newer),
            "{version:?}"
        );
    }
    if let Some(bytes) = data.first_chunk::<8>() {
        let seconds = i64::from_le_bytes(*bytes);
        let _ = UnixSeconds(seconds).to_string();
        counts_on(seconds);
        written_is_read(seconds % 253_402_207_200);
        written_is_read(seconds % 62_135_596_800);
    }
}

/// Adding to a time is adding to a number, and a counter that wraps goes on.
fn counts_on(millis: i64) {
    let time = UnixMillis(millis);
    let ticks = u32::try_from(millis.unsigned_abs() >> 32).unwrap();
    let duration = Duration::from_millis(millis.unsigned_abs());
    let sum = i64::try_from(i128::from(millis) + i128::from(millis.unsigned_abs()));
    assert_eq!(time.checked_add(duration), sum.ok().map(UnixMillis));
    let mut added = time;
    added += duration;
    assert_eq!(added, UnixMillis(sum.unwrap_or(i64::MAX)));
    let mut clock = TickClock::new(time, ticks);
    assert_eq!(clock.now(ticks.wrapping_add(1)), time.plus(1));
    assert_eq!(clock.now(ticks), time.plus(1).plus(u32::MAX));
}

fn jiff_reads_duration(text: &str) -> i64 {
    let span: Span = text
        .parse()
        .unwrap_or_else(|error| panic!("jiff reads no duration in {text:?}: {error}"));
    span.to_duration(SpanRelativeTo::days_are_24_hours())
        .expect("days are 24 hours")
        .as_secs()
}

fn jiff_reads(text: &str) -> Option<i64> {
    let text = text.trim_matches([' ', '\t']);
    if text.starts_with(|char: char| char.is_ascii_digit()) && text.as_bytes().get(4) == Some(&b'-')
    {
        return jiff_reads_iso(text);
    }
    let unnamed = text.split_once(',').map_or(text, |(_, rest)| rest);
    let lower = unnamed.trim().to_ascii_lowercase();
    let local = lower
        .strip_suffix("gmt")
        .or_else(|| lower.strip_suffix("utc"))?;
    let spaced: Vec<_> = local.split_ascii_whitespace().collect();
    let mut month = spaced.get(1)?.to_string();
    month[..1].make_ascii_uppercase();
    let text = format!(
        "{} {} {} {} +0000",
        spaced.first()?,
        month,
        spaced.get(2)?,
        spaced.get(3)?
    );
    let zoned = rfc2822::DateTimeParser::new()
        .relaxed_weekday(true)
        .parse_zoned(&text)
        .ok()?;
    Some(zoned.timestamp().as_second())
}

fn jiff_reads_iso(text: &str) -> Option<i64> {
    // jiff keeps nine digits of a fraction, and refuses more.
    let fraction = text
        .get(19..)?
        .strip_prefix('.')
        .map(|rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    let zone = text.get(19 + fraction.map_or(0, |digits| digits + 1)..)?;
    let local: DateTime = text.get(..19)?.parse().ok()?;
    let offset = match zone {
        "" | "Z" | "z" => Offset::UTC,
        // Its offsets end at 25:59, ours at 23:59; both in minutes.
        _ => {
            let digits: String = zone.chars().filter(char::is_ascii_digit).collect();
            let minutes = digits.get(..2)?.parse::<i32>().ok()? * 60
                + digits.get(2..4)?.parse::<i32>().ok()?;
            let seconds = minutes * 60;
            Offset::from_seconds(if zone.starts_with('-') {
                -seconds
            } else {
                seconds
            })
            .ok()?
        }
    };
    let utc = local
        .duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0))
        .as_secs();
    Some(utc - i64::from(offset.seconds()))
}

fn written_is_read(seconds: i64) {
    let Ok(moment) = Timestamp::from_second(seconds) else {
        return;
    };
    let date = moment.to_zoned(jiff::tz::TimeZone::UTC);
    if !(1..=9999).contains(&date.year()) {
        return;
    }
    let iso = moment.to_string();
    assert_eq!(UnixSeconds(seconds).to_string(), iso);
    assert_eq!(UnixSeconds::parse(&iso), Some(UnixSeconds(seconds)));
    assert_eq!(
        serde_json::from_value::<UnixSeconds>(iso.into()).ok(),
        Some(UnixSeconds(seconds))
    );
    let rfc_1123 = date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    assert_eq!(
        UnixSeconds::parse(&rfc_1123),
        Some(UnixSeconds(seconds)),
        "{rfc_1123}"
    );
}
