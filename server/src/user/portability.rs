//! `rookery user export`, and `rookery user import` of an export (XEP-0227), with their messages
//! to operators.

use std::io;
use std::path::Path;

use rookery_base::Set;
use rookery_jid::Jid;
use rookery_portability::export::{ExportError, to_new_file, to_stream};
use rookery_portability::foreign::{self, Schema};
use rookery_portability::import::{ImportCounts, ImportError, ImportTerms, Importer, from_database, from_reader};
use rookery_store::sql::foreign::Foreign;
use rookery_store::wait;

use super::content::{Content, STANDARD};
use super::password::PasswordRule;
use super::{named_accounts, no_account};
use crate::arguments::{ForeignDatabase, ForeignSchema, ShownAs};
use crate::clock;
use crate::columns::count_of;
use crate::config::ServerConfig;
use crate::control::note;
use crate::database::{self, OpenedDatabase};
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;
use crate::welcome::say;

/// Exports an account or, given a domain, all of its accounts. It writes to a new file or, with
/// `-`, to standard output. An existing file is left alone.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if there is no such account, or if the file or the store failed.
pub fn export(what: &Jid, file: &Path, source: &ConfigSource, database: &OpenedDatabase) -> Result<(), CommandFailure> {
    if what.local().is_some() && !wait(database.stores.accounts.exists(what.as_ref()))? {
        return Err(no_account(what));
    }
    let mut damaged = |damaged: &str| eprintln!("{damaged}");
    let is_stream = file == Path::new(STANDARD);
    let exported = match is_stream {
        true => to_stream(what, io::stdout().lock(), &database.stores, &mut damaged),
        false => to_new_file(what, file, &database.stores, &mut damaged),
    };
    let accounts = exported.map_err(|error| match error {
        ExportError::File(error) => CommandFailure::file(file, &error),
        ExportError::Store(error) => error.into(),
    })?;
    let act = match what.local() {
        Some(_) => format!("exported an account: {what}"),
        None => format!("exported {} of {what}", count_of(accounts as u64, "account")),
    };
    note(source, &database.stores, what.domain(), &act);
    match is_stream {
        true => eprintln!("exported {}", count_of(accounts as u64, "account")),
        false => say(&format!("exported {} to {}\n", count_of(accounts as u64, "account"), file.display())),
    }
    Ok(())
}

/// Imports a file. An existing account is left alone.
///
/// # Errors
///
/// [`CommandFailure::Told`] if something was left out, [`CommandFailure::Failed`] if the file can't
/// be read to its end or the store failed; what was imported before stays.
pub fn import(
    content: Content,
    rule: &PasswordRule,
    shown: ShownAs,
    config: &ServerConfig,
    source: &ConfigSource,
    database: &OpenedDatabase,
) -> Result<(), CommandFailure> {
    let path = content.path.clone();
    run((rule, config, source, database), shown, &path.display().to_string(), |terms, operator| {
        from_reader(&path, content.read(), terms, &database.stores, operator)
    })
}

/// Imports the database of another server. An existing account is left alone.
///
/// # Errors
///
/// As [`import`].
pub fn import_database(
    from: &ForeignDatabase,
    rule: &PasswordRule,
    shown: ShownAs,
    config: &ServerConfig,
    source: &ConfigSource,
    database: &OpenedDatabase,
) -> Result<(), CommandFailure> {
    let text = from.from.as_deref().unwrap_or_default();
    let address = database::read_address(text, &config.store)?;
    let schema = match from.schema {
        Some(ForeignSchema::Mongooseim) => Schema::MongooseIm,
        Some(ForeignSchema::Prosody) => Schema::Prosody,
        Some(ForeignSchema::Ejabberd) | None => Schema::Ejabberd,
    };
    // This database isn't the server's own: trying again is up to the operator, not to a
    // supervisor.
    let foreign = Foreign::open(&address).map_err(|error| CommandFailure::Failed(error.to_string()))?;
    let foreign = foreign::OtherDatabase { name: address.to_string(), foreign, schema, domain: from.domain.clone() };
    run((rule, config, source, database), shown, &address.to_string(), |terms, operator| {
        from_database(foreign, terms, &database.stores, operator)
    })
}

fn run(
    (rule, config, source, database): (&PasswordRule, &ServerConfig, &ConfigSource, &OpenedDatabase),
    shown: ShownAs,
    from: &str,
    walk: impl FnOnce(ImportTerms, &mut Operator<'_>) -> (ImportCounts, Result<(), ImportError>),
) -> Result<(), CommandFailure> {
    let mut operator = Operator { config, rule, named: named_accounts(config, database)?, told: Vec::new() };
    let terms = ImportTerms { scram_iterations: config.login.scram_iterations, unix_ms: clock::now() * 1000 };
    let (counts, walked) = walk(terms, &mut operator);
    database.look_over();
    let (accounts, left_out) = (count_of(counts.accounts, "account"), count_of(counts.left_out, "thing"));
    if counts.accounts > 0 {
        note(source, &database.stores, "", &format!("imported {accounts} from {from}"));
    }
    let words = format!("{accounts} imported, {left_out} left out\n");
    super::tell_import(shown, counts.accounts, counts.left_out, &words, &operator.told)?;
    walked.map_err(|error| match error {
        ImportError::File(what) => CommandFailure::Failed(what),
        ImportError::Store(error) => error.into(),
    })?;
    if counts.left_out > 0 { Err(CommandFailure::Told) } else { Ok(()) }
}

/// The operator at the command line.
struct Operator<'a> {
    config: &'a ServerConfig,
    rule: &'a PasswordRule,
    /// Accounts that have rights because of their names, and those of them that were imported.
    named: Set<Jid>,
    told: Vec<Jid>,
}

impl Importer for Operator<'_> {
    fn serves(&self, domain: &str) -> bool {
        self.config.domain(domain).is_some()
    }

    fn refuses_password(&self, account: &Jid, password: &str) -> Option<String> {
        self.rule.refuses(account, password)
    }

    fn imported(&mut self, account: &Jid) {
        self.told.extend(self.named.get(account).cloned());
    }

    fn left_out(&mut self, what: &str) {
        eprintln!("{what}");
    }
}
