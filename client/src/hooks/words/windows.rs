//! Command lines on Windows.

#[cfg(windows)]
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::UnclosedQuote;

/// What Windows starts directly, without a program that opens it.
#[cfg(windows)]
const EXECUTABLE: [&str; 4] = ["com", "exe", "bat", "cmd"];

/// The longest variable that a batch file receives, in bytes. `cmd.exe` refuses or truncates a line that has more than 8,191 characters
/// once its variables are expanded: there is space for two of them.
const BATCH_VARIABLE_MAX: usize = 4_000;

/// The variable with text in the words of Azure or of a user, which is never safe for `cmd.exe`.
const FREE_TEXT: &str = "DESCRIPTION";

/// Splits a command line into words. Double and single quotes keep white space together; a backslash is a character like any other.
///
/// # Errors
/// A quote is not closed.
pub(in crate::hooks) fn split(text: &str) -> Result<Vec<String>, UnclosedQuote> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for char in text.chars() {
        match quote {
            Some(end) if char == end => quote = None,
            None if char.is_whitespace() => words.extend(word.take()),
            None if char == '"' || char == '\'' => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            _ => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    if quote.is_some() {
        Err(UnclosedQuote)
    } else {
        Ok(words)
    }
}

/// A text that `split` splits into these words.
pub(in crate::hooks) fn join(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        let is_plain = |char: char| !char.is_whitespace() && char != '"' && char != '\'';
        if !word.is_empty() && word.chars().all(is_plain) {
            return word.clone();
        }
        let parts: Vec<_> = word.split('"').map(|part| format!("\"{part}\"")).collect();
        parts.join("'\"'")
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Whether a program gets this variable. `cmd.exe` expands variables before it parses a line, so that a `&` in one starts another
/// command. A batch file therefore gets no free text, and other variables only if they are short and consist of letters, digits and
/// `-_.,:+`.
pub(in crate::hooks) fn takes_variable(program: &OsStr, name: &str, value: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_.,:+".contains(char);
    !is_batch(program)
        || name != FREE_TEXT && value.len() <= BATCH_VARIABLE_MAX && value.chars().all(is_plain)
}

/// Whether the command is `cmd.exe` without `/c`: it then runs what it reads from standard input, which is the event. With `/k`, it
/// does so after its command, and a script without either is not run at all.
pub(in crate::hooks) fn reads_commands(words: &[String]) -> bool {
    let Some((program, rest)) = words.split_first() else {
        return false;
    };
    // Switches need no space between them: `/d/c`. What follows the first of these two is the command.
    let switches: String = rest
        .iter()
        .take_while(|word| word.starts_with('/'))
        .map(String::as_str)
        .collect();
    let mut letters = switches
        .split('/')
        .filter_map(|switch| switch.chars().next());
    let first = letters.find(|letter| matches!(letter, 'c' | 'C' | 'k' | 'K'));
    is_cmd(&file_name(program.as_ref())) && !matches!(first, Some('c' | 'C'))
}

/// Whether `cmd.exe` runs the program, or is it.
fn is_batch(program: &OsStr) -> bool {
    let name = file_name(program);
    is_one_of(name.extension(), &["bat", "cmd"]) || is_cmd(&name)
}

fn is_cmd(name: &Path) -> bool {
    is_one_of(name.file_stem(), &["cmd", "command"])
        && !is_one_of(name.extension(), &["bat", "cmd"])
}

fn is_one_of(part: Option<&OsStr>, names: &[&str]) -> bool {
    part.is_some_and(|part| names.iter().any(|name| part.eq_ignore_ascii_case(name)))
}

/// The name of a program's file. Windows ignores dots and spaces at its end.
fn file_name(program: &OsStr) -> PathBuf {
    let name = Path::new(program)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    PathBuf::from(name.trim_end_matches(['.', ' ']))
}

/// Whether the program exists.
#[cfg(windows)]
pub(in crate::hooks) fn program_exists(program: &str) -> bool {
    find_program(program).is_some()
}

/// The program to start, with the folder in which it is found and the extension.
#[cfg(windows)]
pub(in crate::hooks) fn find_program(program: &str) -> Option<PathBuf> {
    let mut candidates = candidates(program).into_iter();
    candidates.find(|candidate| candidate.is_file())
}

/// Where the program is searched for: as `cmd.exe` does, but not in the current folder. The standard library would search other folders
/// than `PATH`, too.
#[cfg(windows)]
pub(in crate::hooks) fn candidates(program: &str) -> Vec<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 || path.has_root() {
        return with_extensions(path);
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders)
        .filter(|folder| folder.is_absolute())
        .flat_map(|folder| with_extensions(&folder.join(program)))
        .collect()
}

/// The path as it is, and with each of the extensions of `PATHEXT` added: first if it has an extension, else last.
#[cfg(windows)]
fn with_extensions(path: &Path) -> Vec<PathBuf> {
    let extensions = env::var("PATHEXT").unwrap_or_else(|_| ".COM;.EXE;.BAT;.CMD".to_owned());
    let extensions = extensions
        .split(';')
        .map(|extension| extension.trim().trim_start_matches('.'));
    let known = extensions.filter(|extension| {
        EXECUTABLE
            .iter()
            .any(|known| known.eq_ignore_ascii_case(extension))
    });
    let added = known.map(|extension| {
        let mut name = path.as_os_str().to_owned();
        name.push(".");
        name.push(extension);
        PathBuf::from(name)
    });
    let mut paths: Vec<_> = added.collect();
    let at = if path.extension().is_some() {
        0
    } else {
        paths.len()
    };
    paths.insert(at, path.to_owned());
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backslash_is_part_of_a_path_and_quotes_keep_words_together() {
        for (line, words) in [
            (r"C:\x\drain.cmd", vec![r"C:\x\drain.cmd"]),
            (
                r#""C:\Program Files\drain\" --note 'going down'"#,
                vec![r"C:\Program Files\drain\", "--note", "going down"],
            ),
            (r#"  a"b c"d	'"' "'" "#, vec!["ab cd", "\"", "'"]),
            (r#"drain "" '' "#, vec!["drain", "", ""]),
            (
                r"\\server\share\drain.exe a\ b",
                vec![r"\\server\share\drain.exe", r"a\", "b"],
            ),
            ("", vec![]),
        ] {
            assert_eq!(
                split(line).ok().as_deref(),
                Some(&words.into_iter().map(str::to_owned).collect::<Vec<_>>()[..]),
                "{line}"
            );
            let words = split(line).ok().unwrap_or_default();
            assert_eq!(split(&join(&words)).ok(), Some(words), "{line}");
        }
        for line in [r#"drain "now"#, "drain 'now", r#""C:\"" "#] {
            assert!(split(line).is_err(), "{line}");
        }
    }

    #[test]
    fn what_cmd_exe_would_run_is_not_a_variable_of_a_batch_file() {
        for program in [
            "drain.cmd",
            r"C:\x\DRAIN.BAT",
            "cmd",
            "cmd.exe",
            "CMD.EXE",
            "drain.bat. ",
            "drain.cmd.",
        ] {
            let program = Path::new(program)
                .file_name()
                .map_or(program.as_ref(), |_| OsStr::new(program));
            for (name, value, takes) in [
                ("DESCRIPTION", "harmless", false),
                ("EVENT_TYPE", "Freeze", true),
                ("NOT_BEFORE", "2022-04-11T22:26:58Z", true),
                ("RESOURCES", "WestNO_0,other", true),
                ("EVENT_ID", "a&calc", false),
                ("EVENT_ID", "a\ncalc", false),
                ("EVENT_TYPE", "%PATH%", false),
                ("EVENT_SOURCE", "a\"b", false),
            ] {
                assert_eq!(
                    takes_variable(program, name, value),
                    takes,
                    "{program:?} {name}={value}"
                );
            }
        }
        let names = |length| "vm_".chars().cycle().take(length).collect::<String>();
        for (length, takes) in [(4_000, true), (4_001, false)] {
            assert_eq!(
                takes_variable("drain.cmd".as_ref(), "RESOURCES", &names(length)),
                takes,
                "{length}"
            );
            assert!(
                takes_variable("drain.exe".as_ref(), "RESOURCES", &names(length)),
                "{length}"
            );
        }
        for program in [
            "drain.exe",
            "powershell",
            r"C:\cmd\drain.exe",
            "commander.exe",
        ] {
            assert!(
                takes_variable(program.as_ref(), "DESCRIPTION", "a & b"),
                "{program}"
            );
        }
    }

    #[test]
    fn cmd_exe_does_not_run_its_input() {
        for (line, reads) in [
            ("cmd", true),
            ("CMD.EXE. drain.cmd", true),
            ("cmd /k drain.cmd", true),
            ("cmd /k drain.cmd /c", true),
            ("cmd /k/c drain.cmd", true),
            ("cmd drain.cmd /c", true),
            ("cmd /d /q", true),
            ("cmd /c drain.cmd", false),
            ("cmd /V:ON /d/C drain.cmd /k", false),
            ("command.com /c drain.cmd", false),
            ("cmd.bat", false),
            ("drain.cmd /k", false),
            ("powershell -File drain.ps1", false),
        ] {
            assert_eq!(
                split(line).ok().map(|words| reads_commands(&words)),
                Some(reads),
                "{line}"
            );
        }
    }

    #[test]
    #[cfg(windows)]
    fn programs_are_found_by_their_extension() {
        let folder =
            env::temp_dir().join(format!("scheduled-events-programs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["drain.cmd", "drain.txt", "v1.2.exe", "plain"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let path = |name: &str| folder.join(name);
        for (name, found) in [
            ("drain", Some("drain.cmd")),
            ("DRAIN.CMD", Some("DRAIN.CMD")),
            ("v1.2", Some("v1.2.exe")),
            ("plain", Some("plain")),
            ("missing", None),
        ] {
            let found = found.map(path);
            let lower = |path: PathBuf| path.to_str().unwrap().to_lowercase();
            assert_eq!(
                find_program(path(name).to_str().unwrap()).map(lower),
                found.map(lower),
                "{name}"
            );
        }
        assert!(program_exists("cmd") && !program_exists("no-such-program"));
        assert!(find_program("cmd").unwrap().is_absolute());
        // A path is searched for with the extensions, too.
        assert!(candidates(r"C:\x\drain").iter().any(|path| {
            path.to_str()
                .unwrap()
                .eq_ignore_ascii_case(r"C:\x\drain.cmd")
        }));
        let first = candidates("drain.cmd").remove(0);
        assert!(
            first.is_absolute() && first.ends_with("drain.cmd"),
            "{first:?}"
        );
        std::fs::remove_dir_all(folder).unwrap();
    }
}
