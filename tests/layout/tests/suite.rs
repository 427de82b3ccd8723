//! The layout: no circle of imports inside a crate, no dependency that points up, no file or folder that is too large. And no public
//! function of core that the proof against panics leaves out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use scheduled_events_layout::circles::{between_neighbours, circles, describe};
use scheduled_events_layout::code::words;
use scheduled_events_layout::files::{below, root};
use scheduled_events_layout::imports::Crate;

/// The folders of all crates, and the crates of this project that each may use, tests included. A crate follows those that it uses.
const CRATES: [(&str, &[&str]); 20] = [
    ("core", &[]),
    ("windows", &[]),
    ("client", &["core", "windows"]),
    ("replay", &["core", "windows"]),
    ("ffi-c", &["core"]),
    ("ffi-c/header", &[]),
    ("ffi-c/bare-metal", &["core", "ffi-c"]),
    ("fleet", &["core"]),
    ("hub", &["core", "client", "fleet"]),
    ("cli", &["core", "windows", "client", "replay"]),
    ("page", &["replay"]),
    ("py", &["core", "client", "replay", "cli"]),
    ("fuzz", &["core", "ffi-c", "fuzz/c-abi"]),
    ("fuzz/c-abi", &["core", "ffi-c"]),
    ("bench", &["core"]),
    ("bench/poll", &["core", "client", "bench"]),
    ("tests/c/bench", &["core"]),
    ("tests/no-panic", &["core"]),
    ("tests/support", &[]),
    ("tests/layout", &[]),
];

/// What only the tests of a crate use in addition.
const FOR_TESTS: [(&str, &str); 7] = [
    ("client", "replay"),
    ("client", "tests/support"),
    ("replay", "tests/support"),
    ("cli", "tests/support"),
    ("fleet", "tests/support"),
    ("hub", "tests/support"),
    ("page", "tests/support"),
];

/// The most lines of a source file.
const LINES_MAX: usize = 1000;

/// The most source files next to each other in a folder of sources.
const FILES_MAX: usize = 15;

/// Files that are longer, and why.
const LONG: [(&str, &str); 6] = [
    (
        "ffi-c/header/scheduled_events.h.in",
        "the frame of the header, in the order of its pages",
    ),
    (
        "include/scheduled_events.h",
        "generated, and one file for those who include it",
    ),
    (
        "include/scheduled_events.hpp",
        "one file for those who include it",
    ),
    (
        "py/python/scheduled_events/__init__.pyi",
        "the types of the module that users import",
    ),
    (
        "py/python/scheduled_events/_records.pyi",
        "the types of all records, which have their documentation here",
    ),
    (
        "tests/c/abi/scheduled_events-0.1.0.h",
        "a copy of the generated header, which later ones are compared with",
    ),
];

#[test]
fn no_files_of_a_crate_import_each_other_in_a_circle() {
    let (mut found, mut crates, mut files, mut arrows) = (String::new(), 0, 0, 0);
    for (folder, _) in CRATES {
        let sources = root().join(folder).join("src");
        let read = Crate::read(&sources);
        // The sources of fuzz/c-abi and of ffi-c/bare-metal are elsewhere, and in one file.
        let imports = read.imports();
        crates += usize::from(!read.is_empty());
        files += read.len();
        arrows += imports.values().map(Vec::len).sum::<usize>();
        for (first, way) in circles(&imports) {
            let text = describe(&first, &way).replace(&format!("{}/", root().display()), "");
            let _ = write!(found, "a circle in {folder}:\n{text}");
        }
    }
    // Nothing was overlooked as a whole.
    assert!(
        crates > 12 && files > 20 * crates && arrows > 2 * files,
        "found {crates} crates, {files} files, {arrows} imports"
    );
    assert!(
        found.is_empty(),
        "{found}\nMove what both need into a file below both, or let the lower file take a function as an argument."
    );
}

