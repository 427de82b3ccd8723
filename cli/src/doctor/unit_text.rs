//! The text of a unit of systemd.

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
