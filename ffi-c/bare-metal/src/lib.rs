//! The C library for a machine without an operating system: the modules of `ffi-c/src`, compiled without std.
//!
//! All functions of the header are here, and the linker keeps those that a program calls. Only `boundary.rs` differs:
//! without unwinding there is nothing to catch.

#![cfg_attr(panic = "abort", no_std)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
#![allow(clippy::missing_safety_doc, clippy::doc_markdown)]
#![allow(non_camel_case_types, clippy::enum_glob_use)]
// Some types are only for the header.
#![allow(dead_code)]

// The modules name `std::ffi`, all of which is in core.
#[cfg(panic = "abort")]
extern crate core as std;

mod boundary;
#[macro_use]
#[path = "../../src/abi/mod.rs"]
mod abi;
#[path = "../../src/approval.rs"]
mod approval;
#[path = "../../src/document/mod.rs"]
mod document;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/json.rs"]
mod json;
#[path = "../../src/names.rs"]
mod names;
#[path = "../../src/notification.rs"]
mod notification;
#[path = "../../src/policy.rs"]
mod policy;
#[path = "../../src/record.rs"]
mod record;
#[path = "../../src/session/mod.rs"]
mod session;
#[path = "../../src/spot.rs"]
mod spot;
#[path = "../../src/status.rs"]
mod status;
#[path = "../../src/terminate.rs"]
mod terminate;
#[path = "../../src/text.rs"]
mod text;
#[path = "../../src/time.rs"]
mod time;
#[path = "../../src/tracker.rs"]
mod tracker;
#[path = "../../src/words.rs"]
mod words;

pub use abi::version::*;

/// Panics if `index` is too large.
#[cfg(feature = "deliberate-panic")]
#[unsafe(no_mangle)]
pub extern "C" fn schedev_panic_on_purpose(index: usize) -> u8 {
    b"on purpose"[index]
}

/// Never called: no panic is reachable, and the linker drops this function from every program, which
/// `tests/c/bare_metal.py` checks.
#[cfg(panic = "abort")]
#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
