//! `rookery dpm set`: settings from the command line, by gRPC, with a token that identifies the
//! user.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request as Call};
use prost::Message;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::drf::{DrfEvent, Property, Request};
use crate::grpc::generated::common::device::{self, value};
use crate::grpc::generated::services::daq::{Setting, SettingList, SettingReply};
use crate::grpc::protocol::frame;
use crate::status::Status;

/// A service, and the proof that it demands.
#[derive(Debug, Clone)]
pub struct PutService {
    /// The address of its gRPC port.
    pub address: SocketAddr,
    /// The authority of its certificate (PEM) and the name in the certificate; without them the
    /// port speaks no TLS, and must be on this machine, since a token is a secret.
    pub authority: Option<(PathBuf, String)>,
    /// The token (JWT).
    pub token: String,
}

/// Sets devices, each given as `REQUEST=VALUE`, and returns a status for each. A value is a number,
/// numbers with commas between them, or a text; with `is_text`, all values are texts.
///
/// # Errors
/// `InvalidInput` for a setting that can't be read, or a token that would cross the network
/// unencrypted; `TimedOut`; errors of gRPC and of the system.
pub fn put(service: &PutService, settings: &[String], is_text: bool) -> io::Result<Vec<(String, Status)>> {
    let settings = read_settings(settings, is_text)?;
    if service.authority.is_none() && !service.address.ip().is_loopback() {
        return Err(wrong(
            "a token is a secret and isn't sent to another machine without TLS: give --ca the CA of the certificate",
        ));
    }
    let names: Vec<String> = settings.iter().map(|setting| setting.device.clone()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let done = runtime.block_on(async { tokio::time::timeout(PATIENCE, ask(service, settings)).await });
    let statuses = done.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the DPM didn't answer in time"))??;
    Ok(names.into_iter().zip(statuses).collect())
}

/// Reads settings, each given as `REQUEST=VALUE`.
pub(super) fn read_settings(settings: &[String], is_text: bool) -> io::Result<Vec<Setting>> {
    settings.iter().map(|text| setting(text, is_text)).collect()
}

/// Reads `REQUEST=VALUE`. A request without a property means the setting.
fn setting(text: &str, is_text: bool) -> io::Result<Setting> {
    let (request, value) =
        text.split_once('=').ok_or_else(|| wrong(&format!("{text}: expected REQUEST=VALUE, such as M:OUTTMP=72.5")))?;
    let parsed = Request::parse(request).map_err(|error| wrong(&format!("{request}: {}", error.status())))?;
    let property = if parsed.property == Property::Reading { Property::Setting } else { parsed.property };
    let request = Request { property, event: DrfEvent::Never, ..parsed };
    let numbers: Result<Vec<f64>, _> = value.split(',').map(|number| number.trim().parse()).collect();
    let value = match numbers {
        Ok(numbers) if !is_text => match <[f64; 1]>::try_from(numbers) {
            Ok([one]) => value::Value::Scalar(one),
            Err(value) => value::Value::ScalarArr(value::ScalarArray { value }),
        },
        _ => value::Value::Text(value.to_owned()),
    };
    Ok(Setting { device: request.to_string(), value: Some(device::Value { value: Some(value) }) })
}

async fn ask(service: &PutService, setting: Vec<Setting>) -> io::Result<Vec<Status>> {
    let stream = tokio::net::TcpStream::connect(service.address).await?;
    let message = SettingList { setting }.encode_to_vec();
    match &service.authority {
        None => call(stream, &message, &service.token).await,
        Some((file, name)) => {
            let connector = tokio_rustls::TlsConnector::from(Arc::new(trust(file)?));
            let name = ServerName::try_from(name.clone()).map_err(|_| wrong(&format!("{name} is not a host name")))?;
            call(connector.connect(name, stream).await?, &message, &service.token).await
        }
    }
}

/// Returns a configuration that trusts the authorities in a file.
fn trust(file: &Path) -> io::Result<ClientConfig> {
    let unread = |error: &dyn std::fmt::Display| wrong(&format!("{}: {error}", file.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unread(&error))? {
        roots.add(certificate.map_err(|error| unread(&error))?).map_err(|error| unread(&error))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

/// Calls `Set` and returns the statuses, in the order of the settings.
async fn call(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    message: &[u8],
    token: &str,
) -> io::Result<Vec<Status>> {
    let (client, connection) = h2::client::handshake(stream).await.map_err(io::Error::other)?;
    tokio::spawn(async move { drop(connection.await) });
    let mut client = client.ready().await.map_err(io::Error::other)?;
    let request = Call::builder().method("POST").uri(SET).header("content-type", "application/grpc");
    let request = request.header("te", "trailers").header("authorization", format!("Bearer {token}"));
    let request = request.body(()).map_err(|_| wrong("the token contains characters that no token has"))?;
    let (response, mut body) = client.send_request(request, false).map_err(io::Error::other)?;
    body.send_data(frame(message).into(), true).map_err(io::Error::other)?;
    let response = response.await.map_err(io::Error::other)?;
    check_outcome(response.headers())?;
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.map_err(io::Error::other)?;
        let _ = body.flow_control().release_capacity(data.len());
        if bytes.len() + data.len() > LARGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        bytes.extend_from_slice(&data);
    }
    let trailers = poll_fn(|context| body.poll_trailers(context)).await.map_err(io::Error::other)?;
    check_outcome(&trailers.unwrap_or_default())?;
    let reply = SettingReply::decode(bytes.get(FRAME..).unwrap_or_default()).map_err(io::Error::other)?;
    let status = |facility, error| Some(Status::new(u8::try_from(facility).ok()?, i8::try_from(error).ok()?));
    let statuses = reply.status.iter().map(|told| status(told.facility_code, told.status_code));
    statuses.collect::<Option<_>>().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Fails with gRPC's status unless that is success.
fn check_outcome(headers: &HeaderMap) -> io::Result<()> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match text("grpc-status") {
        None | Some("0") => Ok(()),
        Some(code) => {
            let why = text("grpc-message").unwrap_or("no reason");
            Err(io::Error::other(format!("the DPM ended the call with gRPC status {code}: {why}")))
        }
    }
}

fn wrong(words: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, words)
}

/// The authority before the path is only there for HTTP; it isn't used.
const SET: &str = "http://dpm/services.daq.DAQ/Set";
/// The time limit for the whole call: a front-end has five seconds for each exchange.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most bytes of a reply.
const LARGEST: usize = 4 << 20;
/// The bytes of gRPC's frame in front of a message.
const FRAME: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        let read = |text: &str, is_text| {
            let setting = setting(text, is_text).expect(text);
            (setting.device, setting.value.and_then(|value| value.value).expect("a value"))
        };
        assert_eq!(read("M:OUTTMP=72.5", false), ("M:OUTTMP.SETTING@N".into(), value::Value::Scalar(72.5)));
        assert_eq!(read("Z:CUBE_X.CONTROL=ON", false).1, value::Value::Text("ON".into()));
        let array = value::ScalarArray { value: vec![1.0, 2.0] };
        let of_array = ("B:ARRAY.SETTING[0:1]@N".to_owned(), value::Value::ScalarArr(array));
        assert_eq!(read("B:ARRAY[0:1]=1, 2", false), of_array);
        assert_eq!(read("G:TEXT=42", true).1, value::Value::Text("42".into()));
        for wrong in ["M:OUTTMP", "nothing at all=1", "=1"] {
            assert!(setting(wrong, false).is_err(), "{wrong}");
        }
    }
}
