//! The serde form of a policy: the words of the policy file, `{"rule":[{"event":["Freeze"],"max_duration":"8s","action":"approve"}]}`.

// Serde passes references, whatever the size.
#![allow(clippy::ref_option, clippy::trivially_copy_pass_by_ref)]

use core::fmt;

use serde::de::{self, Deserializer, MapAccess, SeqAccess};
use serde::ser::{Error as SerializeError, SerializeMap, SerializeSeq};
use serde::{Deserialize, Serialize, Serializer};

use super::kinds::{EventKind, EventSources, EventTypes, SourceKind};
use super::rule::{Action, Leader, Rule, Scope};

/// The members of a rule.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Rule", deny_unknown_fields)]
struct RuleForm {
    #[serde(
        rename = "event",
        default,
        skip_serializing_if = "is_default",
        with = "event_types"
    )]
    event_types: EventTypes,
    #[serde(
        rename = "source",
        default,
        skip_serializing_if = "is_default",
        with = "sources"
    )]
    sources: EventSources,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "seconds")]
    min_duration: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "seconds")]
    max_duration: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "seconds")]
    min_notice: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "seconds")]
    max_notice: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "seconds")]
    prepare_before: Option<u32>,
    #[serde(default, skip_serializing_if = "is_default")]
    scope: Scope,
    action: Action,
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RuleForm::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let rule = RuleForm::deserialize(deserializer)?;
        rule.check().map_err(de::Error::custom)?;
        Ok(rule)
    }
}

