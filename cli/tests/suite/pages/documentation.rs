//! The pages of the repository: the things that they name exist, and their statements about the
//! program are true.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use scheduled_events::imds::API_VERSION;
use scheduled_events::policy_file;
use scheduled_events_core::{Action, Document, UnixSeconds, VmNames};

use crate::support::{Folder, VM, document, freeze, with};

/// The root of the repository.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

#[test]
fn the_paths_that_contributing_names_exist() {
    let mut paths = 0;
    let mut errors = Errors::default();
    for line in lines("CONTRIBUTING.md") {
        for path in line.code_spans().filter(|span| is_path(span)) {
            paths += 1;
            if !Path::new(ROOT).join(path).exists() {
                errors.add(&line, format_args!("`{path}` does not exist"));
            }
        }
    }
    errors.check(paths);
}

/// A path starts with a folder of the repository, since pages also name files of a machine.
#[test]
fn the_paths_that_pages_name_exist() {
    let root = Path::new(ROOT);
    // A name in the store of the hub.
    let known = ["hub/machines/HASH"];
    let mut paths = 0;
    let mut errors = Errors::default();
    for line in pages().iter().flat_map(|page| lines(page)) {
        for path in line
            .code_spans()
            .filter(|span| is_path(span) && !known.contains(span))
        {
            let folder = path.split_once('/').map_or("", |(folder, _)| folder);
            let is_ours = !["", "target"].contains(&folder) && root.join(folder).is_dir();
            paths += usize::from(is_ours);
            if is_ours && !root.join(path).exists() {
                errors.add(&line, format_args!("`{path}` does not exist"));
            }
        }
    }
    errors.check(paths);
}

#[test]
fn relative_links_lead_to_files_and_headings() {
    let mut links = 0;
    let mut errors = Errors::default();
    for line in pages()
        .iter()
        .flat_map(|page| lines(page))
        .filter(|line| !line.is_code)
    {
        for target in line.links().filter(|target| !target.contains("://")) {
            links += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if path.is_empty() {
                line.page.clone()
            } else {
                let folder = Path::new(&line.page).parent().expect("a folder");
                folder.join(path).to_str().expect("a plain path").to_owned()
            };
            if !Path::new(ROOT).join(&file).exists() {
                errors.add(&line, format_args!("the link to {path:?} leads nowhere"));
            } else if !anchor.is_empty() && !headings(&file).contains(anchor) {
                errors.add(
                    &line,
                    format_args!("{file} has no heading with the anchor #{anchor}"),
                );
            }
        }
    }
    errors.check(links);
}

#[test]
fn the_make_targets_that_pages_mention_exist() {
    let known = make_targets();
    let mut mentioned = 0;
    let mut errors = Errors::default();
    for line in pages().iter().flat_map(|page| lines(page)) {
        for target in line.make_targets() {
            mentioned += 1;
            if !known.contains(target) {
                errors.add(&line, format_args!("the Makefile has no target {target:?}"));
            }
        }
    }
    errors.check(mentioned);
}

#[test]
fn the_steps_of_the_tiers_are_make_targets() {
    let known = make_targets();
    let mut steps = 0;
    let mut errors = Errors::default();
    for line in lines("tests/steps") {
        let Some(step) = line
            .text
            .split_whitespace()
            .nth(2)
            .filter(|_| !line.text.starts_with('#'))
        else {
            continue;
        };
        steps += 1;
        if !known.contains(step) {
            errors.add(&line, format_args!("the Makefile has no target {step:?}"));
        }
    }
    errors.check(steps);
}

/// Otherwise `tests/setup` without a group leaves one out, or a target names a group that does not
/// exist.
#[test]
fn the_groups_of_the_set_up_are_listed_and_those_of_the_targets_exist() {
    let script = read("tests/setup");
    let (_, cases) = script.split_once("case $1 in").expect("the groups");
    let (cases, rest) = cases.split_once("\n    *)").expect("their end");
    let defined: BTreeSet<_> = cases
        .lines()
        .filter_map(|line| line.strip_prefix("    ")?.split_once(')'))
        .map(|(name, _)| name)
        .filter(|name| !name.starts_with([' ', '#']) && !name.starts_with("tier-"))
        .collect();
    let (_, listed) = rest.split_once("everything='").expect("the list");
    let listed: BTreeSet<_> = listed
        .split('\'')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    assert!(defined.len() > 20, "{defined:?}");
    assert_eq!(defined, listed);
    let makefile = read("Makefile");
    for line in makefile.lines() {
        let Some((_, groups)) = line.split_once("@tests/setup ") else {
            continue;
        };
        for group in groups
            .split_whitespace()
            .filter(|_| !groups.starts_with("--for"))
        {
            assert!(
                defined.contains(group),
                "{line}: tests/setup has no group {group:?}"
            );
        }
    }
}

