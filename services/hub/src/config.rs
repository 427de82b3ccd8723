//! The configuration file, in TOML.
//!
//! Unknown keys are errors, since a misspelt key would silently mean a default. An error names
//! file, line and column.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::Url;
use scheduled_events::hooks::CommandLine;
use scheduled_events_common::address::{self, AddressError};
use scheduled_events_common::config::{check_metrics, check_metrics_of_file, plain, some_path};
use scheduled_events_common::secret::SecretFile;
use scheduled_events_common::toml_file::{self, Invalid, LoadError, duration, invalid};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

/// The file that is read by default.
pub const DEFAULT_FILE: &str = "/etc/scheduled-events/hub.toml";

/// How long the active hub may be silent, if the configuration does not specify it.
pub const TAKE_OVER_AFTER: Duration = Duration::from_secs(30);

/// The form of a subscription's id.
const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000000";

/// The configuration: which events the hub watches, and its actions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The source of events.
    pub source: SourceKind,
    /// The subscriptions that Resource Graph is queried for. With a queue, the hub acts only on
    /// events of these.
    #[serde(deserialize_with = "subscriptions")]
    pub subscriptions: Vec<String>,
    /// The policy: `observe`, `sample` or the path of a TOML file, as for the command.
    #[serde(default = "default_policy")]
    pub policy: String,
    /// The user's commands.
    #[serde(default)]
    pub hooks: Hooks,
    /// Whether events are approved.
    #[serde(default)]
    pub approve: Approve,
    /// The file with every record, synced before a message is deleted and before an event is
    /// approved.
    #[serde(deserialize_with = "path")]
    pub audit: PathBuf,
    /// The folder for state that must survive a restart.
    #[serde(deserialize_with = "path")]
    pub state: PathBuf,
    /// A file with metrics for Prometheus, for the textfile collector of `node_exporter`.
    #[serde(default, deserialize_with = "some_path")]
    pub metrics: Option<PathBuf>,
    /// How often Resource Graph is queried. With a queue, this finds the content of lost messages.
    #[serde(default = "default_reconcile", deserialize_with = "reconcile")]
    pub reconcile: Duration,
    /// The configuration of a fleet, whose gate the hub asks for machines without an agent.
    pub gate: Option<PathBuf>,
    /// The configuration of a fleet whose engine keeps the state instead of the folder `state`, so
    /// that a second hub can take over.
    pub store: Option<PathBuf>,
    /// With `store`: how long the active hub may be silent before another one takes over; by
    /// default, [`TAKE_OVER_AFTER`].
    #[serde(default, deserialize_with = "some_duration")]
    pub take_over_after: Option<Duration>,
    /// For `source = "queue"`.
    pub queue: Option<Queue>,
    /// The hub's identity for Azure.
    #[serde(default)]
    pub identity: Identity,
    /// The cloud.
    #[serde(default)]
    pub cloud: Cloud,
    /// The address of Azure Resource Manager, if it is not the cloud's.
    pub management: Option<String>,
    /// The machines whose own watcher acts.
    #[serde(default)]
    pub agents: Agents,
}

/// The source of events.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// A Storage queue that Event Grid fills, and Resource Graph in addition.
    Queue,
    /// Only Resource Graph.
    Graph,
}

/// Whether events are approved.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Approve {
    /// By requests to Azure Resource Manager.
    Arm,
    /// Never. Nothing is prepared either: the hub records what it would do.
    #[default]
    Never,
}

/// The user's commands. Each gets the event as environment variables and as JSON on its standard
/// input.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hooks {
    /// Takes a machine out of service.
    #[serde(deserialize_with = "command")]
    pub prepare: Option<CommandLine>,
    /// Puts it back into service.
    #[serde(deserialize_with = "command")]
    pub recover: Option<CommandLine>,
    /// How many preparations run concurrently, and how many recoveries.
    #[serde(deserialize_with = "at_once")]
    pub at_once: u32,
    /// How long a preparation may run; by default, until the event starts, or 15 minutes if that is
    /// unknown.
    #[serde(deserialize_with = "timeout")]
    pub prepare_timeout: Option<Duration>,
}

