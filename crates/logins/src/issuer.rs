//! An issuer of tokens, found by its address (OpenID Connect Discovery 1.0 §4, RFC 8414): its keys
//! are read when they are needed, and cached.
//!
//! Known keys serve while newer ones are read and, for a day, while the issuer is unreachable. A
//! token with an unknown key causes another reading, but at most every half minute, so that made-up
//! tokens can't cause a flood of requests to the issuer.
//!
//! # Layout
//!
//! `sign_in`: the sign-in of a browser at the issuer, by a code.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rookery_base::lock::lock;
use rookery_hub::Judgement;
use rookery_tokens::{ShownToken, TokenKeys, end};
use serde_json::{Value, json};
use tokio::sync::Mutex as Turn;
use tracing::{info, warn};

use crate::believed::Believed;
use crate::desk::Away;
use crate::web::{Web, WebAddress};

mod sign_in;

pub use sign_in::IssuerClient;

/// An issuer of tokens, and the terms on which its tokens are believed.
pub struct Issuer {
    believed: Believed,
    discovery: [WebAddress; 2],
    /// The scope that clients are told to request.
    scope: Option<String>,
    client: Option<IssuerClient>,
    /// The time for which a session may outlive its token; `None` for any time.
    session_after: Option<Duration>,
    web: Web,
    known: Mutex<KnownKeys>,
    /// The permit to read the keys, one task at a time.
    reading: Turn<()>,
    pauses: Pauses,
}

/// The times between two readings of the keys.
#[derive(Debug, Clone, Copy)]
struct Pauses {
    usual: Duration,
    after_failure: Duration,
}

/// The keys that were read last.
#[derive(Clone, Default)]
struct KnownKeys {
    keys: Arc<TokenKeys>,
    places: Option<Places>,
    read: Option<Instant>,
    tried: Option<Instant>,
    is_away: bool,
}

/// The endpoints of an issuer for browsers and for codes, if it has them.
#[derive(Debug, Clone)]
struct Places {
    authorization: WebAddress,
    token: WebAddress,
}

impl Issuer {
    /// Returns an issuer; `believed.issuer` is its address. `None` if that is invalid, or if its
    /// answers could be changed in transit (plain HTTP to another machine).
    pub fn new(believed: Believed, scope: Option<String>, web: Web) -> Option<Self> {
        let discovery = discovery(&believed.issuer)?;
        Some(Self {
            believed,
            discovery,
            scope,
            client: None,
            session_after: None,
            web,
            known: Mutex::default(),
            reading: Turn::default(),
            pauses: PAUSES,
        })
    }

    /// Returns the same with our registration as a client, so that browsers can sign in there.
    pub fn with_client(self, client: IssuerClient) -> Self {
        Self { client: Some(client), ..self }
    }

    /// Returns the same with sessions that end this long after their tokens.
    pub fn with_sessions_that_end(self, after: Duration) -> Self {
        Self { session_after: Some(after), ..self }
    }

    /// Returns whether browsers can sign in there.
    pub fn signs_in(&self) -> bool {
        self.client.is_some()
    }

    /// Checks a token.
    ///
    /// # Errors
    /// The reason why the issuer's keys are neither known nor readable, as a text for the log.
    pub async fn judge(self: Arc<Self>, token: &str) -> Result<Judgement, Away> {
        let Ok(token) = ShownToken::read(token) else {
            return Ok(self.refuse("it isn't a JWT with a known algorithm"));
        };
        let keys = self.keys_for(&token).await?;
        let judged = self.believed.claims(&keys, &token);
        match judged.and_then(|claims| Ok((self.believed.user(&claims)?, end(&claims)))) {
            Ok((username, end_s)) => {
                let until_s = end_s.zip(self.session_after).map(|(end_s, more)| end_s.saturating_add(more.as_secs()));
                Ok(Judgement::Good { username: Some(username), until_s })
            }
            Err(why) => Ok(self.refuse(&why)),
        }
    }

    /// Reads the keys, even if they are known.
    ///
    /// # Errors
    /// The reason why there are none, as a text.
    pub async fn probe(&self) -> Result<String, String> {
        let (keys, places) = self.fetch().await?;
        match places {
            None if self.signs_in() => Err(format!("{self}: it doesn't say where browsers sign in")),
            _ => Ok(format!("{keys:?}")),
        }
    }

