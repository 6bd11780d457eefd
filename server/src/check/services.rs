//! Finds active modules that can't work: their host belongs to another module, or they need a
//! module that is off.

use super::{CheckReport, MODULES};
use crate::config::{DomainConfig, ServerConfig};

/// Checks the modules of every domain.
pub(super) fn look(report: &mut CheckReport, config: &ServerConfig) {
    let mut taken: Vec<String> = config.domains.iter().map(|domain| domain.name.clone()).collect();
    let mut served = 0;
    // The modules come in the order in which the hub assigns hosts.
    let table = rookery_modules::table(&rookery_modules::Shared::default());
    for domain in &config.domains {
        for module in table.iter().map(|module| module.name()) {
            let Some(host) = domain.service(module) else { continue };
            if taken.contains(&host) {
                report.warn(
                    MODULES,
                    format!(
                        "{module} can't serve {}: its address {host} is that of a domain or of another module; set another `host` \
                         in [modules.{module}]",
                        domain.name
                    ),
                );
                continue;
            }
            taken.push(host);
            served += 1;
        }
        needs(report, domain);
    }
    report.note(MODULES, format!("addresses of services: {served}"));
}

fn needs(report: &mut CheckReport, domain: &DomainConfig) {
    let is_on = |module: &str| domain.modules.get(module).is_some_and(|module| module.enabled);
    for (module, needed) in NEEDS.into_iter().filter(|(module, needed)| is_on(module) && !is_on(needed)) {
        let text = format!("{module} does nothing in {}: it needs {needed}, which is off", domain.name);
        report.warn(MODULES, text);
    }
}

/// Modules, each with the one that it depends on.
const NEEDS: [(&str, &str); 2] = [("caps", "disco"), ("administration", "commands")];
