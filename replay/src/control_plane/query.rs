//! The part of Kusto's language that queries for Scheduled Events use: Microsoft's page about them
//! in Resource Graph, and the hub.
//!
//! A query is the name of a table, then stages: `where`, `project`, `order by` or `sort by`, `take`
//! or `limit`, and `count`. `where` compares a member with texts or numbers, by `==`, `!=`, `=~`,
//! `!~`, `in`, `in~`, `!in` and `!in~`, or asks for `isempty(…)` and `isnotempty(…)`; `and` joins
//! comparisons. Everything else is an error that names the supported syntax, so that no query seems
//! to work here that means something else at Azure.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::error::Error;
use std::fmt;
use std::iter::Peekable;
use std::vec::IntoIter;

use serde_json::{Map, Value};

use crate::http::wire::written;

/// A query: a table, and the operations on its rows.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    table: &'static str,
    stages: Vec<Stage>,
}

#[derive(Clone, Debug)]
enum Stage {
    Where(Condition),
    /// The columns to keep, with their names.
    Project(Vec<(String, Path)>),
    /// The sort keys, the most significant first, and whether each is ascending.
    Order(Vec<(Path, bool)>),
    Take(usize),
    Count,
}

/// A column, and a member of it.
type Path = Vec<String>;

/// Whether a member is one of some values, or none of them.
#[derive(Clone, Debug)]
struct Condition {
    member: Path,
    values: Vec<String>,
    is_caseless: bool,
    is_negated: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// A name, a keyword, or a number.
    Word(String),
    Text(String),
    Sign(&'static str),
}

const TABLES: [&str; 2] = ["maintenanceresources", "resources"];

/// Longer signs come before their prefixes. Signs of letters are no words.
const SIGNS: [&str; 14] = [
    "==", "=~", "!=", "!~", "in~", "!in~", "!in", "|", ",", "(", ")", "[", "]", ".",
];

const SUPPORTED: &str = "this emulator has the tables maintenanceresources and resources, the stages where, project, order by, sort by, \
                         take, limit and count, and the comparisons == != =~ !~ in in~ !in !in~ isempty() isnotempty(), joined by and";

/// Why a query is refused.
#[derive(Debug)]
pub(crate) enum QueryError {
    /// Another token was found, or the end of the query.
    Expected {
        what: &'static str,
        found: Option<(usize, Token)>,
    },
    /// A table, a stage or a comparison that this emulator does not have.
    Unsupported(String),
    NoColumn(String),
    TextWithoutEnd {
        at: usize,
    },
    /// No token begins with this character.
    NoToken {
        first: char,
        at: usize,
    },
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expected { what, found } => {
                write!(f, "expected {what}, found ")?;
                match found {
                    Some((at, token)) => write!(f, "`{}` at character {at}", token.text())?,
                    None => f.write_str("the end")?,
                }
            }
            Self::Unsupported(what) => write!(f, "`{what}` is not supported")?,
            Self::NoColumn(name) => {
                return write!(f, "there is no column `{name}`; names compare with case");
            }
            Self::TextWithoutEnd { at } => {
                return write!(
                    f,
                    "found a text without an end, or with an escape, at character {at}"
                );
            }
            Self::NoToken { first, at } => write!(f, "found `{first}` at character {at}")?,
        }
        write!(f, "; {SUPPORTED}")
    }
}

impl Error for QueryError {}

impl Query {
    /// Parses a query.
    pub(crate) fn parse(text: &str) -> Result<Self, QueryError> {
        let mut parser = Parser(tokens(text)?.into_iter().peekable());
        let name = parser.word("a table")?;
        let table = TABLES
            .into_iter()
            .find(|table| table.eq_ignore_ascii_case(&name));
        let mut query = Self {
            table: table.ok_or_else(|| unsupported(&name))?,
            stages: Vec::new(),
        };
        while parser.0.peek().is_some() {
            parser.expect("|")?;
            parser.stage(&mut query.stages)?;
        }
        Ok(query)
    }

