// Starts Converse.js with what the page says of this server.
const { bosh, server, ...settings } = JSON.parse(document.body.dataset.settings);

const websocket_url = `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}/ws`;

// Some proxies on the way let no WebSocket through.
const gets_through = () =>
  new Promise((resolve) => {
    if (!window.WebSocket) return resolve(false);
    const socket = new WebSocket(websocket_url, "xmpp");
    const end = (result) => {
      clearTimeout(patience);
      socket.close();
      resolve(result);
    };
    const patience = setTimeout(end, 5000, false);
    socket.onopen = () => end(true);
    socket.onerror = () => end(false);
  });

// The page is the server's: its name and picture stand where the client has its own, its links and
// its sponsors' pictures, which the page's policy wouldn't load. An element that is there already
// is left alone by the client.
const define = (name, fill) => customElements.define(name, class extends HTMLElement { connectedCallback() { this.replaceChildren(...fill()); } });
define("converse-brand-logo", () => {
  const picture = Object.assign(new Image(64, 64), { src: "/logo", alt: "" });
  picture.style.objectFit = "contain";
  const name = document.createElement("h1");
  name.textContent = server;
  name.style.cssText = "font-size: 1.75rem; margin: .75rem 0 1.5rem; overflow-wrap: anywhere";
  const brand = document.createElement("div");
  brand.style.cssText = "text-align: center; padding-top: 2rem";
  brand.append(picture, name);
  return [brand];
});
define("converse-footer", () => {
  const made = Object.assign(document.createElement("a"), { href: "https://conversejs.org/", rel: "noopener noreferrer", target: "_blank", textContent: "Converse.js" });
  const footer = document.createElement("p");
  footer.style.cssText = "text-align: center; font-size: .85rem; margin-top: 2rem";
  footer.append(made);
  return [footer];
});
define("converse-controlbox-navbar", () => []);

// A connection that is lost makes the client log in again at once, and once more three seconds later,
// which ends a login that waits for a node of the cluster to take over. With an open connection there
// is nothing to be tried again: the server closes a login that takes too long.
//
// The client also gives up a session that it has resumed once, with the messages that wait in it, when
// the connection is lost again. It may resume it as often as it likes (XEP-0198 §5).
window.converse.plugins.add("rookery", {
  initialize() {
    const { _converse } = this;
    const { api } = _converse;
    api.listen.on("connectionInitialized", () => {
      const connection = api.connection.get();
      const has_socket = () => connection._proto?.socket?.readyState === WebSocket.OPEN;
      const reconnect = connection.reconnect.bind(connection);
      let later;
      connection.reconnect = () => {
        _converse.session?.save("smacks_resumed", false);
        return reconnect();
      };
      connection.debouncedReconnect = () => {
        clearTimeout(later);
        later = setTimeout(() => has_socket() || connection.reconnect(), 3000);
      };
    });
  },
});

window.converse.initialize({
  ...settings,
  ...(bosh && !(await gets_through()) ? { bosh_service_url: `${location.origin}/http-bind` } : { websocket_url }),
  whitelisted_plugins: ["rookery"],
  view_mode: "fullscreen",
  authentication: "login",
  // The page knows the way; nobody else is asked for it.
  discover_connection_methods: false,
  show_connection_url_input: false,
  // The name of the account will do in rooms; nobody is asked for another one twice.
  muc_nickname_from_jid: true,
  auto_away: 300,
  // The preview of a link is loaded only when somebody asks for it.
  muc_show_ogp_unfurls: false,
});