    /// Refuses a token (RFC 7628 §3.2.2).
    fn refuse(&self, why: &str) -> Judgement {
        info!(issuer = self.believed.issuer, reason = why, "a token was rejected");
        let [place, _] = &self.discovery;
        let mut told = json!({ "status": "invalid_token", "openid-configuration": place.to_string() });
        if let Some(scope) = &self.scope {
            told["scope"] = Value::from(scope.as_str());
        }
        Judgement::Bad { why: told.to_string() }
    }

    /// Returns the keys for checking a token.
    async fn keys_for(self: &Arc<Self>, token: &ShownToken<'_>) -> Result<Arc<TokenKeys>, Away> {
        let known = lock(&self.known).clone();
        let age = known.read.map(|read| read.elapsed());
        if age.is_some_and(|age| age < LONGEST_KNOWN) && known.keys.have(token) {
            if age.is_some_and(|age| age > FRESH) && known.may_try(self.pauses) {
                let issuer = self.clone();
                // A failure logs itself.
                tokio::spawn(async move { drop(issuer.read_again().await) });
            }
            return Ok(known.keys);
        }
        self.read_again().await
    }

    /// Reads the keys, unless that was just done.
    async fn read_again(&self) -> Result<Arc<TokenKeys>, Away> {
        let _turn = self.reading.lock().await;
        let known = lock(&self.known).clone();
        if !known.may_try(self.pauses) {
            return match known.is_away {
                true => Err(format!("the keys of {} could not be read a moment ago", self.believed.issuer)),
                false => Ok(known.keys),
            };
        }
        lock(&self.known).tried = Some(Instant::now());
        // Away until there is an answer: an asker whose patience ends drops this future.
        lock(&self.known).is_away = true;
        match self.fetch().await {
            Ok((keys, places)) => {
                let keys = Arc::new(keys);
                let mut known = lock(&self.known);
                (known.keys, known.places) = (keys.clone(), places);
                (known.read, known.is_away) = (Some(Instant::now()), false);
                Ok(keys)
            }
            Err(error) => {
                warn!(
                    issuer = self.believed.issuer,
                    error, "the keys of an issuer can't be read; the known ones stay in use"
                );
                Err(error)
            }
        }
    }

    /// Reads the address of the keys, and then the keys.
    async fn fetch(&self) -> Result<(TokenKeys, Option<Places>), String> {
        let [usual, other] = &self.discovery;
        let mut answer = self.web.get(usual).await?;
        if answer.status.as_u16() == 404 {
            answer = self.web.get(other).await?;
        }
        if !answer.status.is_success() {
            return Err(format!("{usual}: the status {}", answer.status));
        }
        let said: Value = serde_json::from_slice(&answer.body).map_err(|error| format!("{usual}: {error}"))?;
        let text = |name: &str| said.get(name).and_then(Value::as_str).unwrap_or_default();
        // OpenID Connect Discovery 1.0 §4.3: otherwise one issuer could pose as another.
        if text("issuer") != self.believed.issuer {
            return Err(format!("{usual}: it names the issuer {:?}, not {:?}", text("issuer"), self.believed.issuer));
        }
        let place = WebAddress::read(text("jwks_uri")).ok_or(format!("{usual}: `jwks_uri` isn't an https address"))?;
        let browsers = WebAddress::read(text("authorization_endpoint")).zip(WebAddress::read(text("token_endpoint")));
        let browsers = browsers.map(|(authorization, token)| Places { authorization, token });
        let answer = self.web.get(&place).await?;
        if !answer.status.is_success() {
            return Err(format!("{place}: the status {}", answer.status));
        }
        let keys = TokenKeys::read_published(&answer.body).map_err(|error| format!("{place}: {error}"))?;
        Ok((keys, browsers))
    }
}

impl KnownKeys {
    fn may_try(&self, pauses: Pauses) -> bool {
        let pause = if self.is_away { pauses.after_failure } else { pauses.usual };
        self.tried.is_none_or(|tried| tried.elapsed() >= pause)
    }
}

