//! `rookery dpm set --kerberos`: settings from the command line, by DPM over TCP, with the user's
//! ticket.

use std::io;
use std::net::{SocketAddr, TcpStream};

use rookery_gssapi::Initiator;

use super::ask::{self, connect, next, send};
use super::put::read_settings;
use crate::grpc::generated::common::device::value::Value;
use crate::grpc::generated::services::daq::Setting;
use crate::sdd::reply::Reply;
use crate::sdd::request::{AddToList, ApplySettings, Authenticate, EnableSettings, StartList};
use crate::sdd::{Bytes, ScaledSetting, TextSetting};
use crate::status::Status;

/// Sets devices as [`put`](super::put) does, by the port for clients, as the user of whom this
/// process has a ticket. `role` is the one of the service's roles in which they are set.
///
/// # Errors
/// `InvalidInput` for a setting that can't be read; `PermissionDenied`, with the reason, if the
/// user or the service proves nothing; `TimedOut`; errors of the system.
pub fn apply(
    address: SocketAddr,
    role: Option<&str>,
    settings: &[String],
    is_text: bool,
) -> io::Result<Vec<(String, Status)>> {
    let settings = read_settings(settings, is_text)?;
    let names: Vec<String> = settings.iter().map(|setting| setting.device.clone()).collect();
    let (mut stream, list_id) = connect(address)?;
    authenticate(&mut stream, list_id)?;
    let role = role.map(|role| (ROLE_REF, format!("#ROLE:{role}")));
    for (ref_id, drf_request) in role.into_iter().chain((1..).zip(names.iter().cloned())) {
        send(&mut stream, AddToList { list_id, ref_id, drf_request }.into())?;
    }
    send(&mut stream, StartList { list_id, model: None }.into())?;
    send(&mut stream, batch(list_id, settings).into())?;
    let applied = wait_for(&mut stream, |reply| match reply {
        Reply::ApplySettings(applied) => Some(applied.status),
        _ => None,
    })?;
    let status_of = |ref_id| applied.iter().find(|told| told.ref_id == ref_id).map(|told| Status(told.status));
    let told = (1..).zip(names).map(|(ref_id, name)| Some((name, status_of(ref_id)?)));
    told.collect::<Option<_>>().ok_or_else(ask::stranger)
}

/// Proves to the service who the user is, and has it prove itself.
fn authenticate(stream: &mut TcpStream, list_id: i32) -> io::Result<()> {
    let mut step = |token: Vec<u8>| {
        send(stream, Authenticate { list_id, token: Bytes(token) }.into())?;
        let answer = wait_for(stream, |reply| match reply {
            Reply::Authenticate(answer) => Some(Ok(answer)),
            Reply::Status(refusal) if refusal.ref_id == 0 => Some(Err(Status(refusal.status))),
            _ => None,
        })?;
        answer.map_err(|status| denial(format!("the DPM refused the Kerberos ticket: {status}")))
    };
    let Some(name) = step(Vec::new())?.service_name else { return Err(ask::stranger()) };
    let of_ticket = |error: rookery_gssapi::GssapiError| {
        denial(format!("no Kerberos ticket for {name}: {error}; `klist` lists your tickets, `kinit` gets one"))
    };
    // A name without a realm is one of this user's own.
    let mut client = Initiator::open(&name.replace('@', "/")).map_err(of_ticket)?;
    let mut token = client.step(None).map_err(of_ticket)?;
    while let Some(ours) = token {
        let theirs = step(ours)?.token;
        token = match theirs {
            Some(theirs) if !client.is_complete() => client.step(Some(&theirs.0)).map_err(of_ticket)?,
            _ => None,
        };
    }
    let mic = Bytes(client.sign(MESSAGE).map_err(of_ticket)?);
    send(stream, EnableSettings { list_id, mic, message: Bytes(MESSAGE.to_vec()) }.into())?;
    let status = wait_for(stream, |reply| match reply {
        Reply::Status(told) if told.ref_id == 0 => Some(Status(told.status)),
        _ => None,
    })?;
    match status {
        Status::SUCCESS => Ok(()),
        refusal => Err(denial(format!("the DPM refused the Kerberos ticket: {refusal}"))),
    }
}

/// Returns all settings in one request, numbered from one.
fn batch(list_id: i32, settings: Vec<Setting>) -> ApplySettings {
    let (mut scaled, mut texts) = (Vec::new(), Vec::new());
    for (ref_id, setting) in (1..).zip(settings) {
        match setting.value.and_then(|value| value.value) {
            Some(Value::Scalar(number)) => scaled.push(ScaledSetting { ref_id, data: vec![number] }),
            Some(Value::ScalarArr(numbers)) => scaled.push(ScaledSetting { ref_id, data: numbers.value }),
            Some(Value::Text(text)) => texts.push(TextSetting { ref_id, data: vec![text] }),
            // No other kind is written on a command line.
            _ => {}
        }
    }
    ApplySettings {
        user_name: String::new(),
        list_id,
        raw_array: None,
        scaled_array: Some(scaled).filter(|some| !some.is_empty()),
        text_array: Some(texts).filter(|some| !some.is_empty()),
    }
}

/// Returns what `find` finds in a reply; all others are passed over.
fn wait_for<T>(stream: &mut TcpStream, find: impl Fn(Reply) -> Option<T>) -> io::Result<T> {
    let begun = std::time::Instant::now();
    loop {
        if let Some(found) = find(next(stream)?) {
            return Ok(found);
        }
        // Heartbeats arrive even if there is no answer.
        if begun.elapsed() > ask::PATIENCE {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the DPM didn't answer in time"));
        }
    }
}

fn denial(words: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, words)
}

/// The message that all clients sign.
const MESSAGE: &[u8] = b"1234";
/// The number of the request that names the role.
const ROLE_REF: i64 = 0;
