//! Rust values in the caller's memory, each after a tag.
//!
//! Documents, events, cursors, trackers and sessions hold values of core. The tag in front of the value is a number that
//! differs for each type of object. It is written together with the value and checked before the value is read, so an
//! object that is zeroed, not initialised or of another type is refused with `SCHEDEV_ERROR_ARGUMENT`.
//!
//! Values are never dropped: C forgets objects, and initialises them again. That loses nothing, since core allocates nothing.

use crate::abi::pointers::check;
use crate::boundary::Result;
use crate::status::schedev_status::SCHEDEV_ERROR_ARGUMENT;

/// A value after its tag.
#[repr(C)]
pub(crate) struct Tagged<T> {
    tag: u64,
    value: T,
}

/// A type of the ABI that holds a Rust value after a tag.
///
/// # Safety
/// The bytes from `OFFSET` on are integers or a `Tagged<Self::Value>`, and nothing but this module writes to them.
pub(crate) unsafe trait Holder: Sized {
    /// The value.
    type Value;
    /// Identifies the type of the object. Not 0, and unlikely in memory that was not initialised.
    const TAG: u64;
    /// Where the tag is within the object.
    const OFFSET: usize;

    /// Where the tag and the value are.
    fn tagged(object: *const Self) -> *const Tagged<Self::Value> {
        const { check_layout::<Self>() };
        object.cast::<u8>().wrapping_add(Self::OFFSET).cast()
    }
}

/// Fails to compile if a core type has outgrown its memory in the ABI.
const fn check_layout<H: Holder>() {
    let (size, align) = (
        size_of::<Tagged<H::Value>>(),
        align_of::<Tagged<H::Value>>(),
    );
    assert!(
        H::OFFSET + size <= size_of::<H>(),
        "the value is larger than its memory in the ABI"
    );
    assert!(
        H::OFFSET.is_multiple_of(align) && align <= align_of::<H>(),
        "the value needs another alignment"
    );
    assert!(H::TAG != 0, "zeroed memory must not look initialised");
}

/// Initialises an object.
///
/// # Safety
/// `object` is aligned, and its memory may be written.
#[inline]
pub(crate) unsafe fn write<H: Holder>(object: *mut H, value: H::Value) {
    // SAFETY: `check_layout` has checked that the value fits; the caller allows the write.
    unsafe {
        H::tagged(object)
            .cast_mut()
            .write(Tagged { tag: H::TAG, value });
    };
}

/// The tag of an object, whether it was initialised or not.
///
/// # Safety
/// The conventions of the header.
#[inline]
unsafe fn tag<H: Holder>(object: *const H) -> Result<u64> {
    check(object)?;
    // SAFETY: the pointer was checked. The memory of an object holds integers that the caller has set to something.
    Ok(unsafe { (&raw const (*H::tagged(object)).tag).read() })
}

/// The value of an object.
///
/// # Safety
/// The conventions of the header.
#[inline]
pub(crate) unsafe fn object<'a, H: Holder>(object: *const H) -> Result<&'a H::Value> {
    // SAFETY: the same conventions.
    if unsafe { tag(object) }? != H::TAG {
        return Err(SCHEDEV_ERROR_ARGUMENT);
    }
    // SAFETY: the tag was written together with a value, or both were copied. The caller keeps the object unchanged.
    Ok(unsafe { &(*H::tagged(object)).value })
}

/// The value of an object, to be changed.
///
/// # Safety
/// The conventions of the header.
#[inline]
pub(crate) unsafe fn object_mut<'a, H: Holder>(object: *mut H) -> Result<&'a mut H::Value> {
    // SAFETY: the same conventions.
    if unsafe { tag(object) }? != H::TAG {
        return Err(SCHEDEV_ERROR_ARGUMENT);
    }
    // SAFETY: the tag was written together with a value, or both were copied. A pointer that is not const is exclusive.
    Ok(unsafe { &mut (*H::tagged(object).cast_mut()).value })
}

/// The value of a cursor; `None` for a zeroed cursor, which starts a new iteration.
///
/// # Safety
/// The conventions of the header.
#[inline]
pub(crate) unsafe fn started<'a, H: Holder>(cursor: *mut H) -> Result<Option<&'a mut H::Value>> {
    // SAFETY: the same conventions.
    if unsafe { tag(cursor.cast_const()) }? == 0 {
        return Ok(None);
    }
    // SAFETY: the same conventions.
    unsafe { object_mut(cursor) }.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::schedev_status::SCHEDEV_ERROR_NULL;

    #[repr(C)]
    struct Counter {
        plain: u64,
        opaque: [u64; 3],
    }

    // SAFETY: `opaque` consists of integers.
    unsafe impl Holder for Counter {
        type Value = (u32, u64);
        const TAG: u64 = u64::from_be_bytes(*b"counter.");
        const OFFSET: usize = core::mem::offset_of!(Self, opaque);
    }

    #[test]
    fn only_an_initialised_object_has_a_value() {
        let mut counter = Counter {
            plain: 7,
            opaque: [0; 3],
        };
        // SAFETY: the pointers are NULL, or to a live object.
        unsafe {
            assert_eq!(
                object::<Counter>(core::ptr::null()),
                Err(SCHEDEV_ERROR_NULL)
            );
            assert_eq!(object(&raw const counter), Err(SCHEDEV_ERROR_ARGUMENT));
            assert_eq!(started(&raw mut counter), Ok(None));
            write(&raw mut counter, (1, 2));
            object_mut(&raw mut counter).unwrap().1 = 5;
            assert_eq!(object(&raw const counter), Ok(&(1, 5)));
            assert_eq!(started(&raw mut counter), Ok(Some(&mut (1, 5))));
            counter.opaque[0] += 1;
            assert_eq!(object(&raw const counter), Err(SCHEDEV_ERROR_ARGUMENT));
            assert_eq!(started(&raw mut counter), Err(SCHEDEV_ERROR_ARGUMENT));
        }
        assert_eq!(counter.plain, 7);
    }
}
