//! Finds names, ids and addresses in a text.

use std::borrow::Cow;
use std::collections::HashMap;

use super::forms::{address, guid, mac, run};
use super::{Kind, Mask, WORDS, fold};
use crate::resource::uniform;

/// The path segments before a name, besides those after the name of a resource provider.
const BEFORE_NAMES: [&str; 10] = [
    "subscriptions",
    "resourcegroups",
    "virtualmachines",
    "virtualmachinescalesets",
    "availabilitysets",
    "hostgroups",
    "hosts",
    "disks",
    "networkinterfaces",
    "proximityplacementgroups",
];

/// The longest name that is searched for, in bytes.
const SEARCHED_MAX: usize = 512;

/// How far back the segments of a resource id are read, in bytes.
const ID_MAX: usize = 512;

/// The characters of the number at the end of a computer name in a scale set.
const COMPUTER_NUMBER: usize = 6;

/// The shortest name of a scale set that is searched for because an instance's name begins with it.
const SET_MIN: usize = 3;

/// What is searched for in texts.
#[derive(Clone, Debug, Default)]
pub(super) struct Searched {
    kinds: HashMap<String, Kind>,
    longest: usize,
}

impl Searched {
    /// Adds a name or an id, which is folded, and of an instance's name the name of its scale set.
    pub(super) fn insert(&mut self, kind: Kind, text: &str) {
        // Numbers and words of the service are in many texts.
        let is_common = !text.contains(char::is_alphabetic)
            || WORDS.iter().any(|word| word.eq_ignore_ascii_case(text));
        if text.len() > SEARCHED_MAX || is_common {
            return;
        }
        self.longest = self.longest.max(text.len());
        self.kinds.entry(text.to_owned()).or_insert(kind);
        if let (Kind::Name, Some((set, _))) = (kind, uniform(text))
            && set.len() >= SET_MIN
        {
            self.insert(kind, set);
        }
    }

    /// The longest of them that a text begins with. It ends where a word ends, or before the number of a computer.
    fn at(&self, text: &str) -> Option<(Kind, usize)> {
        let mut start = String::new();
        let mut found = None;
        for (at, char) in text.char_indices() {
            start.extend(fold(char));
            if start.len() > self.longest {
                break;
            }
            let end = at + char.len_utf8();
            let rest = &text[end..];
            let ends = !char.is_alphanumeric() || !rest.starts_with(char::is_alphanumeric);
            if (ends || is_computer_number(rest))
                && let Some(kind) = self.kinds.get(&start)
            {
                found = Some((*kind, end));
            }
        }
        found
    }
}

impl Mask {
    /// Masks the names, ids and addresses in a text: those names that were seen as names, or that follow their kind in a resource id.
    pub fn text(&mut self, text: &str) -> String {
        let text = decoded(text);
        let mut out = String::with_capacity(text.len());
        let mut rest = &*text;
        // The character before, unless something was replaced there.
        let mut before = None;
        while let Some(char) = rest.chars().next() {
            let length = if let Some((replaced, length)) = self.replaced(&out, before, rest) {
                out.push_str(&replaced);
                before = None;
                length
            } else {
                // An escape of a URL is between names.
                let length = escape(rest).map_or(char.len_utf8(), |_| 3);
                out.push_str(&rest[..length]);
                before = Some(char);
                length
            };
            rest = &rest[length..];
        }
        out
    }

    /// What replaces the start of a text, and the length of what it replaces.
    fn replaced(&mut self, out: &str, before: Option<char>, text: &str) -> Option<(String, usize)> {
        if let Some(length) = guid(before, text) {
            return Some((self.guid(&text[..length]), length));
        }
        if let Some(length) = mac(before, text) {
            return Some((self.mac(&text[..length]), length));
        }
        if let Some((address, length)) = address(before, text) {
            let masked = self.address(address);
            return Some((masked.unwrap_or_else(|| text[..length].to_owned()), length));
        }
        if before.is_some_and(char::is_alphanumeric) && text.starts_with(char::is_alphanumeric) {
            return None;
        }
        if follows_its_kind(out) {
            let name = &text[..run(text, is_of_name)];
            let name = name.trim_end_matches(['.', '-']);
            let name = if name.contains('(') {
                name
            } else {
                name.trim_end_matches(')')
            };
            if !name.is_empty() {
                return Some((self.name(name), name.len()));
            }
        }
        let (kind, length) = self.searched.at(text)?;
        let (found, rest) = text.split_at(length);
        if kind == Kind::Id {
            return Some((self.id(found), length));
        }
        // An instance of a scale set that was not seen yet.
        let whole = length
            + 1
            + run(rest.strip_prefix('_').unwrap_or_default(), |char| {
                char.is_ascii_digit()
            });
        let is_instance = whole > length + 1 && !text[whole..].starts_with(char::is_alphanumeric);
        let name = if is_instance { &text[..whole] } else { found };
        Some((self.name(name), name.len()))
    }
}

/// Whether a text ends with a segment of a resource id that a name follows.
fn follows_its_kind(text: &str) -> bool {
    if !text.ends_with('/') && !text.ends_with("%2f") && !text.ends_with("%2F") {
        return false;
    }
    let far = text.len().saturating_sub(ID_MAX);
    let start = (far..text.len()).find(|at| text.is_char_boundary(*at));
    let id = &text[start.unwrap_or(text.len())..];
    let id = id
        .rsplit(|char: char| char.is_whitespace() || "\"'<>".contains(char))
        .next();
    let id = id
        .unwrap_or_default()
        .to_ascii_lowercase()
        .replace("%2f", "/");
    let segments: Vec<_> = id.trim_end_matches('/').split('/').collect();
    let Some(kind) = segments.last() else {
        return false;
    };
    // After the provider, kinds and names alternate.
    let is_provider = |segment: &&str| segment.starts_with("microsoft.");
    let provider = segments.iter().rposition(is_provider);
    let is_nested = provider.is_some_and(|at| (segments.len() - at).is_multiple_of(2));
    BEFORE_NAMES.contains(kind) || is_nested && *kind != "providers"
}

fn is_of_name(char: char) -> bool {
    char.is_alphanumeric() || "_-.()".contains(char)
}

/// Whether a text begins with the number at the end of a computer name, such as `00000a`.
fn is_computer_number(text: &str) -> bool {
    text.starts_with('0') && run(text, char::is_alphanumeric) == COMPUTER_NUMBER
}

/// The byte of an escape of a URL that a text begins with.
fn escape(text: &str) -> Option<u8> {
    let digits = text.strip_prefix('%')?.get(..2)?;
    let is_one = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one
        .then(|| u8::from_str_radix(digits, 16).ok())
        .flatten()
}

/// A text without escapes of characters that names have: `web%5F3` is `web_3`.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        // A byte of another character begins no escape.
        let decoded = text.get(at..).and_then(escape);
        let decoded = decoded.filter(|byte| !byte.is_ascii() || is_of_name(char::from(*byte)));
        bytes.push(decoded.unwrap_or(*byte));
        at += if decoded.is_some() { 3 } else { 1 };
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}
