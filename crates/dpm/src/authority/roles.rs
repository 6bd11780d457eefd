//! The file that defines who may set which devices: TOML, with tables `[[role]]` and `[[user]]`.
//!
//! A role is a list of principals and a list of devices: a client in that role may set those
//! devices. A user has classes, and may without a role set the devices that have one of them in
//! their `protection`. The user's number identifies the user in the control system's log of
//! settings. `*` in a name stands for any characters.

use serde::Deserialize;
use toml::Spanned;

use crate::database::{DeviceRecord, Mistake, line};

/// The roles and users. By default nothing may be set.
#[derive(Debug, Default)]
pub struct Roles {
    roles: Vec<Role>,
    users: Vec<RolesUser>,
}

#[derive(Debug)]
struct Role {
    name: String,
    principals: Vec<NamePattern>,
    devices: Vec<NamePattern>,
}

#[derive(Debug)]
struct RolesUser {
    principal: NamePattern,
    classes: u32,
    /// The user's number on consoles.
    number: i32,
}

impl Roles {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// The first mistake in it, with its line and field.
    pub fn read(text: &str) -> Result<Self, Mistake> {
        let file: RolesFile = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line(text, &span));
            Mistake { line, field: String::new(), what: error.message().to_owned() }
        })?;
        let wrong = |value: &Spanned<String>, field: &str, what: &str| Mistake {
            line: line(text, &value.span()),
            field: field.to_owned(),
            what: what.to_owned(),
        };
        let principal = |value: Spanned<String>, field: &str| {
            let is_one =
                value.get_ref().split_once('@').is_some_and(|(name, realm)| !name.is_empty() && !realm.is_empty());
            if is_one { Ok(NamePattern::of(value.get_ref())) } else { Err(wrong(&value, field, PRINCIPAL)) }
        };
        let mut roles: Vec<Role> = Vec::new();
        for row in file.role {
            if row.name.get_ref().is_empty()
                || roles.iter().any(|role| role.name.eq_ignore_ascii_case(row.name.get_ref()))
            {
                return Err(wrong(&row.name, "role.name", "a name that no other role has"));
            }
            let principals = row.principals.into_iter().map(|value| principal(value, "role.principals"));
            let device = |value: Spanned<String>| {
                let is_one = value.get_ref().len() > 2 && value.get_ref().as_bytes().get(1) == Some(&b':')
                    || value.get_ref() == "*";
                let upper = value.get_ref().to_ascii_uppercase();
                if is_one { Ok(NamePattern::of(&upper)) } else { Err(wrong(&value, "role.devices", DEVICE)) }
            };
            roles.push(Role {
                principals: principals.collect::<Result<_, _>>()?,
                devices: row.devices.into_iter().map(device).collect::<Result<_, _>>()?,
                name: row.name.into_inner(),
            });
        }
        let users = file.user.into_iter().map(|row| {
            let principal = principal(row.principal, "user.principal")?;
            Ok(RolesUser { principal, classes: row.classes, number: row.number })
        });
        Ok(Self { users: users.collect::<Result<_, Mistake>>()?, roles })
    }

    /// Returns whether a principal, in a role or in none, may set a device.
    pub fn allow(&self, principal: &str, role: Option<&str>, device: &DeviceRecord) -> bool {
        let by_role = role.is_some_and(|name| {
            self.roles.iter().any(|role| {
                role.name.eq_ignore_ascii_case(name)
                    && role.principals.iter().any(|pattern| pattern.matches(principal))
                    && role.devices.iter().any(|pattern| pattern.matches(&device.name))
            })
        });
        let in_class = |user: &RolesUser| user.classes & device.protection != 0 && user.principal.matches(principal);
        by_role || self.users.iter().any(in_class)
    }

    /// Returns true if a principal may set a device in one of its roles, or in none.
    pub fn allow_in_any(&self, principal: &str, device: &DeviceRecord) -> bool {
        let mut roles = self.roles.iter().map(|role| role.name.as_str());
        self.allow(principal, None, device) || roles.any(|role| self.allow(principal, Some(role), device))
    }

    /// Returns the console user number of a principal, as in the control system's log of settings;
    /// 0 if it is unknown.
    pub fn console_user(&self, principal: &str) -> i32 {
        let mut numbers = self.users.iter().filter(|user| user.principal.matches(principal)).map(|user| user.number);
        numbers.find(|number| *number != 0).unwrap_or_default()
    }

    /// Returns the number of roles.
    pub fn len(&self) -> usize {
        self.roles.len()
    }

    /// Returns whether nothing may be set, because there are no roles and no user has a class.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.users.iter().all(|user| user.classes == 0)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RolesFile {
    #[serde(default)]
    role: Vec<RoleRow>,
    #[serde(default)]
    user: Vec<UserRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleRow {
    name: Spanned<String>,
    principals: Vec<Spanned<String>>,
    devices: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserRow {
    principal: Spanned<String>,
    #[serde(default)]
    classes: u32,
    #[serde(default)]
    number: i32,
}

/// A name in which `*` stands for any number of characters.
#[derive(Debug)]
struct NamePattern(Vec<String>);

impl NamePattern {
    fn of(text: &str) -> Self {
        Self(text.split('*').map(str::to_owned).collect())
    }

    fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = self.0.as_slice() else {
            return self.0.first().is_some_and(|whole| whole == text);
        };
        let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
        for part in middle {
            // The earliest match leaves the most text for the other parts.
            let Some(at) = rest.find(part.as_str()) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last.as_str())
    }
}

