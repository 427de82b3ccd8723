//! The fuzz targets: one module each, with a function `run` that takes any bytes and panics where core is wrong.

pub mod c_abi;
pub mod diff_two_documents;
pub mod document;
mod grammar;
pub mod not_before;
pub mod notifications;
mod oracle;
pub mod profiles;
pub mod snapshot;
pub mod structured;
pub mod tracker_session;

/// A target's name and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, for the tests that replay inputs.
pub const TARGETS: [Target; 9] = [
    ("document", document::run),
    ("structured", structured::run),
    ("tracker_session", tracker_session::run),
    ("diff_two_documents", diff_two_documents::run),
    ("not_before", not_before::run),
    ("notifications", notifications::run),
    ("snapshot", snapshot::run),
    ("profiles", profiles::run),
    ("c_abi", c_abi::run),
];
