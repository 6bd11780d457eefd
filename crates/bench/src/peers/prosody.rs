//! Debian's Prosody. Accounts and rosters are files of Lua tables, one for each user.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::child::tied_command;
use super::population::{DOMAIN, ITERATIONS, Population, PopulationKeys, SALT, fill_template, keys};
use super::started::{Ports, StartedReady};
use crate::{BenchOutcome, chat};

/// Its executable.
pub(super) const PROGRAM: &str = "/usr/bin/prosody";

/// Writes configuration and accounts into the folder.
///
/// # Errors
/// The error of the system.
pub(super) fn prepare(folder: &Path, ports: Ports, population: Population) -> BenchOutcome<StartedReady> {
    let config = folder.join("prosody.cfg.lua");
    let (port, web, iterations) = (ports.streams.to_string(), ports.web.to_string(), ITERATIONS.to_string());
    let shown = folder.to_string_lossy();
    let values = [("DOMAIN", DOMAIN), ("PORT", &port), ("WEB", &web), ("FOLDER", &shown), ("ITERATIONS", &iterations)];
    fs::write(&config, fill_template(CONFIG, &values))?;
    let data = folder.join("data").join(encode(DOMAIN));
    fs::create_dir_all(data.join("accounts"))?;
    fs::create_dir_all(data.join("roster"))?;
    let account = account(&keys()?);
    for number in 0..population.accounts {
        fs::write(data.join("accounts").join(chat::local(number) + ".dat"), &account)?;
    }
    for number in 0..population.friends {
        fs::write(data.join("roster").join(chat::local(number) + ".dat"), roster(number, population.friends))?;
    }
    let mut command = tied_command(PROGRAM);
    command.arg("-F").arg("--config").arg(&config).current_dir(folder);
    Ok(StartedReady { command, file: None })
}

fn account(keys: &PopulationKeys) -> String {
    format!(
        "return {{\n\t[\"iteration_count\"] = {ITERATIONS};\n\t[\"salt\"] = \"{}\";\n\
         \t[\"stored_key\"] = \"{}\";\n\t[\"server_key\"] = \"{}\";\n}};\n",
        String::from_utf8_lossy(SALT),
        keys.stored_hex,
        keys.server_hex
    )
}

fn roster(owner: usize, friends: usize) -> String {
    let mut text = String::from("return {\n\t[false] = { [\"version\"] = 1; [\"pending\"] = {}; };\n");
    for contact in (0..friends).filter(|contact| *contact != owner) {
        let jid = chat::account(contact, DOMAIN);
        // Writing to a string does not fail.
        let _ = writeln!(text, "\t[\"{jid}\"] = {{ [\"subscription\"] = \"both\"; [\"groups\"] = {{}}; }};");
    }
    text + "};\n"
}

/// Encodes a name in Prosody's way for folders and files: all but letters and digits by their
/// hexadecimal code.
fn encode(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            byte => {
                let _ = write!(text, "%{byte:02x}");
            }
        }
    }
    text
}

const CONFIG: &str = include_str!("../../peers/prosody.cfg.lua");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_as_prosody_names_them() {
        assert_eq!(encode("chat.example-1.org"), "chat%2eexample%2d1%2eorg");
    }

    #[test]
    fn a_roster_holds_the_others() {
        let text = roster(1, 3);
        assert_eq!(text.matches("\"both\"").count(), 2);
        assert!(text.contains("[\"user0000000@localhost\"]") && !text.contains("user0000001@"));
    }
}
