//! Generates `include/scheduled_events.h` from the crate's declarations, read by cbindgen, and the template
//! `scheduled_events.h.in`, which has the order and the prose.
//!
//! A line `@name` of the template is replaced by the declaration of that name. Every declaration must be in the template
//! exactly once. With `--verify` nothing is written, and a file that differs is an error.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

fn main() -> ExitCode {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = here.join("../../include/scheduled_events.h");
    let verify = match env::args().nth(1).as_deref() {
        None => false,
        Some("--verify") => true,
        Some(_) => return fail("usage: scheduled-events-header [--verify]"),
    };
    let text = match generate(here) {
        Ok(text) => text,
        Err(error) => return fail(&error),
    };
    if verify {
        return match fs::read_to_string(&header) {
            Ok(known) if known == text => ExitCode::SUCCESS,
            _ => fail("include/scheduled_events.h is out of date: run ffi-c/header/generate.sh"),
        };
    }
    match fs::write(&header, text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("{}: {error}", header.display())),
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("error: {message}");
    ExitCode::FAILURE
}

fn generate(here: &Path) -> Result<String, String> {
    let mut declarations = declarations(here)?;
    let template = here.join("scheduled_events.h.in");
    let template = fs::read_to_string(&template)
        .map_err(|error| format!("{}: {error}", template.display()))?;
    let mut header = String::new();
    for line in template.lines() {
        match line.strip_prefix('@') {
            Some(name) => {
                let declaration = declarations.remove(name);
                header += &declaration.ok_or_else(|| {
                    format!("the template has @{name}, but there is no such declaration")
                })?;
            }
            None => header += line,
        }
        header.push('\n');
    }
    match declarations.keys().next() {
        Some(missing) => Err(format!("the template lacks @{missing}")),
        None => Ok(header),
    }
}

/// The declarations with their comments, by name.
fn declarations(here: &Path) -> Result<BTreeMap<String, String>, String> {
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml"))?;
    let builder = cbindgen::Builder::new()
        .with_config(config)
        .with_src(here.join("../src/lib.rs"));
    let mut text = Vec::new();
    builder
        .generate()
        .map_err(|error| error.to_string())?
        .write(&mut text);
    let text = String::from_utf8(text).map_err(|error| error.to_string())?;

    let mut declarations = BTreeMap::new();
    for declaration in text
        .split("\n\n")
        .map(|block| block.trim_matches('\n'))
        .filter(|block| !block.is_empty())
    {
        let name = name_of(declaration).ok_or_else(|| format!("no name in:\n{declaration}"))?;
        if let Some(other) = declarations.insert(name.clone(), tidy(declaration)) {
            return Err(format!("{name} is declared twice:\n{other}"));
        }
    }
    Ok(declarations)
}

/// The name of a declared macro, type or function.
fn name_of(declaration: &str) -> Option<String> {
    let code = match declaration.find("*/") {
        Some(end) if declaration.starts_with("/**") => declaration.get(end + 2..)?.trim_start(),
        _ => declaration,
    };
    let word = |text: &str| -> Option<String> {
        let word: String = text
            .chars()
            .take_while(|char| char.is_ascii_alphanumeric() || *char == '_')
            .collect();
        (!word.is_empty()).then_some(word)
    };
    if let Some(rest) = code.strip_prefix("#define ") {
        return word(rest);
    }
    if let Some((_, rest)) = code
        .split_once("(*")
        .filter(|_| code.starts_with("typedef"))
    {
        return word(rest);
    }
    if code.starts_with("typedef") {
        return word(code.trim_end_matches(';').rsplit([' ', '\n']).next()?);
    }
    word(code.get(code.find("schedev_").filter(|_| code.contains('('))?..)?)
        .filter(|_| code.contains("schedev_"))
        .and_then(|_| word(code.split_once('(')?.0.rsplit([' ', '*']).next()?))
}

/// The maximum length of a line.
const WIDTH: usize = 120;

/// Formats a declaration: short comments on one line, types by their typedefs, signatures wrapped at `WIDTH`.
fn tidy(declaration: &str) -> String {
    let mut out = String::new();
    let lines: Vec<&str> = declaration.lines().map(str::trim_end).collect();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let text = lines
            .get(at + 1)
            .and_then(|line| line.trim_start().strip_prefix("* "));
        match (
            line.trim_start(),
            text,
            lines.get(at + 2).map(|line| line.trim()),
        ) {
            ("/**", Some(text), Some("*/")) => {
                let indent = " ".repeat(line.len() - line.trim_start().len());
                out.extend([&*indent, "/** ", text, " */\n"]);
                at += 3;
            }
            _ if is_code(line) && line.contains('(') => {
                let mut signature = line.trim().to_owned();
                while !signature.ends_with(';') {
                    at += 1;
                    signature.extend([" ", lines.get(at).unwrap_or(&";").trim()]);
                }
                let api = if signature.starts_with("typedef") {
                    ""
                } else {
                    "SCHEDEV_API "
                };
                out += &filled(&by_typedef(&format!("{api}{signature}")));
                at += 1;
            }
            _ => {
                out += &if is_code(line) && line.starts_with(' ') {
                    by_typedef(line)
                } else {
                    (*line).to_owned()
                };
                out.push('\n');
                at += 1;
            }
        }
    }
    out.trim_end().to_owned()
}

fn is_code(line: &str) -> bool {
    !line.trim_start().starts_with(['*', '/', '#'])
}

fn by_typedef(code: &str) -> String {
    code.replace("enum schedev_", "schedev_")
        .replace("struct schedev_", "schedev_")
}

/// Wraps a signature, its parameters aligned after the bracket.
fn filled(signature: &str) -> String {
    let bracket = signature
        .rfind(")(")
        .map_or_else(|| signature.find('('), |at| Some(at + 1));
    let Some(bracket) = bracket.filter(|_| signature.len() > WIDTH) else {
        return format!("{signature}\n");
    };
    let (head, parameters) = signature.split_at(bracket + 1);
    let mut out = String::new();
    let mut line = head.to_owned();
    for parameter in parameters.split_inclusive(", ") {
        if line.len() + parameter.trim_end().len() > WIDTH {
            out += line.trim_end();
            out.push('\n');
            line = " ".repeat(head.len());
        }
        line += parameter;
    }
    out + &line + "\n"
}
