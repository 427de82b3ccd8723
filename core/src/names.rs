//! The names of this virtual machine, as in an event's `Resources`.

use core::iter;

use crate::event::Event;
use crate::hash::Hash;
use crate::json::Text;

/// The names of this virtual machine in an event's `Resources`.
///
/// They are *resource* names, not host names: the VM's name, or `{scale-set}_{instance-id}` in a uniform scale set. The
/// metadata service returns it at `/metadata/instance/compute/name`. Whole names are compared, ASCII case ignored: `vm1`
/// does not match `vm10`.
///
/// ```
/// use scheduled_events_core::{Document, VmNames};
///
/// let body = br#"{"Events":[{"EventId":"a","Resources":["web_10","WEB_1"]}]}"#;
/// let document = Document::parse(body)?;
/// let event = document.events().next().unwrap();
/// assert_eq!(VmNames::new(&["web_1"]).rank(&event), Some(1));
/// assert_eq!(VmNames::new(&["web"]).owns(&event), Some(false));
/// assert_eq!(VmNames::UNKNOWN.owns(&event), None);
/// # Ok::<(), scheduled_events_core::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct VmNames<'a> {
    names: &'a [&'a str],
    underscored: bool,
}

impl<'a> VmNames<'a> {
    /// No name is known. Whether an event affects this machine is then unknown, and nothing is approved.
    pub const UNKNOWN: Self = Self {
        names: &[],
        underscored: false,
    };

    /// The names of this machine; an empty slice means that they are unknown.
    pub const fn new(names: &'a [&'a str]) -> Self {
        Self {
            names,
            underscored: false,
        }
    }

    /// The same names for documents of API version 2017-03-01, which puts one `_` before each resource's name.
    ///
    /// ```
    /// use scheduled_events_core::{Document, VmNames};
    ///
    /// let names = VmNames::new(&["vm"]).underscored();
    /// assert!(names.is_underscored());
    /// let document = Document::parse(br#"{"Events":[{"EventId":"a","Resources":["_vm"]}]}"#)?;
    /// assert_eq!(names.owns(&document.events().next().unwrap()), Some(true));
    /// # Ok::<(), scheduled_events_core::ParseError>(())
    /// ```
    #[must_use]
    pub const fn underscored(self) -> Self {
        Self {
            underscored: true,
            ..self
        }
    }

    /// Whether no name is known.
    ///
    /// ```
    /// use scheduled_events_core::VmNames;
    ///
    /// assert!(VmNames::new(&[]).is_unknown());
    /// assert!(!VmNames::new(&["vm"]).is_unknown());
    /// ```
    pub const fn is_unknown(&self) -> bool {
        self.names.is_empty()
    }

    /// The names.
    ///
    /// ```
    /// use scheduled_events_core::VmNames;
    ///
    /// assert_eq!(VmNames::new(&["web_0", "web_1"]).iter().collect::<Vec<_>>(), ["web_0", "web_1"]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = &'a str> {
        self.names.iter().copied()
    }

    /// Whether the documents put one `_` before each resource's name.
    ///
    /// ```
    /// use scheduled_events_core::VmNames;
    ///
    /// assert!(!VmNames::new(&["vm"]).is_underscored());
    /// ```
    pub const fn is_underscored(&self) -> bool {
        self.underscored
    }

    pub(crate) fn hash_into(&self, hash: &mut Hash) {
        hash.byte(u8::from(self.underscored));
        for name in self.names {
            hash.text(&Text::plain(name));
        }
    }

    /// How many other machines the event's `Resources` name before this one; `None` if it is not among them.
    pub fn rank(&self, event: &Event<'_>) -> Option<usize> {
        event.resources().rank(|name| self.contains(name))
    }

    #[inline(never)]
    fn contains(&self, resource: &Text<'_>) -> bool {
        self.names.iter().any(|name| {
            resource.eq_ignore_ascii_case(name)
                || self.underscored
                    && resource
                        .folded()
                        .eq(iter::once('_').chain(Text::plain(name).folded()))
        })
    }

    /// Whether the event affects this machine; `None` if no name is known.
    pub fn owns(&self, event: &Event<'_>) -> Option<bool> {
        if self.is_unknown() {
            None
        } else {
            Some(
                event
                    .resources()
                    .into_iter()
                    .any(|name| self.contains(&name)),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_match_and_the_underscore_is_optional_if_documents_have_one() {
        for (resource, plain, underscored) in [
            ("web", true, true),
            ("WEB", true, true),
            ("_web", false, true),
            (r"\u005fW\u0065b", false, true),
            ("__web", false, false),
            ("_we", false, false),
            ("_webs", false, false),
            ("xweb", false, false),
            ("other", false, false),
            ("", false, false),
        ] {
            let resource = Text::from_raw(resource, resource.contains('\\'));
            let names = VmNames::new(&["db", "web"]);
            assert_eq!(names.contains(&resource), plain, "{resource}");
            assert_eq!(
                names.underscored().contains(&resource),
                underscored,
                "{resource}"
            );
            assert_eq!(
                (names.is_underscored(), names.underscored().is_underscored()),
                (false, true)
            );
        }
    }
}