impl Default for Hooks {
    fn default() -> Self {
        Self {
            prepare: None,
            recover: None,
            at_once: 16,
            prepare_timeout: None,
        }
    }
}

/// A Storage queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// The queue: `https://ACCOUNT.queue.core.windows.net/QUEUE`.
    #[serde(deserialize_with = "queue_url")]
    pub url: Url,
    /// The name of a queue in the same account for messages that cannot be read. By default they
    /// are deleted once they are in the audit file.
    #[serde(default, deserialize_with = "queue_name")]
    pub poison: Option<String>,
    /// A file with a SAS token, instead of the identity: the path, or the name of a systemd
    /// credential.
    pub sas_file: Option<SecretFile>,
    /// Whether the address is that of Azurite, the emulator, and the credential its well-known key.
    #[serde(default)]
    pub emulator: bool,
}

/// The hub's identity for Azure.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Identity {
    /// The source of its tokens.
    pub kind: IdentityKind,
    /// The client id of a user-assigned managed identity, or of a workload identity.
    pub client_id: Option<String>,
}

/// The source of tokens.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum IdentityKind {
    /// The managed identity of this machine.
    #[default]
    Managed,
    /// The workload identity of a pod.
    Workload,
    /// The login of the Azure CLI, for a person's own machine.
    Az,
    /// No token of Azure: the management service is an emulator on this machine.
    Emulator,
}

/// A cloud of Azure.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Cloud {
    /// Azure's public cloud.
    #[default]
    Public,
    /// Azure Government of the United States.
    UsGovernment,
    /// Azure in China.
    China,
}

impl Cloud {
    /// The address of Azure Resource Manager.
    pub const fn management(self) -> &'static str {
        match self {
            Self::Public => "https://management.azure.com",
            Self::UsGovernment => "https://management.usgovcloudapi.net",
            Self::China => "https://management.chinacloudapi.cn",
        }
    }
}

/// The machines whose own watcher acts: the hub reports their events, but neither prepares for them
/// nor approves them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Agents {
    /// Names of machines, case ignored; `*` matches any characters.
    #[serde(deserialize_with = "names")]
    pub machines: Vec<String>,
    /// The machines that have this tag, with any value but `false`.
    #[serde(deserialize_with = "tag")]
    pub tag: Option<String>,
}

/// Why the value of a setting, or of an argument, is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingError {
    /// This is no id of a subscription.
    Subscription(String),
    /// `management` is no address of a server.
    Management {
        /// The value, without secrets.
        found: String,
        /// What is wrong with it.
        error: AddressError,
    },
    /// `management` is this value, without secrets, to which no token may be sent.
    NotPrivate(String),
}

impl fmt::Display for SettingError {
    /// The value that was found, and the values that are expected.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subscription(found) => write!(
                f,
                "found {found:?}, expected the id of a subscription, such as {SUBSCRIPTION}"
            ),
            Self::Management { found, error } => write!(f, "`management` is {found:?}: {error}"),
            Self::NotPrivate(found) => write!(
                f,
                "`management` is {found:?}: it is not https, and tokens are sent there"
            ),
        }
    }
}

