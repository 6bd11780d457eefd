//! The OpenTelemetry collector that receives the server's spans.

use std::path::PathBuf;
use std::{env, fs};

use rookery_web::traces::{TraceHeader, TraceSettings};

use crate::config::{ConfigError, ServerConfig};

/// Returns the collector to which spans are posted, if there is one.
///
/// # Errors
///
/// The file of the header can't be used.
pub fn collector(config: &ServerConfig) -> Result<Option<TraceSettings>, ConfigError> {
    let Some(address) = &config.traces.url else { return Ok(None) };
    let because = |why: String| ConfigError::because(format!("traces: {why}"));
    Ok(Some(TraceSettings {
        url: address.parse().map_err(|error| because(format!("{address}: {error}")))?,
        ticks_per_minute: config.traces.ticks_per_minute,
        header: header(config.traces.header_file.clone()).map_err(because)?,
        trusted: config.traces.trusted.clone(),
        node: config.cluster.node.clone().unwrap_or_default(),
    }))
}

/// Reads the header from a file, or from the credential of that name if there is one.
fn header(named: Option<PathBuf>) -> Result<Option<TraceHeader>, String> {
    let credential = || Some(PathBuf::from(env::var_os("CREDENTIALS_DIRECTORY")?).join("traces-header"));
    let Some(file) = named.or_else(|| credential().filter(|file| file.exists())) else { return Ok(None) };
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: can't be read: {error}", file.display()))?;
    let wanted = || format!("{}: should contain one line, such as \"Authorization: Bearer SECRET\"", file.display());
    let (name, value) = text.trim().split_once(':').ok_or_else(wanted)?;
    TraceHeader::new(name.trim(), value.trim()).map(Some).ok_or_else(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_one_line_with_a_colon() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let file = folder.path().join("header");
            fs::write(&file, text).unwrap();
            header(Some(file))
        };
        assert!(read("Authorization: Bearer abc\n").unwrap().is_some());
        for text in ["", "Authorization", "two words: a", "a: b\nc: d", ": a"] {
            assert!(read(text).unwrap_err().contains("Authorization: Bearer SECRET"), "{text:?}");
        }
        assert!(header(Some(folder.path().join("none"))).unwrap_err().contains("can't be read"));
    }
}
