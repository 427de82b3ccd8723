//! Strings of the document: views of the caller's bytes, still escaped.

use std::ffi::{CStr, c_char};

use scheduled_events_core::Text;

use crate::boundary::{Result, boundary, value_boundary};
use crate::memory::{Flag, bytes, fill, utf8};
use crate::status::schedev_status::{self, SCHEDEV_ERROR_INTERNAL};

/// A text: a view of bytes that somebody else keeps. UTF-8, not ended by NUL. An empty or absent text has a length
/// of 0, and then the pointer may be NULL.
///
/// Texts of a document point into the document's bytes and are as they stand there. Where `escaped` is false, as in
/// every real document so far, these bytes are the characters. Where it is true they hold escapes of JSON, such as
/// \u00e9: schedev_text_copy() decodes them, and every function that takes a text understands them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_text {
    /// The first byte.
    pub data: *const c_char,
    /// The length in bytes.
    pub len: usize,
    /// Whether the bytes hold escapes of JSON.
    pub escaped: Flag,
}

impl schedev_text {
    pub(crate) const NONE: Self = Self { data: core::ptr::null(), len: 0, escaped: Flag::new(false) };

    pub(crate) const fn plain(text: &str) -> Self {
        Self { data: text.as_ptr().cast(), len: text.len(), escaped: Flag::new(false) }
    }

    pub(crate) const fn of(text: Text<'_>) -> Self {
        Self { escaped: Flag::new(text.as_str().is_none()), ..Self::plain(text.raw()) }
    }

    /// Writes its members and not what pads them, which would have to be carried along.
    ///
    /// # Safety
    /// `place` is aligned and can be written.
    #[inline]
    pub(crate) const unsafe fn write(self, place: *mut Self) {
        // SAFETY: the caller's promise.
        unsafe {
            (&raw mut (*place).data).write(self.data);
            (&raw mut (*place).len).write(self.len);
            (&raw mut (*place).escaped).write(self.escaped);
        }
    }

    /// The text to read.
    ///
    /// # Safety
    /// The conventions of the header: the view is of bytes that live during `'a`.
    pub(crate) unsafe fn read<'a>(self) -> Result<Text<'a>> {
        // SAFETY: the caller's promise is the same.
        let raw = unsafe { utf8(self.data, self.len) }?;
        Ok(Text::from_raw(raw, self.escaped.is_on()))
    }
}

/// Whether a text, escapes decoded, is these bytes once both are folded. The bytes need not be UTF-8.
fn equals(text: Text<'_>, other: &[u8], fold: impl Fn(u8) -> u8) -> bool {
    if let Some(text) = text.as_str() {
        return text.len() == other.len() && text.bytes().zip(other).all(|(this, &that)| fold(this) == fold(that));
    }
    let mut rest = other;
    let mut utf8 = [0; 4];
    for char in text.chars() {
        for byte in char.encode_utf8(&mut utf8).bytes() {
            match rest.split_first() {
                Some((&first, after)) if fold(first) == fold(byte) => rest = after,
                _ => return false,
            }
        }
    }
    rest.is_empty()
}

/// The text of a C string.
///
/// @param string  ends with NUL, and lives as long as the text is used; NULL is the empty text.
/// @return a view of it, the NUL left out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_text_from(string: *const c_char) -> schedev_text {
    if string.is_null() {
        return schedev_text::NONE;
    }
    // SAFETY: the caller passes a string that ends with NUL.
    let len = unsafe { CStr::from_ptr(string) }.count_bytes();
    schedev_text { data: string, len, escaped: Flag::new(false) }
}

