//! Completions and manual pages, which are generated from the table of commands.

use std::fs;
use std::process::Command;

use super::rig::CliRig;

/// Completes a line in bash, and returns the suggestions.
#[track_caller]
fn complete(rig: &CliRig, words: &[&str]) -> Vec<String> {
    let (last, before) = (words.last().expect("a word"), words.get(words.len() - 2).expect("two words"));
    let line = words.join("' '");
    let complete = format!(
        ". ./rookery.bash\nCOMP_WORDS=('{line}')\nCOMP_CWORD={}\n_rookery rookery '{last}' '{before}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.len() - 1
    );
    let output =
        Command::new("bash").args(["--norc", "-u", "-c", &complete]).current_dir(rig.path(".")).output().expect("bash");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && words.is_empty(), "{words}");
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_and_options() {
    let rig = CliRig::empty();
    let script = rig.run(&["completions", "bash"]).fine();
    rig.write("rookery.bash", &script);
    assert_eq!(complete(&rig, &["rookery", "stat"]), ["status"]);
    assert_eq!(complete(&rig, &["rookery", "user", "pas"]), ["passwd"]);
    assert_eq!(complete(&rig, &["rookery", "user", "show", "--js"]), ["--json"]);
    // It is registered for the command.
    assert!(script.contains("complete -F _rookery") && script.trim_end().ends_with("rookery\nfi"), "{script}");
}

#[test]
fn other_shells_have_completions() {
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let script = CliRig::empty().run(&["completions", shell]).fine();
        assert!(script.contains("reset-link"), "{shell}: {script}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let rig = CliRig::empty();
    rig.run(&["manual", "pages"]).fine();
    let page = |name: &str| fs::read_to_string(rig.path(&format!("pages/{name}.1"))).unwrap_or_default();
    for name in ["rookery-user", "rookery-user-add", "rookery-check", "rookery-bench-run-chat"] {
        assert!(page(name).contains(&format!(".TH {} 1", name.to_uppercase())), "{name}: {}", page(name));
    }
    assert!(page("rookery-check").contains("rookery check \\-\\-dns"), "{}", page("rookery-check"));
    // This page is written by hand.
    assert!(!rig.path("pages/rookery.1").exists());
    assert!(!rig.path("pages/rookery-completions.1").exists());
}

/// The reader of a command's help looks for its own options.
#[test]
fn the_options_of_all_commands_stand_last() {
    let rig = CliRig::empty();
    for command in [&["user", "add"][..], &["bench", "run", "chat"], &["dpm"], &["check"], &[]] {
        let help = rig.run(&[command, &["-h"]].concat()).fine();
        let parts = help.split_once("\nWhere the server is:\n");
        let (own, place) = parts.unwrap_or_else(|| panic!("{command:?}: {help}"));
        assert!(own.contains("--help") && !own.contains("--data-dir"), "{command:?}: {help}");
        assert!(place.contains("--config <FILE>") && place.contains("--data-dir <DIR>"), "{command:?}: {help}");
    }
}
