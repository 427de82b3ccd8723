//! Files that one program keeps for itself, such as a state file or an audit file: nobody but its owner and root writes them,
//! no link leads elsewhere, and one process at a time uses them.
//!
//! This file checks, names and replaces such a file. [`lock`] locks it. `temporary` has the files that replace one that several processes
//! may write.

mod error;
pub mod lock;
#[cfg(unix)]
pub mod temporary;

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::limits::SETTINGS_FILE_MAX;
use crate::platform;

pub use crate::platform::FileError;
pub use error::PathError;

/// Whether two paths lead to the same file.
///
/// ```
/// use std::path::Path;
///
/// use scheduled_events::files::is_same_file;
///
/// assert!(is_same_file(Path::new("/"), Path::new("/.")));
/// assert!(!is_same_file(Path::new("/no/such/file"), Path::new("/no/such/file")));
/// ```
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let real = |path| fs::canonicalize(path).ok();
    real(one).is_some_and(|one| real(other) == Some(one))
}

/// Checks what can be known before the file is opened, for an error that helps.
///
/// # Errors
/// [`PathError`]: what is wrong with the file or its folder.
///
/// ```
/// use std::path::Path;
///
/// use scheduled_events::files::check_path;
///
/// let error = check_path(Path::new("/no/such/folder/state")).unwrap_err();
/// assert!(error.to_string().ends_with("does not exist; create it, or choose another path"));
/// ```
pub fn check_path(path: &Path) -> Result<(), PathError> {
    check_folder(path)?;
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => Err(PathError::Link),
        Ok(metadata) if !metadata.is_file() => Err(PathError::NotAFile),
        Ok(metadata) => check_users(&metadata).map_err(PathError::Refused),
        // Opening it reports all other errors.
        Err(_) => Ok(()),
    }
}

/// Checks the folder of a file: it exists, and belongs to this user or to root.
///
/// # Errors
/// [`PathError`]: what is wrong with the folder.
///
/// ```
/// use std::path::Path;
///
/// use scheduled_events::files::check_folder;
///
/// let error = check_folder(Path::new("/no/such/folder/socket")).unwrap_err();
/// assert!(error.to_string().starts_with("the folder /no/such/folder does not exist"));
/// ```
pub fn check_folder(path: &Path) -> Result<(), PathError> {
    let folder = folder_of(path).to_owned();
    match fs::metadata(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(PathError::FolderMissing { folder })
        }
        Err(error) => Err(PathError::FolderUnreadable { folder, error }),
        Ok(metadata) if !metadata.is_dir() => Err(PathError::NotAFolder { folder }),
        Ok(metadata) => platform::check_owner(&metadata)
            .map_err(|error| PathError::FolderRefused { folder, error }),
    }
}

/// Checks an open file: a name may lead to another file by now.
///
/// # Errors
/// [`FileError`]: what is wrong.
///
/// ```
/// use scheduled_events::files::{check_file, open_no_link, replace};
///
/// # let folder = std::env::temp_dir().join(format!("check-file-example-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let path = folder.join("notes");
/// replace(&path, b"mine alone")?;
/// check_file(&open_no_link(&path)?)?;
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check_file(file: &File) -> Result<(), FileError> {
    let metadata = file.metadata().map_err(FileError::Unreadable)?;
    if !metadata.is_file() {
        return Err(FileError::NotAFile);
    }
    check_users(&metadata)
}

/// Checks that nobody but this user and root can write a file.
fn check_users(metadata: &Metadata) -> Result<(), FileError> {
    platform::check_owner(metadata).and_then(|()| platform::check_writers(metadata))
}

/// Whether writing failed because the disk, a quota or a limit has no space left. That may pass.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};

    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// `FILE.suffix`, in the same folder.
///
/// ```
/// use std::path::Path;
///
/// use scheduled_events::files::sibling;
///
/// assert_eq!(sibling(Path::new("/var/lib/app/state"), "lock"), Path::new("/var/lib/app/state.lock"));
/// ```
pub fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// Opens a file for reading unless it is a link, without waiting for the other end of a pipe.
///
/// # Errors
/// Those of the system.
///
/// ```
/// use scheduled_events::files::open_no_link;
///
/// assert!(open_no_link("/no/such/file".as_ref()).is_err());
/// ```
pub fn open_no_link(path: &Path) -> io::Result<File> {
    platform::open_no_link(path)
}

