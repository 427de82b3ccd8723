//! Other runs that share a folder of state files: whether their workers are gone.

use std::fs;
use std::path::Path;

use scheduled_events::files::lock::{LOCK_SUFFIX, workers_in};
use scheduled_events::files::{folder_of, sibling};

/// The number of workers that run for another run whose state file is in the same folder. A worker
/// is registered in the lock file from its start until all of its processes are gone; it stays
/// registered, and counts, if its supervisor is killed.
///
/// # Errors
/// A sentence: why the number is unknown.
pub(crate) fn other_workers(state_file: &Path) -> Result<usize, String> {
    let folder = folder_of(state_file);
    let own = sibling(state_file, LOCK_SUFFIX);
    let failed =
        |path: &Path, reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
    let mut count = 0;
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, &error))? {
        let path = entry.map_err(|error| failed(folder, &error))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == LOCK_SUFFIX)
            && path.file_name() != own.file_name()
        {
            // On other systems the register is empty.
            if !cfg!(target_os = "linux") {
                return Err(failed(
                    &path,
                    &"other runs are known on Linux only; give each a folder of its own",
                ));
            }
            count += workers_in(&path).map_err(|error| failed(&path, &error))?;
        }
    }
    Ok(count)
}
