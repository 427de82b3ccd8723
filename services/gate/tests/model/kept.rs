//! Values of which only one copy exists: a state then holds references of a few bytes, which are
//! fast to copy, compare and hash. There are millions of states, and some thousand values.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use scheduled_events_gate::protocol::Progress;
use scheduled_events_gate::register::{EventRegister, GroupRegister};

/// A value that is kept until the process ends. Equal values are the same object.
pub(crate) struct Kept<T: 'static>(&'static Entry<T>);

struct Entry<T> {
    /// The hash of the value, so that a state has the same hash in every run.
    hash: u64,
    value: Arc<T>,
}

type Table<T> = LazyLock<Mutex<HashMap<Arc<T>, Kept<T>>>>;

/// A type whose values can be kept.
pub(crate) trait Keep: Clone + Default + Eq + Hash + 'static {
    fn table() -> &'static Table<Self>;
}

macro_rules! keep {
    ($($kept:ty),+) => {$(
        impl Keep for $kept {
            fn table() -> &'static Table<Self> {
                static TABLE: Table<$kept> = LazyLock::new(Mutex::default);
                &TABLE
            }
        }
    )+};
}
keep!(EventRegister, GroupRegister, Progress);

impl<T: Keep> Kept<T> {
    pub(crate) fn new(value: T) -> Self {
        let value = Arc::new(value);
        let mut table = T::table().lock().unwrap_or_else(PoisonError::into_inner);
        *table.entry(value.clone()).or_insert_with(|| {
            let mut hasher = DefaultHasher::new();
            value.hash(&mut hasher);
            Self(Box::leak(Box::new(Entry {
                hash: hasher.finish(),
                value,
            })))
        })
    }

    pub(crate) fn shared(self) -> Arc<T> {
        self.0.value.clone()
    }
}

impl<T: Keep> Default for Kept<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Kept<T> {}

impl<T> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> PartialEq for Kept<T> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl<T> Eq for Kept<T> {}

impl<T> Hash for Kept<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

/// A fast hasher for hashes and small numbers, the same as rustc's.
#[derive(Default)]
pub(crate) struct Quick(u64);

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.cast_unsigned() as u64);
    }

    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}

impl<T: fmt::Debug> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.value.fmt(f)
    }
}
