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
    let long = secrets.iter().filter(|secret| secret.len() >= 8);
    let mut forms: Vec<_> = long.flat_map(|secret| forms(secret)).collect();
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

/// A secret as a server may repeat it, in lower case.
fn forms(secret: &str) -> impl Iterator<Item = String> {
    let url = reqwest::Url::parse_with_params("http://x/", [("s", secret)]);
    let url = url.map_or_else(
        |_| String::new(),
        |url| url.query().unwrap_or("s=")[2..].into(),
    );
    let forms = [
        secret.to_owned(),
        url,
        BASE64_STANDARD.encode(secret),
        BASE64_URL_SAFE_NO_PAD.encode(secret),
        hexadecimal(secret.as_bytes()),
    ];
    let lower = forms.into_iter().map(|form| form.to_ascii_lowercase());
    lower.filter(|form| !form.is_empty())
}

/// The text without what is this form of a secret, in upper or lower case.
fn hide(text: &str, form: &str) -> String {
    let (mut shown, mut end) = (String::new(), 0);
    for (at, found) in text.to_ascii_lowercase().match_indices(form) {
        shown += &text[end..at];
        shown += HIDDEN;
        end = at + found.len();
    }
    shown + &text[end..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_repeats_what_was_sent_does_not_get_it_into_the_log() {
        let secret = "s3cret+/=token";
        let forms = [
            secret.to_owned(),
            secret.to_uppercase(),
            "s3cret%2B%2F%3Dtoken".to_owned(),
            BASE64_STANDARD.encode(secret),
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
