//! Opens databases of engines in other processes, in the same way for each of them.

use super::SqlStore;
use super::archive::months::{self as division, Months};
use super::archive::search::fill::{self, Searches};
use super::checking::Checked;
use super::copy::copying::Copying;
use super::fence::{Fence, FenceRows, FencingConnection};
use super::finding::{self, Finding, Severity, clock, connections, distance, partitions};
use super::hosts::HostFound;
use super::migrate::{self, IndexPlan, MigrationPlan, Migrations};
use super::queue::{Patience, QueueBounds};
use super::store::StoreConnections;
use super::transactions::Transactions;
use crate::StoreError;
use crate::archive::TermsOf;
use crate::error::EngineWords;
use crate::fencing::ProcessWriter;
use std::sync::Arc;
use std::time::Duration;

/// A connection, with the parts of opening that differ between engines.
pub(crate) trait Openable: Checked + FencingConnection + Searches + Copying + Send + Sized + 'static {
    /// The place of a database.
    type Target: Send + Sync + 'static;

    /// Connects, with a time limit for answers.
    fn connect(target: &Arc<Self::Target>, limit: Duration) -> Result<Self, StoreError>;

    /// Sets the time limit for answers from now on.
    fn allow(&mut self, limit: Duration) -> Result<(), StoreError>;

    /// Tries each of the database's hosts, if it has several.
    fn hosts(&self) -> Vec<HostFound>;
}

/// Defines the functions that open an engine's databases, from its driver, its target and its
/// options.
macro_rules! functions {
    ($Driver:ident, $Target:ident, $Options:ident) => {
        /// Opens a database and updates its schema.
        ///
        /// # Errors
        ///
        /// [`StoreError::Lost`](crate::StoreError::Lost) if no host can be reached,
        /// [`Unfit`](crate::StoreError::Unfit) if the database can't keep the promises of this
        /// store or is of another kind, [`TooNew`](crate::StoreError::TooNew) and
        /// [`Foreign`](crate::StoreError::Foreign) if it isn't for this server,
        /// [`OldSchema`](crate::StoreError::OldSchema) if its schema may not be changed, otherwise
        /// the database's error.
        pub fn open(options: &$Options) -> Result<crate::sql::SqlStore, crate::StoreError> {
            crate::sql::opening::open::<$Driver>($Target::of(options), options.wanted_opening())
        }

        /// Returns the steps of the schema that a database has not gone through. Changes nothing.
        ///
        /// # Errors
        ///
        /// Those of [`open`].
        pub fn plan(options: &$Options) -> Result<crate::sql::MigrationPlan, crate::StoreError> {
            crate::sql::opening::plan::<$Driver>(&$Target::of(options), options.wanted_opening())
        }

        /// Updates the schema of a database, and divides its archives into months if they should
        /// be. Returns the number of steps that were run.
        ///
        /// # Errors
        ///
        /// Those of [`open`].
        pub fn migrate(options: &$Options) -> Result<usize, crate::StoreError> {
            crate::sql::opening::migrate::<$Driver>(&$Target::of(options), options.wanted_opening())
        }

        /// Checks a database that may be in use, without changing it: whether it can be reached and
        /// is fit, its schema, its settings, and its distance.
        pub fn check(options: &$Options) -> Vec<crate::sql::Finding> {
            crate::sql::opening::check::<$Driver>(&$Target::of(options), options.wanted_opening())
        }

        /// Connects to copy from a database.
        pub(super) fn source(
            options: &$Options,
        ) -> Result<Box<dyn crate::sql::copy::copying::Copying + Send>, crate::StoreError> {
            crate::sql::opening::source::<$Driver>(&$Target::of(options))
        }

        /// Connects to copy to a database.
        pub(super) fn destination(
            options: &$Options,
        ) -> Result<Box<dyn crate::sql::copy::copying::Copying + Send>, crate::StoreError> {
            crate::sql::opening::destination::<$Driver>(&$Target::of(options), options.wanted_opening())
        }

        /// Connects to a database of another program, to read from it.
        pub(super) fn foreign(
            options: &$Options,
        ) -> Result<Box<dyn crate::sql::transactions::Transactions + Send>, crate::StoreError> {
            crate::sql::opening::foreign::<$Driver>(&$Target::of(options))
        }

        impl $Options {
            fn wanted_opening(&self) -> crate::sql::opening::WantedOpening {
                let $Options { connections, trusts_durability, months, terms_of, bounds, patience, migrations, .. } =
                    *self;
                crate::sql::opening::WantedOpening {
                    connections,
                    trusts_durability,
                    months,
                    terms_of,
                    bounds,
                    patience,
                    migrations,
                }
            }
        }

        impl $Target {
            fn of(options: &$Options) -> std::sync::Arc<$Target> {
                std::sync::Arc::new($Target::new(options))
            }
        }
    };
}

pub(crate) use functions;