const PRINCIPAL: &str = "a principal such as operator@EXAMPLE.ORG; * stands for anything";
const DEVICE: &str = "a device such as M:OUTTMP; * stands for anything";

#[cfg(test)]
mod tests {
    use super::{NamePattern, Roles};

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, text, expected) in [
            ("Z:CUBE_X", "Z:CUBE_X", true),
            ("Z:CUBE_X", "Z:CUBE_XY", false),
            ("Z:*", "Z:CUBE_X", true),
            ("Z:*", "B:CUBE", false),
            ("*", "", true),
            ("*_X", "Z:CUBE_X", true),
            ("Z:*B*X", "Z:CUBE_X", true),
            ("Z:*X*X", "Z:CUBE_X", false),
            ("Z:C*C", "Z:C", false),
            ("", "Z", false),
        ] {
            assert_eq!(NamePattern::of(pattern).matches(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn console_users_have_numbers_which_allow_nothing() {
        let file = "[[user]]\nprincipal = '*@X'\nclasses = 1\n[[user]]\nprincipal = 'a@X'\nnumber = 7";
        let roles = Roles::read(file).expect("good roles");
        assert_eq!(["a@X", "b@X", "a@Y"].map(|principal| roles.console_user(principal)), [7, 0, 0]);
        assert!(!roles.is_empty());
        assert!(Roles::read("[[user]]\nprincipal = 'a@X'\nnumber = 7").expect("good roles").is_empty());
    }

    #[test]
    fn mistakes_name_line_and_field() {
        for (text, line, field) in [
            ("[[role]]\nname = 'a'\nprincipals = ['operator']\ndevices = []", 3, "role.principals"),
            ("[[role]]\nname = 'a'\nprincipals = []\ndevices = ['Z']", 4, "role.devices"),
            ("[[role]]\nname = ''\nprincipals = []\ndevices = []", 2, "role.name"),
            ("[[user]]\nprincipal = '@X'\nclasses = 1", 2, "user.principal"),
            ("[[user]]\nprincipal = 'a@X'\nclasses = -1", 3, ""),
            ("[[user]]\nprincipal = 'a@X'\nnumber = '7'", 3, ""),
            ("\n[[users]]", 2, ""),
        ] {
            let mistake = Roles::read(text).expect_err("a mistake");
            assert_eq!((mistake.line, mistake.field.as_str()), (line, field), "{mistake}");
        }
    }
}
