//! `free`: frees the slots of a machine that will not come back, and forgets the machine. A machine
//! whose daemon runs may still be out of service, so only `--force` frees its slots.

use tokio::time::sleep;

use crate::config::Config;
use crate::daemon::machine_key;
use crate::driver;
use crate::engine::{self, Engine, EngineError};
use crate::register::{GroupChange, GroupRegister, MachineRegister};
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
    let (mut places, mut problems) = places_of(&*engine, machine).await.map_err(refused)?;
    if !force {
        let (_, revision) = store::read::<MachineRegister>(&*engine, &key)
            .await
            .map_err(refused)?;
        // A machine that runs has no register for the moment if it was deleted.
        if revision.is_some() || !places.is_empty() {
            let time = humantime::format_duration(patience);
            log::line(&format!(
                "waiting {time} for a heartbeat of {machine}; it is freed without one"
            ));
            sleep(patience).await;
            let now = engine.read(&key).await.map_err(refused)?;
            if now.map(|now| now.revision) != revision {
                return Err(Failure::refused(format!(
                    "the daemon of {machine} runs, and frees its slots once it is back in service; --force frees them now, \
                     although it may be out of service"
                )));
            }
            (places, problems) = places_of(&*engine, machine).await.map_err(refused)?;
        }
        silent = revision;
    }
    let mut freed = 0;
    for (name, releases) in places {
        driver::change_group(&*engine, &name, &releases, 1)
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

/// What frees the slots of a machine in each group in which it has some, and why some groups cannot
/// be read.
async fn places_of(
    engine: &dyn Engine,
    machine: &Name,
) -> Result<(Vec<(String, Vec<GroupChange>)>, Vec<EngineError>), EngineError> {
    let (groups, problems) = store::list::<GroupRegister>(engine, "groups/").await?;
    let places = groups.into_iter().map(|(key, group)| {
        let name = key.strip_prefix("groups/").unwrap_or(&key);
        (
            name.to_owned(),
            group.releases(|_, holder| holder == machine),
        )
    });
    let places = places.filter(|(_, releases)| !releases.is_empty());
    Ok((places.collect(), problems))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Swap;
    use crate::engine::folder::FolderEngine;

    const GROUP: &str =
        r#"{"format":1,"limit":1,"claims":{"e":{"slots":["a"],"by":["a"],"at":1}}}"#;

    /// An operator has deleted a damaged register, and its machine is out of service.
    #[tokio::test]
    async fn a_machine_without_a_register_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display();
        let config = Config::parse(&format!(
            "engine = \"folder\"\nfolder.path = \"{path}\"\nheartbeat = \"200ms\"\n"
        ));
        let (config, name) = (config.expect("a configuration"), Name::from("a"));
        let engine = FolderEngine::new(folder.path());
        let none = free(&config, &name, false).await.expect_err("no place");
        assert!(none.message.ends_with("holds no slot"), "{}", none.message);
        engine
            .swap("groups/web", None, GROUP)
            .await
            .expect("written");
        let beat = async {
            sleep(config.heartbeat).await;
            let register = r#"{"format":1,"machine":"a","beat":8}"#;
            engine.swap("machines/a", None, register).await
        };
        let (result, beat) = tokio::join!(free(&config, &name, false), beat);
        let error = result.expect_err("it runs").message;
        assert!(error.starts_with("the daemon of a runs"), "{error}");
        let found = engine.read("groups/web").await.expect("read");
        assert_eq!(found.map(|found| found.value).as_deref(), Some(GROUP));

        let Ok(Swap::Done(revision)) = beat else {
            panic!("{beat:?}")
        };
        assert_eq!(engine.delete("machines/a", &revision).await, Ok(true));
        assert!(free(&config, &name, false).await.is_ok());
        let found = engine.read("groups/web").await.expect("read");
        assert!(!found.expect("a group").value.contains("\"a\""));
    }
}
