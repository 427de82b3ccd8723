//! `tests/microsoft-rules.md`: the files and functions that it names exist, its sums are right, and where
//! copies of Microsoft's documents are beside the repository, they contain its quotations. The tables of
//! `tests/fleet-failures.md`, `tests/hub-failures.md` and `tests/field-faults.md` name tests that exist, too.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::pages::documentation::{Errors, Line, ROOT, code_spans, lines, make_targets, read};

const PAGE: &str = "tests/microsoft-rules.md";

/// The rows of the page's tables, each with the document's file name.
fn rows() -> Vec<(String, Line)> {
    let mut document = String::new();
    let mut rows = Vec::new();
    for line in lines(PAGE) {
        if let Some(rest) = line.text.strip_prefix("The copy is `") {
            rest.trim_end_matches("`.").clone_into(&mut document);
        } else if line.text.starts_with("| ") && !line.text.starts_with("| words ") {
            rows.push((document.clone(), line));
        }
    }
    rows
}

/// The folder with copies of the documents, if there is one beside the repository.
fn references() -> Option<PathBuf> {
    let root = Path::new(ROOT).canonicalize().expect("the repository");
    root.ancestors()
        .skip(1)
        .map(|folder| folder.join("shared/references"))
        .find(|folder| folder.is_dir())
}

/// Checks that the names in a cell exist: targets of the Makefile, files, and functions in files.
fn check_names(line: &Line, cell: &str, targets: &BTreeSet<String>, errors: &mut Errors) {
    let mut named = 0;
    for span in code_spans(cell) {
        named += 1;
        let (path, function) = span.split_once("::").unwrap_or((span, ""));
        if let Some(target) = span.strip_prefix("make ") {
            if !targets.contains(target) {
                errors.add(line, format_args!("the Makefile has no target {target:?}"));
            }
        } else if !Path::new(ROOT).join(path).exists() {
            errors.add(line, format_args!("`{path}` does not exist"));
        } else if !function.is_empty() {
            let text = read(path);
            if !["fn", "def"]
                .iter()
                .any(|keyword| text.contains(&format!("{keyword} {function}(")))
            {
                errors.add(line, format_args!("`{path}` has no function `{function}`"));
            }
        }
    }
    if named == 0 {
        errors.add(line, "the row names nothing that covers the rule");
    }
}

/// Checks the table of a page: in each row, the last cell names what covers the fault in the one before it.
fn check_page(page: &str, rows_min: usize) {
    let targets = make_targets();
    let mut errors = Errors::default();
    let rows = lines(page)
        .into_iter()
        .filter(|line| line.text.starts_with("| "));
    let mut checked = 0;
    for line in rows.skip(1) {
        match line.cells().collect::<Vec<_>>()[..] {
            [_, tests] => check_names(&line, tests, &targets, &mut errors),
            _ => errors.add(&line, "the row has no two cells"),
        }
        checked += 1;
    }
    assert!(checked >= rows_min, "{checked} rows");
    errors.check(checked);
}

#[test]
fn what_covers_a_failure_of_a_fleet_exists() {
    check_page("tests/fleet-failures.md", 20);
}

#[test]
fn what_covers_a_failure_of_the_hub_exists() {
    check_page("tests/hub-failures.md", 27);
}

#[test]
fn what_covers_a_fault_of_the_field_exists() {
    check_page("tests/field-faults.md", 16);
}

#[test]
fn what_covers_a_rule_exists_and_the_sums_are_right() {
    let targets = make_targets();
    let (mut covered, mut outside, mut open) = (0, 0, 0);
    let mut errors = Errors::default();
    for (_, line) in rows() {
        let cells: Vec<_> = line.cells().collect();
        let [_, cover] = cells[..] else {
            errors.add(&line, "the row has no two cells");
            continue;
        };
        if cover.starts_with("outside: ") {
            outside += 1;
            continue;
        }
        if cover.starts_with("open: ") {
            open += 1;
            continue;
        }
        covered += 1;
        check_names(&line, cover, &targets, &mut errors);
    }
    errors.check(covered);
    let sums = format!(
        "{} rows: {covered} covered, {outside} outside, {open} open.",
        covered + outside + open
    );
    assert!(read(PAGE).contains(&sums), "{PAGE}: {sums}");
}

#[test]
fn the_words_of_each_rule_are_in_its_document() {
    let Some(folder) = references() else {
        println!("there are no copies of Microsoft's documents beside the repository");
        return;
    };
    let mut checked = 0;
    let mut errors = Errors::default();
    for (document, line) in rows() {
        let text = fs::read_to_string(folder.join(&document))
            .unwrap_or_else(|error| panic!("{document}: {error}"));
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = line.cells().next().expect("a cell").to_owned();
        checked += 1;
        if !text.contains(&words) {
            errors.add(&line, format_args!("{document} has no words {words:?}"));
        }
    }
    errors.check(checked);
}
