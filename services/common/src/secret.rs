//! Secrets: read from files, never printed.

use std::cmp::Reverse;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde::Deserialize;

use crate::address::{HIDDEN, without_secrets};
use crate::hexadecimal::hexadecimal;

/// The longest secret, in bytes.
const SECRET_MAX: u64 = 16 * 1024;

/// A secret. It has no `Display`, and its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret from text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the request that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Why there is no secret. No sentence has the file's content.
#[derive(Debug)]
#[non_exhaustive]
pub enum SecretError {
    /// The system cannot read the file.
    Unreadable {
        /// The file, as [`shown_file`] returns it.
        file: String,
        /// The error of the system.
        error: io::Error,
    },
    /// The file, as [`shown_file`] returns it, has other content.
    NotSecret(String),
    /// The file, as [`shown_file`] returns it, is a systemd credential, and this process has none.
    NoCredentials(String),
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { file, error } => {
                write!(f, "cannot read the secret {file}: {error}")
            }
            Self::NotSecret(file) => write!(
                f,
                "the file {file} is no secret: expected one line of at most {SECRET_MAX} bytes"
            ),
            Self::NoCredentials(file) => write!(
                f,
                "the secret {file} names a systemd credential, and CREDENTIALS_DIRECTORY is not set: add `LoadCredential=NAME:PATH` to \
                 the unit, or give a path"
            ),
        }
    }
}

impl Error for SecretError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable { error, .. } => Some(error),
            Self::NotSecret(_) | Self::NoCredentials(_) => None,
        }
    }
}

/// A file with a secret: a path, or the name of a systemd credential. It is read for each request,
/// so that a new secret needs no restart.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(transparent)]
pub struct SecretFile(PathBuf);

impl From<PathBuf> for SecretFile {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

impl SecretFile {
    /// Reads it, without the white space at its ends.
    ///
    /// # Errors
    /// The file cannot be read, or has other content.
    pub fn read(&self) -> Result<Secret, SecretError> {
        let path = self.path()?;
        let mut text = String::new();
        File::open(&path)
            .and_then(|file| file.take(SECRET_MAX + 1).read_to_string(&mut text))
            .map_err(|error| SecretError::Unreadable {
                file: self.name(),
                error,
            })?;
        let secret = text.trim();
        if text.len() as u64 > SECRET_MAX || secret.is_empty() || secret.contains(char::is_control)
        {
            return Err(SecretError::NotSecret(self.name()));
        }
        Ok(Secret::new(secret))
    }

    /// The file. A name without `/` is a systemd credential.
    fn path(&self) -> Result<PathBuf, SecretError> {
        if self.0.as_os_str().as_encoded_bytes().contains(&b'/') {
            return Ok(self.0.clone());
        }
        match std::env::var_os("CREDENTIALS_DIRECTORY") {
            Some(folder) => Ok(Path::new(&folder).join(&self.0)),
            None => Err(SecretError::NoCredentials(self.name())),
        }
    }

    fn name(&self) -> String {
        shown_file(&self.0)
    }
}

/// A secret's file in messages. A text that is no absolute path may be the secret itself, in the
/// wrong place.
pub fn shown_file(path: &Path) -> String {
    if path.is_absolute() {
        without_secrets(&path.display().to_string())
    } else {
        "whose name is not shown".to_owned()
    }
}

/// The longest word of a message that is shown: no word for people is longer, but tokens and
/// signatures are.
const WORD_MAX: usize = 48;

/// A text of a server without what looks like a secret that was sent to it: the `secrets`, plain or
/// encoded, and whatever is longer than a word.
///
/// ```
/// use scheduled_events_common::secret::without_echo;
///
/// let text = "the key c2VjcmV0LWtleQ== is not known";
/// assert_eq!(without_echo(text, &["secret-key"]), "the key *** is not known");
/// ```
pub fn without_echo(text: &str, secrets: &[&str]) -> String {
    let mut shown = without_secrets(text);
    let mut forms: Vec<_> = secrets.iter().flat_map(|secret| forms(secret)).collect();
    // The longest first: one may be a part of another.
    forms.sort_by_key(|form| Reverse(form.len()));
    for form in forms {
        shown = hide(&shown, &form);
    }
    // Only now: of a secret that a word is a part of, the rest would stay.
    let is_end = |c: char| c.is_whitespace() || "\"'`<>(){}[],;/".contains(c);
    let pieces = shown.split_inclusive(is_end).map(|piece| {
        let word = piece.trim_end_matches(is_end);
        if word.len() > WORD_MAX {
            format!("{HIDDEN}{}", &piece[word.len()..])
        } else {
            piece.to_owned()
        }
    });
    pieces.collect()
}

/// The shortest form of a secret that is hidden, in bytes: a shorter one is a part of other words.
const FORM_MIN: usize = 8;

/// A secret as a server may repeat it, besides what [`hide`] knows: alone, or as a part of a text
/// that is encoded as a whole, such as `USER:PASSWORD`.
fn forms(secret: &str) -> impl Iterator<Item = String> {
    let mut forms = vec![
        secret.to_owned(),
        BASE64_STANDARD.encode(secret),
        BASE64_URL_SAFE_NO_PAD.encode(secret),
        hexadecimal(secret.as_bytes()),
    ];
    for before in 0..3 {
        let whole = [&[0; 3][..before], secret.as_bytes()].concat();
        // Six bits are one character. Those at both ends depend on what is beside the secret, too.
        let (start, end) = ((before * 8).div_ceil(6), whole.len() * 8 / 6);
        for encoded in [
            BASE64_STANDARD.encode(&whole),
            BASE64_URL_SAFE_NO_PAD.encode(&whole),
        ] {
            forms.extend(encoded.get(start..end).map(str::to_owned));
        }
    }
    forms.into_iter().filter(|form| form.len() >= FORM_MIN)
}

/// The text without what is this form of a secret, in upper or lower case, and with any of its
/// characters escaped as in addresses or in JSON.
fn hide(text: &str, form: &str) -> String {
    // As it is, too: it may look escaped itself.
    let text = &text.replace(form, HIDDEN);
    let mut escaped = form.as_bytes();
    let form: Vec<_> = std::iter::from_fn(|| {
        let (byte, rest) = unescape_percent(escaped)?;
        escaped = rest;
        Some(byte)
    })
    .collect();
    let (mut shown, mut end) = (String::new(), 0);
    for (at, _) in text.char_indices() {
        if at < end {
            continue;
        }
        if let Some(rest) = after(&text.as_bytes()[at..], &form)
            && text.is_char_boundary(text.len() - rest.len())
        {
            shown += &text[end..at];
            shown += HIDDEN;
            end = text.len() - rest.len();
        }
    }
    shown + &text[end..]
}

/// The text after these bytes, if it begins with them.
fn after<'a>(mut text: &'a [u8], bytes: &[u8]) -> Option<&'a [u8]> {
    for byte in bytes {
        let (found, rest) = unescape(text)?;
        let is_space = text.starts_with(b"+") && *byte == b' ';
        if !found.eq_ignore_ascii_case(byte) && !is_space {
            return None;
        }
        text = rest;
    }
    Some(text)
}

