//! Keys of configurations that several programs have: how they are read, and their defaults.

use std::path::{self, Component, Path, PathBuf};

use scheduled_events::files::is_same_file;
use serde::Deserialize as _;
use serde::de::{Deserializer, Error as _};

use crate::address;
use crate::toml_file::Invalid;

/// What a file of metrics has to be.
const OWN_FILE: &str = "expected a file of its own, which is replaced every few seconds";

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

/// The same for a file that need not be named.
///
/// # Errors
/// What was found and what is expected.
pub fn some_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    path(deserializer).map(Some)
}

/// Checks that a file of metrics, which is replaced every few seconds, is none of the other files
/// of a configuration. Each path has the name of its key.
///
/// # Errors
/// Whose file it is.
///
/// ```
/// use std::path::Path;
///
/// use scheduled_events_common::config::check_metrics;
///
/// let metrics = Some(Path::new("/a/../audit"));
/// let problem = check_metrics("metrics", metrics, [("audit", Path::new("/audit"))]).unwrap_err();
/// assert!(problem.1.starts_with("`metrics` is the file of `audit`: \"/a/../audit\", expected"));
/// assert!(check_metrics("metrics", metrics, [("audit", Path::new("/audit.1"))]).is_ok());
/// ```
pub fn check_metrics<'a>(
    key: &str,
    metrics: Option<&Path>,
    others: impl IntoIterator<Item = (&'a str, &'a Path)>,
) -> Result<(), Invalid> {
    let Some(metrics) = metrics else {
        return Ok(());
    };
    let found = plain(metrics);
    let mut others = others.into_iter();
    others
        .find(|(_, path)| plain(path) == found)
        .map_or(Ok(()), |(other, _)| {
            let shown = metrics.display().to_string();
            Err((
                None,
                format!("`{key}` is the file of `{other}`: {shown:?}, {OWN_FILE}"),
            ))
        })
}

/// Checks that a file of metrics is not the configuration that names it.
///
/// # Errors
/// It is.
pub fn check_metrics_of_file(
    key: &str,
    metrics: Option<&Path>,
    configuration: &Path,
) -> Result<(), Invalid> {
    if metrics.is_some_and(|metrics| is_same_file(metrics, configuration)) {
        return Err((None, format!("`{key}` is this configuration, {OWN_FILE}")));
    }
    Ok(())
}

/// The absolute path without `.` and `..`, whether it exists or not.
pub fn plain(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path::absolute(path).unwrap_or(path.into()).components() {
        match part {
            Component::ParentDir => drop(found.pop()),
            Component::CurDir => {}
            part => found.push(part),
        }
    }
    found
}
