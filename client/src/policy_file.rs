//! Policies, by name or from a TOML file.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;

use scheduled_events_core::{
    Action, EventKind, EventSources, EventTypes, Leader, MAX_RULES, Policy, Position, Rule, Scope,
    SourceKind,
};
use serde::Deserialize;
use serde::de::{self, Deserializer};
use toml::Spanned;
use toml::de::DeTable;

use crate::files::read_settings;
use crate::limits::TAKE_OVER_AFTER_SECONDS;
use crate::suggest::nearest;

/// The policies that have a name.
pub const PRESETS: [&str; 2] = ["observe", "sample"];

/// A policy that cannot be read.
///
/// ```
/// use scheduled_events::policy_file::parse;
///
/// let error = parse("[[rule]]\naction = \"hold\"\nmin_durration = \"8s\"\n").unwrap_err();
/// assert_eq!(error.position.map(|position| position.to_string()).as_deref(), Some("3:1"));
/// assert!(error.message.contains("min_durration"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// Line and column, both from 1; `None` if the error concerns the whole text.
    pub position: Option<Position>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = &self.message;
        match self.position {
            Some(position) => write!(f, "{position}: {message}"),
            None => f.write_str(message),
        }
    }
}

impl Error for PolicyError {}

/// Why there is no policy of a name.
///
/// ```
/// use scheduled_events::policy_file::{LoadError, load};
///
/// assert!(matches!(load("smaple"), Err(LoadError::Unreadable { nearest: Some("sample"), .. })));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// It is neither the name of a policy nor a file that can be read.
    Unreadable {
        /// The name.
        name: String,
        /// The name of a policy that may have been meant.
        nearest: Option<&'static str>,
        /// Why there is no such file.
        error: io::Error,
    },
    /// The file is not a policy.
    Invalid {
        /// Its name.
        name: String,
        /// What is wrong, and where.
        error: PolicyError,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable {
                name,
                nearest,
                error,
            } => {
                let nearest = did_you_mean(*nearest);
                write!(
                    f,
                    "cannot read the policy {name:?}: {error}; {nearest}a policy is `observe`, `sample` or a TOML file"
                )
            }
            Self::Invalid { name, error } => {
                let separator = if error.position.is_some() { ":" } else { ": " };
                write!(f, "{name}{separator}{error}")
            }
        }
    }
}

impl Error for LoadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable { error, .. } => Some(error),
            Self::Invalid { error, .. } => Some(error),
        }
    }
}

/// Why a member of a rule, or a leader, has no effect or is not known.
///
/// ```
/// use scheduled_events::policy_file::{RuleError, leader};
///
/// assert!(matches!(leader("rnak", None), Err(RuleError::UnknownLeader { nearest: Some("rank"), .. })));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleError {
    /// The lower bound of a range is above the upper one.
    EmptyRange {
        /// What the range is of: `duration` or `notice`.
        what: &'static str,
    },
    /// `prepare_before` with an action that neither prepares nor approves.
    PrepareBefore {
        /// The action.
        action: Action,
    },
    /// `take_over_after` with a mode other than `rank`.
    TakeOverAfter,
    /// There is no such mode of a leader.
    UnknownLeader {
        /// The mode.
        mode: String,
        /// The one that may have been meant.
        nearest: Option<&'static str>,
    },
    /// The text is not a duration.
    NotADuration {
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The duration has a fraction of a second.
    NotWholeSeconds {
        /// The text.
        text: String,
    },
    /// The seconds of the duration do not fit in 32 bits.
    TooLong {
        /// The text.
        text: String,
    },
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyRange { what } => write!(
                f,
                "min_{what} is longer than max_{what}, so the rule matches nothing"
            ),
            Self::PrepareBefore { action } => write!(
                f,
                "prepare_before has no effect with the action `{action}`, which neither prepares nor approves; remove it"
            ),
            Self::TakeOverAfter => {
                write!(f, "take_over_after is only valid with the mode \"rank\"")
            }
            Self::UnknownLeader { mode, nearest } => {
                let nearest = did_you_mean(*nearest);
                write!(
                    f,
                    "unknown leader {mode:?}; {nearest}expected first-resource, rank or everyone"
                )
            }
            Self::NotADuration { text, reason } => {
                write!(f, "{text:?} is not a duration such as \"8s\": {reason}")
            }
            Self::NotWholeSeconds { text } => {
                write!(f, "{text:?} is not a whole number of seconds")
            }
            Self::TooLong { text } => write!(f, "{text:?} is too long"),
        }
    }
}

