//! The first process of a container, or of any other process namespace.
//!
//! It inherits all processes whose parents end, and must wait for each, or they stay as zombies. A
//! `run` or `watch` that is the first process therefore starts itself again as a child that does
//! the work, and only waits for processes and passes signals on. When it ends, the kernel ends all
//! others.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::platform;

/// Whether this process is the first one.
pub(crate) fn is_first() -> bool {
    std::process::id() == 1
}

/// Does the first process's work until the child ends. Returns the child's exit code, or 128 + N if
/// signal N ended it.
///
/// # Errors
/// The child cannot be started.
pub(crate) fn run() -> io::Result<u8> {
    let mut words = fs::read("/proc/self/cmdline")
        .map(|line| split(&line))
        .unwrap_or_default();
    if words.is_empty() {
        words = env::args_os().collect();
    }
    // Without /proc, the program is searched for by its name on the command line.
    let program = env::current_exe().map_or_else(|_| words[0].clone(), Into::into);
    let mut command = Command::new(program);
    // With its own name unchanged, which an interpreter needs to find its libraries.
    command.arg0(&words[0]).args(&words[1..]);
    platform::be_first_process(command)
}

/// The words of a command line as the kernel shows it.
fn split(line: &[u8]) -> Vec<OsString> {
    let line = line.strip_suffix(&[0]).unwrap_or(line);
    if line.is_empty() {
        return Vec::new();
    }
    line.split(|byte| *byte == 0)
        .map(|word| OsString::from_vec(word.to_vec()))
        .collect()
}
