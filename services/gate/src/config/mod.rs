//! The configuration file, in TOML, as far as the gate needs it. The drain of a node and the relay read their tables of the same file.
//!
//! Unknown keys are errors, since a misspelt key would silently mean a default. An error names
//! file, line and column.

pub mod window;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny};
use toml::Spanned;

use window::WindowConfig;

use scheduled_events_common::config::{
    check_metrics, check_metrics_of_file, default_audit, default_metadata, machine, metadata, path,
    some_path,
};
use scheduled_events_common::secret::SecretFile;
use scheduled_events_common::toml_file::{self, Invalid, LoadError, duration, invalid};

/// How many heartbeats at least a machine must miss before it is silent: one may be late or fail.
const SILENT_AFTER_BEATS: u32 = 3;

/// The configuration of one machine. All machines of a fleet have the same engine and the same
/// groups.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// This machine's name, as in the `Resources` of events; by default, the name in instance
    /// metadata.
    #[serde(default, deserialize_with = "machine")]
    pub machine: Option<String>,
    /// The kind of store that keeps the common registers. Only the gate needs it: `drain`,
    /// `uncordon` and `relay` do not.
    pub engine: Option<EngineKind>,
    /// The daemon's Unix socket.
    #[serde(default = "default_socket", deserialize_with = "path")]
    pub socket: PathBuf,
    /// The file of `scheduled-events watch --audit`. From it the daemon learns which events are
    /// over, and whether the machine is back in service.
    #[serde(default = "default_audit", deserialize_with = "path")]
    pub audit: PathBuf,
    /// A file with metrics for Prometheus, for the textfile collector of `node_exporter`.
    #[serde(default, deserialize_with = "some_path")]
    pub metrics_file: Option<PathBuf>,
    /// The delay after which the next machine posts an approval that is decided and was not posted.
    #[serde(default = "default_take_over", deserialize_with = "duration")]
    pub take_over_after: Duration,
    /// How often this machine raises its heartbeat counter.
    #[serde(default = "default_heartbeat", deserialize_with = "interval")]
    pub heartbeat: Duration,
    /// A machine whose heartbeat has not changed for this long is silent, and counts as out of
    /// service: at least three times [`Self::heartbeat`].
    #[serde(default = "default_silent", deserialize_with = "duration")]
    pub silent_after: Duration,
    /// How long after an event's end other machines free the slot of a silent machine.
    #[serde(default = "default_return", deserialize_with = "duration")]
    pub return_within: Duration,
    /// A machine that has been silent for this long is no longer a member: at least
    /// [`Self::silent_after`].
    #[serde(default = "default_forget", deserialize_with = "duration")]
    pub forget_after: Duration,
    /// The metadata service.
    #[serde(default = "default_metadata", deserialize_with = "metadata")]
    pub metadata: String,
    /// For `engine = "etcd"`.
    pub etcd: Option<EtcdConfig>,
    /// For `engine = "blob"`.
    pub blob: Option<BlobConfig>,
    /// For `engine = "kubernetes"`.
    #[serde(default)]
    pub kubernetes: KubernetesConfig,
    /// For `engine = "folder"`.
    pub folder: Option<FolderConfig>,
    /// Which machines may be out of service together.
    #[serde(default, rename = "group")]
    pub groups: Vec<GroupConfig>,
    /// The tables of the drain and of the relay, which those read.
    #[serde(default, rename = "node")]
    _node: IgnoredAny,
    #[serde(default, rename = "relay")]
    _relay: IgnoredAny,
}

/// The kind of store for the common registers.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// A cluster of etcd servers.
    Etcd,
    /// A container of Azure Blob storage.
    Blob,
    /// Lease objects of a Kubernetes API server.
    Kubernetes,
    /// A folder, for tests and for machines that share one disk.
    Folder,
}

/// How to reach etcd.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdConfig {
    /// The client addresses of the servers. If one does not answer, the engine asks the next.
    pub endpoints: Vec<String>,
    /// The prefix of all keys.
    #[serde(default = "default_prefix")]
    pub prefix: String,
    /// The certificates of the authority that signed those of the servers, in PEM; by default, the
    /// system's roots.
    pub ca: Option<PathBuf>,
    /// This client's certificate and its key, in one PEM file.
    pub identity: Option<PathBuf>,
    /// The user of etcd's own authentication.
    pub user: Option<String>,
    /// A file with that user's password.
    pub password_file: Option<PathBuf>,
}

/// How to reach Azure Blob storage. The credential is the managed identity, on AKS the workload
/// identity, or a SAS token.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlobConfig {
    /// The container: `https://ACCOUNT.blob.core.windows.net/CONTAINER`.
    pub url: String,
    /// Whether the address is that of Azurite, the emulator, and the credential its well-known key.
    #[serde(default)]
    pub emulator: bool,
    /// The client id of a user-assigned managed identity.
    pub client_id: Option<String>,
    /// A file with a SAS token, instead of an identity: the path, or the name of a systemd
    /// credential.
    pub sas_file: Option<SecretFile>,
    /// The source of the managed identity's tokens; by default, the metadata service.
    pub identity_endpoint: Option<String>,
}

