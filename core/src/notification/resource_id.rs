//! Ids of Azure Resource Manager (ARM), as far as Scheduled Events need them.

use core::fmt;

use crate::json::Text;

/// The id of a resource that Scheduled Events are of: a virtual machine, a scale set or an availability set.
///
/// It is a view of the caller's bytes, in the case in which it was written. ARM compares ids without ASCII case, and so does
/// `==`. What follows the resource in a notification, `/providers/Microsoft.Maintenance/scheduledevents/` and the event, is
/// not part of it.
///
/// ```
/// use scheduled_events_core::{ResourceId, ResourceIdError, ResourceKind, Text};
///
/// let id = "/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourceGroups/web/providers/Microsoft.Compute/virtualMachineScaleSets/front";
/// let resource = ResourceId::parse(Text::plain(id))?;
/// assert_eq!(resource.kind(), ResourceKind::ScaleSet);
/// assert!(resource.subscription() == "62d72a8a-5a42-4a28-a1cc-70a836ae7955");
/// assert!(resource.resource_group() == "web" && resource.name() == "front");
/// assert_eq!(resource, ResourceId::parse(Text::plain(&id.to_ascii_lowercase()))?);
/// assert_eq!(resource.to_string(), id);
///
/// let refused = ResourceId::parse(Text::plain("/subscriptions/mine/resourceGroups/web"));
/// assert_eq!(refused, Err(ResourceIdError::Subscription));
/// # Ok::<(), ResourceIdError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ResourceId<'a> {
    subscription: Text<'a>,
    resource_group: Text<'a>,
    kind: ResourceKind,
    name: Text<'a>,
    /// The machine in a scale set: its number, or its name.
    instance: Option<Text<'a>>,
}

/// The kinds of resources that Scheduled Events are of.
///
/// ```
/// use scheduled_events_core::ResourceKind;
///
/// assert_eq!(ResourceKind::ScaleSet.word(), "virtualMachineScaleSets");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceKind {
    /// A virtual machine; one that is in a flexible scale set, too.
    VirtualMachine,
    /// A scale set, or a machine in one.
    ScaleSet,
    /// An availability set.
    AvailabilitySet,
}

crate::words::words!(ResourceKind {
    VirtualMachine => "virtualMachines",
    ScaleSet => "virtualMachineScaleSets",
    AvailabilitySet => "availabilitySets",
});

impl<'a> ResourceId<'a> {
    /// Reads an id, with or without an event after the resource.
    ///
    /// # Errors
    /// [`ResourceIdError`], the first part that is not as expected. Subscriptions are GUIDs. Names consist of letters, digits
    /// and `-_.()`, and end with no point, so that nothing else can get into the path of a request.
    #[inline(never)] // It has several callers.
    pub fn parse(id: Text<'a>) -> Result<Self, ResourceIdError> {
        let mut segments = Segments {
            rest: id.raw(),
            escaped: id.as_str().is_none(),
        };
        let is_subscription = segments.next_is("subscriptions");
        let subscription = segments.next().filter(|id| is_subscription && is_guid(id));
        let subscription = subscription.ok_or(ResourceIdError::Subscription)?;
        let is_group = segments.next_is("resourceGroups");
        let resource_group = segments
            .next()
            .filter(|name| is_group && is_name(name, GROUP_MAX));
        let resource_group = resource_group.ok_or(ResourceIdError::ResourceGroup)?;
        if !(segments.next_is("providers") && segments.next_is(PROVIDER)) {
            return Err(ResourceIdError::Provider);
        }
        let word = segments.next().ok_or(ResourceIdError::Kind)?;
        let kind = ResourceKind::ALL
            .into_iter()
            .find(|kind| word.eq_ignore_ascii_case(kind.word()));
        let kind = kind.ok_or(ResourceIdError::Kind)?;
        let name = segments.next_name()?;
        let mut id = Self {
            subscription,
            resource_group,
            kind,
            name,
            instance: None,
        };
        let mut after = segments.clone();
        if kind == ResourceKind::ScaleSet && after.next_is(ResourceKind::VirtualMachine.word()) {
            id.instance = Some(after.next_name()?);
            segments = after;
        }
        let is_end = segments.rest.is_empty();
        let mut is_event = || {
            segments.next_is("providers")
                && segments.next_is("Microsoft.Maintenance")
                && segments.next_is("scheduledevents")
                && (segments.rest.is_empty() || segments.next_name().is_ok())
                && segments.rest.is_empty()
        };
        if is_end || is_event() {
            Ok(id)
        } else {
            Err(ResourceIdError::Rest)
        }
    }

