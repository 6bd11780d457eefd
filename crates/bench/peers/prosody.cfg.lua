-- Prosody for a comparison: its fastest network backend and collector, no rate limits, nothing that other servers don't do either (archive,
-- personal eventing, stream management), accounts with SCRAM-SHA-1 and 4096 iterations as everywhere.
-- @...@ is filled in by `rookery bench peers`.

run_as_root = true
data_path = "@FOLDER@/data"
certificates = "@FOLDER@"
pidfile = "@FOLDER@/prosody.pid"
log = { { levels = { min = "warn" }, to = "file", filename = "@FOLDER@/log" } }

network_backend = "epoll"
network_settings = { tcp_backlog = 4096, nagle = false }
gc = { mode = "generational" }

interfaces = { "127.0.0.1" }
c2s_ports = { @PORT@ }
c2s_direct_tls_ports = {}
s2s_ports = {}
http_ports = { @WEB@ }
http_interfaces = { "127.0.0.1" }
consider_bosh_secure = true
consider_websocket_secure = true
https_ports = {}
c2s_require_encryption = false
c2s_stanza_size_limit = 10485760

authentication = "internal_hashed"
password_hash = "SHA-1"
default_iteration_count = @ITERATIONS@
storage = "internal"
allow_registration = true

modules_enabled = { "roster", "saslauth", "disco", "ping", "version", "register", "private", "vcard_legacy",
    "http", "bosh", "websocket" }
modules_disabled = { "s2s", "tls" }

VirtualHost "@DOMAIN@"
Component "conference.@DOMAIN@" "muc"
