//! Generates documents from arbitrary bytes with a grammar, so that most of them are accepted.

use std::fmt::Write;

use arbitrary::{Result, Unstructured};

/// The meaning of an event, before it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    pub id: String,
    pub event_type: Option<String>,
    pub status: Option<String>,
    pub resources: Option<Vec<String>>,
    pub not_before: Option<i64>,
    pub source: Option<String>,
    pub description: Option<String>,
    pub duration: Option<u32>,
}

const IDS: [&str; 12] = [
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "A",
    "id é",
    "",
    "\u{1f600}",
    "x\"\\\n",
    "h",
];
pub const NAMES: [&str; 5] = ["vm", "vm_1", "VM", "vm_10", "höst"];

pub fn specs(u: &mut Unstructured<'_>, most: usize) -> Result<Vec<Spec>> {
    let count = u.int_in_range(0..=most)?;
    (0..count).map(|_| spec(u)).collect()
}

pub fn spec(u: &mut Unstructured<'_>) -> Result<Spec> {
    let id = match u.int_in_range(0..=15_usize)? {
        0 => u.arbitrary::<&str>()?.to_owned(),
        1 => "long".repeat(u.int_in_range(15..=20)?),
        _ => (*u.choose(&IDS)?).to_owned(),
    };
    Ok(Spec {
        id,
        event_type: word(
            u,
            &[
                "Freeze",
                "Reboot",
                "Redeploy",
                "Preempt",
                "Terminate",
                "Brew",
                "SpotRebalanceRecommendation",
            ],
        )?,
        status: word(
            u,
            &[
                "Scheduled",
                "Scheduled",
                "Scheduled",
                "Started",
                "Completed",
                "Canceled",
                "Queued",
                "Advisory",
            ],
        )?,
        resources: if rarely(u, 12)? {
            None
        } else {
            let count = u.int_in_range(0..=3_usize)?;
            Some(
                (0..count)
                    .map(|_| Ok((*u.choose(&NAMES)?).to_owned()))
                    .collect::<Result<_>>()?,
            )
        },
        not_before: if rarely(u, 4)? {
            None
        } else {
            Some(1_700_000_000 + u.int_in_range(-100..=2000_i64)?)
        },
        source: word(u, &["Platform", "User", "Cat"])?,
        description: if rarely(u, 4)? {
            Some(u.arbitrary::<&str>()?.to_owned())
        } else {
            None
        },
        duration: if rarely(u, 2)? {
            None
        } else {
            Some(u.int_in_range(0..=20)?)
        },
    })
}

/// True once in `n` times; never after the bytes have run out, so that the rest is written plainly.
pub fn rarely(u: &mut Unstructured<'_>, n: u8) -> Result<bool> {
    Ok(!u.ratio(n - 1, n)?)
}

fn word(u: &mut Unstructured<'_>, words: &[&str]) -> Result<Option<String>> {
    Ok(if rarely(u, 12)? {
        None
    } else {
        Some((*u.choose(words)?).to_owned())
    })
}

/// Writes the events in one of many equivalent ways.
pub fn document(
    u: &mut Unstructured<'_>,
    incarnation: Option<u64>,
    events: &[Spec],
) -> Result<String> {
    let mut text = String::new();
    space(u, &mut text)?;
    text.push('{');
    if let Some(incarnation) = incarnation {
        string(u, &mut text, "DocumentIncarnation")?;
        text.push(':');
        space(u, &mut text)?;
        number(u, &mut text, incarnation)?;
        text.push(',');
    }
    unknown(u, &mut text)?;
    string(u, &mut text, "Events")?;
    text.push(':');
    space(u, &mut text)?;
    text.push('[');
    for (index, spec) in events.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        event(u, &mut text, spec)?;
    }
    text.push(']');
    space(u, &mut text)?;
    text.push('}');
    space(u, &mut text)?;
    Ok(text)
}

