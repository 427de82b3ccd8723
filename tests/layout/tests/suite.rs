//! The layout: which crate may use which, no circle of modules, no file or folder that is too large, and no public function of core
//! that the proof against panics leaves out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders of all crates, and the crates of this project that each may use. A crate follows those that it uses.
const CRATES: [(&str, &[&str]); 25] = [
    ("core", &[]),
    ("client/windows", &[]),
    ("client", &["core", "client/windows"]),
    ("replay", &["core", "client/windows"]),
    ("replay/page", &["replay"]),
    ("ffi-c", &["core"]),
    ("ffi-c/header", &[]),
    ("ffi-c/bare-metal", &["core"]),
    ("cli/text", &["core"]),
    (
        "cli",
        &["core", "client/windows", "client", "replay", "cli/text"],
    ),
    ("py", &["core", "client", "replay", "cli"]),
    ("services/common", &["core", "client", "cli/text"]),
    (
        "services/gate",
        &["core", "client", "cli/text", "services/common"],
    ),
    ("services/node", &["core", "cli/text", "services/common"]),
    (
        "services/relay",
        &["core", "client", "cli/text", "services/common"],
    ),
    (
        "services/fleet",
        &[
            "services/common",
            "services/gate",
            "services/node",
            "services/relay",
        ],
    ),
    (
        "services/hub",
        &[
            "core",
            "client",
            "cli/text",
            "services/common",
            "services/gate",
        ],
    ),
    ("fuzz/c-abi", &["core"]),
    ("fuzz", &["core", "fuzz/c-abi"]),
    ("tests/bench", &["core"]),
    ("tests/bench/boundary", &["core"]),
    ("tests/bench/poll", &["client", "tests/bench"]),
    ("tests/no-panic", &["core"]),
    ("tests/support", &[]),
    ("tests/layout", &[]),
];

/// What only the tests of a crate use in addition; `tests/support` is for all of them.
const FOR_TESTS: [(&str, &str); 2] = [("client", "replay"), ("services/fleet", "core")];

/// The most lines of a source file. The usual size is 150 to 600.
const LINES_MAX: usize = 1000;

/// The most source files next to each other in a folder of sources.
const FILES_MAX: usize = 20;

/// Files that are longer, and why.
const LONG: [(&str, &str); 2] = [
    (
        "include/scheduled_events.h",
        "generated, and one file for those who include it",
    ),
    (
        "include/scheduled_events.hpp",
        "one file for those who include it or copy it",
    ),
];

#[test]
fn each_crate_depends_only_on_crates_before_it() {
    let manifests = CRATES.map(|(folder, _)| (folder, manifest(folder)));
    let folders: BTreeMap<String, &str> = manifests
        .iter()
        .map(|(folder, manifest)| (text(&manifest["package"]["name"]), *folder))
        .collect();
    let (mut wrong, mut found, mut before) = (String::new(), 0, BTreeSet::new());
    for ((folder, allowed), (_, manifest)) in CRATES.iter().zip(&manifests) {
        assert!(
            allowed.iter().all(|used| before.contains(used)),
            "{folder} comes before what it uses"
        );
        before.insert(*folder);
        for (kind, name) in dependencies(manifest) {
            let Some(used) = folders.get(&name) else {
                continue;
            };
            found += 1;
            let for_tests = kind == "dev-dependencies"
                && (*used == "tests/support" || FOR_TESTS.contains(&(*folder, *used)));
            if !allowed.contains(used) && !for_tests {
                let _ = writeln!(wrong, "{folder} may not use {used} ({kind})");
            }
        }
    }
    assert!(found > 20, "found {found} dependencies");
    assert!(
        wrong.is_empty(),
        "{wrong}The layers are in CRATES here, and in CONTRIBUTING.md."
    );
}

#[test]
fn the_table_of_layers_and_that_of_contributing_name_each_crate() {
    let page = read(&root().join("CONTRIBUTING.md"));
    let folders = CRATES.map(|(folder, _)| folder);
    for path in below(&root(), &["toml"]) {
        let folder = name(path.parent().expect("a folder"));
        let is_crate = path.ends_with("Cargo.toml") && read(&path).contains("[package]");
        let is_data = folder.starts_with("fuzz/corpus") || folder.starts_with("examples");
        assert!(
            !is_crate || is_data || folders.contains(&&*folder),
            "CRATES lacks {folder}"
        );
    }
    for folder in folders {
        assert!(
            page.contains(&format!("`{folder}/`")),
            "CONTRIBUTING.md lacks {folder}/"
        );
    }
}