impl Error for RuleError {}

/// The start of advice with the word that may have been meant.
fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or(String::new(), |word| format!("did you mean `{word}`? "))
}

/// The policy of this name: `observe`, `sample`, or the path of a TOML file.
///
/// # Errors
/// [`LoadError`]. Its sentence starts with `FILE:LINE:COLUMN: ` for errors in a file.
///
/// ```
/// use scheduled_events::policy_file::load;
/// use scheduled_events_core::Policy;
///
/// assert_eq!(load("sample")?, Policy::sample());
/// assert!(load("/no/such/policy.toml").is_err());
/// # Ok::<(), scheduled_events::Error>(())
/// ```
pub fn load(name: &str) -> Result<Policy, LoadError> {
    load_with(name, |_| ())
}

/// Where the policy is from: see [`load_with`].
///
/// ```
/// use scheduled_events::policy_file::PolicySource;
///
/// let of = |name, content| if name == "sample" { PolicySource::Preset("sample") } else { PolicySource::File(content) };
/// assert!(matches!(of("policy.toml", b"[[rule]]"), PolicySource::File(_)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicySource<'a> {
    /// A policy that is built in, with its name.
    Preset(&'static str),
    /// The content of a file.
    File(&'a [u8]),
}

/// The same, and passes on where the policy is from: [`Metrics::set_policy`](crate::metrics::Metrics::set_policy) takes it.
///
/// # Errors
/// Those of [`load`].
///
/// ```
/// use scheduled_events::metrics::Metrics;
/// use scheduled_events::policy_file::load_with;
///
/// let mut metrics = Metrics::new();
/// let policy = load_with("sample", |source| metrics.set_policy(source))?;
/// assert_eq!(policy.rules().len(), 2);
/// assert!(metrics.text().contains("policy=\"sample\""));
/// # Ok::<(), scheduled_events::policy_file::LoadError>(())
/// ```
pub fn load_with(name: &str, source: impl FnOnce(PolicySource<'_>)) -> Result<Policy, LoadError> {
    let preset = match name {
        "observe" => Some(("observe", Policy::observe())),
        "sample" => Some(("sample", Policy::sample())),
        _ => None,
    };
    if let Some((name, policy)) = preset {
        source(PolicySource::Preset(name));
        return Ok(policy);
    }
    let text = read_settings(Path::new(name)).map_err(|error| LoadError::Unreadable {
        name: name.to_owned(),
        nearest: nearest(name, PRESETS.into_iter()).filter(|_| error.kind() == ErrorKind::NotFound),
        error,
    })?;
    source(PolicySource::File(text.as_bytes()));
    parse(&text).map_err(|error| LoadError::Invalid {
        name: name.to_owned(),
        error,
    })
}

/// Reads a policy from TOML.
///
/// # Errors
/// [`PolicyError`] with its position: an unknown key or word, an invalid duration, or too many rules.
///
/// ```
/// use scheduled_events::policy_file::parse;
///
/// let policy = parse(r#"
///     leader = { mode = "rank", take_over_after = "30s" }
///     [[rule]]
///     event = ["Freeze"]
///     max_duration = "8s"
///     action = "approve"
/// "#).unwrap();
/// assert_eq!(policy.rules().len(), 1);
///
/// let error = parse("[[rule]]\naction = \"aprove\"").unwrap_err();
/// assert_eq!(error.position.unwrap().to_string(), "2:10");
/// ```
pub fn parse(text: &str) -> Result<Policy, PolicyError> {
    parse_within(text, |_| false)
}

/// Reads a policy from the tables `[[rule]]` and `leader` of a file that has other keys, too: those for which `is_other` is true.
///
/// # Errors
/// [`PolicyError`] as from [`parse`].
///
/// ```
/// use scheduled_events::policy_file::parse_within;
///
/// let text = "prepare = \"drain\"\n[[rule]]\naction = \"prepare\"\n";
/// assert_eq!(parse_within(text, |key| key == "prepare").unwrap().rules().len(), 1);
/// assert!(parse_within(text, |_| false).unwrap_err().message.contains("prepare"));
/// ```
pub fn parse_within(text: &str, is_other: impl Fn(&str) -> bool) -> Result<Policy, PolicyError> {
    let file = read(text, &is_other).map_err(|error| PolicyError {
        position: error
            .span()
            .map(|span| Position::of(text.as_bytes(), span.start)),
        message: match error.message().trim_end() {
            "invalid type: map, expected a sequence" => {
                "found `[rule]`, expected `[[rule]]`: a policy is a list of rules".to_owned()
            }
            "missing field `action`" => {
                let words = Action::ALL.map(Action::word).join(", ");
                format!("the rule has no `action`; expected one of {words}")
            }
            message => with_suggestion(message),
        },
    })?;
    let error_at = |rule: &Spanned<RuleEntry>, message| {
        Err(PolicyError {
            position: Some(Position::of(text.as_bytes(), rule.span().start)),
            message,
        })
    };
    if let Some(rule) = file.rule.get(MAX_RULES) {
        return error_at(
            rule,
            format!("{} rules; at most {MAX_RULES} are allowed", file.rule.len()),
        );
    }
    let mut rules = Vec::new();
    for entry in &file.rule {
        let rule = Rule::from(entry.get_ref());
        if let Err(error) = check_ranges(&rule) {
            return error_at(entry, error.to_string());
        }
        if let (Err(error), Some(given)) =
            (check_prepare_before(&rule), &entry.get_ref().prepare_before)
        {
            let position = Some(Position::of(text.as_bytes(), given.span().start));
            let message = error.to_string();
            return Err(PolicyError { position, message });
        }
        rules.push(rule);
    }
    let mut policy = Policy::new(&rules).map_err(|error| PolicyError {
        position: None,
        message: error.to_string(),
    })?;
    policy.leader = file.leader.map(|entry| entry.0);
    Ok(policy)
}

/// Serde's message, with what may have been meant.
fn with_suggestion(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let parts = message
        .strip_prefix("unknown field ")
        .and_then(|rest| rest.split_once(", "));
    match (parts, quoted.next()) {
        (Some((_, expected)), Some(unknown)) => {
            let suggestion = did_you_mean(nearest(unknown, quoted));
            format!("unknown key `{unknown}`; {suggestion}{expected}")
        }
        _ => message.to_owned(),
    }
}

fn read(text: &str, is_other: &dyn Fn(&str) -> bool) -> Result<PolicyFile, toml::de::Error> {
    let table = DeTable::parse(text)?;
    let span = table.span();
    let own = table.into_inner().into_iter();
    let own = own.filter(|(key, _)| !is_other(key.as_ref())).collect();
    PolicyFile::deserialize(toml::Deserializer::from(Spanned::new(span, own)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    leader: Option<LeaderEntry>,
    #[serde(default)]
    rule: Vec<Spanned<RuleEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    #[serde(default)]
    event: Option<OneOrMany<Word<EventKind>>>,
    #[serde(default)]
    source: Option<OneOrMany<Word<SourceKind>>>,
    #[serde(default, deserialize_with = "seconds")]
    min_duration: Option<u32>,
    #[serde(default, deserialize_with = "seconds")]
    max_duration: Option<u32>,
    #[serde(default, deserialize_with = "seconds")]
    min_notice: Option<u32>,
    #[serde(default, deserialize_with = "seconds")]
    max_notice: Option<u32>,
    #[serde(default)]
    prepare_before: Option<Spanned<Seconds>>,
    #[serde(default)]
    scope: Option<Word<Scope>>,
    action: Word<Action>,
}

impl From<&RuleEntry> for Rule {
    fn from(entry: &RuleEntry) -> Self {
        Self {
            event_types: entry
                .event
                .as_ref()
                .map_or(EventTypes::ANY, |kinds| EventTypes::of(&kinds.words())),
            sources: entry
                .source
                .as_ref()
                .map_or(EventSources::ANY, |kinds| EventSources::of(&kinds.words())),
            min_duration: entry.min_duration,
            max_duration: entry.max_duration,
            min_notice: entry.min_notice,
            max_notice: entry.max_notice,
            prepare_before: entry
                .prepare_before
                .as_ref()
                .map(|before| before.get_ref().0),
            scope: entry.scope.map_or(Scope::Mine, |scope| scope.0),
            action: entry.action.0,
        }
    }
}

/// A word of a policy, in exactly its case. The error for any other one suggests the nearest.
#[derive(Clone, Copy)]
struct Word<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);

        // An error of the visitor has the position of the word.
        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = Word<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word")
            }

            fn visit_str<E: de::Error>(self, given: &str) -> Result<Self::Value, E> {
                T::deserialize(de::value::StrDeserializer::new(given))
                    .map(Word)
                    .map_err(|unknown: KnownWords| {
                        let suggestion = nearest(given, unknown.0.iter().copied());
                        let suggestion = did_you_mean(suggestion);
                        E::custom(format!(
                            "unknown word {given:?}; {suggestion}expected {}",
                            unknown.0.join(", ")
                        ))
                    })
            }
        }

        deserializer.deserialize_str(Visitor(std::marker::PhantomData))
    }
}

