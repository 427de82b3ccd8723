//! Replaces what tells whose machine an exchange is from: the names of machines, groups and scale sets, ids, subscriptions and
//! addresses. The same text always gets the same replacement, so that what belongs together stays together.
//!
//! What is known to be harmless is kept, such as the types of events; anything else that is text becomes `masked`.
//!
//! - `text`: finds names, ids and addresses in a text. `forms`: those that are known by their form.
//! - `json`: the texts of a body.

mod forms;
mod json;
mod text;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use scheduled_events_core::UnixSeconds;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::CapturedExchange;
use crate::resource::is_guid;
use json::{Literal, literals};
use text::Searched;

/// The members of documents, approvals and errors. Their names are kept.
const MEMBERS: [&str; 15] = [
    "DocumentIncarnation",
    "Events",
    "EventId",
    "EventStatus",
    "EventType",
    "ResourceType",
    "Resources",
    "NotBefore",
    "Description",
    "EventSource",
    "DurationInSeconds",
    "StartRequests",
    "error",
    "error_description",
    "newest-versions",
];

/// Words of the service. They are kept as values, and no name that is one of them is searched for in texts.
const WORDS: [&str; 16] = [
    "Advisory",
    "Canceled",
    "Completed",
    "Freeze",
    "Pause",
    "Platform",
    "Preempt",
    "Reboot",
    "Redeploy",
    "Restart",
    "Scheduled",
    "SpotRebalanceRecommendation",
    "Started",
    "Terminate",
    "User",
    "VirtualMachine",
];

/// Header fields whose values are kept.
const KEPT_FIELDS: [&str; 12] = [
    "accept-ranges",
    "allow",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "keep-alive",
    "metadata",
    "retry-after",
    "transfer-encoding",
];

/// Header fields in whose values only names, ids and addresses are replaced.
const TEXT_FIELDS: [&str; 3] = ["server", "user-agent", "x-forwarded-for"];

/// Header fields with the tag of a document.
const TAG_FIELDS: [&str; 2] = ["etag", "if-none-match"];

/// Addresses that every machine has.
const KNOWN_ADDRESSES: [Ipv4Addr; 3] = [
    Ipv4Addr::LOCALHOST,
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(168, 63, 129, 16),
];

/// The replacements so far.
///
/// ```
/// use scheduled_events_replay::capture::{CapturedExchange, Mask};
///
/// let mut mask = Mask::default();
/// let mut exchange = CapturedExchange {
///     method: "GET".into(),
///     target: "/metadata/scheduledevents?api-version=2020-07-01".into(),
///     status: Some(200),
///     body: r#"{"Events":[{"EventId":"6A7B1C2D-0000-1111-2222-333344445555","Resources":["shop-web_3"],"EventType":"Reboot"}]}"#.into(),
///     ..CapturedExchange::default()
/// };
/// mask.exchange(&mut exchange);
/// assert_eq!(
///     exchange.body,
///     r#"{"Events":[{"EventId":"AAAAAAAA-0000-4000-8000-000000000001","Resources":["vm_1"],"EventType":"Reboot"}]}"#
/// );
/// // The name is known now, and so is a form of the id.
/// assert_eq!(mask.take_new().len(), 2); // for the next run, which passes their lines to `restore`
/// assert_eq!(mask.text("Shop-Web_3 at 10.1.2.3: 6a7b1c2d-0000-1111-2222-333344445555"),
///     "vm_1 at 192.0.2.1: aaaaaaaa-0000-4000-8000-000000000001");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Mask {
    /// The replacements of each kind.
    known: [Known; 5],
    searched: Searched,
    /// What was replaced for the first time since it was asked for.
    new: Vec<Replacement>,
}

