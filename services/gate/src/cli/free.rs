//! `free`: frees the slots of a machine that will not come back, and forgets the machine. A machine
//! whose daemon runs may still be out of service, so only `--force` frees its slots.

use tokio::time::sleep;

use crate::config::Config;
use crate::daemon::machine_key;
use crate::driver;
use crate::engine::{self, EngineError};
use crate::register::{GroupRegister, MachineRegister};
use crate::store;
use scheduled_events_common::failure::Failure;
use scheduled_events_common::log;
use scheduled_events_common::names::Name;
use scheduled_events_common::output::print;

/// Frees the slots of a machine that will not come back, and forgets it.
///
/// # Errors
/// The store does not answer, a register cannot be read, or the machine runs.
pub async fn free(config: &Config, machine: &Name, force: bool) -> Result<(), Failure> {
    let refused = |error: EngineError| Failure::refused(error.to_string());
    let engine = engine::open(config).await.map_err(Failure::usage)?;
    let patience = config.heartbeat.saturating_mul(3);
    let key = machine_key(machine);
    let mut silent = None;
    if !force
        && let (_, Some(revision)) = store::read::<MachineRegister>(&*engine, &key)
            .await
            .map_err(refused)?
    {
        let time = humantime::format_duration(patience);
        log::line(&format!(
            "waiting {time} for a heartbeat of {machine}; it is freed without one"
        ));
        sleep(patience).await;
        if engine
            .read(&key)
            .await
            .map_err(refused)?
            .is_none_or(|now| now.revision != revision)
        {
            return Err(Failure::refused(format!(
                "the daemon of {machine} runs, and frees its slots once it is back in service; --force frees them now, \
                 although it may be out of service"
            )));
        }
        silent = Some(revision);
    }
    let mut freed = 0;
    let (groups, problems) = store::list::<GroupRegister>(&*engine, "groups/")
        .await
        .map_err(refused)?;
    for (key, group) in groups {
        let name = key.strip_prefix("groups/").unwrap_or(&key);
        let releases = group.releases(|_, holder| holder == machine);
        driver::change_group(&*engine, name, &releases, 1)
            .await
            .map_err(refused)?;
        for change in releases {
            print(&format!("{change} in the group {name}\n"))?;
            freed += 1;
        }
    }
    if let Some(revision) = &silent {
        // The machine may have come back at this moment.
        if engine.delete(&key, revision).await.map_err(refused)? {
            print(&format!("deleted the register of {machine}\n"))?;
        }
    }
    if !problems.is_empty() {
        for problem in problems {
            log::line(&format!("error: {problem}"));
        }
        return Err(Failure::refused(format!(
            "{machine} may hold a slot in what cannot be read"
        )));
    }
    if silent.is_none() && freed == 0 {
        return Err(Failure::refused(format!("{machine} holds no slot")));
    }
    Ok(())
}
