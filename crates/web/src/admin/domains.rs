//! Domains and their modules: what is on, and how it is set.

use rookery_hub::Module;
use rookery_operations::Outcome;
use serde_json::Value;

use super::Visit;
use crate::api::shown;
use crate::html::Html;

/// Returns the page with all domains of the administrator.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let mut html = Html::of(
        "<h1>Domains</h1><p class=\"faint\">The configuration file decides; <code>rookery check</code> looks it over, and SIGHUP has it read again.</p>",
        &[],
    );
    for name in &visit.domains {
        let accounts = &visit.shared.stores.accounts;
        let users = visit.shared.wait(accounts.count(Some(name))).await?;
        let disabled = visit.shared.wait(accounts.count_disabled(name)).await?;
        html.add(
            "<section class=\"card domain\"><h2>{}</h2><p>{} {}, {} of them disabled.</p>",
            &[name, &users, &if users == 1 { "account" } else { "accounts" }, &disabled],
        );
        let encoded = crate::form::encode(name);
        html.add(
            "<p><a href=\"/admin/users?domain={}\">Users</a> · <a class=\"records\" href=\"/admin/records?domain={}\">DNS records</a></p>",
            &[&encoded, &encoded],
        );
        html.push(&modules(visit, name));
        html.add("</section>", &[]);
    }
    Ok(html)
}

fn modules(visit: &Visit, domain: &str) -> Html {
    let mut html = Html::of(
        "<div class=\"scroll\"><table class=\"modules\"><thead><tr><th>Module<th>State<th>What it is, and how it is set</tr></thead><tbody>",
        &[],
    );
    let Some(domain) = visit.settings_of(domain) else { return html };
    for module in rookery_modules::table(&rookery_modules::Shared::default()) {
        let options = domain.module(module.name());
        let (class, state) = if options.is_some() { ("tag on", "on") } else { ("tag", "off") };
        html.add(
            "<tr><td data-label=\"Module\"><code>{}</code><td data-label=\"State\"><span class=\"{}\">{}</span><td>{}",
            &[&module.name(), &class, &state, &module.summary()],
        );
        if let Some(options) = options.filter(|_| !module.options().is_empty()) {
            html.push(&settings(&*module, options));
        }
        html.add("</tr>", &[]);
    }
    html.add("</tbody></table></div>", &[]);
    html
}

fn settings(module: &dyn Module, options: &rookery_hub::Options) -> Html {
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
            "<tr><td data-label=\"Key\"><code>{}</code><td data-label=\"Value\"><code>{}</code>",
            &[&spec.key, &value],
        );
        if value != written(&defaults, spec) {
            changed += 1;
            rows.add(" <span class=\"tag on\">not the default</span>", &[]);
        }
        rows.add("<td class=\"faint\">{}</tr>", &[&spec.doc]);
    }
    let mut html = Html::of("<details><summary>Settings", &[]);
    if changed > 0 {
        html.add(" <span class=\"tag on\">{} not the default</span>", &[&changed]);
    }
    html.add("</summary><table>", &[]);
    html.push(&rows);
    html.add("</table></details>", &[]);
    html
}
