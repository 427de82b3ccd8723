//! `delete-register`: deletes a register that cannot be read. The machines leave such a register as
//! it is.

use scheduled_events_core::record::Printable;

use crate::config::Config;
use crate::engine::{self, EngineError, Versioned};
use crate::members;
use crate::register::{EventRegister, GroupRegister, MarkRegister};
use crate::store::{Invalid, check};
use scheduled_events_common::failure::Failure;
use scheduled_events_common::output::print;

/// Deletes a register that cannot be read, and prints what it contained.
///
/// # Errors
/// The store does not answer, or the register is valid or of another version.
pub async fn delete_register(config: &Config, key: &str, force: bool) -> Result<(), Failure> {
    let refused = |error: EngineError| Failure::refused(error.to_string());
    let kind = key.split('/').next().unwrap_or_default();
    let unknown = || {
        Failure::usage(format!(
            "found the register {key:?}, expected one such as groups/web, as `status` names it"
        ))
    };
    let check: fn(&str, &str) -> Result<(), Invalid> = match kind {
        "events" => |_, value| check::<EventRegister>(value).map(drop),
        "groups" => |_, value| check::<GroupRegister>(value).map(drop),
        "machines" => |key, value| members::listed(key, value).map(drop),
        "marks" => |_, value| check::<MarkRegister>(value).map(drop),
        _ => return Err(unknown()),
    };
    let check = |value: &str| check(key, value);
    let is_key = engine::is_key(key);
    let engine = engine::open(config).await.map_err(Failure::usage)?;
    // What `status` names may be a copy, under no key of this program.
    let mut found = if is_key {
        engine.read(key).await.map_err(refused)?
    } else {
        None
    };
    if found
        .as_ref()
        .is_none_or(|found| check(&found.value).is_ok())
    {
        // A register that has lost its key is listed under what is left of it.
        let listed = engine.list(&format!("{kind}/")).await.map_err(refused)?;
        let damaged = |(shown, register): (String, Versioned)| {
            (shown == key && check(&register.value).is_err()).then_some(register)
        };
        found = listed.into_iter().find_map(damaged).or(found);
    }
    let Some(found) = found else {
        return Err(if is_key {
            Failure::refused(format!(
                "there is no register {key}; `status` names those that cannot be read"
            ))
        } else {
            unknown()
        });
    };
    match check(&found.value) {
        Ok(()) => {
            return Err(Failure::refused(format!(
                "the register {key} is valid, and stays; `free MACHINE` frees places"
            )));
        }
        Err(Invalid::Format(_)) if !force => {
            return Err(Failure::refused(format!(
                "another version of this program wrote the register {key}: run that version; --force deletes what it keeps there"
            )));
        }
        Err(_) => {}
    }
    if !engine.delete(key, &found.revision).await.map_err(refused)? {
        return Err(Failure::refused(format!(
            "the register {key} was changed at this moment; look at it again"
        )));
    }
    print(&format!(
        "deleted the register {key}, which was: {}\n",
        Printable(&found.value)
    ))
}
