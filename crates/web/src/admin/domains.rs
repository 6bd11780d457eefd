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
        "<h1>Domains</h1><p class=\"faint\">The configuration file decides; `rookery check` looks it over, and SIGHUP has it read again.</p>",
        &[],
    );
    for name in &visit.domains {
        let accounts = &visit.shared.stores.accounts;
        let users = visit.shared.wait(accounts.count(Some(name))).await?;
        let disabled = visit.shared.wait(accounts.count_disabled(name)).await?;
        html.add(
            "<section class=\"card domain\"><h2>{}</h2><p>{} accounts, {} of them disabled. <a href=\"/admin/users?domain={}\">Users</a></p>",
            &[name, &users, &disabled, &crate::form::encode(name)],
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
            "<tr><td><code>{}</code><td><span class=\"{}\">{}</span><td>{}",
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
    let mut html = Html::of("<details><summary>Settings</summary><table>", &[]);
    for spec in module.options() {
        let value = match shown(spec, options) {
            Value::String(text) => text,
            value => value.to_string(),
        };
        html.add(
            "<tr><td><code>{}</code><td><code>{}</code><td class=\"faint\">{}</tr>",
            &[&spec.key, &value, &spec.doc],
        );
    }
    html.add("</table></details>", &[]);
    html
}
