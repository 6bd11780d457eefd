// Starts Converse.js with what the page says of this server.
const { bosh, ...settings } = JSON.parse(document.body.dataset.settings);

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

window.converse.initialize({
  ...settings,
  ...(bosh && !(await gets_through()) ? { bosh_service_url: `${location.origin}/http-bind` } : { websocket_url }),
  view_mode: "fullscreen",
  authentication: "login",
  // The page knows the way; nobody else is asked for it.
  discover_connection_methods: false,
  show_connection_url_input: false,
  auto_away: 300,
  // What a link would show of itself is loaded only when somebody asks for it.
  muc_show_ogp_unfurls: false,
});
