//! Keys of configurations that several programs have: how they are read, and their defaults.

use std::path::PathBuf;

use serde::Deserialize as _;
use serde::de::{Deserializer, Error as _};

use crate::address;

/// The audit file of `scheduled-events watch`, where its unit writes it.
pub fn default_audit() -> PathBuf {
    "/var/lib/scheduled-events/audit".into()
}

/// The metadata service.
pub fn default_metadata() -> String {
    "http://169.254.169.254".into()
}

/// The name of this machine.
///
/// # Errors
/// What was found and what is expected.
pub fn machine<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let found = String::deserialize(deserializer)?;
    if found.contains(['/', '?', '@']) {
        let found = address::shown(&found);
        Err(D::Error::custom(format!(
            "found {found:?}, expected this machine's name as in the events' Resources"
        )))
    } else if found.is_empty() {
        let advice = "without `machine`, instance metadata is asked";
        Err(D::Error::custom(format!(
            "found \"\", expected this machine's name as in the events' Resources; {advice}"
        )))
    } else {
        Ok(Some(found))
    }
}

/// The address of the metadata service.
///
/// # Errors
/// What was found and what is expected.
pub fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let found = String::deserialize(deserializer)?;
    match address::check(&found) {
        Ok(_) => Ok(found),
        Err(why) => {
            let (found, expected) = (address::shown(&found), default_metadata());
            Err(D::Error::custom(format!(
                "found {found:?}, expected an address such as {expected:?}: {why}"
            )))
        }
    }
}

/// The path of a file.
///
/// # Errors
/// What was found and what is expected.
pub fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let found = PathBuf::deserialize(deserializer)?;
    if found.as_os_str().is_empty() {
        Err(D::Error::custom("found \"\", expected the path of a file"))
    } else {
        Ok(found)
    }
}
