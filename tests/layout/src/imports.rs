//! The files of a crate, and which of them imports which.
//!
//! A file imports another one if it names something that the other one defines: in a `use`, or with a path, whatever it starts with.
//! A name that a file passes on (`pub use`) is an import of the file that defines it, not of the one that passes it on, which imports it
//! only if it uses the name itself. `mod` imports nothing. A call of a method names the type, not the file that has the method.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::slice;

use crate::code::{Word, words};
use crate::files;

/// A module's path within its crate: empty for the root.
type Module = Vec<String>;

/// The files of a crate.
#[derive(Debug, Default)]
pub struct Crate {
    files: BTreeMap<Module, File>,
}

/// A path that a file names, and the line.
type Named = (Vec<String>, usize);

#[derive(Debug, Default)]
struct File {
    path: PathBuf,
    definitions: BTreeSet<String>,
    /// The macros that it defines, and those that it calls without the path of their file.
    macros: BTreeSet<String>,
    called: Vec<(String, usize)>,
    /// The names that it passes on, with the paths that they mean; `*` for all of a module.
    passed_on: Vec<(String, Vec<String>)>,
    named: Vec<Named>,
    /// The modules all of whose names it uses, and what it names that may be one of these.
    all_of: Vec<Vec<String>>,
    perhaps: Vec<Named>,
}

/// An import: the path of a file, and where and as what it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The file that is imported.
    pub file: PathBuf,
    /// The line of the import.
    pub line: usize,
    /// What is named there.
    pub name: String,
}

/// Which file imports which.
pub type Imports = BTreeMap<PathBuf, Vec<Import>>;

impl Crate {
    /// Reads the crate whose root is in this folder. The root of a program that has a library too is left out: nothing can import it.
    pub fn read(folder: &Path) -> Self {
        let mut sources: BTreeMap<Module, (PathBuf, String)> = BTreeMap::new();
        for path in files::below(folder, &|path| {
            path.extension().is_some_and(|end| end == "rs")
        }) {
            let is_program = path.ends_with("main.rs") && folder.join("lib.rs").exists();
            if !is_program || path.parent() != Some(folder) {
                let text = fs::read_to_string(&path).unwrap_or_default();
                sources.insert(module_of(folder, &path), (path, text));
            }
        }
        Self::of(sources)
    }

    /// The crate of these modules: the path and the text of each.
    pub fn of(sources: BTreeMap<Module, (PathBuf, String)>) -> Self {
        let file = |(module, (path, text)): (Module, (PathBuf, String))| {
            (module, File::of(path, &words(&text)))
        };
        Self {
            files: sources.into_iter().map(file).collect(),
        }
    }