/// Where the Leases are. The server and the credential come from the pod, or from the user's
/// kubeconfig.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubernetesConfig {
    /// The namespace; by default that of the credential.
    pub namespace: Option<String>,
}

/// The shared folder.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderConfig {
    /// Its path, the same file system on every machine.
    #[serde(deserialize_with = "path")]
    pub path: PathBuf,
}

/// Machines of which only a limited number may be out of service together.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// The group's name.
    pub name: Spanned<String>,
    /// The names of its machines, case ignored; `*` matches any characters.
    pub machines: Vec<String>,
    /// How many of them may be out of service together.
    pub max_unavailable: Limit,
    /// Count each availability zone for itself.
    #[serde(default)]
    pub per_zone: bool,
    /// How long a machine keeps its place after its recovery, before the next machine may go.
    #[serde(default, deserialize_with = "duration")]
    pub pause: Duration,
    /// When these machines may go out of service; without windows, always.
    #[serde(default)]
    pub windows: Vec<WindowConfig>,
}

/// A number of machines, or a share of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A number of machines.
    Count(u32),
    /// A percentage of the machines, rounded down, but at least one.
    Percent(u32),
}

impl std::fmt::Display for Limit {
    /// As written in the configuration.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl std::str::FromStr for Limit {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_suffix('%') {
            Some(percent) => percent.parse().map(Self::Percent),
            None => text.parse().map(Self::Count),
        }
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "expected a number of at least 1, or a share such as \"30%\""
        )]
        enum Given {
            Count(u32),
            Text(String),
        }
        let expected = "expected a number of at least 1, or a share from \"1%\" to \"100%\"";
        match Given::deserialize(deserializer)? {
            Given::Count(0) => Err(D::Error::custom(format!("found 0, {expected}"))),
            Given::Count(count) => Ok(Self::Count(count)),
            Given::Text(text) => {
                let percent = text
                    .strip_suffix('%')
                    .and_then(|digits| digits.parse().ok());
                match percent.filter(|percent| (1..=100).contains(percent)) {
                    Some(percent) => Ok(Self::Percent(percent)),
                    None => Err(D::Error::custom(format!("found {text:?}, {expected}"))),
                }
            }
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
            config.check_place(path)?;
            Ok(config)
        })
    }

    /// Checks that the metrics do not replace the file from which this was read.
    ///
    /// # Errors
    /// They do.
    pub fn check_place(&self, path: &Path) -> Result<(), Invalid> {
        check_metrics_of_file("metrics_file", self.metrics_file.as_deref(), path)
    }

    /// Checks that the metrics replace no other file of the configuration.
    fn check_files(&self) -> Result<(), Invalid> {
        let etcd = self.etcd.as_ref();
        let files = [
            ("audit", Some(&self.audit)),
            ("socket", Some(&self.socket)),
            ("etcd.ca", etcd.and_then(|etcd| etcd.ca.as_ref())),
            (
                "etcd.identity",
                etcd.and_then(|etcd| etcd.identity.as_ref()),
            ),
            (
                "etcd.password_file",
                etcd.and_then(|etcd| etcd.password_file.as_ref()),
            ),
        ];
        let files = files
            .into_iter()
            .filter_map(|(key, path)| Some((key, path?.as_path())));
        check_metrics("metrics_file", self.metrics_file.as_deref(), files)
    }

    /// Reads a configuration.
    ///
    /// # Errors
    /// The offset of the error, where it has one, and a sentence about it.
    ///
    /// ```
    /// use scheduled_events_gate::config::{Config, EngineKind};
    ///
    /// let config = Config::parse(r#"
    ///     engine = "folder"
    ///     folder = { path = "/mnt/shared/fleet" }
    ///     [[group]]
    ///     name = "web"
    ///     machines = ["WestNO_*"]
    ///     max_unavailable = "30%"
    /// "#).unwrap();
    /// assert_eq!(config.engine, Some(EngineKind::Folder));
    /// assert_eq!(Config::parse("engine = \"zookeeper\"").unwrap_err().0, Some(9));
    /// ```
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let config: Self = toml::from_str(text).map_err(invalid)?;
        let missing = |table: &str| {
            Err((
                None,
                format!("`engine = {table:?}` needs a table `{table}`"),
            ))
        };
        match config.engine {
            Some(EngineKind::Etcd) if config.etcd.is_none() => return missing("etcd"),
            Some(EngineKind::Blob) if config.blob.is_none() => return missing("blob"),
            Some(EngineKind::Folder) if config.folder.is_none() => return missing("folder"),
            None if !config.groups.is_empty() => {
                let place = config.groups[0].name.span().start;
                let advice =
                    "without `engine` there is no gate; expected etcd, blob, kubernetes or folder";
                return Err((Some(place), format!("a group needs a gate, and {advice}")));
            }
            _ => {}
        }
        if config.silent_after < config.heartbeat.saturating_mul(SILENT_AFTER_BEATS) {
            let [silent_after, heartbeat] =
                [config.silent_after, config.heartbeat].map(humantime::format_duration);
            let expected = format!(
                "expected at least {SILENT_AFTER_BEATS} times `heartbeat`, which is {heartbeat}"
            );
            let reason = "a machine that runs would count as silent";
            return Err((
                None,
                format!("`silent_after` is {silent_after}, {expected}: {reason}"),
            ));
        }
        if config.forget_after < config.silent_after {
            let [forget_after, silent_after] =
                [config.forget_after, config.silent_after].map(humantime::format_duration);
            let expected = format!("expected at least `silent_after`, which is {silent_after}");
            return Err((
                None,
                format!("`forget_after` is {forget_after}, {expected}"),
            ));
        }
        config.check_files()?;
        for (index, group) in config.groups.iter().enumerate() {
            let name = group.name.get_ref();
            let allowed =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            // The name is part of keys, and of paths in the folder engine.
            if name.is_empty()
                || name.len() > 63
                || name.starts_with('.')
                || !name.bytes().all(allowed)
            {
                let expected = "expected 1 to 63 letters, digits, `-`, `_` or `.`, of which the first is no `.`";
                return Err((
                    Some(group.name.span().start),
                    format!("the group's name is {name:?}, {expected}"),
                ));
            }
            if config.groups[..index]
                .iter()
                .any(|earlier| earlier.name.get_ref().eq_ignore_ascii_case(name))
            {
                return Err((
                    Some(group.name.span().start),
                    format!("there are two groups {name:?}"),
                ));
            }
        }
        Ok(config)
    }
}

