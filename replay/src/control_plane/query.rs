//! The part of Kusto's language that queries for Scheduled Events use: Microsoft's page about them in Resource Graph, and the hub.
//!
//! A query is the name of a table, then stages: `where`, `project`, `order by` or `sort by`, `take` or `limit`, and `count`. `where`
//! compares a member with texts or numbers, by `==`, `!=`, `=~`, `!~`, `in`, `in~`, `!in` and `!in~`, or asks for `isempty(…)` and
//! `isnotempty(…)`; `and` joins comparisons. Everything else is an error that names what is supported, so that no query seems to work
//! here that means something else at Azure.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Map, Value};

/// A query: a table, and what happens to its rows.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    table: &'static str,
    stages: Vec<Stage>,
}

#[derive(Clone, Debug)]
enum Stage {
    Where(Condition),
    /// The columns that are left, with their names.
    Project(Vec<(String, Path)>),
    /// What to sort by, the first most, and whether ascending.
    Order(Vec<(Path, bool)>),
    Take(usize),
    Count,
}

/// A column, and a member of it.
type Path = Vec<String>;

/// Whether a member is one of some values, or is none of them.
#[derive(Clone, Debug)]
struct Condition {
    member: Path,
    values: Vec<String>,
    is_caseless: bool,
    is_negated: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A name, a word that means something, or a number.
    Word(String),
    Text(String),
    Sign(&'static str),
}

const TABLES: [&str; 2] = ["maintenanceresources", "resources"];

/// Longer signs come before their beginnings. Those with letters are no words.
const SIGNS: [&str; 14] = ["==", "=~", "!=", "!~", "in~", "!in~", "!in", "|", ",", "(", ")", "[", "]", "."];

const SUPPORTED: &str = "this emulator has the tables maintenanceresources and resources, the stages where, project, order by, sort by, \
                         take, limit and count, and the comparisons == != =~ !~ in in~ !in !in~ isempty() isnotempty(), joined by and";

impl Query {
    /// Parses a query. The error says what was expected, where, and what is supported.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { tokens: tokens(text)?, next: 0 };
        let name = parser.word("a table")?;
        let table = TABLES.into_iter().find(|table| table.eq_ignore_ascii_case(&name));
        let mut query = Self { table: table.ok_or_else(|| unsupported(&name))?, stages: Vec::new() };
        while parser.next < parser.tokens.len() {
            parser.expect("|")?;
            parser.stage(&mut query.stages)?;
        }
        Ok(query)
    }

    /// The table's name, in lower case.
    pub(crate) fn table(&self) -> &'static str {
        self.table
    }

    /// The rows that the query asks for.
    pub(crate) fn apply(&self, mut rows: Vec<Value>) -> Result<Vec<Value>, String> {
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
                    rows = serde_json::from_str(&format!(r#"[{{"Count":{}}}]"#, rows.len())).unwrap_or_default();
                }
            }
        }
        Ok(rows)
    }
}

impl Condition {
    fn holds(&self, row: &Value) -> Result<bool, String> {
        let found = text(member(row, &self.member)?);
        let mut is_any = false;
        for value in &self.values {
            is_any |= if self.is_caseless { found.eq_ignore_ascii_case(value) } else { found == *value };
        }
        Ok(is_any != self.is_negated)
    }
}