/// A folder is known for what it needs as a whole, even if its files form no circle.
#[test]
fn no_folders_of_a_crate_import_each_other_in_a_circle() {
    // `status` has the codes that `boundary` and `abi` return, and next to them `schedev_error`, a type made with these two.
    let known = root().join("ffi-c/src/status");
    let (mut found, mut folders) = (String::new(), 0);
    for (folder, _) in CRATES {
        let sources = root().join(folder).join("src");
        for imports in between_neighbours(&sources, &Crate::read(&sources).imports()) {
            folders += 1;
            for (first, way) in circles(&imports) {
                if way.iter().all(|import| import.file != known) {
                    let text =
                        describe(&first, &way).replace(&format!("{}/", root().display()), "");
                    let _ = write!(found, "a circle in {folder}:\n{text}");
                }
            }
        }
    }
    assert!(folders > 20, "found imports in {folders} folders");
    assert!(
        found.is_empty(),
        "{found}\nMove what both need next to the two, or into the one that is used."
    );
}

/// The search for circles takes a file for the module that its path names.
#[test]
fn the_files_of_a_crate_are_the_modules_that_their_paths_name() {
    // Crates of one file each, and a program that tests start.
    let known = [
        "ffi-c/bare-metal/src/lib.rs",
        "tests/no-panic/src/bin/",
        "client/src/hooks/tests.rs",
    ];
    let marks: [&[&str]; 3] = [
        &["#", "[", "path"],
        &["include", "!"],
        &["extern", "crate", "self"],
    ];
    let is_source = |path: &Path| path.extension().is_some_and(|end| end == "rs");
    let (mut wrong, mut files) = (String::new(), 0);
    for (folder, _) in CRATES {
        for path in below(&root().join(folder).join("src"), &is_source) {
            files += 1;
            let words = words(&fs::read_to_string(&path).expect("a source"));
            let texts: Vec<_> = words.iter().map(|word| word.text.as_str()).collect();
            let name = path
                .strip_prefix(root())
                .expect("a file of the repository")
                .to_string_lossy()
                .into_owned();
            for mark in marks
                .into_iter()
                .filter(|mark| texts.windows(mark.len()).any(|window| window == *mark))
            {
                if !known.iter().any(|known| name.starts_with(known)) {
                    let _ = writeln!(
                        wrong,
                        "{name} has `{}`: give each module its own file instead",
                        mark.concat()
                    );
                }
            }
        }
    }
    assert!(files > 300, "found {files} files");
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn each_crate_depends_only_on_crates_below_it() {
    let names: BTreeMap<String, &str> = CRATES
        .iter()
        .map(|(folder, _)| (name_of(&manifest(folder)), *folder))
        .collect();
    let renamed = renamed_in_workspaces();
    let mut wrong = String::new();
    let mut found = 0;
    for (folder, allowed) in CRATES {
        for (kind, name) in dependencies(&manifest(folder)) {
            let Some(target) = names.get(renamed.get(&name).unwrap_or(&name)) else {
                continue;
            };
            found += 1;
            let is_for_tests = kind == "dev-dependencies" && FOR_TESTS.contains(&(folder, *target));
            if !allowed.contains(target) && !is_for_tests {
                let _ = writeln!(
                    wrong,
                    "{folder} depends on {target} ({kind}), which is not below it"
                );
            }
        }
    }
    assert!(found > 20, "found {found} dependencies");
    assert!(
        wrong.is_empty(),
        "{wrong}The layers are in CRATES here, and in CONTRIBUTING.md."
    );
}

/// A crate that the library gets through another one counts, too.
#[test]
fn a_program_that_uses_the_library_gets_neither_the_command_nor_the_replay_server() {
    let mut tree = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tree.args([
        "tree",
        "--locked",
        "--package",
        "scheduled-events",
        "--edges",
        "normal",
    ]);
    tree.args(["--prefix", "none", "--format", "{p}"])
        .current_dir(root());
    let output = tree.output().expect("cargo");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let names: BTreeSet<_> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    for expected in [
        "scheduled-events",
        "scheduled-events-core",
        "ureq",
        "serde_core",
    ] {
        assert!(
            names.contains(expected),
            "{expected} is missing in {names:?}"
        );
    }
    for other in [
        "scheduled-events-replay",
        "scheduled-events-cli",
        "scheduled-events-test-support",
        "clap",
    ] {
        assert!(!names.contains(other), "{other} is among {names:?}");
    }
}

#[test]
fn the_table_of_layers_has_no_circle_and_names_each_crate() {
    let allowed: BTreeMap<_, _> = CRATES.into_iter().collect();
    for (folder, below) in CRATES {
        let mut seen = BTreeSet::new();
        let mut open = below.to_vec();
        while let Some(next) = open.pop() {
            assert_ne!(next, folder, "{folder} is below itself");
            if seen.insert(next) {
                open.extend(allowed[next]);
            }
        }
    }
    let is_manifest = |path: &Path| path.ends_with("Cargo.toml");
    let known: BTreeSet<_> = CRATES
        .iter()
        .map(|(folder, _)| root().join(folder).join("Cargo.toml"))
        .collect();
    let others = ["fuzz/corpus", "examples"].map(|folder| root().join(folder));
    for path in below(&root(), &is_manifest) {
        let has_package = fs::read_to_string(&path)
            .unwrap_or_default()
            .contains("[package]");
        let is_other = others.iter().any(|other| path.starts_with(other));
        assert!(
            !has_package || is_other || known.contains(&path),
            "CRATES lacks {}",
            path.display()
        );
    }
    let page = fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md");
    for (folder, _) in CRATES.iter().filter(|(folder, _)| !folder.contains('/')) {
        assert!(
            page.contains(&format!("\n| `{folder}/` | ")),
            "the table of CONTRIBUTING.md lacks {folder}/"
        );
    }
}

#[test]
fn the_arrows_of_contributing_lead_to_modules_that_use_what_they_come_from() {
    let page = fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md");
    let (_, map) = page
        .split_once("```text\n")
        .expect("the map of the modules");
    let (mut folder, mut uses, mut arrows, mut wrong) = ("", BTreeSet::new(), 0, String::new());
    let mut missing = BTreeSet::new();
    for line in map.lines().take_while(|line| !line.starts_with("```")) {
        if let Some(name) = line.split(' ').next().filter(|name| !name.is_empty()) {
            (folder, uses) = (name, uses_of_modules(name));
            missing.extend(modules(folder).into_iter().map(|module| (folder, module)));
        }
        let line = line.strip_prefix(folder).unwrap_or(line);
        for word in line.split(|char: char| !char.is_ascii_lowercase() && char != '_') {
            missing.remove(&(folder, word.to_owned()));
        }
        let groups = line
            .split("──►")
            .map(|group| group.trim_matches([' ', '─', '┘']).split(", "));
        let groups: Vec<Vec<_>> = groups
            .map(|group| group.filter(|name| !name.contains(' ')).collect())
            .collect();
        for name in groups
            .iter()
            .flatten()
            .filter(|name| !name.is_empty() && !folder.is_empty())
        {
            let path = root().join(folder).join("src").join(name);
            if !path.is_dir() && !path.with_extension("rs").is_file() {
                let _ = writeln!(wrong, "{folder} has no module {name}");
            }
        }
        let uses = |to: &str, from: &str| uses.contains(&(to.to_owned(), from.to_owned()));
        for (number, to) in groups
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(_, to)| **to != ["main"])
        {
            arrows += 1;
            let from = &groups[number - 1];
            // A name of two words is another crate's.
            if !from.is_empty() && !to.iter().any(|to| from.iter().any(|from| uses(to, from))) {
                let _ = writeln!(wrong, "{folder}: none of {to:?} uses one of {from:?}");
            }
            for (from, to) in groups[..number]
                .iter()
                .flatten()
                .flat_map(|from| to.iter().map(move |to| (from, to)))
            {
                if uses(from, to) {
                    let _ = writeln!(
                        wrong,
                        "{folder}: {from} uses {to}, and the arrow leads there"
                    );
                }
            }
        }
    }
    assert!(arrows > 20, "found {arrows} arrows");
    assert!(
        missing.is_empty(),
        "the map of the modules in CONTRIBUTING.md lacks {missing:?}"
    );
    assert!(
        wrong.is_empty(),
        "{wrong}The map of the modules is in CONTRIBUTING.md."
    );
}