/// What is replaced, and by which number. A file of them lets the next run replace the same texts by the same ones. It tells what
/// the mask hides, so it must stay private.
///
/// ```
/// use scheduled_events_replay::capture::Mask;
///
/// let mut first = Mask::default();
/// assert_eq!([first.name("db"), first.name("web_3")], ["vm_1", "vm_2"]);
/// let lines: Vec<_> = first.take_new().iter().map(|new| serde_json::to_string(new).unwrap()).collect();
/// assert_eq!(lines[1], r#"{"record":"masked","kind":"name","number":2,"text":"web_3"}"#);
///
/// let mut next = Mask::default();
/// lines.iter().for_each(|line| next.restore(line));
/// assert_eq!([next.name("web_3"), next.name("new")], ["vm_2", "vm_3"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "record", rename = "masked")]
pub struct Replacement {
    /// `name`, `id`, `guid`, `address` or `mac`.
    pub kind: &'static str,
    /// The number in the text that replaces it.
    pub number: u64,
    /// What is replaced, in lower case.
    pub text: String,
}

/// The kinds of texts that are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Name,
    Id,
    Guid,
    Address,
    Mac,
}

const KINDS: [(Kind, &str); 5] = [
    (Kind::Name, "name"),
    (Kind::Id, "id"),
    (Kind::Guid, "guid"),
    (Kind::Address, "address"),
    (Kind::Mac, "mac"),
];

/// The number of each text, in lower case, and the highest one.
#[derive(Clone, Debug, Default)]
struct Known {
    numbers: HashMap<String, u64>,
    last: u64,
}

impl Mask {
    /// Restores a replacement from a line that an earlier run kept. Other lines change nothing.
    ///
    /// ```
    /// use scheduled_events_replay::capture::Mask;
    ///
    /// let mut mask = Mask::default();
    /// mask.restore(r#"{"record":"masked","kind":"name","number":7,"text":"web_3"}"#);
    /// assert_eq!(mask.name("web_3"), "vm_7");
    /// ```
    pub fn restore(&mut self, line: &str) {
        let value: Value = serde_json::from_str(line).unwrap_or_default();
        let kind = KINDS
            .into_iter()
            .find(|(_, word)| value["record"] == "masked" && value["kind"] == *word);
        if let (Some((kind, _)), Some(text), Some(number)) =
            (kind, value["text"].as_str(), value["number"].as_u64())
        {
            self.learn(kind, &folded(text), number);
        }
    }

    /// What was replaced for the first time since the last call.
    ///
    /// ```
    /// use scheduled_events_replay::capture::Mask;
    ///
    /// let mut mask = Mask::default();
    /// mask.name("db");
    /// assert_eq!((mask.take_new()[0].text.as_str(), mask.take_new().len()), ("db", 0));
    /// ```
    pub fn take_new(&mut self) -> Vec<Replacement> {
        std::mem::take(&mut self.new)
    }

    fn learn(&mut self, kind: Kind, text: &str, number: u64) {
        let known = &mut self.known[kind as usize];
        known.numbers.insert(text.to_owned(), number);
        known.last = known.last.max(number);
        if matches!(kind, Kind::Name | Kind::Id) {
            self.searched.insert(kind, text);
        }
    }

    fn number(&mut self, kind: Kind, text: &str) -> u64 {
        let text = folded(text);
        let known = &self.known[kind as usize];
        if let Some(number) = known.numbers.get(&text) {
            return *number;
        }
        let number = known.last.saturating_add(1);
        self.learn(kind, &text, number);
        let (_, kind) = KINDS[kind as usize];
        self.new.push(Replacement { kind, number, text });
        number
    }

