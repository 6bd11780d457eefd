// Two people log in with one library, both over WebSocket or both over BOSH, depending on the
// address; one writes, and the other replies.
//
//     node chat.mjs LIBRARY ADDRESS
//
// Passwords are "secret". Exits with 0 if everything worked.

import { WebSocket } from "ws";
import { Request } from "./request.mjs";

globalThis.WebSocket ??= WebSocket;
globalThis.XMLHttpRequest ??= Request;
const [library, address] = process.argv.slice(2);

// Each library logs in as USER and calls `heard(from, body)` for every message. Returns the
// functions that send a message and log out.
const libraries = {
  async xmppjs(user, heard) {
    const { client, xml } = await import("@xmpp/client");
    const xmpp = client({ service: address, domain: "localhost", username: user, password: "secret", resource: "web" });
    xmpp.reconnect.stop();
    xmpp.on("error", fail);
    xmpp.on("stanza", (stanza) => {
      if (stanza.is("message") && stanza.getChild("body")) heard(stanza.attrs.from, stanza.getChildText("body"));
    });
    await xmpp.start();
    await xmpp.send(xml("presence"));
    return {
      jid: xmpp.jid.toString(),
      say: (to, body) => xmpp.send(xml("message", { to, type: "chat" }, xml("body", {}, body))),
      leave: () => xmpp.stop(),
    };
  },

  async strophe(user, heard) {
    const { Strophe, $msg, $pres } = await import("strophe.js");
    const connection = new Strophe.Connection(address);
    connection.addHandler((message) => {
      const body = message.getElementsByTagName("body")[0];
      if (body) heard(message.getAttribute("from"), body.textContent);
      return true;
    }, null, "message");
    let left;
    const gone = new Promise((resolve) => (left = resolve));
    await new Promise((resolve) => {
      connection.connect(`${user}@localhost/web`, "secret", (status, reason) => {
        if (status === Strophe.Status.CONNECTED) resolve();
        if (status === Strophe.Status.DISCONNECTED) left();
        if (status === Strophe.Status.CONNFAIL || status === Strophe.Status.AUTHFAIL) fail(reason ?? status);
      });
    });
    connection.send($pres());
    return {
      jid: connection.jid,
      say: (to, body) => connection.send($msg({ to, type: "chat" }).c("body").t(body)),
      leave: () => (connection.disconnect("bye"), gone),
    };
  },

  async stanza(user, heard) {
    const { createClient } = await import("stanza");
    const client = createClient({
      jid: `${user}@localhost`,
      password: "secret",
      resource: "web",
      autoReconnect: false,
      transports: address.startsWith("ws") ? { websocket: address, bosh: false } : { websocket: false, bosh: address },
    });
    client.on("message", (message) => message.body && heard(message.from, message.body));
    client.on("stream:error", fail);
    const started = new Promise((resolve) => client.on("session:started", resolve));
    const gone = new Promise((resolve) => client.on("disconnected", resolve));
    client.connect();
    await started;
    client.sendPresence();
    return {
      jid: client.jid,
      say: (to, body) => client.sendMessage({ to, body, type: "chat" }),
      leave: () => (client.disconnect(), gone),
    };
  },
};

function fail(why) {
  console.error(why);
  process.exit(1);
}

function mailbox() {
  const waiting = [];
  const mails = [];
  return {
    put: (from, body) => (waiting.length ? waiting.shift()({ from, body }) : mails.push({ from, body })),
    take: () => (mails.length ? mails.shift() : new Promise((resolve) => waiting.push(resolve))),
  };
}

function expect(mail, from, body) {
  if (mail.from !== from || mail.body !== body) fail(`expected ${body} from ${from}, not ${JSON.stringify(mail)}`);
}

// This limit measures nothing: it ends a scenario that would wait for ever.
setTimeout(() => fail("nothing happens any more"), 60_000).unref();
process.on("unhandledRejection", fail);

const [atAlice, atBob] = [mailbox(), mailbox()];
const alice = await libraries[library]("alice", atAlice.put);
const bob = await libraries[library]("bob", atBob.put);
const body = "Wherefore art thou <Romeo> & \u{1f339}?";
await alice.say(bob.jid, body);
expect(await atBob.take(), alice.jid, body);
await bob.say("alice@localhost", "x".repeat(100_000));
expect(await atAlice.take(), bob.jid, "x".repeat(100_000));
await alice.leave();
await bob.leave();
process.exit(0);
