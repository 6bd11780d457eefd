//! Lists all statements of the store, for the test that makes every engine prepare each of them.
//!
//! A file with statements lists them in its function `list_statements`. Another test reads the
//! sources and finds unlisted ones: SQL text in a function, or a forgotten constant.

use super::dialect::{Dialect, DialectText};

/// A statement's name, and its texts.
pub(crate) type ListedTexts = (&'static str, &'static dyn ListOfTexts);

/// A collection of SQL texts.
pub(crate) trait ListOfTexts {
    /// Returns the statements for an engine.
    fn texts(&self, dialect: Dialect) -> Vec<String>;
}

impl ListOfTexts for &'static str {
    fn texts(&self, _: Dialect) -> Vec<String> {
        vec![(*self).to_owned()]
    }
}

impl ListOfTexts for DialectText {
    fn texts(&self, dialect: Dialect) -> Vec<String> {
        vec![self.on(dialect).to_owned()]
    }
}

/// Lists constants with their names.
macro_rules! listed {
    ($($name:ident),* $(,)?) => { vec![$((stringify!($name), &$name as &'static dyn $crate::sql::listed::ListOfTexts)),*] };
}

pub(crate) use listed;

/// Names the files and lists their statements.
fn files() -> Vec<(&'static str, Vec<ListedTexts>)> {
    vec![
        ("accounts.rs", super::accounts::list_statements()),
        ("archive.rs", super::archive::list_statements()),
        ("archive/expiry.rs", super::archive::expiry::list_statements()),
        #[cfg(any(feature = "postgres", feature = "mysql"))]
        ("archive/months.rs", super::archive::months::list_statements()),
        ("archive/owners.rs", super::archive::owners::list_statements()),
        ("archive/pages.rs", super::archive::pages::list_statements()),
        #[cfg(any(feature = "postgres", feature = "mysql"))]
        ("archive/search.rs", super::archive::search::list_statements()),
        #[cfg(any(feature = "postgres", feature = "mysql"))]
        ("archive/search/fill.rs", super::archive::search::fill::list_statements()),
        ("browsing.rs", super::browsing::list_statements()),
        ("copy/filling.rs", super::copy::filling::list_statements()),
        ("copy/mark.rs", super::copy::mark::list_statements()),
        ("copy.rs", super::copy::list_statements()),
        ("documents.rs", super::documents::list_statements()),
        ("invitations.rs", super::invitations::list_statements()),
        ("meta.rs", super::meta::list_statements()),
        ("migrate.rs", super::migrate::list_statements()),
        #[cfg(any(feature = "postgres", feature = "mysql"))]
        ("opening.rs", super::opening::list_statements()),
        ("presence.rs", super::presence::list_statements()),
        ("pubsub/statements.rs", super::pubsub::statements::list_statements()),
        ("rooms.rs", super::rooms::list_statements()),
        ("rosters.rs", super::rosters::list_statements()),
        ("sizes.rs", super::sizes::list_statements()),
        ("slots.rs", super::slots::list_statements()),
        ("statements.rs", super::statements::list_statements()),
    ]
}

mod tests {
    use super::*;
    use crate::sqlite;
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    #[test]
    fn no_statement_is_left_out() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sql");
        let (mut found, mut found_files) = (BTreeSet::new(), BTreeSet::new());
        for file in sources_in(&sources) {
            let name = file.strip_prefix(&sources).expect("a file in it").display().to_string();
            for statement in statements_in(&std::fs::read_to_string(&file).expect("a source")) {
                found_files.insert(name.clone());
                found.insert(format!("{name}: {statement}"));
            }
        }
        let listed =
            files().into_iter().flat_map(|(file, all)| all.into_iter().map(move |(name, _)| format!("{file}: {name}")));
        let listed: BTreeSet<_> = listed.collect();
        let forgotten: Vec<_> = found.difference(&listed).collect();
        assert!(forgotten.is_empty(), "not in the function `list_statements` of the file: {forgotten:#?}");
        assert!(listed.len() > 150 && found.len() > 150, "{} listed, {} found", listed.len(), found.len());
    }

    #[test]
    fn sqlite_prepares_all() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("rookery.db");
        sqlite::open(&file, &sqlite::SqliteOptions::default()).expect("a database").close();
        let connection = rusqlite::Connection::open(&file).expect("a database");
        prepare_all(Dialect::Sqlite, |text| connection.prepare(text).map(drop).map_err(|error| error.to_string()));
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn postgres_prepares_all() {
        use crate::postgres;
        if rookery_needs::skips("store.postgres") {
            return;
        }
        let cluster = rookery_needs::Postgres::start();
        let database = cluster.database();
        let options = postgres::PostgresOptions::at(postgres::PostgresAddress::parse(&database).expect("an address"));
        postgres::migrate(&postgres::PostgresOptions { trusts_durability: true, ..options }).expect("a schema");
        let runtime = crate::sql::remote::runtime().expect("a runtime");
        runtime.block_on(async {
            let config: tokio_postgres::Config = database.parse().expect("an address");
            let (client, connection) = config.connect(tokio_postgres::NoTls).await.expect("a connection");
            let connection = tokio::spawn(connection);
            let mut refused = Vec::new();
            for (name, text) in texts(Dialect::Postgres) {
                if let Err(error) = client.prepare(&crate::sql::dialect::number_values(&text)).await {
                    refused.push(format!("{name}: {error:?} in {text}"));
                }
            }
            assert!(refused.is_empty(), "{refused:#?}");
            connection.abort();
        });
    }

    #[cfg(feature = "mysql")]
    #[test]
    fn mariadb_prepares_all() {
        use crate::mysql;
        use mysql_async::prelude::Queryable;
        if rookery_needs::skips("store.mariadb") {
            return;
        }
        let server = rookery_needs::Mariadb::start();
        let database = server.database();
        mysql::migrate(&mysql::MysqlOptions::at(mysql::MysqlAddress::parse(&database).expect("an address")))
            .expect("a schema");
        let runtime = crate::sql::remote::runtime().expect("a runtime");
        runtime.block_on(async {
            let options = mysql_async::OptsBuilder::default().socket(Some(server.socket().display().to_string()));
            let options = options.user(Some("rookery")).db_name(database.rsplit('/').next()).prefer_socket(false);
            let mut connection = mysql_async::Conn::new(options).await.expect("a connection");
            let mut refused = Vec::new();
            for (name, text) in texts(Dialect::Mysql) {
                match connection.prep(text.as_str()).await {
                    Ok(statement) => connection.close(statement).await.expect("closed"),
                    Err(error) => refused.push(format!("{name}: {error} in {text}")),
                }
            }
            assert!(refused.is_empty(), "{refused:#?}");
        });
    }

    fn prepare_all(dialect: Dialect, prepare: impl Fn(&str) -> Result<(), String>) {
        let refused = texts(dialect).into_iter().filter_map(|(name, text)| {
            let error = prepare(&text).err()?;
            Some(format!("{name}: {error} in {text}"))
        });
        let refused: Vec<_> = refused.collect();
        assert!(refused.is_empty(), "{refused:#?}");
    }

    /// Returns an engine's texts, with the names of their statements.
    fn texts(dialect: Dialect) -> Vec<(String, String)> {
        let all = files().into_iter().flat_map(|(file, all)| all.into_iter().map(move |one| (file, one)));
        let texts = all.flat_map(|(file, (name, statement))| {
            statement.texts(dialect).into_iter().map(move |text| (format!("{file}: {name}"), text))
        });
        // Only engines that note stretches have a table of them, and archives with months or an
        // index have more tables.
        let has_tables = |text: &str| {
            let optional = ["rookery_months", "archive_messages_gone", "archive_terms", "rookery_search"];
            let is_optional = optional.iter().any(|name| text.contains(name));
            !is_optional && (dialect.notes_stretches() || !text.contains("archive_conversations"))
        };
        let is_ours = |name: &str| {
            dialect != Dialect::Sqlite
                || !["archive/months.rs", "archive/search"].iter().any(|ours| name.starts_with(ours))
        };
        texts.filter(|(name, text)| has_tables(text) && is_ours(name)).collect()
    }

    /// Returns the files of the operations, without the engines' own statements, which run at each
    /// start.
    fn sources_in(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let of = |path: PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            match path.is_dir() {
                true if ["sqlite", "postgres", "mysql", "tests"].contains(&name) => Vec::new(),
                true => sources_in(&path),
                // Statements for other programs' databases depend on the request, and those of
                // copies on the catalogue.
                false
                    if ["tests.rs", "listed.rs", "foreign.rs", "rows.rs", "catalogue.rs", "remote.rs"]
                        .contains(&name) =>
                {
                    Vec::new()
                }
                false => vec![path],
            }
        };
        entries.flat_map(of).collect()
    }

    /// Returns the items of a source that have SQL in them.
    fn statements_in(source: &str) -> BTreeSet<String> {
        let (mut item, mut found) = (String::new(), BTreeSet::new());
        let source = source.split("\nmod tests {").next().unwrap_or_default();
        for line in source.lines() {
            if line.starts_with(|first: char| first.is_ascii_lowercase()) {
                item = item_of(line);
            }
            let is_comment = line.trim_start().starts_with("//");
            if !is_comment && has_sql(line) && !item.starts_with("macro_rules!") {
                found.insert(item.clone());
            }
        }
        found
    }

    /// Returns the name of a constant, or the line that begins another item.
    fn item_of(line: &str) -> String {
        let words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
        let mut words = words.skip_while(|word| ["const", "static"].contains(word)).take(1);
        let name = words.next().and_then(|word| word.strip_suffix(':'));
        name.map_or_else(|| line.to_owned(), str::to_owned)
    }

    /// Returns whether a line begins a statement, or a part of one.
    fn has_sql(line: &str) -> bool {
        let begins = |text: &str| {
            ["SELECT ", "INSERT INTO ", "UPDATE ", "DELETE FROM "].iter().any(|word| text.starts_with(word))
        };
        begins(line.trim_start()) || line.split('"').skip(1).any(begins)
    }

    #[test]
    fn sources_are_read() {
        let source = "/// \"SELECT 1\"\npub(super) const ONE: &str = \"\\\n    SELECT 1\";\nstatic TWO: Rows =\n    Rows::new(\"INSERT INTO a\");\n\
            fn f() {\n    c.query(\"DELETE FROM a\")\n}\n";
        let found: Vec<_> = statements_in(source).into_iter().collect();
        assert_eq!(found, ["ONE", "TWO", "fn f() {"]);
    }
}