    /// The subscription, a GUID.
    pub const fn subscription(&self) -> Text<'a> {
        self.subscription
    }

    /// The name of the resource group.
    pub const fn resource_group(&self) -> Text<'a> {
        self.resource_group
    }

    /// The kind of the resource.
    pub const fn kind(&self) -> ResourceKind {
        self.kind
    }

    /// The name of the machine or the set. For a machine that is named in a scale set, it is that of the set.
    pub const fn name(&self) -> Text<'a> {
        self.name
    }

    /// The machine in a scale set, if the id names one: its number, or its name.
    pub(super) const fn instance(&self) -> Option<Text<'a>> {
        self.instance
    }
}

impl PartialEq for ResourceId<'_> {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |one: Option<Text<'_>>, other: Option<Text<'_>>| match (one, other) {
            (Some(one), Some(other)) => one.is_same_name(&other),
            (one, other) => one.is_none() && other.is_none(),
        };
        self.kind == other.kind
            && self.subscription.is_same_name(&other.subscription)
            && self.resource_group.is_same_name(&other.resource_group)
            && self.name.is_same_name(&other.name)
            && is_same(self.instance, other.instance)
    }
}

impl Eq for ResourceId<'_> {}

impl fmt::Display for ResourceId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            subscription,
            resource_group,
            kind,
            name,
            instance,
        } = self;
        write!(
            f,
            "/subscriptions/{subscription}/resourceGroups/{resource_group}/providers/{PROVIDER}/{kind}/{name}"
        )?;
        match instance {
            Some(instance) => write!(f, "/{}/{instance}", ResourceKind::VirtualMachine),
            None => Ok(()),
        }
    }
}

/// Why a text is not the id of a resource that Scheduled Events are of: the first part that is not as expected.
///
/// ```
/// use scheduled_events_core::{ResourceId, Text};
///
/// let id = "/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourceGroups/aks/providers/Microsoft.ContainerService/managedClusters/c";
/// let error = ResourceId::parse(Text::plain(id)).unwrap_err();
/// assert_eq!(error.message(), "expected `/providers/Microsoft.Compute` after the resource group");
/// assert_eq!(error.to_string(), "not the id of a resource with Scheduled Events: expected `/providers/Microsoft.Compute` after the resource group");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceIdError {
    /// It does not start with `/subscriptions/` and a GUID.
    Subscription,
    /// No `/resourceGroups/` and a name.
    ResourceGroup,
    /// Another provider than `Microsoft.Compute`.
    Provider,
    /// Neither a virtual machine nor a scale set nor an availability set.
    Kind,
    /// The name is missing, too long, or has characters that names of Azure do not have.
    Name,
    /// Something follows that is not a Scheduled Event.
    Rest,
}

impl ResourceIdError {
    /// What was expected.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Subscription => "expected `/subscriptions/` and a GUID at the start",
            Self::ResourceGroup => "expected `/resourceGroups/` and a name after the subscription",
            Self::Provider => "expected `/providers/Microsoft.Compute` after the resource group",
            Self::Kind => {
                "expected `virtualMachines`, `virtualMachineScaleSets` or `availabilitySets`"
            }
            Self::Name => "expected a name of at most 80 letters, digits, `-`, `_` and `.`",
            Self::Rest => {
                "expected nothing, or `/providers/Microsoft.Maintenance/scheduledevents/` and an event"
            }
        }
    }
}

impl fmt::Display for ResourceIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "not the id of a resource with Scheduled Events: {}",
            self.message()
        )
    }
}

impl core::error::Error for ResourceIdError {}

pub(crate) const PROVIDER: &str = "Microsoft.Compute";

/// The longest name of a resource group, and of an availability set, which is longer than that of a machine.
const GROUP_MAX: usize = 90;
pub(super) const NAME_MAX: usize = 80;

/// The parts of an id between slashes.
#[derive(Clone)]
struct Segments<'a> {
    rest: &'a str,
    escaped: bool,
}

