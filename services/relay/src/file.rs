//! What the relay needs of the configuration file.

use std::path::PathBuf;

use serde::Deserialize;

use scheduled_events_common::config::{default_audit, default_metadata, machine, metadata, path};
use scheduled_events_common::toml_file::{Invalid, invalid};

use crate::config::RelayConfig;

/// What the relay needs of the configuration file. The other keys are the gate's and the drain's, which check them.
#[derive(Clone, Debug)]
pub struct RelayFile {
    /// This machine's name. Without it, instance metadata is asked.
    pub machine: Option<String>,
    /// The file of `scheduled-events watch --audit`.
    pub audit: PathBuf,
    /// The metadata service.
    pub metadata: String,
    /// What is forwarded, and where to.
    pub relay: RelayConfig,
}

#[derive(Deserialize)]
struct Keys {
    #[serde(default, deserialize_with = "machine")]
    machine: Option<String>,
    #[serde(default = "default_audit", deserialize_with = "path")]
    audit: PathBuf,
    #[serde(default = "default_metadata", deserialize_with = "metadata")]
    metadata: String,
    relay: Option<RelayConfig>,
}

impl RelayFile {
    /// Reads a configuration.
    ///
    /// # Errors
    /// The offset of what is wrong, where it has one, and a sentence about it.
    ///
    /// ```
    /// use scheduled_events_relay::file::RelayFile;
    ///
    /// let file = RelayFile::parse(r#"
    ///     [[relay.target]]
    ///     name = "inventory"
    ///     kind = "webhook"
    ///     url = "https://inventory.example.com/events"
    /// "#).unwrap();
    /// assert_eq!(file.relay.targets[0].name.get_ref(), "inventory");
    /// ```
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let Some(file) = Self::read(text)? else {
            return Err((None, "there is no table `relay` with targets".to_owned()));
        };
        file.relay.check()?;
        Ok(file)
    }

    /// Reads a configuration, which need not have targets, and does not look at what they mean: for programs that forward nothing.
    ///
    /// # Errors
    /// The offset of what is wrong, where it has one, and a sentence about it.
    ///
    /// ```
    /// use scheduled_events_relay::file::RelayFile;
    ///
    /// assert!(RelayFile::read("audit = \"/a\"").unwrap().is_none());
    /// assert!(RelayFile::read("[[relay.target]]\nnam = \"x\"").is_err());
    /// ```
    pub fn read(text: &str) -> Result<Option<Self>, Invalid> {
        let Keys {
            machine,
            audit,
            metadata,
            relay,
        } = toml::from_str(text).map_err(invalid)?;
        Ok(relay.map(|relay| Self {
            machine,
            audit,
            metadata,
            relay,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheduled_events_common::toml_file;

    const TARGET: &str =
        "[[relay.target]]\nname = \"x\"\nkind = \"webhook\"\nurl = \"https://example.com/\"\n";

    fn error(text: &str) -> String {
        toml_file::place(text, RelayFile::parse(text).expect_err("an error"))
    }

    #[test]
    fn an_error_has_its_place() {
        for (text, expected) in [
            (
                TARGET.replace("\"x\"", "\"a/b\""),
                "2:8 the target's name is \"a/b\"",
            ),
            (
                TARGET.replace("\"webhook\"", "\"telegram\""),
                "3:8 unknown variant `telegram`",
            ),
            (TARGET.repeat(2), "6:8 there are two targets \"x\""),
            (
                format!("{TARGET}format = \"xml\""),
                "5:10 unknown variant `xml`",
            ),
            (
                format!("{TARGET}event = [\"Reboot\", \"Preemt\"]"),
                "5:9 found \"Preemt\" in `event`, expected types of events: Freeze, Reboot, Redeploy, Preempt, Terminate, Other",
            ),
            (
                format!("{TARGET}content_type = \"text/plain\""),
                "2:8 target \"x\": `content_type` needs a `template`",
            ),
        ] {
            let error = error(&text);
            assert!(error.starts_with(expected), "{error}\nexpected: {expected}");
        }
    }
}
