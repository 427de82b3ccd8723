//! Times: parsing, writing, and arithmetic.

use core::fmt;
use core::ops::{Add, AddAssign};
use core::time::Duration;

use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};

use crate::error::BufferTooSmall;
use crate::slice_writer::SliceWriter;

/// A time in whole seconds since 1970-01-01T00:00:00Z, leap seconds not counted.
///
/// It is displayed and serialized as RFC 3339 in UTC.
///
/// ```
/// use scheduled_events_core::UnixSeconds;
///
/// let moment = UnixSeconds::parse("Mon, 11 Apr 2022 22:26:58 GMT").unwrap();
/// assert_eq!(moment, UnixSeconds(1_649_716_018));
/// assert_eq!(moment.to_string(), "2022-04-11T22:26:58Z");
/// assert_eq!(UnixSeconds::parse("2022-04-12T00:26:58.123+02:00"), Some(moment));
/// assert_eq!(UnixSeconds::parse("30 Feb 2022"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixSeconds(pub i64);

impl UnixSeconds {
    /// Parses RFC 1123 (`Mon, 19 Sep 2016 18:29:47 GMT`) or the RFC 3339 profile of ISO 8601
    /// (`2018-04-12T16:58:30.1458776Z`), truncated to seconds. Returns `None` for any other text, and for a date or time
    /// that does not exist.
    ///
    /// The weekday is ignored, since Microsoft's documentation has examples with wrong ones. A time without an offset is
    /// UTC. White space around the time is skipped.
    pub fn parse(text: &str) -> Option<Self> {
        fixed(text.as_bytes()).or_else(|| free(text)).map(Self)
    }

    /// The longest text that [`write`](Self::write) writes, in bytes: a year of twelve digits and a sign. A year of four
    /// digits takes 20 bytes.
    pub const WRITTEN_MAX: usize = 29;

    /// Writes the time as RFC 3339 in UTC to the front of `buffer`, without [`core::fmt`].
    ///
    /// # Errors
    /// [`BufferTooSmall`] with the number of bytes needed.
    ///
    /// ```
    /// use scheduled_events_core::UnixSeconds;
    ///
    /// let mut buffer = [0; UnixSeconds::WRITTEN_MAX];
    /// assert_eq!(UnixSeconds(1_649_716_018).write(&mut buffer), Ok("2022-04-11T22:26:58Z"));
    /// ```
    pub fn write(self, buffer: &mut [u8]) -> Result<&str, BufferTooSmall> {
        let (days, second) = (self.0.div_euclid(DAY), self.0.rem_euclid(DAY));
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (
            second.div_euclid(3600),
            second.div_euclid(60) % 60,
            second % 60,
        );
        let mut writer = SliceWriter::new(buffer);
        decimal(&mut writer, year, 4);
        for (mark, number) in [
            (b'-', month),
            (b'-', day),
            (b'T', hour),
            (b':', minute),
            (b':', second),
        ] {
            writer.byte(mark);
            decimal(&mut writer, number, 2);
        }
        writer.byte(b'Z');
        // What was written is ASCII.
        writer
            .written()
            .map(|text| core::str::from_utf8(text).unwrap_or_default())
    }

    /// The time `seconds` seconds earlier.
    ///
    /// ```
    /// use scheduled_events_core::UnixSeconds;
    ///
    /// let not_before = UnixSeconds::parse("2022-04-11T22:26:58Z").unwrap();
    /// assert_eq!(not_before.minus(15 * 60).to_string(), "2022-04-11T22:11:58Z");
    /// ```
    #[must_use]
    pub const fn minus(self, seconds: u32) -> Self {
        Self(self.0.saturating_sub(seconds as i64))
    }

    /// The seconds from `earlier` to this time; negative if this time is earlier.
    ///
    /// ```
    /// use scheduled_events_core::UnixSeconds;
    ///
    /// let (now, not_before) = (UnixSeconds(1_649_715_418), UnixSeconds(1_649_716_018));
    /// assert_eq!(not_before.since(now), 600); // ten minutes of notice
    /// assert_eq!(now.since(not_before), -600);
    /// ```
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for UnixSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            self.write(&mut [0; Self::WRITTEN_MAX])
                .map_err(|_| fmt::Error)?,
        )
    }
}

impl Serialize for UnixSeconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UnixSeconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = UnixSeconds;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time in RFC 3339 or RFC 1123 format")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<UnixSeconds, E> {
                UnixSeconds::parse(text)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}

