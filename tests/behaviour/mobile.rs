//! Features for phones: streams that outlive their connection (XEP-0198), quiet while nobody looks
//! (XEP-0352). Section numbers are those of the standards.

mod acks;
mod client_state;
mod custody;
mod cuts;
mod fast;
mod push;
mod resumption;
mod sasl2;

use rookery_testkit::{Client, Server};

/// Somebody who writes, and somebody with stream management; their homes are different shards.
struct MobileScene {
    server: Server,
    juliet: Client,
    romeo: Client,
    /// The id by which romeo resumes.
    id: String,
}

impl MobileScene {
    fn new() -> Self {
        Self::on(Server::new())
    }

    fn on(server: Server) -> Self {
        let [juliet, romeo] = [("juliet", 0), ("romeo", 1)].map(|(stem, at)| server.name_at(stem, at));
        let juliet = server.login(&format!("{juliet}/balcony")).with_name("juliet");
        let mut romeo = server.online(&format!("{romeo}/orchard")).with_name("romeo");
        let id = romeo.enable();
        Self { server, juliet, romeo, id }
    }

    /// Lets Juliet write to romeo's account.
    fn write(&mut self, bodies: &[&str]) {
        for body in bodies {
            let to = self.romeo.bare().to_owned();
            self.juliet.send(&format!("<message to='{to}' type='chat'><body>{body}</body></message>"));
        }
        self.juliet.pump();
    }

    /// Lets Romeo come back over a new connection, and returns it with the number of stanzas that
    /// the server has handled.
    fn resume(&self, handled: u32) -> (Client, u32) {
        let mut romeo = self.romeo.again();
        let h = romeo.resume(self.romeo.jid.as_ref().expect("bound"), &self.id, handled);
        (romeo, h)
    }
}
