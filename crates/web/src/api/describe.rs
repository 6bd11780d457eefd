//! The description of the API (OpenAPI 3.1), generated from the table. A copy is in the
//! repository, `doc/openapi.json`; a test keeps both in sync.

use serde_json::{Map, Value, json};

use super::call::PREFIX;
use super::field::ApiField;
use super::table::{ApiOperation, ResponseContent, operations};

/// Returns the description, as it is served.
pub fn text() -> String {
    let mut text = serde_json::to_string_pretty(&document()).unwrap_or_default();
    text.push('\n');
    text
}

fn document() -> Value {
    let mut paths = Map::new();
    for operation in operations() {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method.to_lowercase()] = describe(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Rookery",
            "version": "1",
            "description": "An API to operate a Rookery server from programs. Lists come in parts: `next`, if not \
                            null, is the `after` of the next part. Addresses in paths are percent-encoded.",
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "servers": [{ "url": PREFIX }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "A token created by `rookery token add`." },
            },
            "schemas": schemas(),
        },
    })
}

fn describe(operation: &ApiOperation) -> Value {
    let mut parameters: Vec<_> = variables(operation.path).map(path_parameter).collect();
    parameters.extend(operation.query.iter().map(query_parameter));
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "description": format!("Requires a token with the scope `{}`.", operation.scope.name()),
        "parameters": parameters,
        "responses": responses(operation),
    });
    if let Some(fields) = operation.body {
        described["requestBody"] = json!({
            "required": true,
            "content": { "application/json": { "schema": object(fields) } },
        });
    }
    described
}

fn variables(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn path_parameter(name: &str) -> Value {
    let (doc, example) = match name {
        "domain" => ("A domain of this server.", "localhost"),
        "jid" => ("The bare JID of an account, such as alice@example.org.", "alice@localhost"),
        "resource" => ("The resource of a session.", "phone"),
        "contact" => ("The bare JID of a contact, here or elsewhere.", "bob@example.net"),
        "user" => ("The bare JID of a user, here or elsewhere.", "bob@example.net"),
        "server" => ("A domain of another server, or a component.", "example.net"),
        "report" => ("The id of a report.", "1"),
        "id" => ("The id of a message.", "0000000000001"),
        "token" => ("The token of a link.", "abcdefghijklmnopqrstuvwxyz"),
        _ => ("The bare JID of a room.", "garden@conference.localhost"),
    };
    json!({
        "name": name,
        "in": "path",
        "required": true,
        "description": doc,
        "schema": { "type": "string", "minLength": 1, "maxLength": 3071 },
        "example": example,
    })
}

fn query_parameter(field: &ApiField) -> Value {
    json!({
        "name": field.name,
        "in": "query",
        "required": field.is_required,
        "description": field.doc,
        "schema": field.kind.schema(),
    })
}

/// Returns the schema of a body: these members and no others.
fn object(fields: &[ApiField]) -> Value {
    let properties: Map<_, _> = fields
        .iter()
        .map(|field| {
            let mut schema = field.kind.schema();
            schema["description"] = field.doc.into();
            (field.name.to_owned(), schema)
        })
        .collect();
    let required: Vec<_> = fields.iter().filter(|field| field.is_required).map(|field| field.name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn responses(operation: &ApiOperation) -> Value {
    let (status, meaning) = operation.success;
    let mut success = json!({ "description": meaning });
    let schema = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    match operation.answer {
        ResponseContent::Nothing => {}
        ResponseContent::Json(name) => success["content"] = json!({ "application/json": { "schema": schema(name) } }),
        ResponseContent::List(name) => {
            success["content"] = json!({ "application/json": { "schema": list(&schema(name)) } })
        }
        ResponseContent::Document(media_type) => {
            success["content"] = json!({ media_type: { "schema": { "type": "string" } } });
        }
    }
    if status == 201 {
        success["headers"] = json!({
            "Location": { "description": "The path of the new resource.", "schema": { "type": "string" } },
        });
    }
    let mut responses = Map::from_iter([(status.to_string(), success)]);
    let always = [401, 403, 503];
    let with_body = operation.body.is_some().then_some([413, 415]).into_iter().flatten();
    let has_variables = operation.path.contains('{');
    let errors = always.into_iter().chain([400]).chain(has_variables.then_some(404)).chain(with_body);
    for status in errors.chain(operation.errors.iter().copied()) {
        let content = json!({ "application/problem+json": { "schema": schema("Problem") } });
        responses.insert(status.to_string(), json!({ "description": meaning_of(status), "content": content }));
    }
    // This can be sent before the operation is known.
    responses.insert("431".into(), json!({ "description": "The head of the request is larger than 16 KiB." }));
    responses.into()
}

fn meaning_of(status: u16) -> &'static str {
    match status {
        400 => "The request doesn't match this description.",
        401 => "The token is missing or invalid.",
        403 => "The token isn't valid for this request, or the API can't be used from this address.",
        404 => "The path or what it names doesn't exist.",
        409 => "It already exists or is in progress, a limit has been reached, or the required module is off.",
        413 => "The body is too large.",
        415 => "The body isn't JSON.",
        507 => "The disk has too little room.",
        422 => "The name, address, password or text is invalid, whatever the state of the server.",
        _ => "The server can't do this at the moment; try again later.",
    }
}

fn list(item: &Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "items": { "type": "array", "items": item },
            "next": { "type": ["string", "null"], "description": "The `after` of the next part; null in the last part." },
            "partial": { "type": "boolean", "description": "True if a part of the server didn't respond in time, so that its data is missing." },
        },
        "required": ["items", "next"],
    })
}