/// Otherwise it fails on a machine that has only make and Rust.
#[test]
fn every_target_installs_what_it_needs() {
    // They need only a shell, or others do it for them.
    const WITHOUT: [&str; 6] = [
        "help",
        "clean",
        "check",
        "docs",
        "check-version",
        "performance",
    ];
    let makefile = read("Makefile");
    let without = make_targets().into_iter().filter(|target| {
        let (_, rule) = makefile
            .split_once(&format!("\n{target}:"))
            .expect("the rule of a target");
        let mut recipe = rule
            .lines()
            .skip(1)
            .take_while(|line| line.starts_with('\t'));
        !recipe.any(|line| line.starts_with("\t@tests/setup"))
    });
    assert_eq!(
        without.collect::<BTreeSet<_>>(),
        BTreeSet::from(WITHOUT.map(str::to_owned))
    );
}

#[test]
fn every_workspace_and_guide_state_the_same_minimum_rust_version() {
    let manifest: toml::Table = toml::from_str(&read("Cargo.toml")).expect("TOML");
    let version = manifest["workspace"]["package"]["rust-version"]
        .as_str()
        .expect("a version");
    let mut stated = 0;
    let mut errors = Errors::default();
    for line in ["README.md", "docs/use/getting-started.md"]
        .into_iter()
        .flat_map(lines)
    {
        // Python, too, is required in some version "or newer".
        let Some((_, rest)) = line.text.split_once("Rust ") else {
            continue;
        };
        let Some((found, _)) = rest
            .split_once(" or newer")
            .filter(|(found, _)| !found.contains(' '))
        else {
            continue;
        };
        stated += 1;
        if found != version {
            errors.add(
                &line,
                format_args!("Rust {found}, but `rust-version` in Cargo.toml is {version}"),
            );
        }
    }
    for file in [
        "tests/bench/Cargo.toml",
        "tests/bench/poll/Cargo.toml",
        "fuzz/Cargo.toml",
        "fuzz/c-abi/Cargo.toml",
    ] {
        for line in lines(file) {
            let Some(found) = line.text.strip_prefix("rust-version = ") else {
                continue;
            };
            stated += 1;
            if found.trim_matches('"') != version {
                errors.add(
                    &line,
                    format_args!("Rust {found}, but `rust-version` in Cargo.toml is {version}"),
                );
            }
        }
    }
    assert!(
        stated >= 6,
        "found {stated} statements of the minimum version"
    );
    errors.check(stated);
}

#[test]
fn examples_and_signatures_have_the_default_api_version() {
    for file in [
        "docs/use/testing.md",
        "ffi-c/src/session/step.rs",
        "py/examples/drop_in.py",
        "py/python/scheduled_events/_native.pyi",
        "py/src/document/event.rs",
        "py/src/policy.rs",
        "py/src/tracker.rs",
    ] {
        let text = read(file);
        let parts = [
            "api-version=",
            "api_version=\"",
            "api_version='",
            "api_version: str = \"",
        ]
        .into_iter();
        let versions: Vec<_> = parts
            .flat_map(|before| text.split(before).skip(1))
            .collect();
        assert!(!versions.is_empty(), "{file} names no API version");
        assert!(
            versions.iter().all(|rest| rest.starts_with(API_VERSION)),
            "{file} names another version than {API_VERSION}"
        );
    }
}

#[test]
fn the_tests_that_security_names_exist() {
    let targets = make_targets();
    let mut tests = 0;
    let mut errors = Errors::default();
    for line in table("SECURITY.md", "| guarantee | tests |") {
        let Some(cell) = line
            .cells()
            .nth(1)
            .filter(|cell| !cell.starts_with("the compiler:"))
        else {
            continue;
        };
        for test in code_spans(cell) {
            tests += 1;
            let exists = if let Some(target) = test.strip_prefix("make ") {
                targets.contains(target)
            } else if is_path(test) {
                Path::new(ROOT).join(test).exists()
            } else {
                let module = Path::new(ROOT)
                    .join("cli/tests/suite")
                    .join(test.replace("::", "/"));
                module.with_extension("rs").exists() || module.join("mod.rs").exists()
            };
            if !exists {
                errors.add(
                    &line,
                    format_args!("there is no test module, path or make target `{test}`"),
                );
            }
        }
    }
    errors.check(tests);
}

#[test]
fn the_policy_in_the_readme_decides_as_stated_there() {
    let folder = Folder::new();
    let policy = policy_file::load(&folder.file("policy.toml", block("README.md", "toml")))
        .expect("a policy");
    for (duration, machine, expected) in [
        (8, VM, Action::Approve),
        (9, VM, Action::Prepare),
        (-1, VM, Action::Prepare), // Unknown: it matches no rule with a duration.
        (9, "WestNO_9", Action::Hold),
    ] {
        let event = with(
            freeze("a"),
            &serde_json::json!({ "DurationInSeconds": duration, "Resources": [machine] }),
        );
        let body = document(1, &[event]);
        let document = Document::parse(body.as_bytes()).expect("a document");
        let event = document.events().next().expect("an event");
        let decision = policy.decide(&event, VmNames::new(&[VM]), UnixSeconds(0));
        assert_eq!(
            decision.action, expected,
            "README.md, policy.toml: a freeze of {duration} s of {machine}"
        );
    }
}

