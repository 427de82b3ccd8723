//! The words of a Rust source: names and punctuation, without comments, texts and modules of tests. A text that an attribute takes for a
//! path, as in `with = "crate::time"`, is one.

/// A word of the source, and its line, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// A name, `::`, or another character.
    pub text: String,
    /// The line.
    pub line: usize,
}

/// The words of a source text. Comments, texts and modules that are compiled for tests alone are left out.
pub fn words(source: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let bytes = source.as_bytes();
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => at = end_of_line(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => at = end_of_comment(bytes, at),
            b'"' => {
                at = end_of_text(bytes, at + 1);
                let text = source.get(start + 1..at - 1).unwrap_or_default();
                if words.last().is_some_and(|word: &Word| word.text == "=") && is_path(text) {
                    for name in text.split("::") {
                        words.push(Word {
                            text: name.to_owned(),
                            line,
                        });
                        words.push(Word {
                            text: "::".to_owned(),
                            line,
                        });
                    }
                    words.pop();
                }
            }
            b'\'' => at = end_of_char(bytes, at),
            b'r' | b'b' if starts_raw_text(bytes, at).is_some() => {
                let (hashes, from) = starts_raw_text(bytes, at).unwrap_or_default();
                let end = format!("\"{}", "#".repeat(hashes));
                at = source[from..]
                    .find(&end)
                    .map_or(bytes.len(), |found| from + found + end.len());
            }
            // A name such as `r#type`.
            b'r' if bytes.get(at + 1) == Some(&b'#') => at += 2,
            byte if byte.is_ascii_alphanumeric() || byte == b'_' => {
                while bytes
                    .get(at)
                    .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                {
                    at += 1;
                }
                words.push(Word {
                    text: source[start..at].to_owned(),
                    line,
                });
            }
            b':' if bytes.get(at + 1) == Some(&b':') => {
                words.push(Word {
                    text: "::".to_owned(),
                    line,
                });
                at += 2;
            }
            byte => {
                if !byte.is_ascii_whitespace() && byte.is_ascii() {
                    words.push(Word {
                        text: char::from(byte).to_string(),
                        line,
                    });
                }
                at += 1;
            }
        }
        line += source
            .get(start..at.min(bytes.len()))
            .unwrap_or_default()
            .matches('\n')
            .count();
    }
    without_tests(&words)
}

/// Whether a text is a path of several names.
fn is_path(text: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    text.contains("::") && text.split("::").all(is_name)
}

fn end_of_line(bytes: &[u8], from: usize) -> usize {
    bytes[from..]
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(bytes.len(), |length| from + length)
}

fn end_of_comment(bytes: &[u8], from: usize) -> usize {
    let (mut depth, mut at) = (0, from);
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") if depth == 1 => return at + 2,
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    at
}

fn end_of_text(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

/// The end of a character, or of the mark of a lifetime.
fn end_of_char(bytes: &[u8], from: usize) -> usize {
    if bytes.get(from + 1) == Some(&b'\\') {
        let quote = bytes[from + 3..].iter().position(|byte| *byte == b'\'');
        return quote.map_or(bytes.len(), |length| from + 4 + length);
    }
    // A character has up to four bytes, and a lifetime no quote after it.
    (from + 2..from + 6)
        .find(|at| bytes.get(*at) == Some(&b'\''))
        .map_or(from + 1, |quote| quote + 1)
}

/// The number of `#` of a raw text that starts here, and where its content starts.
fn starts_raw_text(bytes: &[u8], from: usize) -> Option<(usize, usize)> {
    if from > 0 && (bytes[from - 1].is_ascii_alphanumeric() || bytes[from - 1] == b'_') {
        return None;
    }
    let mut at = from + usize::from(bytes[from] == b'b');
    if bytes.get(at) != Some(&b'r') {
        return None;
    }
    at += 1;
    let hashes = bytes[at..].iter().take_while(|byte| **byte == b'#').count();
    (bytes.get(at + hashes) == Some(&b'"')).then_some((hashes, at + hashes + 1))
}

/// Leaves out `#[cfg(test)] mod NAME { … }`, and what else is compiled for tests alone.
fn without_tests(words: &[Word]) -> Vec<Word> {
    let texts: Vec<_> = words.iter().map(|word| word.text.as_str()).collect();
    let mark = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < words.len() {
        if texts[at..].starts_with(&mark) {
            at = end_of_item(&texts, at + mark.len());
        } else {
            kept.push(words[at].clone());
            at += 1;
        }
    }
    kept
}

/// The end of the item that starts here: after its `;`, its `,` or its closing brace.
fn end_of_item(texts: &[&str], from: usize) -> usize {
    let mut depth = 0_usize;
    for (number, text) in texts.iter().enumerate().skip(from) {
        match *text {
            "{" | "(" | "[" => depth += 1,
            "}" if depth == 1 => return number + 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            ";" | "," if depth == 0 => return number + 1,
            _ => {}
        }
    }
    texts.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> String {
        words(source)
            .into_iter()
            .map(|word| word.text)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn comments_texts_and_characters_are_left_out() {
        assert_eq!(texts("a // b\nc /* d /* e */ f */ g"), "a c g");
        assert_eq!(
            texts(r##"x("a \" b", r#"c " d"#, b"e", 'f', '\'', '"') y"##),
            "x ( , , b , , , ) y"
        );
        assert_eq!(
            texts("fn f<'a>(x: &'a str) {}"),
            "fn f < a > ( x : & a str ) { }"
        );
        assert_eq!(texts("crate::a::r#b"), "crate :: a :: b");
        assert_eq!(
            texts(r#"with = "a::b", name = "a::", "c::d""#),
            "with = a :: b , name = ,"
        );
        assert_eq!(words("a\n\n\"x\ny\" b")[1].line, 4);
    }

    #[test]
    fn tests_are_left_out() {
        assert_eq!(
            texts("a; #[cfg(test)] mod tests { use super::*; mod b { c } } d"),
            "a ; d"
        );
        assert_eq!(texts("#[cfg(test)] use a::b; c"), "c");
        assert_eq!(
            texts("#[cfg(all(test, unix))] mod a;"),
            "# [ cfg ( all ( test , unix ) ) ] mod a ;"
        );
    }
}
