//! The words of a command line, and the program that the first one names.
//!
//! On Unix, words are those of a shell. On Windows a backslash is part of a path and nothing else, a program is found by the
//! extensions of `PATHEXT`, and commands for `cmd.exe` do not get all variables.

#[cfg(any(windows, test))]
mod windows;

/// Splits a command line into words.
///
/// # Errors
/// A quote is not closed.
#[cfg(not(windows))]
pub(super) fn split(text: &str) -> Result<Vec<String>, UnclosedQuote> {
    shell_words::split(text).map_err(|_| UnclosedQuote)
}

/// A text that `split` splits into these words.
#[cfg(not(windows))]
pub(super) fn join(words: &[String]) -> String {
    shell_words::join(words)
}

#[cfg(not(windows))]
pub(super) use unix::{candidates, find_program, program_exists, reads_commands, takes_variable};
#[cfg(windows)]
pub(super) use windows::{
    candidates, find_program, join, program_exists, reads_commands, split, takes_variable,
};

/// A quote is not closed.
pub(super) struct UnclosedQuote;

#[cfg(not(windows))]
mod unix {
    use std::env;
    use std::ffi::OsStr;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};

    /// The program to start: the system finds it.
    #[allow(clippy::unnecessary_wraps)] // As on Windows.
    pub(in crate::hooks) fn find_program(program: &str) -> Option<&OsStr> {
        Some(program.as_ref())
    }

    /// Whether the program exists and somebody may execute it.
    pub(in crate::hooks) fn program_exists(program: &str) -> bool {
        let candidates = candidates(program);
        candidates.iter().any(|candidate| is_executable(candidate))
    }

    /// Where the system looks: a name with a folder is a path, any other one is searched for.
    pub(in crate::hooks) fn candidates(program: &str) -> Vec<PathBuf> {
        let program = Path::new(program);
        if program.components().count() > 1 || program.has_root() {
            return vec![program.to_owned()];
        }
        let folders = env::var_os("PATH").unwrap_or_default();
        let folders = env::split_paths(&folders);
        folders.map(|folder| folder.join(program)).collect()
    }

    fn is_executable(path: &Path) -> bool {
        path.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    }

    /// Whether a program gets this variable: nothing expands it on the way.
    pub(in crate::hooks) fn takes_variable(_program: &OsStr, _name: &str, _value: &str) -> bool {
        true
    }

    /// Whether a program runs its standard input. A shell does, and an operator who names one without a script wants that.
    pub(in crate::hooks) fn reads_commands(_words: &[String]) -> bool {
        false
    }
}