    /// The table's name, in lower case.
    pub(crate) fn table(&self) -> &'static str {
        self.table
    }

    /// The rows that match the query.
    pub(crate) fn apply(&self, mut rows: Vec<Value>) -> Result<Vec<Value>, QueryError> {
        for stage in &self.stages {
            match stage {
                Stage::Where(condition) => {
                    let mut kept = Vec::new();
                    for row in rows {
                        if condition.holds(&row)? {
                            kept.push(row);
                        }
                    }
                    rows = kept;
                }
                Stage::Project(columns) => {
                    for row in &mut rows {
                        let mut left = Map::new();
                        for (name, path) in columns {
                            left.insert(name.clone(), member(row, path)?.clone());
                        }
                        *row = Value::Object(left);
                    }
                }
                Stage::Order(keys) => rows = ordered(rows, keys)?,
                Stage::Take(number) => rows.truncate(*number),
                Stage::Count => {
                    // It is valid JSON.
                    rows = serde_json::from_str(&format!(r#"[{{"Count":{}}}]"#, rows.len()))
                        .unwrap_or_default();
                }
            }
        }
        Ok(rows)
    }
}

impl Condition {
    fn holds(&self, row: &Value) -> Result<bool, QueryError> {
        let found = text(member(row, &self.member)?);
        let mut is_any = false;
        for value in &self.values {
            is_any |= if self.is_caseless {
                found.eq_ignore_ascii_case(value)
            } else {
                found == *value
            };
        }
        Ok(is_any != self.is_negated)
    }
}

/// The rows in the order of their keys. Rows of equal keys keep their order. There are few rows, so
/// each is inserted at its place.
fn ordered(rows: Vec<Value>, keys: &[(Path, bool)]) -> Result<Vec<Value>, QueryError> {
    let mut ordered: Vec<Value> = Vec::new();
    for row in rows {
        for (key, _) in keys {
            member(&row, key)?;
        }
        let place = ordered.partition_point(|before| {
            let mut orders = keys.iter().map(|(key, ascends)| {
                let order = order(
                    member(before, key).unwrap_or(&Value::Null),
                    member(&row, key).unwrap_or(&Value::Null),
                );
                if *ascends { order } else { order.reverse() }
            });
            orders.find(|order| order.is_ne()) != Some(Ordering::Greater)
        });
        ordered.insert(place, row);
    }
    Ok(ordered)
}

/// Numbers by value, everything else as text.
fn order(left: &Value, right: &Value) -> Ordering {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => text(left).cmp(&text(right)),
    }
}

/// A member of a row; null if the row has the column, but the column does not have the member.
fn member<'a>(row: &'a Value, path: &Path) -> Result<&'a Value, QueryError> {
    let mut value = row;
    for (depth, name) in path.iter().enumerate() {
        value = match value.get(name) {
            Some(value) => value,
            None if depth == 0 => return Err(QueryError::NoColumn(name.clone())),
            None => return Ok(&Value::Null),
        };
    }
    Ok(value)
}

/// A value as `tostring` writes it.
fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(written(other)),
    }
}

impl Token {
    /// Whether it is this sign or keyword.
    fn is(&self, wanted: &str) -> bool {
        !matches!(self, Self::Text(_)) && self.text() == wanted
    }

    fn text(&self) -> &str {
        match self {
            Self::Word(text) | Self::Text(text) => text,
            Self::Sign(sign) => sign,
        }
    }
}

/// The remaining tokens, with their offsets.
struct Parser(Peekable<IntoIter<(usize, Token)>>);

impl Parser {
    /// Consumes a sign or a keyword, if it is next.
    fn takes(&mut self, wanted: &str) -> bool {
        self.0.next_if(|(_, token)| token.is(wanted)).is_some()
    }

    fn expect(&mut self, wanted: &'static str) -> Result<(), QueryError> {
        if self.takes(wanted) {
            Ok(())
        } else {
            Err(expected(wanted, self.0.next()))
        }
    }

