//! The checks of a state file or an audit file and its folder, and the names of the files beside it.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use crate::platform;

/// Checks what can be known before the file is opened, for an error that helps.
pub(crate) fn check_path(path: &Path) -> Result<(), String> {
    let folder = folder_of(path);
    let named = folder.display();
    match fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(format!("the folder {named} does not exist; create it, or choose another path"));
        }
        Err(error) => return Err(format!("the folder {named}: {error}")),
        Ok(metadata) if !metadata.is_dir() => return Err(format!("{named} is not a folder; choose another path")),
        Ok(metadata) => platform::check_owner(&metadata)
            .map_err(|reason| format!("the folder {named} {reason}; choose a folder of your own"))?,
    }
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => Err("it is a link; give the path that it leads to".to_owned()),
        Ok(metadata) if !metadata.is_file() => Err("not a regular file; choose another path".to_owned()),
        Ok(metadata) => {
            check_users(&metadata).map_err(|reason| format!("it {reason}; remove it, or choose another path"))
        }
        // Opening it reports all other errors.
        Err(_) => Ok(()),
    }
}

/// Checks an open file: a name may lead to another file by now.
pub(crate) fn check_file(file: &File) -> Result<(), String> {
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("is not a regular file".to_owned());
    }
    check_users(&metadata)
}

/// Checks that nobody but this user and root can write a file.
fn check_users(metadata: &Metadata) -> Result<(), String> {
    platform::check_owner(metadata).and_then(|()| platform::check_writers(metadata))
}

/// Whether writing failed because the disk, a quota or a limit has no space left. That may pass.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};

    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// `FILE.suffix`, in the same folder.
pub(crate) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// The folder of a file.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes a rename of the file durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    platform::sync_folder(folder_of(path))
}