impl Rule {
    /// Refuses what has no effect.
    fn check(&self) -> Result<(), &'static str> {
        let is_empty =
            |min: Option<u32>, max: Option<u32>| min.zip(max).is_some_and(|(min, max)| min > max);
        let acts = matches!(self.action, Action::Approve | Action::Prepare);
        match self {
            _ if is_empty(self.min_duration, self.max_duration) => {
                Err("min_duration is longer than max_duration, so the rule matches nothing")
            }
            _ if is_empty(self.min_notice, self.max_notice) => {
                Err("min_notice is longer than max_notice, so the rule matches nothing")
            }
            _ if self.prepare_before.is_some() && !acts => Err(
                "prepare_before has no effect with an action that neither prepares nor approves; remove it",
            ),
            _ => Ok(()),
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// One word or several, as a set of event types.
pub(super) mod event_types {
    use super::{Deserializer, EventKind, EventTypes, Serializer, de, one_or_many, words};

    pub(in super::super) fn serialize<S: Serializer>(
        set: &EventTypes,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let kinds = EventKind::ALL.into_iter();
        words(kinds.filter(|kind| set.contains(*kind)), serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<EventTypes, D::Error> {
        let bits = one_or_many(deserializer, |kind: EventKind| {
            EventTypes::of(&[kind]).bits()
        })?;
        EventTypes::from_bits(bits).ok_or_else(|| de::Error::custom("these are no event types"))
    }
}

/// One word or several, as a set of sources.
pub(super) mod sources {
    use super::{
        Deserializer, EventSources, SerializeError, Serializer, SourceKind, de, one_or_many, words,
    };

    pub(in super::super) fn serialize<S: Serializer>(
        set: &EventSources,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let is_in = |kind: &SourceKind| set.bits() & EventSources::of(&[*kind]).bits() != 0;
        let named = SourceKind::ALL.iter().filter(|kind| is_in(kind));
        let bits = named.fold(0, |bits, kind| bits | EventSources::of(&[*kind]).bits());
        if bits != set.bits() {
            return Err(S::Error::custom(
                "no words name the events without a source among some others",
            ));
        }
        words(SourceKind::ALL.into_iter().filter(is_in), serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<EventSources, D::Error> {
        let bits = one_or_many(deserializer, |kind: SourceKind| {
            EventSources::of(&[kind]).bits()
        })?;
        EventSources::from_bits(bits).ok_or_else(|| de::Error::custom("these are no sources"))
    }
}

fn words<S: Serializer>(
    words: impl Iterator<Item = impl Serialize>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(None)?;
    for word in words {
        list.serialize_element(&word)?;
    }
    list.end()
}

/// Reads one word or a list of at least one, and joins their bits.
fn one_or_many<'de, D, T>(deserializer: D, bits: fn(T) -> u8) -> Result<u8, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Words<T>(fn(T) -> u8);

    impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Words<T> {
        type Value = u8;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a word, or a list of at least one")
        }

        fn visit_str<E: de::Error>(self, word: &str) -> Result<u8, E> {
            T::deserialize(de::value::StrDeserializer::new(word)).map(self.0)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<u8, A::Error> {
            let mut bits = 0;
            while let Some(word) = list.next_element()? {
                bits |= (self.0)(word);
            }
            if bits == 0 {
                return Err(de::Error::invalid_length(0, &self));
            }
            Ok(bits)
        }
    }

    deserializer.deserialize_any(Words(bits))
}

/// Whole seconds as a number, or a text such as `8s`, `2min` or `1h30m`.
pub(super) mod seconds {
    use super::{Deserialize, Deserializer, Seconds, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(
        seconds: &Option<u32>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match seconds {
            Some(seconds) => serializer.collect_str(&format_args!("{seconds}s")),
            None => serializer.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<u32>, D::Error> {
        Seconds::deserialize(deserializer).map(|seconds| Some(seconds.0))
    }
}

struct Seconds(u32);

impl Seconds {
    fn parse(text: &str) -> Option<u32> {
        let mut total: Option<u32> = None;
        let mut number: Option<u32> = None;
        let is_digit = u8::is_ascii_digit;
        let parts = text.as_bytes();
        for part in parts.chunk_by(|one, next| is_digit(one) == is_digit(next)) {
            if part.first().is_some_and(is_digit) {
                let mut digits = part.iter().map(|byte| byte.wrapping_sub(b'0'));
                let read = digits.try_fold(0_u32, |number, digit| {
                    number.checked_mul(10)?.checked_add(digit.into())
                });
                number = Some(read?);
                continue;
            }
            let unit: u32 = match part.trim_ascii() {
                b"" if number.is_none() => continue,
                b"s" | b"sec" | b"secs" | b"second" | b"seconds" => 1,
                b"m" | b"min" | b"mins" | b"minute" | b"minutes" => 60,
                b"h" | b"hr" | b"hrs" | b"hour" | b"hours" => 3_600,
                b"d" | b"day" | b"days" => 86_400,
                b"w" | b"wk" | b"wks" | b"week" | b"weeks" => 604_800,
                b"M" | b"month" | b"months" => 2_630_016,
                b"y" | b"yr" | b"yrs" | b"year" | b"years" => 31_557_600,
                _ => return None,
            };
            let part = number.take()?.checked_mul(unit)?;
            total = Some(total.unwrap_or(0).checked_add(part)?);
        }
        total.filter(|_| number.is_none())
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Seconds;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"8s\" or \"1h30m\", or a number of seconds")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Seconds, E> {
                let seconds = u32::try_from(number).map(Seconds);
                seconds.map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &self))
            }

            // As TOML has it.
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Seconds, E> {
                let seconds = u32::try_from(number).map(Seconds);
                seconds.map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Seconds, E> {
                let seconds = Seconds::parse(text).map(Seconds);
                seconds.ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

const FIRST_RESOURCE: &str = "first-resource";
const RANK: &str = "rank";
const EVERYONE: &str = "everyone";
const MODES: &[&str] = &[FIRST_RESOURCE, RANK, EVERYONE];

impl Leader {
    const fn mode(self) -> &'static str {
        match self {
            Self::FirstResource => FIRST_RESOURCE,
            Self::Rank { .. } => RANK,
            Self::Everyone => EVERYONE,
        }
    }
}

impl Serialize for Leader {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self::Rank { take_over_after } = self else {
            return serializer.serialize_str(self.mode());
        };
        let mut rank = serializer.serialize_map(Some(2))?;
        rank.serialize_entry("mode", RANK)?;
        rank.serialize_entry("take_over_after", &Written(*take_over_after))?;
        rank.end()
    }
}

struct Written(u32);

impl Serialize for Written {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        seconds::serialize(&Some(self.0), serializer)
    }
}

impl<'de> Deserialize<'de> for Leader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// The leader of a mode.
        fn of<E: de::Error>(mode: &str, take_over_after: Option<u32>) -> Result<Leader, E> {
            match (mode, take_over_after) {
                (FIRST_RESOURCE, None) => Ok(Leader::FirstResource),
                (EVERYONE, None) => Ok(Leader::Everyone),
                (RANK, seconds) => Ok(Leader::Rank {
                    take_over_after: seconds.unwrap_or(Leader::TAKE_OVER_AFTER),
                }),
                (FIRST_RESOURCE | EVERYONE, Some(_)) => Err(E::custom(
                    "take_over_after is only valid with the mode \"rank\"",
                )),
                _ => Err(E::unknown_variant(mode, MODES)),
            }
        }

        /// The mode as a leader without more.
        struct Mode(Leader);

        impl<'de> Deserialize<'de> for Mode {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Visitor).map(Mode)
            }
        }

        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Leader;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"first-resource\", \"rank\", \"everyone\", or a map with mode and take_over_after")
            }

            fn visit_str<E: de::Error>(self, mode: &str) -> Result<Leader, E> {
                of(mode, None)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Leader, A::Error> {
                let table = Table::deserialize(de::value::MapAccessDeserializer::new(&mut map))?;
                let word = table.mode.0.mode();
                of(word, table.take_over_after)
            }
        }

        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            mode: Mode,
            #[serde(default, with = "seconds")]
            take_over_after: Option<u32>,
        }

        deserializer.deserialize_any(Visitor)
    }
}