/// The error of an enumeration for an unknown word: the known ones.
#[derive(Debug, Default)]
struct KnownWords(&'static [&'static str]);

impl fmt::Display for KnownWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

impl Error for KnownWords {}

impl de::Error for KnownWords {
    fn custom<M: fmt::Display>(_message: M) -> Self {
        Self::default()
    }

    fn unknown_variant(_word: &str, expected: &'static [&'static str]) -> Self {
        Self(expected)
    }
}

/// `"Freeze"` or `["Freeze", "Reboot"]`. An empty list is an error, since it would silently match nothing.
struct OneOrMany<T>(Vec<T>);

impl<T: Copy> OneOrMany<Word<T>> {
    fn words(&self) -> Vec<T> {
        self.0.iter().map(|word| word.0).collect()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word or a list of words")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Self::Value, E> {
                T::deserialize(de::value::StrDeserializer::new(word))
                    .map(|one| OneOrMany(vec![one]))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> Result<Self::Value, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = list.next_element()? {
                    words.push(word);
                }
                if words.is_empty() {
                    return Err(de::Error::custom(EMPTY_LIST));
                }
                Ok(OneOrMany(words))
            }
        }

        deserializer.deserialize_any(Visitor(std::marker::PhantomData))
    }
}

/// The error for an empty list of event types or sources.
pub const EMPTY_LIST: &str = "an empty list matches nothing; omit it to match everything";