/// A time in milliseconds since 1970-01-01T00:00:00Z, for the timing of requests.
///
/// A [`Session`](crate::Session) needs a clock that never steps: read the wall clock once, then add the [`Duration`] that a
/// monotonic clock has measured since, such as `Instant::elapsed`. [`TickClock`] does so with a counter of milliseconds that wraps.
/// Arithmetic saturates.
///
/// ```
/// use core::time::Duration;
///
/// use scheduled_events_core::{UnixMillis, UnixSeconds};
///
/// let start = UnixMillis::from(UnixSeconds(1_600_000_000));
/// let now = start + Duration::from_millis(2_500);
/// assert_eq!(now.millis_since(start), 2_500);
/// assert_eq!(start + Duration::MAX, UnixMillis(i64::MAX));
/// assert_eq!(start.checked_add(Duration::MAX), None);
/// assert_eq!(start.millis_since(now), 0);
/// assert_eq!(now.seconds(), UnixSeconds(1_600_000_002));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub i64);

impl UnixMillis {
    /// Parses what [`UnixSeconds::parse`] does, truncated to milliseconds.
    ///
    /// ```
    /// use scheduled_events_core::UnixMillis;
    ///
    /// assert_eq!(UnixMillis::parse("2024-12-04T18:01:13.2675752Z"), Some(UnixMillis(1_733_335_273_267)));
    /// assert_eq!(UnixMillis::parse("2024-12-04T18:01:13.5+01:00"), Some(UnixMillis(1_733_331_673_500)));
    /// assert_eq!(UnixMillis::parse("soon"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let seconds = Self::from(UnixSeconds::parse(text)?);
        // Only a fraction follows a point in these formats.
        let fraction = text.bytes().skip_while(|byte| *byte != b'.').skip(1);
        let digits = fraction.take_while(u8::is_ascii_digit).chain([b'0'; 3]);
        let millis = digits
            .zip([100, 10, 1])
            .fold(0, |millis: u32, (digit, weight)| {
                millis.saturating_add(u32::from(digit.wrapping_sub(b'0')).saturating_mul(weight))
            });
        Some(seconds.plus(millis))
    }

    /// The time that much later, in whole milliseconds; `None` if it cannot be represented. `+` saturates instead.
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        let millis = u64::try_from(duration.as_millis()).ok()?;
        self.0.checked_add_unsigned(millis).map(Self)
    }

    /// The time `millis` milliseconds later. A counter of milliseconds in a `u32` wraps after 49.7 days; see [`TickClock`].
    ///
    /// ```
    /// use scheduled_events_core::UnixMillis;
    ///
    /// assert_eq!(UnixMillis(1_000).plus(500), UnixMillis(1_500));
    /// ```
    #[must_use]
    pub const fn plus(self, millis: u32) -> Self {
        Self(self.0.saturating_add(millis as i64))
    }

    /// The whole second of this time.
    pub const fn seconds(self) -> UnixSeconds {
        UnixSeconds(self.0.div_euclid(1000))
    }

    /// The milliseconds from `earlier` to this time; 0 if this time is earlier.
    pub const fn millis_since(self, earlier: Self) -> u64 {
        if self.0 < earlier.0 {
            return 0;
        }
        self.0.abs_diff(earlier.0)
    }
}

impl From<UnixSeconds> for UnixMillis {
    fn from(seconds: UnixSeconds) -> Self {
        Self(seconds.0.saturating_mul(1000))
    }
}

impl Add<Duration> for UnixMillis {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        self.checked_add(duration).unwrap_or(Self(i64::MAX))
    }
}

impl AddAssign<Duration> for UnixMillis {
    fn add_assign(&mut self, duration: Duration) {
        *self = self.add(duration);
    }
}

/// The clock of a machine that counts milliseconds since its start in 32 bits: the counter wraps after 49.7 days, and the time
/// goes on.
///
/// ```
/// use scheduled_events_core::{TickClock, UnixMillis};
///
/// // The time of day was learned when the counter was about to wrap.
/// let mut clock = TickClock::new(UnixMillis(1_600_000_000_000), u32::MAX);
/// assert_eq!(clock.now(u32::MAX), UnixMillis(1_600_000_000_000));
/// assert_eq!(clock.now(1_499), UnixMillis(1_600_000_001_500));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickClock {
    now: UnixMillis,
    ticks: u32,
}

impl TickClock {
    /// A clock that shows `now` when the counter shows `ticks`.
    pub const fn new(now: UnixMillis, ticks: u32) -> Self {
        Self { now, ticks }
    }

