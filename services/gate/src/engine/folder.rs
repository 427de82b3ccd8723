//! Registers in a folder, for tests and for machines that share one disk: a local file system, or NFS.
//!
//! A register is a folder of its own with one file per version: `.1`, `.2`, and so on; no key has
//! such a part. The highest number is the current version. A writer puts the new version into a
//! temporary file and gives it the next number with `link(2)`, which the file system carries out
//! atomically, or refuses if the number is taken, also over NFS. So exactly one of several writers
//! that replace one version succeeds. A version never changes. The last versions stay, so that a
//! late writer finds its number taken. With only one process they do not: a write that it gave up
//! and started again cannot become current, since its number is lower.
//!
//! What root adds, as an operator's command does, belongs to the owner of the folder that it is in:
//! the daemons have a user of their own.
//!
//! Limits: the engine is as available as the file system, and a mount that hangs is an engine that
//! does not answer. NFS must be version 4, or 3 mounted with `lookupcache=none`: with cached
//! directories a reader can see an old version for some seconds, which delays the gate, but never
//! breaks it. Object stores mounted as a folder do not have `link(2)`, and SMB may not. Every
//! machine needs the same user, or one that may write: each user with write access here takes part
//! in the decisions about approvals.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use super::clock::{Clock, StoreClock, StoreTime};
use super::{Aged, Engine, EngineError, Reply, Revision, Swap, VALUE_MAX, Versioned, damaged};
use scheduled_events::files::temporary;

/// How many versions are kept. A writer that is later than that cannot know whether its number was
/// free because it was next.
const VERSIONS_KEPT: u64 = 64;

/// How long the files of a deleted register stay.
const DELETED_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// After how many writes a writer looks for temporary files of others; it also does so at its first
/// write.
const WRITES_PER_CLEANING: u64 = 256;

/// A temporary file of this age that nobody has locked was left by a writer that was killed.
const TEMPORARY_KEPT: Duration = Duration::from_secs(60 * 60);

/// The prefix of temporary files' names. Numbers of the process, the write and the time follow.
const TEMPORARY: &str = ".new-";

/// The first bytes of every version. A version that contains nothing else marks a deleted register.
const HEADER: &[u8] = b"scheduled-events register\n";

/// Registers in a folder.
#[derive(Clone, Debug)]
pub struct FolderEngine {
    root: PathBuf,
    is_shared: bool,
    /// The clock of the file system: the time of a file that was just written.
    clock: Arc<StoreClock>,
}

impl FolderEngine {
    /// Registers below this folder, which must exist.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            is_shared: true,
            clock: Arc::default(),
        }
    }

    /// The same for registers that no other process writes, as a lock ensures: only the current
    /// version is kept, and nothing of a deleted register. Other processes may read them.
    pub fn of_one_process(root: &Path) -> Self {
        Self {
            is_shared: false,
            ..Self::new(root)
        }
    }

    /// The file system's time, once something was written.
    fn now(&self) -> Option<StoreTime> {
        self.clock.now().map(|clock| clock.now)
    }

    /// Runs a call on a thread that may block: the file system may be remote.
    fn run<'a, T: Send + 'static>(
        &self,
        what: &'static str,
        key: &str,
        call: impl FnOnce(&Path, &Path) -> io::Result<T> + Send + 'static,
    ) -> Reply<'a, T> {
        let (root, folder) = (self.root.clone(), self.root.join(key));
        Box::pin(async move {
            let name = folder.display().to_string();
            let call = move || {
                // Below a root that does not exist, such as an unmounted one, the store would seem
                // to be empty.
                if fs::metadata(&root).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
                    let root = root.display();
                    return Err(io::Error::other(format!(
                        "the folder {root} does not exist: is it mounted?"
                    )));
                }
                call(&root, &folder)
            };
            let done = tokio::task::spawn_blocking(call).await;
            let done = done.unwrap_or_else(|panic| Err(io::Error::other(panic)));
            done.map_err(|error| EngineError(format!("cannot {what} {name}: {error}")))
        })
    }
}