/// Checks that a rule can match an event.
///
/// # Errors
/// [`RuleError::EmptyRange`]: the lower bound of a range is above the upper one.
///
/// ```
/// use scheduled_events::policy_file::{RuleError, check_ranges};
/// use scheduled_events_core::{Action, Rule};
///
/// let rule = Rule { min_duration: Some(60), max_duration: Some(8), ..Rule::new(Action::Hold) };
/// assert_eq!(check_ranges(&rule), Err(RuleError::EmptyRange { what: "duration" }));
/// ```
pub fn check_ranges(rule: &Rule) -> Result<(), RuleError> {
    let ranges = [
        ("duration", rule.min_duration, rule.max_duration),
        ("notice", rule.min_notice, rule.max_notice),
    ];
    match ranges
        .iter()
        .find(|(_, min, max)| min.zip(*max).is_some_and(|(min, max)| min > max))
    {
        Some(&(what, ..)) => Err(RuleError::EmptyRange { what }),
        None => Ok(()),
    }
}

/// Checks that a rule with `prepare_before` prepares or approves.
///
/// # Errors
/// [`RuleError::PrepareBefore`]: the action of the rule does neither.
///
/// ```
/// use scheduled_events::policy_file::check_prepare_before;
/// use scheduled_events_core::{Action, Rule};
///
/// assert!(check_prepare_before(&Rule { prepare_before: Some(1200), ..Rule::new(Action::Prepare) }).is_ok());
/// assert!(check_prepare_before(&Rule { prepare_before: Some(1200), ..Rule::new(Action::Hold) }).is_err());
/// ```
pub fn check_prepare_before(rule: &Rule) -> Result<(), RuleError> {
    match rule.action {
        Action::Hold | Action::Ignore if rule.prepare_before.is_some() => {
            Err(RuleError::PrepareBefore {
                action: rule.action,
            })
        }
        _ => Ok(()),
    }
}

