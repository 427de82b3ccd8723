//! Reading a configuration file: an error names the file, the line and the column.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use scheduled_events::files::read_settings;
use scheduled_events_core::Position;
use serde::Deserialize as _;
use serde::de::{self, Deserializer};

use crate::address::without_secrets;

/// An error in a configuration: its offset, where it has one, and a sentence about it.
pub type Invalid = (Option<usize>, String);

/// Why a configuration cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The system cannot read the file.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The file has an error.
    Invalid {
        /// The file.
        path: PathBuf,
        /// Where the error is, if it has a place.
        position: Option<Position>,
        /// A sentence about it.
        message: String,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, error } => {
                write!(f, "cannot read {}: {error}", path.display())
            }
            Self::Invalid {
                path,
                position,
                message,
            } => {
                write!(f, "{}", path.display())?;
                if let Some(position) = position {
                    write!(f, ":{position}")?;
                }
                write!(f, ": {message}")
            }
        }
    }
}

impl Error for LoadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable { error, .. } => Some(error),
            Self::Invalid { .. } => None,
        }
    }
}

/// Reads a file that `parse` understands.
///
/// # Errors
/// The file cannot be read, or is invalid. The sentence begins with `FILE:LINE:COLUMN: ` where the
/// error has a place.
pub fn load<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, Invalid>,
) -> Result<T, LoadError> {
    let text = read_settings(path).map_err(|error| LoadError::Unreadable {
        path: path.to_owned(),
        error,
    })?;
    parse(&text).map_err(|(offset, message)| LoadError::Invalid {
        path: path.to_owned(),
        position: offset.map(|offset| Position::of(text.as_bytes(), offset)),
        message,
    })
}

/// The error of the TOML reader.
#[allow(clippy::needless_pass_by_value)] // For `map_err`.
pub fn invalid(error: toml::de::Error) -> Invalid {
    let mut message = without_secrets(error.message().trim_end());
    if message == "invalid type: map, expected a sequence" {
        message.push_str(": write `[[…]]` instead of `[…]`");
    }
    for (word, plain) in [
        ("map", "a table"),
        ("a sequence", "a list"),
        ("u16", "a whole number from 0 to 65535"),
        ("u32", "a whole number from 0 to 4294967295"),
        ("u64", "a whole number from 0"),
    ] {
        if let Some(start) = message.strip_suffix(&format!("expected {word}")) {
            message = format!("{start}expected {plain}");
        }
    }
    // Tables, by the names of the types that they become.
    if let Some((start, _)) = message.split_once("expected struct ") {
        message = format!("{start}expected a table");
    }
    (error.span().map(|span| span.start), message)
}

/// A duration such as `"2s"` or `"1m 30s"`.
///
/// # Errors
/// A sentence: the value that was found, and the values that are expected.
pub fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let expected = "expected a duration such as \"2s\"";
    let text = String::deserialize(deserializer).map_err(|error| {
        de::Error::custom(format!("{}: {expected}", error.to_string().trim_end()))
    })?;
    humantime::parse_duration(&text)
        .map_err(|error| de::Error::custom(format!("found {text:?}, {expected}: {error}")))
}

/// The error with its line and column, for tests.
pub fn place(text: &str, (offset, message): Invalid) -> String {
    offset.map_or(String::new(), |offset| {
        format!("{} ", Position::of(text.as_bytes(), offset))
    }) + &message
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_words_of_toml() {
        #[derive(Debug, serde::Deserialize)]
        #[allow(dead_code)]
        struct Part {
            number: u32,
        }
        #[derive(Debug, serde::Deserialize)]
        #[allow(dead_code)]
        struct File {
            part: Option<Part>,
            list: Option<Vec<String>>,
        }
        for (text, expected) in [
            ("part = 1", "invalid type: integer `1`, expected a table"),
            (
                "list = \"a\"",
                "invalid type: string \"a\", expected a list",
            ),
            (
                "part.number = -1",
                "invalid value: integer `-1`, expected a whole number from 0 to 4294967295",
            ),
            (
                "[list]\n",
                "invalid type: map, expected a sequence: write `[[…]]` instead of `[…]`",
            ),
        ] {
            let error = toml::from_str::<File>(text).expect_err("no such file");
            assert_eq!(invalid(error).1, expected);
        }
    }

    #[test]
    fn a_device_is_refused_before_it_is_read() {
        let error = load(Path::new("/dev/zero"), |_| Ok(())).expect_err("a device");
        let reason = "cannot read /dev/zero: it is a pipe or a device, expected a file";
        assert_eq!(error.to_string(), reason);
    }
}