fn default_socket() -> PathBuf {
    "/run/scheduled-events/fleet.sock".into()
}

fn default_prefix() -> String {
    "/scheduled-events/".into()
}

const fn default_take_over() -> Duration {
    Duration::from_secs(2)
}

const fn default_heartbeat() -> Duration {
    Duration::from_secs(30)
}

const fn default_silent() -> Duration {
    Duration::from_secs(120)
}

const fn default_return() -> Duration {
    Duration::from_secs(15 * 60)
}

const fn default_forget() -> Duration {
    Duration::from_secs(60 * 60)
}

/// An interval, which must not be zero.
fn interval<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let found = duration(deserializer)?;
    if found.is_zero() {
        Err(D::Error::custom(
            "found no time, expected a duration such as \"10s\"",
        ))
    } else {
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        toml_file::place(text, Config::parse(text).expect_err("an error"))
    }

    #[test]
    fn the_guide_has_a_configuration() {
        let page = include_str!("../../../../docs/run/fleet.md");
        let block = page
            .split("```toml\n")
            .nth(1)
            .and_then(|rest| rest.split("```").next())
            .expect("a block");
        let config = Config::parse(block).expect("a configuration");
        let windows = page
            .split("```toml\n")
            .nth(2)
            .and_then(|rest| rest.split("```").next())
            .expect("a block");
        let windows =
            Config::parse(&format!("engine = \"kubernetes\"\n{windows}")).expect("a configuration");
        assert_eq!(windows.groups[0].windows.len(), 2);
        assert_eq!(config.groups[0].max_unavailable, Limit::Count(1));
        // The defaults that the page lists.
        for (key, default) in [
            ("take_over_after", config.take_over_after),
            ("heartbeat", config.heartbeat),
            ("silent_after", config.silent_after),
            ("return_within", config.return_within),
            ("forget_after", config.forget_after),
        ] {
            let row = page
                .lines()
                .find(|line| line.starts_with(&format!("| `{key}` |")))
                .expect("a row");
            let stated = row.split('`').nth(3).expect("a default");
            assert_eq!(
                humantime::parse_duration(stated).expect("a duration"),
                default,
                "{key}"
            );
        }
        for (key, default) in [("socket", &config.socket), ("audit", &config.audit)] {
            let row = page
                .lines()
                .find(|line| line.starts_with(&format!("| `{key}` |")))
                .expect("a row");
            assert_eq!(row.split('`').nth(3), default.to_str(), "{key}");
        }
    }

    #[test]
    fn metrics_do_not_replace_the_configuration() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("fleet.toml");
        std::fs::write(&file, format!("metrics_file = {file:?}\n")).expect("written");
        let error = Config::load(&file).expect_err("it would be replaced");
        let expected = format!("{}: `metrics_file` is this configuration", file.display());
        assert!(error.to_string().starts_with(&expected), "{error}");
    }

    #[test]
    fn an_error_has_its_place() {
        let folder = "engine = \"folder\"\nfolder = { path = \"/tmp/x\" }\n";
        for (text, expected) in [
            (
                "engine = \"zookeeper\"".to_owned(),
                "1:10 unknown variant `zookeeper`, expected one of `etcd`, `blob`",
            ),
            (
                "[[group]]\nname = \"a\"\nmachines = []\nmax_unavailable = 1".to_owned(),
                "2:8 a group needs a gate, and without `engine` there is no gate",
            ),
            (
                "engine = \"etcd\"".to_owned(),
                "`engine = \"etcd\"` needs a table `etcd`",
            ),
            (
                format!("{folder}sokcet = \"x\""),
                "3:1 unknown field `sokcet`",
            ),
            (
                format!("{folder}take_over_after = \"2\""),
                "3:19 found \"2\", expected a duration",
            ),
            (
                format!("{folder}[[group]]\nname = \"a b\"\nmachines = []\nmax_unavailable = 1"),
                "4:8 the group's name",
            ),
            (
                format!("{folder}[[group]]\nname = \"..\"\nmachines = []\nmax_unavailable = 1"),
                "4:8 the group's name is \"..\", expected 1 to 63 letters, digits, `-`, `_` or `.`, of which the first is no `.`",
            ),
            (
                format!("{folder}heartbeat = \"0s\""),
                "3:13 found no time, expected a duration",
            ),
            (
                format!("{folder}socket = \"\""),
                "3:10 found \"\", expected the path of a file",
            ),
            (
                format!("{folder}audit = \"\""),
                "3:9 found \"\", expected the path of a file",
            ),
            (
                format!("{folder}metrics_file = \"\""),
                "3:16 found \"\", expected the path of a file",
            ),
            (
                format!("{folder}audit = \"/a\"\nmetrics_file = \"/b/../a\""),
                "`metrics_file` is the file of `audit`: \"/b/../a\", expected a file of its own",
            ),
            (
                format!("{folder}metrics_file = \"/run/scheduled-events/fleet.sock\""),
                "`metrics_file` is the file of `socket`",
            ),
            (
                "engine = \"etcd\"\netcd = { endpoints = [], ca = \"/a\" }\nmetrics_file = \"/a\""
                    .to_owned(),
                "`metrics_file` is the file of `etcd.ca`",
            ),
            (
                "engine = \"folder\"\nfolder.path = \"\"".to_owned(),
                "2:15 found \"\", expected the path of a file",
            ),
            (
                format!("{folder}machine = \"\""),
                "3:11 found \"\", expected this machine's name",
            ),
            (
                format!("{folder}metadata = \"169.254.169.254\""),
                "3:12 found \"169.254.169.254\", expected an address",
            ),
            (
                format!("{folder}metadata = \"http://user:secret@a/?sig=secret\""),
                "3:12 found \"http://***@a/?***\", expected an address such as \"http://169.254.169.254\": it has a user or a password",
            ),
            (
                format!("{folder}heartbeat = \"https://u:secret@a/\""),
                "3:13 found \"https://***@a/\", expected a duration",
            ),
            (
                format!("{folder}heartbeat = 10"),
                "3:13 invalid type: integer `10`, expected a string: expected a duration such as \"2s\"",
            ),
            (
                format!("{folder}[group]\nname = \"a\""),
                "3:1 invalid type: map, expected a sequence: write `[[…]]` instead of `[…]`",
            ),
            (
                format!("{folder}silent_after = \"89s\""),
                "`silent_after` is 1m 29s, expected at least 3 times `heartbeat`, which is 30s",
            ),
            (
                format!("{folder}heartbeat = \"1m\""),
                "`silent_after` is 2m, expected at least 3 times `heartbeat`, which is 1m",
            ),
            (
                format!("{folder}forget_after = \"119s\""),
                "`forget_after` is 1m 59s, expected at least `silent_after`, which is 2m",
            ),
            (
                format!("{folder}[[group]]\nname = \"a\"\nmachines = []\nmax_unavailable = 0"),
                "6:19 found 0, expected",
            ),
            (
                format!("{folder}[[group]]\nname = \"a\"\nmachines = []\nmax_unavailable = \"30\""),
                "6:19 found \"30\", expected a number",
            ),
            (
                format!(
                    "{folder}{0}{0}",
                    "[[group]]\nname = \"a\"\nmachines = []\nmax_unavailable = 1\n"
                ),
                "8:8 there are two groups \"a\"",
            ),
        ] {
            let error = error(&text);
            assert!(error.starts_with(expected), "{error}\nexpected: {expected}");
        }
    }
}
