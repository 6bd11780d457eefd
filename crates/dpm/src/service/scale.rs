//! The task SCALE: converts values of devices for clients that have them from elsewhere, such as
//! from a file. Nothing is read or set.

use super::Dpm;
use crate::database::DeviceValue;
use crate::drf::{Property, PropertyField, Request};
use crate::scaling::Scaling;
use crate::sdd::scale::{ScalePlace, ScaleRequest, ScaledValues};
use crate::sdd::{Bytes, SddMessage, scale::ScaleReply};
use crate::status::Status;

impl Dpm {
    /// Returns the reply of the task SCALE; `None` for a request to all nodes that isn't a search.
    pub(super) fn scale(&self, body: &[u8], is_for_all: bool) -> Option<(Status, Vec<u8>)> {
        let reply: ScaleReply = match ScaleRequest::decode(body) {
            Ok(ScaleRequest::ScaleSearch(_)) => ScalePlace { service_location: self.options.name.to_string() }.into(),
            _ if is_for_all => return None,
            Err(_) => return Some((Status::IVM, Vec::new())),
            Ok(ScaleRequest::ScaleValues(asked)) => {
                let (raw, scaled) = (asked.raw.map(|bytes| bytes.0), asked.scaled);
                let done = self.convert(&asked.drf_request, raw.as_deref(), scaled.as_deref());
                done.unwrap_or_else(|status| ScaledValues { status: status.0, ..ScaledValues::default() }).into()
            }
        };
        let mut bytes = Vec::new();
        reply.encode(&mut bytes);
        Some((Status::SUCCESS, bytes))
    }

    /// Converts bytes into numbers, or else numbers into bytes.
    fn convert(&self, request: &str, raw: Option<&[u8]>, scaled: Option<&[f64]>) -> Result<ScaledValues, Status> {
        let request = Request::parse(request).map_err(|error| error.status())?;
        let target = self.database.find(&request)?;
        let value = match request.property {
            Property::Reading | Property::Setting => target.device.value(request.property).ok_or(Status::NOPROP)?,
            _ => return Err(Status::NOSCALE),
        };
        let is_primary = request.field == PropertyField::Primary;
        match (raw, scaled) {
            (Some(bytes), None) => {
                let numbers = elements(value, bytes)?.map(|bytes| number(&value.scaling, bytes, is_primary));
                let scaled = Some(numbers.collect::<Result<_, _>>()?);
                Ok(ScaledValues { scaled, ..ScaledValues::default() })
            }
            (None, Some(numbers)) => {
                let bytes = numbers.iter().map(|number| match is_primary {
                    true => value.scaling.primary_bytes(*number),
                    false => value.scaling.common_bytes(*number),
                });
                let bytes = bytes.collect::<Result<Vec<_>, _>>()?.concat();
                Ok(ScaledValues { raw: Some(Bytes(bytes)), ..ScaledValues::default() })
            }
            _ => Err(Status::BAD_REQUEST),
        }
    }
}

fn number(scaling: &Scaling, bytes: &[u8], is_primary: bool) -> Result<f64, Status> {
    if is_primary { scaling.to_primary(bytes) } else { scaling.to_common(bytes) }
}

/// Returns the bytes of each element.
fn elements<'a>(value: &DeviceValue, bytes: &'a [u8]) -> Result<impl Iterator<Item = &'a [u8]>, Status> {
    let size = value.place.element.max(1) as usize;
    if bytes.is_empty() || !bytes.len().is_multiple_of(size) {
        return Err(Status::INVLEN);
    }
    Ok(bytes.chunks_exact(size))
}
