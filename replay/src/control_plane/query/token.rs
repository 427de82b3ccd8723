//! Splits a query into tokens.

use super::QueryError;

/// A token, with its offset in the query.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A name, or a word that means something, such as `where`.
    Word(String),
    Text(String),
    Number(f64),
    /// Brackets, separators and operators that are no words.
    Sign(&'static str),
}

/// Longer signs come before their beginnings.
const SIGNS: [&str; 17] =
    ["==", "=~", "!=", "!~", "<=", ">=", "in~", "!in~", "!in", "|", ",", "(", ")", "[", "]", ".", "="];

/// All tokens with their offsets. Comments are left out.
pub(super) fn tokens(query: &str) -> Result<Vec<(usize, Token)>, QueryError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = query[at..].chars().next() {
        let rest = &query[at..];
        let (token, length) = if first.is_whitespace() {
            (None, first.len_utf8())
        } else if rest.starts_with("//") {
            (None, rest.find('\n').unwrap_or(rest.len()))
        } else if matches!(first, '"' | '\'') {
            let (text, length) = quoted(rest, first).ok_or_else(|| {
                QueryError(format!("found a text without a second quotation mark at character {at}: add one"))
            })?;
            (Some(Token::Text(text)), length)
        } else if first.is_ascii_digit() || first == '-' {
            let length = 1 + rest[1..].find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len() - 1);
            let number = rest[..length].parse().map_err(|_| unexpected(rest, at))?;
            (Some(Token::Number(number)), length)
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign) && ends_here(rest, sign)) {
            (Some(Token::Sign(sign)), sign.len())
        } else if matches!(first, '<' | '>') {
            (Some(Token::Sign(if first == '<' { "<" } else { ">" })), 1)
        } else if first.is_alphabetic() || first == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            (Some(Token::Word(rest[..length].to_owned())), length)
        } else {
            return Err(unexpected(rest, at));
        };
        tokens.extend(token.map(|token| (at, token)));
        at += length;
    }
    Ok(tokens)
}

/// Whether a sign that ends with a letter is no beginning of a name.
fn ends_here(rest: &str, sign: &str) -> bool {
    let next = rest[sign.len()..].chars().next();
    !sign.ends_with(char::is_alphabetic) || next.is_none_or(|next| !next.is_alphanumeric())
}

/// The text at the start of `rest`, and its length with the quotation marks.
fn quoted(rest: &str, mark: char) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, found)) = chars.next() {
        match found {
            '\\' => text.push(match chars.next()?.1 {
                'n' => '\n',
                't' => '\t',
                other => other,
            }),
            _ if found == mark => return Some((text, at + found.len_utf8())),
            _ => text.push(found),
        }
    }
    None
}

fn unexpected(rest: &str, at: usize) -> QueryError {
    let found = rest.chars().next().unwrap_or_default();
    QueryError(format!("found `{found}` at character {at}, which this emulator does not support"))
}
