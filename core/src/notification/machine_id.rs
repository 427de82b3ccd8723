//! The id of one virtual machine.

use core::fmt;
use core::hash::{Hash, Hasher};

use super::resource_id::{NAME_MAX, PROVIDER, ResourceId, ResourceIdError, ResourceKind, is_name};
use crate::error::BufferTooSmall;
use crate::json::Text;
use crate::slice_writer::SliceWriter;

/// The id of one virtual machine in Azure Resource Manager (ARM).
///
/// ARM compares ids without ASCII case, and so do `==` and the hash. A machine of a uniform scale set has two ids: one with
/// its number in the set, and the name that events and the metadata service give it, `SET_NUMBER`. They are equal.
///
/// ```
/// use scheduled_events_core::{MachineId, Text};
///
/// let group = "/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourceGroups/web/providers/Microsoft.Compute";
/// let in_set = format!("{group}/virtualMachineScaleSets/front/virtualMachines/3");
/// let named = format!("{group}/virtualMachines/FRONT_3");
/// let machine = MachineId::parse(Text::plain(&in_set))?;
/// assert_eq!(machine, MachineId::parse(Text::plain(&named))?);
/// assert_eq!(machine.to_string(), in_set);
/// assert_eq!(machine.name().to_string(), "front_3");
/// assert!(machine.is_named("Front_3"));
/// assert!(machine.subscription() == "62d72a8a-5a42-4a28-a1cc-70a836ae7955" && machine.resource_group() == "web");
/// # Ok::<(), scheduled_events_core::ResourceIdError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MachineId<'a> {
    subscription: Text<'a>,
    resource_group: Text<'a>,
    name: MachineName<'a>,
}

#[derive(Clone, Copy, Debug)]
enum MachineName<'a> {
    Whole(Text<'a>),
    /// A machine of a uniform scale set.
    Number {
        set: Text<'a>,
        number: Text<'a>,
    },
}

/// A number of more digits is taken for the random part of a name in a flexible scale set, which has eight characters.
const NUMBER_MAX: usize = 7;

impl<'a> MachineId<'a> {
    /// Reads the id of a machine, with or without an event after it.
    ///
    /// # Errors
    /// [`ResourceIdError`] if the text is no id, or that of a set.
    pub fn parse(id: Text<'a>) -> Result<Self, ResourceIdError> {
        let resource = ResourceId::parse(id)?;
        let name = match (resource.kind(), resource.instance()) {
            (ResourceKind::VirtualMachine, _) => MachineName::Whole(resource.name()),
            (_, Some(number)) if number.chars().all(|char| char.is_ascii_digit()) => {
                MachineName::Number {
                    set: resource.name(),
                    number,
                }
            }
            // In a flexible set.
            (_, Some(name)) => MachineName::Whole(name),
            (_, None) => return Err(ResourceIdError::Kind),
        };
        Ok(Self {
            subscription: resource.subscription(),
            resource_group: resource.resource_group(),
            name,
        })
    }

    /// The subscription, a GUID.
    pub const fn subscription(&self) -> Text<'a> {
        self.subscription
    }

    /// The name of the resource group.
    pub const fn resource_group(&self) -> Text<'a> {
        self.resource_group
    }

    /// The machine's name in `Resources`.
    pub fn name(&self) -> impl fmt::Display + use<'a> {
        self.name
    }

    /// Whether `Resources` calls the machine so, ASCII case ignored.
    pub fn is_named(&self, name: &str) -> bool {
        self.name.folded().eq(Text::plain(name).folded())
    }

    /// Writes the id to the front of `buffer`, without [`core::fmt`].
    ///
    /// # Errors
    /// [`BufferTooSmall`] with the number of bytes needed.
    ///
    /// ```
    /// use scheduled_events_core::{MachineId, Text};
    ///
    /// let id = "/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourceGroups/web/providers/Microsoft.Compute/virtualMachines/db";
    /// let machine = MachineId::parse(Text::plain(id))?;
    /// let mut buffer = [0; 300];
    /// assert_eq!(machine.write(&mut buffer)?, id);
    /// assert_eq!(machine.write(&mut [0; 10]).unwrap_err().needed, id.len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b str, BufferTooSmall> {
        let mut writer = SliceWriter::new(buffer);
        let mut put = |text: Text<'_>| {
            text.chars()
                .for_each(|char| writer.bytes(char.encode_utf8(&mut [0; 4]).as_bytes()));
        };
        self.parts().into_iter().for_each(&mut put);
        // Whole characters were written.
        writer
            .written()
            .map(|bytes| core::str::from_utf8(bytes).unwrap_or_default())
    }

    /// What the id consists of.
    fn parts(&self) -> [Text<'a>; 10] {
        let (kind, set, machines, name) = match self.name {
            MachineName::Whole(name) => ("", Text::plain(""), "/virtualMachines/", name),
            MachineName::Number { set, number } => (
                "/virtualMachineScaleSets/",
                set,
                "/virtualMachines/",
                number,
            ),
        };
        [
            Text::plain("/subscriptions/"),
            self.subscription,
            Text::plain("/resourceGroups/"),
            self.resource_group,
            Text::plain("/providers/"),
            Text::plain(PROVIDER),
            Text::plain(kind),
            set,
            Text::plain(machines),
            name,
        ]
    }
}

