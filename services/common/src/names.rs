//! Names of machines.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

/// A machine's name, as in the `Resources` of events: the virtual machine's name, or
/// `{scale-set}_{instance-id}` in a uniform scale set. It keeps its case, which comparisons ignore.
///
/// ```
/// use scheduled_events_common::names::Name;
///
/// assert_eq!(Name::from("WestNO_0"), Name::from("westno_0"));
/// assert_eq!(Name::from("WestNO_0").to_string(), "WestNO_0");
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Name(String);

impl Name {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as part of a register's key: in lower case, with each character that keys do not
    /// allow as `.` and two hexadecimal digits.
    pub fn key(&self) -> Cow<'_, str> {
        let allowed = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
        };
        if self.0.bytes().all(allowed) {
            return Cow::Borrowed(&self.0);
        }
        let mut key = String::new();
        for byte in self.0.bytes().map(|byte| byte.to_ascii_lowercase()) {
            if allowed(byte) {
                key.push(char::from(byte));
            } else {
                let _ = write!(key, ".{byte:02x}");
            }
        }
        // A part of a key does not begin with a dot.
        Cow::Owned(if key.starts_with('.') {
            format!("-{key}")
        } else {
            key
        })
    }

    /// Whether the name matches a pattern, in which `*` matches any characters. Case is ignored.
    ///
    /// ```
    /// use scheduled_events_common::names::Name;
    ///
    /// assert!(Name::from("WestNO_12").matches("westno_*"));
    /// assert!(!Name::from("EastNO_12").matches("westno_*"));
    /// ```
    pub fn matches(&self, pattern: &str) -> bool {
        let (name, pattern) = (self.0.as_bytes(), pattern.as_bytes());
        // The last `*`, and where its match ends: it takes one more character whenever the rest
        // does not match.
        let (mut at, mut in_pattern) = (0, 0);
        let mut star = None;
        while at < name.len() {
            if pattern.get(in_pattern) == Some(&b'*') {
                star = Some((in_pattern, at));
                in_pattern += 1;
            } else if pattern
                .get(in_pattern)
                .is_some_and(|byte| byte.eq_ignore_ascii_case(&name[at]))
            {
                at += 1;
                in_pattern += 1;
            } else if let Some((star_at, matched)) = star {
                star = Some((star_at, matched + 1));
                (at, in_pattern) = (matched + 1, star_at + 1);
            } else {
                return false;
            }
        }
        pattern[in_pattern..].iter().all(|&byte| byte == b'*')
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for Name {
    /// Escapes control characters and the like: a name comes from outside.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_debug().fmt(f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for byte in self.0.bytes() {
            state.write_u8(byte.to_ascii_lowercase());
        }
        state.write_u8(0xff);
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        let lower = |byte: u8| byte.to_ascii_lowercase();
        self.0.bytes().map(lower).cmp(other.0.bytes().map(lower))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "a", true),
            ("a*c", "abbc", true),
            ("a*c", "abcb", false),
            ("a*b*c", "AxbXbyc", true),
            ("", "a", false),
            ("vm1", "vm10", false),
            ("vm1", "VM1", true),
            ("*_0", "web_10", false),
            ("*0", "web_10", true),
        ] {
            assert_eq!(
                Name::from(name).matches(pattern),
                expected,
                "{name} against {pattern}"
            );
        }
    }

    #[test]
    fn keys_are_safe_and_distinct() {
        assert_eq!(Name::from("WestNO_0").key(), "westno_0");
        assert_eq!(Name::from("../x").key(), "-.2e.2e.2fx");
        assert_eq!(Name::from("a.b").key(), "a.2eb");
    }
}
