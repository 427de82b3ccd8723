//! `check`: whether this machine's daemon, its store and its groups are as an event needs them. Nothing is changed.
//!
//! The daemon itself looks: what it can reach counts. Without one, this process does so in its place.

use rustix::process::geteuid;
use scheduled_events_common::failure::Failure;
#[cfg(feature = "kubernetes")]
use scheduled_events_common::{kubernetes::connect, rights::check_rights};
use scheduled_events_text::finding::Finding;
use scheduled_events_text::words::duration;

use super::ask::{REPLY_TIME, check_daemon, connect_to_daemon, exchange};
use super::run::identity;
use crate::config::Config;
#[cfg(feature = "kubernetes")]
use crate::config::EngineKind;
use crate::daemon::Daemon;
use crate::daemon::message::{CheckReply, CheckRequest, Reply};
use crate::engine;
#[cfg(feature = "kubernetes")]
use crate::engine::kubernetes::rights;

/// How to start the daemon.
const START: &str = "systemctl enable --now scheduled-events-fleet; its log has the reason if it ends. Only its own user and root may ask it";

/// What was found of the gate, of which the configuration has an engine.
pub async fn check(config: &Config) -> Vec<Finding<String>> {
    let mut findings = daemon_findings(config).await;
    findings.extend(check_leases(config).await);
    findings
}

async fn daemon_findings(config: &Config) -> Vec<Finding<String>> {
    match ask_daemon(config) {
        Ok(reply) => {
            let own = daemon(&reply).naming([&reply.machine]);
            std::iter::once(own).chain(reply.findings).collect()
        }
        Err(finding) => {
            let mut findings = vec![finding];
            findings.extend(
                in_its_place(config)
                    .await
                    .unwrap_or_else(|(check, failure)| {
                        let advice = "correct the configuration, or what it names";
                        vec![Finding::fail(check.to_owned(), failure.message, advice)]
                    }),
            );
            findings
        }
    }
}

/// Root may ask a daemon of any user: it only reports the answer.
fn exchange_with_daemon(config: &Config, question: &str) -> Result<String, Failure> {
    let stream = connect_to_daemon(&config.socket)?;
    if !geteuid().is_root() {
        check_daemon(&config.socket, &stream)?;
    }
    exchange(&config.socket, stream, question, REPLY_TIME)
}

fn ask_daemon(config: &Config) -> Result<CheckReply, Finding<String>> {
    let check = || "daemon".to_owned();
    let socket = config.socket.display();
    let question = serde_json::to_string(&CheckRequest { check: true }).unwrap_or_default() + "\n";
    let reply = exchange_with_daemon(config, &question)
        .map_err(|failure| Finding::fail(check(), failure.message, START))?;
    serde_json::from_str(&reply).map_err(|error| {
        if serde_json::from_str::<Reply>(&reply).is_ok() {
            let found = format!(
                "the daemon at {socket} answers, and is of an earlier version than this program"
            );
            let advice = "restart it: systemctl restart scheduled-events-fleet";
            return Finding::warn(check(), found, advice);
        }
        let found = format!("the daemon at {socket} gave no answer: {error}");
        Finding::fail(check(), found, START)
    })
}

/// The rights to the Leases, if registers are there. The daemon has the same credential.
#[allow(clippy::unused_async)] // A build without this engine has nothing to ask.
async fn check_leases(config: &Config) -> Vec<Finding<String>> {
    #[cfg(feature = "kubernetes")]
    if config.engine == Some(EngineKind::Kubernetes)
        // A credential that cannot be used is a finding about the store.
        && let Ok(client) = connect().await
    {
        let namespace = config.kubernetes.namespace.as_deref();
        let namespace = namespace.unwrap_or_else(|| client.default_namespace());
        return check_rights(&client, &rights(namespace)).await;
    }
    #[cfg(not(feature = "kubernetes"))]
    let _ = config;
    Vec::new()
}

/// The daemon as it describes itself.
fn daemon(reply: &CheckReply) -> Finding<String> {
    let CheckReply {
        version,
        machine,
        runs_for,
        problems,
        findings: _,
    } = reply;
    let check = "daemon".to_owned();
    let mut found = format!(
        "version {version} runs for {} as {machine}",
        duration(*runs_for)
    );
    let own = env!("CARGO_PKG_VERSION");
    let is_current = version == own;
    if !is_current {
        found = format!("{found}, and this program has version {own}");
    }
    let parts: Vec<_> = std::iter::once(&found).chain(problems).cloned().collect();
    let found = parts.join("; ");
    if is_current && problems.is_empty() {
        return Finding::ok(check, found);
    }
    let advice = if is_current {
        "see the part of the fleet in docs/run/troubleshooting.md"
    } else {
        "restart it: systemctl restart scheduled-events-fleet"
    };
    Finding::warn(check, found, advice)
}

/// The checks of the daemon, by this process.
async fn in_its_place(config: &Config) -> Result<Vec<Finding<String>>, (&'static str, Failure)> {
    let (machine, zone) = identity(config)
        .await
        .map_err(|failure| ("name", failure))?;
    let engine = engine::open(config).await;
    let engine = engine.map_err(|error| ("store", Failure::usage(error)))?;
    let daemon = Daemon::new(config.clone(), machine, zone, engine);
    Ok(daemon.check().await)
}
