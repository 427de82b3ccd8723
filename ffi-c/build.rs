//! Gives the shared library its name for the dynamic linker: `libscheduled_events.so.0.1`.
//!
//! While the major version is 0 a minor version may break the ABI, so it is part of the name; from 1.0 on only the
//! major version is.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let part = |name: &str| env::var(name).unwrap_or_default();
    let (major, minor) = (part("CARGO_PKG_VERSION_MAJOR"), part("CARGO_PKG_VERSION_MINOR"));
    let abi = if major == "0" { format!("0.{minor}") } else { major };
    if part("CARGO_CFG_TARGET_OS") == "linux" {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libscheduled_events.so.{abi}");
    }
}
