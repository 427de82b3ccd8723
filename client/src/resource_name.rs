//! Names of Azure resources in shells, URLs and templates.

use std::error::Error;
use std::fmt::{self, Write as _};

/// The name of a resource: letters, digits, `_`, `-` and `.`, at most 64.
///
/// Azure allows less in places; what it never allows is refused here, so that no name can contain a quote, a space or anything else
/// that means something to a shell.
///
/// ```
/// use scheduled_events::resource_name::Name;
///
/// let group = Name::parse_group("shop(eu)")?;
/// assert_eq!(group.az("--resource-group"), "--resource-group 'shop(eu)'");
/// assert_eq!(group.url(), "shop%28eu%29");
/// assert!(Name::parse("$(reboot)").is_err());
/// # Ok::<(), scheduled_events::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

/// The most characters in the name of a scale set or a machine, and in the name of a resource group.
const NAME_MAX: usize = 64;
const GROUP_MAX: usize = 90;

impl Name {
    /// The name of a scale set, a machine or an instance.
    ///
    /// # Errors
    /// [`NameError`]: what was found and what Azure allows.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        check(
            text,
            NAME_MAX,
            |c| c.is_ascii_alphanumeric() || "_-.".contains(c),
            "ASCII letters, digits, _, - and .",
        )
    }

    /// The name of a resource group. It may have letters of any script and parentheses, and does not end with a full stop.
    ///
    /// # Errors
    /// [`NameError`]: what was found and what Azure allows.
    pub fn parse_group(text: &str) -> Result<Self, NameError> {
        let allowed = |c: char| c.is_alphanumeric() || "_-.()".contains(c);
        let name = check(
            text,
            GROUP_MAX,
            allowed,
            "letters, digits, _, -, ., ( and )",
        )?;
        if text.ends_with('.') {
            Err(NameError::EndsWithFullStop)
        } else {
            Ok(name)
        }
    }

    /// `--option name` for a POSIX shell.
    pub fn az(&self, option: &str) -> String {
        let is_plain = self
            .0
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        let quoted = if is_plain {
            self.0.clone()
        } else {
            format!("'{}'", self.0)
        };
        // The Azure CLI would take it for an option otherwise.
        let between = if self.0.starts_with('-') { '=' } else { ' ' };
        format!("{option}{between}{quoted}")
    }

    /// A string literal of PowerShell or Bicep. No allowed character is special in it.
    ///
    /// ```
    /// use scheduled_events::resource_name::Name;
    ///
    /// assert_eq!(Name::parse("db-1")?.single_quoted(), "'db-1'");
    /// # Ok::<(), scheduled_events::Error>(())
    /// ```
    pub fn single_quoted(&self) -> String {
        format!("'{}'", self.0)
    }

    /// A segment of a URL's path.
    pub fn url(&self) -> String {
        let mut url = String::new();
        for byte in self.0.bytes() {
            if byte.is_ascii_alphanumeric() || b"_-.".contains(&byte) {
                url.push(char::from(byte));
            } else {
                // Writing to a string does not fail.
                let _ = write!(url, "%{byte:02X}");
            }
        }
        url
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is not the name of a resource.
///
/// ```
/// use scheduled_events::resource_name::{Name, NameError};
///
/// assert!(matches!(Name::parse("a b"), Err(NameError::Character { found: ' ', .. })));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// Azure does not allow this character.
    Character {
        /// The character.
        found: char,
        /// What Azure allows, in words.
        allows: &'static str,
    },
    /// There is no character.
    Empty,
    /// There are more characters than Azure allows.
    TooLong {
        /// How many there are.
        length: usize,
        /// How many Azure allows.
        most: usize,
    },
    /// The name of a resource group ends with a full stop.
    EndsWithFullStop,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Character { found, allows } => {
                write!(f, "found {found:?}; Azure allows {allows}")
            }
            Self::Empty => write!(f, "the name is empty"),
            Self::TooLong { length, most } => {
                write!(f, "the name has {length} characters; Azure allows {most}")
            }
            Self::EndsWithFullStop => {
                write!(
                    f,
                    "the name of a resource group must not end with a full stop"
                )
            }
        }
    }
}

impl Error for NameError {}

fn check(
    text: &str,
    most: usize,
    allowed: impl Fn(char) -> bool,
    allows: &'static str,
) -> Result<Name, NameError> {
    if let Some(found) = text.chars().find(|c| !allowed(*c)) {
        return Err(NameError::Character { found, allows });
    }
    match text.chars().count() {
        0 => Err(NameError::Empty),
        length if length > most => Err(NameError::TooLong { length, most }),
        _ => Ok(Name(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_mean_something_to_a_shell_is_refused() {
        for c in
            " \t\n\r\0'\"`$;&|<>\\*?[]{}#~!%^=:,/@+\u{2018}\u{2019}\u{201b}\u{202e}\u{7f}\u{a0}"
                .chars()
        {
            let text = format!("a{c}b");
            assert!(
                Name::parse(&text).is_err() && Name::parse_group(&text).is_err(),
                "{c:?}"
            );
        }
        for text in ["", "a(b)", "ä", &"a".repeat(65)] {
            assert!(Name::parse(text).is_err(), "{text}");
        }
        for text in ["", "a.", &"a".repeat(91)] {
            assert!(Name::parse_group(text).is_err(), "{text}");
        }
        assert_eq!(
            Name::parse("a b").unwrap_err().to_string(),
            "found ' '; Azure allows ASCII letters, digits, _, - and ."
        );
    }

    #[test]
    fn the_rest_is_quoted_for_each_place() {
        let plain = Name::parse("web-1.x_Y").unwrap();
        assert_eq!(plain.az("--name"), "--name web-1.x_Y");
        assert_eq!(plain.single_quoted(), "'web-1.x_Y'");
        assert_eq!(plain.url(), "web-1.x_Y");
        let group = Name::parse_group("größe (".replace(' ', "").as_str()).unwrap();
        assert_eq!(group.az("-g"), "-g 'größe('");
        assert_eq!(group.url(), "gr%C3%B6%C3%9Fe%28");
        assert_eq!(
            Name::parse_group("-x").unwrap().az("--resource-group"),
            "--resource-group=-x"
        );
        assert!(Name::parse(&"a".repeat(64)).is_ok() && Name::parse_group(&"ü".repeat(90)).is_ok());
    }
}
