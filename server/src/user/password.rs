//! Passwords from people and from scripts.

use std::io::BufRead;

use rookery_jid::Jid;

use crate::failure::CommandFailure;

/// Asks at the terminal, twice, without echo.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if the two differ or there is no terminal.
pub fn ask(jid: &Jid) -> Result<String, CommandFailure> {
    let prompt = |words: String| {
        rpassword::prompt_password(words).map_err(|error| {
            CommandFailure::Failed(format!(
                "no password can be asked for here ({error}); pipe it in with --password-stdin"
            ))
        })
    };
    let password = prompt(format!("Password for {jid}: "))?;
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