/// Returns the addresses of an issuer's metadata: that of OpenID Connect, and that of OAuth (RFC
/// 8414 §3.1).
fn discovery(issuer: &str) -> Option<[WebAddress; 2]> {
    WebAddress::read(issuer).filter(|_| !issuer.contains(['?', '#']))?;
    let base = issuer.trim_end_matches('/');
    let (scheme, rest) = base.split_once("://")?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let usual = format!("{base}/.well-known/openid-configuration");
    let other = format!("{scheme}://{host}/.well-known/oauth-authorization-server{path}");
    Some([WebAddress::read(&usual)?, WebAddress::read(&other)?])
}

impl fmt::Display for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.believed.issuer)
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").field("believed", &self.believed).finish_non_exhaustive()
    }
}

/// The age from which keys are read again, and the age above which they aren't trusted.
const FRESH: Duration = Duration::from_secs(3600);
const LONGEST_KNOWN: Duration = Duration::from_secs(86_400);
/// The times between two readings of the keys, which unknown keys can cause.
const PAUSES: Pauses = Pauses { usual: Duration::from_secs(30), after_failure: Duration::from_secs(2) };

#[cfg(test)]
mod tests {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
    use rcgen::KeyPair;
    use rookery_hub::SignIn;
    use rookery_needs::Site;
    use sha2::{Digest, Sha256};

    use super::*;

    /// A signing key of an issuer.
    struct Signer {
        id: String,
        pair: KeyPair,
    }

    impl Signer {
        fn new(id: &str) -> Self {
            Self { id: id.into(), pair: KeyPair::generate().unwrap() }
        }

        fn jwk(&self) -> Value {
            let raw = self.pair.public_key_raw();
            let [x, y] = [&raw[1..33], &raw[33..65]].map(|part| URL_SAFE_NO_PAD.encode(part));
            json!({ "kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig", "alg": "ES256", "x": x, "y": y })
        }

        fn sign(&self, claims: &Value) -> String {
            let header = Header { kid: Some(self.id.clone()), ..Header::new(Algorithm::ES256) };
            encode(&header, claims, &EncodingKey::from_ec_der(&self.pair.serialize_der())).unwrap()
        }
    }

    /// The keys that an issuer publishes; none while it is unreachable.
    type Shown = Arc<Mutex<Option<Vec<Value>>>>;

    fn issuer_of(shown: &Shown) -> (Site, Arc<Issuer>) {
        let (shown, own) = (shown.clone(), Arc::<Mutex<String>>::default());
        let address = own.clone();
        let site = Site::start(move |path, _| {
            let own = lock(&address).clone();
            match (path, &*lock(&shown)) {
                (DISCOVERY, Some(_)) => (200, json!({ "issuer": own, "jwks_uri": format!("{own}/keys") }).to_string()),
                ("/keys", Some(keys)) => (200, json!({ "keys": keys }).to_string()),
                _ => (503, String::new()),
            }
        });
        *lock(&own) = site.url("");
        let believed = Believed {
            issuer: site.url(""),
            audience: vec!["chat".into()],
            claim: "preferred_username".into(),
            domain: "example.org".into(),
        };
        let issuer = Issuer::new(believed, Some("openid".into()), Web::trusting(None).unwrap()).unwrap();
        let pauses = Pauses { usual: Duration::from_secs(600), after_failure: Duration::ZERO };
        (site, Arc::new(Issuer { pauses, ..issuer }))
    }

    fn judge(issuer: &Arc<Issuer>, token: &str) -> Result<Judgement, Away> {
        crate::within(Duration::from_secs(20), issuer.clone().judge(token))
    }

    fn claims(site: &Site) -> Value {
        json!({
            "iss": site.url(""), "aud": ["chat", "other"], "exp": get_current_timestamp() + 600, "sub": "7",
            "preferred_username": "juliet",
        })
    }

    fn juliet() -> Result<Judgement, Away> {
        Ok(Judgement::Good { username: Some("juliet".into()), until_s: None })
    }

    const DISCOVERY: &str = "/.well-known/openid-configuration";