/// The leader that `mode` names. `take_over_after` is the seconds of the mode `rank`,
/// [`TAKE_OVER_AFTER_SECONDS`] by default.
///
/// # Errors
/// [`RuleError::UnknownLeader`], or [`RuleError::TakeOverAfter`] for a mode that has none.
///
/// ```
/// use scheduled_events::policy_file::leader;
/// use scheduled_events_core::Leader;
///
/// assert_eq!(leader("rank", Some(10)), Ok(Leader::Rank { take_over_after: 10 }));
/// assert!(leader("rnak", None).unwrap_err().to_string().starts_with("unknown leader \"rnak\"; did you mean `rank`?"));
/// ```
pub fn leader(mode: &str, take_over_after: Option<u32>) -> Result<Leader, RuleError> {
    match (mode, take_over_after) {
        ("first-resource", None) => Ok(Leader::FirstResource),
        ("rank", seconds) => Ok(Leader::Rank {
            take_over_after: seconds.unwrap_or(TAKE_OVER_AFTER_SECONDS),
        }),
        ("everyone", None) => Ok(Leader::Everyone),
        ("first-resource" | "everyone", Some(_)) => Err(RuleError::TakeOverAfter),
        _ => Err(RuleError::UnknownLeader {
            mode: mode.to_owned(),
            nearest: nearest(mode, ["first-resource", "rank", "everyone"].into_iter()),
        }),
    }
}

struct LeaderEntry(Leader);

impl<'de> Deserialize<'de> for LeaderEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = LeaderEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "\"first-resource\", \"rank\", \"everyone\", or { mode = \"rank\", take_over_after = \"30s\" }",
                )
            }

            fn visit_str<E: de::Error>(self, mode: &str) -> Result<Self::Value, E> {
                leader(mode, None).map(LeaderEntry).map_err(E::custom)
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let table = LeaderTable::deserialize(de::value::MapAccessDeserializer::new(map))?;
                leader(&table.mode, table.take_over_after)
                    .map(LeaderEntry)
                    .map_err(de::Error::custom)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaderTable {
    mode: String,
    #[serde(default, deserialize_with = "seconds")]
    take_over_after: Option<u32>,
}

/// `"8s"`, `"2min"`, or a number of seconds.
struct Seconds(u32);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A value that is present is never null in TOML.
        Ok(Self(seconds(deserializer)?.unwrap_or_default()))
    }
}

/// `"8s"`, `"2min"`, or a number of seconds.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "expected a duration such as \"8s\", or a number of seconds"
    )]
    enum Written {
        Number(u32),
        Text(String),
    }

    match Written::deserialize(deserializer)? {
        Written::Number(seconds) => Ok(Some(seconds)),
        Written::Text(text) => duration_in_seconds(&text)
            .map(Some)
            .map_err(de::Error::custom),
    }
}