    fn word(&mut self, what: &'static str) -> Result<String, QueryError> {
        match self.0.next() {
            Some((_, Token::Word(word))) => Ok(word),
            found => Err(expected(what, found)),
        }
    }

    fn stage(&mut self, stages: &mut Vec<Stage>) -> Result<(), QueryError> {
        let name = self.word("a stage")?;
        stages.push(match name.as_str() {
            "where" => {
                stages.push(Stage::Where(self.condition()?));
                while self.takes("and") {
                    stages.push(Stage::Where(self.condition()?));
                }
                return Ok(());
            }
            "project" => {
                let mut columns = Vec::new();
                while columns.is_empty() || self.takes(",") {
                    let path = self.path()?;
                    columns.push((path.join("_"), path));
                }
                Stage::Project(columns)
            }
            "order" | "sort" => {
                self.expect("by")?;
                let mut keys = Vec::new();
                while keys.is_empty() || self.takes(",") {
                    let key = self.path()?;
                    let ascends = self.takes("asc");
                    keys.push((key, ascends));
                    self.takes("desc");
                }
                Stage::Order(keys)
            }
            "take" | "limit" => {
                let number = self.word("a number of rows")?;
                Stage::Take(number.parse().map_err(|_| unsupported(&number))?)
            }
            "count" => Stage::Count,
            _ => return Err(unsupported(&name)),
        });
        Ok(())
    }

    fn condition(&mut self) -> Result<Condition, QueryError> {
        for (function, is_negated) in [("isempty", false), ("isnotempty", true)] {
            if self.takes(function) {
                self.expect("(")?;
                let condition = Condition {
                    member: self.path()?,
                    values: vec![String::new()],
                    is_caseless: false,
                    is_negated,
                };
                self.expect(")")?;
                return Ok(condition);
            }
        }
        let member = self.path()?;
        let operator = match self.0.next() {
            Some((_, Token::Sign(sign))) => sign,
            Some((_, Token::Word(word))) if word == "in" => "in",
            found => return Err(expected("a comparison", found)),
        };
        let is_list = match operator {
            "==" | "!=" | "=~" | "!~" => false,
            "in" | "in~" | "!in" | "!in~" => true,
            _ => return Err(unsupported(operator)),
        };
        let mut values = Vec::new();
        if is_list {
            self.expect("(")?;
        }
        while values.is_empty() || is_list && self.takes(",") {
            match self.0.next() {
                Some((_, Token::Text(value) | Token::Word(value))) => values.push(value),
                found => return Err(expected("a value", found)),
            }
        }
        if is_list {
            self.expect(")")?;
        }
        Ok(Condition {
            member,
            values,
            is_caseless: operator.ends_with('~'),
            is_negated: operator.starts_with('!'),
        })
    }

    /// A column, with `.member` or `["member"]` after it, and alone or as the argument of
    /// `tostring`.
    fn path(&mut self) -> Result<Path, QueryError> {
        let column = self.word("the name of a column")?;
        if column == "tostring" && self.takes("(") {
            let path = self.path()?;
            self.expect(")")?;
            return Ok(path);
        }
        let mut path = vec![column];
        loop {
            if self.takes(".") {
                path.push(self.word("a member")?);
            } else if self.takes("[") {
                match self.0.next() {
                    Some((_, Token::Text(name))) => path.push(name),
                    found => return Err(expected("a member's name in quotation marks", found)),
                }
                self.expect("]")?;
            } else {
                return Ok(path);
            }
        }
    }
}

const fn expected(what: &'static str, found: Option<(usize, Token)>) -> QueryError {
    QueryError::Expected { what, found }
}

fn unsupported(what: &str) -> QueryError {
    QueryError::Unsupported(what.to_owned())
}

