//! Enumerations whose variants have fixed words, listed once.

/// Implements `ALL`, `word`, `Display`, `Serialize` and `Deserialize` for an enumeration from one table of its variants
/// and their words.
macro_rules! words {
    ($name:ident { $($variant:ident => $word:literal,)+ }) => {
        impl $name {
            /// All variants, in the order of their declaration.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word for this variant in records and policy files.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.word())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.word())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;

                impl serde::de::Visitor<'_> for Visitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                        f.write_str(concat!("a word for ", stringify!($name)))
                    }

                    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<$name, E> {
                        let known = $name::ALL.into_iter().find(|known| known.word() == word);
                        known.ok_or_else(|| E::unknown_variant(word, &[$($word),+]))
                    }
                }

                deserializer.deserialize_str(Visitor)
            }
        }
    };
}

pub(crate) use words;

#[cfg(test)]
mod tests {
    use core::fmt::{Debug, Display};
    use std::string::ToString;

    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use crate::record::{GateOutcome, HookOutcome};
    use crate::{Action, Change, EventKind, NotificationOutcome, Scope, SessionSource, SourceKind};

    fn check<T: Copy + Debug + Display + PartialEq + Serialize + DeserializeOwned>(
        all: &[T],
        word: fn(T) -> &'static str,
    ) {
        for &variant in all {
            assert_eq!(variant.to_string(), word(variant));
            assert_eq!(serde_json::to_value(variant).unwrap(), word(variant));
            assert_eq!(
                serde_json::from_value::<T>(word(variant).into()).unwrap(),
                variant
            );
        }
        assert!(serde_json::from_str::<T>(r#""other words""#).is_err());
        assert!(serde_json::from_str::<T>("7").is_err());
    }

    #[test]
    fn each_variant_is_written_and_read_as_its_word() {
        check(&Action::ALL, Action::word);
        check(&Change::ALL, Change::word);
        check(&EventKind::ALL, EventKind::word);
        check(&GateOutcome::ALL, GateOutcome::word);
        check(&HookOutcome::ALL, HookOutcome::word);
        check(&NotificationOutcome::ALL, NotificationOutcome::word);
        check(&Scope::ALL, Scope::word);
        check(&SessionSource::ALL, SessionSource::word);
        check(&SourceKind::ALL, SourceKind::word);
    }

    #[test]
    fn an_unknown_word_is_reported_with_the_known_ones() {
        let error = serde_json::from_str::<Action>(r#""aprove""#)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("unknown variant `aprove`, expected one of `approve`, `prepare`"),
            "{error}"
        );
    }
}
