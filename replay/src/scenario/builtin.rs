//! The table of built-in scenarios: `replay/scenarios/*.toml`, compiled into the program.
//!
//! The command, the Python module and the tests take names and descriptions from here.

use std::error::Error;
use std::path::Path;
use std::{fmt, fs, io};

use crate::scenario::{Scenario, ScenarioError};
use crate::suggest::nearest;

impl Scenario {
    /// The built-in scenario `name`.
    ///
    /// ```
    /// use scheduled_events_replay::Scenario;
    ///
    /// assert!(Scenario::builtin("live-migration").is_some());
    /// assert_eq!(Scenario::nearest("live-migartion"), Some("live-migration"));
    /// ```
    pub fn builtin(name: &str) -> Option<Self> {
        let (_, text) = BUILTINS.iter().find(|(known, _)| *known == name)?;
        // A test checks that all of them parse.
        Self::parse(text).ok()
    }

    /// The built-in scenario `name`, or the scenario in the file of that path.
    ///
    /// # Errors
    /// [`LoadError`]: there is neither, or the file cannot be read or is not a scenario.
    pub fn load(name: &str) -> Result<Self, LoadError> {
        if let Some(scenario) = Self::builtin(name) {
            return Ok(scenario);
        }
        let named = || name.to_owned();
        if !Path::new(name).exists() {
            return Err(LoadError::Missing { name: named() });
        }
        let text = fs::read_to_string(name).map_err(|error| LoadError::Unreadable {
            path: named(),
            error,
        })?;
        Self::parse(&text).map_err(|error| LoadError::Invalid {
            path: named(),
            error,
        })
    }

    /// The names and descriptions of the built-in scenarios, in the order of the table.
    pub fn builtins() -> impl Iterator<Item = (&'static str, String)> {
        BUILTINS
            .iter()
            .filter_map(|&(name, text)| Some((name, Self::parse(text).ok()?.about)))
    }

    /// The built-in scenario whose name `name` probably misspells.
    pub fn nearest(name: &str) -> Option<&'static str> {
        nearest(name, BUILTINS.iter().map(|&(known, _)| known))
    }

    /// A suggestion for a `name` that no scenario has, for an error message.
    pub fn suggestion(name: &str) -> String {
        let nearest = Self::nearest(name).map_or(String::new(), |nearest| {
            format!("did you mean {nearest:?}? ")
        });
        nearest + "`scenarios` lists all scenarios"
    }

    /// The TOML text of the built-in scenario `name`, as a start for another scenario.
    pub fn builtin_source(name: &str) -> Option<&'static str> {
        BUILTINS
            .iter()
            .find(|(known, _)| *known == name)
            .map(|&(_, text)| text)
    }
}

/// Why there is no scenario of a name.
///
/// ```
/// use scheduled_events_replay::Scenario;
/// use scheduled_events_replay::scenario::LoadError;
///
/// assert!(matches!(Scenario::load("no-such-file.toml"), Err(LoadError::Missing { .. })));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// There is neither a scenario of this name nor a file.
    Missing {
        /// The name.
        name: String,
    },
    /// The system cannot read the file.
    Unreadable {
        /// The file.
        path: String,
        /// The error of the system.
        error: io::Error,
    },
    /// The file is not a scenario.
    Invalid {
        /// The file.
        path: String,
        /// What is wrong, and where.
        error: ScenarioError,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { name } => write!(
                f,
                "there is no scenario and no file {name:?}; {}",
                Scenario::suggestion(name)
            ),
            Self::Unreadable { path, error } => write!(f, "cannot read {path}: {error}"),
            Self::Invalid { path, error } => write!(f, "{path}:{error}"),
        }
    }
}

impl Error for LoadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Missing { .. } => None,
            Self::Unreadable { error, .. } => Some(error),
            Self::Invalid { error, .. } => Some(error),
        }
    }
}

/// Reads the file of each scenario at compile time.
macro_rules! builtins {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../scenarios/", $name, ".toml")))),*]
    };
}

/// Name and TOML text of each built-in scenario.
const BUILTINS: &[(&str, &str)] = builtins![
    "live-migration",
    "host-maintenance",
    "user-reboot",
    "user-redeploy",
    "redeploy",
    "cancelled",
    "preempt",
    "rebalance",
    "rebalance-withdrawn",
    "terminate",
    "terminate-pair",
    "hardware-failure",
    "rescheduled",
    "reboot-during-freeze",
    "incarnation-reset",
    "scale-in",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_scenario_parses_and_has_a_description() {
        for &(name, text) in BUILTINS {
            let scenario =
                Scenario::parse(text).unwrap_or_else(|error| panic!("{name}.toml:{error}"));
            assert!(scenario.about.ends_with('.'), "{name}");
            assert!(!scenario.about.contains('\n'), "{name}");
        }
        assert_eq!(Scenario::builtins().count(), BUILTINS.len());
    }

    #[test]
    fn a_scenario_is_loaded_by_name_or_path() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/preempt.toml");
        assert_eq!(
            Scenario::load(path).unwrap().about,
            Scenario::load("preempt").unwrap().about
        );
        let refused = |name: &str| Scenario::load(name).unwrap_err().to_string();
        let message = "there is no scenario and no file \"preemt\"; did you mean \"preempt\"? `scenarios` lists all scenarios";
        assert_eq!(refused("preemt"), message);
        assert_eq!(
            refused("xyzzy"),
            "there is no scenario and no file \"xyzzy\"; `scenarios` lists all scenarios"
        );
        assert!(refused(env!("CARGO_MANIFEST_DIR")).starts_with("cannot read "));
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert!(
            refused(manifest).starts_with(&format!("{manifest}:")),
            "{}",
            refused(manifest)
        );
    }

    #[test]
    fn the_table_and_the_folder_have_the_same_scenarios() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"))
            .expect("the folder");
        let files = folder.map(|file| {
            file.expect("an entry")
                .file_name()
                .into_string()
                .expect("a UTF-8 name")
        });
        let mut files: Vec<_> = files
            .map(|file| file.trim_end_matches(".toml").to_owned())
            .collect();
        files.sort();
        let mut names: Vec<_> = BUILTINS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert_eq!(files, names);
    }

    #[test]
    fn descriptions_of_invented_documents_say_that_they_are_invented() {
        for (name, about) in Scenario::builtins() {
            let scenario = Scenario::builtin(name).expect(name);
            let invented = scenario.events.iter().any(|e| {
                e.is_advice()
                    || e.event_type == "Terminate"
                    || (e.event_type == "Redeploy" && e.event_source == "Platform")
            });
            assert_eq!(about.contains("invented"), invented, "{name}: {about}");
        }
    }

    #[test]
    fn nearest_finds_misspellings_only() {
        assert_eq!(Scenario::nearest("live_migration"), Some("live-migration"));
        assert_eq!(Scenario::nearest("prempt"), Some("preempt"));
        assert_eq!(Scenario::nearest("Terminate"), Some("terminate"));
        assert_eq!(Scenario::nearest("quite-something-else"), None);
        assert_eq!(Scenario::nearest("my.toml"), None);
    }
}