    #[test]
    fn only_tokens_that_the_issuer_made_for_us_are_believed() {
        let signer = Signer::new("a");
        let (site, issuer) = issuer_of(&Arc::new(Mutex::new(Some(vec![signer.jwk()]))));
        assert_eq!(judge(&issuer, &signer.sign(&claims(&site))), juliet());
        let with = |name: &str, value: Value| {
            let mut claims = claims(&site);
            claims[name] = value;
            signer.sign(&claims)
        };
        let now = get_current_timestamp();
        let other = Signer::new("a");
        let secret = EncodingKey::from_secret(&URL_SAFE_NO_PAD.decode(signer.jwk()["x"].as_str().unwrap()).unwrap());
        let confused = Header { kid: Some("a".into()), ..Header::new(Algorithm::HS256) };
        let none = format!(
            "{}.{}.",
            URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#),
            URL_SAFE_NO_PAD.encode(claims(&site).to_string())
        );
        for (what, token) in [
            ("expired", with("exp", json!(now - 600))),
            ("not yet", with("nbf", json!(now + 600))),
            ("for others", with("aud", json!("other"))),
            ("of others", with("iss", json!("https://other.example"))),
            ("without a name", with("preferred_username", Value::Null)),
            ("of another domain", with("preferred_username", json!("juliet@other.example"))),
            ("of another key", other.sign(&claims(&site))),
            ("with a secret that all know", encode(&confused, &claims(&site), &secret).unwrap()),
            ("unsigned", none),
            ("no token", "opaque".into()),
        ] {
            let Ok(Judgement::Bad { why }) = judge(&issuer, &token) else { panic!("believed: {what}") };
            let why: Value = serde_json::from_str(&why).unwrap();
            assert_eq!((&why["status"], &why["scope"]), (&"invalid_token".into(), &"openid".into()), "{what}");
            assert_eq!(why["openid-configuration"], site.url(DISCOVERY));
        }
        assert_eq!((site.count(DISCOVERY), site.count("/keys")), (1, 1), "the keys are read once");
    }

    #[test]
    fn a_session_ends_as_long_after_its_token_as_is_configured() {
        let signer = Signer::new("a");
        let (site, issuer) = issuer_of(&Arc::new(Mutex::new(Some(vec![signer.jwk()]))));
        let issuer = Arc::new(Arc::into_inner(issuer).unwrap().with_sessions_that_end(Duration::from_secs(60)));
        let claims = claims(&site);
        let until_s = claims["exp"].as_u64().map(|end| end + 60);
        let good = Judgement::Good { username: Some("juliet".into()), until_s };
        assert_eq!(judge(&issuer, &signer.sign(&claims)), Ok(good));
    }

    #[test]
    fn an_unknown_key_causes_another_reading_but_not_too_often() {
        let (old, new) = (Signer::new("old"), Signer::new("new"));
        let shown: Shown = Arc::new(Mutex::new(Some(vec![old.jwk()])));
        let (site, issuer) = issuer_of(&shown);
        assert_eq!(judge(&issuer, &old.sign(&claims(&site))), juliet());
        *lock(&shown) = Some(vec![old.jwk(), new.jwk()]);
        for _ in 0..20 {
            let token = new.sign(&claims(&site));
            assert!(matches!(judge(&issuer, &token), Ok(Judgement::Bad { .. })), "they were read a moment ago");
        }
        assert_eq!(site.count("/keys"), 1);
        lock(&issuer.known).tried = None;
        assert_eq!(judge(&issuer, &new.sign(&claims(&site))), juliet());
        assert_eq!(site.count("/keys"), 2);
    }

    #[test]
    fn known_keys_serve_while_the_issuer_is_away() {
        let signer = Signer::new("a");
        let shown: Shown = Arc::new(Mutex::new(None));
        let (site, issuer) = issuer_of(&shown);
        assert!(judge(&issuer, &signer.sign(&claims(&site))).is_err(), "nothing is known yet");
        *lock(&shown) = Some(vec![signer.jwk()]);
        assert_eq!(judge(&issuer, &signer.sign(&claims(&site))), juliet());
        *lock(&shown) = None;
        assert_eq!(judge(&issuer, &signer.sign(&claims(&site))), juliet());
        lock(&issuer.known).tried = None;
        assert!(judge(&issuer, &Signer::new("b").sign(&claims(&site))).is_err(), "nobody knows that key");
        assert_eq!(judge(&issuer, &signer.sign(&claims(&site))), juliet());
    }

