//! Checks a MariaDB or MySQL before a start, and for `rookery check`.

use super::driver::MysqlDriver;
use crate::StoreError;
use crate::sql::checking::Checked;
use crate::sql::remote::RemoteConnection;

impl Checked for MysqlDriver {
    const READ_ONLY: &'static str = "it is a replica, or read_only is on";

    fn unfit(&mut self, trusts_durability: bool) -> Result<Vec<String>, StoreError> {
        let mut reasons = Vec::new();
        let (version, is_mariadb) = self.version();
        let (oldest, words) = if is_mariadb { ((10, 6), "MariaDB 10.6") } else { ((8, 0), "MySQL 8.0") };
        if numbers(version) < oldest {
            reasons.push(format!("its version is {version}; at least {words} is required"));
        }
        let engines = "SELECT support FROM information_schema.engines WHERE engine = 'InnoDB'";
        let support = self.column(engines)?.concat();
        if support != "YES" && support != "DEFAULT" {
            reasons.push("it has no InnoDB, without which writes aren't atomic".into());
        }
        let packet: u64 = self.setting("max_allowed_packet")?.parse().unwrap_or_default();
        if packet < LEAST_PACKET {
            reasons.push(format!(
                "max_allowed_packet is {packet}: a portion of an archive may be larger; set it to {LEAST_PACKET} or more"
            ));
        }
        let has_log = self.setting("log_bin")? != "0";
        if has_log && self.setting("binlog_format")?.eq_ignore_ascii_case("STATEMENT") {
            reasons.push(
                "binlog_format is STATEMENT, which can't record transactions that read only what is committed (error 1665); set it to MIXED or \
                 ROW"
                .into(),
            );
        }
        for setting in if trusts_durability { &[] } else { DURABLE } {
            let DurableSetting { name, loses, .. } = *setting;
            let value = self.setting(name)?;
            // Without a log for replicas nothing depends on it.
            let is_unused = name == "sync_binlog" && !has_log;
            if !is_unused && !setting.is_kept_by(&value) {
                let durable = setting.durable;
                reasons.push(format!(
                    "{name} is {value}: {loses}; set it to {durable}, or set durability = \"trust\" in [store] if you accept that"
                ));
            }
        }
        Ok(reasons)
    }

    fn product(&mut self) -> Result<String, StoreError> {
        let (version, is_mariadb) = self.version();
        Ok(format!("{} {version}", if is_mariadb { "MariaDB" } else { "MySQL (this server is not tested with it)" }))
    }

    /// Reads a global setting of the server: sessions have their own.
    fn setting(&mut self, name: &str) -> Result<String, StoreError> {
        Ok(self.column(&format!("SELECT @@global.{name}"))?.concat())
    }

    fn settings(&mut self) -> Result<Vec<String>, StoreError> {
        let names = DURABLE.iter().map(|setting| setting.name).chain(SHOWN);
        let settings: Result<Vec<_>, StoreError> =
            names.map(|name| Ok(format!("{name} {}", self.setting(name)?))).collect();
        let mut settings = settings?;
        // Its name differs between MariaDB and MySQL. Transactions of this server set their own.
        let isolation =
            self.run("SHOW GLOBAL VARIABLES WHERE variable_name IN ('tx_isolation', 'transaction_isolation')")?;
        settings.extend(isolation.into_iter().take(1).map(|row| row.join(" ")));
        Ok(settings)
    }

    /// Returns the server's settings that still differ although this server overrides them in its
    /// own sessions.
    fn ill_set(&mut self) -> Result<Option<String>, StoreError> {
        let session = self.run("SELECT @@session.sql_mode, @@session.character_set_client")?.concat();
        let is_as_set =
            matches!(session.as_slice(), [mode, set] if mode.contains("STRICT_ALL_TABLES") && set == "binary");
        let words = session.join(", ");
        Ok((!is_as_set).then(|| format!("sessions can't be set to be strict and to convert no characters: {words}")))
    }
}

/// Reads the first two numbers of a version.
fn numbers(version: &str) -> (u32, u32) {
    let mut numbers = version.split(['.', '-']).map(|part| part.parse().unwrap_or_default());
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default())
}

/// A setting that protects acknowledged data.
struct DurableSetting {
    name: &'static str,
    /// The value that it should have.
    durable: &'static str,
    /// The values that lose something; all but the right one if there are none.
    lossy: &'static [&'static str],
    /// The consequence.
    loses: &'static str,
}

impl DurableSetting {
    fn is_kept_by(&self, value: &str) -> bool {
        match self.lossy {
            [] => value == self.durable,
            lossy => !lossy.iter().any(|lossy| value.eq_ignore_ascii_case(lossy)),
        }
    }
}

const DURABLE: &[DurableSetting] = &[
    DurableSetting {
        name: "innodb_flush_log_at_trx_commit",
        durable: "1",
        lossy: &[],
        loses: "what it acknowledges doesn't survive a power cut",
    },
    DurableSetting {
        name: "sync_binlog",
        durable: "1",
        lossy: &[],
        loses: "its replicas and backups may lack what it has acknowledged before a power cut",
    },
    DurableSetting {
        name: "innodb_doublewrite",
        durable: "ON",
        // Newer versions have several that are safe.
        lossy: &["0", "OFF", "DETECT_ONLY"],
        loses: "a page that is half written at a power cut is lost, unless the file system writes pages whole",
    },
];

/// Settings that are shown because they help to find the cause of a problem.
const SHOWN: [&str; 5] = ["log_bin", "binlog_format", "max_allowed_packet", "sql_mode", "character_set_server"];

/// A group of messages for archives has eight mebibytes at most, and a packet has other data, too.
const LEAST_PACKET: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(numbers("10.11.6-MariaDB-0+deb12u1") > (10, 6) && numbers("10.5.9-MariaDB") < (10, 6));
        assert_eq!((numbers("8.0.36"), numbers("12-preview"), numbers("")), ((8, 0), (12, 0), (0, 0)));
    }

    #[test]
    fn values_that_lose_something_are_told_from_others() {
        let is_kept = |name: &str, value: &str| {
            DURABLE.iter().find(|setting| setting.name == name).expect("a setting").is_kept_by(value)
        };
        assert!(["1", "ON", "fast", "DETECT_AND_RECOVER"].iter().all(|value| is_kept("innodb_doublewrite", value)));
        assert!(["0", "off", "DETECT_ONLY"].iter().all(|value| !is_kept("innodb_doublewrite", value)));
        assert!(is_kept("sync_binlog", "1") && !is_kept("sync_binlog", "100"));
    }
}