    /// The time when the counter shows `ticks`. To be called at least once in 49 days, as each poll does.
    pub const fn now(&mut self, ticks: u32) -> UnixMillis {
        self.now = self.now.plus(ticks.wrapping_sub(self.ticks));
        self.ticks = ticks;
        self.now
    }
}

/// Writes the number in decimal, padded with zeros to `width`, which includes the sign.
fn decimal(writer: &mut SliceWriter<'_>, number: i64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut count: usize = 0;
    let mut rest = number.unsigned_abs();
    for place in digits.iter_mut().rev() {
        *place = b'0'.wrapping_add((rest % 10) as u8);
        rest /= 10;
        count = count.saturating_add(1);
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        writer.byte(b'-');
    }
    let width = width.saturating_sub(usize::from(number < 0)).max(count);
    for digit in digits.iter().skip(digits.len().saturating_sub(width)) {
        writer.byte(*digit);
    }
}

const DAY: i64 = 86_400;
/// 1970-01-01, counted from 0000-03-01.
const FIRST_DAY: i64 = 719_468;

/// RFC 1123 at fixed positions, as Azure writes it: `Mon, 19 Sep 2016 18:29:47 GMT`.
fn fixed(text: &[u8]) -> Option<i64> {
    let &[
        w1,
        w2,
        w3,
        b',',
        b' ',
        d1,
        d2,
        b' ',
        m1,
        m2,
        m3,
        b' ',
        ref rest @ ..,
    ] = text
    else {
        return None;
    };
    let &[
        y1,
        y2,
        y3,
        y4,
        b' ',
        h1,
        h2,
        b':',
        i1,
        i2,
        b':',
        s1,
        s2,
        b' ',
        b'G',
        b'M',
        b'T',
    ] = rest
    else {
        return None;
    };
    let mut digits = true;
    let mut pair = |tens: u8, ones: u8| {
        digits &= tens.is_ascii_digit() & ones.is_ascii_digit();
        u32::from(tens & 0xf)
            .wrapping_mul(10)
            .wrapping_add(u32::from(ones & 0xf))
    };
    let (day, year) = (
        pair(d1, d2),
        pair(y1, y2).wrapping_mul(100).wrapping_add(pair(y3, y4)),
    );
    let (hour, minute, second) = (pair(h1, h2), pair(i1, i2), pair(s1, s2));
    if !digits || ![w1, w2, w3].iter().all(u8::is_ascii_alphabetic) {
        return None;
    }
    Some(moment(
        days(year, month(&[m1, m2, m3])?, day)?,
        second_of_day(hour, minute, second)?,
    ))
}

/// All other forms, with white space around them.
#[inline(never)]
fn free(text: &str) -> Option<i64> {
    let text = text.trim_matches([' ', '\t']).as_bytes();
    rfc_1123(text).or_else(|| iso_8601(text))
}

/// `[weekday ","] day month year hour ":" minute ":" second zone`
fn rfc_1123(text: &[u8]) -> Option<i64> {
    let text = match text.iter().position(|&byte| byte == b',') {
        Some(comma) => {
            let (weekday, rest) = text.split_at_checked(comma)?;
            if weekday.is_empty() || !weekday.iter().all(u8::is_ascii_alphabetic) {
                return None;
            }
            rest.strip_prefix(b",")?.trim_ascii_start()
        }
        None => text,
    };
    let mut words = text
        .split(|&byte| byte == b' ')
        .filter(|word| !word.is_empty());
    let day = digits(words.next()?, 1..=2)?;
    let month = month(words.next()?)?;
    let year = digits(words.next()?, 4..=4)?;
    let clock = words.next()?;
    let zone = words.next()?;
    if words.next().is_some()
        || !(zone.eq_ignore_ascii_case(b"GMT") || zone.eq_ignore_ascii_case(b"UTC"))
    {
        return None;
    }
    let (second, rest) = time_of_day(clock)?;
    if !rest.is_empty() {
        return None;
    }
    Some(moment(days(year, month, day)?, second))
}

/// The number of a month's name, from 1.
fn month(name: &[u8]) -> Option<u32> {
    let &[first, second, third] = name else {
        return None;
    };
    // Lower case; only letters become these.
    match &[first | 0x20, second | 0x20, third | 0x20] {
        b"jan" => Some(1),
        b"feb" => Some(2),
        b"mar" => Some(3),
        b"apr" => Some(4),
        b"may" => Some(5),
        b"jun" => Some(6),
        b"jul" => Some(7),
        b"aug" => Some(8),
        b"sep" => Some(9),
        b"oct" => Some(10),
        b"nov" => Some(11),
        b"dec" => Some(12),
        _ => None,
    }
}

