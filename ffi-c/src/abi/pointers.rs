//! What C passes: pointers that may be NULL, arrays with a length, outputs, buffers and flags.
//!
//! The functions here check all that can be checked. The rest is the caller's duty, which the header states once, in
//! CONVENTIONS and OWNERSHIP: a pointer that is not NULL points to as much memory of its type as the parameter says, for
//! as long as the parameter says; inputs are initialised and do not change during the call; outputs are exclusive. A
//! function of this crate whose safety section says "The conventions of the header" requires that and nothing else.

use std::ffi::{c_char, c_void};

use crate::boundary::Result;
use crate::status::schedev_status::{
    SCHEDEV_ERROR_ARGUMENT, SCHEDEV_ERROR_BUFFER_TOO_SMALL, SCHEDEV_ERROR_MEMORY_TOO_SMALL,
    SCHEDEV_ERROR_NULL, SCHEDEV_ERROR_UTF8,
};

/// Converts arguments that C passed with a function whose only safety requirement is the conventions of the header;
/// returns the status from the enclosing function if a check fails.
///
/// `checked!(output(event))` is `unsafe { output(event) }?`. Arguments are names of variables, members of them or
/// literals, so that nothing else can get into the unsafe block.
macro_rules! checked {
    ($convert:ident($($argument:ident $(.$member:ident)?),+)) => {
        // SAFETY: the function requires the conventions of the header, which every caller of this library has to keep.
        unsafe { $convert($($argument $(.$member)?),+) }?
    };
}

/// C's `bool` inside a struct. It is a byte, because any other value than 0 and 1 is undefined behaviour for `bool`. The
/// header says `bool`, which has the same size.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flag(u8);

impl Flag {
    /// The flag of this value.
    pub const fn new(on: bool) -> Self {
        Self(on as u8)
    }

    /// Its value; every byte but 0 is true.
    pub const fn is_on(self) -> bool {
        self.0 != 0
    }
}

/// Refuses NULL, and pointers that are not aligned for their type.
pub(crate) fn check<T>(pointer: *const T) -> Result {
    if pointer.is_null() {
        return Err(SCHEDEV_ERROR_NULL);
    }
    if pointer.is_aligned() {
        Ok(())
    } else {
        Err(SCHEDEV_ERROR_ARGUMENT)
    }
}

/// Refuses reserved members that are not zero: they may ask for what this version cannot do.
pub(crate) fn zero<T: PartialEq + Default>(reserved: &[T]) -> Result {
    if reserved.iter().all(|member| *member == T::default()) {
        Ok(())
    } else {
        Err(SCHEDEV_ERROR_ARGUMENT)
    }
}

/// A struct that must not be NULL.
///
/// # Safety
/// The conventions of the header. Any bytes are a valid `T`.
pub(crate) unsafe fn input<'a, T>(pointer: *const T) -> Result<&'a T> {
    check(pointer)?;
    // SAFETY: the pointer was checked; the rest is the caller's duty.
    Ok(unsafe { &*pointer })
}

/// The items of an array; NULL with 0 is the empty list.
///
/// # Safety
/// The conventions of the header. Any bytes are a valid `T`.
pub(crate) unsafe fn list<'a, T>(items: *const T, count: usize) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    check(items)?;
    if count > isize::MAX as usize / size_of::<T>() {
        return Err(SCHEDEV_ERROR_ARGUMENT);
    }
    // SAFETY: not NULL, aligned, and not longer than an allocation can be; the rest is the caller's duty.
    Ok(unsafe { core::slice::from_raw_parts(items, count) })
}

/// The bytes at a pointer; NULL with 0 is empty.
///
/// # Safety
/// The conventions of the header.
pub(crate) unsafe fn bytes<'a>(data: *const c_char, len: usize) -> Result<&'a [u8]> {
    // SAFETY: the same conventions; a char is a byte.
    unsafe { list(data.cast::<u8>(), len) }
}