/// The modules of a crate: the files and folders next to its `lib.rs`.
fn modules(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(root().join(folder).join("src")).expect("a folder of sources");
    let name = |path: PathBuf| {
        path.file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned()
    };
    entries
        .flatten()
        .map(|entry| name(entry.path()))
        .filter(|name| !["lib", "main"].contains(&name.as_str()))
        .collect()
}

/// Which of these modules uses which.
fn uses_of_modules(folder: &str) -> BTreeSet<(String, String)> {
    let sources = root().join(folder).join("src");
    let module = |path: &Path| {
        let path = path
            .strip_prefix(&sources)
            .expect("a source")
            .with_extension("");
        path.iter()
            .next()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let imports = Crate::read(&sources).imports();
    imports
        .iter()
        .flat_map(|(file, used)| used.iter().map(|used| (module(file), module(&used.file))))
        .collect()
}

/// What `make prove-no-panic` proves is what this program calls.
#[test]
fn the_program_that_cannot_panic_calls_each_public_function_of_core() {
    let words_of = |folder: &str| -> Vec<Vec<String>> {
        let is_rust = |path: &Path| path.extension().is_some_and(|end| end == "rs");
        let files = below(&root().join(folder), &is_rust);
        let sources = files
            .iter()
            .map(|path| fs::read_to_string(path).expect("a source"));
        sources
            .map(|source| words(&source).into_iter().map(|word| word.text).collect())
            .collect()
    };
    let (mut public, mut called) = (BTreeSet::new(), BTreeSet::new());
    for file in words_of("core/src") {
        for (at, _) in file.iter().enumerate().filter(|(_, word)| *word == "pub") {
            let rest = &file[at + 1..];
            let rest = if rest[0] == "const" { &rest[1..] } else { rest };
            if rest[0] == "fn" {
                public.insert(rest[1].clone());
            }
        }
    }
    for file in words_of("tests/no-panic/src") {
        for used in file
            .windows(3)
            .filter(|used| [".", "::"].contains(&used[0].as_str()))
        {
            if ["(", ")", "::"].contains(&used[2].as_str()) {
                called.insert(used[1].clone());
            }
        }
    }
    assert!(
        public.len() > 100,
        "found {} public functions",
        public.len()
    );
    let missing: Vec<_> = public.difference(&called).collect();
    assert!(
        missing.is_empty(),
        "no file of tests/no-panic/src calls {missing:?}"
    );
}

#[test]
fn the_table_of_a_folder_names_each_entry() {
    for folder in ["tests", "packaging"] {
        let page = fs::read_to_string(root().join(folder).join("README.md")).expect("README.md");
        for entry in fs::read_dir(root().join(folder))
            .expect("a folder")
            .flatten()
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            let needs_none =
                name.starts_with('.') || ["README.md", "__pycache__"].contains(&name.as_str());
            assert!(
                needs_none || page.contains(&format!("]({name})")),
                "{folder}/README.md lacks {name}"
            );
        }
    }
}

