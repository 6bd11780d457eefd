//! The response to balancers and monitors that ask whether clients can be sent here.
//!
//! It also names anything else that will need attention, as far as anyone may know about it, so
//! that a monitor which asks nothing else reports it before users notice.

use std::sync::Arc;

use rookery_store::StoreError;

use crate::ask::now_ms;
use crate::doctor::finding::{self, Grade};
use crate::health::{DiskFill, Space};
use crate::machine::ProcessReadings;
use crate::{ServedCertificate, WebShared};

/// Checks whether clients can be sent here: all shards answer, the store accepts writes, and the
/// disk has space. Returns the state as a text that anyone may read.
///
/// # Errors
/// The reason why clients can't be sent here, as a text that anyone may read.
pub(crate) async fn state(shared: &Arc<WebShared>) -> Result<String, &'static str> {
    let (door, folder) = (shared.door.clone(), shared.instance.folder.clone());
    if door.is_shut() {
        return Err("leaving the cluster");
    }
    // Anyone may ask, so the shards examine none of their sessions for it.
    let read = move || (door.counts(), Space::of(&folder).ok(), ProcessReadings::read());
    match tokio::task::spawn_blocking(read).await {
        Ok((census, space, process)) if census.coverage.is_whole() => {
            match (shared.stores.meta.trouble(), space.map_or(DiskFill::Fine, Space::fill)) {
                (Some(StoreError::Lost(_)), _) => Err("the database is unreachable"),
                // The reason names files, which outsiders mustn't learn: it is in the log.
                (Some(_), _) => Err("nothing can be stored"),
                (None, DiskFill::Full) => Err("the disk is full"),
                (None, fill) => Ok(ready(fill, certificates(&shared.settings().certificates, now_ms()), process)),
            }
        }
        Ok(_) => Err("a shard doesn't answer"),
        Err(_) => Err("stopping"),
    }
}

/// Returns the state of a server that is ready, with what will need attention. A certificate that
/// has expired keeps clients out, but sending them elsewhere wouldn't renew it.
fn ready(fill: DiskFill, certificates: Grade, process: Option<ProcessReadings>) -> String {
    let are_short = process.and_then(finding::descriptors).is_some_and(|descriptors| descriptors.grade > Grade::Fine);
    let of_certificates = match certificates {
        Grade::Fine => None,
        Grade::Warning => Some("a certificate expires soon"),
        Grade::Urgent => Some("a certificate has expired"),
    };
    let low = (fill > DiskFill::Fine).then_some("the disk is nearly full");
    let few = are_short.then_some("few file descriptors are left");
    let but: Vec<_> = [low, of_certificates, few].into_iter().flatten().collect();
    if but.is_empty() { "ready".to_owned() } else { format!("ready, but {}", but.join("; ")) }
}

/// Returns the grade of the certificate that needs attention most.
fn certificates(served: &[ServedCertificate], now_ms: u64) -> Grade {
    let grades = served.iter().map(|served| finding::certificate("", served.ends_ms(), now_ms).grade);
    grades.max().unwrap_or(Grade::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_server_says_what_will_need_attention() {
        let process = |descriptors| {
            let most_descriptors = Some(100);
            let none = ProcessReadings {
                cpu_seconds: 0.0,
                resident_bytes: 0,
                virtual_bytes: 0,
                descriptors,
                most_descriptors,
            };
            Some(none)
        };
        for (fill, certificates, process, words) in [
            (DiskFill::Fine, Grade::Fine, None, "ready"),
            (DiskFill::Fine, Grade::Fine, process(50), "ready"),
            (DiskFill::Low, Grade::Fine, process(50), "ready, but the disk is nearly full"),
            (DiskFill::Fine, Grade::Warning, None, "ready, but a certificate expires soon"),
            (
                DiskFill::Fine,
                Grade::Urgent,
                process(90),
                "ready, but a certificate has expired; few file descriptors are left",
            ),
        ] {
            assert_eq!(ready(fill, certificates, process), words);
        }
        let day = 24 * 3600;
        let of = |not_after| ServedCertificate { file: "a".into(), names: vec!["a.example".into()], not_after };
        assert_eq!(certificates(&[], 0), Grade::Fine);
        assert_eq!(certificates(&[of(100 * day), of(3 * day)], 0), Grade::Warning);
        assert_eq!(certificates(&[of(0)], 1), Grade::Urgent);
    }
}
