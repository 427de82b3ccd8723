//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files below a folder that the function accepts, sorted. What is built or downloaded is left out.
pub fn below(folder: &Path, accepts: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !path.is_symlink() {
            if !name.starts_with('.')
                && !["target", "node_modules", "__pycache__"].contains(&&*name)
            {
                found.extend(below(&path, accepts));
            }
        } else if accepts(&path) {
            found.push(path);
        }
    }
    found.sort();
    found
}
