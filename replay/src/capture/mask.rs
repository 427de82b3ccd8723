//! Replaces what tells whose machine an exchange is from: the names of machines, groups and scale sets, ids, subscriptions and
//! addresses. The same text always gets the same replacement, so that what belongs together stays together.
//!
//! What is known to be harmless is kept, such as the types of events; anything else that is text becomes `masked`.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use scheduled_events_core::wire::UNDERSCORED_API_VERSION;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::CapturedExchange;
use crate::resource::{GUID_LENGTH, is_guid};

/// Members whose texts are words of the service or times.
const WORDS: [&str; 7] = [
    "EventStatus",
    "EventType",
    "ResourceType",
    "NotBefore",
    "EventSource",
    "DurationInSeconds",
    "DocumentIncarnation",
];

/// Members with sentences and the like, in which only names, ids and addresses are replaced.
const SENTENCES: [&str; 4] = [
    "Description",
    "error",
    "error_description",
    "newest-versions",
];

/// Header fields whose values tell nothing about the machine.
const FIELDS: [&str; 16] = [
    "accept-ranges",
    "allow",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "etag",
    "keep-alive",
    "metadata",
    "retry-after",
    "server",
    "transfer-encoding",
    "user-agent",
    "x-forwarded-for",
];

/// Addresses that every machine has.
const KNOWN_ADDRESSES: [Ipv4Addr; 3] = [
    Ipv4Addr::LOCALHOST,
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(168, 63, 129, 16),
];

/// The path segments of a resource id before a name.
const BEFORE_NAMES: [&str; 6] = [
    "subscriptions",
    "resourcegroups",
    "virtualmachines",
    "virtualmachinescalesets",
    "availabilitysets",
    "hostgroups",
];

/// The digits of a GUID without its dashes.
const HEX_GUID_LENGTH: usize = 32;

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
    /// For each kind the number of each text, in lower case.
    known: [HashMap<String, u64>; 4],
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
    /// `name`, `id`, `guid` or `address`.
    pub kind: &'static str,
    /// The number in the text that replaces it.
    pub number: u64,
    /// What is replaced, in lower case.
    pub text: String,
}

