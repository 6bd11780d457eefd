//! Checks a PostgreSQL before a start, and for `rookery check`.

use super::driver::{POOLED, PostgresDriver};
use crate::StoreError;
use crate::sql::checking::Checked;
use crate::sql::remote::RemoteConnection;

impl Checked for PostgresDriver {
    const READ_ONLY: &'static str = "it is a replica, or default_transaction_read_only is on";

    fn unfit(&mut self, trusts_durability: bool) -> Result<Vec<String>, StoreError> {
        let mut reasons = Vec::new();
        if self.shares_sessions()? {
            reasons.push(POOLED.to_owned());
        }
        let version: u32 = self.setting("server_version_num")?.parse().unwrap_or_default();
        if version < OLDEST {
            let (version, oldest) = (version / 10_000, OLDEST / 10_000);
            reasons.push(format!("its version is {version}; at least {oldest} is required"));
        }
        let encoding = self.setting("server_encoding")?;
        if encoding != "UTF8" {
            reasons.push(format!(
                "its encoding is {encoding}, which can't represent all texts; create another database with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
            ));
        }
        for name in if trusts_durability { &[] } else { DURABLE.as_slice() } {
            if self.setting(name)? == "off" {
                reasons.push(format!(
                    "{name} is off: what it acknowledges doesn't survive a power cut; switch it on, or set durability = \"trust\" in [store] if you accept that"
                ));
            }
        }
        Ok(reasons)
    }

    fn product(&mut self) -> Result<String, StoreError> {
        let (version, encoding) = (self.setting("server_version")?, self.setting("server_encoding")?);
        Ok(format!("PostgreSQL {version}, encoding {encoding},"))
    }

    fn setting(&mut self, name: &str) -> Result<String, StoreError> {
        Ok(self.column(&format!("SHOW {name}"))?.into_iter().next().unwrap_or_default())
    }

    fn settings(&mut self) -> Result<Vec<String>, StoreError> {
        let names = DURABLE.iter().copied().chain(["default_transaction_isolation"]);
        names.map(|name| Ok(format!("{name} {}", self.setting(name)?))).collect()
    }
}

/// PostgreSQL 13.
const OLDEST: u32 = 130_000;

/// The settings that protect acknowledged data.
const DURABLE: [&str; 3] = ["fsync", "synchronous_commit", "full_page_writes"];
