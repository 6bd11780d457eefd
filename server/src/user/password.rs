//! Passwords from people and from scripts.

use std::io::BufRead;

use rookery_hub::Settings;
use rookery_jid::Jid;
use rookery_operations::password;

use crate::arguments::{PasswordFrom, PasswordLength};
use crate::config::ServerConfig;
use crate::failure::CommandFailure;
use crate::logins::LoginSources;
use crate::settings;

/// The rule for new passwords, unless the operator has decided against it.
pub struct PasswordRule {
    settings: Option<Settings>,
}

impl PasswordRule {
    /// Returns the rule of a configuration.
    pub fn new(config: &ServerConfig, length: PasswordLength) -> PasswordRule {
        let table = rookery_modules::table(&rookery_modules::Shared::default());
        let settings = || settings::settings(config, &table, &LoginSources::default());
        PasswordRule { settings: (!length.allow_short).then(settings) }
    }

    /// Returns why an account can't have this password; `None` if it can.
    pub fn refuses(&self, jid: &Jid, password: &str) -> Option<String> {
        let short = password::long_enough(self.settings.as_ref()?, jid.domain(), password).err()?;
        Some(format!("{short}; --allow-short accepts shorter ones"))
    }
}

/// Reads a new password for an account, from the terminal or from standard input.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if there is none, or if it is too short.
pub fn read(from: PasswordFrom, jid: &Jid, config: &ServerConfig) -> Result<String, CommandFailure> {
    let rule = PasswordRule::new(config, from.length);
    let fits = |password: String| match rule.refuses(jid, &password) {
        Some(reason) => Err(CommandFailure::Failed(format!("{jid}: {reason}"))),
        None => Ok(password),
    };
    if from.password_stdin { fits(from_stdin()?) } else { ask(jid, fits) }
}

/// Asks at the terminal, twice, without showing what is typed. A password that `fits` refuses isn't
/// asked for a second time.
fn ask(jid: &Jid, fits: impl Fn(String) -> Result<String, CommandFailure>) -> Result<String, CommandFailure> {
    let prompt = |words: String| {
        rpassword::prompt_password(words).map_err(|error| {
            CommandFailure::Failed(format!(
                "no password can be asked for here ({error}); pipe it in with --password-stdin"
            ))
        })
    };
    let password = fits(prompt(format!("Password for {jid}: "))?)?;
    if prompt("Once more: ".to_owned())? != password {
        return Err(CommandFailure::Failed("the two passwords differ; nothing was changed".to_owned()));
    }
    Ok(password)
}

/// Reads the first line of standard input, without its end.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if it can't be read or isn't UTF-8.
pub fn from_stdin() -> Result<String, CommandFailure> {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.map_err(|error| CommandFailure::Failed(format!("no password on standard input: {error}")))?;
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}