/// `year "-" month "-" day ("T" / "t" / " ") hour ":" minute ":" second ["." fraction] [zone]`
fn iso_8601(text: &[u8]) -> Option<i64> {
    let (year, text) = field(text, 4)?;
    let (month, text) = field(text.strip_prefix(b"-")?, 2)?;
    let (day, text) = field(text.strip_prefix(b"-")?, 2)?;
    let [b'T' | b't' | b' ', clock @ ..] = text else {
        return None;
    };
    let (second, rest) = time_of_day(clock)?;
    let rest = match rest {
        [b'.', fraction @ ..] => {
            let after = fraction.trim_ascii_start();
            let length = after
                .iter()
                .position(|byte| !byte.is_ascii_digit())
                .unwrap_or(after.len());
            if length == 0 || after.len() != fraction.len() {
                return None;
            }
            fraction.get(length..)?
        }
        _ => rest,
    };
    let local = moment(days(year, month, day)?, second);
    let offset = match rest {
        [] | [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), zone @ ..] => {
            let (hours, zone) = field(zone, 2)?;
            let (minutes, zone) = field(zone.strip_prefix(b":").unwrap_or(zone), 2)?;
            if hours > 23 || minutes > 59 || !zone.is_empty() {
                return None;
            }
            let east = i64::from(
                hours
                    .wrapping_mul(3600)
                    .wrapping_add(minutes.wrapping_mul(60)),
            );
            if *sign == b'-' {
                east.wrapping_neg()
            } else {
                east
            }
        }
        _ => return None,
    };
    Some(local.saturating_sub(offset))
}

/// `hour ":" minute ":" second` in seconds, and the rest of the text.
fn time_of_day(text: &[u8]) -> Option<(u32, &[u8])> {
    let (hour, text) = field(text, 2)?;
    let (minute, text) = field(text.strip_prefix(b":")?, 2)?;
    let (second, text) = field(text.strip_prefix(b":")?, 2)?;
    Some((second_of_day(hour, minute, second)?, text))
}

fn second_of_day(hour: u32, minute: u32, second: u32) -> Option<u32> {
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(
        hour.wrapping_mul(3600)
            .wrapping_add(minute.wrapping_mul(60))
            .wrapping_add(second),
    )
}

/// A number of exactly `width` digits, and the rest of the text.
fn field(text: &[u8], width: usize) -> Option<(u32, &[u8])> {
    let (number, rest) = text.split_at_checked(width)?;
    Some((digits(number, width..=width)?, rest))
}

/// A number of at most four digits.
fn digits(text: &[u8], widths: core::ops::RangeInclusive<usize>) -> Option<u32> {
    if !widths.contains(&text.len()) || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0, |value: u32, byte| {
        value.wrapping_mul(10).wrapping_add(u32::from(byte & 0xf))
    }))
}

/// Seconds since 1970-01-01 of this second of the day that is `days` days after 0000-03-01.
#[inline]
fn moment(days: u32, second: u32) -> i64 {
    i64::from(days)
        .wrapping_sub(FIRST_DAY)
        .wrapping_mul(DAY)
        .wrapping_add(second.into())
}

/// Days from 0000-03-01 to a Gregorian date; `None` if the date does not exist.
fn days(year: u32, month: u32, day: u32) -> Option<u32> {
    if !(1..=9999).contains(&year)
        || !(1..=12).contains(&month)
        || day < 1
        || day > month_length(year, month)
    {
        return None;
    }
    // Count years from March, so that the leap day is the last day of a year.
    let (year, month) = if month > 2 {
        (year, month)
    } else {
        (year.wrapping_sub(1), month.wrapping_add(12))
    };
    let days_of_months = month.wrapping_sub(3).wrapping_mul(153).wrapping_add(2) / 5;
    let leap_days = (year / 4).wrapping_sub(year / 100).wrapping_add(year / 400);
    Some(
        year.wrapping_mul(365)
            .wrapping_add(leap_days)
            .wrapping_add(days_of_months)
            .wrapping_add(day)
            .wrapping_sub(1),
    )
}

fn month_length(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        _ => 31,
    }
}

