//! The table of all API operations: the path of each, its parameters, its response, the scope that
//! it needs, and the function that carries it out. `server`, `domains` and `addresses` contain
//! them, by the prefix of their paths.

mod addresses;
mod domains;
mod server;

use std::pin::Pin;

use rookery_operations::api_tokens::Scope;

use super::call::{ApiCall, ApiReply};
use super::field::ApiField;
use super::problem::Problem;

/// One method of one path: its input, action and output.
pub(crate) struct ApiOperation {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: &'static str,
    /// Its path after the prefix, with variables such as `{jid}`.
    pub path: &'static str,
    /// Its name for programs.
    pub id: &'static str,
    /// Its purpose, in a line.
    pub summary: &'static str,
    /// The scope that a token needs.
    pub scope: Scope,
    /// The parameters that the query may have.
    pub query: &'static [ApiField],
    /// The members that the body may have, if it takes one.
    pub body: Option<&'static [ApiField]>,
    /// The status of success, with what it means.
    pub success: (u16, &'static str),
    /// The content of a successful response.
    pub answer: ResponseContent,
    /// Errors beyond those that all operations have.
    pub errors: &'static [u16],
    /// The function that carries the operation out, once the token and the input were checked.
    pub run: fn(ApiCall) -> Answering,
}

/// The content of a successful response, for the description of the API.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ResponseContent {
    /// The response has no content.
    Nothing,
    /// JSON of the schema of this name.
    Json(&'static str),
    /// A part of a list of these.
    List(&'static str),
    /// A document of this media type.
    Document(&'static str),
}

/// The result of an operation, in the future.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<ApiReply, Problem>> + Send>>;
/// Returns all operations, in the order of the description.
pub(crate) fn operations() -> impl Iterator<Item = &'static ApiOperation> {
    [server::OPERATIONS, domains::OPERATIONS, addresses::OPERATIONS].into_iter().flatten()
}
