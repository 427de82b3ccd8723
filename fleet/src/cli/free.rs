//! `free`: frees the slots of a machine that will not come back, and forgets the machine.

use std::time::Duration;

use tokio::time::sleep;

use super::{Failure, print};
use crate::config::Config;
use crate::daemon::{log, machine_key};
use crate::engine::{self, Engine, EngineError};
use crate::gate::{GroupRegister, driver};
use crate::names::Name;

pub(super) async fn free(config: &Config, machine: &Name) -> Result<(), Failure> {
    let refused = |error: EngineError| Failure::refused(error.to_string());
    let engine = engine::open(config).await.map_err(Failure::usage)?;
    let mut freed = 0;
    let (groups, problems) = driver::list::<GroupRegister>(&*engine, "groups/").await.map_err(refused)?;
    for problem in &problems {
        log(&format!("warning: {problem}"));
    }
    for (key, group) in groups {
        let name = key.strip_prefix("groups/").unwrap_or(&key);
        let releases = group.releases(|_, holder| holder == machine);
        driver::change_group(&*engine, name, &releases, 1).await.map_err(refused)?;
        for change in releases {
            print(&format!("{change} in the group {name}\n"))?;
            freed += 1;
        }
    }
    let is_forgotten = forget(&*engine, machine, config.heartbeat.saturating_mul(3)).await.map_err(refused)?;
    if is_forgotten {
        print(&format!("deleted the register of {machine}\n"))?;
    }
    if freed == 0 && !is_forgotten {
        return Err(Failure::refused(format!("{machine} holds no slot")));
    }
    Ok(())
}

/// Deletes the register of a machine whose heartbeat has stopped. That of a machine that runs its daemon stays.
async fn forget(engine: &dyn Engine, machine: &Name, patience: Duration) -> Result<bool, EngineError> {
    let key = machine_key(machine);
    let Some(found) = engine.read(&key).await? else { return Ok(false) };
    let time = humantime::format_duration(patience);
    log(&format!("waiting {time} for a heartbeat of {machine}, whose register is deleted without one"));
    sleep(patience).await;
    let is_deleted = engine.delete(&key, &found.revision).await?;
    if !is_deleted {
        log(&format!("the daemon of {machine} runs: its register stays"));
    }
    Ok(is_deleted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::memory::MemoryEngine;

    #[tokio::test(start_paused = true)]
    async fn only_the_register_of_a_machine_that_is_silent_is_deleted() {
        let (engine, machine, second) = (MemoryEngine::default(), Name::from("Web_0"), Duration::from_secs(1));
        assert_eq!(forget(&engine, &machine, second).await, Ok(false), "there is none");
        engine.swap("machines/web_0", None, "1").await.expect("written");
        let beats = async {
            sleep(second / 2).await;
            let revision = engine.read("machines/web_0").await.expect("read").expect("a register").revision;
            engine.swap("machines/web_0", Some(&revision), "2").await.expect("written");
        };
        let (forgotten, ()) = tokio::join!(forget(&engine, &machine, second), beats);
        assert_eq!(forgotten, Ok(false));
        assert_eq!(forget(&engine, &machine, second).await, Ok(true));
        assert_eq!(engine.read("machines/web_0").await, Ok(None));
    }
}
