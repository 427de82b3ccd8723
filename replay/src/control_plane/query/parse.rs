//! Parses a query into stages and expressions.

use std::fmt::Display;

use super::QueryError;
use super::token::{Token, tokens};

/// The tables.
const TABLES: [&str; 2] = ["maintenanceresources", "resources"];

/// How deep brackets may be nested.
const DEPTH_MAX: usize = 16;

/// A query: a table, and what happens to its rows.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    table: &'static str,
    pub(super) stages: Vec<Stage>,
}

#[derive(Clone, Debug)]
pub(super) enum Stage {
    Where(Expression),
    /// The columns that are left, with their names.
    Project(Vec<(String, Expression)>),
    /// The columns that are added.
    Extend(Vec<(String, Expression)>),
    /// What to sort by, the first most, and whether ascending.
    Order(Vec<(Expression, bool)>),
    Take(usize),
    Count,
}

#[derive(Clone, Debug)]
pub(super) enum Expression {
    /// A column, or a member of one.
    Path(Vec<String>),
    Text(String),
    Number(f64),
    Call(Function, Box<Expression>),
    Compare(Comparison, Box<Expression>, Vec<Expression>),
    Not(Box<Expression>),
    All(Vec<Expression>),
    Any(Vec<Expression>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    ToString,
    ToLower,
    IsEmpty,
    IsNotEmpty,
}

/// `In` and `InCaseless` have a list of values, the others one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    EqualCaseless,
    NotEqualCaseless,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    InCaseless,
    NotIn,
    NotInCaseless,
    Has,
    Contains,
    StartsWith,
}

const FUNCTIONS: [(&str, Function); 6] = [
    ("tostring", Function::ToString),
    ("tolower", Function::ToLower),
    ("isempty", Function::IsEmpty),
    ("isnull", Function::IsEmpty),
    ("isnotempty", Function::IsNotEmpty),
    ("isnotnull", Function::IsNotEmpty),
];

const COMPARISONS: [(&str, Comparison); 15] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("=~", Comparison::EqualCaseless),
    ("!~", Comparison::NotEqualCaseless),
    ("<", Comparison::Less),
    ("<=", Comparison::LessOrEqual),
    (">", Comparison::Greater),
    (">=", Comparison::GreaterOrEqual),
    ("in", Comparison::In),
    ("in~", Comparison::InCaseless),
    ("!in", Comparison::NotIn),
    ("!in~", Comparison::NotInCaseless),
    ("has", Comparison::Has),
    ("contains", Comparison::Contains),
    ("startswith", Comparison::StartsWith),
];

const STAGES: &str = "where, project, extend, order by, sort by, take, limit, count";

impl Query {
    pub(crate) fn parse(text: &str) -> Result<Self, QueryError> {
        let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
        let name = parser.word("the name of a table")?;
        let table = TABLES.into_iter().find(|table| table.eq_ignore_ascii_case(&name));
        let table = table.ok_or_else(|| unsupported("table", &name, TABLES.join(", ")))?;
        let mut stages = Vec::new();
        while parser.peek().is_some() {
            if !parser.takes("|") {
                return Err(parser.expected("`|` before the next stage"));
            }
            stages.push(parser.stage()?);
        }
        Ok(Self { table, stages })
    }