impl<'a> Segments<'a> {
    #[inline(never)]
    fn next(&mut self) -> Option<Text<'a>> {
        // JSON may escape a slash.
        let unescaped = if self.escaped {
            self.rest.strip_prefix('\\').unwrap_or(self.rest)
        } else {
            self.rest
        };
        let rest = unescaped.strip_prefix('/')?;
        let end = rest
            .bytes()
            .take_while(|byte| *byte != b'/')
            .fold(0_usize, |end, _| end.saturating_add(1));
        let (mut segment, after) = rest.split_at_checked(end)?;
        let is_odd = segment
            .bytes()
            .rev()
            .take_while(|byte| *byte == b'\\')
            .fold(false, |is_odd, _| !is_odd);
        if self.escaped && is_odd {
            // The last one belongs to the slash.
            segment = segment.get(..end.saturating_sub(1))?;
        }
        self.rest = after;
        Some(Text::from_raw(
            segment,
            self.escaped && segment.bytes().any(|byte| byte == b'\\'),
        ))
    }

    #[inline(never)]
    fn next_is(&mut self, word: &str) -> bool {
        self.next()
            .is_some_and(|segment| segment.eq_ignore_ascii_case(word))
    }

    fn next_name(&mut self) -> Result<Text<'a>, ResourceIdError> {
        self.next()
            .filter(|name| is_name(name, NAME_MAX))
            .ok_or(ResourceIdError::Name)
    }
}

/// Whether the text is a GUID with hyphens.
pub(crate) fn is_guid(text: &Text<'_>) -> bool {
    let mut chars = text.chars();
    let mut groups = [8, 4, 4, 4, 12].into_iter().enumerate();
    groups.all(|(index, length)| {
        (index == 0 || chars.next() == Some('-'))
            && (0..length).all(|_| chars.next().is_some_and(|char| char.is_ascii_hexdigit()))
    }) && chars.next().is_none()
}

