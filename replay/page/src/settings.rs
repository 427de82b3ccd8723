//! The settings of a run. A link that one page shares has them in its fragment, which no browser
//! sends to a server.

use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use scheduled_events_replay::scenario::{EventScript, RecordingError};
use scheduled_events_replay::{
    ADVICE_API_VERSION, ConfigError, Fault, FaultError, Scenario, ScenarioError, ServerConfig,
};
use serde::{Deserialize, Serialize};

/// A scenario and the settings for playing it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// The name of a built-in scenario or of a file, or another name.
    pub(crate) name: String,
    /// The text of the scenario file.
    pub(crate) text: String,
    pub(crate) speed: f64,
    pub(crate) machines: u32,
    pub(crate) vm_name: String,
    pub(crate) seed: u64,
    /// The faults, as written, from the first request on.
    pub(crate) faults: Vec<String>,
}

/// The largest seed that a page can hold without loss: JavaScript's numbers have 53 bits.
pub(crate) const SEED_MAX: u64 = (1 << 53) - 1;

impl Settings {
    fn new(name: &str, text: String) -> Self {
        Self {
            name: name.to_owned(),
            text,
            speed: 1.0,
            machines: 1,
            vm_name: "WestNO_0".to_owned(),
            seed: random_seed(),
            faults: Vec::new(),
        }
    }

    /// The settings for the name of a built-in scenario, the path of a scenario file or of an audit
    /// file, or a shared link.
    pub(crate) fn load(scenario: &str) -> Result<Self, SettingsError> {
        if let Some((address, fragment)) = scenario.split_once('#')
            && (address.is_empty() || address.starts_with("http://"))
        {
            return Self::from_link(fragment);
        }
        if let Some(text) = Scenario::builtin_source(scenario) {
            return Ok(Self::new(scenario, text.to_owned()));
        }
        if !Path::new(scenario).exists() {
            return Err(SettingsError::Missing(scenario.to_owned()));
        }
        let path = || scenario.to_owned();
        let text = fs::read_to_string(scenario).map_err(|error| SettingsError::Unreadable {
            path: path(),
            error,
        })?;
        let name = Path::new(scenario)
            .file_name()
            .map_or_else(|| scenario.into(), |name| name.to_string_lossy());
        let text = from_file(&text).map_err(|error| SettingsError::Recording {
            path: path(),
            error,
        })?;
        let settings = Self::new(&name, text);
        Scenario::parse(&settings.text).map_err(|error| SettingsError::File {
            path: path(),
            error,
        })?;
        Ok(settings)
    }

    /// The settings in the fragment of a link: `scenario=NAME` or `text=TOML`, and the other
    /// members by their names.
    fn from_link(fragment: &str) -> Result<Self, SettingsError> {
        let mut settings = Self::new("", String::new());
        for (name, value) in form_urlencoded::parse(fragment.as_bytes()) {
            let invalid = |expected| SettingsError::LinkValue {
                part: format!("{name}={value}"),
                expected,
            };
            match &*name {
                "scenario" => settings.name = value.into_owned(),
                "text" => settings.text = value.into_owned(),
                "speed" => {
                    settings.speed = value
                        .parse()
                        .map_err(|_| invalid("a number greater than 0"))?;
                }
                "machines" => settings.machines = value.parse().map_err(|_| invalid("a number"))?,
                "vm_name" => settings.vm_name = value.into_owned(),
                "seed" => settings.seed = value.parse().map_err(|_| invalid("a number"))?,
                "fault" => settings.faults.push(value.into_owned()),
                // The keys of the page are not part of the settings.
                "token" | "ticket" => {}
                _ => return Err(SettingsError::LinkPart(name.into_owned())),
            }
        }
        if settings.text.is_empty() {
            let text = Scenario::builtin_source(&settings.name)
                .ok_or_else(|| SettingsError::LinkScenario(settings.name.clone()))?;
            text.clone_into(&mut settings.text);
        }
        Ok(settings)
    }

    /// The configuration of a server that plays this.
    pub(crate) fn config(&self, listen: SocketAddr) -> Result<ServerConfig, SettingsError> {
        let scenario = Scenario::parse(&self.text).map_err(SettingsError::Scenario)?;
        if self.seed > SEED_MAX {
            return Err(SettingsError::Seed(self.seed));
        }
        let has_advice = scenario.events.iter().any(EventScript::is_advice);
        let mut config = ServerConfig::new(scenario)
            .without_verdict()
            .listen(listen)
            .speed(self.speed)
            .vm_name(self.vm_name.clone());
        config = config
            .machines(self.machines)
            .seed(self.seed)
            .findings(true);
        if has_advice {
            // No older version shows it.
            config = config.newest_api_version(ADVICE_API_VERSION);
        }
        config.check().map_err(SettingsError::Config)?;
        for fault in &self.faults {
            config = config.fault(fault.parse::<Fault>().map_err(SettingsError::Fault)?);
        }
        Ok(config)
    }
}

