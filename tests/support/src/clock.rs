//! Commands whose wall clock a test sets, with libfaketime. Their other clocks are left alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lets the file control the command's wall clock: it has a number of seconds with a sign, by which the clock is off.
///
/// # Panics
/// When libfaketime is not installed.
pub fn control_wall_clock(command: &mut Command, file: &Path) {
    let library = ["/usr/lib", "/usr/lib64", "/usr/local/lib"]
        .iter()
        .find_map(|folder| {
            let direct = PathBuf::from(folder).join("faketime/libfaketime.so.1");
            let architectures = fs::read_dir(folder).into_iter().flatten().flatten();
            let below = architectures.map(|entry| entry.path().join("faketime/libfaketime.so.1"));
            std::iter::once(direct)
                .chain(below)
                .find(|path| path.exists())
        });
    let library = library
        .expect("libfaketime is not installed: run `make setup`, or install the package faketime");
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", file);
    command
        .env("FAKETIME_NO_CACHE", "1")
        .env("DONT_FAKE_MONOTONIC", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
}
