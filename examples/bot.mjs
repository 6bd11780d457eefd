// A bot in JavaScript, over a WebSocket: an account that replies to messages, and speaks in rooms
// when it is spoken to.
//
//     npm install @xmpp/client ws
//     rookery user add clock@localhost
//     PASSWORD=… node bot.mjs clock@localhost garden@conference.localhost
//
// It tells the time. SERVICE is the address of the server's WebSocket, by default wss://DOMAIN/ws.
// In addition to its own certificates, Node trusts those in the file that NODE_EXTRA_CA_CERTS
// names, such as the data folder's certs/self-signed.pem.

import { client, jid, xml } from "@xmpp/client";
import { WebSocket } from "ws";

globalThis.WebSocket ??= WebSocket;
const NICK = "clock";
const [account, ...rooms] = process.argv.slice(2);
const { local, domain } = jid(account);
const service = process.env.SERVICE ?? `wss://${domain}/ws`;
const xmpp = client({ service, domain, username: local, password: process.env.PASSWORD });

// The library reconnects after a loss, and the bot enters its rooms again.
xmpp.on("online", async (address) => {
  await xmpp.send(xml("presence"));
  for (const room of rooms) await xmpp.send(xml("presence", { to: `${room}/${NICK}` }, xml("x", "http://jabber.org/protocol/muc")));
  console.log(`${address} is there`);
});

xmpp.on("stanza", async (stanza) => {
  const { from, type } = stanza.attrs;
  const body = stanza.getChildText("body");
  const now = `${new Date().toISOString().slice(11, 16)} UTC`;
  const say = (to, text) => xmpp.send(xml("message", { to, type }, xml("body", {}, text)));
  if (stanza.is("message") && type === "groupchat") {
    const [room, nick] = [from.split("/")[0], from.split("/").slice(1).join("/")];
    if (nick && nick !== NICK && body?.includes(NICK)) await say(room, `${nick}: ${now}`);
  } else if (stanza.is("message") && type !== "error" && type !== "headline" && body) {
    await say(from, now);
  } else if (stanza.is("presence") && stanza.getChild("x")?.getChildren("status").some((status) => status.attrs.code === "201")) {
    // The room is new: the bot owns it, and accepts its default configuration (XEP-0045 §10.1.2).
    const form = xml("x", { xmlns: "jabber:x:data", type: "submit" });
    const query = xml("query", "http://jabber.org/protocol/muc#owner", form);
    await xmpp.send(xml("iq", { to: from.split("/")[0], type: "set", id: "open" }, query));
  }
});

xmpp.on("error", (error) => {
  console.error(error.message);
  if (error.name === "SASLError") process.exit(1);
});

await xmpp.start();