/// The same for bytes that must be UTF-8.
///
/// # Safety
/// The conventions of the header.
pub(crate) unsafe fn utf8<'a>(data: *const c_char, len: usize) -> Result<&'a str> {
    core::str::from_utf8(checked!(bytes(data, len))).map_err(|_| SCHEDEV_ERROR_UTF8)
}

/// An output that must not be NULL.
///
/// # Safety
/// The conventions of the header.
pub(crate) unsafe fn output<T>(pointer: *mut T) -> Result<Output<T>> {
    check(pointer)?;
    Ok(Output(pointer))
}

/// An output that may be NULL.
///
/// # Safety
/// The conventions of the header.
pub(crate) unsafe fn optional_output<T>(pointer: *mut T) -> Result<Output<T>> {
    if pointer.is_null() {
        Ok(Output(pointer))
    } else {
        // SAFETY: the same conventions.
        unsafe { output(pointer) }
    }
}

/// A checked output, written when the call succeeds.
pub(crate) struct Output<T>(*mut T);

impl<T> Output<T> {
    pub(crate) fn write(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: aligned, and made by `output` alone, which requires memory that may be written.
            unsafe { self.0.write(value) };
        }
    }
}

/// The buffer for a result, and the output for the size of the result.
///
/// # Safety
/// The conventions of the header.
pub(crate) unsafe fn output_buffer<'a>(
    data: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> Result<Buffer<'a>> {
    let needed = checked!(output(needed));
    if capacity == 0 {
        return Ok(Buffer {
            bytes: &mut [],
            needed,
        });
    }
    check(data)?;
    let capacity = capacity.min(isize::MAX as usize);
    // SAFETY: not NULL, not longer than an allocation can be, exclusive; it is only written, never read.
    let bytes = unsafe { core::slice::from_raw_parts_mut(data.cast::<u8>(), capacity) };
    Ok(Buffer { bytes, needed })
}

/// A checked buffer.
pub(crate) struct Buffer<'a> {
    bytes: &'a mut [u8],
    needed: Output<usize>,
}

impl Buffer<'_> {
    /// The same without capacity, which is not written to.
    pub(crate) fn emptied(self) -> Self {
        Self {
            bytes: &mut [],
            ..self
        }
    }

    /// Writes a text of `length` bytes with `write`, and a NUL after it if the buffer has a byte left. If the text does
    /// not fit, the buffer stays as it was and only `needed` is written.
    pub(crate) fn fill_text(
        self,
        length: usize,
        write: impl FnOnce(&mut [u8]) -> Result<usize>,
    ) -> Result {
        self.fill(length, |target| {
            let length = write(target)?;
            if let Some(end) = target.get_mut(length) {
                *end = 0;
            }
            Ok(length)
        })
    }

    /// The same for binary data: no NUL.
    pub(crate) fn fill(
        self,
        length: usize,
        write: impl FnOnce(&mut [u8]) -> Result<usize>,
    ) -> Result {
        if length > self.bytes.len() {
            self.needed.write(length);
            return Err(SCHEDEV_ERROR_BUFFER_TOO_SMALL);
        }
        self.needed.write(write(self.bytes)?);
        Ok(())
    }
}

/// The first aligned place for a `T` in memory that the caller provides.
///
/// # Safety
/// The conventions of the header.
pub(crate) unsafe fn memory_for<T>(memory: *mut c_void, size: usize) -> Result<*mut T> {
    if memory.is_null() {
        return Err(SCHEDEV_ERROR_NULL);
    }
    let memory = memory.cast::<u8>();
    let start = memory.align_offset(align_of::<T>());
    if start
        .checked_add(size_of::<T>())
        .is_none_or(|end| end > size)
    {
        return Err(SCHEDEV_ERROR_MEMORY_TOO_SMALL);
    }
    Ok(memory.wrapping_add(start).cast())
}

/// The size of memory in which [`memory_for`] finds a place, whatever the memory's alignment.
pub(crate) const fn memory_size<T>() -> usize {
    size_of::<T>() + align_of::<T>() - 1
}