/// The first byte of a text, which may be escaped, and the rest.
fn unescape(text: &[u8]) -> Option<(u8, &[u8])> {
    match text {
        [b'\\', b'u', b'0', b'0', high, low, rest @ ..] => Some((byte_of(*high, *low)?, rest)),
        [b'\\', escaped @ (b'"' | b'/' | b'\\'), rest @ ..] => Some((*escaped, rest)),
        _ => unescape_percent(text),
    }
}

/// The first byte of a text and the rest. A `%` is `%25` in an address, and `%2525` if that is
/// encoded again, and so on.
fn unescape_percent(text: &[u8]) -> Option<(u8, &[u8])> {
    let (first, rest) = text.split_first()?;
    if *first != b'%' {
        return Some((*first, rest));
    }
    let mut rest = rest;
    while let Some(next) = rest.strip_prefix(b"25") {
        rest = next;
    }
    Some(match rest {
        [high, low, after @ ..] => match byte_of(*high, *low) {
            Some(byte) => (byte, after),
            None => (b'%', rest),
        },
        _ => (b'%', rest),
    })
}

/// The byte of two hexadecimal digits.
fn byte_of(high: u8, low: u8) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_repeats_what_was_sent_does_not_get_it_into_the_log() {
        let secret = "s3cret +/=%token";
        let every_byte = secret.bytes().map(|byte| format!("%{byte:02X}"));
        let forms = [
            secret.to_owned(),
            secret.to_uppercase(),
            "s3cret%20%2B%2F%3D%25token".to_owned(),
            "s3cret+%2b/=%25token".to_owned(),
            "s3cret%2520%252B%252F%253D%2525token".to_owned(),
            "s3cret%252520%25252b%25252F%25253D%252525token".to_owned(),
            r"s3cret \u002b\/=%token".to_owned(),
            every_byte.collect(),
            BASE64_STANDARD.encode(secret),
            BASE64_STANDARD.encode(secret).replace('=', "%3D"),
            BASE64_URL_SAFE_NO_PAD.encode(secret),
            hexadecimal(secret.as_bytes()),
        ];
        for form in forms {
            let shown = without_echo(
                &format!("the token \"{form}\" is not valid: {form}."),
                &[secret],
            );
            assert_eq!(shown, "the token \"***\" is not valid: ***.", "{form}");
        }
        let token = "eyJ0".repeat(20);
        assert_eq!(
            without_echo(&format!("found '{token}', no"), &[]),
            "found '***', no"
        );
        let plain = "'c7061bac-afdc-4513-b24b-aa5f13a16123' over scope '/subscriptions/x/resourceGroups/web'";
        assert_eq!(without_echo(plain, &[secret]), plain);
    }

    #[test]
    fn a_secret_that_looks_escaped_is_hidden() {
        for secret in [
            r"pass\\word\/1",
            r"pass\u0041word",
            "password%41",
            "password%25",
        ] {
            let shown = without_echo(&format!("found {secret}."), &[secret]);
            assert_eq!(shown, format!("found {HIDDEN}."));
        }
    }

    /// Encoded together with other text, a secret has other characters than alone.
    #[test]
    fn a_secret_that_is_a_part_of_an_encoded_text_is_hidden() {
        let secret = "p4ssw0rd-1";
        for (before, after) in [("k:", ""), ("ab:", "!"), ("abc:", ">>"), ("\u{ff}k:", "")] {
            let whole = format!("{before}{secret}{after}");
            for encoded in [
                BASE64_STANDARD.encode(&whole),
                BASE64_URL_SAFE_NO_PAD.encode(&whole),
            ] {
                let shown = without_echo(&format!("found {encoded}"), &[secret]);
                let left: Vec<_> = shown["found ".len()..].split(HIDDEN).collect();
                let rest = left.concat().len();
                assert!(
                    left.len() == 2 && rest + 12 <= encoded.len(),
                    "{encoded}: {shown}"
                );
            }
        }
    }

    /// What is longer than a word is hidden after all secrets: the rest of one would stay.
    #[test]
    fn no_part_of_a_secret_stays_although_there_are_others() {
        let long = "x".repeat(50) + "/the-end-of-it";
        let text = format!("found {long}, no");
        assert_eq!(
            without_echo(&text, &["another-secret", &long]),
            "found ***, no"
        );
    }
}
