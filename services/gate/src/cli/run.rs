//! `run`: the daemon of a machine.

use std::path::Path;

use scheduled_events::files::{PathError, check_path};
use scheduled_events_common::failure::Failure;
use scheduled_events_common::log;
use scheduled_events_common::metadata::{self, Compute};
use scheduled_events_common::names::Name;
use scheduled_events_common::supervision::{asked_to_stop, notify_stopping};

use crate::config::Config;
use crate::daemon::Daemon;
use crate::engine;

/// Runs the daemon until it is asked to end.
///
/// # Errors
/// The audit file or the engine cannot be used, this machine's name is unknown, or the socket cannot be used.
pub async fn run(config: Config) -> Result<(), Failure> {
    check_audit(&config.audit)?;
    let engine = engine::open(&config).await.map_err(Failure::usage)?;
    let (machine, zone) = identity(&config).await?;
    let daemon = Daemon::new(config, machine, zone, engine);
    let end = async {
        asked_to_stop().map_err(Failure::refused)?.await;
        Ok(())
    };
    let socket = daemon.socket().to_owned();
    let ready = || log::line(&format!("ready at {}", socket.display()));
    let result = tokio::select! {
        result = daemon.run(ready) => result.map_err(Failure::refused),
        result = end => result,
    };
    notify_stopping();
    result
}

/// Whether there can be an audit file of the watcher at this path, or will be.
fn check_audit(path: &Path) -> Result<(), Failure> {
    match check_path(path) {
        // The watcher may create it.
        Ok(()) | Err(PathError::FolderMissing { .. } | PathError::FolderUnreadable { .. }) => {
            Ok(())
        }
        Err(error) => Err(Failure::usage(format!(
            "cannot read the audit file {}: {error}",
            path.display()
        ))),
    }
}

/// This machine's name and zone, by the configuration or by instance metadata.
///
/// # Errors
/// The metadata service does not answer.
pub(super) async fn identity(config: &Config) -> Result<(Name, Option<String>), Failure> {
    let needs_zone = config.groups.iter().any(|group| group.per_zone);
    let asked = match &config.machine {
        Some(_) if !needs_zone => Compute::default(),
        known => metadata::compute(&config.metadata).await.map_err(|why| {
            let advice = if known.is_some() {
                "a group with `per_zone` needs its zone"
            } else {
                "set `machine`"
            };
            Failure::refused(format!("{why}; {advice}"))
        })?,
    };
    let machine = Name::from(config.machine.clone().unwrap_or(asked.name));
    Ok((machine, Some(asked.zone).filter(|zone| !zone.is_empty())))
}