fn event(u: &mut Unstructured<'_>, text: &mut String, spec: &Spec) -> Result<()> {
    space(u, text)?;
    text.push('{');
    unknown(u, text)?;
    let mut members: Vec<usize> = (0..8).collect();
    if rarely(u, 4)? {
        members.rotate_left(u.int_in_range(0..=7)?);
    }
    let mut first = true;
    for member in members {
        let mut value = String::new();
        let name = match member {
            0 => {
                string(u, &mut value, &spec.id)?;
                "EventId"
            }
            1 => {
                optional(u, &mut value, spec.event_type.as_deref())?;
                "EventType"
            }
            2 => {
                optional(u, &mut value, spec.status.as_deref())?;
                "EventStatus"
            }
            3 => {
                match &spec.resources {
                    None => value.push_str("null"),
                    Some(names) => {
                        value.push('[');
                        for (index, name) in names.iter().enumerate() {
                            if index > 0 {
                                value.push(',');
                            }
                            space(u, &mut value)?;
                            string(u, &mut value, name)?;
                        }
                        value.push(']');
                    }
                }
                "Resources"
            }
            4 => {
                let moment = spec
                    .not_before
                    .map(|seconds| jiff::Timestamp::from_second(seconds).unwrap());
                let time = moment.map(|moment| {
                    if rarely(u, 2).unwrap_or(false) {
                        moment.to_string()
                    } else {
                        moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
                    }
                });
                optional(u, &mut value, Some(time.as_deref().unwrap_or("")))?;
                "NotBefore"
            }
            5 => {
                optional(u, &mut value, spec.source.as_deref())?;
                "EventSource"
            }
            6 => {
                optional(u, &mut value, spec.description.as_deref())?;
                "Description"
            }
            _ => {
                match spec.duration {
                    None => value.push_str(u.choose(&["-1", "null", "-1.0", "\"-1\""])?),
                    Some(seconds) => number(u, &mut value, seconds.into())?,
                }
                "DurationInSeconds"
            }
        };
        if !std::mem::take(&mut first) {
            text.push(',');
        }
        space(u, text)?;
        string(u, text, name)?;
        space(u, text)?;
        text.push(':');
        space(u, text)?;
        text.push_str(&value);
    }
    text.push('}');
    space(u, text)
}

/// An unknown member and a comma.
fn unknown(u: &mut Unstructured<'_>, text: &mut String) -> Result<()> {
    let values = [
        "1e9",
        "[[[]]]",
        "{\"Events\":[{}]}",
        "\"\\ud83d\\ude00\"",
        "[true,false,null,-0.0E-0]",
        "{\"a\":{}}",
    ];
    if rarely(u, 8)? {
        write!(text, "\"eventid\":{},", u.choose(&values)?).unwrap();
    }
    Ok(())
}

fn space(u: &mut Unstructured<'_>, text: &mut String) -> Result<()> {
    if rarely(u, 16)? {
        text.push_str(u.choose(&[" ", "\n", "\t", "\r\n", "  \n\t"])?);
    }
    Ok(())
}

fn optional(u: &mut Unstructured<'_>, text: &mut String, value: Option<&str>) -> Result<()> {
    match value {
        None => text.push_str("null"),
        Some(value) => string(u, text, value)?,
    }
    Ok(())
}

fn number(u: &mut Unstructured<'_>, text: &mut String, number: u64) -> Result<()> {
    match u.int_in_range(0..=7)? {
        0 => write!(text, "{number}.000").unwrap(),
        1 if number > 0 => write!(text, "{number}0e-1").unwrap(),
        2 => write!(text, "{number}E+0").unwrap(),
        _ => write!(text, "{number}").unwrap(),
    }
    Ok(())
}

/// A string with some needless escapes.
fn string(u: &mut Unstructured<'_>, text: &mut String, value: &str) -> Result<()> {
    let eager = rarely(u, 16)?;
    text.push('"');
    for char in value.chars() {
        match char {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' if eager => text.push_str("\\n"),
            '/' if eager => text.push_str("\\/"),
            char if char < ' ' || eager && u.ratio(1, 3)? => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    write!(text, "\\u{unit:04X}").unwrap();
                }
            }
            char => text.push(char),
        }
    }
    text.push('"');
    Ok(())
}