impl Engine for FolderEngine {
    fn read<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Versioned>> {
        self.run("read", key, |_, folder| {
            Ok(current(folder)?.and_then(Version::into_register))
        })
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Revision>,
        value: &'a str,
    ) -> Reply<'a, Swap> {
        let (expected, value, clock) = (expected.cloned(), value.to_owned(), self.clock.clone());
        let kept = if self.is_shared { VERSIONS_KEPT } else { 1 };
        self.run("write", key, move |root, folder| {
            make_folder(root, folder)?;
            let found = current(folder)?;
            let number = found.as_ref().map_or(0, |version| version.number);
            if found
                .and_then(Version::into_register)
                .map(|register| register.revision)
                != expected
            {
                return Ok(Swap::Conflict);
            }
            add_version(root, folder, number + 1, &value, kept, &clock)
        })
    }

    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> Reply<'a, bool> {
        let (expected, is_shared, clock) = (expected.clone(), self.is_shared, self.clock.clone());
        self.run("delete", key, move |root, folder| {
            let Some(version) = current(folder)? else {
                return Ok(false);
            };
            let number = version.number;
            if version.into_register().map(|register| register.revision) != Some(expected) {
                return Ok(false);
            }
            if !is_shared {
                return remove_versions(folder, number).map(|()| true);
            }
            Ok(add_version(root, folder, number + 1, "", VERSIONS_KEPT, &clock)? != Swap::Conflict)
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<(String, Versioned)>> {
        let (prefix_text, now) = (prefix.to_owned(), self.now());
        self.run("list", prefix.trim_end_matches('/'), move |_, folder| {
            Ok(registers(folder, &prefix_text, now)?
                .into_iter()
                .map(|aged| (aged.key, aged.register))
                .collect())
        })
    }

    fn clock(&self) -> Option<Clock> {
        self.clock.now()
    }

    fn list_aged<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<Aged>> {
        let (prefix_text, now, clock) = (prefix.to_owned(), self.now(), self.clock.clone());
        self.run("list", prefix.trim_end_matches('/'), move |root, folder| {
            let found = registers(folder, &prefix_text, now)?;
            let (touched, file) = temporary_file(root)?;
            let time = file.metadata().and_then(|metadata| metadata.modified());
            let _ = fs::remove_file(&touched);
            clock.saw(time?.into());
            Ok(found)
        })
    }
}

/// A version of a register, as its file contains it.
struct Version {
    number: u64,
    value: String,
    written: SystemTime,
}

impl Version {
    /// The register with this version; `None` if it was deleted.
    fn into_register(self) -> Option<Versioned> {
        let revision = Revision(self.number.to_string());
        (!self.value.is_empty()).then_some(Versioned {
            value: self.value,
            revision,
        })
    }
}

/// The numbers of the versions.
fn numbers(folder: &Path) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix('.'));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    Ok(numbers)
}

fn version_file(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!(".{number}"))
}

/// Removes the temporary files of writers that were killed. `now` is the file system's time. A
/// running writer has locked its own; on a file system without locks, a writer that hangs for an
/// hour finds its file missing, and fails.
fn remove_temporary(root: &Path, now: SystemTime) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let numbers = name.to_str().and_then(|name| name.strip_prefix(TEMPORARY));
        let is_temporary = numbers.is_some_and(|numbers| {
            numbers.split('-').count() == 3 && numbers.split('-').all(is_number)
        });
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified
            .ok()
            .and_then(|modified| now.duration_since(modified).ok());
        if is_temporary && age.is_some_and(|age| age > TEMPORARY_KEPT) {
            // Another machine may do the same.
            let _ = temporary::remove_left(&entry.path());
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The current version.
fn current(folder: &Path) -> io::Result<Option<Version>> {
    // A version can be removed between listing and opening, but only after many newer ones were
    // written.
    for _ in 0..100 {
        let Some(number) = numbers(folder)?.into_iter().max() else {
            return Ok(None);
        };
        let file = version_file(folder, number);
        match File::open(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(file) => {
                let (mut bytes, written) = (Vec::new(), file.metadata()?.modified()?);
                file.take((HEADER.len() + VALUE_MAX + 1) as u64)
                    .read_to_end(&mut bytes)?;
                let value = bytes
                    .strip_prefix(HEADER)
                    .filter(|value| value.len() <= VALUE_MAX);
                let value = value.and_then(|value| std::str::from_utf8(value).ok());
                let value = value.map_or_else(
                    || damaged("not a version of a register", &bytes),
                    str::to_owned,
                );
                return Ok(Some(Version {
                    number,
                    value,
                    written,
                }));
            }
        }
    }
    Err(io::Error::other(
        "the register changes faster than it can be read",
    ))
}

/// The value of a register that this user may not read.
fn not_permitted(error: &io::Error, path: &Path) -> String {
    damaged(&error.to_string(), path.as_os_str().as_encoded_bytes())
}

/// Makes the folder of a register, and those above it.
fn make_folder(root: &Path, folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    // Each below an open one: whatever the owner of the store puts in its place meanwhile, root
    // gives away only what it has made.
    let mut above = File::open(root)?;
    for name in folder.strip_prefix(root).unwrap_or(folder) {
        let is_new = match mkdirat(&above, name, Mode::RWXU) {
            Err(Errno::EXIST) => false,
            made => made.map(|()| true)?,
        };
        let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        flags.set(OFlags::NOFOLLOW, is_new);
        let below = File::from(openat(&above, name, flags, Mode::empty())?);
        if is_new && let Err(error) = hand_over(&below, &above) {
            let _ = unlinkat(&above, name, AtFlags::REMOVEDIR);
            return Err(error);
        }
        above = below;
    }
    Ok(())
}

/// Gives what root has made to the owner of the folder that it is in.
fn hand_over(made: &File, folder: &File) -> io::Result<()> {
    let owner = folder.metadata()?;
    if made.metadata()?.uid() != 0 || owner.uid() == 0 {
        return Ok(());
    }
    fchown(made, Some(owner.uid()), Some(owner.gid())).map_err(|error| {
        let uid = owner.uid();
        io::Error::new(
            error.kind(),
            format!("root cannot give it to the user {uid}, whose folder it is: {error}; run this as that user"),
        )
    })
}

/// A new file that no other writer has, and its path.
fn temporary_file(root: &Path) -> io::Result<(PathBuf, File)> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    let temporary = root.join(format!("{TEMPORARY}{}-{count}-{since}", std::process::id()));
    let file = temporary::create(&temporary)?;
    // Once in some writes, since it lists the folder.
    if count.is_multiple_of(WRITES_PER_CLEANING) {
        remove_temporary(root, file.metadata()?.modified()?);
    }
    Ok((temporary, file))
}

