//! The text of a unit of systemd, and what is said about it.

#[cfg(unix)]
use super::check::{Check, Finding};

/// As whom a unit is checked, without settings of these keys.
#[cfg(unix)]
pub(super) fn checked_as(name: &str, user: &str, left_out: &[String]) -> Finding {
    let found = format!("{name}: checked as {user}");
    if left_out.is_empty() {
        return Finding::ok(Check::Unit, found);
    }
    let found = format!(
        "{found}, without {}, in which only systemd replaces a word with %",
        left_out.join(", ")
    );
    let advice = "write the value without %, or check by hand what it allows";
    Finding::warn(Check::Unit, found, advice)
}

/// The lines without comments, with those joined that end in a backslash.
pub(super) fn logical_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut continues = false;
    for line in text.lines().map(str::trim) {
        // A comment between continued lines is skipped.
        if line.starts_with(['#', ';']) {
            continue;
        }
        let (part, more) = match line.strip_suffix('\\') {
            Some(part) => (part.trim_end(), true),
            None => (line, false),
        };
        match lines.last_mut().filter(|_| continues) {
            Some(last) => {
                last.push(' ');
                last.push_str(part);
            }
            None => lines.push(part.to_owned()),
        }
        continues = more;
    }
    lines.retain(|line| !line.is_empty());
    lines
}
