//! A backup of the whole server.

use hyper::StatusCode;
use rookery_base::date;
use tracing::error;

use super::call::{ApiCall, ApiReply};
use super::problem::Problem;
use crate::ask::now_ms;
use crate::backups::UnmadeBackup;

/// Makes a backup and sends it.
pub(super) async fn make(call: ApiCall) -> Result<ApiReply, Problem> {
    call.may_all()?;
    let body = call.shared.backups.make().await.map_err(problem)?;
    call.note("", "downloaded a backup of the server".to_owned());
    let day = date::timestamp(now_ms());
    let day = day.split('T').next().unwrap_or_default();
    Ok(ApiReply::coming(MEDIA_TYPE, body).with_file_name(&format!("rookery-{day}.tar.gz")))
}

fn problem(unmade: UnmadeBackup) -> Problem {
    match unmade {
        UnmadeBackup::Busy => {
            let words = "another backup is being made or downloaded; try again when it is complete";
            Problem::new(StatusCode::CONFLICT, "backup-running", words)
        }
        UnmadeBackup::NoRoom => {
            let words = "the disk of the data folder has too little room for a backup; `rookery backup` can write \
                         one to another disk";
            Problem::new(StatusCode::INSUFFICIENT_STORAGE, "disk-full", words)
        }
        UnmadeBackup::Failed(cause) => {
            error!(cause, "a backup can't be made");
            let words = "the backup can't be made; the server's log says why";
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", words);
            Problem { reason: Some(cause), ..problem }
        }
    }
}

/// The type of a compressed archive (RFC 6713).
pub(super) const MEDIA_TYPE: &str = "application/gzip";
