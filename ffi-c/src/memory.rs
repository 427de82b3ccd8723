//! What C hands over: pointers that may be NULL, bytes with a length, outputs, buffers, flags.
//!
//! The functions here check all that can be checked. What cannot be is the caller's promise, made in the header's
//! opening chapter: a pointer that is not NULL points to as much memory of its type as the parameter says, for as long
//! as the call, and outputs overlap neither each other nor inputs.

use std::ffi::c_char;

use crate::boundary::Result;
use crate::status::schedev_status::{
    SCHEDEV_ERROR_ARGUMENT, SCHEDEV_ERROR_BUFFER_TOO_SMALL, SCHEDEV_ERROR_NULL, SCHEDEV_ERROR_UTF8,
};

/// C's `bool` inside a struct: a byte, so that whatever value stray memory has there is no undefined behaviour here.
/// The header says `bool`, which has the same size.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flag(u8);

impl Flag {
    /// The flag of this value.
    pub const fn new(on: bool) -> Self {
        Self(on as u8)
    }

    /// Its value; every byte but 0 counts as true.
    pub const fn is_on(self) -> bool {
        self.0 != 0
    }
}

/// Refuses NULL and what is not aligned for its type.
pub(crate) fn check<T>(pointer: *const T) -> Result {
    if pointer.is_null() {
        return Err(SCHEDEV_ERROR_NULL);
    }
    if pointer.is_aligned() { Ok(()) } else { Err(SCHEDEV_ERROR_ARGUMENT) }
}

/// The value behind a pointer that must not be NULL.
///
/// # Safety
/// The pointer is NULL, or points to an initialised `T` that nothing changes during `'a`.
pub(crate) unsafe fn input<'a, T>(pointer: *const T) -> Result<&'a T> {
    check(pointer)?;
    // SAFETY: it is not NULL and aligned, checked above; the rest is the caller's promise.
    Ok(unsafe { &*pointer })
}

/// A struct of the ABI that starts with its size in a `usize`, and grows at its end: callers that were compiled for an
/// earlier header pass a shorter one.
///
/// # Safety
/// The struct is `repr(C)`, starts with that `usize`, and consists of numbers, pointers and flags, so that whatever a
/// caller has written there is a value. Each size but the last is where the next version's first new member starts, and
/// not less than the whole struct took before, its padding counted.
pub(crate) unsafe trait Grows: Copy {
    /// The sizes that it has had, in rising order; the last is the present one.
    const SIZES: &'static [usize];
    /// What the members say that a caller's version does not have.
    const INIT: Self;
}

/// A struct that grows, whole. One of a later header is refused: it may say what is not known here.
///
/// # Safety
/// The pointer is NULL, or points to as many initialised bytes as the `usize` at their beginning says.
pub(crate) unsafe fn sized<T: Grows>(pointer: *const T) -> Result<T> {
    const { assert!(matches!(T::SIZES, [.., last] if *last == size_of::<T>())) };
    check(pointer)?;
    // SAFETY: the caller's promise: whatever its version, the struct starts with its size.
    let size = unsafe { pointer.cast::<usize>().read() };
    if !T::SIZES.contains(&size) {
        return Err(SCHEDEV_ERROR_ARGUMENT);
    }
    let mut whole = T::INIT;
    // SAFETY: the caller has `size` bytes, which are no more than `whole` has; any bytes make a `T`, as `Grows` promises.
    unsafe { core::ptr::copy_nonoverlapping(pointer.cast::<u8>(), (&raw mut whole).cast::<u8>(), size) };
    Ok(whole)
}

/// An output that must not be NULL, to be written once the call has succeeded.
///
/// # Safety
/// The pointer is NULL, or points to memory for a `T` that can be written during the call.
pub(crate) unsafe fn output<T>(pointer: *mut T) -> Result<Output<T>> {
    check(pointer)?;
    Ok(Output(pointer))
}

/// An output that may be NULL.
///
/// # Safety
/// As for [`output`].
pub(crate) unsafe fn optional_output<T>(pointer: *mut T) -> Result<Output<T>> {
    if pointer.is_null() {
        return Ok(Output(pointer));
    }
    // SAFETY: the caller's promise is the same.
    unsafe { output(pointer) }
}

/// A checked place for one result.
pub(crate) struct Output<T>(*mut T);

impl<T> Output<T> {
    pub(crate) fn write(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: it is aligned, and made only from pointers that can be written: `output` asks for that.
            unsafe { self.0.write(value) };
        }
    }
}

