//! Chat apps for the visitor's device.
//!
//! They are links to the sites of free, maintained clients; nothing is loaded from there.

use hyper::header::{HeaderMap, USER_AGENT};

use super::words::Words;
use crate::html::Html;

/// A kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AppDevice {
    Android,
    Ios,
    Windows,
    Mac,
    Linux,
}

impl AppDevice {
    /// Returns the device that a browser names.
    pub fn of(headers: &HeaderMap) -> Self {
        let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        let has = |word: &str| agent.contains(word);
        // A phone also names the system that its own one derives from.
        if has("Android") {
            Self::Android
        } else if has("iPhone") || has("iPad") {
            Self::Ios
        } else if has("Windows") {
            Self::Windows
        } else if has("Macintosh") {
            Self::Mac
        } else {
            Self::Linux
        }
    }

    /// Returns whether the device itself has the camera, so that showing it a code to scan is
    /// pointless.
    pub fn is_phone(self) -> bool {
        matches!(self, Self::Android | Self::Ios)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Android => "Android",
            Self::Ios => "iPhone, iPad",
            Self::Windows => "Windows",
            Self::Mac => "macOS",
            Self::Linux => "Linux",
        }
    }

    /// Returns names and sites of apps, the easiest one first.
    fn apps(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Android => &[
                ("Conversations", "https://conversations.im/"),
                ("Cheogram", "https://cheogram.com/"),
                ("monocles chat", "https://monocles.chat/"),
            ],
            Self::Ios => &[("Monal", "https://monal-im.org/"), ("Siskin", "https://siskin.im/")],
            Self::Windows => &[("Gajim", "https://gajim.org/"), ("Psi", "https://psi-im.org/")],
            Self::Mac => &[("Monal", "https://monal-im.org/"), ("Beagle", "https://beagle.im/")],
            Self::Linux => &[("Dino", "https://dino.im/"), ("Gajim", "https://gajim.org/")],
        }
    }

    const ALL: [Self; 5] = [Self::Android, Self::Ios, Self::Windows, Self::Mac, Self::Linux];
}

/// Returns the apps for a device, and below them those for others.
pub(super) fn card(device: AppDevice, words: &Words) -> Html {
    let mut html = Html::of("<section class=\"card\" id=\"apps\"><h2>", &[]);
    html.add(words.apps_title, &[&device.name()]);
    html.add("</h2><p>{}</p>", &[&words.apps_text]);
    list(&mut html, device);
    html.add("<details><summary>{}</summary>", &[&words.apps_others]);
    for other in AppDevice::ALL.into_iter().filter(|other| *other != device) {
        html.add("<h3>{}</h3>", &[&other.name()]);
        list(&mut html, other);
    }
    html.add("</details></section>", &[]);
    html
}

fn list(html: &mut Html, device: AppDevice) {
    html.add("<ul class=\"apps\">", &[]);
    for (name, site) in device.apps() {
        html.add("<li><a href=\"{}\" rel=\"noopener noreferrer\">{}</a></li>", &[site, name]);
    }
    html.add("</ul>", &[]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_say_where_they_run() {
        for (agent, device) in [
            ("Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36", AppDevice::Android),
            ("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X)", AppDevice::Ios),
            ("Mozilla/5.0 (Windows NT 10.0; Win64; x64)", AppDevice::Windows),
            ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)", AppDevice::Mac),
            ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0)", AppDevice::Linux),
            ("curl/8", AppDevice::Linux),
        ] {
            assert_eq!(AppDevice::of(&[(USER_AGENT, agent.parse().unwrap())].into_iter().collect()), device, "{agent}");
        }
    }
}