/// The options for opening a database, apart from its location.
#[derive(Clone, Copy)]
pub(crate) struct WantedOpening {
    pub(crate) connections: usize,
    pub(crate) trusts_durability: bool,
    pub(crate) months: bool,
    pub(crate) terms_of: Option<TermsOf>,
    pub(crate) bounds: QueueBounds,
    pub(crate) patience: Patience,
    pub(crate) migrations: Migrations,
}

/// Opens a database and updates its schema.
pub(crate) fn open<E: Openable>(target: Arc<E::Target>, wanted: WantedOpening) -> Result<SqlStore, StoreError> {
    let mut first: E = fit(&target, wanted)?;
    migrate::prepare(&mut first, wanted.migrations)?;
    let answer = wanted.patience.answer;
    first.allow(answer)?;
    first.forget_ended()?;
    let mut keeper = E::connect(&target, LONG_ANSWER)?;
    match wanted.migrations {
        Migrations::Auto => division::prepare(&mut keeper, wanted.months)?,
        Migrations::Never => division::refuse_untidy(&mut keeper)?,
    }
    fill::open(&mut keeper, wanted.terms_of, wanted.migrations)?;
    let failed = keeper.engine(String::new());
    let fence = keeper.state().fence();
    // From here on, others may manage the archives.
    drop(keeper);
    let others = (1..wanted.connections).map(|_| E::connect(&target, answer));
    let owners = std::iter::once(Ok(first)).chain(others).collect::<Result<Vec<_>, _>>()?;
    let archive = Some(E::connect(&target, answer)?);
    let reads = Some(E::connect(&target, LONG_ANSWER)?);
    let connections = owners.iter().chain(&archive).chain(&reads);
    let lanes = connections.map(|connection| connection.state().lane).collect();
    let fences = Arc::new(Fenced::<E> { target: target.clone(), fence, lanes, limit: answer });
    let started = SqlStore::start_remote(StoreConnections { owners, archive, reads }, wanted.bounds, wanted.patience);
    let store = started.map_err(|error| StoreError::Other(EngineWords { message: error.to_string(), ..failed }))?;
    Ok(store.with_fences(fences).with_months(Arc::new(move || look_after::<E>(&target)), wanted.migrations))
}

/// Connects to manage the months of archives.
fn look_after<E: Openable>(target: &Arc<E::Target>) -> Result<Box<dyn Months>, StoreError> {
    Ok(Box::new(E::connect(target, LONG_ANSWER)?))
}

/// Connects, and checks the database before anything is written, since it may not be ours.
fn fit<E: Openable>(target: &Arc<E::Target>, wanted: WantedOpening) -> Result<E, StoreError> {
    let mut driver = E::connect(target, ANSWER)?;
    migrate::version(&mut driver)?;
    match driver.unfit(wanted.trusts_durability)?.into_iter().next() {
        Some(reason) => Err(StoreError::Unfit(driver.engine(reason))),
        None => Ok(driver),
    }
}

/// Returns the steps of the schema that a database has not gone through. Changes nothing.
pub(crate) fn plan<E: Openable>(target: &Arc<E::Target>, wanted: WantedOpening) -> Result<MigrationPlan, StoreError> {
    let mut driver = E::connect(target, ANSWER)?;
    let plan = migrate::plan(&mut driver)?;
    let is_due = wanted.months && driver.parts()?.is_empty();
    let division = is_due.then(|| E::division(division::first_end()));
    let index = match (wanted.terms_of.is_some(), driver.has_index()?) {
        (true, false) => IndexPlan::Make(E::statements(false)),
        (true, true) if fill::is_due(&mut driver)? => IndexPlan::Fill,
        (false, true) => IndexPlan::Remove,
        _ => IndexPlan::Nothing,
    };
    Ok(MigrationPlan { division, index, ..plan })
}

/// Updates the schema of a database, and divides its archives into months if they should be.
/// Returns the number of steps that were run.
pub(crate) fn migrate<E: Openable>(target: &Arc<E::Target>, wanted: WantedOpening) -> Result<usize, StoreError> {
    let mut driver: E = fit(target, wanted)?;
    let steps = migrate::migrate(&mut driver)?;
    if wanted.months || !driver.parts()?.is_empty() {
        division::divide(&mut driver)?;
    }
    fill::migrate(&mut driver, wanted.terms_of)?;
    Ok(steps)
}

/// Checks a database that may be in use, without changing it: whether it can be reached and is fit,
/// its schema, its settings, and its distance.
pub(crate) fn check<E: Openable>(target: &Arc<E::Target>, wanted: WantedOpening) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = look::<E>(target, wanted, &mut findings) {
        findings.push(finding::for_error(&error));
    }
    findings
}

