//! Registers as text: one JSON object each, which begins with the version of its format.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Serialize};

use crate::engine::{self, Engine, EngineError, Revision, Swap, VALUE_MAX};
use scheduled_events_common::names::Name;

/// The version of the registers' format. A register with another version, or without one, is
/// refused and never overwritten: that would lose what a later version of this program keeps there.
pub const FORMAT: u32 = 1;

/// The most characters of a value that are shown if it is no register.
const SHOWN: usize = 120;

/// A register with the version of its format.
#[derive(Serialize)]
struct Formatted<'a, T> {
    format: u32,
    #[serde(flatten)]
    register: &'a T,
}

/// The part of a register that is read first.
#[derive(Deserialize)]
struct Format {
    format: Option<u64>,
}

/// Reads a register; one that does not exist is empty.
///
/// # Errors
/// The engine does not answer, or the value is not a register of this kind.
pub async fn read<T: Default + DeserializeOwned>(
    engine: &dyn Engine,
    key: &str,
) -> Result<(T, Option<Revision>), EngineError> {
    let Some(found) = engine.read(key).await? else {
        return Ok((T::default(), None));
    };
    Ok((decode(key, &found.value)?, Some(found.revision)))
}

/// The registers whose keys begin with `prefix`, and the errors of those that cannot be read: one
/// damaged register must not delay the others.
///
/// # Errors
/// The engine does not answer.
pub async fn list<T: DeserializeOwned>(
    engine: &dyn Engine,
    prefix: &str,
) -> Result<(Vec<(String, T)>, Vec<EngineError>), EngineError> {
    let (mut registers, mut problems) = (Vec::new(), Vec::new());
    for (key, found) in engine.list(prefix).await? {
        match decode(&key, &found.value) {
            Ok(register) => registers.push((key, register)),
            Err(problem) => problems.push(problem),
        }
    }
    Ok((registers, problems))
}

/// A register from its text.
///
/// # Errors
/// The value is not a register of this kind, or its format is of another version than [`FORMAT`].
pub fn decode<T: DeserializeOwned>(key: &str, value: &str) -> Result<T, EngineError> {
    check(value).map_err(|invalid| problem(key, &invalid))
}

/// What an operator needs to know about a register that is none.
pub fn problem(key: &str, invalid: &Invalid) -> EngineError {
    // As a shell takes it.
    let shown = if engine::is_key(key) {
        key.to_owned()
    } else {
        format!("{key:?}")
    };
    EngineError(match invalid {
        Invalid::Damaged(error) => {
            let places = if key.starts_with("groups/") {
                " and all places in it: make sure first that the machines of the group are in service"
            } else {
                ""
            };
            format!(
                "the register {shown} cannot be read: {error}: it is left as it is; `scheduled-events-fleet delete-register \
                 {shown}` deletes it{places}"
            )
        }
        Invalid::Format(found) => {
            let found = found.map_or("no format".to_owned(), |format| format!("format {format}"));
            format!(
                "the register {shown} has {found}, and this program has format {FORMAT}: it is left as it is; run the same \
                 version on all machines"
            )
        }
        Invalid::Copy(machine) => format!(
            "the register {shown} is a copy of that of {machine}, and counts for nothing: `scheduled-events-fleet delete-register \
             {shown}` deletes it"
        ),
    })
}

/// Why a value is not a register.
#[derive(Debug)]
pub enum Invalid {
    /// It does not have the form that this program writes.
    Damaged(serde_json::Error),
    /// Its format has another version, or none.
    Format(Option<u64>),
    /// It is this machine's register, under a key that is not its own.
    Copy(Name),
}

/// A register from its text.
///
/// # Errors
/// Why it is not a register.
pub fn check<T: DeserializeOwned>(value: &str) -> Result<T, Invalid> {
    let found: Format = serde_json::from_str(value).map_err(|error| {
        // Engines put the reason in place of what cannot be read.
        if value.trim_start().starts_with('{') {
            return Invalid::Damaged(error);
        }
        let shown: String = value.chars().take(SHOWN).collect();
        let text = format!("expected a JSON object, found \"{}\"", shown.escape_debug());
        Invalid::Damaged(serde_json::Error::custom(text))
    })?;
    if found.format != Some(u64::from(FORMAT)) {
        return Err(Invalid::Format(found.format));
    }
    serde_json::from_str(value).map_err(Invalid::Damaged)
}

/// Writes a register over the one with this revision.
///
/// # Errors
/// The engine does not answer. Whether it was written is unknown then.
pub async fn swap<T: Serialize>(
    engine: &dyn Engine,
    key: &str,
    expected: Option<&Revision>,
    register: &T,
) -> Result<Swap, EngineError> {
    engine.swap(key, expected, &encode(key, register)?).await
}

/// A register as text.
///
/// # Errors
/// It is longer than a register may be.
pub fn encode<T: Serialize>(key: &str, register: &T) -> Result<String, EngineError> {
    let value = serde_json::to_string(&Formatted {
        format: FORMAT,
        register,
    });
    let value = value.map_err(|error| EngineError(format!("{key}: {error}")))?;
    if value.len() > VALUE_MAX {
        let problem = format!(
            "{key} would have {} bytes; at most {VALUE_MAX} are possible",
            value.len()
        );
        return Err(EngineError(problem));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::change_group;
    use crate::engine::memory::MemoryEngine;
    use crate::register::{EventRegister, GroupChange, GroupRegister};

    /// A later version can add members that no decision depends on, and earlier versions work
    /// beside it.
    #[test]
    fn a_member_that_is_not_known_is_skipped() {
        let value = r#"{"format":1,"event_type":"Reboot","resources":["a"],"later":{},"marks":{},"go":null}"#;
        assert_eq!(
            check::<EventRegister>(value)
                .expect("a register")
                .event_type,
            "Reboot"
        );
    }

    #[test]
    fn what_is_no_object_is_shown_and_one_with_space_before_it_is_read() {
        let value = r#"{"format":1,"limit":1,"claims":{}}"#;
        assert!(check::<GroupRegister>(&format!("\n {value}")).is_ok());
        let problem = |value: &str| {
            decode::<GroupRegister>("groups/a", value)
                .expect_err(value)
                .0
        };
        let found = "expected a JSON object, found \"Permission denied: x\\n\"";
        assert!(problem("Permission denied: x\n").contains(found));
        assert!(problem(" {").contains("EOF while parsing"));
    }

    #[tokio::test]
    async fn a_register_of_another_format_is_refused_and_not_overwritten() {
        for (value, found) in [
            (
                r#"{"format":2,"limit":1,"claims":{},"later":true}"#,
                "format 2",
            ),
            (r#"{"limit":1,"claims":{}}"#, "no format"),
            (r#"{"format":null}"#, "no format"),
        ] {
            let engine = MemoryEngine::default();
            engine
                .swap("groups/web", None, value)
                .await
                .expect("written");
            let expected = format!(
                "the register groups/web has {found}, and this program has format 1: it is left as it is"
            );
            let error = read::<GroupRegister>(&engine, "groups/web")
                .await
                .expect_err("another format");
            assert!(error.0.starts_with(&expected), "{error}");
            let (slots, by) = (["a".into()].into(), "a".into());
            let claim = GroupChange::Claim {
                event_id: "e".into(),
                by,
                slots,
                limit: 1,
            };
            let error = change_group(&engine, "web", &[claim], 1)
                .await
                .expect_err("another format");
            assert!(error.0.starts_with(&expected), "{error}");
            assert_eq!(
                engine
                    .read("groups/web")
                    .await
                    .expect("read")
                    .expect("a register")
                    .value,
                value
            );
        }
    }
}
