//! Temporary files: a writer holds a lock on its own file, so that others can remove the files of
//! killed writers.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// Creates a file with this mode, which must not exist, and locks it. The lock ends with the
/// process, or when the file is closed.
///
/// # Errors
/// [`ErrorKind::WouldBlock`] if another process writes the same file. Others are those of the file
/// system.
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
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

    use super::*;

    /// Two processes write the same file, like two daemons with one `metrics_file`: each renames
    /// its own file, and a complete one.
    #[test]
    fn writers_of_one_file_do_not_remove_each_others() {
        const SIZE: usize = 20_000;
        let folder = tempfile::tempdir().expect("a folder");
        let (path, temporary) = (folder.path().join("file"), folder.path().join("file.tmp"));
        let write = |letter: u8| -> io::Result<()> {
            remove_left(&temporary)?;
            let mut file = create(&temporary, 0o600)?;
            for _ in 0..SIZE / 1000 {
                file.write_all(&[letter; 1000])?;
            }
            fs::rename(&temporary, &path)
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
                        let found = fs::read(path).unwrap_or_default();
                        let is_whole =
                            found.len() == SIZE && found.iter().all(|byte| *byte == found[0]);
                        assert!(
                            found.is_empty() && !path.exists() || is_whole,
                            "{} bytes",
                            found.len()
                        );
                    }
                });
            }
        });
        assert_eq!(fs::read(&path).expect("the file").len(), SIZE);
    }

    #[test]
    fn only_what_cannot_have_a_writer_is_removed_unopened() {
        let folder = tempfile::tempdir().expect("a folder");
        let (target, link, socket) = (
            folder.path().join("target"),
            folder.path().join("link"),
            folder.path().join("s"),
        );
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
    }
}
