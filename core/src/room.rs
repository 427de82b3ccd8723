//! Room that a caller gave, written from its front.

use crate::error::BufferTooSmall;

/// Writes while there is room, and counts all the same.
pub(crate) struct Room<'b> {
    buffer: &'b mut [u8],
    length: usize,
}

impl<'b> Room<'b> {
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

    /// How many bytes were written, those that had no room among them.
    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    /// What was written.
    ///
    /// # Errors
    /// [`BufferTooSmall`] when it did not fit.
    pub(crate) fn written(self) -> Result<&'b [u8], BufferTooSmall> {
        let Self { buffer, length } = self;
        buffer.get(..length).ok_or(BufferTooSmall { needed: length })
    }
}
