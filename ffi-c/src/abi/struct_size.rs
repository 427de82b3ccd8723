//! Structs of the ABI that start with their size.
//!
//! From the first release on, such a struct may get new members at its end, and its size states which of them the header of a program
//! has. Until then each has one size, and any other is refused.

use crate::abi::pointers::check;
use crate::boundary::Result;
use crate::status::schedev_status::SCHEDEV_ERROR_ARGUMENT;

/// A struct that starts with its `struct_size`.
///
/// # Safety
/// The struct is `repr(C)`, its first member is `struct_size: usize`, and its members are integers, pointers and flags, so
/// that any bytes are a valid value.
pub(crate) unsafe trait Growing: Copy {
    /// The values of the `_INIT` macro.
    const INIT: Self;
}

/// Reads a struct. One of another size is refused: a longer one may ask for what this version cannot do.
///
/// # Safety
/// The conventions of the header. `pointer` is NULL or points to as many bytes as its `struct_size` says.
pub(crate) unsafe fn sized<T: Growing>(pointer: *const T) -> Result<T> {
    check(pointer)?;
    // SAFETY: the pointer was checked, and the struct starts with its size.
    let size = unsafe { pointer.cast::<usize>().read() };
    if size != size_of::<T>() {
        return Err(SCHEDEV_ERROR_ARGUMENT);
    }
    // SAFETY: the caller has a whole struct, and any bytes are a valid one.
    Ok(unsafe { pointer.read() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::schedev_policy;

    #[test]
    fn other_sizes_are_refused() {
        let read = |struct_size| {
            let policy = Box::new(schedev_policy {
                struct_size,
                rule_count: 7,
                ..schedev_policy::INIT
            });
            // SAFETY: the struct is there, whatever its first member says.
            unsafe { sized(&raw const *policy) }.map(|policy| policy.rule_count)
        };
        let size = size_of::<schedev_policy>();
        assert_eq!(read(size), Ok(7));
        for other in (0..100).filter(|other| *other != size).chain([usize::MAX]) {
            assert_eq!(read(other), Err(SCHEDEV_ERROR_ARGUMENT), "{other}");
        }
    }
}
