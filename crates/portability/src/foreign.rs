//! Databases of other servers, imported once: their content is presented as a file of XEP-0227, and
//! imported as such a file is.
//!
//! The text of the file is generated while it is read, an account or a page of an archive at a
//! time, so that memory doesn't depend on the size of the database.
//!
//! # Layout
//!
//! `ejabberd` reads the tables of ejabberd and of MongooseIM, which have a common origin; `prosody`
//! reads those of Prosody, with `json`. `credentials` reads the forms in which they keep password
//! keys. `accounts` is the interface that each of them provides, `elements` the conversion, and
//! `pages` the generated file.

mod accounts;
mod credentials;
mod ejabberd;
mod elements;
mod json;
mod pages;
mod prosody;

use std::rc::Rc;

use rookery_store::sql::foreign::Foreign;

use super::input::InputWhose;
use accounts::ForeignAccounts;
pub(crate) use accounts::ForeignFault;
use pages::Pages;

/// The schemas of other servers' databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schema {
    /// The schema of ejabberd: the older one, or the one with `server_host`.
    Ejabberd,
    /// The schema of MongooseIM.
    MongooseIm,
    /// The schema of Prosody's `mod_storage_sql`.
    Prosody,
}

/// A database of another server.
#[derive(Debug)]
pub struct OtherDatabase {
    /// The name of the database in reports.
    pub name: String,
    /// The open connection to the database, from which the import only reads.
    pub foreign: Foreign,
    /// The schema, on which the names and the meaning of tables depend.
    pub schema: Schema,
    /// The domain to import, or `None` for all domains. If the database has no domains, its
    /// accounts are imported into this one.
    pub domain: Option<String>,
}

impl OtherDatabase {
    /// Returns the database as the text of a file. While it is read, `whose` names the current
    /// account.
    pub(crate) fn into_pages(self, whose: Rc<InputWhose>) -> Result<Pages, ForeignFault> {
        let mut foreign = self.foreign;
        let mut accounts: Box<dyn ForeignAccounts> = match self.schema {
            Schema::Ejabberd => Box::new(ejabberd::Tables::of(foreign, false)?),
            Schema::MongooseIm => Box::new(ejabberd::Tables::of(foreign, true)?),
            Schema::Prosody => {
                accounts::has_table(&mut foreign, "prosody", "Prosody")?;
                Box::new(prosody::ProsodyTables::new(foreign))
            }
        };
        let domains = match (accounts.domains()?, self.domain) {
            (Some(_) | None, Some(domain)) => vec![domain],
            (Some(domains), None) => domains,
            (None, None) => {
                let what = "this database has only one domain and doesn't say which: name it with --domain";
                return Err(ForeignFault(what.to_owned()));
            }
        };
        Ok(Pages::new(accounts, domains, whose))
    }
}
