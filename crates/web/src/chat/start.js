// Starts Converse.js with what the page says of this server.
const { bosh, ...settings } = JSON.parse(document.body.dataset.settings);

const scheme = location.protocol === "https:" ? "wss:" : "ws:";

window.converse.initialize({
  ...settings,
  websocket_url: `${scheme}//${location.host}/ws`,
  // Where no WebSocket gets through.
  ...(bosh && { bosh_service_url: `${location.origin}/http-bind` }),
  view_mode: "fullscreen",
  authentication: "login",
  // The page knows the way; nobody else is asked for it.
  discover_connection_methods: false,
  show_connection_url_input: false,
  auto_away: 300,
  // What a link would show of itself is loaded only when somebody asks for it.
  muc_show_ogp_unfurls: false,
});