/// The date that is `days` days after 1970-01-01: the inverse of [`days`].
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(FIRST_DAY);
    let (cycle, day_of_cycle) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_cycle = day_of_cycle
        .wrapping_sub(day_of_cycle.div_euclid(1_460))
        .wrapping_add(day_of_cycle.div_euclid(36_524))
        .wrapping_sub(day_of_cycle.div_euclid(146_096))
        .div_euclid(365);
    let day_of_year = day_of_cycle
        .wrapping_sub(year_of_cycle.wrapping_mul(365))
        .wrapping_sub(year_of_cycle.div_euclid(4))
        .wrapping_add(year_of_cycle.div_euclid(100));
    let month_from_march = day_of_year.wrapping_mul(5).wrapping_add(2).div_euclid(153);
    let day = day_of_year
        .wrapping_sub(
            month_from_march
                .wrapping_mul(153)
                .wrapping_add(2)
                .div_euclid(5),
        )
        .wrapping_add(1);
    let month = if month_from_march < 10 {
        month_from_march.wrapping_add(3)
    } else {
        month_from_march.wrapping_sub(9)
    };
    let year = cycle
        .wrapping_mul(400)
        .wrapping_add(year_of_cycle)
        .wrapping_add(i64::from(month <= 2));
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> Option<std::string::String> {
        UnixSeconds::parse(text).map(|moment| moment.to_string())
    }

    #[test]
    fn a_clock_of_32_bits_goes_on_when_it_wraps() {
        let day = Duration::from_secs(24 * 3600);
        let start = UnixMillis(1_600_000_000_000);
        let mut clock = TickClock::new(start, 0);
        for days in 1..200_u32 {
            let ticks = 86_400_000_u32.wrapping_mul(days);
            assert_eq!(clock.now(ticks), start + day * days, "{days} days");
        }
    }

    #[test]
    fn a_sum_beyond_all_time_saturates_or_is_none() {
        let last = UnixMillis(i64::MAX);
        let millisecond = Duration::from_millis(1);
        assert_eq!(
            (last + millisecond, last.checked_add(millisecond)),
            (last, None)
        );
        let mut time = UnixMillis(i64::MIN);
        time += Duration::from_micros(1_999);
        assert_eq!(time, UnixMillis(i64::MIN + 1));
        assert_eq!(time + Duration::MAX, last);
    }

    #[test]
    fn from_the_first_millisecond_to_the_last_nothing_is_cut() {
        let (first, last) = (UnixMillis(i64::MIN), UnixMillis(i64::MAX));
        let all = Duration::from_millis(u64::MAX);
        assert_eq!(first.checked_add(all), Some(last));
        assert_eq!(
            (last.millis_since(first), first.millis_since(last)),
            (u64::MAX, 0)
        );
    }

    #[test]
    fn parses_rfc_1123_and_iso_8601_times() {
        for (text, expected) in [
            ("Mon, 19 Sep 2016 18:29:47 GMT", "2016-09-19T18:29:47Z"),
            ("Fri, 19 Sep 2016 18:29:47 GMT", "2016-09-19T18:29:47Z"),
            ("mon, 9 sep 2016 18:29:47 utc", "2016-09-09T18:29:47Z"),
            ("19 Sep 2016 18:29:47 GMT", "2016-09-19T18:29:47Z"),
            (" 2018-04-12T16:58:30Z ", "2018-04-12T16:58:30Z"),
            ("2018-04-12T16:58:30.145Z", "2018-04-12T16:58:30Z"),
            ("2018-04-12T16:58:30.1458776Z", "2018-04-12T16:58:30Z"),
            ("2018-04-12T16:58:30", "2018-04-12T16:58:30Z"),
            ("2018-04-12 16:58:30-0730", "2018-04-13T00:28:30Z"),
            ("2024-02-29T00:00:00+02:00", "2024-02-28T22:00:00Z"),
            ("2024-02-29T00:00:00+23:59", "2024-02-28T00:01:00Z"),
            ("2000-02-29T00:00:00Z", "2000-02-29T00:00:00Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
            ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn rejects_other_texts() {
        for text in [
            "",
            "now",
            "20170702",
            "2018-04-12",
            "2018-04-12T16:58Z",
            "2018-04-12T16:58:30.Z",
            "2018-04-12T16:58:30. 5Z",
            "2018-04-12T16:58:30+2",
            "2018-04-12T16:58:30+24:00",
            "2018-04-12T16:58:30+02:60",
            "2018-04-12T16:58:30+02:000",
            "2018-04-12T16:58:30ZZ",
            "2018-02-30T00:00:00Z",
            "2018-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2018-13-01T00:00:00Z",
            "2018-00-01T00:00:00Z",
            "2018-01-00T00:00:00Z",
            "0000-01-01T00:00:00Z",
            "2018-01-01T24:00:00Z",
            "2018-01-01T23:60:00Z",
            "2018-01-01T23:59:60Z",
            "+018-01-01T00:00:00Z",
            "Mon, 19 Sep 2016 18:29:47",
            "Mon, 19 Sep 2016 18:29:47 CET",
            "Mon, 19 Sep 16 18:29:47 GMT",
            "Mon, 31 Sep 2016 18:29:47 GMT",
            "Mon, 19 Sept 2016 18:29:47 GMT",
            "Mon 19 Sep 2016 18:29:47 GMT",
            ", 19 Sep 2016 18:29:47 GMT",
            "Mon, 19 Sep 2016 18:29:47 GMT GMT",
            "Mon, 19 Sep 2016 18:29:47.5 GMT",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    #[test]
    fn differences_saturate() {
        assert_eq!(UnixSeconds(7).since(UnixSeconds(5)), 2);
        assert_eq!(UnixSeconds(5).since(UnixSeconds(7)), -2);
        assert_eq!(UnixSeconds(i64::MAX).since(UnixSeconds(-1)), i64::MAX);
        assert_eq!(UnixMillis(7).millis_since(UnixMillis(5)), 2);
        assert_eq!(UnixMillis(5).millis_since(UnixMillis(5)), 0);
        assert_eq!(UnixMillis(5).millis_since(UnixMillis(7)), 0);
        assert_eq!(UnixMillis(5).plus(7), UnixMillis(12));
        assert_eq!(UnixMillis(-1).seconds(), UnixSeconds(-1));
        assert_eq!(UnixMillis::from(UnixSeconds(3)), UnixMillis(3000));
    }

    #[test]
    fn a_deserialization_error_names_the_expected_format() {
        let refused = serde_json::from_str::<UnixSeconds>("\"soon\"")
            .unwrap_err()
            .to_string();
        assert!(
            refused.starts_with(
                "invalid value: string \"soon\", expected a time in RFC 3339 or RFC 1123 format"
            ),
            "{refused}"
        );
    }

    #[test]
    fn write_needs_exactly_the_length_of_the_text() {
        for (moment, expected) in [
            (i64::MIN, "-292277022657-01-27T08:29:52Z"),
            (i64::MAX, "292277026596-12-04T15:30:07Z"),
            (-62_167_219_200, "0000-01-01T00:00:00Z"),
            (-62_167_219_201, "-001-12-31T23:59:59Z"),
        ] {
            let mut buffer = [0; UnixSeconds::WRITTEN_MAX];
            assert_eq!(UnixSeconds(moment).write(&mut buffer), Ok(expected));
            assert_eq!(UnixSeconds(moment).to_string(), expected);
            let needed = expected.len();
            assert_eq!(
                UnixSeconds(moment).write(&mut buffer[..needed - 1]),
                Err(BufferTooSmall { needed })
            );
        }
    }

    proptest! {
        #[test]
        fn a_displayed_time_parses_back(seconds in -62_135_596_800_i64..=253_402_300_799) {
            let moment = UnixSeconds(seconds);
            prop_assert_eq!(UnixSeconds::parse(&moment.to_string()), Some(moment));
        }

        #[test]
        fn both_parsers_of_rfc_1123_agree(
            seconds in -62_135_596_800_i64..=253_402_300_799, place in 0_usize..29, byte in prop::sample::select(b"059:, AaGz\0".to_vec()),
        ) {
            let iso = UnixSeconds(seconds).to_string();
            let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
            let month = months[iso[5..7].parse::<usize>().unwrap() - 1];
            let text = std::format!("Mon, {} {month} {} {} GMT", &iso[8..10], &iso[..4], &iso[11..19]);
            prop_assert_eq!(fixed(text.as_bytes()), Some(seconds));
            prop_assert_eq!(free(&text), Some(seconds));
            let mut changed = text.into_bytes();
            changed[place] = byte;
            let changed = std::string::String::from_utf8(changed).unwrap();
            if let Some(read) = fixed(changed.as_bytes()) {
                prop_assert_eq!(free(&changed), Some(read));
            }
        }

        #[test]
        fn no_text_panics(text in ".{0,40}", seconds: i64) {
            let _ = UnixSeconds::parse(&text);
            let _ = UnixSeconds(seconds).to_string();
        }
    }
}
