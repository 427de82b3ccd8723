//! One record of the audit file. `docs/use/records.md` describes the members.

use scheduled_events_core::UnixSeconds;
use scheduled_events_core::record::PrintableJson;
use serde_json::{Map, Value};

use crate::audit::Line;

/// A record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The line, a JSON object in which characters that are unsafe to print are escaped.
    text: String,
    members: Map<String, Value>,
    /// An id that no other record of this machine has, and that stays the same when the record is
    /// sent again.
    pub id: String,
}

impl Record {
    /// The record of a line, which is a JSON object.
    pub fn new(line: &Line) -> Self {
        let members = serde_json::from_str(&line.text).unwrap_or_default();
        Self {
            text: line.text.clone(),
            members,
            id: format!("{}-{}", line.position.sequence, line.position.digest),
        }
    }

    /// The record that replaces lines that no longer exist: the same that the watcher itself writes
    /// where lines are missing. `before` is the record after them.
    pub fn gap(lost: u64, before: &Self) -> Self {
        let time = before.text("time").unwrap_or_default();
        let time = PrintableJson(&Value::from(time).to_string()).to_string();
        let text = format!(r#"{{"record":"gap","lost":{lost},"since":{time},"time":{time}}}"#);
        let members = serde_json::from_str(&text).unwrap_or_default();
        Self {
            text,
            members,
            id: format!("gap-{}", before.id),
        }
    }

    /// Its kind, such as `change`.
    pub fn kind(&self) -> &str {
        self.text("record").unwrap_or("unknown")
    }

    /// A member that is a string.
    pub fn text(&self, member: &str) -> Option<&str> {
        self.members.get(member)?.as_str()
    }

    /// A member.
    pub fn get(&self, member: &str) -> Option<&Value> {
        self.members.get(member).filter(|value| !value.is_null())
    }

    /// Its members that are not null.
    pub fn members(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.members
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.as_str(), value))
    }

    /// A member that is a time.
    pub fn time(&self, member: &str) -> Option<UnixSeconds> {
        UnixSeconds::parse(self.text(member)?)
    }

    /// The event that it is about.
    pub fn event_id(&self) -> Option<&str> {
        self.text("event_id")
    }

    /// The kind of change, if this is a record `change`.
    pub fn change(&self) -> Option<&str> {
        self.text("change").filter(|_| self.kind() == "change")
    }

    /// Whether it reports the end of its event.
    pub fn is_end(&self) -> bool {
        let change = self.change();
        matches!(
            change,
            Some("completed" | "cancelled" | "ended" | "advice-withdrawn")
        )
    }

    /// Whether it is about other machines only.
    pub fn is_of_others(&self) -> bool {
        self.get("mine") == Some(&Value::Bool(false))
    }

    /// The record as a JSON object with the machine's name, in place of the one that the watcher knows. Records of its earlier versions
    /// have none.
    pub fn with_machine(&self, machine: &str) -> String {
        let member = |name: &str| {
            let name = Value::from(name).to_string();
            format!(",\"machine\":{}", PrintableJson(&name))
        };
        let (object, new) = (self.text.trim_end(), member(machine));
        if let Some(known) = self.text("machine").map(member)
            // In a text, the quotes would be escaped.
            && let Some(start) = object.rfind(&known)
        {
            let (before, after) = (&object[..start], &object[start + known.len()..]);
            return format!("{before}{new}{after}");
        }
        format!("{}{new}}}", object.strip_suffix('}').unwrap_or(object))
    }
}

#[cfg(test)]
mod tests {
    use scheduled_events_core::Change;

    use super::*;

    #[test]
    fn a_record_has_one_machine() {
        let given = r#"{"record":"gap","why":"a\",\"machine\":\"x","time":"t"SAME,"sequence":7}"#;
        for known in ["", r#","machine":"WestNO_0""#, r#","machine":"x""#] {
            let text = given.replace("SAME", known);
            let record = Record {
                members: serde_json::from_str(&text).expect("an object"),
                text,
                id: String::new(),
            };
            let sent = record.with_machine("we\"b");
            let read: Value = serde_json::from_str(&sent).expect("an object");
            assert_eq!(read["machine"], "we\"b", "{sent}");
            assert_eq!(read["why"], "a\",\"machine\":\"x", "{sent}");
            assert_eq!(sent.matches(",\"machine\":\"we").count(), 1, "{sent}");
            assert_eq!((&read["time"], &read["sequence"]), (&"t".into(), &7.into()));
        }
    }

    #[test]
    fn each_change_that_ends_an_event_is_an_end() {
        for change in Change::ALL {
            let text = format!(r#"{{"record":"change","change":"{change}","event_id":"e"}}"#);
            let record = Record {
                members: serde_json::from_str(&text).expect("an object"),
                text,
                id: String::new(),
            };
            assert_eq!(record.is_end(), change.is_end(), "{change}");
        }
    }
}