    /// The number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is no file.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Which file imports which, each pair once.
    pub fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (module, file) in &self.files {
            let named = file.named.iter().filter_map(|(path, line)| {
                let target = self.resolve(module, path, 0)?;
                Some((self.files.get(&target)?, *line, path.join("::")))
            });
            let all_of = file
                .all_of
                .iter()
                .flat_map(|before| file.perhaps.iter().map(move |named| (before, named)));
            let perhaps = all_of.filter_map(|(before, (path, line))| {
                let (target, first) = (
                    self.resolve(module, &[before, &path[..]].concat(), 0)?,
                    &path[0],
                );
                let other = &self.files[&target];
                let exists = other.definitions.contains(first)
                    || path.len() > 1 && target.last() == Some(first);
                exists.then(|| (other, *line, path.join("::")))
            });
            let called = file.called.iter().flat_map(|(name, line)| {
                let defines =
                    move |other: &&File| !file.macros.contains(name) && other.macros.contains(name);
                self.files
                    .values()
                    .filter(defines)
                    .map(move |other| (other, *line, format!("{name}!")))
            });
            let found = imports.entry(file.path.clone()).or_default();
            for (target, line, name) in named
                .chain(perhaps)
                .chain(called)
                .filter(|(target, ..)| target.path != file.path)
            {
                if found.iter().all(|known: &Import| known.file != target.path) {
                    found.push(Import {
                        file: target.path.clone(),
                        line,
                        name,
                    });
                }
            }
        }
        imports
    }

    /// The module that defines what the path names in a module.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<Module> {
        let (mut module, mut rest) = match path.split_first()? {
            (first, rest) if first == "crate" => (Module::new(), rest),
            (first, rest) if first == "self" => (from.to_vec(), rest),
            (first, _) if first == "super" => {
                let levels = path.iter().take_while(|word| *word == "super").count();
                (
                    from[..from.len().checked_sub(levels)?].to_vec(),
                    &path[levels..],
                )
            }
            (first, _)
                if self
                    .files
                    .contains_key(&[from, slice::from_ref(first)].concat()) =>
            {
                (from.to_vec(), path)
            }
            _ => return None,
        };
        while let Some((next, after)) = rest.split_first() {
            let child = [&module[..], slice::from_ref(next)].concat();
            if !self.files.contains_key(&child) {
                break;
            }
            (module, rest) = (child, after);
        }
        let file = self.files.get(&module)?;
        let Some(name) = rest
            .first()
            .filter(|name| !file.definitions.contains(*name))
        else {
            return Some(module);
        };
        let meant = |(_, path): &(String, Vec<String>)| {
            // All of a module: what it passes on itself, too.
            let all = path
                .split_last()
                .filter(|(last, _)| *last == "*")
                .map(|(_, before)| before);
            let path = all.map_or_else(
                || [path, &rest[1..]].concat(),
                |before| [before, rest].concat(),
            );
            let target = self.resolve(&module, &path, depth + 1)?;
            let defines = |name: &String| self.files[&target].definitions.contains(name);
            (all.is_none() || rest.iter().any(defines)).then_some(target)
        };
        let passed_on = file
            .passed_on
            .iter()
            .filter(|(known, _)| known == name || known == "*");
        let found = if depth < 8 {
            passed_on.into_iter().find_map(meant)
        } else {
            None
        };
        Some(found.unwrap_or(module))
    }
}

impl File {
    fn of(path: PathBuf, words: &[Word]) -> Self {
        let mut file = Self {
            path,
            ..Self::default()
        };
        let text = |at: usize| words.get(at).map_or("", |word| word.text.as_str());
        let (mut at, mut depth) = (0_usize, 0_usize);
        // The depths of modules within the file: there, `super` is the file itself.
        let mut inner: Vec<usize> = Vec::new();
        // What its `use`s name, and the paths outside of them; a name alone may be one that is passed on.
        let mut used: Vec<(String, Vec<String>)> = Vec::new();
        let (mut imported, mut paths): (Vec<Named>, Vec<Named>) = Default::default();
        while at < words.len() {
            let line = words[at].line;
            match text(at) {
                // `impl Trait + use<'a>` names nothing.
                "use" if text(at + 1) != "<" => {
                    let end = (at..words.len())
                        .find(|at| text(*at) == ";")
                        .unwrap_or(words.len());
                    let mut named = Vec::new();
                    group(&words[at + 1..end], &[], &mut named);
                    let is_public = text(at.wrapping_sub(1)) == "pub"
                        || at > 0 && text(at - 1) == ")" && is_restricted(words, at);
                    for (name, path) in named {
                        let Some(path) = outside(path, inner.len()) else {
                            continue;
                        };
                        used.push((name.clone(), path.clone()));
                        if is_public {
                            file.passed_on.push((name, path.clone()));
                        }
                        // What a module within the file passes on is for the file.
                        if !is_public || !inner.is_empty() {
                            imported.push((path, line));
                        }
                    }
                    at = end;
                }
                "{" => depth += 1,
                "}" => {
                    depth = depth.saturating_sub(1);
                    inner.retain(|start| *start < depth + 1);
                }
                "mod" => {
                    if text(at + 2) == "{" {
                        inner.push(depth + 1);
                    }
                    at += 1;
                }
                "fn" | "struct" | "enum" | "const" | "static" | "trait" | "type" | "union"
                    if depth == 0 =>
                {
                    file.definitions.insert(text(at + 1).to_owned());
                }
                "macro_rules" => {
                    file.definitions.insert(text(at + 2).to_owned());
                    file.macros.insert(text(at + 2).to_owned());
                }
                first
                    if is_name(first)
                        && !follows_another(text(at.wrapping_sub(2)), text(at.wrapping_sub(1))) =>
                {
                    let mut path = vec![first.to_owned()];
                    while text(at + 1) == "::" && is_name(text(at + 2)) {
                        path.push(text(at + 2).to_owned());
                        at += 2;
                    }
                    let is_anywhere = path.len() == 1 || path.len() == 2 && first == "crate";
                    if text(at + 1) == "!" && text(at + 2) != "=" && is_anywhere {
                        file.called.push((text(at).to_owned(), line));
                    }
                    paths.extend(outside(path, inner.len()).map(|path| (path, line)));
                }
                _ => {}
            }
            at += 1;
        }
        file.called
            .retain(|(name, _)| used.iter().all(|(known, _)| known != name));
        file.named.extend(imported.iter().cloned());
        // By the names that it gave to modules, in its `use`s as well.
        for (path, line) in imported.iter().chain(&paths) {
            let (first, rest) = (&path[0], &path[1..]);
            let known = used.iter().filter(|(name, _)| name == first);
            file.named
                .extend(known.map(|(_, before)| ([before, rest].concat(), *line)));
        }
        file.named
            .extend(paths.iter().filter(|(path, _)| path.len() > 1).cloned());
        file.all_of = used
            .iter()
            .filter_map(|(name, path)| Some(path.split_last().filter(|_| name == "*")?.1.to_vec()))
            .collect();
        file.perhaps = paths;
        file
    }
}

