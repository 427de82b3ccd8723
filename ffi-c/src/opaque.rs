//! Core's own values in the caller's memory, behind a tag.
//!
//! A C struct that stands for such a value is an array of words. It holds a [`Sealed`] value: the tag, then core's. The
//! tag differs for each type of object and is set when the object is filled, so that a zeroed object, a stray one, or
//! one of another type is refused instead of read. Sizes and alignments are checked when this crate is compiled, so a
//! core whose types have outgrown the ABI does not build.

use crate::boundary::Result;
use crate::memory::check;
use crate::status::schedev_status::SCHEDEV_ERROR_ARGUMENT;

/// A value and the tag that says it is one.
#[repr(C)]
pub(crate) struct Sealed<T> {
    tag: u64,
    value: T,
}

/// A value that an array of words in the ABI holds. None has a destructor: C copies them, and forgets them.
pub(crate) trait Held: Sized {
    /// Marks memory that holds a value of this type. Neither 0 nor likely to stand in memory by accident.
    const TAG: u64;
}

/// Fails to compile where `WORDS` words cannot hold a `T`, or where dropping one would mean something.
const fn fits<T: Held, const WORDS: usize>() {
    assert!(size_of::<Sealed<T>>() <= WORDS * 8, "the type has outgrown its place in the ABI");
    assert!(align_of::<Sealed<T>>() <= align_of::<u64>(), "the type wants more alignment than the ABI has");
    assert!(!core::mem::needs_drop::<T>(), "C forgets objects");
}

/// Puts a value into the words.
///
/// # Safety
/// `words` is aligned and can be written.
#[inline]
pub(crate) unsafe fn seal<T: Held, const WORDS: usize>(words: *mut [u64; WORDS], value: T) {
    const { fits::<T, WORDS>() };
    // SAFETY: size and alignment were checked by `fits`, and the memory is the caller's to write.
    unsafe { words.cast::<Sealed<T>>().write(Sealed { tag: T::TAG, value }) };
}

/// The value in the words.
///
/// # Safety
/// `words` is NULL, or points to words of which the first is initialised; if that is `T`'s tag, [`seal`] put it there,
/// or a copy of the whole was made. Nothing changes them during `'a`, and what the value borrows lives as long.
#[inline]
pub(crate) unsafe fn unseal<'a, T: Held, const WORDS: usize>(words: *const [u64; WORDS]) -> Result<&'a T> {
    const { fits::<T, WORDS>() };
    check(words)?;
    // SAFETY: aligned, checked above, and initialised as promised.
    if unsafe { words.cast::<u64>().read() } != T::TAG {
        return Err(SCHEDEV_ERROR_ARGUMENT);
    }
    // SAFETY: the tag says that a whole `Sealed<T>` stands here.
    Ok(unsafe { &(*words.cast::<Sealed<T>>()).value })
}

/// The value in the words, to be changed.
///
/// # Safety
/// As for [`unseal`], and nothing else reads it during `'a`.
#[inline]
pub(crate) unsafe fn unseal_mut<'a, T: Held, const WORDS: usize>(words: *mut [u64; WORDS]) -> Result<&'a mut T> {
    const { fits::<T, WORDS>() };
    check(words)?;
    // SAFETY: aligned, checked above, and initialised as promised.
    if unsafe { words.cast::<u64>().read() } != T::TAG {
        return Err(SCHEDEV_ERROR_ARGUMENT);
    }
    // SAFETY: the tag says that a whole `Sealed<T>` stands here, and it is the caller's alone.
    Ok(unsafe { &mut (*words.cast::<Sealed<T>>()).value })
}

/// The value in the words, to be changed; `None` where they are zeroed, which is what a cursor before its first use looks
/// like.
///
/// # Safety
/// As for [`unseal_mut`].
#[inline]
pub(crate) unsafe fn unseal_started<'a, T: Held, const WORDS: usize>(
    words: *mut [u64; WORDS],
) -> Result<Option<&'a mut T>> {
    check(words)?;
    // SAFETY: aligned, checked above, and initialised as promised.
    if unsafe { words.cast::<u64>().read() } == 0 {
        return Ok(None);
    }
    // SAFETY: the caller's promise is the same.
    unsafe { unseal_mut(words) }.map(Some)
}