/// Whether a resource can have this name. Beyond ASCII, all but control characters and spaces are taken for letters: a path
/// has them percent-encoded.
#[inline(never)]
pub(super) fn is_name(text: &Text<'_>, longest: usize) -> bool {
    let is_letter = |char: char| matches!(char, '0'..='9' | 'A'..='Z' | 'a'..='z' | '-' | '_' | '.' | '(' | ')' | '\u{a1}'..);
    let (mut length, mut last) = (0_usize, '.');
    for char in text.chars() {
        if !is_letter(char) || length >= longest {
            return false;
        }
        (length, last) = (length.saturating_add(1), char);
    }
    last != '.'
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::string::{String, ToString};

    use super::*;

    const SUBSCRIPTION: &str = "62d72a8a-5a42-4a28-a1cc-70a836ae7955";

    #[test]
    fn what_is_no_id_is_refused_at_its_first_wrong_part() {
        let start = format!("/subscriptions/{SUBSCRIPTION}");
        let compute = format!("{start}/resourceGroups/g/providers/Microsoft.Compute");
        let (long, longest) = ("n".repeat(81), "n".repeat(80));
        for (id, expected) in [
            (String::new(), Err(ResourceIdError::Subscription)),
            (
                compute.replace("/sub", "sub"),
                Err(ResourceIdError::Subscription),
            ),
            (
                format!("/{compute}/virtualMachines/v"),
                Err(ResourceIdError::Subscription),
            ),
            (
                compute.replace('7', "x"),
                Err(ResourceIdError::Subscription),
            ),
            (
                compute.replace("-5a42", ""),
                Err(ResourceIdError::Subscription),
            ),
            (
                compute.replace("7955", "79550"),
                Err(ResourceIdError::Subscription),
            ),
            (start.clone(), Err(ResourceIdError::ResourceGroup)),
            (
                format!("{start}/resourceGroups/"),
                Err(ResourceIdError::ResourceGroup),
            ),
            (
                format!("{start}/resourceGroups/.."),
                Err(ResourceIdError::ResourceGroup),
            ),
            (
                format!("{start}/groups/g"),
                Err(ResourceIdError::ResourceGroup),
            ),
            (
                format!("{start}/resourceGroups/g"),
                Err(ResourceIdError::Provider),
            ),
            (
                format!("{start}/resourceGroups/g/providers/Microsoft.Network/virtualMachines/v"),
                Err(ResourceIdError::Provider),
            ),
            (compute.clone(), Err(ResourceIdError::Kind)),
            (format!("{compute}/disks/v"), Err(ResourceIdError::Kind)),
            (
                format!("{compute}/virtualMachines"),
                Err(ResourceIdError::Name),
            ),
            (
                format!("{compute}/virtualMachines/"),
                Err(ResourceIdError::Name),
            ),
            (
                format!("{compute}/virtualMachines/."),
                Err(ResourceIdError::Name),
            ),
            (
                format!("{compute}/virtualMachines/a b"),
                Err(ResourceIdError::Name),
            ),
            (
                format!("{compute}/virtualMachines/a%2fb"),
                Err(ResourceIdError::Name),
            ),
            (
                format!("{compute}/virtualMachines/a?b"),
                Err(ResourceIdError::Name),
            ),
            (
                format!("{compute}/virtualMachines/{long}"),
                Err(ResourceIdError::Name),
            ),
            (
                format!("{compute}/virtualMachines/v/"),
                Err(ResourceIdError::Rest),
            ),
            (
                format!("{compute}/virtualMachines/v/virtualMachines/1"),
                Err(ResourceIdError::Rest),
            ),
            (
                format!("{compute}/virtualMachines/v/extensions/e"),
                Err(ResourceIdError::Rest),
            ),
            (
                format!("{compute}/virtualMachineScaleSets/s/virtualMachines"),
                Err(ResourceIdError::Name),
            ),
            (
                format!("{compute}/virtualMachineScaleSets/s/virtualMachines/1/x"),
                Err(ResourceIdError::Rest),
            ),
            (
                format!("{compute}/virtualMachines/{longest}"),
                Ok(ResourceKind::VirtualMachine),
            ),
            (
                format!("{compute}/virtualMachines/zoë"),
                Ok(ResourceKind::VirtualMachine),
            ),
            (
                format!(
                    "{compute}/VIRTUALMACHINES/v/providers/microsoft.maintenance/ScheduledEvents"
                ),
                Ok(ResourceKind::VirtualMachine),
            ),
            (
                format!(
                    "{compute}/availabilitySets/v/providers/Microsoft.Maintenance/scheduledevents/e"
                ),
                Ok(ResourceKind::AvailabilitySet),
            ),
            (
                format!(
                    "{compute}/virtualMachineScaleSets/s/virtualMachines/1/providers/Microsoft.Maintenance/scheduledevents/e"
                ),
                Ok(ResourceKind::ScaleSet),
            ),
            (
                format!(
                    "{compute}/virtualMachines/v/providers/Microsoft.Maintenance/scheduledevents/e/acknowledge"
                ),
                Err(ResourceIdError::Rest),
            ),
            (
                format!(
                    "{compute}/virtualMachines/v/providers/Microsoft.Maintenance/scheduledevents/"
                ),
                Err(ResourceIdError::Rest),
            ),
            (
                format!(
                    "{compute}/virtualMachines/v/providers/Microsoft.Maintenance/applyUpdates/e"
                ),
                Err(ResourceIdError::Rest),
            ),
        ] {
            assert_eq!(
                ResourceId::parse(Text::plain(&id)).map(|id| id.kind()),
                expected,
                "{id}"
            );
        }
    }

    #[test]
    fn escaped_slashes_and_letters_are_decoded() {
        let plain = format!(
            "/subscriptions/{SUBSCRIPTION}/resourceGroups/g-1/providers/Microsoft.Compute/virtualMachines/v"
        );
        let escaped = plain.replace('/', "\\/").replace("g-1", "\\u0047-1");
        let id = ResourceId::parse(Text::from_raw(&escaped, true)).unwrap();
        assert_eq!(id, ResourceId::parse(Text::plain(&plain)).unwrap());
        assert_eq!(id.to_string(), plain.replace("g-1", "G-1"));
        for wrong in ["\\\\/v", "\\\\", "\\u002fv", "\\\\\\/v"] {
            let escaped = format!("{}{wrong}", plain.replace('/', "\\/"));
            assert!(
                ResourceId::parse(Text::from_raw(&escaped, true)).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn ids_are_equal_without_case_and_differ_in_each_part() {
        let id = format!(
            "/subscriptions/{SUBSCRIPTION}/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/s/virtualMachines/1"
        );
        let parse = |id: &str| {
            ResourceId::parse(Text::plain(id))
                .map(|id| id.to_string())
                .unwrap()
        };
        let read = ResourceId::parse(Text::plain(&id)).unwrap();
        let upper = id.to_ascii_uppercase();
        assert_eq!(read, ResourceId::parse(Text::plain(&upper)).unwrap());
        assert_eq!(parse(&id), id);
        for (from, to) in [
            ("62d7", "62d8"),
            ("/g/", "/h/"),
            ("/s/", "/t/"),
            ("/1", "/2"),
            ("/virtualMachines/1", ""),
        ] {
            let other = id.replace(from, to);
            assert_ne!(
                read,
                ResourceId::parse(Text::plain(&other)).unwrap(),
                "{other}"
            );
        }
    }
}
