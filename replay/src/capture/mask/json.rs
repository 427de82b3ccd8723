//! The texts of a body that is JSON, or begins so.

use std::ops::Range;

/// A text of JSON.
pub(super) struct Literal {
    /// The name of the member that a value belongs to; of a name, the one of the member whose object has it.
    pub(super) member: String,
    pub(super) text: String,
    /// Where it is, with its quotes.
    pub(super) range: Range<usize>,
    /// Whether it is the name of a member.
    pub(super) is_key: bool,
    /// Whether its end is missing.
    pub(super) is_cut: bool,
}

/// All texts, also of JSON that is cut off or has an invalid escape.
pub(super) fn literals(json: &str) -> Vec<Literal> {
    let mut found = Vec::new();
    let mut key = String::new();
    // The names of the members whose objects and lists are open.
    let mut outer: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(start) = json[at..].find('"').map(|start| at + start) {
        for byte in json[at..start].bytes() {
            match byte {
                b'{' | b'[' => outer.push(key.clone()),
                b'}' | b']' => key = outer.pop().unwrap_or_default(),
                _ => {}
            }
        }
        let mut end = start + 1;
        let (mut is_escaped, mut is_cut) = (false, true);
        for byte in json[start + 1..].bytes() {
            end += 1;
            if !is_escaped && byte == b'"' {
                is_cut = false;
                break;
            }
            is_escaped = !is_escaped && byte == b'\\';
        }
        // One that is cut off, or has an invalid escape, is masked as it is.
        let text = serde_json::from_str(&json[start..end])
            .unwrap_or_else(|_| json[start + 1..end].trim_end_matches('"').to_owned());
        let is_key = json[end..].trim_start().starts_with(':');
        let member = if is_key {
            outer.last().cloned().unwrap_or_default()
        } else {
            key.clone()
        };
        if is_key {
            key.clone_from(&text);
        }
        let range = start..end;
        found.push(Literal {
            member,
            text,
            range,
            is_key,
            is_cut,
        });
        at = end;
    }
    found
}
