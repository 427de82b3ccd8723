//! Texts: views of the document's strings, still escaped.

use std::ffi::{CStr, c_char};

use scheduled_events_core::record::Printable;
use scheduled_events_core::{EventId, Text, WriteDecoded};

use crate::abi::pointers::{Flag, bytes, output_buffer, utf8};
use crate::boundary::{Result, boundary, value_boundary};
use crate::json::fill_with;
use crate::status::schedev_status::{self, SCHEDEV_ERROR_INTERNAL};

/// A view of UTF-8 bytes that are kept elsewhere, without a NUL at the end. If the length is 0, the pointer may be NULL.
///
/// Texts of a document point into the document's bytes. If `escaped` is false, which is the case for all documents that
/// Azure is known to send, the bytes are the characters. If it is true, the bytes have JSON escapes, such as a
/// backslash and an n for a line feed:
/// schedev_text_copy() decodes them, and every function that takes a text accepts them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_text {
    /// The first byte.
    pub data: *const c_char,
    /// The length in bytes.
    pub len: usize,
    /// Whether the bytes have JSON escapes.
    pub escaped: Flag,
}

impl schedev_text {
    pub(crate) const NONE: Self = Self {
        data: core::ptr::null(),
        len: 0,
        escaped: Flag::new(false),
    };

    pub(crate) const fn plain(text: &str) -> Self {
        Self {
            data: text.as_ptr().cast(),
            len: text.len(),
            escaped: Flag::new(false),
        }
    }

    pub(crate) const fn from_core(text: Text<'_>) -> Self {
        Self {
            escaped: Flag::new(text.as_str().is_none()),
            ..Self::plain(text.raw())
        }
    }
}

/// Core's text for one that C passed.
///
/// # Safety
/// The conventions of the header.
pub(crate) unsafe fn core_text<'a>(text: &schedev_text) -> Result<Text<'a>> {
    Ok(Text::from_raw(
        checked!(utf8(text.data, text.len)),
        text.escaped.is_on(),
    ))
}

/// A text that was checked to be readable. It must not outlive the call that checked it.
#[repr(transparent)]
pub(crate) struct ReadableText(schedev_text);

impl ReadableText {
    /// Checks that all of the texts are readable.
    ///
    /// # Safety
    /// The conventions of the header.
    pub(crate) unsafe fn checked(texts: &[schedev_text]) -> Result<&[Self]> {
        for text in texts {
            checked!(core_text(text));
        }
        // SAFETY: `ReadableText` is transparent, and every text was just checked to be readable.
        Ok(unsafe { core::slice::from_raw_parts(texts.as_ptr().cast::<Self>(), texts.len()) })
    }
}

impl WriteDecoded for ReadableText {
    fn write_decoded(&self, write: impl FnMut(&str)) {
        // SAFETY: this call has checked the view, and the caller keeps it unchanged.
        if let Ok(text) = unsafe { core_text(&self.0) } {
            text.write_decoded(write);
        }
    }
}

/// Core's event id for one that C passed.
///
/// # Safety
/// The conventions of the header.
pub(crate) unsafe fn core_event_id(text: &schedev_text) -> Result<EventId> {
    Ok(EventId::new(&checked!(core_text(text))))
}

/// Whether the decoded text equals these bytes after `fold` is applied to both. The bytes need not be UTF-8.
fn equals(text: Text<'_>, other: &[u8], fold: impl Fn(u8) -> u8) -> bool {
    if let Some(text) = text.as_str() {
        return text.len() == other.len()
            && text
                .bytes()
                .zip(other)
                .all(|(this, &that)| fold(this) == fold(that));
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

/// Returns a view of a C string.
///
/// @param string  ends with NUL and must outlive the text; NULL is the empty text.
/// @return the view, without the NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_text_from(string: *const c_char) -> schedev_text {
    if string.is_null() {
        return schedev_text::NONE;
    }
    // SAFETY: the caller passes a string that ends with NUL.
    let len = unsafe { CStr::from_ptr(string) }.count_bytes();
    schedev_text {
        data: string,
        len,
        escaped: Flag::new(false),
    }
}

/// Copies a text and decodes its escapes.
///
/// To get the size first, pass NULL and 0: the call returns SCHEDEV_ERROR_BUFFER_TOO_SMALL, or SCHEDEV_OK for an empty
/// text. A buffer of `needed` + 1 bytes holds the NUL, too. A decoded text can contain NUL characters itself.
///
/// @param text      the text.
/// @param buffer    receives the text, and a NUL after it if a byte is left; NULL if capacity is 0.
/// @param capacity  the size of the buffer in bytes.
/// @param needed    receives the length of the decoded text in bytes, without the NUL, even if the buffer is too small.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL, and the buffer is unchanged; SCHEDEV_ERROR_NULL;
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
        let text = &text;
        let text = checked!(core_text(text));
        let buffer = checked!(output_buffer(buffer, capacity, needed));
        buffer.fill_text(text.decoded_len(), |target| {
            Ok(text
                .copy_bytes_to(target)
                .map_err(|_| SCHEDEV_ERROR_INTERNAL)?
                .len())
        })
    })
}