/// Why there are no settings, or why they cannot be played.
#[derive(Debug)]
pub(crate) enum SettingsError {
    /// There is neither a scenario nor a file of this name.
    Missing(String),
    Unreadable {
        path: String,
        error: io::Error,
    },
    Recording {
        path: String,
        error: RecordingError,
    },
    /// The file is not a scenario.
    File {
        path: String,
        error: ScenarioError,
    },
    /// A part of a link, `NAME=VALUE`.
    LinkValue {
        part: String,
        expected: &'static str,
    },
    /// The name of an unknown part of a link.
    LinkPart(String),
    /// A link to an unknown scenario.
    LinkScenario(String),
    /// The text is not a scenario.
    Scenario(ScenarioError),
    Seed(u64),
    Config(ConfigError),
    Fault(FaultError),
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(
                f,
                "there is no scenario and no file {name:?}; {}",
                Scenario::suggestion(name)
            ),
            Self::Unreadable { path, error } => write!(f, "cannot read {path}: {error}"),
            Self::Recording { path, error } => write!(f, "{path}: {error}"),
            Self::File { path, error } => write!(f, "{path}:{error}"),
            Self::LinkValue { part, expected } => {
                write!(f, "the link has {part}, expected {expected}")
            }
            Self::LinkPart(name) => write!(
                f,
                "the link has an unknown part {name:?}; is it from a newer version?"
            ),
            Self::LinkScenario(name) => write!(
                f,
                "the link names no scenario of this version: {}",
                Scenario::suggestion(name)
            ),
            Self::Scenario(error) => write!(
                f,
                "line {}, column {} of the scenario: {}",
                error.line(),
                error.column(),
                error.message()
            ),
            Self::Seed(seed) => write!(f, "expected a seed up to {SEED_MAX}, found {seed}"),
            Self::Config(error) => error.fmt(f),
            Self::Fault(error) => error.fmt(f),
        }
    }
}

impl Error for SettingsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable { error, .. } => Some(error),
            Self::Recording { error, .. } => Some(error),
            Self::File { error, .. } | Self::Scenario(error) => Some(error),
            Self::Config(error) => error.source(),
            Self::Fault(error) => error.source(),
            Self::Missing(_)
            | Self::LinkValue { .. }
            | Self::LinkPart(_)
            | Self::LinkScenario(_)
            | Self::Seed(_) => None,
        }
    }
}

/// The text of a scenario file, or that of a recorded audit file as one.
pub(crate) fn from_file(text: &str) -> Result<String, RecordingError> {
    // An audit file is JSON Lines, and its first line may be damaged. No scenario file begins with
    // a brace or has such a line.
    let is_recording = text.trim_start().starts_with('{')
        || text.lines().any(|line| line.starts_with("{\"record\":"));
    if is_recording {
        Scenario::recorded(text)
    } else {
        Ok(text.to_owned())
    }
}

fn random_seed() -> u64 {
    // A short number, since people copy it. Without randomness, all runs have the same ids.
    getrandom::u64().map_or(1, |number| number % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANYWHERE: &str = "127.0.0.1:0";

    #[test]
    fn a_link_has_the_whole_settings() {
        let link = "#scenario=mine&text=about+%3D+%22x%22%0A%5B%5Bevent%5D%5D%0Aevent_type+%3D+%22Freeze%22&speed=0.5&machines=2&seed=3";
        let settings = Settings::load(link).expect("a link");
        assert_eq!(
            settings.text,
            "about = \"x\"\n[[event]]\nevent_type = \"Freeze\""
        );
        assert!(
            settings
                .config(ANYWHERE.parse().expect("an address"))
                .is_ok()
        );
        for (link, expected) in [
            ("#speed=fast&scenario=preempt", "expected a number"),
            ("#scenario=preemt", "did you mean \"preempt\""),
            ("#", "no scenario"),
            (
                "http://127.0.0.1:1/#token=x&color=red",
                "unknown part \"color\"",
            ),
        ] {
            let message = Settings::load(link).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn settings_that_cannot_be_played_say_why() {
        let good = Settings::load("preempt").expect("a built-in name");
        let refused = |change: &dyn Fn(&mut Settings)| {
            let mut settings = good.clone();
            change(&mut settings);
            settings
                .config(ANYWHERE.parse().expect("an address"))
                .unwrap_err()
                .to_string()
        };
        assert!(
            refused(&|it| it.text = "about = 1".into())
                .starts_with("line 1, column 9 of the scenario")
        );
        assert!(refused(&|it| it.seed = u64::MAX).contains("9007199254740991"));
        assert!(refused(&|it| it.faults = vec!["x".into()]).contains("unknown fault"));
    }

    #[test]
    fn a_recording_becomes_a_scenario() {
        let change = |word: &str, second: u32| {
            format!(
                "{{\"record\":\"change\",\"change\":\"{word}\",\"event_id\":\"A\",\"event_type\":\"Freeze\",\"resources\":[\"web_3\"],\
                 \"not_before\":\"2026-01-01T00:10:00Z\",\"mine\":true,\"time\":\"2026-01-01T00:00:{second:02}Z\"}}\n"
            )
        };
        let text =
            from_file(&(change("scheduled", 1) + &change("started", 30))).expect("a recording");
        assert_eq!(
            Scenario::parse(&text).expect("a scenario").events[0].event_type,
            "Freeze"
        );
        let damaged =
            from_file(&("nge\"}\n".to_owned() + &change("scheduled", 1))).expect("a recording");
        assert!(damaged.contains("event_type = \"Freeze\""), "{damaged}");
        assert!(
            from_file("{}")
                .unwrap_err()
                .to_string()
                .contains("no record of a watcher")
        );
    }
}
