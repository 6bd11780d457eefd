//! Forms and their fields. A rejected form keeps its input, with the reason next to the field that
//! it concerns.
//!
//! # Invariants
//!
//! * Nothing that may be a password is kept, or put into a page.
//! * Each field has a label, and the texts about it, hints and mistakes, are tied to it
//!   (`aria-describedby`). The field with the mistake has the focus when the page is loaded.

use super::frame::token;
pub(crate) use super::outcome::{FormAnswered, FormFault, RefusedField};
use super::visits::{FORM, Returned, SECRETS, place};
use super::{PREFIX, Visit};
use crate::form::value;
use crate::html::Html;

/// A form that is being written. It knows the visitor's input if it was refused a moment ago.
#[derive(Clone, Copy)]
pub(crate) struct AdminForm<'a> {
    visit: &'a Visit,
    /// Its id in the page.
    id: &'a str,
}

/// A field of a form, before it is written as HTML.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AdminField<'a> {
    /// The name under which the browser sends it.
    pub name: &'static str,
    /// The label above it, in the visitor's language.
    pub label: &'a str,
    /// Its content, unless other input is shown again.
    pub value: &'a str,
    /// A hint below it; empty for none.
    pub hint: &'a str,
    /// Further attributes of the element, such as `required`.
    pub rules: &'static str,
}

impl<'a> AdminForm<'a> {
    /// Begins a form that posts to a page; `end` ends it.
    pub fn begin(visit: &'a Visit, id: &'a str, class: &str, path: &str, html: &mut Html) -> Self {
        html.add(
            "<form id=\"{}\" class=\"{}\" method=\"post\" action=\"{}{}\"><input type=\"hidden\" name=\"{}\" value=\"{}\">",
            &[&id, &class, &PREFIX, &path, &FORM, &id],
        );
        html.push(&token(&visit.seen));
        Self { visit, id }
    }

    /// Returns the input of this form, if it was refused a moment ago.
    pub fn returned_form(&self) -> Option<&'a Returned> {
        self.visit.notice.as_ref()?.returned.as_ref().filter(|returned| returned.form == self.id)
    }

    /// Returns the input of a field of this form, if it was refused a moment ago.
    fn returned_value(&self, name: &str) -> Option<&'a str> {
        self.returned_form().map(|returned| value(&returned.given, name))
    }

    /// Adds a text field of one line.
    pub fn input(&self, field: AdminField<'_>, html: &mut Html) {
        self.label(&field, html);
        html.add("<input id=\"{}\" name=\"{}\" ", &[&place(self.id, field.name), &field.name]);
        if !SECRETS.contains(&field.name) {
            html.add("value=\"{}\" ", &[&self.returned_value(field.name).unwrap_or(field.value)]);
        }
        self.finish(&field, html);
    }

    /// Adds a text field of several lines.
    pub fn text(&self, field: AdminField<'_>, html: &mut Html) {
        self.label(&field, html);
        html.add("<textarea id=\"{}\" name=\"{}\" ", &[&place(self.id, field.name), &field.name]);
        self.attributes(&field, html);
        html.add(">{}</textarea>", &[&self.returned_value(field.name).unwrap_or(field.value)]);
        self.remarks(&field, html);
    }

    /// Adds a choice; options are values with their labels.
    pub fn choice(&self, field: AdminField<'_>, options: &[(&str, &str)], html: &mut Html) {
        let chosen = self.returned_value(field.name).unwrap_or(field.value);
        self.label(&field, html);
        html.add("<select id=\"{}\" name=\"{}\" ", &[&place(self.id, field.name), &field.name]);
        self.attributes(&field, html);
        html.add(">", &[]);
        for (value, label) in options {
            match *value == chosen {
                true => html.add("<option value=\"{}\" selected>{}</option>", &[value, label]),
                false => html.add("<option value=\"{}\">{}</option>", &[value, label]),
            }
        }
        html.add("</select>", &[]);
        self.remarks(&field, html);
    }

    /// Adds a switch, by its name and label. It is [`YES`] if it is on, and isn't sent otherwise.
    pub fn check(&self, (name, label): (&str, &str), is_on: bool, html: &mut Html) {
        let id = place(self.id, name);
        let is_on = self.returned_value(name).map_or(is_on, |typed| typed == YES);
        html.add(
            "<div class=\"field check\"><input id=\"{}\" name=\"{}\" type=\"checkbox\" value=\"{}\"",
            &[&id, &name, &YES],
        );
        html.add(if is_on { " checked" } else { "" }, &[]);
        html.add("><label for=\"{}\">{}</label></div>", &[&id, &label]);
    }

    /// Adds the choice of a domain, if there are several.
    pub fn domain(&self, chosen: &str, html: &mut Html) {
        let domains = &self.visit.domains;
        if let [domain] = &domains[..] {
            html.add("<input type=\"hidden\" name=\"domain\" value=\"{}\">", &[domain]);
            return;
        }
        let options: Vec<_> = domains.iter().map(|domain| (domain.as_str(), domain.as_str())).collect();
        self.choice(
            AdminField { name: "domain", label: self.visit.words().domain, value: chosen, ..AdminField::default() },
            &options,
            html,
        );
    }

    fn label(&self, field: &AdminField<'_>, html: &mut Html) {
        html.add("<div class=\"field\"><label for=\"{}\">{}</label>", &[&place(self.id, field.name), &field.label]);
    }

    fn finish(&self, field: &AdminField<'_>, html: &mut Html) {
        self.attributes(field, html);
        html.add(">", &[]);
        self.remarks(field, html);
    }

    /// Adds the attributes of a field's element that don't depend on its kind.
    fn attributes(&self, field: &AdminField<'_>, html: &mut Html) {
        let id = place(self.id, field.name);
        let is_wrong = self.mistake(field).is_some();
        match (field.hint.is_empty(), is_wrong) {
            (true, false) => {}
            (false, false) => html.add("aria-describedby=\"{}-hint\" ", &[&id]),
            (true, true) => html.add("aria-describedby=\"{}-mistake\" ", &[&id]),
            (false, true) => html.add("aria-describedby=\"{}-mistake {}-hint\" ", &[&id, &id]),
        }
        if is_wrong {
            html.add("aria-invalid=\"true\" autofocus ", &[]);
        }
        html.add(field.rules, &[]);
    }

    /// Adds the hint and the mistake of a field, and ends it.
    fn remarks(&self, field: &AdminField<'_>, html: &mut Html) {
        let id = place(self.id, field.name);
        if let Some(words) = self.mistake(field) {
            html.add("<p id=\"{}-mistake\" class=\"mistake\">", &[&id]);
            html.prose(words);
            html.add("</p>", &[]);
        }
        if !field.hint.is_empty() {
            html.add("<p id=\"{}-hint\" class=\"hint\">{}</p>", &[&id, &field.hint]);
        }
        html.add("</div>", &[]);
    }

    fn mistake(&self, field: &AdminField<'_>) -> Option<&'a str> {
        let returned = self.returned_form().filter(|returned| returned.field == Some(field.name))?;
        Some(&returned.words)
    }
}

/// The value of a switch that is on.
pub(crate) const YES: &str = "yes";
