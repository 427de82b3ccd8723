//! Temporary files: a writer holds a lock on its own, so that others can remove those that killed writers left.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// Creates a file with this mode, which must not exist, and locks it. The lock ends with the process, or when the file is closed.
pub(crate) fn create(path: &Path, mode: u32) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    // A file system without locks is one on which only the age shows that a writer is gone.
    let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
    Ok(file)
}

/// Removes the file of a writer that has ended, or a link or a socket in its place.
///
/// # Errors
/// [`ErrorKind::WouldBlock`]: its writer lives. Others are those of the file system; the file is kept then, since its writer may live.
pub(crate) fn remove_left(path: &Path) -> io::Result<()> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let open = |write| OpenOptions::new().read(true).write(write).custom_flags(flags).open(path);
    // NFS grants an exclusive lock only for a file that is open for writing, which another user's may not be.
    match open(true).or_else(|_| open(false)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if !is_no_file(&error) => return Err(error),
        Ok(file) if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) => {
            return Err(io::Error::new(ErrorKind::WouldBlock, format!("another process writes {}", path.display())));
        }
        Ok(_) | Err(_) => {}
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether opening failed because of a link or a socket.
fn is_no_file(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::LOOP | Errno::NXIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_have_a_writer_is_removed_unopened() {
        let folder = tempfile::tempdir().expect("a folder");
        let (target, link, socket) =
            (folder.path().join("target"), folder.path().join("link"), folder.path().join("s"));
        fs::write(&target, "kept").expect("written");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        let listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        for path in [&link, &socket] {
            remove_left(path).expect("removed");
            assert!(fs::symlink_metadata(path).is_err(), "{}", path.display());
        }
        drop(listener);
        assert_eq!(fs::read_to_string(&target).expect("the file"), "kept");
        for errno in [Errno::MFILE, Errno::NFILE, Errno::ACCESS, Errno::IO, Errno::NOMEM] {
            assert!(!is_no_file(&errno.into()), "{errno}: its writer may live");
        }
    }
}
