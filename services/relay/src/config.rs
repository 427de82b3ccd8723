//! The table `relay` of the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;

use scheduled_events_core::EventKind;
use scheduled_events_core::record::KINDS;
use serde::Deserialize;
use toml::Spanned;

use scheduled_events_common::address;
use scheduled_events_common::secret::SecretFile;
use scheduled_events_common::toml_file::Invalid;

/// The records to forward, and their targets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayConfig {
    /// The folder for state that must survive a restart.
    #[serde(default = "default_state")]
    pub state: PathBuf,
    /// The proxy for all targets except those on this machine. Environment variables have no
    /// effect.
    pub proxy: Option<String>,
    /// A file with `USER:PASSWORD` for the proxy.
    pub proxy_credentials_file: Option<SecretFile>,
    /// The targets.
    #[serde(rename = "target")]
    pub targets: Vec<TargetConfig>,
}

/// One target.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetConfig {
    /// Its name, for logs and for the names of its files.
    pub name: Spanned<String>,
    /// Its kind.
    pub kind: Kind,
    /// Its address.
    pub url: Option<String>,
    /// A file with its address, if that is a secret.
    pub url_file: Option<SecretFile>,
    /// The certificates of the authority that signed the target's, in PEM, in addition to the
    /// system's roots.
    pub ca: Option<PathBuf>,
    /// Headers of each request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Headers whose values are secrets, read from files.
    #[serde(default)]
    pub header_files: BTreeMap<String, SecretFile>,
    /// The kinds of records that it receives. The default depends on the target's kind.
    pub records: Option<Spanned<Vec<String>>>,
    /// Whose events it receives.
    #[serde(default)]
    pub scope: Scope,
    /// The types of events that it receives; by default, all.
    pub event: Option<Spanned<Vec<String>>>,
    /// Where it starts in the audit file the first time.
    #[serde(default)]
    pub start: Start,
    /// The body of a webhook.
    pub format: Option<Format>,
    /// A template for the body of a webhook.
    pub template: Option<PathBuf>,
    /// The content type of the template's output.
    pub content_type: Option<String>,
    /// A file with the key: of a webhook's signature, or of PagerDuty's integration.
    pub key_file: Option<SecretFile>,
    /// The signals to send by OTLP.
    pub signals: Option<Vec<Signal>>,
    /// The client id of a user-assigned managed identity.
    pub client_id: Option<String>,
}

/// The kind of a target.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Prometheus' Alertmanager, by its API version 2.
    Alertmanager,
    /// An Azure Event Hub.
    EventHubs,
    /// A receiver of the OpenTelemetry protocol over HTTP.
    Otlp,
    /// PagerDuty's Events API, version 2.
    Pagerduty,
    /// An incoming webhook of Slack.
    Slack,
    /// A workflow of Microsoft Teams that a webhook starts.
    Teams,
    /// An HTTP server.
    Webhook,
}

/// Whose events a target receives.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Events that name this machine, and events whose machines are unknown.
    #[default]
    Mine,
    /// All.
    Any,
}

/// Where a target starts the first time.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// At the oldest record that exists.
    #[default]
    Oldest,
    /// After the newest one.
    End,
}

/// The body of a webhook.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// The record, with the machine's name.
    #[default]
    Record,
    /// The record in an event of CloudEvents 1.0.
    Cloudevents,
}

/// A signal of OTLP.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    /// A log record for each record.
    Logs,
    /// A span for each event that is over.
    Traces,
}