/// Copies a text as schedev_text_copy() does, and escapes what could act on a terminal, forge a line of a log, or hide or reorder the
/// text around it: an ESC becomes a
/// backslash and u{1b}. Print texts of events in this form only.
///
/// @param text      the text.
/// @param buffer    receives the text, and a NUL after it if a byte is left; NULL if capacity is 0.
/// @param capacity  the size of the buffer in bytes.
/// @param needed    receives the length of the text in bytes, without the NUL, even if the buffer is too small.
/// @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL, and the buffer is unchanged; SCHEDEV_ERROR_NULL;
///         SCHEDEV_ERROR_UTF8.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_text_copy_printable(
    text: schedev_text,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> schedev_status {
    boundary(|| {
        let text = &text;
        let text = checked!(core_text(text));
        let buffer = checked!(output_buffer(buffer, capacity, needed));
        fill_with(buffer, |output| {
            text.chars()
                .try_for_each(|char| write!(output, "{}", Printable(char.encode_utf8(&mut [0; 4]))))
        })
    })
}

/// Whether a text, decoded, equals these bytes.
///
/// @param text  the text.
/// @param name  the bytes to compare with; NULL if len is 0.
/// @param len   the length of name.
/// @return true if they are equal; false if name is NULL and len is not 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_text_equal(
    text: schedev_text,
    name: *const c_char,
    len: usize,
) -> bool {
    value_boundary(false, || {
        let text = &text;
        Ok(equals(
            checked!(core_text(text)),
            checked!(bytes(name, len)),
            |byte| byte,
        ))
    })
}

/// Whether a text, decoded, equals these bytes if ASCII case is ignored. Azure compares event ids and names of machines
/// in this way.
///
/// @param text  the text.
/// @param name  the bytes to compare with; NULL if len is 0.
/// @param len   the length of name.
/// @return true if they are equal; false if name is NULL and len is not 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_text_equal_ignore_case(
    text: schedev_text,
    name: *const c_char,
    len: usize,
) -> bool {
    value_boundary(false, || {
        let text = &text;
        Ok(equals(
            checked!(core_text(text)),
            checked!(bytes(name, len)),
            |byte| byte.to_ascii_lowercase(),
        ))
    })
}

#[cfg(test)]
mod tests {
    use scheduled_events_core::{Document, Incarnation};

    use super::*;

    /// The string that core reads from between the quotes; `None` if it refuses it.
    fn read_by_core(raw: &str) -> Option<String> {
        let body = format!(r#"{{"DocumentIncarnation":"{raw}","Events":[]}}"#);
        match Document::parse(body.as_bytes()).ok()?.incarnation() {
            Incarnation::Text(text) => Some(text.to_string()),
            _ => None,
        }
    }

    #[test]
    fn escapes_are_decoded_as_in_documents() {
        let mut raws: Vec<_> = (0..0x1_0000_u32)
            .map(|unit| format!("a\\u{unit:04x}b"))
            .collect();
        raws.extend((0..0x400).map(|low| format!("\\uD83D\\u{:04X}", 0xdc00 + low)));
        raws.extend((0..0x400).map(|high| format!("\\u{:04X}\\uDE00", 0xd800 + high)));
        raws.extend("\"\\/bfnrt".chars().map(|char| format!("é\\{char}\\\\n")));
        let mut read = 0;
        for raw in raws {
            if let Some(expected) = read_by_core(&raw) {
                let text = Text::from_raw(&raw, true);
                let mut buffer = vec![0; text.decoded_len()];
                assert_eq!(
                    text.copy_to(&mut buffer).map(str::len),
                    Ok(text.decoded_len())
                );
                assert_eq!(buffer, expected.as_bytes(), "{raw}");
                assert!(equals(text, expected.as_bytes(), |byte| byte));
                read += 1;
            }
        }
        assert_eq!(read, 0x1_0000 - 0x800 + 0x400 + 0x400 + 8);
    }

    #[test]
    fn invalid_escapes_do_not_panic() {
        for raw in [
            "\\",
            "\\u",
            "\\u12",
            "\\ud83d",
            "\\ud83d\\",
            "\\udc00",
            "\\q",
            "\\u00é",
        ] {
            let text = Text::from_raw(raw, true);
            let mut buffer = [0; 32];
            assert_eq!(
                text.copy_to(&mut buffer).map(str::len),
                Ok(text.decoded_len()),
                "{raw}"
            );
        }
    }
}