/// The seconds of a duration such as `"8s"` or `"1min 30s"`.
///
/// # Errors
/// A [`RuleError`] if the text is not a duration of whole seconds that fits in 32 bits.
///
/// ```
/// use scheduled_events::policy_file::duration_in_seconds;
///
/// assert_eq!(duration_in_seconds("1min 30s"), Ok(90));
/// assert!(duration_in_seconds("soon").is_err());
/// ```
pub fn duration_in_seconds(text: &str) -> Result<u32, RuleError> {
    let given = || text.to_owned();
    let duration = humantime::parse_duration(text).map_err(|error| RuleError::NotADuration {
        text: given(),
        reason: error.to_string(),
    })?;
    if duration.subsec_nanos() != 0 {
        return Err(RuleError::NotWholeSeconds { text: given() });
    }
    u32::try_from(duration.as_secs()).map_err(|_| RuleError::TooLong { text: given() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_example_of_the_documentation() {
        let policy = parse(
            r#"
            leader = { mode = "rank", take_over_after = "30s" }
            [[rule]]
            event = ["Freeze"]
            max_duration = "8s"
            action = "approve"
            [[rule]]
            event = ["Preempt", "Terminate", "Reboot", "Redeploy"]
            action = "prepare"
            scope = "mine"
            "#,
        )
        .unwrap();
        let freeze = Rule {
            event_types: EventTypes::of(&[EventKind::Freeze]),
            max_duration: Some(8),
            ..Rule::new(Action::Approve)
        };
        let others = [
            EventKind::Preempt,
            EventKind::Terminate,
            EventKind::Reboot,
            EventKind::Redeploy,
        ];
        let rest = Rule {
            event_types: EventTypes::of(&others),
            ..Rule::new(Action::Prepare)
        };
        assert_eq!(policy.rules(), [freeze, rest]);
        assert_eq!(
            policy.leader,
            Some(Leader::Rank {
                take_over_after: 30
            })
        );
    }

    #[test]
    fn parses_every_key_of_a_rule() {
        let policy = parse(
            "leader = \"everyone\"\n[[rule]]\nevent = \"Freeze\"\nsource = \"User\"\nmin_duration = 1\nmax_duration = \
             \"1min 30s\"\nmin_notice = 60\nmax_notice = \"1h\"\nprepare_before = \"20m\"\nscope = \"any\"\naction = \"approve\"",
        )
        .unwrap();
        let expected = Rule {
            event_types: EventTypes::of(&[EventKind::Freeze]),
            sources: EventSources::of(&[SourceKind::User]),
            min_duration: Some(1),
            max_duration: Some(90),
            min_notice: Some(60),
            max_notice: Some(3600),
            prepare_before: Some(1200),
            scope: Scope::Any,
            action: Action::Approve,
        };
        assert_eq!(policy.rules(), [expected]);
        assert_eq!(policy.leader, Some(Leader::Everyone));
        assert_eq!(parse("").unwrap(), Policy::observe());
    }

    /// JSON of words, lists of words and tables of words is TOML once a table has `=` for `:`.
    #[test]
    fn the_serde_form_of_a_policy_is_what_a_file_has() {
        let rules = Action::ALL.map(|action| Rule {
            event_types: EventTypes::of(&[EventKind::Freeze, EventKind::Other]),
            sources: EventSources::of(&[SourceKind::User]),
            min_duration: Some(5),
            max_duration: Some(7_265),
            min_notice: Some(0),
            max_notice: Some(90_061),
            prepare_before: matches!(action, Action::Approve | Action::Prepare).then_some(1_200),
            scope: Scope::Any,
            action,
        });
        let mut policy = Policy::new(&rules).unwrap();
        policy.leader = Some(Leader::Rank {
            take_over_after: 10,
        });
        let json = serde_json::to_string(&policy).unwrap();
        let toml = json.replace("\":", "\" = ");
        let (rules, leader) = toml[1..toml.len() - 1].split_once(",\"leader\"").unwrap();
        assert_eq!(
            parse(&format!("{rules}\n\"leader\"{leader}")).unwrap(),
            policy,
            "{toml}"
        );
    }

    #[test]
    fn core_reads_the_durations_that_a_file_has() {
        for text in [
            "8",
            "0",
            "\"8s\"",
            "\"2min\"",
            "\"1h 30m\"",
            "\"1h30m\"",
            "\"1month\"",
            "\"1y\"",
            "\"1day\"",
            "\"3 minutes\"",
            "\"2 hours 1sec\"",
            "\"1w\"",
            "\"2hr\"",
            "\"8\"",
            "\"\"",
            "\"s\"",
            "\"8x\"",
            "\"minutes\"",
            "\"8s 1\"",
            "-1",
            "4294967296",
            "\"4294967296s\"",
            "1.5",
        ] {
            let file = parse(&format!(
                "[[rule]]\nmax_duration = {text}\naction = \"hold\""
            ));
            let json = format!("{{\"rule\":[{{\"max_duration\":{text},\"action\":\"hold\"}}]}}");
            let core = serde_json::from_str::<Policy>(&json);
            assert_eq!(core.ok(), file.ok(), "{text}");
        }
    }

    #[test]
    fn the_modes_of_a_leader_are_the_words_of_core() {
        for mode in ["first-resource", "everyone"] {
            assert_eq!(
                serde_json::to_value(leader(mode, None).unwrap()).unwrap(),
                mode
            );
        }
        let rank = serde_json::json!({ "mode": "rank", "take_over_after": format!("{TAKE_OVER_AFTER_SECONDS}s") });
        assert_eq!(
            serde_json::to_value(leader("rank", None).unwrap()).unwrap(),
            rank
        );
    }

    #[test]
    fn a_misspelled_preset_is_suggested() {
        for (name, nearest) in [
            ("Sample", "sample"),
            ("smaple", "sample"),
            ("OBSERVE", "observe"),
        ] {
            let error = load(name).unwrap_err().to_string();
            assert!(
                error.contains(&format!("did you mean `{nearest}`? a policy is")),
                "{error}"
            );
        }
        assert!(PRESETS.iter().all(|name| load(name).is_ok()));
        assert!(
            !load("drain.toml")
                .unwrap_err()
                .to_string()
                .contains("did you mean")
        );
    }

    #[test]
    fn errors_have_a_position_and_name_the_mistake() {
        for (text, place, words) in [
            ("[[rule]]\naction = \"aprove\"", "2:10", "approve"),
            ("[rule]\naction = \"hold\"", "1:1", "expected `[[rule]]`"),
            (
                "[[rule]]\nevent = [\"Frezee\"]\naction = \"hold\"",
                "2:10",
                "Frezee",
            ),
            (
                "[[rule]]\nevents = [\"Freeze\"]\naction = \"hold\"",
                "2:1",
                "unknown key `events`; did you mean `event`? expected one of `event`, ",
            ),
            (
                "leaders = \"rank\"",
                "1:1",
                "unknown key `leaders`; did you mean `leader`? expected ",
            ),
            (
                "[rule]\naction = \"hold\"",
                "1:1",
                "found `[rule]`, expected `[[rule]]`",
            ),
            (
                "[[rule]]\naction = \"Approve\"",
                "2:10",
                "did you mean `approve`? expected approve, prepare, hold, ignore",
            ),
            (
                "[[rule]]\nevent = \"freeze\"\naction = \"hold\"",
                "2:9",
                "did you mean `Freeze`?",
            ),
            (
                "[[rule]]\nevent = [\"Freeze\", \"reboot\"]\naction = \"hold\"",
                "2:20",
                "did you mean `Reboot`?",
            ),
            (
                "[[rule]]\nsource = \"USER\"\naction = \"hold\"",
                "2:10",
                "did you mean `User`?",
            ),
            (
                "[[rule]]\nscope = \"Mine\"\naction = \"hold\"",
                "2:9",
                "did you mean `mine`?",
            ),
            ("leader = \"Rank\"", "1:10", "did you mean `rank`?"),
            (
                "[[rule]]\naction = \"hold\"\nprepare_before = \"20m\"",
                "3:18",
                "prepare_before has no effect with the action `hold`",
            ),
            (
                "[[rule]]\nprepare_before = 60\naction = \"ignore\"",
                "2:18",
                "`ignore`",
            ),
            (
                "[[rule]]\nprepare_before = \"soon\"\naction = \"prepare\"",
                "2:18",
                "\"soon\"",
            ),
            (
                "[[rule]]\nevent = []\naction = \"hold\"",
                "2:9",
                "matches nothing",
            ),
            (
                "[[rule]]\nmax_duration = \"8 parsecs\"\naction = \"hold\"",
                "2:16",
                "8 parsecs",
            ),
            (
                "[[rule]]\nmax_duration = \"500ms\"\naction = \"hold\"",
                "2:16",
                "whole number",
            ),
            (
                "[[rule]]\nmax_duration = -1\naction = \"hold\"",
                "2:16",
                "duration",
            ),
            (
                "[[rule]]\nscope = \"mine\"",
                "1:1",
                "the rule has no `action`; expected one of approve, prepare, hold, ignore",
            ),
            (
                "[[rule]]\nmin_duration = 10\nmax_duration = 5\naction = \"hold\"",
                "1:1",
                "matches nothing",
            ),
            (
                &"[[rule]]\naction = \"hold\"\n".repeat(33),
                "65:1",
                "33 rules",
            ),
            ("leader = \"first\"", "1:10", "first-resource"),
            (
                "leader = { mode = \"everyone\", take_over_after = \"3s\" }",
                "1:10",
                "rank",
            ),
            ("rule = 3", "1:8", ""),
            ("[[rule]\naction", "1:8", ""),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(
                error
                    .position
                    .map(|position| position.to_string())
                    .as_deref(),
                Some(place),
                "{text}: {error:?}"
            );
            assert!(error.message.contains(words), "{text}: {error:?}");
        }
    }
}
