//! The blocks of code on a page.

use crate::pages::documentation::read;

/// A block of code.
pub(crate) struct Block {
    pub(crate) page: String,
    /// The number of its first line.
    pub(crate) line: usize,
    pub(crate) language: String,
    pub(crate) text: String,
    /// The directive to the tests in the comment before it.
    directive: Option<String>,
}

impl Block {
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }

    pub(crate) fn is_skipped(&self) -> bool {
        self.directive
            .as_ref()
            .is_some_and(|directive| directive.starts_with("skip, "))
    }

    /// The scenario that the block is served.
    pub(crate) fn scenario(&self) -> &str {
        self.argument("service ").unwrap_or("user-reboot")
    }

    /// The file that has the block as its content: named by the comment before it, or in the first
    /// line of TOML.
    pub(crate) fn file(&self) -> Option<&str> {
        let first = self.text.lines().next().filter(|_| self.language == "toml");
        let named = first
            .and_then(|line| line.strip_prefix("# "))
            .filter(|name| !name.contains(' '));
        self.argument("file ").or(named)
    }

    fn argument(&self, name: &str) -> Option<&str> {
        self.directive.as_deref()?.strip_prefix(name)
    }
}

/// The blocks of a page, in order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let text = read(page);
    let mut blocks = Vec::new();
    let mut open: Option<(String, Block)> = None;
    let mut directive = None;
    for (number, line) in (1..).zip(text.lines()) {
        let indent: String = line.chars().take_while(|char| *char == ' ').collect();
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (Some(_), Some("")) => blocks.extend(open.take().map(|(_, block)| block)),
            (Some((indent, block)), _) => {
                block.text += line.strip_prefix(indent.as_str()).unwrap_or(line);
                block.text.push('\n');
            }
            (None, Some(language)) => {
                let language = language.split(',').next().unwrap_or_default().to_owned();
                let directive = directive.take();
                let block = Block {
                    page: page.to_owned(),
                    line: number + 1,
                    language,
                    text: String::new(),
                    directive,
                };
                open = Some((indent, block));
            }
            (None, None) => {
                let comment = line
                    .trim()
                    .strip_prefix("<!-- test: ")
                    .and_then(|rest| rest.strip_suffix(" -->"));
                if comment.is_some() || !line.trim().is_empty() {
                    directive = comment.map(str::to_owned);
                }
            }
        }
    }
    assert!(open.is_none(), "{page}: a block of code does not end");
    for block in &blocks {
        let known = ["skip, ", "service ", "file "];
        let directive = block.directive.as_deref().unwrap_or("file ");
        assert!(
            known.iter().any(|known| directive.starts_with(known)),
            "{}: {directive:?}",
            block.place()
        );
    }
    blocks
}
