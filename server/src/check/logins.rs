//! Checks the login sources: whether each can be reached and gives sensible answers.

use std::time::Duration;

use super::CheckReport;
use crate::config::{ConfigError, DomainConfig, ServerConfig};
use crate::logins;

/// Reports the domains whose logins don't use passwords in the store.
pub fn look(report: &mut CheckReport, config: &ServerConfig) {
    for domain in &config.domains {
        let (name, login) = (&domain.name, &domain.login);
        if login.anonymous {
            report.note(ABOUT, format!("{name} lets everybody in, with an account for one session"));
            if config.federation_of(domain).enabled {
                let text = format!(
                    "everybody may write to other servers in the name of {name}: take [domain.{name:?}.federation] away, or name \
                     the only ones by `allow`"
                );
                report.warn(ABOUT, text);
            }
        }
        if login.asks()
            && let Err(error) = usable(domain)
        {
            report.fault(ABOUT, error.to_string());
        }
    }
}

/// Reads the files that a domain's logins need.
fn usable(domain: &DomainConfig) -> Result<(), ConfigError> {
    let web = logins::web(&domain.login)?;
    logins::passwords(&domain.login, &web)?;
    logins::issuer(&domain.name, &domain.login, &web).map(drop)
}

/// Sends each source a query about a nonexistent user.
pub fn ask(report: &mut CheckReport, config: &ServerConfig) {
    for domain in config.domains.iter().filter(|domain| domain.login.asks()) {
        let patience = Duration::from_secs(domain.login.seconds);
        // `look` reports faults in files.
        let Ok(web) = logins::web(&domain.login) else { continue };
        if let Ok(Some(passwords)) = logins::passwords(&domain.login, &web) {
            let probed = rookery_logins::within(patience, passwords.probe(&domain.name));
            tell(report, domain, probed.map(|()| format!("{passwords} checks passwords")));
        }
        if let Ok(Some(issuer)) = logins::issuer(&domain.name, &domain.login, &web) {
            let probed = rookery_logins::within(patience, issuer.probe());
            tell(report, domain, probed.map(|keys| format!("tokens of {issuer} are accepted; it has {keys}")));
        }
    }
}

fn tell(report: &mut CheckReport, domain: &DomainConfig, probed: Result<String, String>) {
    let name = &domain.name;
    match probed {
        Ok(found) => report.note(ABOUT, format!("{name}: {found}")),
        Err(why) => report.warn(ABOUT, format!("nobody could log in to {name} at the moment: {why}")),
    }
}

const ABOUT: &str = "logins";