/// A crate that is used through another one counts, too.
#[test]
fn libraries_and_command_have_neither_a_runtime_nor_tls() {
    let heavy = [
        "tokio",
        "rustls",
        "openssl-sys",
        "native-tls",
        "reqwest",
        "flate2",
    ];
    let rows: [(&str, &[&str], &[&str]); 6] = [
        (
            "scheduled-events",
            &["scheduled-events-core", "ureq", "serde_core"],
            &["scheduled-events-replay", "scheduled-events-cli", "clap"],
        ),
        ("scheduled-events-core", &["heapless"], &["ureq", "clap"]),
        ("scheduled-events-replay", &["httparse"], &["ureq", "clap"]),
        ("scheduled-events-cli", &["clap", "ureq"], &[]),
        (
            "scheduled-events-c",
            &["scheduled-events-core"],
            &["ureq", "clap"],
        ),
        ("scheduled-events-py", &["pyo3", "clap"], &[]),
    ];
    for (package, expected, unwanted) in rows {
        let used = tree(package);
        for other in expected {
            assert!(used.contains(*other), "{package} lacks {other}: {used:?}");
        }
        for other in heavy.iter().chain(unwanted) {
            assert!(!used.contains(*other), "{package} uses {other}");
        }
    }
}

#[test]
fn no_modules_of_a_crate_use_each_other_in_a_circle() {
    let (mut found, mut arrows) = (String::new(), 0);
    for (folder, _) in CRATES {
        let uses = uses_of_modules(folder);
        arrows += uses.len();
        // What nothing is left to use is in no circle. What remains in the end is in one, or leads to one.
        let mut left = uses.clone();
        loop {
            let using: BTreeSet<_> = left.iter().map(|(user, _)| user.clone()).collect();
            let before = left.len();
            left.retain(|(_, used)| using.contains(used));
            if left.len() == before {
                break;
            }
        }
        for (user, used) in left {
            let _ = writeln!(found, "{folder}: {user} uses {used}");
        }
    }
    assert!(arrows > 150, "found {arrows} uses");
    assert!(
        found.is_empty(),
        "{found}These form a circle, or lead to one. Move what both need below both, or let the lower module take a function."
    );
}