    /// The table's name, in lower case.
    pub(crate) fn table(&self) -> &'static str {
        self.table
    }
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
    depth: usize,
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

    fn word(&mut self, what: &str) -> Result<String, QueryError> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.next += 1;
                Ok(word)
            }
            _ => Err(self.expected(what)),
        }
    }

    fn stage(&mut self) -> Result<Stage, QueryError> {
        let name = self.word("a stage")?;
        match name.as_str() {
            "where" => self.condition().map(Stage::Where),
            "project" => self.columns().map(Stage::Project),
            "extend" => self.columns().map(Stage::Extend),
            "order" | "sort" if self.takes("by") => self.order(),
            "take" | "limit" => match self.peek() {
                // The cast saturates.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                Some(Token::Number(number)) => {
                    let number = *number as usize;
                    self.next += 1;
                    Ok(Stage::Take(number))
                }
                _ => Err(self.expected("a number of rows")),
            },
            "count" => Ok(Stage::Count),
            _ => Err(unsupported("stage", &name, STAGES)),
        }
    }

    fn columns(&mut self) -> Result<Vec<(String, Expression)>, QueryError> {
        self.list(|parser| {
            let is_named = matches!(
                (parser.peek(), parser.tokens.get(parser.next + 1)),
                (Some(Token::Word(_)), Some((_, Token::Sign("="))))
            );
            if is_named {
                let name = parser.word("a column")?;
                parser.next += 1;
                return Ok((name, parser.value()?));
            }
            let expression = parser.value().map_err(|_| parser.expected("a column"))?;
            let name = match &expression {
                Expression::Path(path) => path.join("_"),
                Expression::Call(_, inner) if matches!(**inner, Expression::Path(_)) => {
                    let Expression::Path(path) = &**inner else { return Err(parser.expected("a column")) };
                    path.join("_")
                }
                _ => return Err(parser.expected("a column's name and `=`")),
            };
            Ok((name, expression))
        })
    }

    fn order(&mut self) -> Result<Stage, QueryError> {
        let keys = self.list(|parser| {
            let key = parser.value()?;
            let ascends = parser.takes("asc");
            if !ascends {
                parser.takes("desc");
            }
            Ok((key, ascends))
        })?;
        Ok(Stage::Order(keys))
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T, QueryError>) -> Result<Vec<T>, QueryError> {
        let mut items = vec![item(self)?];
        while self.takes(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn condition(&mut self) -> Result<Expression, QueryError> {
        if self.peek().is_none() {
            return Err(self.expected("a condition after `where`"));
        }
        let mut any = vec![self.conjunction()?];
        while self.takes("or") {
            any.push(self.conjunction()?);
        }
        Ok(Expression::Any(any))
    }

    fn conjunction(&mut self) -> Result<Expression, QueryError> {
        let mut all = vec![self.comparison()?];
        while self.takes("and") {
            all.push(self.comparison()?);
        }
        Ok(Expression::All(all))
    }

    fn comparison(&mut self) -> Result<Expression, QueryError> {
        let is_negated = self.takes("not");
        if is_negated || self.peek() == Some(&Token::Sign("(")) {
            let inner = self.bracketed(Self::condition)?;
            return Ok(if is_negated { Expression::Not(Box::new(inner)) } else { inner });
        }
        let left = self.value()?;
        let name = match self.peek() {
            Some(Token::Sign(sign)) => (*sign).to_owned(),
            Some(Token::Word(word)) => word.clone(),
            _ => String::new(),
        };
        let Some((_, comparison)) = COMPARISONS.iter().find(|(known, _)| *known == name) else {
            if matches!(left, Expression::Call(Function::IsEmpty | Function::IsNotEmpty, _)) {
                return Ok(left);
            }
            return match name.as_str() {
                "" | "|" | ")" | "and" | "or" => Err(self.expected("a comparison")),
                _ => Err(unsupported("operator", &name, COMPARISONS.map(|(known, _)| known).join(" "))),
            };
        };
        self.next += 1;
        let right = match comparison {
            Comparison::In | Comparison::InCaseless | Comparison::NotIn | Comparison::NotInCaseless => {
                self.bracketed(|parser| parser.list(Self::value))?
            }
            _ => vec![self.value()?],
        };
        Ok(Expression::Compare(*comparison, Box::new(left), right))
    }

    fn bracketed<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, QueryError>) -> Result<T, QueryError> {
        if !self.takes("(") {
            return Err(self.expected("`(`"));
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(QueryError(format!("found brackets nested deeper than {DEPTH_MAX}, write a flatter query")));
        }
        let found = inner(self)?;
        self.depth -= 1;
        if self.takes(")") { Ok(found) } else { Err(self.expected("`)`")) }
    }

    /// A text, a number, a path or a call.
    fn value(&mut self) -> Result<Expression, QueryError> {
        match self.peek().cloned() {
            Some(Token::Text(text)) => {
                self.next += 1;
                Ok(Expression::Text(text))
            }
            Some(Token::Number(number)) => {
                self.next += 1;
                Ok(Expression::Number(number))
            }
            Some(Token::Word(word)) => {
                self.next += 1;
                if self.peek() == Some(&Token::Sign("(")) {
                    let function = FUNCTIONS.iter().find(|(known, _)| *known == word);
                    let function = function
                        .ok_or_else(|| unsupported("function", &word, FUNCTIONS.map(|(known, _)| known).join(" ")))?;
                    return Ok(Expression::Call(function.1, Box::new(self.bracketed(Self::value)?)));
                }
                self.path(word)
            }
            _ => Err(self.expected("a value")),
        }
    }

    /// The rest of a path: `.member` or `["member"]`.
    fn path(&mut self, column: String) -> Result<Expression, QueryError> {
        let mut path = vec![column];
        loop {
            if self.takes(".") {
                path.push(self.word("a member")?);
            } else if self.takes("[") {
                let Some(Token::Text(member)) = self.peek().cloned() else {
                    return Err(self.expected("the name of a member in quotation marks"));
                };
                self.next += 1;
                path.push(member);
                if !self.takes("]") {
                    return Err(self.expected("`]`"));
                }
            } else {
                return Ok(Expression::Path(path));
            }
        }
    }

    fn expected(&self, what: &str) -> QueryError {
        QueryError(match self.tokens.get(self.next) {
            Some((at, token)) => format!("expected {what} at character {at}, found {}", shown(token)),
            None => format!("expected {what} at the end of the query"),
        })
    }
}

fn shown(token: &Token) -> String {
    match token {
        Token::Word(word) => format!("`{word}`"),
        Token::Text(text) => format!("the text {text:?}"),
        Token::Number(number) => format!("the number {number}"),
        Token::Sign(sign) => format!("`{sign}`"),
    }
}

fn unsupported(what: &str, name: &str, known: impl Display) -> QueryError {
    QueryError(format!("this emulator has no {what} `{name}`; it has: {known}"))
}
