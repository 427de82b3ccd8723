//! Structs of the ABI that grow.
//!
//! A struct that starts with its `struct_size` may get new members at its end. Programs compiled with an earlier header
//! pass a shorter struct; the members they lack have the values of the `_INIT` macro.

use crate::abi::pointers::check;
use crate::boundary::Result;
use crate::status::schedev_status::SCHEDEV_ERROR_ARGUMENT;

/// A struct that starts with its `struct_size`.
///
/// # Safety
/// The struct is `repr(C)`, its first member is `struct_size: usize`, and its members are integers, pointers and flags, so
/// that any bytes are a valid value. Each size but the last is where the first new member of the next version starts, and
/// at least the size of the whole earlier struct, its padding included.
pub(crate) unsafe trait Growing: Copy {
    /// The sizes that the struct has had, in rising order; the last one is the present one.
    const SIZES: &'static [usize];
    /// The values of the `_INIT` macro.
    const INIT: Self;
}

/// Reads a struct of any version up to the present one. A longer one is refused: it may ask for what this version
/// cannot do.
///
/// # Safety
/// The conventions of the header. `pointer` is NULL or points to as many bytes as its `struct_size` says.
pub(crate) unsafe fn sized<T: Growing>(pointer: *const T) -> Result<T> {
    const { assert!(matches!(T::SIZES, [.., last] if *last == size_of::<T>())) };
    check(pointer)?;
    // SAFETY: the pointer was checked, and the struct starts with its size.
    let size = unsafe { pointer.cast::<usize>().read() };
    if !T::SIZES.contains(&size) {
        return Err(SCHEDEV_ERROR_ARGUMENT);
    }
    let mut whole = T::INIT;
    // SAFETY: the caller has `size` bytes, at most as many as `whole`; any bytes are a valid `T`.
    unsafe {
        core::ptr::copy_nonoverlapping(pointer.cast::<u8>(), (&raw mut whole).cast::<u8>(), size);
    };
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::pointers::Flag;

    /// The second version of a struct, which added `later` and `latest`.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Second {
        struct_size: usize,
        first: u32,
        later: u64,
        latest: Flag,
    }

    #[repr(C)]
    struct First {
        struct_size: usize,
        first: u32,
    }

    // SAFETY: integers and a flag; the first new member starts where the first version ended.
    unsafe impl Growing for Second {
        const SIZES: &'static [usize] = &[size_of::<First>(), size_of::<Self>()];
        const INIT: Self = Self {
            struct_size: size_of::<Self>(),
            first: 1,
            later: 7,
            latest: Flag::new(true),
        };
    }

    #[test]
    fn an_earlier_version_is_read_up_to_its_end() {
        assert_eq!(core::mem::offset_of!(Second, later), size_of::<First>());
        let first = Box::new(First {
            struct_size: size_of::<First>(),
            first: 3,
        });
        // SAFETY: a struct of the first version. Miri and the sanitizer check that nothing after it is read.
        let read = unsafe { sized((&raw const *first).cast::<Second>()) };
        assert_eq!(
            read,
            Ok(Second {
                struct_size: first.struct_size,
                first: 3,
                ..Second::INIT
            })
        );
    }

    #[test]
    fn other_sizes_are_refused() {
        let whole = Second {
            first: 5,
            later: 6,
            latest: Flag::new(false),
            ..Second::INIT
        };
        // SAFETY: the struct is there, whatever its first member says.
        let read = |size| unsafe {
            sized(&raw const *Box::new(Second {
                struct_size: size,
                ..whole
            }))
        };
        assert_eq!(read(size_of::<Second>()), Ok(whole));
        for size in (0..100)
            .filter(|size| !Second::SIZES.contains(size))
            .chain([usize::MAX])
        {
            assert_eq!(read(size), Err(SCHEDEV_ERROR_ARGUMENT), "{size}");
        }
    }
}
