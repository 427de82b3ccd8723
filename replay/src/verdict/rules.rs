//! The table of rules that a client is checked against. Each names its place in the wire contract,
//! `docs/inside/wire.md`.

use std::fmt;

/// The severity of a broken rule.
///
/// ```
/// use scheduled_events_replay::verdict::{Level, Rule};
///
/// let must = Rule::ALL.iter().filter(|rule| rule.level() == Level::Must).count();
/// assert!(must > 0 && must < Rule::ALL.len());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The client loses events, harms other machines, or is refused.
    Must,
    /// It works, but not as well as it could. This is a warning, and the verdict stays clean.
    Should,
}

/// Defines [`Rule`] and its table: variant, id, level, section and item of `docs/inside/wire.md`, and a
/// client's behaviour.
macro_rules! rules {
    ($($variant:ident $id:literal $level:ident $section:literal $item:literal $about:literal;)*) => {
        /// A rule of the wire contract that a client is checked against.
        ///
        /// ```
        /// use scheduled_events_replay::verdict::{Level, Rule};
        ///
        /// let rule = Rule::PollGap;
        /// assert_eq!((rule.id(), rule.level()), ("poll-gap", Level::Must));
        /// assert!(!rule.about().is_empty());
        /// // Where `docs/inside/wire.md` has it.
        /// assert!(rule.section() > 0 && !rule.item().is_empty());
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        #[allow(missing_docs)] // `about` has the text.
        pub enum Rule {
            $($variant,)*
        }

        impl Rule {
            /// All rules, in the order of a report.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The id in reports, such as `poll-gap`.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$variant => $id,)* }
            }

            /// The severity of a finding.
            pub const fn level(self) -> Level {
                match self { $(Self::$variant => Level::$level,)* }
            }

            /// The number of the section of `docs/inside/wire.md`.
            pub const fn section(self) -> u8 {
                match self { $(Self::$variant => $section,)* }
            }

            /// The row or paragraph of that section.
            pub const fn item(self) -> &'static str {
                match self { $(Self::$variant => $item,)* }
            }

            /// The behaviour of a client that keeps the rule.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about,)* }
            }
        }
    };
}

rules! {
    Url "url" Must 1 "URL" "It sends HTTP, GET and POST, to an address and a path that the service has, with each query parameter once.";
    Header "header" Must 1 "header" "It sends `Metadata: true` once with every request.";
    UserAgent "user-agent" Should 1 "User-Agent" "It names itself in `User-Agent`.";
    Route "route" Must 1 "route" "It sends its requests through no proxy.";
    Redirect "redirect" Must 1 "route" "It follows no redirect.";
    Version "api-version" Must 1 "versions" "It asks once in each request for an `api-version` that the service has.";
    Fallback "version-fallback" Must 1 "versions" "It asks for an older `api-version` when the service refuses a newer one.";
    FirstRequest "first-request" Should 1 "first request" "It waits up to two minutes for the first response.";
    PollGap "poll-gap" Must 1 "poll rate" "It polls at least every 15 seconds: the shortest notice is 30 seconds.";
    RequestRate "request-rate" Must 1 "poll rate" "It sends at most five requests a second.";
    BackOff "back-off" Should 1 "Status codes" "It waits longer after each poll in a row that fails, or as long as `Retry-After` asks.";
    GaveUp "gave-up" Must 1 "Status codes" "It repeats what failed, a poll or an approval, and goes on.";
    StopsPolling "stops-polling" Must 3 "Life of an event" "It polls until its machine's events have left the document.";
    MissedEvent "missed-event" Must 3 "Notice" "It polls while an event of its machine waits, with a version that shows it.";
    StartRequests "start-requests" Must 1 "The body of a POST" "It approves events that are in the document, in well-formed requests.";
    ApprovedOther "approved-other" Must 3 "Approval" "It approves events of its own machine only.";
    ApprovedUnreadable "approved-unreadable" Must 3 "Approval" "It approves no event that it could not read whole, or whose `EventId` it was shown twice.";
    ApprovedStarted "approved-started" Must 3 "Approval" "It approves no event that it was shown with a status other than Scheduled.";
    ApprovedAgain "approved-again" Must 1 "Status codes" "It approves no event again after a 200.";
    ApprovedAdvice "approved-advice" Must 7 "approval" "It approves no advice, such as a rebalance recommendation.";
    NotApproved "not-approved" Should 3 "Approval" "It approves all events of its machine, if it approves any.";
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_contract_has_the_section_and_the_item_of_every_rule() {
        let page = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../docs/inside/wire.md"
        ))
        .expect("the page");
        for rule in Rule::ALL {
            let heading = format!("\n## {} ", rule.section());
            let (_, section) = page
                .split_once(&heading)
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
    fn the_documentation_lists_every_rule() {
        let page = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../docs/use/replay.md"
        ))
        .expect("the page");
        let rows = page
            .lines()
            .skip_while(|line| !line.starts_with("| rule | level |"))
            .skip(2);
        let rows: Vec<_> = rows.take_while(|line| line.starts_with('|')).collect();
        let row = |rule: &Rule| {
            let level = if rule.level() == Level::Must {
                "must"
            } else {
                "should"
            };
            format!(
                "| `{rule}` | {level} | {}, {} | {} |",
                rule.section(),
                rule.item(),
                rule.about()
            )
        };
        assert_eq!(rows, Rule::ALL.iter().map(row).collect::<Vec<_>>());
    }

    #[test]
    fn ids_differ_and_texts_are_sentences() {
        for (number, rule) in Rule::ALL.iter().enumerate() {
            assert!(
                rule.about().starts_with("It ") && rule.about().ends_with('.'),
                "{rule}"
            );
            assert!(
                Rule::ALL[..number]
                    .iter()
                    .all(|other| other.id() != rule.id()),
                "{rule}"
            );
            assert!(
                rule.id()
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'-'),
                "{rule}"
            );
        }
    }
}