#[test]
fn no_file_and_no_folder_is_too_large() {
    let is_source = |path: &Path| {
        let end = path
            .extension()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        [
            "rs", "py", "pyi", "c", "cc", "h", "in", "hpp", "js", "mjs", "css", "sh",
        ]
        .contains(&end.as_str())
    };
    let (mut wrong, mut folders, mut files) = (String::new(), BTreeMap::<PathBuf, usize>::new(), 0);
    for path in below(&root(), &is_source) {
        files += 1;
        let name = path
            .strip_prefix(root())
            .expect("a file of the repository")
            .to_string_lossy()
            .into_owned();
        let lines = fs::read_to_string(&path)
            .unwrap_or_default()
            .lines()
            .count();
        let is_long = LONG.iter().any(|(long, _)| *long == name);
        assert!(
            !is_long || lines > LINES_MAX,
            "{name} is not long any more: remove it from LONG"
        );
        if lines > LINES_MAX && !is_long {
            let _ = writeln!(
                wrong,
                "{name} has {lines} lines, at most {LINES_MAX} are allowed: split it by what it is about"
            );
        }
        if name.contains("src/") {
            *folders
                .entry(path.parent().expect("a folder").to_owned())
                .or_default() += 1;
        }
    }
    for (folder, count) in folders.iter().filter(|(_, count)| **count > FILES_MAX) {
        let folder = folder.strip_prefix(root()).unwrap_or(folder).display();
        let _ = writeln!(
            wrong,
            "{folder} has {count} source files, at most {FILES_MAX} are allowed: make folders of them"
        );
    }
    assert!(
        files > 300 && folders.len() > 20,
        "found {files} files in {} folders of sources",
        folders.len()
    );
    assert!(wrong.is_empty(), "{wrong}");
}

