//! Checks `[dpm]` as a whole.

use std::ops::Range;

use super::super::error::WrongValue;
use super::super::{DATA, DomainConfig};
use super::{ConfigEntries, ConfigReader, child, full_key, place};

impl ConfigReader<'_> {
    /// Checks the requirements of `[dpm]`, and the settings that require it.
    pub(super) fn readings(&mut self, at: Range<usize>, entries: &ConfigEntries<'_>) {
        let dpm = &self.config.dpm;
        let has_service = |domain: &DomainConfig| domain.modules.get(DATA).is_some_and(|module| module.enabled);
        let is_shown = self.config.domains.iter().any(has_service);
        if dpm.enabled && dpm.database.is_none() && !dpm.demo {
            let what = "there are no devices: set `database` to a file, or set `demo = true`";
            self.wrongs.push(WrongValue::new(place(entries, &["enabled"]), what).of("dpm.enabled"));
        }
        let others = ["front_ends", "multicast", "name", "node"].into_iter();
        let given = others.filter(|key| child(entries, key).is_some());
        let second = given.chain(dpm.demo.then_some("demo")).next();
        if let Some(key) = second.filter(|_| dpm.acnetd.is_some()) {
            let what = format!("the network is that of `acnetd`: leave out `{key}`, or `acnetd`");
            self.wrongs.push(WrongValue::new(place(entries, &[key]), what).of(full_key("dpm", key)));
        }
        if dpm.keytab.is_some() != dpm.principal.is_some() {
            let what = "`keytab` and `principal` belong together";
            self.wrongs.push(WrongValue::new(place(entries, &["keytab", "principal"]), what).of("dpm.keytab"));
        }
        let needs = [
            ("grpc_certificate", dpm.grpc_certificate.is_some(), "grpc", dpm.grpc.is_some()),
            ("grpc_certificate", dpm.grpc_certificate.is_some(), "grpc_key", dpm.grpc_key.is_some()),
            ("grpc_key", dpm.grpc_key.is_some(), "grpc_certificate", dpm.grpc_certificate.is_some()),
            ("tokens", dpm.tokens.is_some(), "grpc", dpm.grpc.is_some()),
            ("tokens", dpm.tokens.is_some(), "token_issuer", dpm.token_issuer.is_some()),
            ("token_issuer", dpm.token_issuer.is_some(), "tokens", dpm.tokens.is_some()),
            ("token_audience", dpm.token_audience.is_some(), "tokens", dpm.tokens.is_some()),
            ("token_realm", dpm.token_realm.is_some(), "tokens", dpm.tokens.is_some()),
        ];
        // The mistake in a refused value has already been reported.
        let missing = |other: &str, is_there: bool| !is_there && child(entries, other).is_none();
        for (key, is_given, other, is_there) in needs {
            if is_given && missing(other, is_there) {
                let what = format!("it also needs `{other}`");
                self.wrongs.push(WrongValue::new(place(entries, &[key]), what).of(full_key("dpm", key)));
            }
        }
        if !self.config.dpm.alarms.is_empty() && !is_shown {
            let what = "[modules.data] announces alarms in rooms: set `enabled = true` there";
            self.wrongs.push(WrongValue::new(place(entries, &["alarms"]), what).of("dpm.alarms"));
        }
        if is_shown && !self.config.dpm.enabled {
            let what = "the module `data` shows what [dpm] reads: set `enabled = true` in [dpm]";
            self.wrongs.push(WrongValue::new(at, what).of("dpm.enabled"));
        }
    }
}