#[test]
fn the_arrows_of_contributing_lead_to_modules_that_use_what_they_come_from() {
    let page = read(&root().join("CONTRIBUTING.md"));
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
        let groups: Vec<Vec<_>> = line
            .split("──►")
            .map(|group| group.trim_matches([' ', '─', '┘']).split(", "))
            // A name of two words is another crate's.
            .map(|group| group.filter(|name| !name.contains(' ')).collect())
            .collect();
        for name in groups.iter().flatten().filter(|name| !name.is_empty()) {
            if !modules(folder).contains(*name) && !["lib", "main"].contains(name) {
                let _ = writeln!(wrong, "{folder} has no module {name}");
            }
        }
        for (from, to) in groups.iter().zip(groups.iter().skip(1)) {
            arrows += 1;
            let is_use = |to: &str, from: &str| uses.contains(&(to.to_owned(), from.to_owned()));
            let pairs = || {
                from.iter()
                    .flat_map(|from| to.iter().map(move |to| (*from, *to)))
            };
            let known = from.iter().all(|name| !name.is_empty()) && !from.is_empty();
            let is_module = |name: &&str| !["lib", "main"].contains(name);
            if known
                && to.iter().chain(from).all(is_module)
                && !pairs().any(|(from, to)| is_use(to, from))
            {
                let _ = writeln!(wrong, "{folder}: none of {to:?} uses one of {from:?}");
            }
            for (from, to) in pairs().filter(|(from, to)| is_use(from, to)) {
                let _ = writeln!(
                    wrong,
                    "{folder}: {from} uses {to}, and the arrow leads there"
                );
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

/// What the proof leaves out: serde-json-core, which the feature `json` brings, indexes slices.
const NOT_PROVED: &str = "core/src/record/json.rs";

/// What `make prove-no-panic` proves is what this program calls.
#[test]
fn the_program_that_cannot_panic_calls_each_public_function_of_core() {
    let code = |folder: &str| -> String {
        let files = below(&root().join(folder), &["rs"]);
        files
            .iter()
            .filter(|file| !file.ends_with(NOT_PROVED))
            .map(|file| without_comments(&read(file)))
            .collect()
    };
    let is_name = |char: char| char.is_alphanumeric() || char == '_';
    let (library, program) = (code("core/src"), code("tests/no-panic/src"));
    let mut public = BTreeSet::new();
    for start in ["pub fn ", "pub const fn "] {
        for (_, rest) in library
            .match_indices(start)
            .map(|(at, _)| library[at..].split_at(start.len()))
        {
            public.insert(rest.split(|char| !is_name(char)).next().expect("a name"));
        }
    }
    assert!(public.len() > 100, "found {} functions", public.len());
    // A call, or the function as an argument: `.name(`, `::name(`, `::name)`, `::name::<`.
    let is_called = |name: &&&str| {
        program.match_indices(**name).any(|(at, _)| {
            let (before, after) = (&program[..at], &program[at + name.len()..]);
            before.ends_with(['.', ':'])
                && (after.starts_with(['(', ')']) || after.starts_with("::"))
        })
    };
    let missing: Vec<_> = public.iter().filter(|name| !is_called(name)).collect();
    assert!(
        missing.is_empty(),
        "no file of tests/no-panic/src calls {missing:?}"
    );
}

#[test]
fn the_table_of_a_folder_names_each_entry() {
    for folder in ["tests", "packaging"] {
        let page = read(&root().join(folder).join("README.md"));
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
    let sources = [
        "rs", "py", "pyi", "c", "cc", "h", "in", "hpp", "js", "mjs", "css", "sh",
    ];
    let (mut wrong, mut folders) = (String::new(), BTreeMap::<String, usize>::new());
    let files = below(&root(), &sources);
    assert!(files.len() > 300, "found {} files", files.len());
    for path in files {
        let (file, lines) = (name(&path), read(&path).lines().count());
        let is_long = LONG.iter().any(|(long, _)| *long == file);
        if (lines > LINES_MAX) != is_long {
            let _ = writeln!(
                wrong,
                "{file} has {lines} lines: up to {LINES_MAX} are allowed, and LONG has all that are longer"
            );
        }
        if file.contains("src/") {
            *folders
                .entry(name(path.parent().expect("a folder")))
                .or_default() += 1;
        }
    }
    for (folder, count) in folders.iter().filter(|(_, count)| **count > FILES_MAX) {
        let _ = writeln!(
            wrong,
            "{folder} has {count} source files, at most {FILES_MAX} are allowed: make folders of them"
        );
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A path from the root of the repository.
fn name(path: &Path) -> String {
    let below_root = path.strip_prefix(root()).expect("a path below the root");
    below_root.to_string_lossy().into_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files below a folder that end so, without hidden ones, what was built, and what was downloaded.
fn below(folder: &Path, ends: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder)
        .expect("a folder")
        .flatten()
        .map(|entry| entry.path())
    {
        let own = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_other =
            own.starts_with('.') || ["target", "node_modules", "__pycache__"].contains(&&*own);
        if path.is_dir() && !path.is_symlink() && !is_other {
            found.extend(below(&path, ends));
        } else if path
            .extension()
            .is_some_and(|end| ends.iter().any(|wanted| end == *wanted))
        {
            found.push(path);
        }
    }
    found
}

/// The modules of a crate: the files and folders next to its `lib.rs`.
fn modules(folder: &str) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(root().join(folder).join("src")) else {
        return BTreeSet::new();
    };
    let stem = |path: PathBuf| {
        path.file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned()
    };
    let names = entries.flatten().map(|entry| stem(entry.path()));
    names
        .filter(|name| name != "lib" && name != "main")
        .collect()
}

/// Which modules of a crate name which, as `crate::name`. Tests may name all.
fn uses_of_modules(folder: &str) -> BTreeSet<(String, String)> {
    let sources = root().join(folder).join("src");
    let modules = modules(folder);
    let mut uses = BTreeSet::new();
    for module in &modules {
        let file = sources.join(module).with_extension("rs");
        let files = if file.exists() {
            vec![file]
        } else {
            below(&sources.join(module), &["rs"])
        };
        for path in files.iter().filter(|path| !name(path).contains("/tests")) {
            let code = without_comments(&read(path));
            let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            // `use crate::{a, b::c};` names a and b.
            for part in code.split("crate::").skip(1) {
                let group = part
                    .strip_prefix('{')
                    .and_then(|group| group.split_once("};"));
                let names = group.map_or(part, |(group, _)| group);
                let count = if group.is_some() { usize::MAX } else { 1 };
                for name in names
                    .split(", ")
                    .flat_map(|name| name.split(",\n"))
                    .take(count)
                {
                    let is_name = |char: char| char.is_alphanumeric() || char == '_';
                    let name = name
                        .trim()
                        .split(|char| !is_name(char))
                        .next()
                        .unwrap_or_default();
                    if modules.contains(name) && name != module {
                        uses.insert((module.clone(), name.to_owned()));
                    }
                }
            }
        }
    }
    uses
}

fn without_comments(code: &str) -> String {
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The packages that a package is built from, without those of its tests.
fn tree(package: &str) -> BTreeSet<String> {
    let mut tree = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tree.args([
        "tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}",
    ]);
    tree.args(["--package", package]).current_dir(root());
    let output = tree.output().expect("cargo");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect()
}

fn manifest(folder: &str) -> toml::Table {
    toml::from_str(&read(&root().join(folder).join("Cargo.toml"))).expect("TOML")
}

fn text(value: &toml::Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// The packages that a crate depends on, on any system, each with the kind of dependency. None is renamed.
fn dependencies(manifest: &toml::Table) -> Vec<(&'static str, String)> {
    let systems = manifest.get("target").and_then(toml::Value::as_table);
    let systems = systems
        .into_iter()
        .flatten()
        .filter_map(|(_, table)| table.as_table());
    let mut found = Vec::new();
    for table in systems.chain([manifest]) {
        for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
            for (name, entry) in table
                .get(kind)
                .and_then(toml::Value::as_table)
                .into_iter()
                .flatten()
            {
                assert!(entry.get("package").is_none(), "{name} is renamed");
                found.push((kind, name.clone()));
            }
        }
    }
    found
}