impl RelayConfig {
    /// Refuses targets with the same name, and keys without effect.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        self.check_proxy()?;
        let targets = &self.targets;
        if targets.is_empty() {
            return Err((
                None,
                "there is no target: add a table `[[relay.target]]`".to_owned(),
            ));
        }
        for (index, target) in targets.iter().enumerate() {
            let name = target.name.get_ref();
            let place = Some(target.name.span().start);
            let allowed =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            if name.is_empty() || name.len() > 63 || !name.bytes().all(allowed) {
                let expected = "expected 1 to 63 lower-case letters, digits or `-`";
                return Err((place, format!("the target's name is {name:?}, {expected}")));
            }
            if targets[..index]
                .iter()
                .any(|earlier| earlier.name.get_ref() == name)
            {
                return Err((place, format!("there are two targets {name:?}")));
            }
            for kind in target.records.iter().flat_map(Spanned::get_ref) {
                if !KINDS.iter().any(|known| known.name == kind) {
                    let place = target.records.as_ref().map(|records| records.span().start);
                    return Err((
                        place,
                        format!(
                            "found {kind:?} in `records`, expected kinds of docs/use/records.md"
                        ),
                    ));
                }
            }
            for event in target.event.iter().flat_map(Spanned::get_ref) {
                if !EventKind::ALL
                    .iter()
                    .any(|known| known.word().eq_ignore_ascii_case(event))
                {
                    let place = target.event.as_ref().map(|events| events.span().start);
                    let known = EventKind::ALL.map(EventKind::word).join(", ");
                    return Err((
                        place,
                        format!("found {event:?} in `event`, expected types of events: {known}"),
                    ));
                }
            }
            target.check_members()?;
        }
        Ok(())
    }
}

impl RelayConfig {
    fn check_proxy(&self) -> Result<(), Invalid> {
        let Some(proxy) = &self.proxy else {
            return match self.proxy_credentials_file {
                None => Ok(()),
                Some(_) => Err((
                    None,
                    "`relay.proxy_credentials_file` needs a `proxy`".to_owned(),
                )),
            };
        };
        let name = address::shown(proxy);
        let url = address::check(proxy).map_err(|why| {
            let advice =
                "expected one such as \"http://proxy.example.com:3128\"; credentials are in `proxy_credentials_file`";
            (
                None,
                format!("`relay.proxy` is {name:?}: {why}; {advice}"),
            )
        })?;
        if self.proxy_credentials_file.is_some() && !address::is_private(&url) {
            let problem = "to which the credentials would be sent in clear: expected https";
            return Err((None, format!("`relay.proxy` is {name:?}, {problem}")));
        }
        Ok(())
    }
}

impl TargetConfig {
    /// Refuses keys that belong to other kinds of targets, where they would have no effect.
    fn check_members(&self) -> Result<(), Invalid> {
        let invalid = |message: &str| {
            let name = self.name.get_ref();
            let place = Some(self.name.span().start);
            Err((place, format!("target {name:?}: {message}")))
        };
        let is = |kinds: &[Kind]| kinds.contains(&self.kind);
        let webhook = is(&[Kind::Webhook]);
        for (name, present, expected) in [
            ("format", self.format.is_some(), webhook),
            ("template", self.template.is_some(), webhook),
            ("content_type", self.content_type.is_some(), webhook),
            (
                "key_file",
                self.key_file.is_some(),
                is(&[Kind::Webhook, Kind::Pagerduty]),
            ),
            ("signals", self.signals.is_some(), is(&[Kind::Otlp])),
            (
                "client_id",
                self.client_id.is_some(),
                is(&[Kind::EventHubs]),
            ),
        ] {
            if present && !expected {
                return invalid(&format!(
                    "`{name}` has no effect on a target of this kind; remove it"
                ));
            }
        }
        if self.url.is_some() && self.url_file.is_some() {
            return invalid("`url` and `url_file` exclude each other");
        }
        if self.url.is_none() && self.url_file.is_none() && !is(&[Kind::Pagerduty]) {
            return invalid("expected `url` or `url_file`");
        }
        if self.content_type.is_some() && self.template.is_none() {
            return invalid("`content_type` needs a `template`");
        }
        if self.template.is_some() && self.format.is_some() {
            return invalid("`template` and `format` exclude each other");
        }
        Ok(())
    }
}

fn default_state() -> PathBuf {
    "/var/lib/scheduled-events-relay".into()
}
