//! Lines of two comma-separated fields (RFC 4180), an account and its password.
//!
//! A field never contains a line break, since neither an address nor a password can; so a line is a
//! record, and a mistake in one can't swallow the next ones.

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub enum CsvLine {
    /// An empty line.
    Blank,
    /// The names of the columns.
    Head,
    /// An account with its password.
    Account {
        /// Its address as written.
        jid: String,
        /// The password, with quotation marks resolved.
        password: String,
    },
}

/// Parses a line without its end.
///
/// # Errors
///
/// A message, if it doesn't have two fields.
pub fn line(text: &str) -> Result<CsvLine, String> {
    if text.trim().is_empty() {
        return Ok(CsvLine::Blank);
    }
    let mut fields = fields(text)?;
    match (fields.pop(), fields.pop(), fields.pop()) {
        (Some(password), Some(jid), None) => {
            let jid = jid.trim();
            if jid.eq_ignore_ascii_case("jid") && password.trim().eq_ignore_ascii_case("password") {
                return Ok(CsvLine::Head);
            }
            Ok(CsvLine::Account { jid: jid.to_owned(), password })
        }
        (Some(_), None, _) => Err("there is no comma; a line is `jid,password`".to_owned()),
        _ => Err("there are more than two fields; a password with a comma goes in double quotes".to_owned()),
    }
}

fn fields(text: &str) -> Result<Vec<String>, String> {
    let mut fields = Vec::new();
    let mut rest = text;
    loop {
        let (field, behind) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => {
                rest.split_once(',').map_or((rest.to_owned(), None), |(field, rest)| (field.to_owned(), Some(rest)))
            }
        };
        fields.push(field);
        match behind {
            Some(behind) => rest = behind,
            None => return Ok(fields),
        }
    }
}

/// Parses a field after its opening quote, and returns it with the rest after the comma.
fn quoted_field(text: &str) -> Result<(String, Option<&str>), String> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let (before, behind) = rest.split_once('"').ok_or("a double quote isn't closed")?;
        field.push_str(before);
        match behind.strip_prefix('"') {
            // Two quotes stand for one.
            Some(behind) => {
                field.push('"');
                rest = behind;
            }
            None if behind.is_empty() => return Ok((field, None)),
            None => {
                let behind = behind.strip_prefix(',').ok_or("something follows a closing double quote")?;
                return Ok((field, Some(behind)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(jid: &str, password: &str) -> Result<CsvLine, String> {
        Ok(CsvLine::Account { jid: jid.into(), password: password.into() })
    }

    #[test]
    fn fields_may_be_quoted() {
        assert_eq!(line("a@b,secret"), account("a@b", "secret"));
        assert_eq!(line("\"a@b\",\"with, comma and \"\"quotes\"\"\""), account("a@b", "with, comma and \"quotes\""));
        assert_eq!(line(" a@b , spaces count "), account("a@b", " spaces count "));
        assert_eq!(line("a@b,\"\""), account("a@b", ""));
        assert_eq!(line("a@b,in\"side"), account("a@b", "in\"side"));
    }

    #[test]
    fn other_lines_are_told_apart() {
        assert_eq!(line("  "), Ok(CsvLine::Blank));
        assert_eq!(line("JID,password"), Ok(CsvLine::Head));
        for wrong in ["a@b", "a@b,c,d", "a@b,\"open", "a@b,\"x\"y"] {
            assert!(line(wrong).is_err(), "{wrong}");
        }
    }
}
