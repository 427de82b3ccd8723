//! Applies a query to the rows of its table.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Map, Value, json};

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
            Self::Project(columns) => {
                for row in &mut rows {
                    let values = columns.iter().map(|(name, value)| Ok((name.clone(), value.of(row)?.into_owned())));
                    *row = Value::Object(values.collect::<Result<Map<_, _>, QueryError>>()?);
                }
            }
            Self::Extend(columns) => {
                for row in &mut rows {
                    for (name, value) in columns {
                        let value = value.of(row)?.into_owned();
                        row[name.as_str()] = value;
                    }
                }
            }
            Self::Order(keys) => {
                let mut keyed = Vec::new();
                for row in rows {
                    let values = keys.iter().map(|(key, _)| Ok(key.of(&row)?.into_owned()));
                    keyed.push((values.collect::<Result<Vec<_>, QueryError>>()?, row));
                }
                keyed.sort_by(|(left, _), (right, _)| {
                    let pairs = left.iter().zip(right).zip(keys);
                    let orders = pairs.map(|((left, right), (_, ascends))| {
                        let order = order(left, right);
                        if *ascends { order } else { order.reverse() }
                    });
                    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
                });
                return Ok(keyed.into_iter().map(|(_, row)| row).collect());
            }
            Self::Take(number) => rows.truncate(*number),
            Self::Count => return Ok(vec![json!({"Count": rows.len()})]),
        }
        Ok(rows)
    }
}

impl Expression {
    fn of<'a>(&'a self, row: &'a Value) -> Result<Cow<'a, Value>, QueryError> {
        Ok(match self {
            Self::Path(path) => {
                let (column, members) = path.split_first().ok_or_else(|| QueryError("found an empty path".into()))?;
                let column = row.get(column).ok_or_else(|| {
                    QueryError(format!("there is no column `{}`; names compare with case", column.escape_debug()))
                })?;
                let member = members.iter().try_fold(column, |value, member| value.get(member));
                Cow::Borrowed(member.unwrap_or(&Value::Null))
            }
            Self::Text(text) => Cow::Owned(json!(text)),
            Self::Number(number) => Cow::Owned(json!(number)),
            Self::Call(function, inner) => {
                let inner = inner.of(row)?;
                Cow::Owned(match function {
                    Function::ToString => json!(text(&inner)),
                    Function::ToLower => json!(text(&inner).to_lowercase()),
                    Function::IsEmpty => json!(text(&inner).is_empty()),
                    Function::IsNotEmpty => json!(!text(&inner).is_empty()),
                })
            }
            _ => Cow::Owned(json!(self.holds(row)?)),
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
