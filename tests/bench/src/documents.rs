//! The documents: five sizes in four forms, generated here.

use std::fmt::Write as _;

use clap::ValueEnum;

use crate::reading::{Member, Record, digest, fold, not_before};

/// The size of a document: events × resources of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Size {
    /// 1 event of 2 resources: what a machine usually gets
    S,
    /// 10 events of 4
    M,
    /// 100 events of 10
    L,
    /// 1 event of 1000
    X,
    /// 1000 events of 100
    Xl,
}

impl Size {
    pub const fn name(self) -> &'static str {
        match self {
            Self::S => "S",
            Self::M => "M",
            Self::L => "L",
            Self::X => "X",
            Self::Xl => "XL",
        }
    }

    const fn counts(self) -> (usize, usize) {
        match self {
            Self::S => (1, 2),
            Self::M => (10, 4),
            Self::L => (100, 10),
            Self::X => (1, 1000),
            Self::Xl => (1000, 100),
        }
    }
}

/// The layout of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Without white space, as Azure sends it
    Compact,
    /// One member a line, indented by two spaces a level
    Pretty,
    /// Compact, with escapes in every Description and every resource's name
    Escapes,
    /// Compact, with the members of each object in random order
    Shuffled,
}

impl Form {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Compact => "compact",
            Self::Pretty => "pretty",
            Self::Escapes => "escapes",
            Self::Shuffled => "shuffled",
        }
    }
}

/// A document and the checksum of all its fields.
pub struct Sample {
    pub size: Size,
    pub form: Form,
    pub body: Vec<u8>,
    pub checksum: u64,
}

const TYPES: [&str; 5] = ["Freeze", "Reboot", "Redeploy", "Preempt", "Terminate"];
const INCARNATION: u64 = 2;
const NOT_BEFORE: &str = "Mon, 11 Apr 2022 22:26:58 GMT";

impl Sample {
    pub fn new(size: Size, form: Form) -> Self {
        let (events, resources) = size.counts();
        let mut writer = Writer {
            out: String::new(),
            pretty: form == Form::Pretty,
            depth: 0,
        };
        let mut order = Order(0x9e37_79b9_7f4a_7c15);
        let mut sum = 0;
        writer.open('{');
        let numbered =
            |writer: &mut Writer| writer.member("DocumentIncarnation", &INCARNATION.to_string());
        if form != Form::Shuffled {
            numbered(&mut writer);
        }
        writer.name("Events");
        writer.open('[');
        for index in 0..events {
            writer.element();
            sum = write_event(&mut writer, index, resources, form, &mut order).fold_into(sum);
        }
        writer.close(']');
        if form == Form::Shuffled {
            numbered(&mut writer);
        }
        writer.close('}');
        Self {
            size,
            form,
            body: writer.out.into_bytes(),
            checksum: fold(sum, INCARNATION),
        }
    }
}

/// Writes an event and returns the fields that reading it must give.
fn write_event(
    writer: &mut Writer,
    index: usize,
    resources: usize,
    form: Form,
    order: &mut Order,
) -> Record {
    let mut record = Record::default();
    let escapes = form == Form::Escapes;
    let event_id = format!("C7061BAC-AFDC-4513-B24B-{index:012X}");
    let event_type = TYPES[index % TYPES.len()];
    let (description, written_description) = if escapes {
        (
            "Host \u{201c}WestNO\u{201d} \u{1f527}: paused for a \"memory-preserving\" Live Migration\n\tof seconds.",
            r#"Host \u201cWestNO\u201d \ud83d\udd27: paused for a \"memory-preserving\" Live Migration\n\tof seconds."#,
        )
    } else {
        let plain = "Virtual machine is being paused because of a memory-preserving Live Migration operation.";
        (plain, plain)
    };
    let duration = if event_type == "Freeze" { 5_i64 } else { -1 };
    let names = (0..resources).map(|number| format!("WestNO_{number}"));
    record.keep(
        Member::Resources,
        names
            .clone()
            .fold(0, |sum, name| fold(sum, digest(name.as_bytes()))),
    );
    let texts = [
        (
            Member::EventId,
            "EventId",
            event_id.as_str(),
            event_id.as_str(),
        ),
        (Member::EventStatus, "EventStatus", "Scheduled", "Scheduled"),
        (Member::EventType, "EventType", event_type, event_type),
        (
            Member::ResourceType,
            "ResourceType",
            "VirtualMachine",
            "VirtualMachine",
        ),
        (
            Member::Description,
            "Description",
            description,
            written_description,
        ),
        (Member::EventSource, "EventSource", "Platform", "Platform"),
    ];
    record.keep(
        Member::NotBefore,
        not_before(NOT_BEFORE).expect("a date").0 as u64,
    );
    record.keep(Member::DurationInSeconds, duration as u64);
    let mut members: Vec<_> = texts
        .into_iter()
        .map(|(member, name, text, written)| {
            record.keep_text(member, text);
            (name, Some(format!("\"{written}\"")))
        })
        .collect();
    members.insert(4, ("Resources", None));
    members.insert(5, ("NotBefore", Some(format!("\"{NOT_BEFORE}\""))));
    members.push(("DurationInSeconds", Some(duration.to_string())));
    if form == Form::Shuffled {
        order.shuffle(&mut members);
    }
    writer.open('{');
    for (name, value) in members {
        if let Some(value) = value {
            writer.member(name, &value);
            continue;
        }
        writer.name(name);
        writer.open('[');
        for resource in names.clone() {
            writer.element();
            let resource = if escapes {
                resource.replace('_', r"\u005f")
            } else {
                resource
            };
            let _ = write!(writer.out, "\"{resource}\"");
        }
        writer.close(']');
    }
    writer.close('}');
    record
}

/// Writes JSON, compact or pretty.
struct Writer {
    out: String,
    pretty: bool,
    depth: usize,
}

impl Writer {
    fn open(&mut self, bracket: char) {
        self.out.push(bracket);
        self.depth += 1;
    }

    fn close(&mut self, bracket: char) {
        self.depth -= 1;
        self.new_line();
        self.out.push(bracket);
    }

    /// Writes the comma and white space before an element or a member.
    fn element(&mut self) {
        if !self.out.ends_with(['{', '[']) {
            self.out.push(',');
        }
        self.new_line();
    }

    fn name(&mut self, name: &str) {
        self.element();
        let _ = write!(
            self.out,
            "\"{name}\":{}",
            if self.pretty { " " } else { "" }
        );
    }

    fn member(&mut self, name: &str, value: &str) {
        self.name(name);
        self.out.push_str(value);
    }

    fn new_line(&mut self) {
        if self.pretty {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n("  ", self.depth));
        }
    }
}

/// Random orders that are the same in every run (xorshift).
struct Order(u64);

impl Order {
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            items.swap(last, (self.0 % (last as u64 + 1)) as usize);
        }
    }
}