impl Error for SettingError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Management { error, .. } => Some(error),
            Self::Subscription(_) | Self::NotPrivate(_) => None,
        }
    }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or is invalid. The sentence begins with `FILE:LINE:COLUMN: ` where
    /// the error has a place.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        toml_file::load(path, |text| {
            let config = Self::parse(text)?;
            check_metrics_of_file("metrics", config.metrics.as_deref(), path)?;
            Ok(config)
        })
    }

    /// Reads a configuration.
    ///
    /// # Errors
    /// The offset of the error, where it has one, and a sentence about it.
    ///
    /// ```
    /// use scheduled_events_hub::config::{Approve, Config};
    ///
    /// let config = Config::parse(r#"
    ///     source = "graph"
    ///     subscriptions = ["8d9a9e4f-5b1f-4a0c-9c6f-1d2e3f405162"]
    ///     audit = "/var/lib/scheduled-events-hub/audit"
    ///     state = "/var/lib/scheduled-events-hub/state"
    /// "#).unwrap();
    /// assert_eq!(config.approve, Approve::Never);
    /// assert_eq!(Config::parse("source = \"hub\"").unwrap_err().0, Some(9));
    /// ```
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let config: Self = toml::from_str(text).map_err(invalid)?;
        let problem = |sentence: &str| Err((None, sentence.to_owned()));
        if config.source == SourceKind::Queue && config.queue.is_none() {
            return problem(
                "`source = \"queue\"` needs a table `queue` with the `url` of the queue",
            );
        }
        if config.source == SourceKind::Graph && config.queue.is_some() {
            return problem(
                "found a table `queue` and `source = \"graph\"`, which reads no queue: remove the table, or set \
                 `source = \"queue\"`",
            );
        }
        if let Some(queue) = &config.queue {
            if queue.emulator && queue.sas_file.is_some() {
                return problem(
                    "`queue.emulator` and `queue.sas_file` exclude each other: one credential is used",
                );
            }
            let own = queue.url.path().trim_end_matches('/').rsplit('/').next();
            if queue
                .poison
                .as_deref()
                .is_some_and(|name| own == Some(name))
            {
                return problem(
                    "`queue.poison` is the queue of `queue.url`, expected another one: messages that cannot be read would come \
                     back for ever",
                );
            }
            if queue.emulator && !address::is_here(&queue.url) {
                return problem("`queue.emulator` is set, and `queue.url` is not on this machine");
            }
        }
        config.check_files()?;
        let management = config
            .management_url()
            .map_err(|why| (None, why.to_string()))?;
        if config.identity.kind == IdentityKind::Emulator && !address::is_here(&management) {
            return problem(
                "`identity.kind` is \"emulator\", and `management` is not on this machine",
            );
        }
        if config.identity.kind == IdentityKind::Az && config.identity.client_id.is_some() {
            return problem(
                "`identity.client_id` is for a managed or a workload identity, not for `kind = \"az\"`",
            );
        }
        if config.store.is_none() && config.take_over_after.is_some() {
            return problem(
                "found `take_over_after` without `store`, expected both: without a store no other hub can take over; set \
                 `store`, or remove `take_over_after`",
            );
        }
        if config
            .take_over_after
            .is_some_and(|time| time < Duration::from_secs(3))
        {
            return problem(
                "`take_over_after` is shorter than 3s: a hub that works would count as silent",
            );
        }
        Ok(config)
    }

    /// Whether each file is its own: the metrics replace theirs, and the state folder has other files.
    fn check_files(&self) -> Result<(), Invalid> {
        if plain(&self.audit).starts_with(plain(&self.state)) {
            return Err((
                None,
                format!(
                    "`audit` is inside `state`: {:?}, expected a file beside the folder, which has the states of machines only",
                    self.audit.display().to_string()
                ),
            ));
        }
        let files = [
            ("audit", Some(&self.audit)),
            ("state", Some(&self.state)),
            ("gate", self.gate.as_ref()),
            ("store", self.store.as_ref()),
        ];
        let files = files
            .into_iter()
            .filter_map(|(key, path)| Some((key, path?.as_path())));
        let policy = ("policy", Path::new(&self.policy));
        check_metrics("metrics", self.metrics.as_deref(), files.chain([policy]))
    }

    /// The address of Azure Resource Manager.
    ///
    /// # Errors
    /// The setting `management` is invalid.
    pub fn management_url(&self) -> Result<Url, SettingError> {
        let given = self
            .management
            .as_deref()
            .unwrap_or(self.cloud.management());
        let found = address::shown(given);
        match address::check(given) {
            Ok(url) if address::is_private(&url) => Ok(url),
            Ok(_) => Err(SettingError::NotPrivate(found)),
            Err(error) => Err(SettingError::Management { found, error }),
        }
    }
}

fn default_policy() -> String {
    "observe".into()
}

const fn default_reconcile() -> Duration {
    Duration::from_secs(300)
}

fn subscriptions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let found = Vec::<String>::deserialize(deserializer)?;
    if found.is_empty() {
        return Err(D::Error::custom(
            "found no subscription, expected at least one id",
        ));
    }
    for (index, id) in found.iter().enumerate() {
        check_subscription(id).map_err(D::Error::custom)?;
        if found[..index]
            .iter()
            .any(|other| other.eq_ignore_ascii_case(id))
        {
            return Err(D::Error::custom(format!(
                "found {id:?} twice, expected each subscription once"
            )));
        }
    }
    Ok(found)
}

