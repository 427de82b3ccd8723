//! The mechanisms of the ABI: check what C passes, read structs that grow, keep Rust values in the caller's memory, and state
//! the version.

#[macro_use]
pub(crate) mod pointers;
pub(crate) mod struct_size;
pub(crate) mod tagged;
pub(crate) mod version;

#[cfg(test)]
mod layout_tests;
