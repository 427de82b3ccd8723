//! The table of rules that a capture shows the service to keep or to break. Each names its place in the wire contract,
//! `docs/inside/wire.md`, whose section 8 lists them.

use std::fmt;

/// Defines [`ServiceRule`] and its table: variant, id, section and item of `docs/inside/wire.md`, and what the service does.
macro_rules! rules {
    ($($variant:ident $id:literal $section:literal $item:literal $about:literal;)*) => {
        /// A rule of the wire contract that the service is checked against.
        ///
        /// ```
        /// use scheduled_events_replay::contract::ServiceRule;
        ///
        /// let rule = ServiceRule::NotBeforeBlank;
        /// assert_eq!((rule.id(), rule.section(), rule.item()), ("not-before-blank", 2, "`NotBefore`"));
        /// assert!(rule.about().contains("Started"));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        #[allow(missing_docs)] // `about` has the text.
        pub enum ServiceRule {
            $($variant,)*
        }

        impl ServiceRule {
            /// All rules, in the order of the wire contract.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The id in reports, such as `incarnation-grows`.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$variant => $id,)* }
            }

            /// The number of the section of `docs/inside/wire.md`.
            pub const fn section(self) -> u8 {
                match self { $(Self::$variant => $section,)* }
            }

            /// The row or paragraph of that section.
            pub const fn item(self) -> &'static str {
                match self { $(Self::$variant => $item,)* }
            }

            /// What a service does that keeps the rule.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about,)* }
            }
        }
    };
}

rules! {
    Header "metadata-header" 1 "header" "A request without `Metadata: true` gets a 400.";
    Forwarded "forwarded-refused" 1 "refused" "A request with `X-Forwarded-For` gets a 400.";
    RepeatedParameter "repeated-parameter" 1 "refused" "A request with a repeated parameter gets a 400.";
    VersionRequired "version-required" 1 "URL" "A request without `api-version` gets a 400.";
    UnknownVersion "unknown-version" 1 "Bodies of errors" "A version that the service does not have gets a 400 with `newest-versions`, or a 404.";
    KnownVersions "known-versions" 1 "versions" "Each documented version but the preview is accepted.";
    FirstResponse "first-response" 1 "first request" "The first response takes at most two minutes.";
    StatusCodes "status-codes" 1 "Status codes" "The status of each answer is in the table.";
    UpdateTime "update-time" 1 "410" "The service answers 410 for at most 70 seconds at a time.";
    Date "date" 1 "Date" "Each response has a `Date`.";
    Approval "approval" 1 "200" "The approval of a Scheduled event gets a 200.";
    ApprovalRepeated "approval-repeated" 1 "200" "The approval of an event that is approved already gets a 200.";
    ApprovalUnknown "approval-unknown" 1 "400" "The approval of an unknown `EventId` gets a 400.";
    OwnName "own-name" 1 "The VM's own resource name" "The name of the machine is one name, as text.";
    Document "document" 2 "A document is" "A 200 for a poll has a document, or an empty body.";
    Incarnation "incarnation" 2 "`DocumentIncarnation`" "The incarnation is an integer from 0 upwards.";
    IncarnationGrows "incarnation-grows" 2 "`DocumentIncarnation`" "The incarnation never falls.";
    IncarnationChanges "incarnation-changes" 2 "`DocumentIncarnation`" "The incarnation changes when the events do.";
    EventId "event-id" 2 "`EventId`" "An `EventId` is a GUID of 36 characters in upper case.";
    EventType "event-type" 2 "`EventType`" "An `EventType` is one that the version has.";
    EventStatus "event-status" 2 "`EventStatus`" "An `EventStatus` is `Scheduled` or `Started`, or `Advisory` for advice.";
    ResourceType "resource-type" 2 "`ResourceType`" "The `ResourceType` is `VirtualMachine`.";
    Resources "resources" 2 "`Resources`" "`Resources` has at least one name, and none is empty.";
    Underscore "underscore" 2 "2017-08-01" "Names start with `_` at 2017-03-01, and in no newer version.";
    NotBefore "not-before" 2 "`NotBefore`" "The `NotBefore` of a Scheduled event is an RFC 1123 date of 29 characters.";
    NotBeforeBlank "not-before-blank" 2 "`NotBefore`" "`NotBefore` is empty once the event is Started.";
    Description "description" 2 "`Description`" "The `Description` is a text.";
    EventSource "event-source" 2 "`EventSource`" "The `EventSource` is `Platform` or `User`.";
    Duration "duration" 2 "`DurationInSeconds`" "`DurationInSeconds` is an integer, at least -1.";
    Members "members" 2 "Members and event types" "An event has all members of its version.";
    OtherMembers "other-members" 2 "Members and event types" "An event has no members but those of its version.";
    MemberOrder "member-order" 2 "Members come" "Members come in the documented order.";
    Compact "compact" 2 "Members come" "A document has no white space between its parts.";
    StatusOrder "status-order" 3 "Life of an event" "An event that is Started is never Scheduled again.";
    NoReturn "no-return" 3 "Life of an event" "An event that has left the document never comes back.";
    NoticeFreeze "notice-freeze" 3 "Notice" "A `Freeze` is announced at least 15 minutes ahead.";
    NoticeReboot "notice-reboot" 3 "Notice" "A `Reboot` is announced at least 15 minutes ahead.";
    NoticeRedeploy "notice-redeploy" 3 "Notice" "A `Redeploy` is announced at least 10 minutes ahead.";
    NoticePreempt "notice-preempt" 3 "Notice" "A `Preempt` is announced at least 30 seconds ahead.";
    NoticeTerminate "notice-terminate" 3 "Notice" "A `Terminate` is announced at least 5 minutes ahead.";
    EarliestStart "earliest-start" 3 "Approval" "An event that nobody has approved starts at `NotBefore`, not before.";
}

