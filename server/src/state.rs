//! Records the last start, so that the next one only reports news.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::failure::CommandFailure;
use crate::folder::{self, Folder};
use crate::loaded::Loaded;

/// The recorded facts, in a small file in the data folder. If the file can't be read, the server
/// starts as if for the first time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastStart {
    version: String,
    domains: Vec<String>,
    c2s: Vec<String>,
    c2s_tls: Vec<String>,
    web: Vec<String>,
    web_tls: Vec<String>,
    bytestreams: Vec<String>,
    /// The expiry of each of the operator's certificates, in seconds since 1970, by its file.
    certificates: BTreeMap<String, i64>,
}

impl Default for LastStart {
    fn default() -> LastStart {
        LastStart {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            domains: Vec::new(),
            c2s: Vec::new(),
            c2s_tls: Vec::new(),
            web: Vec::new(),
            web_tls: Vec::new(),
            bytestreams: Vec::new(),
            certificates: BTreeMap::new(),
        }
    }
}

impl LastStart {
    /// Returns the current facts.
    pub fn of(loaded: &Loaded) -> LastStart {
        let texts = |addresses: &[std::net::SocketAddr]| addresses.iter().map(ToString::to_string).collect();
        let certificates = loaded.certificates.iter().filter(|certificate| !certificate.own);
        LastStart {
            domains: loaded.config.domains.iter().map(|domain| domain.name.clone()).collect(),
            c2s: texts(&loaded.config.listen.c2s),
            c2s_tls: texts(&loaded.config.listen.c2s_tls),
            web: texts(&loaded.config.listen.web),
            web_tls: texts(&loaded.config.listen.web_tls),
            bytestreams: texts(&loaded.config.listen.bytestreams),
            certificates: certificates
                .map(|certificate| (certificate.file.display().to_string(), certificate.inspection.not_after))
                .collect(),
            ..LastStart::default()
        }
    }

    /// Reads the recorded facts; `None` if there are none, or they are unreadable.
    pub fn read(folder: &Folder) -> Option<LastStart> {
        toml::from_str(&fs::read_to_string(folder.state()).ok()?).ok()
    }

    /// Writes them to the file.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Failed`] if the file can't be written.
    pub fn write(&self, folder: &Folder) -> Result<(), CommandFailure> {
        let text = toml::to_string(self).map_err(|error| CommandFailure::Failed(error.to_string()))?;
        folder::write(&folder.state(), &format!("{HEAD}{text}"), 0o600)
    }

    /// Returns the changes that matter to an operator, one per line.
    pub fn changes_since(&self, before: &LastStart) -> Vec<String> {
        let mut changes = Vec::new();
        if self.version != before.version {
            changes.push(format!("version {} (was {})", self.version, before.version));
        }
        differences(&mut changes, "domain", &self.domains, &before.domains);
        differences(&mut changes, "listener", &self.c2s, &before.c2s);
        differences(&mut changes, "direct TLS listener", &self.c2s_tls, &before.c2s_tls);
        differences(&mut changes, "HTTP listener", &self.web, &before.web);
        differences(&mut changes, "HTTPS listener", &self.web_tls, &before.web_tls);
        differences(&mut changes, "listener for bytestreams", &self.bytestreams, &before.bytestreams);
        for (file, ends) in &self.certificates {
            match before.certificates.get(file) {
                None => changes.push(format!("new certificate {file}, valid until {}", clock::date(*ends))),
                Some(other) if other != ends => {
                    changes.push(format!("certificate renewed: {file}, valid until {}", clock::date(*ends)));
                }
                Some(_) => {}
            }
        }
        changes
    }
}

fn differences(changes: &mut Vec<String>, what: &str, now: &[String], before: &[String]) {
    let without = |all: &[String], others: &[String]| -> Vec<String> {
        all.iter().filter(|one| !others.contains(one)).cloned().collect()
    };
    changes.extend(without(now, before).iter().map(|one| format!("new {what}: {one}")));
    changes.extend(without(before, now).iter().map(|one| format!("{what} gone: {one}")));
}

const HEAD: &str = "# Written by the server, so that a start reports only what has changed. You can delete it.\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> LastStart {
        LastStart {
            domains: vec!["localhost".into()],
            c2s: vec!["[::]:5222".into()],
            certificates: BTreeMap::from([("a.pem".into(), 86_400)]),
            ..LastStart::default()
        }
    }

    #[test]
    fn only_what_is_new_is_said() {
        assert_eq!(state().changes_since(&state()), Vec::<String>::new());
        let mut now = state();
        now.domains = vec!["example.org".into()];
        now.c2s.push("127.0.0.1:5999".into());
        now.certificates.insert("a.pem".into(), 2 * 86_400);
        let expected = [
            "new domain: example.org",
            "domain gone: localhost",
            "new listener: 127.0.0.1:5999",
            "certificate renewed: a.pem, valid until 1970-01-03",
        ];
        assert_eq!(now.changes_since(&state()), expected);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let folder = Folder::new(directory.path().to_owned());
        assert_eq!(LastStart::read(&folder), None);
        state().write(&folder).expect("written");
        assert_eq!(LastStart::read(&folder), Some(state()));
    }
}
