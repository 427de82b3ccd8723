//! Files, and folders, that import each other in a circle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::imports::{Import, Imports};

/// The circles, each as its shortest way: a file, and the imports that lead back to it. One import may close many circles: of those
/// with an import in common, the first is enough.
pub fn circles(imports: &Imports) -> Vec<(PathBuf, Vec<Import>)> {
    let (mut seen, mut circles) = (BTreeSet::new(), Vec::new());
    for file in imports.keys() {
        if let Some(way) = way_back(imports, file) {
            let from = [file]
                .into_iter()
                .chain(way.iter().map(|import| &import.file));
            let arrows: Vec<_> = from
                .cloned()
                .zip(way.iter().map(|import| import.file.clone()))
                .collect();
            if !arrows.iter().any(|arrow| seen.contains(arrow)) {
                seen.extend(arrows);
                circles.push((file.clone(), way));
            }
        }
    }
    circles
}

/// The shortest way from a file back to it.
fn way_back(imports: &Imports, file: &Path) -> Option<Vec<Import>> {
    let mut came_from: BTreeMap<&Path, (&Path, &Import)> = BTreeMap::new();
    let mut queue = VecDeque::from([file]);
    while let Some(at) = queue.pop_front() {
        for import in imports.get(at).into_iter().flatten() {
            if import.file == file {
                let mut way = vec![import.clone()];
                let mut at = at;
                while at != file {
                    let (before, import) = came_from[at];
                    way.push(import.clone());
                    at = before;
                }
                way.reverse();
                return Some(way);
            }
            if !came_from.contains_key(import.file.as_path()) {
                came_from.insert(&import.file, (at, import));
                queue.push_back(&import.file);
            }
        }
    }
    None
}

/// The same between what is next to each other in a folder, files and folders alike, for each folder. A folder's own `mod.rs` does not
/// count, nor do files of tests.
pub fn between_neighbours(sources: &Path, imports: &Imports) -> Vec<Imports> {
    let is_test = |file: &Path| {
        let mut parts = file.strip_prefix(sources).unwrap_or(file).iter();
        parts.any(|part| {
            part.to_string_lossy()
                .trim_end_matches(".rs")
                .ends_with("tests")
        })
    };
    let mut folders: BTreeMap<&Path, Imports> = BTreeMap::new();
    for (file, found) in imports.iter().filter(|(file, _)| !is_test(file)) {
        for import in found {
            let shared = file
                .ancestors()
                .find(|folder| import.file.starts_with(folder))
                .unwrap_or(sources);
            let neighbour = |path: &Path| {
                let next = path.strip_prefix(shared).ok()?.iter().next()?;
                (!["mod.rs", "lib.rs", "main.rs"]
                    .map(OsStr::new)
                    .contains(&next))
                .then(|| shared.join(next))
            };
            let (Some(from), Some(to)) = (neighbour(file), neighbour(&import.file)) else {
                continue;
            };
            let place = file.strip_prefix(shared).unwrap_or(file).display();
            let name = format!("{} in {place}", import.name);
            let line = import.line;
            folders
                .entry(shared)
                .or_default()
                .entry(from)
                .or_default()
                .push(Import {
                    file: to,
                    line,
                    name,
                });
        }
    }
    folders.into_values().collect()
}

/// A circle in words.
pub fn describe(first: &Path, way: &[Import]) -> String {
    let mut text = String::new();
    let mut from = first;
    for import in way {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "  {}:{} imports {} ({})",
            from.display(),
            import.line,
            import.file.display(),
            import.name
        );
        from = &import.file;
    }
    text
}
