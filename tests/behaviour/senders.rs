//! The stanzas that sessions send are counted while somebody watches, for operators who look for
//! the busiest.

use std::sync::mpsc::channel;

use rookery_operations::senders;
use rookery_testkit::{Server, befriend};

/// Returns the busiest sessions with their stanzas, and watches for five seconds.
fn busiest(server: &Server, most: usize) -> Vec<(String, u64)> {
    let (found, finds) = channel();
    server.run_at(0, move |world| {
        senders::busiest(world, most, 5_000, move |_, senders| drop(found.send(senders)));
    });
    let found = finds.try_recv().expect("all shards have answered");
    assert!(!found.is_partial && found.items.iter().all(|sender| sender.bytes > sender.stanzas), "{found:?}");
    found.items.into_iter().map(|sender| (sender.jid.to_string(), sender.stanzas)).collect()
}

#[test]
fn sessions_that_send_most_come_first_while_somebody_watches() {
    let server = Server::new();
    let mut juliet = server.online("juliet/balcony");
    let mut romeo = server.online("romeo/orchard");
    befriend(&mut juliet, &mut romeo);
    assert_eq!(busiest(&server, 2), [], "nothing is counted before");
    for _ in 0..3 {
        romeo.send("<message to='juliet@example.org' type='chat'><body>light</body></message>");
    }
    juliet.send("<message to='romeo@example.org' type='chat'><body>soft</body></message>");
    let (of_romeo, of_juliet) =
        (("romeo@example.org/orchard".to_owned(), 3), ("juliet@example.org/balcony".to_owned(), 1));
    assert_eq!(busiest(&server, 2), [of_romeo.clone(), of_juliet]);
    assert_eq!(busiest(&server, 1), [of_romeo], "no more than were wished for");
    server.advance(6_000);
    assert_eq!(busiest(&server, 2), [], "a new watch begins with nothing");
}