    /// Masks a request and what came back.
    pub fn exchange(&mut self, exchange: &mut CapturedExchange) {
        let is_name = |text: &str| {
            !text.contains(|char: char| char.is_whitespace() || "<>{}\"".contains(char))
        };
        let own_name = exchange.answer().map(str::trim);
        let own_name =
            own_name.filter(|name| exchange.is_own_name() && !name.is_empty() && is_name(name));
        exchange.body = match own_name {
            Some(name) => self.name(name),
            None => self.body(&exchange.body),
        };
        exchange.request_body = self.body(&exchange.request_body);
        exchange.target = self.target(&exchange.target);
        for (name, value) in exchange
            .headers
            .iter_mut()
            .chain(&mut exchange.request_headers)
        {
            let name = name.to_ascii_lowercase();
            let has = |fields: &[&str]| fields.contains(&&*name);
            if has(&TAG_FIELDS) {
                *value = self.tag(value);
            } else if has(&TEXT_FIELDS) {
                *value = self.text(value);
            } else if !has(&KEPT_FIELDS) {
                "masked".clone_into(value);
            }
        }
        if let Some(failure) = &mut exchange.failure {
            failure.detail = self.text(&failure.detail);
        }
    }

    /// Masks the query; the paths of the metadata service name no machine.
    fn target(&mut self, target: &str) -> String {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let mut out = if path.starts_with("/metadata/") {
            path.to_owned()
        } else {
            self.text(path)
        };
        for (number, parameter) in query
            .into_iter()
            .flat_map(|query| query.split('&'))
            .enumerate()
        {
            out.push(if number == 0 { '?' } else { '&' });
            match parameter.split_once('=') {
                Some((name @ ("api-version" | "format"), value)) => {
                    out += name;
                    out.push('=');
                    out += &self.text(value);
                }
                _ => out += &self.text(parameter),
            }
        }
        out
    }

    /// Masks the tag of a document, which may be anything, such as its incarnation.
    fn tag(&mut self, tag: &str) -> String {
        let is_harmless = |text: &str| !text.contains(char::is_alphabetic);
        let (before, rest) = tag.split_at(tag.find('"').map_or(0, |quote| quote + 1));
        let (text, after) = rest.split_at(rest.rfind('"').unwrap_or(rest.len()));
        if is_harmless(text) {
            return tag.to_owned();
        }
        format!("{before}{}{after}", self.opaque(text))
    }

    /// Masks the name of a machine or the like.
    ///
    /// ```
    /// use scheduled_events_replay::capture::Mask;
    ///
    /// let mut mask = Mask::default();
    /// assert_eq!([mask.name("web_3"), mask.name("db"), mask.name("WEB_3")], ["vm_1", "vm_2", "vm_1"]);
    /// ```
    pub fn name(&mut self, name: &str) -> String {
        format!("vm_{}", self.number(Kind::Name, name))
    }

    /// Masks an id of any form.
    fn opaque(&mut self, id: &str) -> String {
        if is_guid(id) {
            self.guid(id)
        } else {
            self.id(id)
        }
    }

    /// Masks the texts of a body that is JSON, whose form stays as it was, or of one that begins so: it may be cut off, or have
    /// something before or after it. Of another body, all.
    fn body(&mut self, body: &str) -> String {
        if !body
            .trim_start_matches('\u{feff}')
            .trim_start()
            .starts_with(['{', '[', '"'])
        {
            return self.text(body);
        }
        let literals = literals(body);
        // First the names, since a text before them may have them, too.
        for literal in &literals {
            if !literal.is_key
                && !literal.is_cut
                && ["Resources", "EventId"].contains(&&*literal.member)
            {
                self.value(&literal.member, &literal.text);
            }
        }
        // What is between them is signs and numbers, if it is JSON.
        let is_whole = serde_json::from_str::<IgnoredAny>(body).is_ok();
        let between = |mask: &mut Self, part: &str| {
            if is_whole {
                part.to_owned()
            } else {
                mask.text(part)
            }
        };
        let mut out = String::with_capacity(body.len());
        let mut copied = 0;
        for literal in &literals {
            let Literal {
                member,
                text,
                range,
                ..
            } = literal;
            // A part of a name is not known.
            let masked = if literal.is_cut {
                "masked".to_owned()
            } else if literal.is_key {
                self.key(member, text)
            } else {
                self.value(member, text)
            };
            if masked != *text {
                out += &between(self, &body[copied..range.start]);
                out.push_str(&Value::from(masked).to_string());
                copied = range.end;
            }
        }
        out + &between(self, &body[copied..])
    }