fn manifest(folder: &str) -> toml::Table {
    let path = root().join(folder).join("Cargo.toml");
    toml::from_str(&fs::read_to_string(&path).expect("a manifest")).expect("TOML")
}

/// The packages that the workspaces' dependencies are, by the names that they are given.
fn renamed_in_workspaces() -> BTreeMap<String, String> {
    let workspaces = below(&root(), &|path| path.ends_with("Cargo.toml"));
    let tables = workspaces
        .iter()
        .filter_map(|path| toml::from_str::<toml::Table>(&fs::read_to_string(path).ok()?).ok());
    let shared = tables.filter_map(|table| table.get("workspace")?.as_table().cloned());
    shared
        .flat_map(|table| dependencies_by_name(&table, "dependencies"))
        .collect()
}

/// The dependencies of a table, each with its name there and its package's.
fn dependencies_by_name(table: &toml::Table, kind: &str) -> Vec<(String, String)> {
    let entries = table
        .get(kind)
        .and_then(toml::Value::as_table)
        .into_iter()
        .flatten();
    let package = |(name, entry): (&String, &toml::Value)| {
        let real = entry.get("package").and_then(toml::Value::as_str);
        (name.clone(), real.unwrap_or(name).to_owned())
    };
    entries.map(package).collect()
}

fn name_of(manifest: &toml::Table) -> String {
    manifest["package"]["name"]
        .as_str()
        .expect("a name")
        .to_owned()
}

/// The dependencies of a crate, each with its kind.
fn dependencies(manifest: &toml::Table) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let systems = manifest
        .get("target")
        .and_then(toml::Value::as_table)
        .into_iter()
        .flatten();
    let tables = systems
        .filter_map(|(_, table)| table.as_table())
        .chain([manifest]);
    for table in tables {
        for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
            found.extend(
                dependencies_by_name(table, kind)
                    .into_iter()
                    .map(|(_, package)| (kind, package)),
            );
        }
    }
    found
}

/// A crate of these files, each with its module's path and its text.
fn made_up(files: &[(&str, &str)]) -> Crate {
    let file = |(module, text): &(&str, &str)| {
        let path = module
            .split("::")
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        (
            path,
            (PathBuf::from(format!("{module}.rs")), (*text).to_owned()),
        )
    };
    Crate::of(files.iter().map(file).collect())
}

