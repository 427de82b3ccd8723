//! Secrets: read from files, never printed.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::address::without_secrets;

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
    /// A sentence about the file; it does not have the file's content.
    pub fn read(&self) -> Result<Secret, String> {
        let path = self.path()?;
        let name = self.name();
        let cannot = |error: &dyn fmt::Display| format!("cannot read the secret {name}: {error}");
        let mut text = String::new();
        let file = File::open(&path).map_err(|error| cannot(&error))?;
        file.take(SECRET_MAX + 1)
            .read_to_string(&mut text)
            .map_err(|error| cannot(&error))?;
        let secret = text.trim();
        if text.len() as u64 > SECRET_MAX || secret.is_empty() || secret.contains(char::is_control)
        {
            return Err(format!(
                "the file {name} is no secret: expected one line of at most {SECRET_MAX} bytes"
            ));
        }
        Ok(Secret::new(secret))
    }

    /// The file. A name without `/` is a systemd credential.
    fn path(&self) -> Result<PathBuf, String> {
        if self.0.as_os_str().as_encoded_bytes().contains(&b'/') {
            return Ok(self.0.clone());
        }
        match std::env::var_os("CREDENTIALS_DIRECTORY") {
            Some(folder) => Ok(Path::new(&folder).join(&self.0)),
            None => Err(format!(
                "the secret {} names a systemd credential, and CREDENTIALS_DIRECTORY is not set: add `LoadCredential=NAME:PATH` to \
                 the unit, or give a path",
                self.name()
            )),
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