impl<'a> ResourceId<'a> {
    /// The machine that an event of this resource calls `name` in its `Resources`.
    ///
    /// # Errors
    /// [`ResourceIdError::Name`] if no machine can have this name.
    ///
    /// ```
    /// use scheduled_events_core::{ResourceId, Text};
    ///
    /// let group = "/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourceGroups/web/providers/Microsoft.Compute";
    /// let id = format!("{group}/virtualMachineScaleSets/front");
    /// let set = ResourceId::parse(Text::plain(&id))?;
    /// // Of a uniform set, and of a flexible one.
    /// let uniform = set.machine(Text::plain("front_3"))?;
    /// assert_eq!(uniform.to_string(), format!("{id}/virtualMachines/3"));
    /// let flexible = set.machine(Text::plain("front_4a2b3c5d"))?;
    /// assert_eq!(flexible.to_string(), format!("{group}/virtualMachines/front_4a2b3c5d"));
    /// assert!(set.machine(Text::plain("../front_3")).is_err());
    /// # Ok::<(), scheduled_events_core::ResourceIdError>(())
    /// ```
    pub fn machine(&self, name: Text<'a>) -> Result<MachineId<'a>, ResourceIdError> {
        if !is_name(&name, NAME_MAX) {
            return Err(ResourceIdError::Name);
        }
        let set = (self.kind() == ResourceKind::ScaleSet).then_some(self.name());
        let number = set
            .zip(name.as_str())
            .and_then(|(set, name)| number_in(&set, name));
        let name = match set.zip(number) {
            Some((set, number)) => MachineName::Number { set, number },
            None => MachineName::Whole(name),
        };
        Ok(MachineId {
            subscription: self.subscription(),
            resource_group: self.resource_group(),
            name,
        })
    }
}

/// The number of the machine of this name in a uniform scale set, if it can be one.
fn number_in<'a>(set: &Text<'_>, name: &'a str) -> Option<Text<'a>> {
    // The provided count could overflow as far as the compiler knows.
    let digits = name
        .bytes()
        .rev()
        .take_while(u8::is_ascii_digit)
        .fold(0_usize, |count, _| count.saturating_add(1));
    let (start, number) = name.split_at_checked(name.len().checked_sub(digits)?)?;
    let (mark, set_name) = start.as_bytes().split_last()?;
    let is_in_set = *mark == b'_' && set.eq_ignore_ascii_case(core::str::from_utf8(set_name).ok()?);
    let is_canonical = matches!(number.as_bytes(), [b'0'] | [b'1'..=b'9', ..]);
    (is_in_set && is_canonical && digits <= NUMBER_MAX).then_some(Text::plain(number))
}

impl<'a> MachineName<'a> {
    /// The characters of the name, ASCII letters in lower case.
    fn folded(self) -> impl Iterator<Item = char> + use<'a> {
        let (set, mark, name) = self.parts();
        set.folded().chain(mark.chars()).chain(name.folded())
    }

    fn parts(self) -> (Text<'a>, &'static str, Text<'a>) {
        match self {
            Self::Whole(name) => (Text::plain(""), "", name),
            Self::Number { set, number } => (set, "_", number),
        }
    }
}

impl fmt::Display for MachineName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (set, mark, name) = self.parts();
        write!(f, "{set}{mark}{name}")
    }
}

impl PartialEq for MachineId<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.subscription.is_same_name(&other.subscription)
            && self.resource_group.is_same_name(&other.resource_group)
            && self.name.folded().eq(other.name.folded())
    }
}

impl Eq for MachineId<'_> {}

/// Without ASCII case, as ids are compared: equal ids have equal hashes.
impl Hash for MachineId<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut put = |char: char| state.write_u32(char.into());
        self.subscription.folded().for_each(&mut put);
        self.resource_group.folded().chain(['/']).for_each(&mut put);
        self.name.folded().chain(['/']).for_each(&mut put);
    }
}

impl fmt::Display for MachineId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts()
            .into_iter()
            .try_for_each(|part| fmt::Display::fmt(&part, f))
    }
}
