//! The stores in which the machines of a fleet keep their common registers.
//!
//! A register is a short text under a key. It changes only by compare-and-swap: a write names the
//! revision that it replaces, and is refused if the register has another one by then. `etcd` is for
//! a cluster of etcd servers, `blob` for a container of Azure Blob storage, `kubernetes` for the
//! Lease objects of an API server, `folder` for a file system that the machines share, and `memory`
//! for tests. `open` opens the engine of a configuration.

#[cfg(feature = "blob")]
pub mod blob;
mod clock;
pub mod etcd;
pub mod folder;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
pub mod memory;
mod open;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use jiff::Timestamp;

pub use clock::{Clock, StoreTime};
pub use open::{OpenError, open};

/// The longest value of a register, enough for the marks of a thousand machines.
pub const VALUE_MAX: usize = 256 * 1024;

/// The most bytes of a key.
const KEY_MAX: usize = 200;

/// The version of a register, in the engine's own form. Only equality counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Revision(pub String);

/// A register's value and its version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Versioned {
    /// The value.
    pub value: String,
    /// The version that has this value.
    pub revision: Revision,
}

/// A register, and when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aged {
    /// The key.
    pub key: String,
    /// The register.
    pub register: Versioned,
    /// When it was written, by the store's clock; `None` if the store does not record that. The
    /// register's value may contain it then.
    pub written: Option<StoreTime>,
}

/// The result of a compare-and-swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The register has the new value, with this revision.
    Done(Revision),
    /// The register did not have the expected revision. Nothing changed.
    Conflict,
}

/// The engine cannot be reached, or refuses. Whether a swap was carried out is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineError(pub String);

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EngineError {}

/// A register whose parts are registers of their own, all as of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitRegister {
    /// The register; `None` if it does not exist.
    pub register: Option<Versioned>,
    /// The parts, or only those that were written after an earlier moment: the end of the key, and
    /// the value.
    pub parts: Vec<(String, String)>,
    /// The moment.
    pub moment: Revision,
}

/// A write of one part, and possibly of the register.
#[derive(Clone, Copy, Debug)]
pub struct SplitWrite<'a> {
    /// The register's key.
    pub key: &'a str,
    /// The register's revision; `None` if it does not exist. If it differs, nothing changes.
    pub expected: Option<&'a Revision>,
    /// The register's new value; `None` leaves it as it is.
    pub value: Option<&'a str>,
    /// The prefix of the parts' keys. It ends with `/`.
    pub prefix: &'a str,
    /// The end of the part's key, and its new value.
    pub part: (&'a str, &'a str),
    /// An earlier moment: the result has only what was written after it.
    pub since: Option<&'a Revision>,
    /// Whether nothing changes if any part was written after `since`.
    pub needs_unchanged_parts: bool,
}

/// Registers that are split into parts: many writers each change their own part without a conflict.
pub trait SplitRegisters {
    /// The register and its parts, or those that were written after a moment.
    fn read_parts<'a>(
        &'a self,
        key: &'a str,
        prefix: &'a str,
        since: Option<&'a Revision>,
    ) -> Reply<'a, SplitRegister>;

    /// Changes a part, and returns the new state; `None` if it was refused and nothing changed.
    fn change_part<'a>(&'a self, change: SplitWrite<'a>) -> Reply<'a, Option<SplitRegister>>;

    /// Deletes the register and its parts if it has this revision.
    fn delete_parts<'a>(
        &'a self,
        key: &'a str,
        expected: &'a Revision,
        prefix: &'a str,
    ) -> Reply<'a, bool>;
}

/// The value of a register that is not text, or that another program has written. It is no valid
/// value of any register, so it is reported and kept, and delays no other register.
fn damaged(why: &str, bytes: &[u8]) -> String {
    const SHOWN: usize = 1000;
    format!(
        "{why}: {}",
        String::from_utf8_lossy(bytes.get(..SHOWN).unwrap_or(bytes))
    )
}

/// The future of a call of an engine.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + 'a>>;

/// Whether this can be the key of a register.
pub(crate) fn is_key(key: &str) -> bool {
    let is_usual =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_./".contains(&byte);
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.');
    key.len() <= KEY_MAX && key.bytes().all(is_usual) && key.split('/').all(is_part)
}

/// Whether the clock of a store that has answered is known.
///
/// # Errors
/// It is not: no heartbeat has an age.
pub(crate) fn check_clock(engine: &dyn Engine) -> Result<(), EngineError> {
    engine.clock().map(drop).ok_or_else(|| {
        EngineError(
            "the answers of the store have no `Date`, as if a proxy removed it: no heartbeat has an age, so other machines count as silent"
                .into(),
        )
    })
}

/// The time by the store's clock, which is the same for all machines; by this machine's own one if
/// no answer of the store has shown it.
pub(crate) fn time(engine: &dyn Engine) -> Timestamp {
    let shown = engine.clock().and_then(|clock| {
        let milliseconds = clock.now.0.try_into().ok()?;
        Timestamp::from_millisecond(milliseconds).ok()
    });
    shown.unwrap_or_else(Timestamp::now)
}

/// Registers with compare-and-swap.
///
/// A key has lower-case letters, digits, `-`, `_`, `.` and `/`, at most 200 bytes; a part between
/// two `/` is not empty and does not begin with `.`. A read returns every swap that was done before
/// the read began.
pub trait Engine {
    /// The register; `None` if it does not exist.
    fn read<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Versioned>>;

    /// Writes the register if it has this revision; with `None`, if it does not exist.
    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Revision>,
        value: &'a str,
    ) -> Reply<'a, Swap>;

    /// Deletes the register if it has this revision; `false` if it has another one, or does not
    /// exist.
    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> Reply<'a, bool>;

    /// The registers whose keys begin with the prefix, which ends with `/`, in the order of their
    /// keys.
    fn list<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<(String, Versioned)>>;

    /// The time by the store's own clock, derived from its last answer; `None` before the first
    /// answer.
    fn clock(&self) -> Option<Clock>;

    /// The same registers for callers that need their ages. The revisions and the times are
    /// current. A value may be up to ten minutes old, but is current if the register was not
    /// written for a minute.
    fn list_aged<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<Aged>> {
        Box::pin(async move {
            let aged = |(key, register)| Aged {
                key,
                register,
                written: None,
            };
            Ok(self.list(prefix).await?.into_iter().map(aged).collect())
        })
    }

    /// Registers that are split into parts, if the engine has them.
    fn split_registers(&self) -> Option<&dyn SplitRegisters> {
        None
    }
}
