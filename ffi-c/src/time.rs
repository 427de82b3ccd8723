//! Moments, read and written.

use std::ffi::c_char;

use scheduled_events_core::UnixSeconds;

use crate::boundary::boundary;
use crate::memory::{fill, output, utf8};
use crate::status::schedev_status::{self, SCHEDEV_ERROR_TIME};

/// Reads a time: RFC 1123 ("Mon, 19 Sep 2016 18:29:47 GMT") or ISO 8601 ("2018-04-12T16:58:30.1458776Z"). Fractions of
/// a second are cut off, an offset is converted, and no offset means UTC.
///
/// @param data     the text, UTF-8; NULL where len is 0.
/// @param len      its length in bytes.
/// @param seconds  receives the seconds since 1970-01-01T00:00:00Z, leap seconds not counted.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_TIME for what is no time; SCHEDEV_ERROR_UTF8; SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_time_parse(data: *const c_char, len: usize, seconds: *mut i64) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header.
        let (text, seconds) = unsafe { (utf8(data, len)?, output(seconds)?) };
        seconds.write(UnixSeconds::parse(text).ok_or(SCHEDEV_ERROR_TIME)?.0);
        Ok(())
    })
}

/// Writes a moment as RFC 3339 in UTC, such as "2022-04-11T22:26:58Z".
///
/// @param seconds   seconds since 1970-01-01T00:00:00Z.
/// @param buffer    receives the text, and a NUL where there is room for it; NULL where capacity is 0.
/// @param capacity  the bytes that the buffer holds; 32 are enough for every year of four digits.
/// @param needed    receives the length of the text in bytes, the NUL not counted, also where it does not fit.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL; SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_time_format(
    seconds: i64,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> schedev_status {
    boundary(|| {
        let (text, length) = rfc_3339(seconds);
        // SAFETY: the conventions of the header.
        unsafe {
            fill((buffer, capacity, needed), length, true, |target| {
                for (to, from) in target.iter_mut().zip(text.iter().take(length)) {
                    *to = *from;
                }
                Ok(length)
            })
        }
    })
}

/// The moment as core displays it, and its length. Written by hand, because a library that links `core::fmt` for it
/// links, with the panics in there, everything that prints them.
fn rfc_3339(seconds: i64) -> ([u8; 40], usize) {
    const DAY: i64 = 86_400;
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = civil(days);
    let mut text = Shown { bytes: [0; 40], length: 0 };
    text.number(year, 4);
    for (mark, number) in
        [(b'-', month), (b'-', day), (b'T', second / 3600), (b':', second / 60 % 60), (b':', second % 60)]
    {
        text.byte(mark);
        text.number(number, 2);
    }
    text.byte(b'Z');
    (text.bytes, text.length)
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar at all times. Eras of 400 years and
/// years that start in March make the leap days come last.
fn civil(days: i64) -> (i64, i64, i64) {
    const ERA: i64 = 146_097;
    let since_march_0000 = days.saturating_add(719_468);
    let (era, day_of_era) = (since_march_0000.div_euclid(ERA), since_march_0000.rem_euclid(ERA));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

struct Shown {
    bytes: [u8; 40],
    length: usize,
}

impl Shown {
    fn byte(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
            self.length = self.length.saturating_add(1);
        }
    }

    /// The number in decimal, filled up with zeros to `width`, its sign counted.
    fn number(&mut self, number: i64, width: usize) {
        let mut digits = [b'0'; 20];
        let mut count: usize = 0;
        let mut rest = number.unsigned_abs();
        for place in digits.iter_mut().rev() {
            *place = b'0' | (rest % 10) as u8;
            rest /= 10;
            count = count.saturating_add(1);
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            self.byte(b'-');
        }
        let width = width.saturating_sub(usize::from(number < 0)).max(count).min(digits.len());
        for digit in digits.iter().skip(digits.len().saturating_sub(width)) {
            self.byte(*digit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_as_core_displays_them() {
        let mut moments =
            vec![0, -1, i64::MIN, i64::MAX, -62_135_596_801, -62_167_219_200, -62_167_219_201, 253_402_300_800];
        moments.extend((0..40_000).map(|step| -70_000_000_000 + step * 8_639_977));
        moments.extend((0..63).flat_map(|bit| [1_i64 << bit, -(1_i64 << bit)]));
        for moment in moments {
            let (text, length) = rfc_3339(moment);
            assert_eq!(core::str::from_utf8(&text[..length]), Ok(&*UnixSeconds(moment).to_string()));
        }
    }
}
