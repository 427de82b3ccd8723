//! The files that options name, and those that the program writes beside them: no two may be the
//! same.

use std::ffi::OsString;
use std::fs;
use std::path::{self, Path, PathBuf};

use crate::args::WatchArgs;
use crate::error::CommandError;
use scheduled_events::limits::AUDIT_FILES_MAX;

/// Checks that no two options imply the same file.
pub(crate) fn check_files(args: &WatchArgs) -> Result<(), CommandError> {
    let files = OwnFiles::default()
        .state(args.state.as_deref())
        .audit(args.audit.as_deref());
    files
        .config(args.config.config.as_deref())
        .policy(&args.policy.policy)
        .check()
}

/// The files of the options of one command.
#[derive(Default)]
pub(crate) struct OwnFiles {
    /// Each file with the option that implies it, and the option's own path.
    files: Vec<(PathBuf, &'static str, PathBuf)>,
}

impl OwnFiles {
    /// The file of `--state`, with its lock, what the watcher reports, and their temporary files beside it.
    pub(crate) fn state(self, path: Option<&Path>) -> Self {
        self.with(
            "--state",
            path,
            ["", ".lock", ".tmp", ".sight", ".sight.tmp"],
        )
    }

    /// The file of `--audit`, with its lock and its rotated files beside it.
    pub(crate) fn audit(self, path: Option<&Path>) -> Self {
        let numbered = (1..=AUDIT_FILES_MAX).map(|number| format!(".{number}"));
        self.with(
            "--audit",
            path,
            ["", ".lock"].map(str::to_owned).into_iter().chain(numbered),
        )
    }

    /// The file of `--lock`, and those that `run` keeps beside that of `--state`.
    #[cfg(unix)]
    pub(crate) fn run(self, lock: Option<&Path>, state: Option<&Path>) -> Self {
        self.with("--lock", lock, [""])
            .with("--state", state, [".phase", ".phase.tmp"])
    }

    /// The file of `--config`. It is only read, and a link to it is followed.
    pub(crate) fn config(self, config: Option<&Path>) -> Self {
        let file = config.and_then(|file| fs::canonicalize(file).ok());
        self.with("--config", file.as_deref(), [""])
    }

    /// The file of `--policy`, which may be the name of a preset. It is only read, and a link to it
    /// is followed.
    pub(crate) fn policy(self, policy: &str) -> Self {
        self.with("--policy", fs::canonicalize(policy).ok().as_deref(), [""])
    }

    fn with(
        mut self,
        option: &'static str,
        path: Option<&Path>,
        suffixes: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        let Some(path) = path else { return self };
        self.files.extend(suffixes.into_iter().map(|suffix| {
            let mut file = path.as_os_str().to_owned();
            file.push(suffix.into());
            (real(Path::new(&file)), option, path.to_owned())
        }));
        self
    }

    /// Checks that no file is implied twice.
    ///
    /// # Errors
    /// A usage error that names the file and both options.
    pub(crate) fn check(mut self) -> Result<(), CommandError> {
        self.files.sort();
        let Some([(file, one, path), (_, other, other_path)]) =
            // The policy may be in the configuration file.
            self.files
                .windows(2)
                .find(|pair| pair[0].0 == pair[1].0 && (pair[0].1, pair[1].1) != ("--config", "--policy"))
        else {
            return Ok(());
        };
        let (path, other_path) = (path.display(), other_path.display());
        let text = format!(
            "{one} {path} and {other} {other_path} both use the file {}",
            file.display()
        );
        Err(CommandError::usage(format!(
            "{text}; choose another path for one of them"
        )))
    }
}

/// The path with the real folder. The last name is kept: links of that name are not followed.
fn real(file: &Path) -> PathBuf {
    let file = path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = file
        .parent()
        .and_then(|folder| fs::canonicalize(folder).ok());
    let real = folder
        .zip(file.file_name())
        .map_or_else(|| file.clone(), |(folder, name)| folder.join(name));
    if cfg!(windows) {
        same_on_windows(&real)
    } else {
        real
    }
}

/// The path as Windows compares it, without case, and without dots and spaces at the end.
fn same_on_windows(file: &Path) -> PathBuf {
    file.to_string_lossy()
        .to_lowercase()
        .trim_end_matches(['.', ' '])
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(files: OwnFiles) -> Option<String> {
        files.check().err().map(|error| error.message)
    }

    #[test]
    fn files_of_different_options_are_compared_by_where_they_are() {
        let path = |text: &'static str| Some(Path::new(text));
        let both =
            |state, audit| refusal(OwnFiles::default().state(path(state)).audit(path(audit)));
        for (state, audit) in [
            ("a", "b"),
            ("a", "a.d"),
            ("a.1", "b"),
            ("a.5", "a"),
            ("missing/a", "missing/b"),
        ] {
            assert_eq!(both(state, audit), None, "{state} {audit}");
        }
        for (state, audit) in [
            ("a", "a"),
            ("a", "./a"),
            ("a", "src/../a"),
            ("a", "a.tmp"),
            ("a", "a.lock"),
            ("a.1", "a"),
            ("a.4", "a"),
            ("a.lock", "a"),
            ("missing/a", "missing/a"),
        ] {
            let text =
                both(state, audit).unwrap_or_else(|| panic!("{state} and {audit} were accepted"));
            assert!(
                text.contains(&format!("--audit {audit}"))
                    && text.contains(&format!("--state {state}")),
                "{text}"
            );
            assert!(
                text.ends_with("; choose another path for one of them"),
                "{text}"
            );
        }
        assert_eq!(
            refusal(
                OwnFiles::default()
                    .state(None)
                    .audit(path("a"))
                    .policy("observe")
            ),
            None
        );
        let policy = refusal(
            OwnFiles::default()
                .state(path("Cargo.toml"))
                .policy("Cargo.toml"),
        );
        assert!(policy.is_some_and(
            |text| text.starts_with("--policy ") && text.contains("--state Cargo.toml")
        ));
    }

    #[test]
    fn windows_ignores_case_and_dots_at_the_end() {
        assert_eq!(
            same_on_windows(Path::new("C:/X/State. ")),
            same_on_windows(Path::new("c:/x/STATE"))
        );
        let (state, audit) = (Some(Path::new("missing/a")), Some(Path::new("missing/A")));
        assert_eq!(
            refusal(OwnFiles::default().state(state).audit(audit)).is_some(),
            cfg!(windows)
        );
    }

    #[test]
    #[cfg(unix)]
    fn the_files_of_run_are_compared() {
        let check = |lock, state| {
            let (lock, state) = (Some(Path::new(lock)), Some(Path::new(state)));
            refusal(OwnFiles::default().state(state).run(lock, state))
        };
        assert_eq!(check("a", "b"), None);
        for lock in ["a", "a.lock", "a.phase", "a.phase.tmp", "a.tmp"] {
            assert!(
                check(lock, "a")
                    .is_some_and(|text| text.contains(&format!("--lock {lock} and --state a"))),
                "{lock}"
            );
        }
    }
}