/// Whether a name after these two words begins no path, or one that names nothing: after `::`, in `fn a`, in `a.b` (but not in `..b`), and
/// in `pub(in a)`.
fn follows_another(before: &str, last: &str) -> bool {
    matches!(last, "::" | "fn") || last == "." && before != "." || last == "in" && before == "("
}

/// Whether a word is a name.
fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// A path in a module within a file, as seen from the file; `None` if it leads to the file itself.
fn outside(mut path: Vec<String>, depth: usize) -> Option<Vec<String>> {
    let levels = path
        .iter()
        .take_while(|word| *word == "super")
        .count()
        .min(depth);
    path.drain(..levels);
    let is_own = depth > 0
        && !path
            .first()
            .is_some_and(|first| first == "crate" || levels == depth && first == "super");
    (!is_own).then_some(path)
}

/// Whether the parenthesis before this word ends a `pub(…)`.
fn is_restricted(words: &[Word], at: usize) -> bool {
    let start = (0..at).rev().find(|at| words[*at].text == "(").unwrap_or(0);
    start > 0 && words[start - 1].text == "pub"
}

/// The paths of a `use`, each with the name that it gets.
fn group(words: &[Word], before: &[String], paths: &mut Vec<(String, Vec<String>)>) {
    let (mut path, mut name, mut at) = (before.to_vec(), None, 0);
    let mut add = |path: &mut Vec<String>, name: Option<String>| {
        if path.len() > before.len() {
            if path.last().is_some_and(|last| last == "self") {
                path.pop();
            }
            let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
            paths.push((name, std::mem::replace(path, before.to_vec())));
        }
    };
    let mut inner = Vec::new();
    while at < words.len() {
        match words[at].text.as_str() {
            "::" | "}" => {}
            "as" => {
                name = words.get(at + 1).map(|word| word.text.clone());
                at += 1;
            }
            "," => {
                add(&mut path, name.take());
                path = before.to_vec();
            }
            "{" => {
                let end = closing(words, at);
                inner.push((at + 1, end, std::mem::replace(&mut path, before.to_vec())));
                at = end;
            }
            word => path.push(word.to_owned()),
        }
        at += 1;
    }
    add(&mut path, name);
    for (from, to, path) in inner {
        group(&words[from..to], &path, paths);
    }
}

fn closing(words: &[Word], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, word) in words.iter().enumerate().skip(open) {
        match word.text.as_str() {
            "{" => depth += 1,
            "}" if depth == 1 => return at,
            "}" => depth -= 1,
            _ => {}
        }
    }
    words.len()
}

fn module_of(folder: &Path, path: &Path) -> Module {
    let relative = path.strip_prefix(folder).unwrap_or(path).with_extension("");
    let mut module: Module = relative
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if module.last().is_some_and(|last| last == "mod")
        || module.len() == 1 && ["lib", "main"].contains(&module[0].as_str())
    {
        module.pop();
    }
    module
}
