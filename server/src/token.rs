//! `rookery token`: tokens for the HTTP API, and their scopes.

use rookery_base::date;
use rookery_operations::Refusal;
use rookery_operations::api_tokens::{self, Scope};
use rookery_store::wait;
use serde_json::json;

use crate::arguments::{ShownAs, TokenCommand};
use crate::clock;
use crate::columns;
use crate::control::note;
use crate::database::OpenedDatabase;
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;
use crate::welcome::say;

/// Runs one command.
///
/// # Errors
///
/// [`CommandFailure::Config`] if the configuration is wrong, [`CommandFailure::Failed`] if there is
/// no such scope, domain or token, or the store failed.
pub fn run(source: &ConfigSource, command: TokenCommand) -> Result<(), CommandFailure> {
    let config = source.read()?;
    let database = OpenedDatabase::open_patiently(&source.folder, &config.store)?;
    match command {
        TokenCommand::Add { name, scopes, domain, shown } => {
            if let Some(domain) = domain.as_deref().filter(|domain| config.domain(domain).is_none()) {
                return Err(CommandFailure::Failed(format!("{domain} isn't a domain of this server")));
            }
            let scopes = scopes.iter().map(|name| scope(name)).collect::<Result<_, _>>()?;
            let of = domain.clone().unwrap_or_default();
            let made = wait(api_tokens::add(&database.stores, &name, scopes, domain, clock::now() * 1000))?;
            let secret = made.map_err(|refusal: Refusal| CommandFailure::Failed(refusal.to_string()))?;
            note(source, &database.stores, &of, &format!("made a token: {name}"));
            match shown.json {
                true => columns::objects([json!({ "name": name, "secret": secret })])?,
                false => say(&format!("{secret}\n")),
            }
        }
        TokenCommand::List { shown: ShownAs { json: true } } => {
            let tokens = wait(api_tokens::list(&database.stores))?;
            columns::objects(tokens.into_iter().map(|token| {
                let scopes: Vec<_> = token.scopes.iter().map(|scope| scope.name()).collect();
                let made = date::timestamp(token.made_ms);
                json!({ "name": token.name, "made": made, "domain": token.domain, "scopes": scopes })
            }))?;
        }
        TokenCommand::List { .. } => {
            for token in wait(api_tokens::list(&database.stores))? {
                let scopes: Vec<_> = token.scopes.iter().map(|scope| scope.name()).collect();
                let made = clock::date(i64::try_from(token.made_ms / 1000).unwrap_or(i64::MAX));
                let domain = token.domain.as_deref().unwrap_or("all domains");
                say(&format!("{}\tmade {made}\t{domain}\t{}\n", token.name, scopes.join(",")));
            }
        }
        TokenCommand::Revoke { name } => {
            if !wait(api_tokens::revoke(&database.stores, &name))? {
                return Err(CommandFailure::Failed(format!(
                    "there is no token {name}; `rookery token list` shows them all"
                )));
            }
            note(source, &database.stores, "", &format!("revoked a token: {name}"));
            say(&format!("revoked {name}\n"));
        }
    }
    Ok(())
}

fn scope(name: &str) -> Result<Scope, CommandFailure> {
    let known: Vec<_> = Scope::ALL.iter().map(|scope| scope.name()).collect();
    Scope::from_name(name).ok_or_else(|| {
        CommandFailure::Failed(format!("there is no scope {name:?}; the scopes are: {}", known.join(", ")))
    })
}
