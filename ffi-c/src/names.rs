//! The names of this machine.

use scheduled_events_core::{VmNames, limits};

use crate::abi::pointers::{Flag, input, list, zero};
use crate::boundary::Result;
use crate::status::schedev_status::{
    SCHEDEV_ERROR_ARGUMENT, SCHEDEV_ERROR_NAME_TOO_LONG, SCHEDEV_ERROR_TOO_MANY_NAMES,
};
use crate::text::{core_text, schedev_text};

/// The maximum number of names of a machine.
pub const SCHEDEV_NAMES_MAX: usize = 8;
/// The longest name, in bytes.
pub const SCHEDEV_NAME_MAX_BYTES: usize = 128;

const _: () =
    assert!(SCHEDEV_NAMES_MAX == limits::NAMES_MAX && SCHEDEV_NAME_MAX_BYTES == limits::NAME_MAX);

/// The names of this machine in Resources. If there are none, or if a NULL takes the place of the struct, the names are
/// unknown: it is unknown which events concern this machine, and nothing is approved. An empty name is refused with
/// SCHEDEV_ERROR_ARGUMENT. Initialise the struct with SCHEDEV_NAMES_INIT, or zero it first.
///
/// Resources are resource names, not host names: the name of the VM, or {scale-set}_{instance-id} in a uniform scale set.
/// The metadata service returns it at /metadata/instance/compute/name. Names are compared as a whole, ignoring ASCII case.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_names {
    /// The names, at most SCHEDEV_NAMES_MAX of at most SCHEDEV_NAME_MAX_BYTES bytes each; NULL if there are none.
    pub items: *const schedev_text,
    /// The number of names.
    pub count: usize,
    /// Whether documents put a "_" before each name in Resources, as API version 2017-03-01 does.
    pub underscored: Flag,
    /// For later versions: zero.
    pub reserved: [u64; 2],
}

/// Calls `body` with the names that C passed. Escaped names are decoded on the stack.
///
/// # Safety
/// The conventions of the header.
pub(crate) unsafe fn with_names<T>(
    names: *const schedev_names,
    body: impl FnOnce(VmNames<'_>) -> T,
) -> Result<T> {
    if names.is_null() {
        return Ok(body(VmNames::UNKNOWN));
    }
    let names = checked!(input(names));
    zero(&names.reserved)?;
    let items = checked!(list(names.items, names.count));
    let mut decoded = [[0; limits::NAME_MAX]; limits::NAMES_MAX];
    let mut known = [""; limits::NAMES_MAX];
    if items.len() > known.len() {
        return Err(SCHEDEV_ERROR_TOO_MANY_NAMES);
    }
    for ((place, buffer), item) in known.iter_mut().zip(&mut decoded).zip(items) {
        let name = checked!(core_text(item));
        if name.decoded_len() == 0 {
            return Err(SCHEDEV_ERROR_ARGUMENT);
        }
        if name.decoded_len() > limits::NAME_MAX {
            return Err(SCHEDEV_ERROR_NAME_TOO_LONG);
        }
        *place = match name.as_str() {
            Some(name) => name,
            None => name
                .copy_to(buffer)
                .map_err(|_| SCHEDEV_ERROR_NAME_TOO_LONG)?,
        };
    }
    let known = VmNames::new(known.get(..items.len()).unwrap_or_default());
    Ok(body(if names.underscored.is_on() {
        known.underscored()
    } else {
        known
    }))
}
