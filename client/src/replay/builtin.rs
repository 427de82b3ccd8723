//! The scenarios that come with the command, as data files.

use super::scenario::Scenario;

impl Scenario {
    /// The built-in scenario called `name`, or nothing.
    ///
    /// ```
    /// use scheduled_events::replay::Scenario;
    ///
    /// assert!(Scenario::builtin("live-migration").is_some());
    /// assert_eq!(Scenario::nearest("live-migartion"), Some("live-migration"));
    /// ```
    pub fn builtin(name: &str) -> Option<Self> {
        let (_, text) = BUILTINS.iter().find(|(known, _)| *known == name)?;
        // A built-in that does not parse is caught by a test over all of them.
        Self::parse(text).ok()
    }

    /// The names of the built-in scenarios with their one-sentence description, in the order to show them.
    pub fn builtins() -> impl Iterator<Item = (&'static str, String)> {
        BUILTINS.iter().filter_map(|&(name, text)| Some((name, Self::parse(text).ok()?.about)))
    }

    /// The built-in scenario that `name` is probably a misspelling of.
    pub fn nearest(name: &str) -> Option<&'static str> {
        super::nearest(name, BUILTINS.iter().map(|&(known, _)| known))
    }

    /// The text of the built-in scenario called `name`, to start a scenario of one's own from.
    pub fn builtin_source(name: &str) -> Option<&'static str> {
        BUILTINS.iter().find(|(known, _)| *known == name).map(|&(_, text)| text)
    }
}

macro_rules! builtins {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../scenarios/", $name, ".toml")))),*]
    };
}

const BUILTINS: &[(&str, &str)] = builtins![
    "live-migration",
    "host-maintenance",
    "user-reboot",
    "user-redeploy",
    "redeploy",
    "cancelled",
    "preempt",
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
    fn every_builtin_parses_and_explains_itself() {
        for &(name, text) in BUILTINS {
            let scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{name}.toml:{error}"));
            assert!(scenario.about.ends_with('.'), "{name}");
            assert!(!scenario.about.contains('\n'), "{name}");
        }
        assert_eq!(BUILTINS.len(), 14);
        assert_eq!(Scenario::builtins().count(), 14);
    }

    #[test]
    fn invented_documents_say_so() {
        for (name, about) in Scenario::builtins() {
            let scenario = Scenario::builtin(name).expect(name);
            let invented = scenario
                .events
                .iter()
                .any(|e| e.event_type == "Terminate" || (e.event_type == "Redeploy" && e.event_source == "Platform"));
            assert_eq!(about.contains("invented"), invented, "{name}: {about}");
        }
    }

    #[test]
    fn only_misspellings_have_a_nearest() {
        assert_eq!(Scenario::nearest("live_migration"), Some("live-migration"));
        assert_eq!(Scenario::nearest("prempt"), Some("preempt"));
        assert_eq!(Scenario::nearest("Terminate"), Some("terminate"));
        assert_eq!(Scenario::nearest("quite-something-else"), None);
        assert_eq!(Scenario::nearest("my.toml"), None);
    }
}
