//! Names the shared library for the dynamic linker of Linux, `libscheduled_events.so.0.1`, and gives the one for Windows its
//! version resource, which the properties of the file show.
//!
//! While the major version is 0 a minor version may break the ABI, so it is part of the name; from 1.0 on only the
//! major version is.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let (major, minor) = (
        variable("CARGO_PKG_VERSION_MAJOR"),
        variable("CARGO_PKG_VERSION_MINOR"),
    );
    let abi = if major == "0" {
        format!("0.{minor}")
    } else {
        major
    };
    match variable("CARGO_CFG_TARGET_OS").as_str() {
        "linux" => {
            println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libscheduled_events.so.{abi}");
        }
        "windows" if variable("CARGO_CFG_TARGET_ENV") == "gnu" => {
            if let Err(reason) = link_version() {
                println!("cargo::warning=the library gets no version resource: {reason}");
            }
        }
        _ => {}
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// Compiles a version resource, and links it.
fn link_version() -> Result<(), String> {
    let version = variable("CARGO_PKG_VERSION");
    let part = |name: &str| variable(&format!("CARGO_PKG_VERSION_{name}"));
    let numbers = format!("{},{},{},0", part("MAJOR"), part("MINOR"), part("PATCH"));
    // 0x40004 is Windows, 2 a library; 0x409 is English, 1200 Unicode.
    let source = format!(
        r#"1 VERSIONINFO
FILEVERSION {numbers}
PRODUCTVERSION {numbers}
FILEOS 0x40004
FILETYPE 2
BEGIN
  BLOCK "StringFileInfo"
  BEGIN
    BLOCK "040904B0"
    BEGIN
      VALUE "FileDescription", "Read, track and decide on Azure Scheduled Events"
      VALUE "FileVersion", "{version}"
      VALUE "LegalCopyright", "{license}"
      VALUE "OriginalFilename", "scheduled_events.dll"
      VALUE "ProductName", "scheduled-events"
      VALUE "ProductVersion", "{version}"
    END
  END
  BLOCK "VarFileInfo"
  BEGIN
    VALUE "Translation", 0x409, 1200
  END
END
"#,
        license = variable("CARGO_PKG_LICENSE"),
    );
    let folder = variable("OUT_DIR");
    let (text, object) = (
        Path::new(&folder).join("version.rc"),
        Path::new(&folder).join("version.o"),
    );
    fs::write(&text, source).map_err(|error| format!("{}: {error}", text.display()))?;
    let windres = format!("{}-w64-mingw32-windres", variable("CARGO_CFG_TARGET_ARCH"));
    let status = Command::new(&windres).arg(&text).arg(&object).status();
    match status.map_err(|error| format!("{windres}: {error}"))? {
        status if status.success() => {
            println!("cargo::rustc-cdylib-link-arg={}", object.display());
            Ok(())
        }
        status => Err(format!("{windres} ended with {status}")),
    }
}
