// Somebody loses a connection, or reloads a page, and resumes the session; messages that were sent
// meanwhile arrive.
//
//     node resume.mjs xmppjs|strophe|stanza ADDRESS
//
// Exits with 0 if everything worked.

import { WebSocket } from "ws";
import { Request } from "./request.mjs";

globalThis.WebSocket ??= WebSocket;
globalThis.XMLHttpRequest ??= Request;
const [library, address] = process.argv.slice(2);

const libraries = {
  // The library does stream management (XEP-0198) by itself.
  async xmppjs() {
    const { client, xml } = await import("@xmpp/client");
    const person = async (username) => {
      const xmpp = client({ service: address, domain: "localhost", username, password: "secret", resource: "web" });
      xmpp.on("error", () => {});
      const heard = mailbox();
      xmpp.on("stanza", (stanza) => stanza.is("message") && stanza.getChild("body") && heard.put(stanza.getChildText("body")));
      await xmpp.start();
      await xmpp.send(xml("presence"));
      return { xmpp, heard, say: (to, body) => xmpp.send(xml("message", { to, type: "chat" }, xml("body", {}, body))) };
    };
    const [alice, bob] = [await person("alice"), await person("bob")];
    const jid = alice.xmpp.jid.toString();
    if (!alice.xmpp.streamManagement.enabled) await new Promise((resolve) => alice.xmpp.streamManagement.on("enabled", resolve));
    const resumed = new Promise((resolve) => alice.xmpp.streamManagement.on("resumed", resolve));
    alice.xmpp.socket.socket.close();
    await bob.say(jid, "are you there?");
    await resumed;
    if (alice.xmpp.jid.toString() !== jid) fail("another address");
    expect(await alice.heard.take(), "are you there?");
    await alice.say(bob.xmpp.jid.toString(), "yes");
    expect(await bob.heard.take(), "yes");
  },

  // Resumes by stream management over a WebSocket, and over BOSH with the old page's session.
  async stanza() {
    const { createClient } = await import("stanza");
    const isBosh = !address.startsWith("ws");
    const client = (jid, transports, more) => {
      const stanza = createClient({ jid, resource: "web", transports, ...more });
      const heard = mailbox();
      stanza.on("message", (message) => message.body && heard.put(message.body));
      return { stanza, heard, say: (to, body) => stanza.sendMessage({ to, body, type: "chat" }) };
    };
    const person = async (user) => {
      const transports = isBosh ? { websocket: false, bosh: address } : { websocket: address, bosh: false };
      const person = client(`${user}@localhost`, transports, { password: "secret", autoReconnect: true });
      const started = new Promise((resolve) => person.stanza.once("session:started", resolve));
      person.stanza.connect();
      await started;
      person.stanza.sendPresence();
      return person;
    };
    let [alice, bob] = [await person("alice"), await person("bob")];
    const { jid } = alice.stanza;
    await alice.say(bob.stanza.jid, "wait");
    expect(await bob.heard.take(), "wait");
    if (isBosh) {
      const { rid, sid } = alice.stanza.transport;
      alice.stanza.transport.isEnded = true;
      alice = client(jid, { websocket: false, bosh: address }, { autoReconnect: false });
      alice.stanza.transports.bosh = class extends alice.stanza.transports.bosh {
        connect(options) {
          super.connect({ ...options, rid, sid });
        }
      };
      alice.stanza.on("stream:end", () => fail("the session is gone"));
      alice.stanza.connect();
      // The old page's request still waits, and gets its response when a newer one arrives.
      await alice.say(bob.stanza.jid, "here again");
      expect(await bob.heard.take(), "here again");
      await bob.say(jid, "are you there?");
    } else {
      const resumed = new Promise((resolve) => alice.stanza.once("stream:management:resumed", resolve));
      alice.stanza.on("session:end", () => fail("the session is gone"));
      alice.stanza.transport.socket.close();
      await bob.say(jid, "are you there?");
      await resumed;
    }
    expect(await alice.heard.take(), "are you there?");
    await alice.say(bob.stanza.jid, "yes");
    expect(await bob.heard.take(), "yes");
  },

  // Does the same with another library. A BOSH session isn't tied to a connection: its id and the
  // number of the next request suffice.
  async strophe() {
    const { Strophe, $msg, $pres } = await import("strophe.js");
    const listen = (connection, heard) =>
      connection.addHandler((message) => {
        const body = message.getElementsByTagName("body")[0];
        if (body) heard.put(body.textContent);
        return true;
      }, null, "message");
    const online = (connection, user, left = () => {}) =>
      new Promise((resolve) => {
        connection.connect(`${user}@localhost/web`, "secret", (status, reason) => {
          if (status === Strophe.Status.CONNECTED) resolve();
          if (status === Strophe.Status.DISCONNECTED) left();
          if (status === Strophe.Status.CONNFAIL || status === Strophe.Status.AUTHFAIL) fail(reason ?? status);
        });
      });
    const person = async (user, left) => {
      const connection = new Strophe.Connection(address, { enableStreamManagement: address.startsWith("ws") });
      const heard = mailbox();
      listen(connection, heard);
      await online(connection, user, left);
      connection.send($pres());
      return { connection, heard };
    };
    const say = (connection, to, body) => connection.send($msg({ to, type: "chat" }).c("body").t(body));
    let left;
    const gone = new Promise((resolve) => (left = resolve));
    const [alice, bob] = [await person("alice", left), await person("bob")];
    say(alice.connection, bob.connection.jid, "wait");
    expect(await bob.heard.take(), "wait");
    const { jid } = alice.connection;
    if (address.startsWith("ws")) {
      alice.connection._proto.socket.close();
      await gone;
      say(bob.connection, jid, "are you there?");
      // The library drops listeners with the connection.
      listen(alice.connection, alice.heard);
      await online(alice.connection, "alice");
      if (!alice.connection.hasResumed()) fail("the session is gone");
      expect(await alice.heard.take(), "are you there?");
      say(alice.connection, bob.connection.jid, "yes");
      return expect(await bob.heard.take(), "yes");
    }
    // The person leaves the page.
    alice.connection.pause();
    const { sid, rid } = alice.connection._proto;
    alice.connection._proto._abortAllRequests();
    say(bob.connection, jid, "are you there?");
    const again = new Strophe.Connection(address);
    const heard = mailbox();
    listen(again, heard);
    again.attach(jid, sid, rid, (status) => {
      if (status === Strophe.Status.DISCONNECTED || status === Strophe.Status.CONNFAIL) fail("the session is gone");
    });
    expect(await heard.take(), "are you there?");
    say(again, bob.connection.jid, "yes");
    expect(await bob.heard.take(), "yes");
  },
};

function fail(why) {
  console.error(why);
  process.exit(1);
}

function mailbox() {
  const [waiting, mails] = [[], []];
  return {
    put: (body) => (waiting.length ? waiting.shift()(body) : mails.push(body)),
    take: () => (mails.length ? mails.shift() : new Promise((resolve) => waiting.push(resolve))),
  };
}

function expect(found, wanted) {
  if (found !== wanted) fail(`expected ${wanted}, not ${found}`);
}

// This limit measures nothing: it ends a scenario that would wait for ever.
setTimeout(() => fail("nothing happens any more"), 60_000).unref();
process.on("unhandledRejection", fail);

await libraries[library]();
process.exit(0);