/// The errors, one line each, with file and line number.
#[derive(Default)]
pub(crate) struct Errors(Vec<String>);

impl Errors {
    pub(crate) fn add(&mut self, line: &Line, error: impl Display) {
        self.0
            .push(format!("{}:{}: {error}", line.page, line.number));
    }

    /// Fails if there are errors, or if nothing was checked because the pages have another form
    /// now.
    #[track_caller]
    pub(crate) fn check(self, checked: usize) {
        assert!(self.0.is_empty(), "\n{}", self.0.join("\n"));
        assert!(checked > 0, "the pages contain nothing to check");
    }
}

/// A line of a file of the repository.
pub(crate) struct Line {
    /// The file's path from the root.
    page: String,
    number: usize,
    pub(crate) text: String,
    /// Whether it is in a block of code.
    is_code: bool,
}

impl Line {
    fn code_spans(&self) -> impl Iterator<Item = &str> {
        code_spans(&self.text)
    }

    /// The targets of its links.
    fn links(&self) -> impl Iterator<Item = &str> {
        self.text
            .split("](")
            .skip(1)
            .filter_map(|rest| Some(rest.split_once(')')?.0))
    }

    /// The targets of `make` in code.
    fn make_targets(&self) -> impl Iterator<Item = &str> {
        let whole = Some(self.text.trim_start_matches("$ ")).filter(|_| self.is_code);
        whole
            .into_iter()
            .chain(self.code_spans().filter(|_| !self.is_code))
            .filter_map(|code| {
                let name = code.strip_prefix("make ")?.split(' ').next()?;
                Some(name).filter(|name| name.starts_with(|first: char| first.is_ascii_lowercase()))
            })
    }

    /// The cells of its row in a table.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &str> {
        self.text.trim_matches('|').split('|').map(str::trim)
    }
}

pub(crate) fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether code on a page is the path of a file or a folder, as far as its form shows.
fn is_path(code: &str) -> bool {
    let plain = code
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte));
    plain && (code.contains('/') || Path::new(code).extension().is_some())
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub(crate) fn lines(page: &str) -> Vec<Line> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (number, text) in (1..).zip(read(page).lines()) {
        let is_fence = text.trim_start().starts_with("```");
        is_code ^= is_fence;
        if !is_fence {
            lines.push(Line {
                page: page.to_owned(),
                number,
                text: text.to_owned(),
                is_code,
            });
        }
    }
    lines
}

/// The rows of the table with this head.
fn table(page: &str, head: &str) -> Vec<Line> {
    let rows = lines(page).into_iter().skip_while(|line| line.text != head);
    // The second row separates the head from the rest.
    rows.skip(2)
        .take_while(|line| line.text.starts_with('|'))
        .collect()
}

/// The only block of code in this language.
fn block(page: &str, language: &str) -> String {
    let (text, fence) = (read(page), format!("\n```{language}\n"));
    let mut blocks = text.split(&fence).skip(1);
    let (Some(block), None) = (blocks.next(), blocks.next()) else {
        panic!("{page}: expected one block of {language}")
    };
    block
        .split_once("\n```")
        .expect("the end of the block")
        .0
        .to_owned()
}

/// The anchors of a page's headings, in GitHub's form.
fn headings(page: &str) -> BTreeSet<String> {
    let titles = lines(page)
        .into_iter()
        .filter(|line| !line.is_code && line.text.starts_with('#'));
    let anchor = |line: Line| {
        let title = line
            .text
            .trim_start_matches('#')
            .trim()
            .to_lowercase()
            .replace(' ', "-");
        title
            .chars()
            .filter(|char| char.is_alphanumeric() || "-_".contains(*char))
            .collect()
    };
    titles.map(anchor).collect()
}

/// The targets of the Makefile that `make help` lists.
pub(crate) fn make_targets() -> BTreeSet<String> {
    let text = read("Makefile");
    let rules = text
        .lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
    rules
        .filter_map(|line| {
            Some(
                line.split_once(':')
                    .filter(|(_, rest)| rest.contains("## "))?
                    .0
                    .to_owned(),
            )
        })
        .collect()
}

/// The Markdown files of the repository, as paths from the root.
pub(crate) fn pages() -> Vec<String> {
    let mut pages = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(Path::new(ROOT).join(&folder)).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().unwrap_or_default();
            let path = folder.join(&name);
            // Without hidden folders and build results.
            if name.is_empty() || name.starts_with('.') || name == "target" {
                continue;
            }
            if entry.file_type().expect("a type").is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path.to_str().expect("a plain path").to_owned());
            }
        }
    }
    pages.sort();
    pages
}
