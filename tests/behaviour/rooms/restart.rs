//! Rooms outlive the server's process: a restart in order puts nobody out.

use super::*;

/// The milliseconds that a restart takes.
const AWAY_MS: u64 = 3000;

impl Scene {
    /// Restarts the server; all three come back to their sessions.
    fn over_a_restart(mut self) -> Self {
        self.hush();
        let ids = [&mut self.crone, &mut self.wiccarocks, &mut self.hag].map(Client::enable);
        self.server.hand_over(AWAY_MS);
        for (client, id) in [&mut self.crone, &mut self.wiccarocks, &mut self.hag].into_iter().zip(ids) {
            let mut again = client.again();
            again.resume(client.jid.as_ref().expect("bound"), &id, 0);
            *client = again;
        }
        self
    }
}

#[test]
fn who_is_in_a_room_stays_and_hears_nothing() {
    for fields in ["", "persistentroom=1", "moderatedroom=1 whois=moderators"] {
        let mut s = Scene::configured(fields).all_in();
        say(&mut s.crone, "before");
        s.hush();
        let mut s = s.over_a_restart();
        s.crone_hears(&[]);
        s.wicca_hears(&[]);
        s.hag_hears(&[]);
        say(&mut s.crone, "after");
        for client in [&mut s.crone, &mut s.wiccarocks, &mut s.hag] {
            assert_eq!(client.bodies(), ["after"], "{fields}");
        }
        // Who comes new finds all of them, and what was said before.
        let mut other = s.server.online("other/x");
        join(&mut other, "fourthwitch");
        let heard = other.all();
        let here: Vec<_> = heard.iter().filter(|found| found.name() == "presence").collect();
        assert!(here.len() >= 4, "{fields}: {heard:?}");
        let bodies: Vec<_> = heard.iter().filter_map(|found| found.child_text("body", ns::CLIENT)).collect();
        assert_eq!(bodies, ["before", "after"], "{fields}");
        s.hush();
        // The owner is the owner still, and rights go on.
        assert_eq!(
            administer(&mut s.crone, "set", "<item nick='thirdwitch' role='none'/>").attr("type"),
            Some("result")
        );
        let kicked = s.hag.all();
        assert!(kicked.iter().any(|found| found.attr("type") == Some("unavailable")), "{fields}: {kicked:?}");
    }
}

/// Sessions that can't go on leave before the stop, those whose client doesn't come back when their
/// time is over.
#[test]
fn who_does_not_outlive_the_restart_leaves() {
    let mut s = Scene::opened().all_in();
    s.hush();
    let id = s.crone.enable();
    s.wiccarocks.enable();
    s.server.hand_over(AWAY_MS);
    let mut crone = s.crone.again();
    crone.resume(s.crone.jid.as_ref().expect("bound"), &id, 0);
    let heard = crone.all();
    let gone = |nick: &str, heard: &[Element]| {
        let from = format!("{COVEN}/{nick}");
        heard
            .iter()
            .filter(|found| found.attr("from") == Some(&from) && found.attr("type") == Some("unavailable"))
            .count()
    };
    assert_eq!((gone("thirdwitch", &heard), gone("secondwitch", &heard)), (1, 0), "{heard:?}");
    let mut other = s.server.online("other/x");
    join(&mut other, "fourthwitch");
    other.all();
    s.server.advance(600_000);
    let heard = other.all();
    assert_eq!((gone("thirdwitch", &heard), gone("secondwitch", &heard)), (0, 1), "{heard:?}");
}
