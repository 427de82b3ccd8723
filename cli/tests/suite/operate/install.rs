//! `completions` and `man`.

use crate::support::run;

/// The subcommands that the help lists.
fn subcommands() -> Vec<String> {
    let help = run(&["--help"]).with_code(0).stdout;
    let list = help
        .split_once("\nCommands:\n")
        .expect("a list of commands")
        .1;
    let rows = list.lines().take_while(|line| !line.is_empty());
    let names = rows.filter_map(|line| {
        line.strip_prefix("  ")?
            .split(' ')
            .next()
            .filter(|name| !name.is_empty())
    });
    names.map(str::to_owned).collect()
}

/// The long options that a help describes.
fn options(help: &str) -> Vec<String> {
    let first_words = help.lines().filter_map(|line| {
        line.trim_start()
            .split([',', ' ', '='])
            .find(|word| !word.is_empty())
    });
    let of_short = help.lines().filter_map(|line| {
        line.trim_start()
            .split_once(", --")
            .map(|(_, rest)| format!("--{rest}"))
    });
    let of_short = of_short.map(|rest| {
        rest.split([' ', '<'])
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    });
    first_words
        .filter(|word| word.starts_with("--"))
        .map(str::to_owned)
        .chain(of_short)
        .collect()
}

#[test]
fn each_shell_completes_all_commands_and_options() {
    let commands = subcommands();
    assert!(commands.len() >= 10, "{commands:?}");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&["completions", shell]).with_code(0);
        assert_eq!(script.stderr, "");
        for name in &commands {
            assert!(script.stdout.contains(name.as_str()), "{shell}: {name}");
        }
        for option in [
            "policy",
            "until-idle",
            "vm-name",
            "timeout",
            "show",
            "quiet",
        ] {
            assert!(script.stdout.contains(option), "{shell}: {option}");
        }
    }
    let refused = run(&["completions", "csh"]).with_code(2);
    assert!(
        refused
            .stderr
            .contains("bash, elvish, fish, powershell, zsh"),
        "{}",
        refused.stderr
    );
}

#[test]
#[cfg(target_os = "linux")]
fn bash_completes_a_command_and_an_option() {
    let script = run(&["completions", "bash"]).with_code(0).stdout;
    for (words, expected) in [
        ("scheduled-events wat", "watch"),
        ("scheduled-events watch --until", "--until-idle"),
    ] {
        let ask = "COMP_WORDS=($WORDS); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); \
                   registered=$(complete -p scheduled-events); function=${registered#* -F }; \
                   ${function%% *} scheduled-events ${COMP_WORDS[COMP_CWORD]} ${COMP_WORDS[COMP_CWORD - 1]}; \
                   echo \"${COMPREPLY[@]}\"";
        let mut bash = crate::support::launch("bash");
        bash.args(["--norc", "-c", &format!("{script}\n{ask}")])
            .env("WORDS", words);
        let output = crate::support::wait::output(&mut bash);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout).trim(),
            expected,
            "{words}: {output:?}"
        );
    }
}

#[test]
fn the_manual_has_a_page_for_each_command_with_all_its_options() {
    let program = run(&["man"]).with_code(0).stdout;
    assert!(
        program.starts_with(".ie") && program.contains(".TH scheduled-events 1"),
        "{program}"
    );
    assert!(
        program.contains("Exit codes:") && program.contains("wait: the time is over"),
        "{program}"
    );
    for name in subcommands() {
        assert!(
            program.contains(&format!(
                "scheduled\\-events\\-{}(1)",
                name.replace('-', "\\-")
            )),
            "{name}"
        );
        let page = run(&["man", &name]).with_code(0).stdout;
        assert!(
            page.contains(&format!(".TH scheduled-events-{name} 1")),
            "{page}"
        );
        let options = options(&run(&["help", &name]).with_code(0).stdout);
        assert!(
            name == "help" || options.iter().any(|option| option == "--help"),
            "{name}: {options:?}"
        );
        for option in options {
            assert!(
                page.contains(&option.replace('-', "\\-")),
                "{name} {option}:\n{page}"
            );
        }
    }
    let refused = run(&["man", "wathc"]).with_code(2);
    assert_eq!(
        refused.stderr,
        "error: there is no command \"wathc\"; did you mean `watch`?\n"
    );
}
