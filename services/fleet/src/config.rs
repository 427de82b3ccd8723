//! The configuration file of a machine, as a whole: the gate's keys, and the tables of the drain and of the relay.

use std::path::Path;

use scheduled_events_common::toml_file::{self, Invalid, LoadError};
use scheduled_events_gate::config::Config as GateConfig;
use scheduled_events_node::config::Config as NodeConfig;
use scheduled_events_relay::file::RelayFile;

/// What each part of the program needs of the file.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) gate: GateConfig,
    pub(crate) node: NodeConfig,
}

impl Config {
    /// Reads a file. An error begins with `FILE:LINE:COLUMN: ` where it has a place.
    pub(crate) fn load(path: &Path) -> Result<Self, LoadError> {
        toml_file::load(path, |text| {
            let config = Self::parse(text)?;
            config.gate.check_place(path)?;
            Ok(config)
        })
    }

    fn parse(text: &str) -> Result<Self, Invalid> {
        let (gate, node) = (GateConfig::parse(text)?, NodeConfig::parse(text)?);
        RelayFile::read(text)?;
        Ok(Self { gate, node })
    }
}

/// Reads the file for the relay, which needs targets.
pub(crate) fn load_relay(path: &Path) -> Result<RelayFile, LoadError> {
    toml_file::load(path, parse_relay)
}

fn parse_relay(text: &str) -> Result<RelayFile, Invalid> {
    Config::parse(text)?;
    RelayFile::parse(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: &str =
        "[[relay.target]]\nname = \"x\"\nkind = \"webhook\"\nurl = \"https://example.com/\"\n";

    fn error(text: &str) -> String {
        toml_file::place(text, parse_relay(text).expect_err("an error"))
    }

    #[test]
    fn a_file_that_also_configures_the_gate_is_checked_as_a_whole() {
        let gate = "engine = \"folder\"\naudit = \"/a\"\nfolder = { path = \"/tmp/x\" }\n";
        let file = parse_relay(&format!("{gate}{TARGET}")).unwrap();
        assert_eq!(
            (file.audit.to_str(), file.relay.targets.len()),
            (Some("/a"), 1)
        );
        assert!(
            error(&format!("sokcet = \"x\"\n{gate}{TARGET}")).contains("unknown field `sokcet`")
        );
        assert_eq!(error(gate), "there is no table `relay` with targets");
        assert!(
            error(&format!("sokcet = \"x\"\n{TARGET}")).starts_with("1:1 unknown field `sokcet`")
        );
        // The gate does not mind the targets, and refuses what is wrong with them and with the table of the drain.
        assert!(Config::parse(&format!("{gate}{TARGET}")).is_ok());
        for (wrong, place) in [
            (TARGET.replace("kind", "kimd"), "6:1 unknown field `kimd`"),
            (
                "[node]\ntimeut = \"1m\"".to_owned(),
                "5:1 unknown field `timeut`",
            ),
        ] {
            let text = format!("{gate}{wrong}");
            let error = toml_file::place(&text, Config::parse(&text).expect_err("an error"));
            assert!(error.starts_with(place), "{error}");
        }
    }
}
