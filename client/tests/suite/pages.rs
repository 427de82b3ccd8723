//! The documentation: the files that it names exist, and facts that it repeats agree with the code.

use std::fs;
use std::path::{Path, PathBuf};

use scheduled_events::imds::API_VERSION;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Folders of the repository. A code span that starts with one names a file or a folder.
const FOLDERS: &[&str] =
    &["bench", "client", "core", "docs", "examples", "ffi-c", "fuzz", "include", "py", "tests", ".ci", ".cargo"];

#[test]
fn the_files_that_the_documentation_names_exist() {
    let mut named = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        let folder = page.parent().expect("a folder");
        for path in links(&text).map(|link| folder.join(link)).chain(code_paths(&text).map(|path| root(path))) {
            assert!(path.exists(), "{} names {}, which does not exist", page.display(), path.display());
            named += 1;
        }
    }
    assert!(named > 50, "only {named} files are named");
}

#[test]
fn examples_and_signatures_have_the_default_api_version() {
    for file in [
        "README.md",
        "examples/c/agent.c",
        "examples/c/agent.cc",
        "ffi-c/src/step.rs",
        "py/examples/drop_in.py",
        "py/python/scheduled_events/__init__.pyi",
        "py/src/event.rs",
        "py/src/policy.rs",
        "py/src/session.rs",
        "py/src/tracker.rs",
    ] {
        let text = fs::read_to_string(root(file)).expect(file);
        let parts = ["api-version=", "api_version=\"", "api_version: str = \""].into_iter();
        let versions: Vec<_> = parts.flat_map(|before| text.split(before).skip(1)).collect();
        assert!(!versions.is_empty(), "{file} names no API version");
        assert!(
            versions.iter().all(|rest| rest.starts_with(API_VERSION)),
            "{file} names another version than {API_VERSION}"
        );
    }
}

fn root(path: &str) -> PathBuf {
    Path::new(ROOT).join(path)
}

/// The pages in the root, in `docs` and in other folders.
fn pages() -> impl Iterator<Item = PathBuf> {
    let folders = ["", "docs", "core", "py", "tests/c", "tests/conformance"];
    let files = folders.into_iter().flat_map(|folder| fs::read_dir(root(folder)).expect(folder));
    files.map(|file| file.expect("an entry").path()).filter(|path| path.extension().is_some_and(|end| end == "md"))
}

/// The targets of the links to files, without fragments.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|target| !target.is_empty() && !target.contains("://") && !target.contains(' '))
}

/// The code spans that are paths in the repository.
fn code_paths(page: &str) -> impl Iterator<Item = &str> {
    let spans = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.filter(|span| {
        let is_path = span.chars().all(|char| char.is_ascii_alphanumeric() || "/._-".contains(char));
        is_path && span.split_once('/').is_some_and(|(folder, _)| FOLDERS.contains(&folder))
    })
}