/// Adds a version with this number, if it is free, and removes old ones; this many are kept.
fn add_version(
    root: &Path,
    folder: &Path,
    number: u64,
    value: &str,
    kept: u64,
    clock: &StoreClock,
) -> io::Result<Swap> {
    let (temporary, mut file) = temporary_file(root)?;
    let result = (|| {
        let folder_file = File::open(folder)?;
        hand_over(&file, &folder_file)?;
        file.write_all(HEADER)?;
        file.write_all(value.as_bytes())?;
        file.sync_all()?;
        clock.saw(file.metadata()?.modified()?.into());
        match fs::hard_link(&temporary, version_file(folder, number)) {
            // Over NFS the reply to a successful link can be lost, and the repeated request fails.
            // The link count shows that the first one succeeded.
            Err(error)
                if error.kind() == ErrorKind::AlreadyExists
                    && fs::metadata(&temporary)?.nlink() < 2 =>
            {
                return Ok(Swap::Conflict);
            }
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        folder_file.sync_all()?;
        let numbers = numbers(folder)?;
        let newest = numbers.iter().copied().max().unwrap_or(number);
        if newest >= number + kept {
            return Err(io::Error::other(
                "other machines wrote too often meanwhile to see what became of this write",
            ));
        }
        for old in numbers.into_iter().filter(|old| old + kept <= number) {
            let _ = fs::remove_file(version_file(folder, old));
        }
        Ok(Swap::Done(Revision(number.to_string())))
    })();
    let _ = fs::remove_file(&temporary);
    result
}

/// The registers below a folder, in the order of their keys.
fn registers(folder: &Path, prefix: &str, now: Option<StoreTime>) -> io::Result<Vec<Aged>> {
    let mut found = Vec::new();
    list_below(folder, prefix, now, &mut found)?;
    found.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(found)
}

/// Adds the registers below a folder to `found`. `key` is the folder's, with `/` at the end.
fn list_below(
    folder: &Path,
    key: &str,
    now: Option<StoreTime>,
    found: &mut Vec<Aged>,
) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if name.starts_with('.') || !entry.file_type()?.is_dir() {
            continue;
        }
        let (below, key, below_key) = (
            entry.path(),
            format!("{key}{name}"),
            format!("{key}{name}/"),
        );
        let version = match current(&below) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let register = Versioned {
                    value: not_permitted(&error, &below),
                    revision: Revision(String::new()),
                };
                found.push(Aged {
                    key,
                    register,
                    written: None,
                });
                continue;
            }
            version => version?,
        };
        match version {
            Some(version) if version.value.is_empty() => remove_deleted(&below, &version, now),
            Some(version) => {
                let written = Some(version.written.into());
                found.extend(version.into_register().map(|register| Aged {
                    key,
                    register,
                    written,
                }));
            }
            None => {}
        }
        list_below(&below, &below_key, now, found)?;
    }
    Ok(())
}