/// Copies a text, escapes decoded.
///
/// To learn the size beforehand pass NULL and 0: the call then returns SCHEDEV_ERROR_BUFFER_TOO_SMALL, or SCHEDEV_OK for
/// an empty text. A buffer of `needed` + 1 bytes always gets its NUL. Mind that a decoded text can hold NULs of its own.
///
/// @param text      the text.
/// @param buffer    receives the text, and a NUL behind it where there is room for one; NULL where capacity is 0.
/// @param capacity  the bytes that the buffer holds.
/// @param needed    receives the length of the decoded text in bytes, the NUL not counted, also where it does not fit.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL, and the buffer is as it was; SCHEDEV_ERROR_NULL;
///         SCHEDEV_ERROR_UTF8.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_text_copy(
    text: schedev_text,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> schedev_status {
    boundary(|| {
        // SAFETY: the conventions of the header.
        unsafe {
            let text = text.read()?;
            fill((buffer, capacity, needed), text.decoded_len(), true, |target| {
                Ok(text.copy_to(target).map_err(|_| SCHEDEV_ERROR_INTERNAL)?.len())
            })
        }
    })
}

/// Whether a text, escapes decoded, equals these bytes exactly.
///
/// @param text  the text.
/// @param name  the bytes to compare with; NULL where len is 0.
/// @param len   their length.
/// @return whether they are equal; false for a NULL that comes with a length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_text_equal(text: schedev_text, name: *const c_char, len: usize) -> bool {
    value_boundary(false, || {
        // SAFETY: the conventions of the header.
        let (text, name) = unsafe { (text.read()?, bytes(name, len)?) };
        Ok(equals(text, name, |byte| byte))
    })
}

/// Whether a text, escapes decoded, equals these bytes but for the case of ASCII letters, which is how Azure compares
/// event ids and the names of machines.
///
/// @param text  the text.
/// @param name  the bytes to compare with; NULL where len is 0.
/// @param len   their length.
/// @return whether they are equal; false for a NULL that comes with a length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_text_equal_ignore_case(text: schedev_text, name: *const c_char, len: usize) -> bool {
    value_boundary(false, || {
        // SAFETY: the conventions of the header.
        let (text, name) = unsafe { (text.read()?, bytes(name, len)?) };
        Ok(equals(text, name, |byte| byte.to_ascii_lowercase()))
    })
}

#[cfg(test)]
mod tests {
    use scheduled_events_core::{Document, Incarnation};

    use super::*;

    /// How core reads the string that stands between the quotes; `None` where it refuses it.
    fn as_core_reads(raw: &str) -> Option<String> {
        let body = format!(r#"{{"DocumentIncarnation":"{raw}","Events":[]}}"#);
        match Document::parse(body.as_bytes()).ok()?.incarnation() {
            Incarnation::Text(text) => Some(text.to_string()),
            _ => None,
        }
    }

    #[test]
    fn every_escape_is_decoded_as_core_decodes_it() {
        let mut raws: Vec<_> = (0..0x1_0000_u32).map(|unit| format!("a\\u{unit:04x}b")).collect();
        raws.extend((0..0x400).map(|low| format!("\\uD83D\\u{:04X}", 0xdc00 + low)));
        raws.extend((0..0x400).map(|high| format!("\\u{:04X}\\uDE00", 0xd800 + high)));
        raws.extend("\"\\/bfnrt".chars().map(|char| format!("é\\{char}\\\\n")));
        let mut read = 0;
        for raw in raws {
            if let Some(expected) = as_core_reads(&raw) {
                let text = Text::from_raw(&raw, true);
                let mut buffer = vec![0; text.decoded_len()];
                assert_eq!(text.copy_to(&mut buffer).map(str::len), Ok(text.decoded_len()));
                assert_eq!(buffer, expected.as_bytes(), "{raw}");
                assert!(equals(text, expected.as_bytes(), |byte| byte));
                read += 1;
            }
        }
        assert_eq!(read, 0x1_0000 - 0x800 + 0x400 + 0x400 + 8);
    }

    #[test]
    fn what_is_no_escape_is_survived() {
        for raw in ["\\", "\\u", "\\u12", "\\ud83d", "\\ud83d\\", "\\udc00", "\\q", "\\u00é"] {
            let text = Text::from_raw(raw, true);
            let mut buffer = [0; 32];
            assert_eq!(text.copy_to(&mut buffer).map(str::len), Ok(text.decoded_len()), "{raw}");
        }
    }
}
