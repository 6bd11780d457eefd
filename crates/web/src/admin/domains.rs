//! The page of domains: their modules with the settings, either all of them or those that a visitor
//! looks for.

use rookery_hub::{Module, OptionSpec, Options};
use rookery_operations::Outcome;
use serde_json::Value;

use super::Visit;
use super::users::option;
use crate::api::option_json;
use crate::health::ShownBytes;
use crate::html::Html;
use crate::words::AdminWords;

/// Returns the page with all domains of the administrator.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let words = visit.words();
    let mut html = Html::of("<h1>{}</h1><p class=\"faint\">", &[&words.domains]);
    html.text(words.file_decides, &[]);
    html.add("</p>", &[]);
    let asked = AskedSettings::of(visit);
    html.push(&find(visit, &asked));
    for name in &visit.domains {
        let accounts = &visit.shared.stores.accounts;
        let users = visit.shared.wait(accounts.count(Some(name))).await?;
        let disabled = visit.shared.wait(accounts.count_disabled(name)).await?;
        html.add("<section class=\"card domain\"><h2>{}</h2><p>", &[name]);
        html.text(visit.language.plural(words.accounts_disabled, users), &[&users, &disabled]);
        let encoded = crate::form::encode(name);
        html.add(
            "</p><p><a href=\"/admin/users?domain={}\">{}</a> · <a class=\"records\" href=\"/admin/records?domain={}\">{}</a></p>",
            &[&encoded, &words.users, &encoded, &words.dns_records],
        );
        html.push(&modules(visit, &asked, name));
        html.add("</section>", &[]);
    }
    Ok(html)
}

/// The settings that a request asks for.
struct AskedSettings {
    /// A text in lower case that each setting, or its module, has to contain.
    contains: String,
    /// True if only settings that differ from the default are shown.
    is_changed: bool,
}

impl AskedSettings {
    fn of(visit: &Visit) -> Self {
        let contains = visit.value("search").trim().to_lowercase();
        Self { contains, is_changed: visit.value("only") == CHANGED }
    }

    /// Returns whether the request asks for some of the settings only.
    fn is_narrow(&self) -> bool {
        self.is_changed || !self.contains.is_empty()
    }

    fn is_in(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.contains)
    }
}

/// A setting with its value.
struct ShownSetting {
    spec: OptionSpec,
    value: String,
    /// The value in a larger unit, if it is a size or a duration.
    amount: Option<String>,
    is_changed: bool,
}

/// A module with the settings that are shown.
struct ShownModule {
    module: Box<dyn Module>,
    is_on: bool,
    settings: Vec<ShownSetting>,
}

impl ShownModule {
    /// Returns the part of a module that matches the request; `None` if nothing of it does.
    fn of(visit: &Visit, asked: &AskedSettings, module: Box<dyn Module>, options: Option<&Options>) -> Option<Self> {
        let mut settings = options.map_or_else(Vec::new, |options| settings(visit, &*module, options));
        let is_named = asked.is_in(module.name()) || asked.is_in(module.summary());
        settings.retain(|setting| {
            let is_found = is_named || asked.is_in(setting.spec.key) || asked.is_in(setting.spec.doc);
            is_found && (setting.is_changed || !asked.is_changed)
        });
        let is_shown = !settings.is_empty() || is_named && !asked.is_changed;
        is_shown.then_some(Self { module, is_on: options.is_some(), settings })
    }
}

fn find(visit: &Visit, asked: &AskedSettings) -> Html {
    let words = visit.words();
    let mut html =
        Html::of("<form id=\"find\" class=\"line\" method=\"get\" action=\"/admin/domains\" role=\"search\">", &[]);
    html.add(
        "<label>{} <input id=\"search\" name=\"search\" type=\"search\" value=\"{}\" autocapitalize=\"none\"></label>\
         <label>{} <select name=\"only\">",
        &[&words.contains, &asked.contains, &words.show_only],
    );
    let chosen = if asked.is_changed { CHANGED } else { "" };
    html.push(&option("", words.all_settings, chosen));
    html.push(&option(CHANGED, words.changed_settings, chosen));
    html.add("</select></label><button>{}</button></form>", &[&words.find]);
    html
}