/// Adds findings, up to the first error that makes further checks pointless.
fn look<E: Openable>(
    target: &Arc<E::Target>,
    wanted: WantedOpening,
    findings: &mut Vec<Finding>,
) -> Result<(), StoreError> {
    let mut note = |severity, text| findings.push(Finding { severity, text });
    let mut driver = E::connect(target, CHECK_ANSWER)?;
    note(Severity::Note, format!("{} at {}", driver.product()?, driver.place()));
    for (name, outcome) in driver.hosts() {
        let Finding { severity, text } = finding::host(&name, &outcome);
        note(severity, text);
    }
    if driver.is_read_only() {
        note(Severity::Fault, format!("no host can be written to: {}", E::READ_ONLY));
    }
    for reason in driver.unfit(wanted.trusts_durability)? {
        note(Severity::Fault, reason);
    }
    note(Severity::Note, driver.settings()?.join(", "));
    if let Some(ill_set) = driver.ill_set()? {
        note(Severity::Fault, ill_set);
    }
    let most = driver.setting("max_connections")?.parse().unwrap_or_default();
    let version = migrate::version(&mut driver)?;
    // An older schema says nothing of nodes.
    let nodes = if version < migrate::last_version(&driver) { 0 } else { driver.count_nodes()? };
    findings.push(connections(most, wanted.connections, nodes));
    findings.extend(clock(driver.now_ms()?));
    findings.push(finding::schema(version, migrate::last_version(&driver)));
    if version > 0 {
        let accounts = driver.column(COUNT_ACCOUNTS)?.concat();
        findings.push(Finding { severity: Severity::Note, text: format!("accounts: {accounts}") });
        findings.extend(partitions(driver.parts()?.len(), wanted.months));
    }
    findings.push(distance(wanted.connections, || driver.ping())?);
    Ok(())
}

/// Connects to copy from a database.
pub(crate) fn source<E: Openable>(target: &Arc<E::Target>) -> Result<Box<dyn Copying + Send>, StoreError> {
    let mut driver = E::connect(target, COPY_ANSWER)?;
    migrate::refuse_newer(&mut driver)?;
    migrate::prepare(&mut driver, Migrations::Never)?;
    Ok(Box::new(driver))
}

/// Connects to copy to a database.
pub(crate) fn destination<E: Openable>(
    target: &Arc<E::Target>,
    wanted: WantedOpening,
) -> Result<Box<dyn Copying + Send>, StoreError> {
    let mut driver: E = fit(target, wanted)?;
    migrate::refuse_newer(&mut driver)?;
    migrate::migrate(&mut driver)?;
    if wanted.months {
        division::prepare(&mut *look_after::<E>(target)?, true)?;
    }
    // Copied rows aren't indexed: the index is created once all of them are there.
    if driver.has_index()? {
        driver.drop_index()?;
    }
    driver.allow(COPY_ANSWER)?;
    Ok(Box::new(driver))
}

/// Connects to a database of another program, to read from it.
pub(crate) fn foreign<E: Openable>(target: &Arc<E::Target>) -> Result<Box<dyn Transactions + Send>, StoreError> {
    Ok(Box::new(E::connect(target, LONG_ANSWER)?))
}

/// A database whose processes can be fenced off.
struct Fenced<E: Openable> {
    target: Arc<E::Target>,
    fence: Arc<Fence>,
    /// The keys of the store's connections.
    lanes: Vec<i64>,
    /// The time limit for an answer.
    limit: Duration,
}

impl<E: Openable> FenceRows for Fenced<E> {
    fn enlist(&self, own: ProcessWriter) -> Result<(), StoreError> {
        E::connect(&self.target, self.limit)?.enlist(own, &self.lanes)?;
        self.fence.enlist(&self.lanes);
        Ok(())
    }

    fn fence(&self, other: ProcessWriter) -> Result<bool, StoreError> {
        let own = self.fence.own();
        for _ in 1..ATTEMPTS {
            // A transaction that is still open ends with the connection.
            match E::connect(&self.target, self.limit)?.fence(other, own) {
                Err(error) if error.is_conflict() => {}
                outcome => return outcome.inspect_err(|error| self.note(error)),
            }
        }
        E::connect(&self.target, self.limit)?.fence(other, own).inspect_err(|error| self.note(error))
    }

    fn when_fenced(&self, tell: Box<dyn FnOnce() + Send>) {
        self.fence.when_closed(tell);
    }
}

impl<E: Openable> Fenced<E> {
    fn note(&self, error: &StoreError) {
        if matches!(error, StoreError::Fenced(_)) {
            self.fence.close();
        }
    }
}

/// The time limit for an answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(6);

/// The time limit for an answer that only one user waits for, such as a search in an archive.
const LONG_ANSWER: Duration = Duration::from_secs(60);

/// The time limit for an answer to a check.
const CHECK_ANSWER: Duration = Duration::from_secs(30);

/// The time limit for an answer that a copy waits for, which may take long because the other
/// database stalls.
const COPY_ANSWER: Duration = Duration::from_secs(10 * 60);

/// The number of attempts to fence a process off while its transactions interfere.
const ATTEMPTS: u32 = 5;

const COUNT_ACCOUNTS: &str = "SELECT COUNT(*) FROM accounts";

/// Returns the statement above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![COUNT_ACCOUNTS]
}
