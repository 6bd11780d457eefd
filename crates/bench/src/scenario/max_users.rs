//! Users log in at a steady rate, become available, and then do nothing: this measures the cost of
//! a login and of an idle session.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::rosters::Ring;
use super::{Scenario, ScenarioRun};
use crate::BenchOutcome;
use crate::process::slope;

/// Sizes of the load.
#[derive(Debug, Clone, Args, Serialize)]
pub struct MaxUsers {
    /// Users, or as many as the limit of open files allows
    #[arg(long, default_value_t = 400_000)]
    users: usize,
    /// Users who arrive per second
    #[arg(long, default_value_t = 150.0)]
    arrival_rate: f64,
    /// Contacts of each user, who see each other; created first if need be
    #[arg(long, default_value_t = 100)]
    roster: usize,
    /// Seconds to idle at the end
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Let a login fetch the contacts and last until the client sees its own presence, not only
    /// until its resource is bound
    #[arg(long)]
    until_seen: bool,
}

impl Scenario for MaxUsers {
    const NAME: &'static str = "max-users";

    fn clients(&self) -> usize {
        self.users
    }

    fn run(&self, run: &mut ScenarioRun<'_>) -> BenchOutcome<()> {
        let users = run.limit_clients(self.users);
        if self.roster > 0 {
            run.make_rosters(Ring { users, contacts: self.roster })?;
        }
        run.meter.doing(format!("max-users: {users} users, {} a second", self.arrival_rate));
        let wave = run.wave_of(self.until_seen);
        let wave = super::clients::Wave { rate: Some(self.arrival_rate), ..wave };
        let from = run.read();
        run.arrive(0..users, &wave, true)?;
        let arrived = run.read();
        run.fill_in_logins(&from, &arrived);
        run.meter.doing("max-users: idle");
        run.rest(Duration::try_from_secs_f64(self.seconds)?)?;
        let end = run.read();
        run.remember(&end, Some(slope(&run.meter.memory_by_sessions())).filter(|slope| *slope > 0.0));
        run.failed_logins()?;
        run.ask_version()
    }
}