    /// OpenID Connect Core 1.0 §3.1, RFC 7636 §4.
    #[test]
    fn a_browser_signs_in_and_its_code_is_redeemed() {
        let signer = Arc::new(Signer::new("a"));
        let own = Arc::<Mutex<String>>::default();
        let (address, key) = (own.clone(), signer.clone());
        let site = Site::start(move |path, body| {
            let own = lock(&address).clone();
            let token = |nonce: &str, audience: &str| {
                let exp = get_current_timestamp() + 600;
                key.sign(
                    &json!({ "iss": own, "aud": audience, "exp": exp, "nonce": nonce, "preferred_username": "juliet" }),
                )
            };
            let given = |name: &str, value: &str| body.split('&').any(|pair| pair == format!("{name}={value}"));
            match path {
                DISCOVERY => {
                    let place = |path: &str| format!("{own}{path}");
                    let said = json!({
                        "issuer": own, "jwks_uri": place("/keys"), "token_endpoint": place("/token"),
                        "authorization_endpoint": place("/authorize?theme=dark"),
                    });
                    (200, said.to_string())
                }
                "/keys" => (200, json!({ "keys": [key.jwk()] }).to_string()),
                "/token" if !given("code_verifier", "the+verifier") || given("code", "wrong") => (400, String::new()),
                "/token" if given("code", "broken") => (500, String::new()),
                "/token" if given("code", "other") => (200, json!({ "id_token": token("other", "us") }).to_string()),
                "/token" if given("code", "them") => (200, json!({ "id_token": token("n", "chat") }).to_string()),
                "/token" => (200, json!({ "id_token": token("n", "us") }).to_string()),
                _ => (404, String::new()),
            }
        });
        *lock(&own) = site.url("");
        let believed = Believed {
            issuer: site.url(""),
            audience: vec!["chat".into()],
            claim: "preferred_username".into(),
            domain: "example.org".into(),
        };
        let issuer = Issuer::new(believed, None, Web::trusting(None).unwrap()).unwrap();
        let issuer = Arc::new(issuer.with_client(IssuerClient { id: "us".into(), secret: Some("s3:cret".into()) }));
        let visit = SignIn {
            back: "https://a.example/back".into(),
            state: "s".into(),
            nonce: "n".into(),
            verifier: "the verifier".into(),
        };
        let patience = Duration::from_secs(20);
        let place = crate::within(patience, issuer.clone().entrance(&visit)).unwrap();
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest("the verifier"));
        let expected = format!(
            "{}&response_type=code&client_id=us&redirect_uri=https%3A%2F%2Fa.example%2Fback&scope=openid+profile+email&state=s&nonce=n\
             &code_challenge={challenge}&code_challenge_method=S256",
            site.url("/authorize?theme=dark")
        );
        assert_eq!(place, expected);
        let redeem = |code: &str| crate::within(patience, issuer.clone().redeem(code, &visit));
        assert_eq!(redeem("right"), juliet());
        for bad in ["wrong", "other", "them"] {
            assert!(matches!(redeem(bad), Ok(Judgement::Bad { .. })), "{bad}");
        }
        assert!(redeem("broken").is_err());
    }

    #[test]
    fn an_issuer_by_another_name_is_not_believed() {
        let site = Site::start(|_, _| {
            (200, json!({ "issuer": "https://id.example.org", "jwks_uri": "http://127.0.0.1:9/" }).to_string())
        });
        let believed = Believed {
            issuer: site.url(""),
            audience: vec!["chat".into()],
            claim: "sub".into(),
            domain: "example.org".into(),
        };
        let issuer = Issuer::new(believed, None, Web::trusting(None).unwrap()).unwrap();
        let why = crate::within(Duration::from_secs(20), issuer.probe()).unwrap_err();
        assert!(why.contains("it names the issuer \"https://id.example.org\""), "{why}");
    }

    #[test]
    fn an_issuer_is_described_at_well_known_addresses() {
        let places = |issuer: &str| discovery(issuer).map(|places| places.map(|place| place.to_string()));
        assert_eq!(
            places("https://id.example.org/realms/a"),
            Some([
                "https://id.example.org/realms/a/.well-known/openid-configuration".to_owned(),
                "https://id.example.org/.well-known/oauth-authorization-server/realms/a".to_owned()
            ])
        );
        assert_eq!(
            places("https://id.example.org/").map(|[usual, _]| usual),
            Some("https://id.example.org/.well-known/openid-configuration".to_owned())
        );
        for bad in ["http://id.example.org", "id.example.org", "https://id.example.org/?a=b", ""] {
            assert_eq!(places(bad), None, "{bad}");
        }
    }
}
