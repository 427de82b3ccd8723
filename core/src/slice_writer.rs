//! A writer into a caller's buffer.

use crate::error::BufferTooSmall;

/// Writes to the front of a buffer. Bytes that do not fit are counted and dropped.
pub(crate) struct SliceWriter<'b> {
    buffer: &'b mut [u8],
    length: usize,
}

impl<'b> SliceWriter<'b> {
    pub(crate) const fn new(buffer: &'b mut [u8]) -> Self {
        Self { buffer, length: 0 }
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        if let Some(place) = self.buffer.get_mut(self.length) {
            *place = byte;
        }
        self.length = self.length.saturating_add(1);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.byte(*byte);
        }
    }

    /// How many bytes were written, dropped ones included.
    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    /// The bytes that were written.
    ///
    /// # Errors
    /// [`BufferTooSmall`] if some were dropped.
    pub(crate) fn written(self) -> Result<&'b [u8], BufferTooSmall> {
        let Self { buffer, length } = self;
        buffer
            .get(..length)
            .ok_or(BufferTooSmall { needed: length })
    }
}
