//! Examples that appear below the help of commands.

pub(super) const ALL: &str = "\
Examples:
  rookery                           start the server; the first start sets it up
  rookery setup example.org         a server for your domain: DNS, certificate
  rookery user add alice@localhost  add an account, asking for its password
  rookery config example --short    print a configuration to start from
  rookery check                     check that everything is as it should be";

pub(super) const ALL_WITH_CODES: &str = "\
Examples:
  rookery                           start the server; the first start sets it up
  rookery setup example.org         a server for your domain: DNS, certificate
  rookery user add alice@localhost  add an account, asking for its password
  rookery config example --short    print a configuration to start from
  rookery check                     check that everything is as it should be

Exit codes:
  0    fine
  1    failed; standard error says why
  2    invalid arguments
  3    `rookery check` has warnings
  75   a port, the database or the like isn't available now; try again later
  78   configuration, certificate, data folder or database can't be used as is";

pub(super) const SERVE: &str = "\
Examples:
  rookery serve
  rookery serve --config /etc/rookery/rookery.toml --data-dir /var/lib/rookery

SIGTERM or SIGINT stops the server; SIGHUP makes it reload its configuration and certificates.";

pub(super) const SETUP: &str = "\
Examples:
  rookery setup example.org --dry-run      print what would be done
  rookery setup example.org --admin anna --wait
  rookery setup example.org --data-dir /srv/rookery

As root on a system with systemd, it creates /etc/rookery/rookery.toml, /var/lib/rookery, a unit and the user \
rookery; otherwise everything is in the data folder. An existing configuration is left alone.";

pub(super) const STATUS: &str = "\
Examples:
  rookery status
  rookery status --json | jq .sessions

Exit code 1: no server is running in the data folder.";

pub(super) const RELOAD: &str = "\
Examples:
  rookery check --quiet; rookery reload

Exit code 1: the configuration or a certificate is wrong and nothing has changed, or no server is running.";

pub(super) const LOG: &str = "\
Examples:
  rookery log --level warn
  rookery log --follow --account alice@example.org
  rookery log level rookery_shard::negotiation debug --for 10m
  rookery log --json | jq -r .message

The server keeps its newest lines in memory, up to 2 MiB; the journal, or the file to which standard error is \
redirected, has all of them. A reader that is too slow is told how many lines were left out.";

pub(super) const TOP: &str = "\
Examples:
  rookery top
  rookery top --by sessions --limit 10
  rookery top --once --by modules
  rookery top --json | jq .rates.messages

On a terminal the page is redrawn every second until Ctrl+C; elsewhere, pages are printed one after another. Lists of \
sessions and rooms are computed for each page; the last line says what watching costs the server.";

pub(super) const PROFILE: &str = "\
Examples:
  rookery profile --seconds 30
  rookery profile --output before.pb.gz && go tool pprof -top before.pb.gz
  rookery profile compare before.pb.gz after.pb.gz --output difference.svg

The first profile uses about 200 MB of the server's memory, of which it keeps about half.";

pub(super) const DOCTOR: &str = "\
Examples:
  rookery doctor
  rookery doctor --json | jq '.findings[] | select(.grade != \"ok\")'

It watches for a second, and reads what was counted in the last ten minutes. It also says what is fine, with the \
numbers. Exit code 3: something needs attention. `rookery check` checks what a start needs: configuration, \
certificates, ports, the database.";

pub(super) const SLOW: &str = "\
Examples:
  rookery slow
  rookery slow --json

The threshold is slow_ms in [instruments]. The newest 256 events are kept; /metrics counts all of them, by kind, as \
rookery_slow_total.";

pub(super) const TRACE: &str = "\
Examples:
  rookery trace alice@example.org
  rookery trace garden@conference.example.org --stanzas 20 --contents
  rookery trace example.net --seconds 600 --json

Without --contents, what people write isn't shown. Every trace is noted in the action log, with the user who \
started it. A stanza, its copies, its response and the error that comes back have one number. In a cluster, a trace \
shows what this node does; other nodes give a stanza the same number.";

pub(super) const SESSION: &str = "\
Examples:
  rookery session list
  rookery session list alice@example.org --json
  rookery session end alice@example.org/phone

A session without an address has lost its connection and waits for its client. IDLE SECONDS have
passed since the client last sent a stanza, or since the session began.";

pub(super) const ROOM: &str = "\
Examples:
  rookery room list example.org
  rookery room show garden@conference.example.org
  rookery room destroy garden@conference.example.org --reason \"It has moved\"";

pub(super) const USER: &str = "\
Examples:
  rookery user add alice@example.org
  rookery user list example.org
  rookery user show alice@example.org
  rookery user disable mallory@example.org";

pub(super) const ADMIN: &str = "\
Examples:
  rookery admin add alice@example.org
  rookery admin add alice@example.org --domain example.net
  rookery admin list";

pub(super) const ADD: &str = "\
Examples:
  rookery user add alice@example.org
  pwgen 20 1 | rookery user add bot@example.org --password-stdin";

