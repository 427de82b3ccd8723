//! The names of this machine.

use scheduled_events_core::{VmNames, limits};

use crate::boundary::Result;
use crate::memory::{Flag, check, list};
use crate::status::schedev_status::{
    SCHEDEV_ERROR_ARGUMENT, SCHEDEV_ERROR_NAME_TOO_LONG, SCHEDEV_ERROR_TOO_MANY_NAMES,
};
use crate::text::schedev_text;

/// The most names that a machine can have here.
pub const SCHEDEV_NAMES_MAX: usize = 8;
/// The longest name, in bytes.
pub const SCHEDEV_NAME_MAX_BYTES: usize = 128;

const _: () = assert!(SCHEDEV_NAMES_MAX == limits::NAMES_MAX && SCHEDEV_NAME_MAX_BYTES == limits::NAME_MAX);

/// The names under which this machine stands in an event's Resources. No names at all, or a NULL in place of the struct,
/// means that they are unknown; then whose an event is cannot be told, and nothing is approved. An empty name is refused
/// with SCHEDEV_ERROR_ARGUMENT: it would pass for a known one.
///
/// Resources are resource names, not host names: the VM's name, or {scale-set}_{instance-id} in a uniform scale set.
/// The metadata service tells it (/metadata/instance/compute/name). Names match whole and without regard to the case of
/// ASCII letters.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_names {
    /// The names, at most SCHEDEV_NAMES_MAX of at most SCHEDEV_NAME_MAX_BYTES bytes; NULL where there are none.
    pub items: *const schedev_text,
    /// How many.
    pub count: usize,
    /// Whether the documents put one "_" before each resource's name, as API version 2017-03-01 does.
    pub underscored: Flag,
}

/// Reads the names that C passed and hands them to `body`; copies those that are escaped.
///
/// # Safety
/// The conventions of the header.
pub(crate) unsafe fn with_names<T>(names: *const schedev_names, body: impl FnOnce(VmNames<'_>) -> T) -> Result<T> {
    if names.is_null() {
        return Ok(body(VmNames::UNKNOWN));
    }
    check(names)?;
    // SAFETY: not NULL and aligned; the rest is the conventions of the header.
    let names = unsafe { *names };
    // SAFETY: the conventions of the header.
    let items = unsafe { list(names.items, names.count) }?;
    let mut decoded = [[0; limits::NAME_MAX]; limits::NAMES_MAX];
    let mut known = [""; limits::NAMES_MAX];
    if items.len() > known.len() {
        return Err(SCHEDEV_ERROR_TOO_MANY_NAMES);
    }
    for ((place, buffer), item) in known.iter_mut().zip(&mut decoded).zip(items) {
        // SAFETY: the conventions of the header.
        let name = unsafe { item.read() }?;
        if name.decoded_len() == 0 {
            return Err(SCHEDEV_ERROR_ARGUMENT);
        }
        if name.decoded_len() > limits::NAME_MAX {
            return Err(SCHEDEV_ERROR_NAME_TOO_LONG);
        }
        *place = match name.as_str() {
            Some(name) => name,
            None => name.copy_to(buffer).map_err(|_| SCHEDEV_ERROR_NAME_TOO_LONG)?,
        };
    }
    let known = VmNames::new(known.get(..items.len()).unwrap_or_default());
    Ok(body(if names.underscored.is_on() { known.underscored() } else { known }))
}