/// The rows by their keys. Rows of equal keys keep their order. There are few rows, so each is inserted at its place.
fn ordered(rows: Vec<Value>, keys: &[(Path, bool)]) -> Result<Vec<Value>, String> {
    let mut ordered: Vec<Value> = Vec::new();
    for row in rows {
        for (key, _) in keys {
            member(&row, key)?;
        }
        let place = ordered.partition_point(|before| {
            let mut orders = keys.iter().map(|(key, ascends)| {
                let order =
                    order(member(before, key).unwrap_or(&Value::Null), member(&row, key).unwrap_or(&Value::Null));
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
fn member<'a>(row: &'a Value, path: &Path) -> Result<&'a Value, String> {
    let mut value = row;
    for (depth, name) in path.iter().enumerate() {
        value = match value.get(name) {
            Some(value) => value,
            None if depth == 0 => return Err(format!("there is no column `{name}`; names compare with case")),
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
        other => Cow::Owned(other.to_string()),
    }
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    /// Takes a sign, or a word that means something, if it is next.
    fn takes(&mut self, wanted: &str) -> bool {
        let found = match self.peek() {
            Some(Token::Sign(sign)) => *sign == wanted,
            Some(Token::Word(word)) => word == wanted,
            _ => false,
        };
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, wanted: &str) -> Result<(), String> {
        if self.takes(wanted) { Ok(()) } else { Err(self.expected(wanted)) }
    }

    fn word(&mut self, what: &str) -> Result<String, String> {
        let Some(Token::Word(word)) = self.peek().cloned() else { return Err(self.expected(what)) };
        self.next += 1;
        Ok(word)
    }

    fn stage(&mut self, stages: &mut Vec<Stage>) -> Result<(), String> {
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

    fn condition(&mut self) -> Result<Condition, String> {
        for (function, is_negated) in [("isempty", false), ("isnotempty", true)] {
            if self.takes(function) {
                self.expect("(")?;
                let condition =
                    Condition { member: self.path()?, values: vec![String::new()], is_caseless: false, is_negated };
                self.expect(")")?;
                return Ok(condition);
            }
        }
        let member = self.path()?;
        let operator = match self.peek() {
            Some(Token::Sign(sign)) => (*sign).to_owned(),
            Some(Token::Word(word)) if word == "in" => word.clone(),
            _ => return Err(self.expected("a comparison")),
        };
        self.next += 1;
        let is_list = match operator.as_str() {
            "==" | "!=" | "=~" | "!~" => false,
            "in" | "in~" | "!in" | "!in~" => true,
            _ => return Err(unsupported(&operator)),
        };
        let mut values = Vec::new();
        if is_list {
            self.expect("(")?;
        }
        while values.is_empty() || is_list && self.takes(",") {
            let Some(Token::Text(value) | Token::Word(value)) = self.peek().cloned() else {
                return Err(self.expected("a value"));
            };
            self.next += 1;
            values.push(value);
        }
        if is_list {
            self.expect(")")?;
        }
        Ok(Condition { member, values, is_caseless: operator.ends_with('~'), is_negated: operator.starts_with('!') })
    }

    /// A column, with `.member` or `["member"]` after it, and alone or as the argument of `tostring`.
    fn path(&mut self) -> Result<Path, String> {
        let mut path = vec![self.word("the name of a column")?];
        if path[0] == "tostring" && self.takes("(") {
            let path = self.path()?;
            self.expect(")")?;
            return Ok(path);
        }
        loop {
            if self.takes(".") {
                path.push(self.word("a member")?);
            } else if self.takes("[") {
                let Some(Token::Text(name)) = self.peek().cloned() else {
                    return Err(self.expected("a member's name in quotation marks"));
                };
                self.next += 1;
                path.push(name);
                self.expect("]")?;
            } else {
                return Ok(path);
            }
        }
    }

    fn expected(&self, what: &str) -> String {
        let (place, found) = match self.tokens.get(self.next) {
            Some((at, Token::Word(word) | Token::Text(word))) => (*at, word.as_str()),
            Some((at, Token::Sign(sign))) => (*at, *sign),
            None => (self.tokens.last().map_or(0, |(at, _)| *at), "the end"),
        };
        format!("expected {what} at or after character {place}, found `{found}`; {SUPPORTED}")
    }
}

fn unsupported(what: &str) -> String {
    format!("`{what}` is not supported; {SUPPORTED}")
}

/// All tokens with their offsets. Comments are left out.
fn tokens(query: &str) -> Result<Vec<(usize, Token)>, String> {
    let is_part = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-');
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = query[at..].chars().next() {
        let rest = &query[at..];
        let word = rest.find(|char| !is_part(char)).unwrap_or(rest.len());
        let mut length = first.len_utf8();
        if rest.starts_with("//") {
            length = rest.find('\n').unwrap_or(rest.len());
        } else if matches!(first, '"' | '\'') {
            let text = rest[1..].split(first).next().unwrap_or_default();
            length = text.len() + 2;
            if rest.len() < length || text.contains('\\') {
                return Err(format!("found a text without an end, or with an escape, at character {at}"));
            }
            tokens.push((at, Token::Text(text.to_owned())));
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            length = sign.len();
            tokens.push((at, Token::Sign(sign)));
        } else if word > 0 {
            length = word;
            tokens.push((at, Token::Word(rest[..word].to_owned())));
        } else if !first.is_whitespace() {
            return Err(format!("found `{first}` at character {at}; {SUPPORTED}"));
        }
        at += length;
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
        vec![row("b", "Started", -1), row("a", "Scheduled", 9), row("c", "Completed", 30)]
    }

    fn ask(query: &str) -> Vec<Value> {
        let query =
            Query::parse(&format!("maintenanceresources {query}")).unwrap_or_else(|error| panic!("{query}: {error}"));
        query.apply(rows()).unwrap_or_else(|error| panic!("{error}"))
    }

    fn ids(query: &str) -> String {
        ask(query).iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
    }

    #[test]
    fn fact_the_queries_of_microsofts_page_are_answered() {
        let text = "\nmaintenanceresources\n| where type == \"microsoft.maintenance/scheduledevents\"\n";
        let query = Query::parse(text).expect("it");
        assert_eq!((query.table(), query.apply(rows()).expect("rows").len()), ("maintenanceresources", 3));
        let text = "Maintenanceresources\n| where type == \"microsoft.maintenance/scheduledevents\"\n\
                    | sort by tostring(properties.EventStatus), tostring(properties.EventId) asc\n\
                    | project resourceGroup, zones, properties.EventStatus, properties.NotBefore, properties.Resources, \
                    properties.EventId, properties.TargetResourceId, properties.EventType, properties.Description";
        let query = Query::parse(text).expect("it");
        assert_eq!(query.table(), "maintenanceresources");
        let found = query.apply(rows()).expect("rows");
        // The order is descending unless the query says `asc`.
        let statuses: Vec<_> = found.iter().map(|row| row["properties_EventStatus"].clone()).collect();
        assert_eq!(statuses, ["Started", "Scheduled", "Completed"]);
        assert_eq!(found[0]["zones"], json!(["1"]));
        assert_eq!(found[0]["properties_NotBefore"], Value::Null);
    }

    #[test]
    fn rows_are_filtered_and_sorted() {
        for (query, expected) in [
            ("| where type == 'Microsoft.Maintenance/ScheduledEvents'", ""),
            ("| where type =~ 'Microsoft.Maintenance/ScheduledEvents'", "bac"),
            ("| where id != 'a'", "bc"),
            ("| where id !~ 'A'", "bc"),
            ("| where properties.EventStatus in ('Started', 'scheduled')", "b"),
            ("| where properties.EventStatus in~ ('Started', 'scheduled') // a comment", "ba"),
            ("| where properties.EventStatus !in~ ('Started', 'scheduled')", "c"),
            ("| where properties['EventStatus'] !in (\"Started\")", "ac"),
            ("| where tostring(properties.DurationInSeconds) == '-1'", "b"),
            ("| where properties.DurationInSeconds == 30 and id == 'c'", "c"),
            ("| where properties.DurationInSeconds == 30 and id == 'a'", ""),
            ("| where isnotempty(tags[\"a-b\"])", "bac"),
            ("| where isnotempty(tags.empty)", ""),
            ("| where isempty(tags.other)", "bac"),
            ("| where tags.other == 'x'", ""),
            ("| order by id asc", "abc"),
            ("| order by id", "cba"),
            ("| order by id desc", "cba"),
            ("| sort by type, properties.DurationInSeconds asc | limit 2", "ba"),
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
            ("healthresources", "`healthresources` is not supported; this emulator has the tables"),
            ("resources | summarize count() by type", "`summarize`"),
            ("resources | where", "expected the name of a column"),
            ("resources | where name", "expected a comparison"),
            ("resources | where name =~", "expected a value at or after character 23, found `the end`"),
            ("resources | where name == \"x", "without an end"),
            ("resources | where strlen(name) == 3", "`(` is not supported"),
            ("resources | where name matches regex 'x'", "found `matches`"),
            ("resources | where name == 'x' or name == 'y'", "expected |"),
            ("resources | where name in ()", "expected a value"),
            ("resources | project", "a column"),
            ("resources | project a = name", "found `=`"),
            ("resources | take many", "`many`"),
            ("resources where name == 'x'", "expected |"),
            ("resources | where name == 'x';", "found `;`"),
        ] {
            let error = Query::parse(query).expect_err(query);
            assert!(error.contains(expected), "{query}: {error}");
        }
        let unknown = Query::parse("resources | where nme == 'x'").expect("it").apply(rows());
        assert!(unknown.is_err_and(|error| error.contains("no column `nme`")));
    }
}