/// Checks a subscription's id.
///
/// # Errors
/// [`SettingError::Subscription`].
pub fn check_subscription(id: &str) -> Result<(), SettingError> {
    let is_hyphen = |index: usize| SUBSCRIPTION.as_bytes().get(index) == Some(&b'-');
    let fits = |(index, byte): (usize, u8)| {
        if is_hyphen(index) {
            byte == b'-'
        } else {
            byte.is_ascii_hexdigit()
        }
    };
    if id.len() == SUBSCRIPTION.len() && id.bytes().enumerate().all(fits) {
        return Ok(());
    }
    Err(SettingError::Subscription(id.to_owned()))
}

fn reconcile<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let found = duration(deserializer)?;
    // By default, the quota of Resource Graph is 15 requests in 5 seconds for a user of a tenant.
    if found < Duration::from_secs(1) {
        return Err(D::Error::custom(
            "found less than a second, expected a duration such as \"5m\"",
        ));
    }
    Ok(found)
}

fn some_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

fn timeout<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let found = duration(deserializer)?;
    if found.is_zero() {
        return Err(D::Error::custom(
            "found no time, expected a duration such as \"10m\": each preparation would end at once",
        ));
    }
    Ok(Some(found))
}

fn at_once<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let found = u32::deserialize(deserializer)?;
    if (1..=256).contains(&found) {
        Ok(found)
    } else {
        Err(D::Error::custom(format!(
            "found {found}, expected 1 to 256 commands side by side"
        )))
    }
}

fn command<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<CommandLine>, D::Error> {
    CommandLine::parse(&String::deserialize(deserializer)?)
        .map(Some)
        .map_err(D::Error::custom)
}

fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let found = PathBuf::deserialize(deserializer)?;
    if found.as_os_str().is_empty() {
        Err(D::Error::custom("found \"\", expected a path"))
    } else {
        Ok(found)
    }
}

fn queue_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Url, D::Error> {
    let found = String::deserialize(deserializer)?;
    let problem = |why: &str| {
        let expected = "expected one such as \"https://ACCOUNT.queue.core.windows.net/QUEUE\"";
        D::Error::custom(format!(
            "found {:?}: {why}; {expected}",
            address::shown(&found)
        ))
    };
    let url = address::check(&found).map_err(|why| problem(&why.to_string()))?;
    if !address::is_private(&url) {
        return Err(problem("it is not https"));
    }
    // In the address of an emulator, the account is the first part of the path.
    let parts = url
        .path()
        .split('/')
        .filter(|part| !part.is_empty())
        .count();
    if parts != if address::is_here(&url) { 2 } else { 1 } {
        return Err(problem("it does not name a queue"));
    }
    Ok(url)
}

fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let found = Vec::<String>::deserialize(deserializer)?;
    // With a pattern that matches nothing, the hub would act beside the machine's own watcher.
    let Some(other) = found
        .iter()
        .find(|name| name.is_empty() || name.contains('/'))
    else {
        return Ok(found);
    };
    Err(D::Error::custom(format!(
        "found {other:?}, expected the name of a machine as in `Resources`, such as \"db-*\""
    )))
}

fn tag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let found = String::deserialize(deserializer)?;
    // Azure's rule: no other tag exists.
    let allowed = |c: char| !c.is_control() && !"<>%&\\?/".contains(c);
    if !found.is_empty() && found.chars().all(allowed) {
        return Ok(Some(found));
    }
    let expected = "expected the name of a tag, which has none of the characters < > % & \\ ? /";
    Err(D::Error::custom(format!("found {found:?}, {expected}")))
}

