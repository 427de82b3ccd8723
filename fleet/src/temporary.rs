//! Temporary files: a writer holds a lock on its own, so that others can remove those that killed writers left.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};

/// Creates a file with this mode, which must not exist, and locks it. The lock ends with the process, or when the file is closed.
pub(crate) fn create(path: &Path, mode: u32) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    // A file system without locks is one on which only the age shows that a writer is gone.
    let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
    Ok(file)
}

/// Removes the file of a writer that has ended, or a link in its place.
///
/// # Errors
/// [`ErrorKind::WouldBlock`]: its writer lives. Others are those of the file system.
pub(crate) fn remove_left(path: &Path) -> io::Result<()> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let open = |write| OpenOptions::new().read(true).write(write).custom_flags(flags).open(path);
    // NFS grants an exclusive lock only for a file that is open for writing, which another user's may not be.
    match open(true).or_else(|_| open(false)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Ok(file) if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK) => {
            return Err(io::Error::new(ErrorKind::WouldBlock, format!("another process writes {}", path.display())));
        }
        Ok(_) | Err(_) => {}
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
