//! `rookery bench register`.

use std::path::PathBuf;

use clap::Args;

use crate::{Outcome, chat};

/// Which accounts to make.
#[derive(Debug, Clone, Args)]
pub struct Register {
    /// Domain of the accounts
    #[arg(long, default_value = "localhost")]
    domain: String,
    /// How many; they are user0000000@DOMAIN and up
    #[arg(long, value_name = "N")]
    users: usize,
    /// Password of all of them
    #[arg(long, env = "ROOKERY_BENCH_PASSWORD", default_value = "pencil")]
    password: String,
    /// Write the accounts into a file for `rookery user import` instead
    #[arg(long, value_name = "FILE.csv")]
    csv: Option<PathBuf>,
}

impl Register {
    /// Makes the accounts.
    pub fn run(self) -> Outcome<()> {
        let Some(file) = &self.csv else { return Err("only --csv so far".into()) };
        let lines =
            (0..self.users).map(|number| format!("{},{}\n", chat::account(number, &self.domain), self.password));
        std::fs::write(file, format!("jid,password\n{}", lines.collect::<String>()))?;
        println!("{} accounts written to {}", self.users, file.display());
        Ok(())
    }
}