pub(super) const PASSWD: &str = "\
Examples:
  rookery user passwd alice@example.org
  rookery user passwd bot@example.org --password-stdin < password.txt

The new password applies from the next login on.";

pub(super) const REMOVE: &str = "\
Examples:
  rookery user remove alice@example.org
  rookery user remove --yes alice@example.org

This also removes contacts, offline messages and everything else that belongs to the account. At a terminal, the \
command asks first.";

pub(super) const LIST: &str = "\
Examples:
  rookery user list
  rookery user list example.org | wc -l";

pub(super) const IMPORT: &str = "\
Examples:
  rookery user import accounts.csv
  rookery user import everybody.xml
  rookery user import --from /var/lib/prosody/prosody.sqlite --schema prosody
  rookery user import --from postgres://ejabberd@db/ejabberd \\
    --schema ejabberd --domain example.org
  rookery user import --from mysql://ejabberd@db/ejabberd --schema ejabberd --domain example.org

A file of accounts:
  jid,password
  alice@example.org,correct horse battery staple
  bob@example.org,\"with, comma and \"\"quotes\"\"\"";

pub(super) const INVITE: &str = "\
Examples:
  rookery user invite example.org
  rookery user invite alice@example.org --days 2
  rookery user reset-link alice@example.org

The link is printed to standard output, and clients can open it. Requires the module `register`.";

pub(super) const EXPORT: &str = "\
Examples:
  rookery user export alice@example.org alice.xml
  rookery user export example.org everybody.xml";

pub(super) const BACKUP: &str = "\
Examples:
  rookery backup /backup/rookery.tar.gz
  rookery backup \"/backup/rookery-$(date +%F).tar.gz\" &&
    find /backup -name 'rookery-*' -mtime +30 -delete
  rookery backup - | ssh host 'cat > rookery.tar.gz'

The file contains every key, and data from which passwords can be guessed: keep it as secret as the data folder. An \
existing file of that name is replaced once the new one is complete and verified.";

pub(super) const RESTORE: &str = "\
Examples:
  rookery restore /backup/rookery.tar.gz
  rookery restore --replace /backup/rookery.tar.gz
  rookery --data-dir /srv/rookery restore /backup/rookery.tar.gz
  rookery restore --to postgres://rookery@db1/rookery /backup/rookery.tar.gz
  ssh host cat rookery.tar.gz | rookery restore -

Stop the server first. What was outside of the data folder, such as certificates, is put into DATA/restored.
The database goes where the configuration says: yours, or if there is none, that of the backup.";

pub(super) const STORE: &str = "\
Examples:
  rookery store copy --to sqlite:/srv/rookery/rookery.db
  rookery store verify --from sqlite:old/rookery.db --to sqlite:new/rookery.db
  rookery store migrate --dry-run

Exit code of verify: 0 if the two are identical, 1 if they differ.";

pub(super) const MIGRATE: &str = "\
Examples:
  rookery store migrate --dry-run
  rookery store migrate --sql > steps.sql
  rookery store migrate

Make a backup first: of older servers, only the previous release can use a database that a newer one has changed.";

pub(super) const S2S: &str = "\
Examples:
  rookery s2s example.net        DNS, TLS, certificate, login: step by step
  rookery s2s example.net --from conference.example.org
  rookery s2s list
  rookery s2s close example.net  the next stanza opens a new stream

Exit code with a domain: 0 if it was reached, 1 if not. `list` and `close` ask the running server.";

pub(super) const TOKEN: &str = "\
Examples:
  rookery token add dashboard --scope statistics:read
  rookery token add helpdesk --scope users:read,users:write --domain example.org
  rookery token revoke helpdesk

The token is printed to standard output. Only its hash is stored.";

pub(super) const WEB: &str = "\
Examples:
  rookery web install
  rookery web install --from converse.js-14.0.0.tgz

Without --from, npm downloads the package from its registry; without npm, rookery downloads it from the registry \
that npm_config_registry names.";

pub(super) const CONFIG: &str = "\
Examples:
  rookery config example --short > rookery-data/rookery.toml
  rookery config example | less
  rookery config show --given
  rookery config diff";

pub(super) const CONFIG_SHOW: &str = "\
Examples:
  rookery config show | grep upload
  rookery config show --given --json
  rookery config show --changed

Secrets, and passwords in URLs, are shown as ***.";

pub(super) const CONFIG_DIFF: &str = "\
Examples:
  rookery config diff && rookery reload

Exit code 1: no server is running in the data folder, or its configuration is wrong; see `rookery check`.";

pub(super) const CHECK: &str = "\
Examples:
  rookery check
  rookery check --dns
  rookery check --outside --name-server 9.9.9.9
  rookery check --outside --via jabber.org
  rookery check --live
  rookery check --quiet --json | jq -r .findings[].text
  rookery check --config new.toml || [ $? = 3 ] &&
    mv new.toml /etc/rookery/rookery.toml

Exit codes:
  0    everything is fine
  3    the server will start, but something needs attention
  75   the server can't start now: a port or the database isn't available
  78   the server won't start until something is fixed
With --live: 0 if the server is ready, 75 if it isn't or none is running.";