fn queue_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let found = String::deserialize(deserializer)?;
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (3..=63).contains(&found.len()) && found.bytes().all(allowed) && !found.starts_with('-') {
        return Ok(Some(found));
    }
    let expected = "expected the name of a queue: 3 to 63 lower-case letters, digits and hyphens";
    Err(D::Error::custom(format!("found {found:?}, {expected}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMON: &str = "subscriptions = [\"8d9a9e4f-5b1f-4a0c-9c6f-1d2e3f405162\"]\naudit = \"/a\"\nstate = \"/s\"\n";

    const TWICE: &str = "8d9a9e4f-5b1f-4a0c-9c6f-1d2e3f405162";

    fn error(text: &str) -> String {
        toml_file::place(text, Config::parse(text).expect_err("an error"))
    }

    #[test]
    fn an_error_has_its_place_and_what_is_expected() {
        let graph = format!("{COMMON}source = \"graph\"\n");
        let queue = |table: &str| format!("{COMMON}source = \"queue\"\n[queue]\n{table}");
        for (text, expected) in [
            (
                "source = \"hub\"".to_owned(),
                "1:10 unknown variant `hub`, expected `queue` or `graph`",
            ),
            (
                format!("{COMMON}source = \"queue\""),
                "`source = \"queue\"` needs a table `queue`",
            ),
            (
                format!("{graph}polcy = \"sample\""),
                "5:1 unknown field `polcy`",
            ),
            (
                "source = \"graph\"\nsubscriptions = []".to_owned(),
                "2:17 found no subscription",
            ),
            (
                "source = \"graph\"\nsubscriptions = [\"mine\"]".to_owned(),
                "2:17 found \"mine\", expected the id",
            ),
            (
                format!("{graph}reconcile = \"10ms\""),
                "5:13 found less than a second",
            ),
            (
                format!("{graph}[hooks]\nat_once = 0"),
                "6:11 found 0, expected 1 to 256",
            ),
            (
                format!("{graph}[hooks]\nprepare_timeout = \"0s\""),
                "6:19 found no time, expected a duration such as \"10m\"",
            ),
            (
                format!("{graph}metrics = \"\""),
                "5:11 found \"\", expected the path of a file",
            ),
            (
                format!("{graph}metrics = \"/a\""),
                "`metrics` is the file of `audit`: \"/a\"",
            ),
            (
                format!("{graph}metrics = \"/etc/../etc/policy.toml\"\npolicy = \"/etc/policy.toml\""),
                "`metrics` is the file of `policy`",
            ),
            (
                format!("{graph}metrics = \"/s\""),
                "`metrics` is the file of `state`",
            ),
            (
                "source = \"graph\"\nsubscriptions = [\"8d9a9e4f-5b1f-4a0c-9c6f-1d2e3f405162\"]\naudit = \"/s/./audit\"\nstate = \"/s\""
                    .to_owned(),
                "`audit` is inside `state`: \"/s/./audit\"",
            ),
            (
                format!("{graph}[hooks]\nprepare = \"drain 'now\""),
                "6:11 the command \"drain 'now\" has a quote",
            ),
            (
                queue("url = \"http://x.queue.core.windows.net/q\""),
                "6:7 found \"http://x.queue.core.windows.net/q\": it is not https",
            ),
            (
                queue("url = \"https://x.queue.core.windows.net\""),
                "6:7 found \"https://x.queue.core.windows.net\": it does not name",
            ),
            (
                queue("url = \"https://x/q?sig=abc\""),
                "6:7 found \"https://x/q?***\": it has a query",
            ),
            (
                format!("{graph}[agents]\nmachines = [\"/subscriptions/s/db\"]"),
                "6:12 found \"/subscriptions/s/db\", expected the name",
            ),
            (
                queue("url = \"https://x/q\"\nemulator = true"),
                "`queue.emulator` is set, and `queue.url` is not on",
            ),
            (
                queue("url = \"https://x/events/\"\npoison = \"events\""),
                "`queue.poison` is the queue of `queue.url`, expected another one",
            ),
            (
                queue("url = \"https://x/q\"\npoison = \"P\""),
                "7:10 found \"P\", expected the name of a queue",
            ),
            (
                format!("{graph}management = \"http://example.com\""),
                "`management` is \"http://example.com\": it is not https",
            ),
            (
                format!("{graph}[identity]\nkind = \"emulator\""),
                "`identity.kind` is \"emulator\", and `management`",
            ),
            (
                format!("{graph}[queue]\nurl = \"https://x/q\""),
                "found a table `queue` and `source = \"graph\"`, which reads no queue: remove the table, or set",
            ),
            (
                format!("{graph}take_over_after = \"1m\""),
                "found `take_over_after` without `store`, expected both: without a store no other hub can take over",
            ),
            (
                format!("{graph}store = \"/f\"\ntake_over_after = \"2s\""),
                "`take_over_after` is shorter than 3s",
            ),
            (
                format!(
                    "source = \"graph\"\nsubscriptions = [\"{TWICE}\", \"{}\"]",
                    TWICE.to_uppercase()
                ),
                "2:17 found \"8D9A9E4F-5B1F-4A0C-9C6F-1D2E3F405162\" twice, expected each subscription once",
            ),
        ] {
            let error = error(&text);
            assert!(error.starts_with(expected), "{error}\nexpected: {expected}");
        }
    }

    #[test]
    fn the_guide_has_a_configuration_and_the_defaults() {
        let page = include_str!("../../../docs/run/outside.md");
        let start = page
            .split("\n## Start\n")
            .nth(1)
            .and_then(|rest| rest.split("```toml\n").nth(1))
            .expect("a block");
        let config =
            Config::parse(start.split("```").next().unwrap_or_default()).expect("a configuration");
        let stated = |key: &str| {
            let row = page
                .lines()
                .find(|line| line.starts_with(&format!("| `{key}` |")))
                .expect("a row");
            row.split('`').nth(3).expect("a default").to_owned()
        };
        for (key, default) in [
            ("reconcile", config.reconcile),
            ("take_over_after", TAKE_OVER_AFTER),
        ] {
            assert_eq!(
                humantime::parse_duration(&stated(key)).expect("a duration"),
                default,
                "{key}"
            );
        }
        assert_eq!(stated("policy"), default_policy());
        assert!(page.contains(&format!("`at_once` ({})", config.hooks.at_once)));
    }

    #[test]
    fn the_file_of_the_packages_lacks_a_source_and_all_that_it_shows_is_valid() {
        let file = include_str!("../../../packaging/system/hub.toml");
        assert!(
            error(file).contains("missing field `source`"),
            "{}",
            error(file)
        );
        let shown = |line| match str::strip_prefix(line, "# ") {
            Some(setting) if setting.starts_with('[') || setting.contains(" = ") => setting,
            _ => line,
        };
        let config = Config::parse(&file.lines().map(shown).collect::<Vec<_>>().join("\n"))
            .expect("a configuration");
        let queue = config.queue.expect("a queue");
        assert!(queue.poison.is_some() && queue.sas_file.is_some());
        assert!(config.hooks.prepare.is_some() && config.hooks.recover.is_some());
        assert_eq!(config.approve, Approve::Arm);
    }

    #[test]
    fn the_chart_writes_a_configuration_and_a_store() {
        let chart = include_str!("../../../packaging/kubernetes/hub/hub.yaml");
        let file = |name: &str| {
            let rest = chart
                .split(&format!("\n  {name}: |\n"))
                .nth(1)
                .expect("a file");
            let lines = rest.lines().map_while(|line| {
                line.strip_prefix("    ")
                    .or_else(|| line.is_empty().then_some(""))
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        let config = Config::parse(&file("hub.toml")).expect("a configuration");
        assert_eq!(config.identity.kind, IdentityKind::Workload);
        let words = config.hooks.prepare.expect("a command").words().to_vec();
        assert_eq!(words, ["/etc/scheduled-events-hooks/drain", "out"]);
        assert_eq!(
            config.store.expect("a store"),
            Path::new("/etc/scheduled-events/fleet.toml")
        );
        assert!(
            scheduled_events_gate::config::Config::parse(&file("fleet.toml"))
                .expect("a store")
                .blob
                .is_some()
        );
    }

    #[test]
    fn each_cloud_has_its_own_management() {
        for (cloud, url) in [
            ("public", "https://management.azure.com/"),
            ("us-government", "https://management.usgovcloudapi.net/"),
            ("china", "https://management.chinacloudapi.cn/"),
        ] {
            let config = Config::parse(&format!("{COMMON}source = \"graph\"\ncloud = \"{cloud}\""))
                .expect("valid");
            assert_eq!(config.management_url().expect("valid").as_str(), url);
        }
    }
}
