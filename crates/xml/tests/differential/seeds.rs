//! Stanzas as clients send them, and a few with features that clients rarely use.

/// A chat message of 288 bytes: body with an entity, chat state, receipt request.
pub const CHAT: &str = concat!(
    "<message to='romeo@montague.example/orchard-7f3a' from='juliet@capulet.example/balcony-19c2' type='chat' ",
    "id='9b2f6a1e-5c1d-4f5e-8a4b-0d3c'><body>Wherefore art thou, Romeo &amp; so?</body>",
    "<active xmlns='http://jabber.org/protocol/chatstates'/><request xmlns='urn:xmpp:receipts'/></message>",
);

/// An occupant's presence as a room sends it.
pub const MUC_PRESENCE: &str = concat!(
    "<presence from='coven@chat.shakespeare.example/thirdwitch' to='crone1@shakespeare.example/desktop' id='3DCB0401'>",
    "<c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='https://client.example' ver='QgayPKawpkPSDYmw='/>",
    "<x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='member' role='participant'/>",
    "<status code='110'/></x></presence>",
);

/// An iq with a roster.
pub const ROSTER: &str = concat!(
    "<iq id='bv1bs71f' to='juliet@example.com/chamber' type='result'><query xmlns='jabber:iq:roster' ver='ver7'>",
    "<item jid='nurse@example.com'/><item jid=\"romeo@example.net\" name='Romeo &lt;3' subscription='both'>",
    "<group>Friends</group><group>Verona</group></item></query></iq>",
);

/// CDATA, references of all kinds, line breaks, text with brackets.
pub const CDATA: &str = concat!(
    "<message\n  type='chat'\tto='a@b.example' xml:lang='en'\r\n><body xml:space='preserve'>a<![CDATA[<b>&amp;]]]]>]",
    "]&gt;\r\n&#65;&#x1F600;&quot;&apos;</body ><subject/></message\n>",
);

/// Text, names and attributes beyond ASCII.
pub const NON_ASCII: &str = concat!(
    "<message to='ромео@монтекки.example/сад' id='é😀' type='groupchat' xml:lang='ru'><body>Зачем же ты Ромео? 🌹 ",
    "彼はロミオ</body><имя атрибут='значение' xmlns='urn:пример'>текст</имя></message>",
);

/// Prefixes declared on the root and on children, used by elements and attributes.
pub const PREFIXES: &str = concat!(
    "<c:message xmlns:c='jabber:client' xmlns:a='urn:a' to='x@y.example' a:to='other'><c:body>hi</c:body>",
    "<a:data xmlns:b='urn:b' b:k='1' k='2' a:k='3'><b:inner xmlns:a='urn:c' a:k='4'/></a:data></c:message>",
);

/// A root that names its namespace, as over WebSocket, with a child in none.
pub const FRAMED: &str = concat!(
    "<presence xmlns='jabber:client' type='unavailable'><status>away</status><x xmlns=''><y xmlns='urn:y'/></x>",
    "<body/></presence>",
);

/// Returns an encrypted message of 2.2 KiB, nearly all of it base64.
pub fn omemo() -> String {
    let base64 = |len: usize, salt: usize| -> String {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        (0..len).map(|at| char::from(alphabet[(at * 31 + at * at * 7 + salt) % 64])).collect()
    };
    let mut stanza = String::from(
        "<message to='romeo@montague.example' type='chat' id='omemo-1'><encrypted xmlns='eu.siacs.conversations.axolotl'><header sid='27183'>",
    );
    for device in 0..7 {
        stanza += &format!("<key rid='{}'>{}</key>", 31415 + device, base64(164, device));
    }
    stanza += &format!("<iv>{}</iv></header><payload>{}</payload></encrypted>", base64(16, 8), base64(647, 9));
    stanza += "<store xmlns='urn:xmpp:hints'/><body>I sent you an OMEMO encrypted message.</body></message>";
    stanza
}

/// Returns all of them.
pub fn all() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> =
        [CHAT, MUC_PRESENCE, ROSTER, CDATA, NON_ASCII, PREFIXES, FRAMED].map(|seed| seed.as_bytes().to_vec()).into();
    seeds.push(omemo().into_bytes());
    seeds
}