/// Reads a file that a person has written, such as a policy: UTF-8, at most [`SETTINGS_FILE_MAX`] bytes. It never waits for the other end
/// of a pipe.
///
/// # Errors
/// Those of the system; [`InvalidInput`](io::ErrorKind::InvalidInput) for a pipe or a device, and
/// [`InvalidData`](io::ErrorKind::InvalidData) for a larger file and one that is no UTF-8.
///
/// ```
/// use std::path::Path;
///
/// use scheduled_events::files::read_settings;
///
/// let path = std::env::temp_dir().join(format!("read-settings-example-{}", std::process::id()));
/// std::fs::write(&path, "[[rule]]")?;
/// assert_eq!(read_settings(&path)?, "[[rule]]");
/// std::fs::write(&path, [b' '; 1 + (1 << 20)])?;
/// assert!(read_settings(&path).is_err());
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_settings(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    // The system has words for a folder.
    if !metadata.is_file() && !metadata.is_dir() {
        let reason = "it is a pipe or a device, expected a file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let bytes = read_bounded(File::open(path)?, SETTINGS_FILE_MAX)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Reads to the end, which comes after `max` bytes at the latest.
///
/// # Errors
/// Those of the system; [`InvalidData`](io::ErrorKind::InvalidData) if there is more.
///
/// ```
/// use scheduled_events::files::read_bounded;
///
/// assert_eq!(read_bounded(&b"[]"[..], 1024)?, b"[]");
/// let error = read_bounded(std::io::repeat(b' '), 1024).unwrap_err();
/// assert_eq!(error.to_string(), "it has more than 1 KiB");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_bounded(input: impl Read, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(max + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > max) {
        let reason = format!("it has more than {} KiB", max >> 10);
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    Ok(bytes)
}

/// Whether a file belongs to root and nobody else can write it. On Windows, where files have no such owner, it never does.
///
/// ```
/// use scheduled_events::files::belongs_to_root;
///
/// # let path = std::env::temp_dir().join(format!("belongs-to-root-example-{}", std::process::id()));
/// # scheduled_events::files::replace(&path, b"")?;
/// let metadata = std::fs::metadata(&path)?;
/// # #[cfg(unix)]
/// assert_eq!(belongs_to_root(&metadata), std::os::unix::fs::MetadataExt::uid(&metadata) == 0);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn belongs_to_root(metadata: &Metadata) -> bool {
    platform::belongs_to_root(metadata)
}

/// Replaces the file at `path` by a private one: writes a temporary file, `FILE.tmp`, syncs it, renames it, and syncs the folder. After
/// a crash there is the old file or the new one, never a part.
///
/// # Errors
/// Those of the system. The old file is unchanged then.
///
/// ```
/// use scheduled_events::files::replace;
///
/// # let folder = std::env::temp_dir().join(format!("replace-example-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let path = folder.join("phase");
/// replace(&path, b"processing")?;
/// replace(&path, b"evicted")?;
/// assert_eq!(std::fs::read(&path)?, b"evicted");
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_by(path, &sibling(path, "tmp"), |mut file| {
        file.write_all(content)?;
        file.sync_all()
    })?;
    sync_folder(path)
}

/// The same for a file that is worthless after a crash of the machine: nothing is synced.
pub(crate) fn replace_unsynced(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_by(path, &sibling(path, "tmp"), |mut file| {
        file.write_all(content)
    })
}

/// Replaces a file that everybody may read and that is worthless after a crash of the machine, such as one with metrics: nothing is
/// synced. The temporary file is `FILE.new`.
///
/// # Errors
/// Those of the system, and on Unix [`io::ErrorKind::WouldBlock`] if another process writes the file. The old file is unchanged then.
///
/// ```
/// use scheduled_events::files::replace_readable;
///
/// # let path = std::env::temp_dir().join(format!("replace-readable-example-{}", std::process::id()));
/// replace_readable(&path, b"up 1\n")?;
/// assert_eq!(std::fs::read(&path)?, b"up 1\n");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn replace_readable(path: &Path, content: &[u8]) -> io::Result<()> {
    #[cfg(not(unix))]
    use replace_by as replace;
    #[cfg(unix)]
    use temporary::replace;

    let new = sibling(path, "new");
    let write = || {
        replace(path, &new, |mut file| {
            platform::make_readable(file)?;
            file.write_all(content)
        })
    };
    match write() {
        // Another user's file, which this process cannot look into, is none that it writes itself.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            fs::remove_file(&new).map_err(|_| error)?;
            write()
        }
        written => written,
    }
}

/// Replaces the file at `path` by a private one that is written under another name.
fn replace_by(
    path: &Path,
    new: &Path,
    write: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    // A crash may have left this file. In a folder where others can write, somebody else may have created it: a file that they
    // can read, or a link to a file that they cannot write.
    match fs::remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = platform::private(OpenOptions::new().write(true).create_new(true)).open(new)?;
    let written = write(&file);
    drop(file);
    written
        .and_then(|()| platform::replace_file(new, path))
        .inspect_err(|_| drop(fs::remove_file(new)))
}

/// The folder of a file, `.` if its path has none.
///
/// ```
/// use std::path::Path;
///
/// use scheduled_events::files::folder_of;
///
/// assert_eq!(folder_of(Path::new("state")), Path::new("."));
/// ```
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes a rename of the file durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    platform::sync_folder(folder_of(path))
}