#[test]
fn circles_are_found_however_the_files_name_each_other() {
    let rows: [&[(&str, &str)]; 29] = [
        &[
            ("", ""),
            ("a", "use crate::b::f; fn g() {}"),
            ("b", "use crate::a::g; fn f() {}"),
        ],
        &[
            ("", ""),
            ("a", "fn g() { crate::b::f() }"),
            ("b", "fn f() { super::a::g() }"),
        ],
        &[
            ("", "mod a; mod b;"),
            ("a", "use super::b::{self, f as h}; fn g() {}"),
            ("b", "use super::{a::{g}}; fn f() {}"),
        ],
        // Through a name that another file passes on, alone or with all others.
        &[
            ("", "pub use a::g;"),
            ("a", "use crate::b::f; fn g() {}"),
            ("b", "use crate::g; fn f() {}"),
        ],
        &[
            ("", "pub use a::*;"),
            ("a", "use crate::b::f; fn g() {}"),
            ("b", "use crate::g; fn f() {}"),
        ],
        &[
            ("", "pub use c::*;"),
            ("a", "use crate::b::f; fn g() {}"),
            ("b", "use crate::g; fn f() {}"),
            ("c", "pub use crate::a::*;"),
        ],
        // From a module within a file.
        &[
            ("", ""),
            ("a", "use b::f; fn g() {}"),
            ("a::b", "fn f() {} mod c { use super::super::g; }"),
        ],
        // A folder and a file in it.
        &[
            ("", ""),
            ("a", "use b::f; fn g() {}"),
            ("a::b", "use super::g; fn f() {}"),
        ],
        &[
            ("", ""),
            ("a", "use self::b::f; fn g() {}"),
            ("a::b", "fn f() { super::g() }"),
        ],
        // The same without a `use`: by the file's name, and by a name that the folder passes on and uses itself.
        &[
            ("", ""),
            ("a", "mod b; fn g() { b::f() }"),
            ("a::b", "use super::g; fn f() {}"),
        ],
        &[
            ("", ""),
            ("a", "mod b; fn g() { for x in b::f() {} }"),
            ("a::b", "use super::g; fn f() {}"),
        ],
        &[
            ("", ""),
            ("a", "mod b; fn g() { h(..b::N) }"),
            ("a::b", "use super::g; const N: u8 = 0;"),
        ],
        &[
            ("", ""),
            ("a", "pub(crate) use b::f; fn g() { b::f() }"),
            ("a::b", "use super::g; fn f() {}"),
        ],
        &[
            ("", ""),
            ("a", "pub use b::f; fn g() { f() }"),
            ("a::b", "use super::g; fn f() {}"),
        ],
        // By the name of a module that was imported, which passes on what another file defines.
        &[
            ("", ""),
            ("a", "use crate::b; fn g() { b::f() }"),
            ("b", "mod c; pub use c::f;"),
            ("b::c", "use crate::a::g; fn f() {}"),
        ],
        // By the name of a module that another file passes on, or that was imported, also in the next `use`.
        &[
            ("", "pub use b::c;"),
            ("a", "fn g() { crate::c::f() }"),
            ("b", "pub mod c;"),
            ("b::c", "mod d; pub use d::f;"),
            ("b::c::d", "use crate::a::g; fn f() {}"),
        ],
        &[
            ("", ""),
            ("a", "use crate::b; use b::f; fn g() {}"),
            ("b", "mod c; pub use c::f;"),
            ("b::c", "use crate::a::g; fn f() {}"),
        ],
        // By the name that a module within the file passes on.
        &[
            ("", ""),
            (
                "a",
                "mod c { pub(super) use crate::b::f; } fn g() { c::f() }",
            ),
            ("b", "use crate::a::g; fn f() {}"),
        ],
        // By one of all the names of a module.
        &[
            ("", ""),
            ("a", "use crate::b::*; fn g() { f() }"),
            ("b", "mod c; pub use c::f;"),
            ("b::c", "use crate::a::g; fn f() {}"),
        ],
        &[
            ("", ""),
            ("a", "pub(crate) use b::*; mod b; fn g() { f() }"),
            ("a::b", "use super::g; fn f() {}"),
        ],
        &[
            ("", ""),
            ("a", "use super::*; fn g() { b::f() }"),
            ("b", "use super::*; fn f() { a::g() }"),
        ],
        // By one of two names: the other one is for another system, or in another function.
        &[
            ("", ""),
            (
                "a",
                "#[cfg(windows)] pub use b::f; #[cfg(unix)] fn f() {} fn g() { f() }",
            ),
            ("a::b", "use super::g; fn f() {}"),
        ],
        &[
            ("", ""),
            (
                "a",
                "pub use crate::b::f; fn g() { f() } fn h() { use crate::c::f; f() }",
            ),
            ("b", "use crate::a::g; fn f() {}"),
            ("c", "fn f() {}"),
        ],
        // By a macro's name, in a text of an attribute, and as `r#b`.
        &[
            ("", ""),
            ("a", "macro_rules! m { () => { $crate::b::f() } }"),
            ("b", "fn f() { m!() }"),
        ],
        &[
            ("", ""),
            ("a", "macro_rules! m { () => { $crate::b::f() } }"),
            ("b", "fn f() { crate::m!() }"),
        ],
        &[
            ("", ""),
            ("a", "#[serde(with = \"crate::b::f\")] struct G;"),
            ("b", "use crate::a::G; fn f() {}"),
        ],
        &[
            ("", ""),
            ("a", "fn g() { crate::r#b::f() }"),
            ("b", "use crate::a::g; fn f() {}"),
        ],
        // After a `use` that imports nothing.
        &[
            ("", ""),
            ("a", "fn g<'a>() -> impl Sized + use<'a> { crate::b::f() }"),
            ("b", "use crate::a::g; fn f() {}"),
        ],
        &[
            ("", ""),
            ("a", "use crate::b::f; struct G;"),
            ("b", "use crate::c::h; fn f() {}"),
            ("c", "use crate::a::G; fn h() {}"),
        ],
    ];
    for files in rows {
        let found = circles(&made_up(files).imports());
        assert_eq!(found.len(), 1, "{files:?}: {found:?}");
        let (first, way) = &found[0];
        assert_eq!(way.last().map(|import| &import.file), Some(first));
        assert_eq!(describe(first, way).lines().count(), way.len());
    }
    // Of several circles with a common import, one is reported.
    let files = |names: &str| {
        let a = format!("use crate::{{{names}}}; fn g() {{}}");
        let rest = [
            ("b", "use crate::a::g; fn f() {}"),
            ("c", "use crate::b::f; use crate::a::g; fn h() {}"),
        ];
        circles(&made_up(&[&[("a", a.as_str())][..], &rest].concat()).imports()).len()
    };
    assert_eq!(
        (files("b::f"), files("c::h"), files("b::f, c::h")),
        (1, 1, 2)
    );
}