/// All tokens with their offsets, without comments.
fn tokens(query: &str) -> Result<Vec<(usize, Token)>, QueryError> {
    let is_part = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-');
    let mut tokens = Vec::new();
    let mut rest = query;
    while let Some(first) = rest.chars().next() {
        let at = query.len() - rest.len();
        let end = |found: Option<usize>| {
            rest.split_at_checked(found.unwrap_or(rest.len()))
                .unwrap_or((rest, ""))
        };
        let (word, after_word) = end(rest.find(|char| !is_part(char)));
        let (token, left) = if rest.starts_with("//") {
            (None, end(rest.find('\n')).1)
        } else if let Some(text) = rest.strip_prefix(['"', '\'']) {
            let (text, left) = text
                .split_once(first)
                .filter(|(text, _)| !text.contains('\\'))
                .ok_or(QueryError::TextWithoutEnd { at })?;
            (Some(Token::Text(text.to_owned())), left)
        } else if let Some((sign, left)) = SIGNS
            .iter()
            .find_map(|sign| Some((*sign, rest.strip_prefix(*sign)?)))
        {
            (Some(Token::Sign(sign)), left)
        } else if !word.is_empty() {
            (Some(Token::Word(word.to_owned())), after_word)
        } else if first.is_whitespace() {
            (None, rest.trim_start())
        } else {
            return Err(QueryError::NoToken { first, at });
        };
        tokens.extend(token.map(|token| (at, token)));
        rest = left;
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows() -> Vec<Value> {
        let row = |id: &str, status: &str, seconds: i64| {
            json!({
                "id": id, "name": id, "type": "microsoft.maintenance/scheduledevents", "resourceGroup": "replay", "zones": ["1"],
                "tags": { "a-b": "yes", "empty": "" },
                "properties": { "EventId": id, "EventStatus": status, "DurationInSeconds": seconds, "Resources": ["vm"] },
            })
        };
        vec![
            row("b", "Started", -1),
            row("a", "Scheduled", 9),
            row("c", "Completed", 30),
        ]
    }

    fn ask(query: &str) -> Vec<Value> {
        let query = Query::parse(&format!("maintenanceresources {query}"))
            .unwrap_or_else(|error| panic!("{query}: {error}"));
        query
            .apply(rows())
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn ids(query: &str) -> String {
        ask(query)
            .iter()
            .map(|row| row["id"].as_str().expect("an id").to_owned())
            .collect()
    }

    #[test]
    fn fact_the_queries_of_microsofts_page_are_answered() {
        let text =
            "\nmaintenanceresources\n| where type == \"microsoft.maintenance/scheduledevents\"\n";
        let query = Query::parse(text).expect("it");
        assert_eq!(
            (query.table(), query.apply(rows()).expect("rows").len()),
            ("maintenanceresources", 3)
        );
        let text = "Maintenanceresources\n| where type == \"microsoft.maintenance/scheduledevents\"\n\
                    | sort by tostring(properties.EventStatus), tostring(properties.EventId) asc\n\
                    | project resourceGroup, zones, properties.EventStatus, properties.NotBefore, properties.Resources, \
                    properties.EventId, properties.TargetResourceId, properties.EventType, properties.Description";
        let query = Query::parse(text).expect("it");
        assert_eq!(query.table(), "maintenanceresources");
        let found = query.apply(rows()).expect("rows");
        // The order is descending unless the query says `asc`.
        let statuses: Vec<_> = found
            .iter()
            .map(|row| row["properties_EventStatus"].clone())
            .collect();
        assert_eq!(statuses, ["Started", "Scheduled", "Completed"]);
        assert_eq!(found[0]["zones"], json!(["1"]));
        assert_eq!(found[0]["properties_NotBefore"], Value::Null);
    }

    #[test]
    fn the_queries_of_the_hub_are_answered() {
        let columns =
            "| project id, name, type, resourceGroup, zones, properties | order by id asc";
        let events = "| where type == \"microsoft.maintenance/scheduledevents\"";
        for (filter, expected) in [
            (
                "| where properties.EventStatus in~ (\"Scheduled\", \"Started\")",
                "ab",
            ),
            ("", "abc"),
            ("| where name in~ (\"A\", \"C\")", "ac"),
        ] {
            assert_eq!(
                ids(&format!("{events} {filter} {columns}")),
                expected,
                "{filter}"
            );
        }
        let tagged = "| where type =~ \"Microsoft.Maintenance/scheduledevents\" | where isnotempty(tags) | project id, tags";
        assert_eq!(ids(&format!("{tagged} | order by id asc")), "abc");
    }

    #[test]
    fn rows_are_filtered_and_sorted() {
        for (query, expected) in [
            (
                "| where type == 'Microsoft.Maintenance/ScheduledEvents'",
                "",
            ),
            (
                "| where type =~ 'Microsoft.Maintenance/ScheduledEvents'",
                "bac",
            ),
            ("| where id != 'a'", "bc"),
            ("| where id !~ 'A'", "bc"),
            (
                "| where properties.EventStatus in ('Started', 'scheduled')",
                "b",
            ),
            (
                "| where properties.EventStatus in~ ('Started', 'scheduled') // a comment",
                "ba",
            ),
            (
                "| where properties.EventStatus !in~ ('Started', 'scheduled')",
                "c",
            ),
            ("| where properties['EventStatus'] !in (\"Started\")", "ac"),
            (
                "| where tostring(properties.DurationInSeconds) == '-1'",
                "b",
            ),
            (
                "| where properties.DurationInSeconds == 30 and id == 'c'",
                "c",
            ),
            (
                "| where properties.DurationInSeconds == 30 and id == 'a'",
                "",
            ),
            ("| where isnotempty(tags[\"a-b\"])", "bac"),
            ("| where isnotempty(tags)", "bac"),
            ("| where isnotempty(tags.empty)", ""),
            ("| where isnotempty(tags[\"A-B\"])", ""),
            ("| where isempty(tags.other)", "bac"),
            ("| where tags.other == 'x'", ""),
            ("| order by id asc", "abc"),
            ("| order by id", "cba"),
            ("| order by id desc", "cba"),
            (
                "| sort by type, properties.DurationInSeconds asc | limit 2",
                "ba",
            ),
            ("| take 1", "b"),
        ] {
            assert_eq!(ids(query), expected, "{query}");
        }
        assert_eq!(
            ask("| where id == 'a' | project id, properties.Resources"),
            [json!({"id": "a", "properties_Resources": ["vm"]})]
        );
        assert_eq!(ask("| count"), [json!({"Count": 3})]);
    }

    #[test]
    fn what_is_not_supported_is_refused_with_a_place_and_advice() {
        for (query, expected) in [
            ("", "expected a table"),
            (
                "healthresources",
                "`healthresources` is not supported; this emulator has the tables",
            ),
            ("resources | summarize count() by type", "`summarize`"),
            ("resources | where", "expected the name of a column"),
            ("resources | where name", "expected a comparison"),
            (
                "resources | where name =~",
                "expected a value, found the end",
            ),
            ("resources | where name == \"x", "without an end"),
            (
                "resources | where strlen(name) == 3",
                "`(` is not supported",
            ),
            (
                "resources | where name matches regex 'x'",
                "found `matches` at character 23",
            ),
            ("resources | where name == 'x' or name == 'y'", "expected |"),
            ("resources | where name in ()", "expected a value"),
            ("resources | project", "a column"),
            ("resources | project a = name", "found `=`"),
            ("resources | take many", "`many`"),
            ("resources where name == 'x'", "expected |"),
            ("resources | where name == 'x';", "found `;`"),
        ] {
            let error = Query::parse(query).expect_err(query).to_string();
            assert!(error.contains(expected), "{query}: {error}");
        }
        let unknown = Query::parse("resources | where nme == 'x'")
            .expect("it")
            .apply(rows());
        assert!(unknown.is_err_and(|error| error.to_string().contains("no column `nme`")));
    }
}