/// Removes a register that was deleted long ago. `now` is the file system's time.
fn remove_deleted(folder: &Path, deleted: &Version, now: Option<StoreTime>) {
    let age = now.and_then(|now| now.since(deleted.written.into()));
    if age.is_some_and(|age| age > DELETED_KEPT) {
        let _ = remove_versions(folder, deleted.number);
    }
}

/// Removes a register with all versions up to this one, but none that were added since.
fn remove_versions(folder: &Path, last: u64) -> io::Result<()> {
    let mut versions = numbers(folder)?;
    // Another machine has removed them since, and the numbers may be those of a register that was
    // written after that.
    if !versions.contains(&last) {
        return Ok(());
    }
    // The current version goes last, so that no older one becomes current.
    versions.sort_unstable();
    for version in versions.into_iter().filter(|found| *found <= last) {
        // Another machine may do the same.
        match fs::remove_file(version_file(folder, version)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    // It stays while there are registers below it.
    let _ = fs::remove_dir(folder);
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use rustix::process::{Uid, geteuid};
    use rustix::thread::set_thread_res_uid;

    use super::*;

    /// Runs the work in a thread of a user who is not root. As root, prepares it for the user with this
    /// number first.
    pub(crate) fn as_another_user<T: Send + 'static>(
        prepare: impl FnOnce(u32) + Send + 'static,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let run = move || {
            if geteuid().is_root() {
                let nobody = Uid::from_raw(65_534);
                prepare(nobody.as_raw());
                set_thread_res_uid(nobody, nobody, nobody).expect("changed");
            }
            work()
        };
        std::thread::spawn(run).join().expect("no panic")
    }

    #[tokio::test]
    async fn a_register_that_was_deleted_leaves_after_a_day_by_the_clock_of_the_file_system() {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = FolderEngine::new(folder.path());
        let Ok(Swap::Done(revision)) = engine.swap("groups/a", None, "a").await else {
            panic!("it is written")
        };
        assert_eq!(engine.delete("groups/a", &revision).await, Ok(true));
        let register = folder.path().join("groups/a");
        let (now, hour) = (SystemTime::now(), Duration::from_secs(3600));
        File::options()
            .write(true)
            .open(register.join(".2"))
            .and_then(|file| file.set_modified(now - 25 * hour))
            .expect("a time");
        // The clock of this machine is a day ahead, and the clock of the next process is not known
        // yet.
        engine.clock.saw((now - 24 * hour).into());
        for engine in [&engine, &FolderEngine::new(folder.path())] {
            assert_eq!(engine.list("groups/").await, Ok(Vec::new()));
            assert!(register.exists());
        }
        engine.clock.saw(now.into());
        assert_eq!(engine.list("groups/").await, Ok(Vec::new()));
        assert!(!register.exists());
    }

    /// Two machines check at the same time, and the register is written again after the first one
    /// has removed it.
    #[tokio::test]
    async fn a_register_that_is_written_again_while_it_leaves_stays() {
        let root = tempfile::tempdir().expect("a folder");
        let engine = FolderEngine::new(root.path());
        let Ok(Swap::Done(revision)) = engine.swap("groups/a", None, "a").await else {
            panic!("it is written")
        };
        assert_eq!(engine.delete("groups/a", &revision).await, Ok(true));
        let folder = root.path().join("groups/a");
        let deleted = current(&folder).expect("read").expect("a version").number;
        remove_versions(&folder, deleted).expect("removed");
        assert!(!folder.exists());
        assert!(matches!(
            engine.swap("groups/a", None, "b").await,
            Ok(Swap::Done(_))
        ));
        remove_versions(&folder, deleted).expect("nothing to remove");
        assert_eq!(
            engine
                .read("groups/a")
                .await
                .map(|found| found.map(|found| found.value)),
            Ok(Some("b".into()))
        );
    }

    /// An operator's command runs as root, and the daemons have a user of their own.
    #[tokio::test]
    async fn what_root_writes_belongs_to_the_owner_of_the_folder() {
        const NOBODY: u32 = 65_534;
        if !geteuid().is_root() {
            return scheduled_events_test_support::not_run("only root can give a file away");
        }
        let root = tempfile::tempdir().expect("a folder");
        let engine = FolderEngine::new(root.path());
        // A store of root stays its own.
        let Ok(Swap::Done(_)) = engine.swap("events/a", None, "a").await else {
            panic!("it is written")
        };
        let uid = |path: &str| fs::metadata(root.path().join(path)).expect("found").uid();
        assert_eq!([uid("events"), uid("events/a"), uid("events/a/.1")], [0; 3]);
        chown(root.path(), Some(NOBODY), None).expect("changed");
        let Ok(Swap::Done(revision)) = engine.swap("groups/a", None, "a").await else {
            panic!("it is written")
        };
        assert_eq!(engine.delete("groups/a", &revision).await, Ok(true));
        let made = ["groups", "groups/a", "groups/a/.1", "groups/a/.2"];
        assert_eq!(made.map(uid), [NOBODY; 4]);
    }

    #[tokio::test]
    async fn a_register_that_this_user_may_not_read_holds_up_no_other() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().to_owned();
        let engine = FolderEngine::new(&path);
        for key in ["groups/a", "groups/b", "groups/c"] {
            assert!(matches!(
                engine.swap(key, None, key).await,
                Ok(Swap::Done(_))
            ));
        }
        let close = |path: &str| {
            let mode = PermissionsExt::from_mode(0o000);
            fs::set_permissions(root.path().join(path), mode).expect("changed");
        };
        close("groups/a/.1");
        close("groups/b");
        let root_path = path.clone();
        let own = move |user| {
            for folder in ["", "groups", "groups/a", "groups/c", "groups/c/.1"] {
                chown(root_path.join(folder), Some(user), None).expect("changed");
            }
        };
        let (found, read) = as_another_user(own, move || {
            let found = registers(&path.join("groups"), "groups/", None);
            (found.expect("a list"), current(&path.join("groups/a")))
        });
        // It has a value, which nobody may take for a damaged one and overwrite.
        let error = read.map(|_| ()).expect_err("it may not be read");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        let shown = |index: usize| {
            let Aged { key, register, .. } = &found[index];
            (key.as_str(), register.value.as_str())
        };
        for (index, key) in ["groups/a", "groups/b"].into_iter().enumerate() {
            let (found, value) = shown(index);
            assert_eq!(found, key);
            assert!(value.starts_with("Permission denied"), "{value}");
        }
        assert_eq!(shown(2), ("groups/c", "groups/c"));
        fs::set_permissions(
            root.path().join("groups/b"),
            PermissionsExt::from_mode(0o700),
        )
        .expect("changed");
    }

    #[test]
    fn only_temporary_files_of_killed_writers_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let now = SystemTime::now();
        let old = now - TEMPORARY_KEPT - Duration::from_secs(1);
        let file = |name: &str, modified: SystemTime| {
            let file = temporary::create(&folder.path().join(name)).expect("created");
            file.set_modified(modified).expect("a time");
            file
        };
        drop(file(".new-1-0-1", old));
        let writer = file(".new-2-0-1", old);
        drop(file(".new-3-0-1", now));
        drop(file(".new-notes", old));
        drop(file(".new-4-0-", old));
        let exist = || {
            [
                ".new-1-0-1",
                ".new-2-0-1",
                ".new-3-0-1",
                ".new-notes",
                ".new-4-0-",
            ]
            .map(|name| folder.path().join(name).exists())
        };
        remove_temporary(folder.path(), now);
        assert_eq!(exist(), [false, true, true, true, true]);
        drop(writer);
        remove_temporary(folder.path(), now);
        assert_eq!(exist(), [false, false, true, true, true]);
    }

    #[test]
    fn what_one_process_writes_leaves_nothing_that_nobody_needs() {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = FolderEngine::of_one_process(folder.path());
        let files = || fs::read_dir(folder.path().join("hub/a")).map_or(0, Iterator::count);
        let done = scheduled_events_common::program::block_on(async {
            let mut revision = None;
            for value in ["1", "2", "3"] {
                let written = engine
                    .swap("hub/a", revision.as_ref(), value)
                    .await
                    .expect("an answer");
                let Swap::Done(new) = written else {
                    panic!("{written:?}")
                };
                assert_eq!(files(), 1);
                assert_eq!(
                    engine
                        .swap("hub/a", revision.replace(new).as_ref(), "x")
                        .await,
                    Ok(Swap::Conflict)
                );
            }
            let revision = revision.expect("a revision");
            // An older version exists, as after a crash.
            fs::write(folder.path().join("hub/a/.1"), "old").expect("written");
            assert_eq!(
                engine.delete("hub/a", &Revision("1".into())).await,
                Ok(false)
            );
            assert_eq!(engine.delete("hub/a", &revision).await, Ok(true));
            assert_eq!(engine.read("hub/a").await, Ok(None));
            assert!(!folder.path().join("hub/a").exists());
            assert!(matches!(
                engine.swap("hub/a", None, "4").await,
                Ok(Swap::Done(_))
            ));
        });
        done.unwrap_or_else(|failure| panic!("{}", failure.message));
    }
}
