//! Applies a query to the rows of its table.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::QueryError;
use super::parse::{Comparison, Expression, Function, Query, Stage};

impl Query {
    /// The rows that the query asks for.
    pub(crate) fn apply(&self, mut rows: Vec<Value>) -> Result<Vec<Value>, QueryError> {
        for stage in &self.stages {
            rows = stage.apply(rows)?;
        }
        Ok(rows)
    }
}

impl Stage {
    fn apply(&self, mut rows: Vec<Value>) -> Result<Vec<Value>, QueryError> {
        match self {
            Self::Where(condition) => {
                let mut kept = Vec::new();
                for row in rows {
                    if condition.holds(&row)? {
                        kept.push(row);
                    }
                }
                return Ok(kept);
            }
            Self::Project(columns) | Self::Extend(columns) => {
                for row in &mut rows {
                    let mut values = if matches!(self, Self::Extend(_)) { row.as_object().cloned() } else { None };
                    for (name, value) in columns {
                        let value = value.of(row)?.into_owned();
                        values.get_or_insert_default().insert(name.clone(), value);
                    }
                    *row = Value::Object(values.unwrap_or_default());
                }
            }
            Self::Order(keys) => {
                // Rows of equal keys keep their order. There are few rows, so each is inserted at its place.
                let mut ordered: Vec<(Vec<Value>, Value)> = Vec::new();
                for row in rows {
                    let mut values = Vec::new();
                    for (key, _) in keys {
                        values.push(key.of(&row)?.into_owned());
                    }
                    let place = ordered.partition_point(|(before, _)| !comes_before(&values, before, keys));
                    ordered.insert(place, (values, row));
                }
                return Ok(ordered.into_iter().map(|(_, row)| row).collect());
            }
            Self::Take(number) => rows.truncate(*number),
            Self::Count => {
                let mut count = Map::new();
                count.insert("Count".to_owned(), rows.len().into());
                return Ok(vec![Value::Object(count)]);
            }
        }
        Ok(rows)
    }
}

/// Whether a row with the keys `left` comes before one with the keys `right`.
fn comes_before(left: &[Value], right: &[Value], keys: &[(Expression, bool)]) -> bool {
    for ((left, right), (_, ascends)) in left.iter().zip(right).zip(keys) {
        match order(left, right) {
            Ordering::Equal => {}
            order => return (order == Ordering::Less) == *ascends,
        }
    }
    false
}

impl Expression {
    fn of<'a>(&'a self, row: &'a Value) -> Result<Cow<'a, Value>, QueryError> {
        Ok(match self {
            Self::Path(path) => {
                let (column, members) = path.split_first().ok_or_else(|| QueryError("found an empty path".into()))?;
                let column = row
                    .get(column)
                    .ok_or_else(|| QueryError(format!("there is no column `{column}`; names compare with case")))?;
                let member = members.iter().try_fold(column, |value, member| value.get(member));
                Cow::Borrowed(member.unwrap_or(&Value::Null))
            }
            Self::Text(text) => Cow::Owned(text.as_str().into()),
            Self::Number(number) => Cow::Owned((*number).into()),
            Self::Call(function, inner) => {
                let inner = inner.of(row)?;
                Cow::Owned(match function {
                    Function::ToString => text(&inner).into(),
                    Function::ToLower => text(&inner).to_lowercase().into(),
                    Function::IsEmpty => text(&inner).is_empty().into(),
                    Function::IsNotEmpty => (!text(&inner).is_empty()).into(),
                })
            }
            _ => Cow::Owned(self.holds(row)?.into()),
        })
    }

    fn holds(&self, row: &Value) -> Result<bool, QueryError> {
        match self {
            Self::Any(parts) => {
                for part in parts {
                    if part.holds(row)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::All(parts) => {
                for part in parts {
                    if !part.holds(row)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Not(inner) => Ok(!inner.holds(row)?),
            Self::Compare(comparison, left, values) => {
                let left = left.of(row)?;
                let mut is_any = false;
                for value in values {
                    is_any |= comparison.matches(&left, &*value.of(row)?);
                }
                Ok(is_any != comparison.is_negated())
            }
            _ => Ok(self.of(row)?.as_bool().unwrap_or(false)),
        }
    }
}

impl Comparison {
    fn is_negated(self) -> bool {
        matches!(self, Self::NotEqual | Self::NotEqualCaseless | Self::NotIn | Self::NotInCaseless)
    }

    /// Whether the comparison holds, or for a negated one, whether it does not.
    fn matches(self, left: &Value, right: &Value) -> bool {
        let texts = |compare: fn(&str, &str) -> bool| compare(&text(left).to_lowercase(), &text(right).to_lowercase());
        match self {
            Self::Equal | Self::NotEqual | Self::In | Self::NotIn => is_equal(left, right),
            Self::EqualCaseless | Self::NotEqualCaseless | Self::InCaseless | Self::NotInCaseless => {
                texts(|left, right| left == right)
            }
            Self::Less => order(left, right).is_lt() && !left.is_null(),
            Self::LessOrEqual => order(left, right).is_le() && !left.is_null(),
            Self::Greater => order(left, right).is_gt(),
            Self::GreaterOrEqual => order(left, right).is_ge(),
            Self::Has => texts(has_term),
            Self::Contains => texts(|left, right| left.contains(right)),
            Self::StartsWith => texts(|left, right| left.starts_with(right)),
        }
    }
}

/// Whether a text occurs between characters that are neither letters nor digits.
fn has_term(text: &str, term: &str) -> bool {
    let ends_term = |next: Option<char>| next.is_none_or(|next| !next.is_alphanumeric());
    let mut places = text.match_indices(term);
    places.any(|(at, _)| ends_term(text[..at].chars().next_back()) && ends_term(text[at + term.len()..].chars().next()))
}

fn is_equal(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(_), Some(_)) => order(left, right).is_eq(),
        _ => left == right,
    }
}

/// Numbers by value, everything else as text, and what is missing first.
fn order(left: &Value, right: &Value) -> Ordering {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => left.total_cmp(&right),
        _ => right.is_null().cmp(&left.is_null()).then_with(|| text(left).cmp(&text(right))),
    }
}

/// A value as `tostring` writes it.
fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}
