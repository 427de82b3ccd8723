//! Reading a configuration file: an error names the file, the line and the column.

use std::path::Path;
use std::time::Duration;

use scheduled_events_core::Position;
use serde::Deserialize as _;
use serde::de::{Deserializer, Error as _};

use crate::address::without_secrets;

/// An error in a configuration: its offset, where it has one, and a sentence about it.
pub type Invalid = (Option<usize>, String);

/// Reads a file that `parse` understands.
///
/// # Errors
/// A sentence that begins with `FILE:LINE:COLUMN: ` where the error has a place.
pub fn load<T>(path: &Path, parse: impl FnOnce(&str) -> Result<T, Invalid>) -> Result<T, String> {
    let name = path.display();
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    parse(&text).map_err(|(offset, message)| match offset {
        Some(offset) => format!(
            "{name}:{}: {message}",
            Position::of(text.as_bytes(), offset)
        ),
        None => format!("{name}: {message}"),
    })
}

/// The error of the TOML reader.
#[allow(clippy::needless_pass_by_value)] // For `map_err`.
pub fn invalid(error: toml::de::Error) -> Invalid {
    let mut message = without_secrets(error.message().trim_end());
    if message == "invalid type: map, expected a sequence" {
        message.push_str(": write `[[…]]` instead of `[…]`");
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
        D::Error::custom(format!("{}: {expected}", error.to_string().trim_end()))
    })?;
    humantime::parse_duration(&text)
        .map_err(|error| D::Error::custom(format!("found {text:?}, {expected}: {error}")))
}

/// The error with its line and column, for tests.
pub fn place(text: &str, (offset, message): Invalid) -> String {
    offset.map_or(String::new(), |offset| {
        format!("{} ", Position::of(text.as_bytes(), offset))
    }) + &message
}
