//! The part of the configuration file that the relay needs.

use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::config::relay::RelayConfig;
use crate::toml_file::{self, Invalid};

/// The part of the configuration file that the relay needs.
#[derive(Clone, Debug)]
pub struct RelayFile {
    /// This machine's name; by default, the name in instance metadata.
    pub machine: Option<String>,
    /// The file of `scheduled-events watch --audit`.
    pub audit: PathBuf,
    /// The metadata service.
    pub metadata: String,
    /// The records to forward, and their targets.
    pub relay: RelayConfig,
}

impl RelayFile {
    /// Reads a file.
    ///
    /// # Errors
    /// A sentence that begins with `FILE:LINE:COLUMN: ` where the error has a place.
    pub fn load(path: &Path) -> Result<Self, String> {
        toml_file::load(path, Self::parse)
    }

    /// Reads a configuration.
    ///
    /// # Errors
    /// The offset of the error, where it has one, and a sentence about it.
    ///
    /// ```
    /// use scheduled_events_fleet::relay::file::RelayFile;
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
        let Config {
            machine,
            audit,
            metadata,
            relay,
            ..
        } = Config::parse(text)?;
        let relay = relay.ok_or((None, "there is no table `relay` with targets".to_owned()))?;
        let file = Self {
            machine,
            audit,
            metadata,
            relay,
        };
        file.relay.check()?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: &str =
        "[[relay.target]]\nname = \"x\"\nkind = \"webhook\"\nurl = \"https://example.com/\"\n";

    fn error(text: &str) -> String {
        toml_file::place(text, RelayFile::parse(text).expect_err("an error"))
    }

    #[test]
    fn a_file_that_also_configures_the_gate_is_checked_as_a_whole() {
        let gate = "engine = \"folder\"\naudit = \"/a\"\nfolder = { path = \"/tmp/x\" }\n";
        let file = RelayFile::parse(&format!("{gate}{TARGET}")).unwrap();
        assert_eq!(
            (file.audit, file.relay.targets.len()),
            (PathBuf::from("/a"), 1)
        );
        assert!(
            error(&format!("sokcet = \"x\"\n{gate}{TARGET}")).contains("unknown field `sokcet`")
        );
        assert_eq!(error(gate), "there is no table `relay` with targets");
        assert!(
            error(&format!("sokcet = \"x\"\n{TARGET}")).starts_with("1:1 unknown field `sokcet`")
        );
        // The gate ignores the targets, and refuses invalid ones.
        assert!(Config::parse(&format!("{gate}{TARGET}")).is_ok());
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