#[test]
fn folders_that_use_each_other_are_a_circle_without_one_of_files() {
    let (a, c) = (
        ("a/mod", "mod b; mod g; use b::h; fn i() {}"),
        ("c/mod", ""),
    );
    let rows: [(&[(&str, &str)], usize); 3] = [
        (
            &[
                ("a/b", "use crate::c::d::f;"),
                ("a/g", "fn g() {}"),
                ("c/d", "fn f() {}"),
                ("c/e", "use crate::a::g::g;"),
            ],
            1,
        ),
        (
            &[
                ("a/b", "use crate::c::d::f;"),
                ("a/g", "fn g() {}"),
                ("c/d", "fn f() {}"),
            ],
            0,
        ),
        // Tests.
        (
            &[
                ("a/b", "use crate::c::d::f;"),
                ("c/d", "fn f() {}"),
                ("c/tests", "use crate::a::b::h;"),
            ],
            0,
        ),
    ];
    for (files, expected) in rows {
        let files = [&[("", ""), a, c][..], files].concat();
        let files = files.iter().map(|(path, text)| {
            let module = path
                .trim_end_matches("/mod")
                .split('/')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect();
            (
                module,
                (PathBuf::from(format!("src/{path}.rs")), (*text).to_owned()),
            )
        });
        let imports = Crate::of(files.collect()).imports();
        assert!(circles(&imports).is_empty());
        let neighbours = between_neighbours(Path::new("src"), &imports);
        assert_eq!(
            neighbours.iter().flat_map(circles).count(),
            expected,
            "{neighbours:?}"
        );
    }
}