impl fmt::Display for ServiceRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> String {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/inside/wire.md");
        std::fs::read_to_string(path).expect("the page")
    }

    #[test]
    fn the_wire_contract_has_the_section_and_the_item_of_every_rule() {
        let page = page();
        for rule in ServiceRule::ALL {
            let (_, section) = page
                .split_once(&format!("\n## {} ", rule.section()))
                .unwrap_or_else(|| panic!("no section {}", rule.section()));
            let section = section.split("\n## ").next().unwrap_or_default();
            let item = rule.item();
            let forms = [
                format!("\n| {item} |"),
                format!("\n**{item}.**"),
                format!("\n{item} "),
            ];
            assert!(
                forms.iter().any(|form| section.contains(form)),
                "{rule}: section {} lacks {item}",
                rule.section()
            );
        }
    }

    #[test]
    fn the_wire_contract_says_of_every_rule_who_has_seen_it() {
        let page = page();
        let rows = page
            .lines()
            .skip_while(|line| !line.starts_with("| rule | section | "))
            .skip(2)
            .take_while(|line| line.starts_with('|'));
        let rows: Vec<Vec<_>> = rows
            .map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
            .collect();
        let expected = ServiceRule::ALL.iter().map(|rule| {
            let place = format!("{}, {}", rule.section(), rule.item());
            vec![format!("`{rule}`"), place, rule.about().to_owned()]
        });
        let found = rows.iter().map(|cells| cells[..3].to_vec());
        assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        for cells in &rows {
            assert_eq!(cells.len(), 6, "{cells:?}");
            // A rule is documented, or was seen, or is a guess that says so.
            assert!(!cells[3].is_empty() || !cells[4].is_empty(), "{cells:?}");
        }
    }

    #[test]
    fn ids_differ_and_texts_are_sentences() {
        for (number, rule) in ServiceRule::ALL.iter().enumerate() {
            assert!(rule.about().ends_with('.'), "{rule}");
            let earlier = &ServiceRule::ALL[..number];
            assert!(
                earlier.iter().all(|other| other.id() != rule.id()),
                "{rule}"
            );
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
            assert!(rule.id().bytes().all(plain), "{rule}");
        }
    }
}