/// The items behind a pointer and a count; NULL with 0 is the empty list.
///
/// # Safety
/// The pointer is NULL, or points to `count` initialised items that nothing changes during `'a`.
pub(crate) unsafe fn list<'a, T>(items: *const T, count: usize) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    check(items)?;
    if count > isize::MAX as usize / size_of::<T>() {
        return Err(SCHEDEV_ERROR_ARGUMENT);
    }
    // SAFETY: not NULL, aligned, no longer than memory can be; the rest is the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts(items, count) })
}

/// The bytes behind a pointer and a length; NULL with 0 is the empty text.
///
/// # Safety
/// As for [`list`].
pub(crate) unsafe fn bytes<'a>(data: *const c_char, len: usize) -> Result<&'a [u8]> {
    // SAFETY: a char is a byte; the rest is the caller's promise.
    unsafe { list(data.cast::<u8>(), len) }
}

/// The same, which must be UTF-8.
///
/// # Safety
/// As for [`list`].
pub(crate) unsafe fn utf8<'a>(data: *const c_char, len: usize) -> Result<&'a str> {
    // SAFETY: the caller's promise is the same.
    let bytes = unsafe { bytes(data, len) }?;
    core::str::from_utf8(bytes).map_err(|_| SCHEDEV_ERROR_UTF8)
}

/// Writes a result of `length` bytes to the caller's buffer with `write`, and a NUL behind it where `terminate` is set
/// and there is room. Where the result does not fit the buffer stays as it was; `needed` is told in both cases.
///
/// # Safety
/// `buffer` is NULL, or points to `capacity` bytes that can be written during the call; `needed` is as for [`output`].
pub(crate) unsafe fn fill(
    (buffer, capacity, needed): (*mut c_char, usize, *mut usize),
    length: usize,
    terminate: bool,
    write: impl FnOnce(&mut [u8]) -> Result<usize>,
) -> Result {
    // SAFETY: the caller's promise is the same.
    let needed = unsafe { output(needed) }?;
    if buffer.is_null() && capacity != 0 {
        return Err(SCHEDEV_ERROR_NULL);
    }
    if length > capacity {
        needed.write(length);
        return Err(SCHEDEV_ERROR_BUFFER_TOO_SMALL);
    }
    let capacity = capacity.min(isize::MAX as usize);
    let target = if capacity == 0 {
        &mut []
    } else {
        // SAFETY: not NULL, no longer than memory can be, and the caller's to write; it is only written, never read.
        unsafe { core::slice::from_raw_parts_mut(buffer.cast::<u8>(), capacity) }
    };
    let length = write(target)?;
    if terminate && let Some(end) = target.get_mut(length) {
        *end = 0;
    }
    needed.write(length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a struct of two versions looks like: `later` came with the second.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Grown {
        struct_size: usize,
        first: u32,
        later: u64,
        latest: Flag,
    }

    #[repr(C)]
    struct Before {
        struct_size: usize,
        first: u32,
    }

    // SAFETY: numbers and a flag; the second version's first member stands where the first version ended.
    unsafe impl Grows for Grown {
        const SIZES: &'static [usize] = &[size_of::<Before>(), size_of::<Self>()];
        const INIT: Self = Self { struct_size: size_of::<Self>(), first: 1, later: 7, latest: Flag::new(true) };
    }

    #[test]
    fn an_earlier_header_s_struct_is_read_to_its_own_end() {
        assert_eq!(core::mem::offset_of!(Grown, later), size_of::<Before>());
        let before = Box::new(Before { struct_size: size_of::<Before>(), first: 3 });
        // SAFETY: a struct of the first version; Miri and the sanitizer see to it that nothing behind it is read.
        let read = unsafe { sized((&raw const *before).cast::<Grown>()) };
        assert_eq!(read, Ok(Grown { struct_size: before.struct_size, first: 3, ..Grown::INIT }));
    }

    #[test]
    fn sizes_that_never_were_are_refused() {
        let whole = Grown { first: 5, later: 6, latest: Flag::new(false), ..Grown::INIT };
        // SAFETY: the struct is there, whatever its first member says.
        let read = |size| unsafe { sized(&raw const *Box::new(Grown { struct_size: size, ..whole })) };
        assert_eq!(read(size_of::<Grown>()), Ok(whole));
        for size in (0..100).filter(|size| !Grown::SIZES.contains(size)).chain([usize::MAX]) {
            assert_eq!(read(size), Err(SCHEDEV_ERROR_ARGUMENT), "{size}");
        }
    }
}