#[test]
fn what_is_no_circle_is_not_taken_for_one() {
    let rows: [&[(&str, &str)]; 10] = [
        &[
            ("", "mod a; mod b; pub use a::g;"),
            ("a", "use crate::b::f; fn g() {}"),
            ("b", "fn f() {}"),
        ],
        // A folder that passes on what its files define.
        &[
            ("", ""),
            ("a", "mod b; mod c; pub use b::f;"),
            ("a::b", "fn f() {}"),
            ("a::c", "use super::f;"),
        ],
        // To pass a name on is no use of it.
        &[
            ("", ""),
            ("a", "mod b; pub(crate) use b::f; fn g() { x.f() }"),
            ("a::b", "use super::g; fn f() {}"),
        ],
        // All names of a module, of which the file uses none.
        &[
            ("", ""),
            ("a", "mod b; pub use b::*; fn g() { h() }"),
            ("a::b", "use super::g; fn f() {}"),
        ],
        // A macro of the same name, which is the file's own, or the standard library's.
        &[
            ("", ""),
            (
                "a",
                "use crate::b::f; macro_rules! m { () => {} } fn g() {}",
            ),
            (
                "b",
                "macro_rules! m { () => {} } fn f() { m!(); vec![]; a != b }",
            ),
        ],
        // A file calls one of its folder that does not call it.
        &[
            ("", ""),
            ("a", "mod b; fn g() { b::f() }"),
            ("a::b", "fn f() {}"),
        ],
        // A module within a file.
        &[
            ("", ""),
            ("a", "fn g() {} use b::f;"),
            (
                "a::b",
                "fn f() {} fn g() {} mod c { use super::g; fn h() { super::f() } }",
            ),
        ],
        // Tests may use what they like, and comments and texts name nothing.
        &[
            ("", ""),
            ("a", "use crate::b::f; fn g() {}"),
            ("b", "fn f() {} #[cfg(test)] mod tests { use crate::a::g; }"),
        ],
        &[
            ("", ""),
            ("a", "use crate::b::f; fn g() {}"),
            ("b", "/// [`g`](crate::a::g)\nfn f() { \"crate::a::g\"; }"),
        ],
        &[
            ("", ""),
            ("a", "use crate::b::f; fn g() {}"),
            ("b", "use std::a::g; fn f() { other::a::g() }"),
        ],
    ];
    for files in rows {
        let found = circles(&made_up(files).imports());
        assert!(found.is_empty(), "{files:?}: {found:?}");
    }
}

#[test]
fn dependencies_of_every_kind_are_read() {
    let manifest: toml::Table = toml::from_str(
        "[dependencies]\na = \"1\"\nx = { package = \"b\", version = \"1\" }\n[build-dependencies]\nc = \"1\"\n\
         [target.'cfg(unix)'.dependencies]\nd = \"1\"\n[target.'cfg(unix)'.dev-dependencies]\ne = \"1\"\n",
    )
    .expect("TOML");
    let names: BTreeSet<_> = dependencies(&manifest)
        .into_iter()
        .map(|(_, name)| name)
        .collect();
    assert_eq!(
        names.into_iter().collect::<Vec<_>>(),
        ["a", "b", "c", "d", "e"]
    );
}
