//! XEP-0004: Data Forms, as modules read and write them.
//!
//! An incoming form is parsed into its fields, at most [`MAX_FIELDS`] of them with [`MAX_VALUES`]
//! values in all; a larger form is invalid, so that an excessive form costs no more than its bytes.
//! Instructions, labels and media are ignored: nobody who fills in a form has to send them back.

use rookery_xml::{Element, ns};

/// A data form (XEP-0004 §3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    type_: String,
    title: Option<String>,
    instructions: Option<String>,
    fields: Vec<Field>,
}

/// A field of a form (§3.2).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Field {
    var: String,
    type_: Option<&'static str>,
    label: Option<String>,
    desc: Option<String>,
    is_required: bool,
    values: Vec<String>,
    options: Vec<(String, String)>,
}

impl Form {
    /// Returns an empty form: `form`, `submit`, `result` or `cancel`.
    #[must_use]
    pub fn new(type_: &str) -> Self {
        Self { type_: type_.to_owned(), title: None, instructions: None, fields: Vec::new() }
    }

    /// Returns the same with a title.
    #[must_use]
    pub fn title(mut self, title: &str) -> Self {
        self.title = Some(title.to_owned());
        self
    }

    /// Returns the same with instructions for people.
    #[must_use]
    pub fn instructions(mut self, instructions: &str) -> Self {
        self.instructions = Some(instructions.to_owned());
        self
    }

    /// Returns the same with a hidden field; `FORM_TYPE` names what the fields mean (XEP-0068 §3).
    #[must_use]
    pub fn hidden(self, var: &str, value: &str) -> Self {
        self.field(Field::of_type("hidden", var).value(value))
    }

    /// Returns the same with one more field.
    #[must_use]
    pub fn field(mut self, field: Field) -> Self {
        self.fields.push(field);
        self
    }

    /// Reads the `<x/>` of a form. `None` if it isn't a data form, or has more than [`MAX_FIELDS`]
    /// or [`MAX_VALUES`].
    pub fn read(x: &Element) -> Option<Self> {
        if !x.is("x", ns::DATA_FORMS) {
            return None;
        }
        let mut form = Self::new(x.attr("type").unwrap_or("form"));
        let mut values = 0;
        for child in x.children().filter(|child| child.is("field", ns::DATA_FORMS)) {
            let field = Field::read(child);
            values += field.values.len();
            if form.fields.len() == MAX_FIELDS || values > MAX_VALUES {
                return None;
            }
            form.fields.push(field);
        }
        Some(form)
    }

    /// Returns the form among the children of an element.
    pub fn within(parent: &Element) -> Option<Self> {
        parent.child("x", ns::DATA_FORMS).and_then(Self::read)
    }

    /// Returns its type: `form`, `submit`, `result` or `cancel`.
    pub fn type_(&self) -> &str {
        &self.type_
    }

    /// Returns the type that gives its fields their meaning (XEP-0068 §3).
    pub fn form_type(&self) -> Option<&str> {
        self.value("FORM_TYPE")
    }

    /// Returns its fields in order.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter()
    }

    /// Returns whether it has a field of this name.
    pub fn has(&self, var: &str) -> bool {
        self.get(var).is_some()
    }

    /// Returns the first value of a field.
    pub fn value(&self, var: &str) -> Option<&str> {
        self.get(var)?.values.first().map(String::as_str)
    }

    /// Returns all values of a field; none if it isn't there.
    pub fn values(&self, var: &str) -> impl Iterator<Item = &str> {
        self.get(var).into_iter().flat_map(|field| &field.values).map(String::as_str)
    }

    /// Returns the value of a boolean field (§3.3, `boolean`). `None` without the field or its
    /// value.
    ///
    /// # Errors
    /// The text of the value, which isn't a boolean.
    pub fn boolean(&self, var: &str) -> Option<Result<bool, &str>> {
        self.value(var).map(|value| match value.trim() {
            "1" | "true" => Ok(true),
            "0" | "false" => Ok(false),
            other => Err(other),
        })
    }

    /// Returns the names of the fields that must be filled in.
    pub fn required_fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().filter(|field| field.is_required).map(Field::var)
    }

    fn get(&self, var: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.var == var)
    }

    /// Returns the form as it is sent.
    pub fn element(&self) -> Element {
        let child = |name: &str, text: &str| Element::new(name, ns::DATA_FORMS).with_text(text);
        let mut x = Element::new("x", ns::DATA_FORMS).with_attr("type", &self.type_);
        for (name, text) in [("title", &self.title), ("instructions", &self.instructions)] {
            if let Some(text) = text {
                x.push_child(child(name, text));
            }
        }
        self.fields.iter().for_each(|field| x.push_child(field.element()));
        x
    }
}

