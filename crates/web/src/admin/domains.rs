//! Domains and their modules, with their settings.

use rookery_hub::Module;
use rookery_operations::Outcome;
use serde_json::Value;

use super::Visit;
use crate::api::shown;
use crate::html::Html;

/// Returns the page with all domains of the administrator.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let words = visit.words();
    let mut html = Html::of("<h1>{}</h1><p class=\"faint\">", &[&words.domains]);
    html.text(words.file_decides, &[]);
    html.add("</p>", &[]);
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
        html.push(&modules(visit, name));
        html.add("</section>", &[]);
    }
    Ok(html)
}

fn modules(visit: &Visit, domain: &str) -> Html {
    let words = visit.words();
    let mut html = Html::of(
        "<div class=\"scroll\"><table class=\"modules\"><thead><tr><th>{}<th>{}<th>{}</tr></thead><tbody>",
        &[&words.module, &words.state, &words.what_it_is],
    );
    let Some(domain) = visit.settings_of(domain) else { return html };
    for module in rookery_modules::table(&rookery_modules::Shared::default()) {
        let options = domain.module(module.name());
        let (class, state) = if options.is_some() { ("tag on", words.on) } else { ("tag", words.off) };
        html.add(
            "<tr><td data-label=\"{}\"><code>{}</code><td data-label=\"{}\"><span class=\"{}\">{}</span><td><span lang=\"en\">",
            &[&words.module, &module.name(), &words.state, &class, &state],
        );
        html.prose(module.summary());
        html.add("</span>", &[]);
        if let Some(options) = options.filter(|_| !module.options().is_empty()) {
            html.push(&settings(visit, &*module, options));
        }
        html.add("</tr>", &[]);
    }
    html.add("</tbody></table></div>", &[]);
    html
}

fn settings(visit: &Visit, module: &dyn Module, options: &rookery_hub::Options) -> Html {
    let words = visit.words();
    let written = |options: &rookery_hub::Options, spec| match shown(spec, options) {
        Value::String(text) => text,
        value => value.to_string(),
    };
    let defaults = rookery_hub::Options::defaults(module.options());
    let mut rows = Html::default();
    let mut changed = 0;
    for spec in module.options() {
        let value = written(options, spec);
        rows.add(
            "<tr><td data-label=\"{}\"><code>{}</code><td data-label=\"{}\"><code>{}</code>",
            &[&words.key, &spec.key, &words.value, &value],
        );
        if value != written(&defaults, spec) {
            changed += 1;
            rows.add(" <span class=\"tag on\">{}</span>", &[&words.not_default]);
        }
        rows.add("<td class=\"faint\" lang=\"en\">", &[]);
        rows.prose(spec.doc);
        rows.add("</tr>", &[]);
    }
    let mut html = Html::of("<details><summary>{}", &[&words.settings]);
    if changed > 0 {
        html.add(" <span class=\"tag on\">{}</span>", &[&visit.language.count(words.not_defaults, changed)]);
    }
    html.add("</summary><table>", &[]);
    html.push(&rows);
    html.add("</table></details>", &[]);
    html
}
