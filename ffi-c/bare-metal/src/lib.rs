//! The C library for a machine without an operating system: the modules of `ffi-c/src`, compiled without std.
//!
//! All functions of the header are here, and the linker keeps those that a program calls. Only `boundary.rs` differs:
//! without unwinding there is nothing to catch.

#![no_std]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
#![allow(clippy::missing_safety_doc, clippy::doc_markdown)]
#![allow(non_camel_case_types, clippy::enum_glob_use)]
// Some types are only for the header.
#![allow(dead_code)]

// The modules name `std::ffi`, all of which is in core.
extern crate core as std;

mod boundary;
#[macro_use]
#[path = "../../src/pointers.rs"]
mod pointers;
#[path = "../../src/approval.rs"]
mod approval;
#[path = "../../src/document.rs"]
mod document;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/event.rs"]
mod event;
#[path = "../../src/json.rs"]
mod json;
#[path = "../../src/member.rs"]
mod member;
#[path = "../../src/names.rs"]
mod names;
#[path = "../../src/policy.rs"]
mod policy;
#[path = "../../src/problem.rs"]
mod problem;
#[path = "../../src/record.rs"]
mod record;
#[path = "../../src/session.rs"]
mod session;
#[path = "../../src/snapshot.rs"]
mod snapshot;
#[path = "../../src/spot.rs"]
mod spot;
#[path = "../../src/status.rs"]
mod status;
#[path = "../../src/step.rs"]
mod step;
#[path = "../../src/struct_size.rs"]
mod struct_size;
#[path = "../../src/tagged.rs"]
mod tagged;
#[path = "../../src/terminate.rs"]
mod terminate;
#[path = "../../src/text.rs"]
mod text;
#[path = "../../src/time.rs"]
mod time;
#[path = "../../src/tracker.rs"]
mod tracker;
#[path = "../../src/version.rs"]
mod version;
#[path = "../../src/words.rs"]
mod words;

pub use version::*;

/// Panics if `index` is too large.
#[cfg(feature = "deliberate-panic")]
#[unsafe(no_mangle)]
pub extern "C" fn schedev_panic_on_purpose(index: usize) -> u8 {
    b"on purpose"[index]
}

/// Never called: no panic is reachable, and the linker drops this function from every program, which
/// `tests/c/bare_metal.py` checks.
#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