fn schemas() -> Value {
    let text = || json!({ "type": "string" });
    let number = || json!({ "type": "integer", "minimum": 0 });
    let switch = || json!({ "type": "boolean" });
    let time = || json!({ "type": "string", "format": "date-time" });
    let perhaps = |mut schema: Value| {
        schema["type"] = json!([schema["type"], "null"]);
        schema
    };
    let of = |members: Vec<(&str, Value)>| {
        let required: Vec<_> = members.iter().map(|(name, _)| *name).collect();
        let properties: Map<_, _> = members.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
        json!({ "type": "object", "properties": properties, "required": required })
    };
    let session = || {
        of(vec![
            ("jid", text()),
            ("user", text()),
            ("resource", text()),
            ("address", perhaps(text())),
            ("transport", perhaps(text())),
            ("tls", perhaps(switch())),
            ("connected", perhaps(time())),
            ("client", perhaps(text())),
            ("lost", perhaps(time())),
            ("waits_until", perhaps(time())),
            ("available", switch()),
            ("priority", json!({ "type": "integer", "minimum": -128, "maximum": 127 })),
            ("waiting_bytes", number()),
            ("idle_seconds", perhaps(number())),
        ])
    };
    json!({
        "Problem": of(vec![("type", text()), ("title", text()), ("status", number()), ("detail", text())]),
        "UserItem": of(vec![("jid", text()), ("disabled", switch()), ("last_seen", perhaps(time()))]),
        "User": of(vec![
            ("jid", text()),
            ("disabled", switch()),
            ("admin", switch()),
            ("contacts", number()),
            ("last_seen", perhaps(time())),
            ("sessions", json!({ "type": "array", "items": session() })),
        ]),
        "Session": session(),
        "Stream": of(vec![
            ("remote", text()),
            ("local", text()),
            ("direction", text()),
            ("state", text()),
            ("proven_by", text()),
            ("address", perhaps(text())),
            ("waiting", number()),
            ("quiet_seconds", number()),
            ("trouble", text()),
        ]),
        "Status": of(vec![
            ("version", text()),
            ("process", number()),
            ("started", time()),
            ("folder", text()),
            ("domains", json!({ "type": "array", "items": text() })),
            ("shards", number()),
            ("accounts", perhaps(number())),
            ("database_away_since", perhaps(time())),
            ("sessions", number()),
            ("waiting_sessions", number()),
            ("connections", number()),
            ("certificates", json!({ "type": "array", "items": of(vec![
                ("file", text()),
                ("names", json!({ "type": "array", "items": text() })),
                ("expires", time()),
            ]) })),
            ("disk", perhaps(of(vec![
                ("free_bytes", number()),
                ("total_bytes", number()),
                ("state", json!({ "type": "string", "enum": ["fine", "low", "full"] })),
            ]))),
            ("restart", json!({ "type": "array", "items": text() })),
            ("partial", switch()),
        ]),
        "Readiness": of(vec![("ready", switch()), ("state", text())]),
        "Reloaded": of(vec![("restart", json!({ "type": "array", "items": text() }))]),
        "ConfigurationChanges": of(vec![
            ("file", perhaps(text())),
            ("changes", json!({ "type": "array", "items": of(vec![
                ("key", text()),
                ("running", perhaps(text())),
                ("file", perhaps(text())),
                ("needs_restart", switch()),
            ]) })),
        ]),
        "Top": of(vec![
            ("time", time()),
            ("by", text()),
            ("cpu_seconds", json!({ "type": "number" })),
            ("watching_seconds", json!({ "type": "number" })),
            ("counts", json!({ "type": "object" })),
            ("values", json!({ "type": "object" })),
            ("rows", json!({ "type": "array", "items": of(vec![
                ("name", text()),
                ("counts", json!({ "type": "object" })),
                ("values", json!({ "type": "object" })),
            ]) })),
            ("partial", switch()),
        ]),
        "Doctor": of(vec![("findings", json!({ "type": "array", "items": of(vec![
            ("grade", text()),
            ("about", text()),
            ("what", text()),
            ("why", perhaps(text())),
            ("remedy", perhaps(text())),
        ]) }))]),
        "Slow": of(vec![
            ("limit_ms", number()),
            ("counts", json!({ "type": "object" })),
            ("events", json!({ "type": "array", "items": of(vec![
                ("time", time()),
                ("kind", text()),
                ("milliseconds", number()),
                ("what", text()),
                ("whose", text()),
                ("why", text()),
            ]) })),
        ]),
        "Profile": of(vec![
            ("rate", number()),
            ("milliseconds", number()),
            ("cpu_milliseconds", number()),
            ("samples", number()),
            ("left_out", number()),
            ("modules", json!({ "type": "array", "items": of(vec![("path", text()), ("file", text())]) })),
            ("stacks", json!({ "type": "array", "items": of(vec![
                ("thread", text()),
                ("samples", number()),
                ("frames", json!({ "type": "array", "items": text() })),
            ]) })),
        ]),
        "Ended": of(vec![("ended", number())]),
        "Closed": of(vec![("ended", number()), ("partial", switch())]),
        "Pinged": of(vec![("answered", switch()), ("condition", perhaps(text()))]),
        "Motd": of(vec![("subject", perhaps(text())), ("body", text())]),
        "Invitation": of(vec![("uri", text()), ("page", perhaps(text())), ("expires", time())]),
        "OpenInvitation": of(vec![
            ("token", text()),
            ("purpose", json!({ "type": "string", "enum": ["account", "password"] })),
            ("account", perhaps(text())),
            ("inviter", perhaps(text())),
            ("uri", text()),
            ("page", perhaps(text())),
            ("expires", time()),
        ]),
        "Vcard": of(vec![("vcard", text())]),
        "File": of(vec![("name", text()), ("bytes", number()), ("type", perhaps(text())), ("expires", time())]),
        "RoomItem": of(vec![
            ("jid", text()),
            ("name", text()),
            ("public", switch()),
            ("persistent", switch()),
            ("occupants", perhaps(number())),
            ("last_message", perhaps(time())),
        ]),
        "Room": of(vec![
            ("jid", text()),
            ("name", text()),
            ("description", text()),
            ("public", switch()),
            ("persistent", switch()),
            ("members_only", switch()),
            ("affiliations", number()),
            ("occupants", json!({ "type": "array", "items": of(vec![
                ("nick", text()),
                ("role", text()),
                ("affiliation", text()),
                ("sessions", json!({ "type": "array", "items": text() })),
            ]) })),
        ]),
        "Readings": of(vec![("readings", json!({ "type": "array", "items": { "type": "object" } }))]),
        "ReadingsOverview": of(vec![
            ("clients", number()),
            ("things", number()),
            ("readings", number()),
            ("delivered", number()),
            ("unanswered", number()),
            ("dropped", number()),
            ("front_ends", json!({ "type": "array", "items": { "type": "object" } })),
            ("devices", json!({ "type": "array", "items": { "type": "object" } })),
            ("busiest", json!({ "type": "array", "items": { "type": "object" } })),
        ]),
        "Affiliation": of(vec![("jid", text()), ("affiliation", text()), ("reason", perhaps(text()))]),
        "Contact": of(vec![
            ("jid", text()),
            ("name", perhaps(text())),
            ("groups", json!({ "type": "array", "items": text() })),
            ("subscription", text()),
            ("asked", switch()),
        ]),
        "ArchivedMessage": of(vec![("id", text()), ("time", time()), ("stanza", text())]),
        "NewRoom": of(vec![("jid", text())]),
        "Report": of(vec![
            ("id", text()),
            ("time", time()),
            ("reporter", perhaps(text())),
            ("reported", text()),
            ("reason", text()),
            ("text", text()),
        ]),
        "Domain": of(vec![("name", text()), ("modules", json!({ "type": "array", "items": text() }))]),
        "DomainDetails": of(vec![
            ("name", text()),
            ("users", number()),
            ("disabled_users", number()),
            ("modules", json!({ "type": "array", "items": of(vec![
                ("name", text()),
                ("summary", text()),
                ("enabled", switch()),
                ("options", json!({ "type": "object" })),
            ]) })),
        ]),
        "LogEntry": of(vec![("time", time()), ("who", text()), ("by", text()), ("act", text()), ("domain", text())]),
        "Statistics": of(vec![
            ("version", text()),
            ("shards", number()),
            ("sessions", number()),
            ("connections", number()),
            ("sessions_since_start", number()),
            ("messages_received", number()),
            ("presence_received", number()),
            ("iqs_received", number()),
            ("deliveries", number()),
            ("waiting_bytes", number()),
            ("store_waits", number()),
            ("store_errors", number()),
            ("slow_readers_ended", number()),
            ("partial", switch()),
        ]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_in_the_repository_is_up_to_date() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../doc/openapi.json");
        if std::env::var_os("UPDATE_DOC").is_some() {
            std::fs::write(file, text()).unwrap();
        }
        let kept = std::fs::read_to_string(file).unwrap_or_default();
        assert!(kept == text(), "doc/openapi.json is old: run UPDATE_DOC=1 cargo test --workspace up_to_date");
    }

    #[test]
    fn the_page_of_the_book_is_up_to_date() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../doc/book/reference/api.md");
        if std::env::var_os("UPDATE_DOC").is_some() {
            std::fs::write(file, page()).unwrap();
        }
        let kept = std::fs::read_to_string(file).unwrap_or_default();
        assert!(kept == page(), "api.md is old: run UPDATE_DOC=1 cargo test --workspace up_to_date");
    }

    /// Returns the operations as a readable page.
    fn page() -> String {
        let mut page = PAGE.to_owned();
        for operation in operations() {
            let ApiOperation { method, path, summary, scope, query, body, .. } = operation;
            let (status, meaning) = operation.success;
            page += &format!("\n## `{method} {path}`\n\n{summary} Scope: `{}`.\n\n", scope.name());
            let fields = [("query", query.iter()), ("body", body.unwrap_or_default().iter())];
            let rows: Vec<_> =
                fields.into_iter().flat_map(|(place, fields)| fields.map(move |field| (place, field))).collect();
            if !rows.is_empty() {
                page += "| in | name | meaning |\n| --- | --- | --- |\n";
            }
            for (place, ApiField { name, is_required, doc, .. }) in &rows {
                let needed = if *is_required { " (required)" } else { "" };
                page += &format!("| {place} | `{name}`{needed} | {} |\n", doc.replace('|', "\\|"));
            }
            if !rows.is_empty() {
                page.push('\n');
            }
            page += &format!("Success: {status}, {meaning}\n");
        }
        page
    }

    const PAGE: &str = "\
# The HTTP API

Every request, from the server's own table. [openapi.json](../../openapi.json) describes the same for
programs, with schemas and errors; the running server has it at `/api/v1/openapi.json`. All paths begin
with `/api/v1`; `rookery token add` creates tokens ([The admin page and the HTTP API](../operating/admin-page.md)).
";

    #[test]
    fn operations_are_told_apart_and_schemas_are_there() {
        let mut ids: Vec<_> = operations().map(|operation| operation.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), operations().count());
        let schemas = schemas();
        for operation in operations() {
            if let ResponseContent::Json(name) | ResponseContent::List(name) = operation.answer {
                assert!(schemas[name].is_object(), "{name}");
            }
        }
    }
}
