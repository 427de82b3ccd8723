//! Temporary files: a writer holds a lock on its own file, so that others can remove the files of
//! killed writers. Only on Unix.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// Replaces the file at `path` by a private one, which `write` writes under the name `new` in the
/// same folder. After an error the old file is unchanged.
///
/// # Errors
/// [`ErrorKind::WouldBlock`] if another process writes `new`. Others are those of the file system,
/// and of `write`.
///
/// ```
/// use std::io::Write;
///
/// use scheduled_events::files::temporary::replace;
///
/// # let folder = std::env::temp_dir().join(format!("temporary-replace-example-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let (path, new) = (folder.join("numbers"), folder.join("numbers.new"));
/// replace(&path, &new, |mut file| file.write_all(b"1 2 3"))?;
/// assert!(replace(&path, &new, |_| Err(std::io::ErrorKind::StorageFull.into())).is_err());
/// assert!(std::fs::read(&path)? == b"1 2 3" && !new.exists());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn replace(
    path: &Path,
    new: &Path,
    write: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    // An earlier process left it, or somebody else created a link.
    remove_left(new)?;
    // It stays locked until it has its name.
    let file = create(new)?;
    write(&file)
        .and_then(|()| fs::rename(new, path))
        .inspect_err(|_| drop(fs::remove_file(new)))
}

/// Creates a private file, which must not exist, and locks it. The lock ends with the process, or
/// when the file is closed.
///
/// # Errors
/// [`ErrorKind::WouldBlock`] if another process writes the same file. Others are those of the file
/// system.
///
/// ```
/// use scheduled_events::files::temporary::{create, remove_left};
///
/// # let path = std::env::temp_dir().join(format!("temporary-create-example-{}", std::process::id()));
/// let writer = create(&path)?;
/// assert_eq!(remove_left(&path).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
/// drop(writer); // or its process is killed
/// remove_left(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    let file = file.map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            is_written(path)
        } else {
            error
        }
    })?;
    // On a file system without locks, only the age shows that a writer is gone.
    let is_taken = flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
    // Between the two calls another process can have removed it as an abandoned file.
    if is_taken || !names(path, &file)? {
        Err(is_written(path))
    } else {
        Ok(file)
    }
}

/// Removes the file of a writer that has ended, or a link or a socket in its place.
///
/// # Errors
/// [`ErrorKind::WouldBlock`] if its writer still runs. Others are those of the file system; the
/// file stays then, since its writer may still run.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("temporary-left-example-{}", std::process::id()));
/// std::fs::write(&path, "half")?;
/// scheduled_events::files::temporary::remove_left(&path)?;
/// assert!(!path.exists());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn remove_left(path: &Path) -> io::Result<()> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let open = |write| {
        OpenOptions::new()
            .read(true)
            .write(write)
            .custom_flags(flags)
            .open(path)
    };
    // NFS grants an exclusive lock only for a file that is open for writing, which another user's
    // may not be.
    match open(true).or_else(|_| open(false)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if !is_no_file(&error) => Err(error),
        Err(_) => remove(path),
        // Between the two calls another process can have removed it, and created another one.
        Ok(file) => {
            let is_taken =
                flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
            // As long as this process has locked it, the path names this file.
            if is_taken || !names(path, &file)? {
                Err(is_written(path))
            } else {
                remove(path)
            }
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether the path names this open file.
fn names(path: &Path, file: &File) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_written(path: &Path) -> io::Error {
    io::Error::new(
        ErrorKind::WouldBlock,
        format!("another process writes {}", path.display()),
    )
}

/// Whether opening failed because of a link or a socket.
fn is_no_file(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::LOOP | Errno::NXIO))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::PathBuf;

    use super::*;
    use crate::files::replace_readable;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("temporary-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn a_readable_file_is_replaced_unless_another_process_writes_it() {
        let folder = folder("readable");
        let path = folder.join("fleet.prom");
        let temporary = folder.join("fleet.prom.new");
        let precious = folder.join("precious");
        fs::write(&precious, "kept").expect("written");
        std::os::unix::fs::symlink(&precious, &temporary).expect("a link");
        replace_readable(&path, b"up 1\n").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("the file"), "up 1\n");
        assert_eq!(fs::metadata(&path).expect("the file").mode() & 0o777, 0o644);
        assert_eq!(fs::read_to_string(&precious).expect("the file"), "kept");
        // The temporary file of a killed process is removed, but not that of one that still writes.
        fs::write(&temporary, "half").expect("written");
        replace_readable(&path, b"up 0\n").expect("written");
        assert!(!temporary.exists());
        let writer = create(&temporary).expect("a writer");
        assert_eq!(
            replace_readable(&path, b"up 1\n")
                .expect_err("it is refused")
                .kind(),
            ErrorKind::WouldBlock
        );
        assert!(temporary.exists());
        drop(writer);
        replace_readable(&path, b"up 1\n").expect("written");
        // A failure leaves none either.
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("a folder");
        assert!(replace_readable(&path, b"up 1\n").is_err() && !temporary.exists());
        fs::remove_dir_all(&folder).expect("removed");
    }

    /// Two processes write the same file, like two daemons with one `metrics_file`: each renames
    /// its own file, and a complete one.
    #[test]
    fn writers_of_one_file_do_not_remove_each_others() {
        const SIZE: usize = 20_000;
        let folder = folder("writers");
        let (path, temporary) = (folder.join("file"), folder.join("file.tmp"));
        let write = |letter: u8| {
            replace(&path, &temporary, |mut file| {
                (0..SIZE / 1000).try_for_each(|_| file.write_all(&[letter; 1000]))
            })
        };
        std::thread::scope(|scope| {
            for letter in *b"abcd" {
                let (write, path) = (&write, &path);
                scope.spawn(move || {
                    for _ in 0..500 {
                        match write(letter) {
                            Err(error)
                                if [ErrorKind::WouldBlock, ErrorKind::AlreadyExists]
                                    .contains(&error.kind()) => {}
                            result => result.expect("written"),
                        }
                        match fs::read(path) {
                            Ok(found) => assert!(
                                found.len() == SIZE && found.iter().all(|byte| *byte == found[0]),
                                "{} bytes",
                                found.len()
                            ),
                            // Another thread may write the first one now.
                            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
                        }
                    }
                });
            }
        });
        assert_eq!(fs::read(&path).expect("the file").len(), SIZE);
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn only_what_cannot_have_a_writer_is_removed_unopened() {
        let folder = folder("unopened");
        let (target, link, socket) = (folder.join("target"), folder.join("link"), folder.join("s"));
        fs::write(&target, "kept").expect("written");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        let listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        for path in [&link, &socket] {
            remove_left(path).expect("removed");
            assert!(fs::symlink_metadata(path).is_err(), "{}", path.display());
        }
        drop(listener);
        assert_eq!(fs::read_to_string(&target).expect("the file"), "kept");
        for errno in [
            Errno::MFILE,
            Errno::NFILE,
            Errno::ACCESS,
            Errno::IO,
            Errno::NOMEM,
        ] {
            assert!(!is_no_file(&errno.into()), "{errno}: its writer may live");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }
}