impl Field {
    /// Makes a field for one line of text.
    #[must_use]
    pub fn text_single(var: &str) -> Self {
        Self::of_type("text-single", var)
    }

    /// Makes a field for one line of text that clients don't show while it is typed
    /// (`text-private`).
    #[must_use]
    pub fn text_private(var: &str) -> Self {
        Self::of_type("text-private", var)
    }

    /// Makes a field for lines of text.
    #[must_use]
    pub fn text_multi(var: &str) -> Self {
        Self::of_type("text-multi", var)
    }

    /// Makes a field for yes or no (`boolean`).
    #[must_use]
    pub fn boolean(var: &str, value: bool) -> Self {
        Self::of_type("boolean", var).value(if value { "1" } else { "0" })
    }

    /// Makes a field whose value is one JID (XEP-0004 §3.3, `jid-single`).
    #[must_use]
    pub fn jid_single(var: &str) -> Self {
        Self::of_type("jid-single", var)
    }

    /// Makes a field whose value is any number of JIDs (XEP-0004 §3.3, `jid-multi`).
    #[must_use]
    pub fn jid_multi(var: &str) -> Self {
        Self::of_type("jid-multi", var)
    }

    /// Makes a field for one of some options.
    #[must_use]
    pub fn list_single(var: &str) -> Self {
        Self::of_type("list-single", var)
    }

    /// Makes a field for any of some options.
    #[must_use]
    pub fn list_multi(var: &str) -> Self {
        Self::of_type("list-multi", var)
    }

    /// Makes a text for people, not to be filled in.
    #[must_use]
    pub fn fixed(text: &str) -> Self {
        Self::of_type("fixed", "").value(text)
    }

    /// Returns a field without a type, as submitted forms have them.
    #[must_use]
    pub fn plain(var: &str) -> Self {
        Self { var: var.to_owned(), ..Self::default() }
    }

    fn of_type(type_: &'static str, var: &str) -> Self {
        Self { type_: Some(type_), ..Self::plain(var) }
    }

    /// Returns the same with a label.
    #[must_use]
    pub fn label(mut self, label: &str) -> Self {
        self.label = Some(label.to_owned());
        self
    }

    /// Returns the same with a description.
    #[must_use]
    pub fn desc(mut self, desc: &str) -> Self {
        self.desc = Some(desc.to_owned());
        self
    }

    /// Returns the same, marked as one that must be filled in.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// Returns the same with one more value.
    #[must_use]
    pub fn value(mut self, value: &str) -> Self {
        self.values.push(value.to_owned());
        self
    }

    /// Returns the same with more values.
    #[must_use]
    pub fn with_values<S: Into<String>>(mut self, values: impl IntoIterator<Item = S>) -> Self {
        self.values.extend(values.into_iter().map(Into::into));
        self
    }

    /// Returns the same with one more option: the value that is sent, and the label that people
    /// read.
    #[must_use]
    pub fn option(mut self, value: &str, label: &str) -> Self {
        self.options.push((value.to_owned(), label.to_owned()));
        self
    }