/// The kinds of texts that are replaced.
#[derive(Clone, Copy)]
enum Kind {
    Name,
    Id,
    Guid,
    Address,
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::Name, "name"),
    (Kind::Id, "id"),
    (Kind::Guid, "guid"),
    (Kind::Address, "address"),
];

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
            self.known[kind as usize].insert(text.to_owned(), number);
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

    fn knows(&self, kind: Kind, text: &str) -> bool {
        self.known[kind as usize].contains_key(text)
    }

    fn number(&mut self, kind: Kind, text: &str) -> u64 {
        let text = text.to_ascii_lowercase();
        let known = &mut self.known[kind as usize];
        if let Some(number) = known.get(&text) {
            return *number;
        }
        let number = known.values().max().map_or(1, |max| max.saturating_add(1));
        known.insert(text.clone(), number);
        let (_, kind) = KINDS[kind as usize];
        self.new.push(Replacement { kind, number, text });
        number
    }

    /// Masks a request and what came back.
    pub fn exchange(&mut self, exchange: &mut CapturedExchange) {
        let is_underscored = exchange.api_version() == Some(UNDERSCORED_API_VERSION);
        let names_a_machine = exchange.is_own_name() && exchange.answer().is_some();
        exchange.body = if names_a_machine && !exchange.body.trim().is_empty() {
            self.name(exchange.body.trim())
        } else {
            self.body(&exchange.body, is_underscored)
        };
        exchange.request_body = self.body(&exchange.request_body, is_underscored);
        exchange.target = self.text(&exchange.target);
        for (name, value) in exchange
            .headers
            .iter_mut()
            .chain(&mut exchange.request_headers)
        {
            *value = if FIELDS.contains(&name.to_ascii_lowercase().as_str()) {
                self.text(value)
            } else {
                "masked".to_owned()
            };
        }
        if let Some(failure) = &mut exchange.failure {
            failure.detail = self.text(&failure.detail);
        }
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

    /// Masks the names, ids and addresses in a text: those names that were seen as names, or that follow their kind in a resource id.
    pub fn text(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (replaced, length) = self.token(&out, rest);
            match replaced {
                Some(replaced) => out.push_str(&replaced),
                None => out.push_str(&rest[..length]),
            }
            rest = &rest[length.max(first.len_utf8())..];
        }
        out
    }

    /// What replaces the token at the start of a text, and the length of the token.
    fn token(&mut self, before: &str, text: &str) -> (Option<String>, usize) {
        if let Some(guid) = text.get(..GUID_LENGTH).filter(|text| is_guid(text)) {
            return (Some(self.guid(guid)), GUID_LENGTH);
        }
        // One without dashes.
        let of_digits = run(text, |char| char.is_ascii_hexdigit());
        let goes_on = text[of_digits..].starts_with(char::is_alphanumeric);
        if of_digits == HEX_GUID_LENGTH && !goes_on {
            return (Some(self.guid(&text[..of_digits])), of_digits);
        }
        // A port may follow.
        for between in [".:", "."] {
            let whole = run(text, |char| {
                char.is_ascii_hexdigit() || between.contains(char)
            });
            let address = text[..whole].trim_end_matches(['.', ':']);
            if address.matches([':', '.']).count() > 1
                && let Ok(parsed) = address.parse::<IpAddr>()
            {
                return (self.address(parsed), address.len());
            }
        }
        // An escape of a URL is between names.
        let escape = text.strip_prefix('%').and_then(|rest| rest.get(..2));
        if escape.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            return (None, 3);
        }
        let whole = run(text, is_of_name);
        if whole == 0 {
            return (None, text.chars().next().map_or(0, char::len_utf8));
        }
        let token = text[..whole].trim_end_matches(['.', '-']);
        if follows_its_kind(before) {
            return (Some(self.name(token)), token.len());
        }
        // The longest known part that begins here: a disk, a host or a group often has the machine's name and more.
        let ends = token.char_indices().filter(|(_, char)| is_between(*char));
        let ends: Vec<_> = ends.map(|(at, _)| at).chain([token.len()]).collect();
        for known in ends.iter().rev().map(|end| &token[..*end]) {
            let lower = known.to_ascii_lowercase();
            if self.knows(Kind::Name, &lower) {
                return (Some(self.name(known)), known.len());
            }
            if self.knows(Kind::Id, &lower) {
                return (Some(self.id(known)), known.len());
            }
        }
        // One may begin in the next part, and a GUID anywhere.
        let first = ends.first().copied().unwrap_or_default();
        let next = first + run(&text[first..], is_between);
        let guid = (1..next).find(|at| text.get(*at..at + GUID_LENGTH).is_some_and(is_guid));
        (None, guid.unwrap_or(next))
    }

    /// Masks the texts of a body that is JSON, whose form stays as it was, or of one that begins so: it may be cut off, or have
    /// something before or after it. Of another body, all.
    fn body(&mut self, body: &str, is_underscored: bool) -> String {
        if !body
            .trim_start_matches('\u{feff}')
            .trim_start()
            .starts_with(['{', '[', '"'])
        {
            return self.text(body);
        }
        let literals = literals(body);
        // First the names, since a text before them may have them, too.
        for (key, literal, _) in &literals {
            if key == "Resources" || key == "EventId" {
                self.value(key, literal, is_underscored);
            }
        }
        // What is between them is names of members and numbers, if it is JSON.
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
        for (key, literal, range) in &literals {
            let masked = self.value(key, literal, is_underscored);
            if masked != *literal {
                out += &between(self, &body[copied..range.0]);
                out.push_str(&Value::from(masked).to_string());
                copied = range.1;
            }
        }
        out + &between(self, &body[copied..])
    }

    fn value(&mut self, key: &str, text: &str, is_underscored: bool) -> String {
        match key {
            "Resources" => match text.strip_prefix('_').filter(|_| is_underscored) {
                Some(name) => format!("_{}", self.name(name)),
                None if text.is_empty() => String::new(),
                None => self.name(text),
            },
            "EventId" if is_guid(text) => self.guid(text),
            "EventId" if !text.is_empty() => self.id(text),
            key if WORDS.contains(&key) || SENTENCES.contains(&key) => self.text(text),
            _ if text.is_empty() => String::new(),
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
}

/// Whether a text ends with a segment of a resource id that a name follows.
fn follows_its_kind(text: &str) -> bool {
    // The longest of them has 22 bytes.
    let end = text.get(text.len().saturating_sub(26)..);
    let end = end.unwrap_or_default().to_ascii_lowercase();
    let segment = end.strip_suffix('/').or_else(|| end.strip_suffix("%2f"));
    segment.is_some_and(|segment| BEFORE_NAMES.iter().any(|kind| segment.ends_with(kind)))
}

fn is_between(char: char) -> bool {
    "_-.".contains(char)
}

fn is_of_name(char: char) -> bool {
    char.is_alphanumeric() || is_between(char)
}

/// The length of the longest start of such characters.
fn run(text: &str, fits: impl Fn(char) -> bool) -> usize {
    text.find(|char| !fits(char)).unwrap_or(text.len())
}

/// The texts of JSON that are values: each with the name of the member that it belongs to, and where it is.
fn literals(json: &str) -> Vec<(String, String, (usize, usize))> {
    let mut found = Vec::new();
    let mut key = String::new();
    // The names of the members whose objects and lists are open.
    let mut outer = Vec::new();
    let mut at = 0;
    while let Some(start) = json[at..].find('"').map(|start| at + start) {
        for byte in json[at..start].bytes() {
            match byte {
                b'{' | b'[' => outer.push(key.clone()),
                b'}' | b']' => key = outer.pop().unwrap_or_default(),
                _ => {}
            }
        }
        let mut end = start + 1;
        let mut is_escaped = false;
        for byte in json[start + 1..].bytes() {
            end += 1;
            if !is_escaped && byte == b'"' {
                break;
            }
            is_escaped = !is_escaped && byte == b'\\';
        }
        // One that is cut off, or has an invalid escape, is masked as it is.
        let text = serde_json::from_str(&json[start..end])
            .unwrap_or_else(|_| json[start + 1..end].trim_end_matches('"').to_owned());
        if json[end..].trim_start().starts_with(':') {
            key = text;
        } else {
            found.push((key.clone(), text, (start, end)));
        }
        at = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_whose_machine_it_was_is_replaced_everywhere_and_the_same_each_time() {
        let secret = "11111111-2222-3333-4444-555555555555";
        let exchange = |body: &str| CapturedExchange {
            target: format!("/metadata/scheduledevents?api-version=2020-07-01&x={secret}"),
            status: Some(200),
            headers: vec![
                ("x-ms-request-id".into(), "secret".into()),
                ("server".into(), "IMDS/150.870.65.1907".into()),
            ],
            body: body.into(),
            ..CapturedExchange::default()
        };
        let mut mask = Mask::default();
        let mut first = exchange(
            "{ \"Events\":[{\"Description\":\"for Secret-VM_3, sub /subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/secret-group/x from 10.9.8.7 or fe80::1234\",\
             \"Resources\":[\"secret-vm_3\", \"secret-b\"],\"EventId\":\"secret-id\",\"New\":\"secret\",\"EventType\":\"Reboot\"}]}",
        );
        mask.exchange(&mut first);
        assert_eq!(
            first.body,
            "{ \"Events\":[{\"Description\":\"for vm_1, sub /subscriptions/AAAAAAAA-0000-4000-8000-000000000001/resourceGroups/vm_3/x from 192.0.2.1 or 2001:db8::2\",\
             \"Resources\":[\"vm_1\", \"vm_2\"],\"EventId\":\"id-1\",\"New\":\"masked\",\"EventType\":\"Reboot\"}]}"
        );
        let mut text =
            exchange("<p>SECRET-ID: secret-vm_3.internal at 10.9.8.7, 169.254.169.254</p>");
        mask.exchange(&mut text);
        assert_eq!(
            text.body,
            "<p>id-1: vm_1.internal at 192.0.2.1, 169.254.169.254</p>"
        );
        let line = format!("{first:?}{text:?}").to_ascii_lowercase();
        assert!(!line.contains("secret") && !line.contains(secret), "{line}");
        assert_eq!(text.header("server"), Some("IMDS/150.870.65.1907"));
    }

    #[test]
    fn what_is_made_from_a_name_does_not_show_it() {
        let mut mask = Mask::default();
        mask.name("secret-vm_3");
        for (text, masked) in [
            ("secret-vm_3-disk", "vm_1-disk"),
            (
                "os-Secret-VM_3.internal.example",
                "os-vm_1.internal.example",
            ),
            ("secret-vm_30", "secret-vm_30"),
            ("/subscriptions/my-team/x", "/subscriptions/vm_2/x"),
            (
                "%2fresourceGroups%2Fmy-group%2fx",
                "%2fresourceGroups%2Fvm_3%2fx",
            ),
            ("10.1.2.3-web, 10.1.2.3:80", "192.0.2.1-web, 192.0.2.1:80"),
            (
                "6a7b1c2d000011112222333344445555.",
                "aaaaaaaa-0000-4000-8000-000000000001.",
            ),
            (
                "x-6A7B1C2D-0000-1111-2222-333344445556",
                "x-AAAAAAAA-0000-4000-8000-000000000002",
            ),
            ("at 10:20:30 in v1.2.3", "at 10:20:30 in v1.2.3"),
        ] {
            assert_eq!(mask.text(text), masked, "{text}");
        }
    }

    #[test]
    fn a_text_after_an_object_in_a_list_belongs_to_the_list() {
        let mut mask = Mask::default();
        let body = r#"{"New":[{"EventType":"Reboot"},"secret"],"Resources":[["a"],"b"]}"#;
        assert_eq!(
            mask.body(body, false),
            r#"{"New":[{"EventType":"Reboot"},"masked"],"Resources":[["vm_1"],"vm_2"]}"#
        );
    }

    #[test]
    fn names_that_are_words_or_numbers_leave_the_form_of_json_as_it_was() {
        let mut mask = Mask::default();
        mask.text("/resourceGroups/Events/x");
        let body =
            r#"{"DocumentIncarnation":1,"Events":[{"EventId":"1","Resources":["EventId"]}]}"#;
        assert_eq!(
            mask.body(body, false),
            r#"{"DocumentIncarnation":1,"Events":[{"EventId":"id-1","Resources":["vm_2"]}]}"#
        );
    }

    #[test]
    fn a_body_that_is_cut_off_or_has_more_around_it_shows_no_name() {
        let whole = r#"{"Events":[{"EventId":"6A7B1C2D-0000-1111-2222-333344445555","Resources":["secret-a","secret-b"],"New":"secret"}]}"#;
        let cut = (1..whole.len()).map(|at| whole[..at].to_owned());
        let around = [
            format!("\u{feff}{whole}"),
            format!("{whole}}} \"secret-b\""),
        ];
        for body in cut.chain(around) {
            let masked = Mask::default().body(&body, false);
            assert!(!masked.contains("secret"), "{body}: {masked}");
        }
    }

    #[test]
    fn a_thousand_addresses_have_a_thousand_replacements() {
        let mut mask = Mask::default();
        let masked: std::collections::HashSet<_> = (0..1_000_u32)
            .map(|number| mask.text(&Ipv4Addr::from(0x0a00_0000 + number).to_string()))
            .collect();
        assert_eq!(masked.len(), 1_000);
    }

    #[test]
    fn the_own_name_and_one_with_an_underscore_are_the_same_machine() {
        let mut mask = Mask::default();
        let mut name = CapturedExchange {
            target: scheduled_events_core::wire::NAME_PATH.into(),
            status: Some(200),
            body: "web_3".into(),
            ..CapturedExchange::default()
        };
        mask.exchange(&mut name);
        let mut document = CapturedExchange {
            target: "/metadata/scheduledevents?api-version=2017-03-01".into(),
            status: Some(200),
            body: r#"{"Events":[{"Resources":["_WEB_3"]}]}"#.into(),
            ..CapturedExchange::default()
        };
        mask.exchange(&mut document);
        assert_eq!(
            (name.body.as_str(), document.body.contains("\"_vm_1\"")),
            ("vm_1", true)
        );
    }

    #[test]
    fn texts_of_any_characters_keep_what_is_no_secret() {
        let mut mask = Mask::default();
        for text in [
            "",
            "é日本 \u{202e}",
            "a-b.c_d",
            "12:30:45",
            "{}",
            "...",
            "::",
            "2020-07-01",
            "1.2",
        ] {
            assert_eq!(mask.text(text), text);
        }
        assert_eq!(
            mask.text("x6A7B1C2D-0000-1111-2222-333344445555x"),
            "xAAAAAAAA-0000-4000-8000-000000000001x"
        );
    }
}