    /// The name of a member. `outer` is the member that it is in: a document or an event may have a new one, which is a fact about
    /// the service.
    fn key(&mut self, outer: &str, name: &str) -> String {
        if MEMBERS.contains(&name) {
            return name.to_owned();
        }
        let masked = self.text(name);
        let may_be_new =
            ["", "Events"].contains(&outer) && name.bytes().all(|byte| byte.is_ascii_alphabetic());
        if masked == name && !may_be_new {
            return "masked".to_owned();
        }
        masked
    }

    fn value(&mut self, member: &str, text: &str) -> String {
        let is_number = || {
            text.bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'-')
        };
        match member {
            _ if text.is_empty() => String::new(),
            // At 2017-03-01 an underscore is before each name.
            "Resources" => match text.strip_prefix('_') {
                Some(name) if !name.is_empty() => format!("_{}", self.name(name)),
                _ => self.name(text),
            },
            "EventId" => self.opaque(text),
            "NotBefore" if UnixSeconds::parse(text).is_some() => text.to_owned(),
            "DurationInSeconds" | "DocumentIncarnation" if is_number() => text.to_owned(),
            // A new word is a fact about the service.
            "EventStatus" | "EventType" | "ResourceType" | "EventSource"
                if WORDS.contains(&text) =>
            {
                text.to_owned()
            }
            member if MEMBERS.contains(&member) => self.text(text),
            _ => "masked".to_owned(),
        }
    }

    fn id(&mut self, id: &str) -> String {
        format!("id-{}", self.number(Kind::Id, id))
    }

    /// It keeps whether it has lower case, which is a fact about the service.
    fn guid(&mut self, guid: &str) -> String {
        let number = self.number(Kind::Guid, guid);
        let is_lower = guid.bytes().any(|byte| byte.is_ascii_lowercase());
        let start = if is_lower { "aaaaaaaa" } else { "AAAAAAAA" };
        format!("{start}-0000-4000-8000-{number:012}")
    }

    /// An address for documentation (RFC 5737, RFC 3849) in its place; `None` for one that every machine has.
    fn address(&mut self, address: IpAddr) -> Option<String> {
        let is_known = match address {
            IpAddr::V4(v4) => KNOWN_ADDRESSES.contains(&v4) || v4.is_unspecified(),
            IpAddr::V6(v6) => v6.is_loopback() || v6.is_unspecified(),
        };
        if is_known {
            return None;
        }
        let number = self.number(Kind::Address, &address.to_string());
        Some(match address {
            IpAddr::V4(_) if number < 255 => format!("192.0.2.{number}"),
            // RFC 2544: as many as the capture has, up to 131,072.
            IpAddr::V4(_) => {
                let low = u32::try_from(number % (1 << 17)).unwrap_or_default();
                Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)) | low).to_string()
            }
            IpAddr::V6(_) => format!("2001:db8::{number:x}"),
        })
    }

    /// A locally administered address in its place, with the same signs between its digits.
    fn mac(&mut self, mac: &str) -> String {
        let between = mac.chars().find(|char| !char.is_ascii_hexdigit());
        let between = between.map_or(String::new(), String::from);
        let digits: String = mac.chars().filter(char::is_ascii_hexdigit).collect();
        let masked = format!("02{:010X}", self.number(Kind::Mac, &digits));
        let pairs: Vec<_> = (0..12).step_by(2).map(|at| &masked[at..at + 2]).collect();
        pairs.join(&between)
    }
}

/// A text in the form in which texts are compared: case is ignored.
fn folded(text: &str) -> String {
    text.chars().flat_map(fold).collect()
}

/// Twice, since some letters have two forms in lower case.
fn fold(char: char) -> impl Iterator<Item = char> {
    char.to_uppercase().flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests;