    /// Returns its name; empty for fixed text.
    pub fn var(&self) -> &str {
        &self.var
    }

    /// Returns its values in order.
    pub fn all(&self) -> &[String] {
        &self.values
    }

    fn read(element: &Element) -> Self {
        let values = element.children().filter(|child| child.is("value", ns::DATA_FORMS));
        let values = values.map(Element::text).take(MAX_VALUES + 1).collect();
        Self { values, ..Self::plain(element.attr("var").unwrap_or_default()) }
    }

    fn element(&self) -> Element {
        let child = |name: &str| Element::new(name, ns::DATA_FORMS);
        let var = Some(self.var.as_str()).filter(|var| !var.is_empty());
        let mut field = child("field").with_opt_attr("var", var).with_opt_attr("type", self.type_);
        field = field.with_opt_attr("label", self.label.as_deref());
        if let Some(desc) = &self.desc {
            field.push_child(child("desc").with_text(desc));
        }
        if self.is_required {
            field.push_child(child("required"));
        }
        self.values.iter().for_each(|value| field.push_child(child("value").with_text(value)));
        for (value, label) in &self.options {
            let option = child("option").with_opt_attr("label", Some(label).filter(|label| !label.is_empty()));
            field.push_child(option.with_child(child("value").with_text(value)));
        }
        field
    }
}

/// The most fields that a form may have.
pub const MAX_FIELDS: usize = 200;
/// The most values that the fields of a form may have together.
pub const MAX_VALUES: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Form> {
        Form::read(&Element::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn a_submitted_form_is_read() {
        let form = read(
            "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'><value>urn:a</value></field>\
            <field var='on'><value> true </value></field><field var='off'><value>0</value></field>\
            <field var='odd'><value>maybe</value></field><field var='none'/>\
            <field var='two'><value>1</value><value>2 &amp; 3</value></field></x>",
        )
        .unwrap();
        assert_eq!((form.type_(), form.form_type()), ("submit", Some("urn:a")));
        assert_eq!(form.boolean("on"), Some(Ok(true)));
        assert_eq!(form.boolean("off"), Some(Ok(false)));
        assert_eq!(form.boolean("odd"), Some(Err("maybe")));
        assert_eq!((form.boolean("none"), form.has("none"), form.has("other")), (None, true, false));
        assert_eq!(form.values("two").collect::<Vec<_>>(), ["1", "2 & 3"]);
    }

    #[test]
    fn a_written_form_is_read_again() {
        let form = Form::new("form").title("T").instructions("I").hidden("FORM_TYPE", "urn:a");
        let form = form.field(Field::list_single("who").label("Who").desc("D").required().option("a", "A").value("a"));
        let form = form.field(Field::boolean("yes", true)).field(Field::fixed("hello"));
        let element = form.element();
        let again = Form::read(&element).unwrap();
        assert_eq!(
            (again.form_type(), again.value("who"), again.boolean("yes")),
            (Some("urn:a"), Some("a"), Some(Ok(true)))
        );
        let who = element.children().find(|child| child.attr("var") == Some("who")).unwrap();
        assert_eq!((who.attr("type"), who.attr("label")), (Some("list-single"), Some("Who")));
        assert!(who.child("required", ns::DATA_FORMS).is_some() && who.child("option", ns::DATA_FORMS).is_some());
    }

    #[test]
    fn a_form_of_a_thousand_fields_is_invalid() {
        let many = |fields: usize, values: usize| {
            let field = format!("<field var='a'>{}</field>", "<value/>".repeat(values));
            format!("<x xmlns='jabber:x:data' type='submit'>{}</x>", field.repeat(fields))
        };
        assert!(read(&many(MAX_FIELDS, 1)).is_some());
        assert!(read(&many(1000, 1)).is_none());
        assert!(read(&many(2, MAX_VALUES / 2 + 1)).is_none());
        assert!(read("<query xmlns='jabber:x:data'/>").is_none());
    }
}
