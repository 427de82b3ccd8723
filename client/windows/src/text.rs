//! Text in the code page of consoles, in which old programs print.

use std::ptr::null_mut;

use windows_sys::Win32::Globalization::{CP_OEMCP, MultiByteToWideChar};

/// Decodes output: as UTF-8 if it is that, and else from the system's OEM code page, such as 437 or 850.
pub fn decode_output(bytes: &[u8]) -> String {
    str::from_utf8(bytes).map_or_else(|_| from_code_page(bytes, CP_OEMCP), str::to_owned)
}

/// Decodes text of a code page.
fn from_code_page(bytes: &[u8], code_page: u32) -> String {
    let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    // SAFETY: the lengths are those of the buffers; a capacity of zero asks for the length.
    let text = unsafe {
        let needed = MultiByteToWideChar(code_page, 0, bytes.as_ptr(), length, null_mut(), 0);
        let mut text = vec![0; usize::try_from(needed).unwrap_or_default()];
        let written = MultiByteToWideChar(
            code_page,
            0,
            bytes.as_ptr(),
            length,
            text.as_mut_ptr(),
            needed,
        );
        text.truncate(usize::try_from(written).unwrap_or_default());
        text
    };
    if text.is_empty() {
        String::from_utf8_lossy(bytes).into_owned()
    } else {
        String::from_utf16_lossy(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_utf8_or_of_the_code_page() {
        assert_eq!(decode_output("größer".as_bytes()), "größer");
        assert_eq!(from_code_page(b"gr\x94\xe1er", 437), "größer");
        assert_eq!(from_code_page(b"gr\x94\xe1er", 850), "größer");
        assert_eq!(decode_output(b""), "");
        // Whatever the code page, it is text.
        assert!(decode_output(b"gr\x94\xe1er").starts_with("gr"));
    }
}
