//! What is known by its form: ids and addresses. Each function returns the length of what a text begins with.

use std::net::IpAddr;

use crate::resource::{GUID_LENGTH, is_guid};

/// The digits of a GUID without its dashes.
const HEX_GUID_LENGTH: usize = 32;

/// The length of a MAC address without signs between its digits, and with them.
const MAC_LENGTH: usize = 12;
const LONG_MAC_LENGTH: usize = 17;

/// The longest text of an IP address.
const ADDRESS_MAX: usize = 45;

/// The length of the longest start of such characters.
pub(super) fn run(text: &str, fits: impl Fn(char) -> bool) -> usize {
    text.find(|char| !fits(char)).unwrap_or(text.len())
}

/// The same, of a start that has no more than so many bytes.
fn short_run(text: &str, max: usize, fits: impl Fn(char) -> bool) -> usize {
    let found = text
        .char_indices()
        .take(max + 1)
        .find(|(_, char)| !fits(*char));
    found.map_or(text.len().min(max + 1), |(at, _)| at)
}

/// A GUID, which may have no dashes. `before` is the character before it.
pub(super) fn guid(before: Option<char>, text: &str) -> Option<usize> {
    if text.get(..GUID_LENGTH).is_some_and(is_guid) {
        return Some(GUID_LENGTH);
    }
    digits(before, text, HEX_GUID_LENGTH)
}

/// A MAC address: `000D3AF805E4`, or with `-` or `:` between pairs.
pub(super) fn mac(before: Option<char>, text: &str) -> Option<usize> {
    if before.is_some_and(|char| char.is_ascii_hexdigit()) {
        return None;
    }
    let long = text.get(..LONG_MAC_LENGTH).filter(|long| {
        let between = long.as_bytes()[2];
        let mut bytes = long.bytes().enumerate();
        matches!(between, b'-' | b':')
            && bytes.all(|(at, byte)| {
                if at % 3 == 2 {
                    byte == between
                } else {
                    byte.is_ascii_hexdigit()
                }
            })
            && !text[LONG_MAC_LENGTH..].starts_with(|char: char| char.is_ascii_hexdigit())
    });
    long.map(str::len)
        .or_else(|| digits(before, text, MAC_LENGTH))
}

/// Exactly so many hexadecimal digits.
fn digits(before: Option<char>, text: &str, length: usize) -> Option<usize> {
    let is_digit = |char: char| char.is_ascii_hexdigit();
    let goes_on = |text: &str| text.starts_with(char::is_alphanumeric);
    (!before.is_some_and(is_digit)
        && short_run(text, length, is_digit) == length
        && !goes_on(&text[length..]))
    .then_some(length)
}

/// An IP address.
pub(super) fn address(before: Option<char>, text: &str) -> Option<(IpAddr, usize)> {
    let parsed = |fits: &dyn Fn(char) -> bool| {
        let whole = short_run(text, ADDRESS_MAX, fits);
        let address = text[..whole].trim_end_matches(['.', ':']);
        // The names of files end with dots and digits, too.
        let is_one = address.matches([':', '.']).count() > 1;
        Some((address.parse().ok().filter(|_| is_one)?, address.len()))
    };
    let begins = |is_digit: &dyn Fn(char) -> bool| {
        text.starts_with(|char| is_digit(char) || char == ':') && !before.is_some_and(is_digit)
    };
    let is_hex = |char: char| char.is_ascii_hexdigit();
    let v6 = begins(&is_hex).then(|| parsed(&|char| is_hex(char) || ".:".contains(char)));
    v6.flatten().or_else(|| {
        // A port may follow, and a word be right before it.
        let is_decimal = |char: char| char.is_ascii_digit();
        begins(&is_decimal)
            .then(|| parsed(&|char| is_decimal(char) || char == '.'))
            .flatten()
    })
}
