//! Forwards the records of `scheduled-events watch --audit` to other systems: at least once and in
//! order. It only reads the watcher's file, so it never delays the watcher.
//!
//! Each target has its own task, its own position in the file and its own saved state, so that a
//! target that is down delays no other. In the order in which a record passes through them:
//! [`audit`] reads the file; [`record`] is one of its lines; [`state`] is what is saved;
//! [`delivery`] is the task of one target; [`events`] are those that are open; [`targets`] turn
//! records into requests; [`transport`] sends them. [`message`] writes text for people, and
//! [`error`] says why nothing is forwarded. [`trial`] sends a message to try the targets out.

pub mod audit;
pub mod config;
pub mod delivery;
pub mod error;
pub mod events;
pub mod file;
pub mod message;
pub mod record;
pub mod state;
pub mod targets;
pub mod transport;
pub mod trial;

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use delivery::Delivery;
use error::RelayError;
use file::RelayFile;

use scheduled_events_common::log;
use scheduled_events_common::metadata;
use scheduled_events_common::supervision::asked_to_stop;
use scheduled_events_text::finding::Finding;

/// How long requests in flight may take when the process is asked to end.
const STOP_TIME: Duration = Duration::from_secs(5);

/// Forwards records until a signal asks it to end.
///
/// # Errors
/// The state or a target cannot be used, or another process uses the state.
pub async fn run(file: &RelayFile) -> Result<(), RelayError> {
    let machine = machine_name(file).await;
    let folder = state::Folder::open(&file.relay.state)?;
    let (stop, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    for target in &file.relay.targets {
        let delivery = Delivery::open(target, file, &folder, &machine)?;
        tasks.spawn(delivery.run(stopped.clone()));
    }
    if let Err(error) = std::fs::metadata(&file.audit)
        && error.kind() == std::io::ErrorKind::NotFound
    {
        let name = file.audit.display();
        log::printable(&format!(
            "warning: the audit file {name} does not exist yet: nothing is forwarded until the watcher writes it"
        ));
    }
    let asked_to_stop = asked_to_stop().map_err(RelayError::io("cannot wait for signals"))?;
    tokio::select! {
        () = asked_to_stop => {}
        // Tasks end only when they are asked to.
        Some(ended) = tasks.join_next() => return Err(RelayError::Ended(format!("{ended:?}"))),
    }
    // Requests that are sent but not yet saved would be sent again after the next start.
    let _ = stop.send(true);
    let _ = tokio::time::timeout(STOP_TIME, async {
        while tasks.join_next().await.is_some() {}
    })
    .await;
    Ok(())
}

/// Sends a message to each target, and returns what each answered.
///
/// # Errors
/// A target's settings cannot be used.
pub async fn test(file: &RelayFile) -> Result<Vec<Finding<String>>, RelayError> {
    trial::send_to_all(file, &machine_name(file).await).await
}

/// This machine's name: the configured one, that of the metadata service, or otherwise the host's.
async fn machine_name(file: &RelayFile) -> String {
    if let Some(name) = &file.machine {
        return name.clone();
    }
    match metadata::compute(&file.metadata).await {
        Ok(compute) => compute.name,
        Err(reason) => {
            let name = rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned();
            log::printable(&format!(
                "{reason}; the host's name {name:?} is used, set `machine` to use another one"
            ));
            name
        }
    }
}

#[cfg(test)]
scheduled_events_test_support::nothing_is_left_over!();
