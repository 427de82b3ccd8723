//! Records as JSON without an allocator, written by serde-json-core.
//!
//! It indexes slices, so a program that uses this links panics that it never reaches: what core promises without the feature is not
//! proved with it.

use core::fmt;

use serde::Serialize;

use super::{Record, TimedRecord, is_unsafe_to_print};

/// The record does not fit in the buffer. The longest ones of a watcher have some 26 KB, those of most events less than 1 KB.
///
/// ```
/// use scheduled_events_core::record::{Record, RecordTooLong};
///
/// let record = Record::Untracked { own: 0, others: 7 };
/// assert_eq!(record.write_json(&mut [0; 16]), Err(RecordTooLong));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordTooLong;

impl fmt::Display for RecordTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the record does not fit in the buffer; pass a larger one")
    }
}

impl core::error::Error for RecordTooLong {}

impl Record<'_> {
    /// Writes the record as one line of JSON, without a line feed, to the front of `buffer`. Characters that are unsafe to print are
    /// escaped. Only with the feature `json`.
    ///
    /// # Errors
    /// [`RecordTooLong`]; the content of the buffer is undefined then.
    ///
    /// ```
    /// use scheduled_events_core::record::Record;
    ///
    /// let record = Record::Approval { event_ids: &["a\u{202e}"], status: Some(200), events: &[] };
    /// let mut buffer = [0; 256];
    /// let line = record.write_json(&mut buffer)?;
    /// assert_eq!(line, r#"{"record":"approval","event_ids":["a\u202e"],"status":200,"events":[]}"#);
    /// # Ok::<(), scheduled_events_core::record::RecordTooLong>(())
    /// ```
    pub fn write_json<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b str, RecordTooLong> {
        write(self, buffer)
    }
}

impl TimedRecord<'_> {
    /// Writes the record as [`Record::write_json`] does.
    ///
    /// # Errors
    /// [`RecordTooLong`]; the content of the buffer is undefined then.
    ///
    /// ```
    /// use scheduled_events_core::UnixSeconds;
    /// use scheduled_events_core::record::Record;
    ///
    /// let record = Record::Untracked { own: 0, others: 7 }.at(UnixSeconds(0));
    /// let mut buffer = [0; 256];
    /// assert_eq!(
    ///     record.write_json(&mut buffer),
    ///     Ok(r#"{"record":"untracked","own":0,"others":7,"time":"1970-01-01T00:00:00Z"}"#)
    /// );
    /// ```
    pub fn write_json<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b str, RecordTooLong> {
        write(self, buffer)
    }
}

fn write<'b>(record: &impl Serialize, buffer: &'b mut [u8]) -> Result<&'b str, RecordTooLong> {
    // It knows one error: the buffer is full.
    let length = serde_json_core::to_slice(record, buffer).map_err(|_| RecordTooLong)?;
    let length = escape(buffer, length).ok_or(RecordTooLong)?;
    let written = buffer.get(..length).ok_or(RecordTooLong)?;
    core::str::from_utf8(written).map_err(|_| RecordTooLong)
}

/// Escapes what is unsafe to print in the first `length` bytes, which are JSON. Returns the new length; `None` if it is longer than
/// the buffer.
///
/// The text is moved to the end and read from there: an escape is longer than its character, so as long as all of them fit, what is
/// written does not reach what is still to be read.
fn escape(buffer: &mut [u8], length: usize) -> Option<usize> {
    let text = core::str::from_utf8(buffer.get(..length)?).ok()?;
    let total = text.chars().fold(0_usize, |total, char| {
        let length = if is_unsafe_to_print(char) {
            char.len_utf16().saturating_mul(6)
        } else {
            char.len_utf8()
        };
        total.saturating_add(length)
    });
    if total == length {
        return Some(length);
    }
    if total > buffer.len() {
        return None;
    }
    let mut read = buffer.len().checked_sub(length)?;
    buffer.copy_within(..length, read);
    let mut written: usize = 0;
    while let Some(first) = buffer.get(read) {
        let width: usize = match first {
            ..0x80 => 1,
            0x80..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0.. => 4,
        };
        let end = read.checked_add(width)?;
        let char = core::str::from_utf8(buffer.get(read..end)?)
            .ok()?
            .chars()
            .next()?;
        read = end;
        let mut put = |bytes: &[u8]| {
            let end = written.checked_add(bytes.len())?;
            buffer.get_mut(written..end)?.copy_from_slice(bytes);
            written = end;
            Some(())
        };
        if is_unsafe_to_print(char) {
            for unit in char.encode_utf16(&mut [0; 2]) {
                put(b"\\u")?;
                for shift in [12, 8, 4, 0] {
                    let digit = char::from_digit(u32::from(*unit >> shift & 0xf), 16)?;
                    put(digit.encode_utf8(&mut [0; 4]).as_bytes())?;
                }
            }
        } else {
            put(char.encode_utf8(&mut [0; 4]).as_bytes())?;
        }
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use std::string::{String, ToString};
    use std::vec;

    use super::super::{EXAMPLES, PrintableJson};
    use super::*;
    use crate::time::UnixSeconds;

    /// The same by other means.
    fn expected(record: &impl Serialize) -> String {
        PrintableJson(&serde_json::to_string(record).unwrap()).to_string()
    }

    #[test]
    fn every_record_is_written_as_serde_json_writes_it() {
        let mut buffer = vec![0; 4096];
        for record in EXAMPLES {
            assert_eq!(record.write_json(&mut buffer).unwrap(), expected(record));
            let timed = record.at(UnixSeconds(7)).of_machine(Some("vm"), None);
            assert_eq!(timed.write_json(&mut buffer).unwrap(), expected(&timed));
        }
    }

    #[test]
    fn a_record_needs_exactly_the_length_of_its_line() {
        for id in [
            "plain",
            "Zoë 😀",
            "\u{1b}[2J\u{9b}2J\u{7f}\u{202e}\u{feff}\u{e0001}",
            "\u{e0001}\u{e0001}\u{e0001}",
            "\"\\\u{85}é\n",
        ] {
            let ids = [id, "b"];
            let record = Record::Approval {
                event_ids: &ids,
                status: None,
                events: &[],
            };
            let line = expected(&record);
            for length in 0..line.len() + 8 {
                let mut buffer = vec![0; length];
                let written = record.write_json(&mut buffer);
                let fits = length >= line.len();
                assert_eq!(
                    // serde-json-core writes the digits of `\u001B` in upper case.
                    written.map(str::to_lowercase),
                    fits.then(|| line.to_lowercase()).ok_or(RecordTooLong),
                    "{length} bytes for {line}"
                );
            }
        }
    }
}