/// Returns the modules of a domain that match the request: first those that are on, then those that
/// are off.
fn modules(visit: &Visit, asked: &AskedSettings, domain: &str) -> Html {
    let words = visit.words();
    let Some(domain) = visit.settings_of(domain) else { return Html::default() };
    let all = rookery_modules::table(&rookery_modules::Shared::default()).into_iter();
    let found = all.filter_map(|module| {
        let options = domain.module(module.name());
        ShownModule::of(visit, asked, module, options)
    });
    let (on, off): (Vec<_>, Vec<_>) = found.partition(|found| found.is_on);
    if on.is_empty() && off.is_empty() {
        return Html::of("<p class=\"faint\">{}</p>", &[&words.none]);
    }
    let mut html = Html::default();
    for (class, heading, group) in [("on", words.modules_on, on), ("off", words.modules_off, off)] {
        if group.is_empty() {
            continue;
        }
        html.add("<h3>{} <span class=\"faint\">{}</span></h3>", &[&heading, &group.len()]);
        html.add(
            "<div class=\"scroll\"><table class=\"modules {}\"><thead><tr><th>{}<th>{}</tr></thead><tbody>",
            &[&class, &words.module, &words.what_it_is],
        );
        for found in &group {
            html.push(&line(visit, asked, found));
        }
        html.add("</tbody></table></div>", &[]);
    }
    html
}

fn line(visit: &Visit, asked: &AskedSettings, found: &ShownModule) -> Html {
    let words = visit.words();
    let mut html = Html::of(
        "<tr><td data-label=\"{}\"><code>{}</code><td><span lang=\"en\">",
        &[&words.module, &found.module.name()],
    );
    html.prose(found.module.summary());
    html.add("</span>", &[]);
    if !found.settings.is_empty() {
        html.push(&table(visit, asked, &found.settings));
    }
    html.add("</tr>", &[]);
    html
}

fn table(visit: &Visit, asked: &AskedSettings, settings: &[ShownSetting]) -> Html {
    let words = visit.words();
    let changed = settings.iter().filter(|setting| setting.is_changed).count() as u64;
    let mut html = Html::of("<details", &[]);
    html.add(if asked.is_narrow() { " open" } else { "" }, &[]);
    html.add("><summary>{}", &[&words.settings]);
    if changed > 0 {
        html.add(" <span class=\"tag on\">{}</span>", &[&visit.language.count(words.not_defaults, changed)]);
    }
    html.add("</summary><table>", &[]);
    for setting in settings {
        html.add(
            "<tr><td data-label=\"{}\"><code>{}</code><td data-label=\"{}\"><code>{}</code>",
            &[&words.key, &setting.spec.key, &words.value, &setting.value],
        );
        if let Some(amount) = &setting.amount {
            html.add(" <span class=\"amount\">{}</span>", &[amount]);
        }
        if setting.is_changed {
            html.add(" <span class=\"tag on\">{}</span>", &[&words.not_default]);
        }
        html.add("<td class=\"faint\" lang=\"en\">", &[]);
        html.prose(setting.spec.doc);
        html.add("</tr>", &[]);
    }
    html.add("</table></details>", &[]);
    html
}

fn settings(visit: &Visit, module: &dyn Module, options: &Options) -> Vec<ShownSetting> {
    let written = |options: &Options, spec: &OptionSpec| match option_json(spec, options) {
        Value::String(text) => text,
        value => value.to_string(),
    };
    let defaults = Options::defaults(module.options());
    let setting = |spec: &OptionSpec| {
        let value = written(options, spec);
        let number = option_json(spec, options).as_u64();
        let amount = number.and_then(|number| amount(visit.words(), spec.key, number));
        let is_changed = value != written(&defaults, spec);
        ShownSetting { spec: *spec, value, amount: amount.map(|amount| visit.language.amount(&amount)), is_changed }
    };
    module.options().iter().map(setting).collect()
}

/// Returns a number in its largest unit, if the key says that it is in bytes or seconds; `None` if
/// no larger unit fits.
fn amount(words: &AdminWords, key: &str, number: u64) -> Option<String> {
    let is_of = |unit| key.split('_').any(|word| word == unit);
    match number {
        _ if is_of("bytes") && number >= 1024 => Some(ShownBytes(number).to_string().replace(".0 ", " ")),
        _ if is_of("seconds") && number >= MINUTE => {
            let units = [(24 * 60 * MINUTE, words.days_sign), (60 * MINUTE, "h"), (MINUTE, "min")];
            let (unit, name) = units.into_iter().find(|(unit, _)| number.is_multiple_of(*unit))?;
            Some(format!("{} {name}", number / unit))
        }
        _ => None,
    }
}

/// The value that asks for changed settings only, in requests.
const CHANGED: &str = "changed";
/// A minute in seconds.
const MINUTE: u64 = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::Language;

    #[test]
    fn sizes_and_durations_have_units() {
        let words = Language::English.of_administrators();
        for (key, number, shown) in [
            ("account_bytes", 268_435_456, Some("256 MiB")),
            ("bytes", 1536, Some("1.5 KiB")),
            ("bytes", 512, None),
            ("cache_seconds", 604_800, Some("7 d")),
            ("seconds", 5400, Some("90 min")),
            ("seconds", 61, None),
            ("most_rooms", 60, None),
        ] {
            assert_eq!(amount(words, key, number).as_deref(), shown, "{key} = {number}");
        }
    }
}
