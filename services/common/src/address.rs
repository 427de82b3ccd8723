//! Addresses in settings and in messages.
//!
//! User information, a query and a fragment can be secrets, such as the signature of a SAS token.
//! No message shows them.

use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use reqwest::Url;

/// What messages show in place of a secret.
pub const HIDDEN: &str = "***";

/// The characters, besides white space, that end an address in a text.
const ENDS: [char; 5] = ['"', '\'', '`', '<', '>'];

/// Punctuation of the sentence, if an address ends with it.
const PUNCTUATION: [char; 5] = [')', ',', ';', ':', '.'];

/// Why paths cannot be appended to an address. No sentence has the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressError {
    /// It is no URL.
    NotUrl(<Url as FromStr>::Err),
    /// It has another scheme, or no host.
    NotHttp,
    /// It has a user or a password.
    HasUser,
    /// It has a query or a fragment.
    HasQuery,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotUrl(error) => return error.fmt(f),
            Self::NotHttp => "it begins with neither http:// nor https://",
            Self::HasUser => "it has a user or a password",
            Self::HasQuery => "it has a query or a fragment",
        })
    }
}

impl Error for AddressError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotUrl(error) => error.source(),
            Self::NotHttp | Self::HasUser | Self::HasQuery => None,
        }
    }
}

/// Checks the address of a server to which paths are appended.
///
/// # Errors
/// It is no HTTP address, or it has user information, a query or a fragment.
pub fn check(address: &str) -> Result<Url, AddressError> {
    let url = Url::parse(address).map_err(AddressError::NotUrl)?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(AddressError::NotHttp);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(AddressError::HasUser);
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(AddressError::HasQuery);
    }
    Ok(url)
}

/// Whether a secret may be sent to this address: over TLS, or within this machine.
pub fn is_private(url: &Url) -> bool {
    url.scheme() == "https" || is_here(url)
}

/// Whether the server is on this machine.
pub fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost"
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// The address as messages show it: without user information, query and fragment. The address may
/// be invalid.
pub fn shown(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else {
        let is_plain = !address.contains(['@', '?', '#', '=']);
        return if is_plain {
            address.to_owned()
        } else {
            HIDDEN.to_owned()
        };
    };
    let (place, query) = match rest.find(['?', '#']) {
        Some(end) => (&rest[..end], Some(&rest[end..])),
        None => (rest, None),
    };
    // The text after the `@` may belong to the password.
    if query.is_some_and(|query| query.contains('@')) {
        return format!("{scheme}://{HIDDEN}");
    }
    let place = place
        .rsplit_once('@')
        .map_or(place.to_owned(), |(_, place)| format!("{HIDDEN}@{place}"));
    let query = query.map_or(String::new(), |query| format!("{}{HIDDEN}", &query[..1]));
    format!("{scheme}://{place}{query}")
}

/// The text with each address as [`shown`] returns it, and without signatures of SAS tokens.
pub fn without_secrets(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(colon) = rest.find("://") {
        let in_scheme =
            |found: char| found.is_ascii_alphanumeric() || matches!(found, '+' | '-' | '.');
        let start = rest[..colon].trim_end_matches(in_scheme).len();
        let end = end(&rest[colon..]).map_or(rest.len(), |end| colon + end);
        let address = rest[start..end].trim_end_matches(PUNCTUATION);
        result.push_str(&rest[..start]);
        result.push_str(&shown(address));
        rest = &rest[start + address.len()..];
        if address.len() < colon + 3 - start {
            // Only punctuation follows the scheme.
            let skipped = (colon + 3 - start - address.len()).min(rest.len());
            result.push_str(&rest[..skipped]);
            rest = &rest[skipped..];
        }
    }
    result.push_str(rest);
    without_signatures(&result)
}

/// Where the address at the start of a text ends. A quotation mark after a backslash belongs to the
/// address.
fn end(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (index, found) in text.char_indices() {
        if !is_escaped && (found.is_whitespace() || ENDS.contains(&found)) {
            return Some(index);
        }
        is_escaped = found == '\\' && !is_escaped;
    }
    None
}

/// The text with the value of each `sig=` removed.
fn without_signatures(text: &str) -> String {
    const MEMBER: &str = "sig=";
    let mut parts = text.split(MEMBER);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let in_value = |found: char| {
            found.is_ascii_alphanumeric() || matches!(found, '%' | '+' | '/' | '=' | '-' | '_')
        };
        let after = part.trim_start_matches(in_value);
        result.push_str(MEMBER);
        result.push_str(if after.len() < part.len() { HIDDEN } else { "" });
        result.push_str(after);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_address_has_its_server_and_no_secret() {
        for (address, expected) in [
            ("https://example.com/fleet", "https://example.com/fleet"),
            (
                "https://user:secret@example.com:1/x",
                "https://***@example.com:1/x",
            ),
            ("https://secret@example.com", "https://***@example.com"),
            ("https://a@secret@example.com", "https://***@example.com"),
            ("https://a/secret@example.com/", "https://***@example.com/"),
            (
                "https://example.com/x?sv=1&sig=secret",
                "https://example.com/x?***",
            ),
            ("https://example.com/x#secret", "https://example.com/x#***"),
            ("https://user:se?cret@example.com/", "https://***"),
            ("https://example.com/?a=secret@secret", "https://***"),
            ("user:secret@example.com", "***"),
            ("?sv=1&sig=secret", "***"),
            ("169.254.169.254", "169.254.169.254"),
            ("", ""),
        ] {
            assert_eq!(shown(address), expected);
        }
    }

    #[test]
    fn a_text_keeps_what_is_no_secret() {
        for (text, expected) in [
            (
                "for url (http://a/x?secret=1): refused",
                "for url (http://a/x?***): refused",
            ),
            (
                "found \"https://u:s@a/\", expected https://b.",
                "found \"https://***@a/\", expected https://b.",
            ),
            (
                r#"found "https://u:s\"ecret@a/", so"#,
                r#"found "https://***@a/", so"#,
            ),
            (
                "signed sv=1&sig=ab%2Bsecret%3D and more",
                "signed sv=1&sig=*** and more",
            ),
            (
                "begins with http:// or https://, not ftp://",
                "begins with http:// or https://, not ftp://",
            ),
            ("://", "://"),
            ("ä://ü@ö", "ä://***@ö"),
            ("no address", "no address"),
        ] {
            assert_eq!(without_secrets(text), expected);
            assert_eq!(without_secrets(expected), expected);
        }
    }
}
