//! The dialogue on a connection until it waits: the part of SOCKS version 5 (RFC 1928) that
//! XEP-0065 §5.3 uses. There is no authentication: in place of a host's name, clients send the
//! token of the stream that the connection is for.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// SHA-1 of the stream's id, the requester and the target, in hexadecimal digits (XEP-0065 §5.3.2).
pub type SocksToken = [u8; 40];

/// A request to connect: the token, and the other parts that the reply has to repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocksRequest {
    /// The token, in lower case.
    pub token: SocksToken,
    address: SocksToken,
    port: [u8; 2],
}

/// The reply to a request (RFC 1928 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocksReply {
    /// The connection waits to be joined.
    Succeeded = 0,
    /// Two connections with this token wait already.
    NotAllowed = 2,
    /// The text in place of the host's name isn't a token.
    HostUnreachable = 4,
    /// Only the command to connect is supported.
    CommandNotSupported = 7,
    /// Only host names are supported, as a token is one.
    AddressTypeNotSupported = 8,
}

/// Reads a client's request. Refuses it if this relay doesn't support it. At most 519 bytes are
/// read, by the lengths that the protocol allows.
///
/// # Errors
///
/// The error of the connection; [`io::ErrorKind::InvalidData`] for a request that was refused.
pub async fn request<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> io::Result<SocksRequest> {
    greet(stream).await?;
    let [version, command, _, kind] = take(stream).await?;
    if version != VERSION {
        return Err(wrong("it isn't a request of SOCKS version 5"));
    }
    if command != CONNECT {
        refuse(stream, SocksReply::CommandNotSupported).await?;
        return Err(wrong("no CONNECT"));
    }
    if kind != NAME {
        refuse(stream, SocksReply::AddressTypeNotSupported).await?;
        return Err(wrong("no name"));
    }
    let [len] = take(stream).await?;
    let mut name = [0; 255];
    let name = name.get_mut(..usize::from(len)).unwrap_or_default();
    stream.read_exact(name).await?;
    let port = take(stream).await?;
    let token = SocksToken::try_from(&*name).ok().filter(|token| token.iter().all(u8::is_ascii_hexdigit));
    let Some(address) = token else {
        refuse(stream, SocksReply::HostUnreachable).await?;
        return Err(wrong("no token"));
    };
    Ok(SocksRequest { token: address.map(|digit| digit.to_ascii_lowercase()), address, port })
}

/// Replies to a request with the address and port that it names (XEP-0065 §5.3.2). Any port is
/// accepted, since it has no meaning here.
///
/// # Errors
///
/// The error of the connection.
pub async fn reply<S: AsyncWrite + Unpin>(stream: &mut S, request: &SocksRequest, reply: SocksReply) -> io::Result<()> {
    let head = [VERSION, reply as u8, 0, NAME, request.address.len() as u8];
    stream.write_all(&[&head[..], &request.address, &request.port].concat()).await
}

/// Negotiates a method (RFC 1928 §3): of the methods that the client offers, only the one without
/// authentication is acceptable.
async fn greet<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> io::Result<()> {
    let [version, count] = take(stream).await?;
    if version != VERSION {
        return Err(wrong("it isn't a greeting of SOCKS version 5"));
    }
    let mut methods = [0; 255];
    let methods = methods.get_mut(..usize::from(count)).unwrap_or_default();
    stream.read_exact(methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        stream.write_all(&[VERSION, NO_METHOD]).await?;
        return Err(wrong("it doesn't offer to go without authentication"));
    }
    stream.write_all(&[VERSION, NO_AUTHENTICATION]).await
}

/// Replies to a request that has no token: the address is 0.0.0.0.
async fn refuse<S: AsyncWrite + Unpin>(stream: &mut S, reply: SocksReply) -> io::Result<()> {
    stream.write_all(&[VERSION, reply as u8, 0, IPV4, 0, 0, 0, 0, 0, 0]).await
}

async fn take<const N: usize>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
/// A host's name, preceded by its length.
const NAME: u8 = 3;
const IPV4: u8 = 1;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOKEN: &[u8; 40] = b"972b7bf47291ca609517f67f86b5081086052dad";

    /// Returns the request that was read from these bytes, and the bytes of the reply.
    fn hear(said: &[u8]) -> (io::Result<SocksRequest>, Vec<u8>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut client, mut server) = tokio::io::duplex(4096);
            client.write_all(said).await.unwrap();
            client.shutdown().await.unwrap();
            let request = request(&mut server).await;
            if let Ok(request) = &request {
                reply(&mut server, request, SocksReply::Succeeded).await.unwrap();
            }
            drop(server);
            let mut answered = Vec::new();
            client.read_to_end(&mut answered).await.unwrap();
            (request, answered)
        })
    }

    fn connect(command: u8, kind: u8, name: &[u8]) -> Vec<u8> {
        [&[5, 2, 0, 2][..], &[5, command, 0, kind, name.len() as u8], name, &[0, 0]].concat()
    }

    #[test]
    fn a_token_is_read_and_said_again() {
        let (request, answered) = hear(&connect(1, 3, TOKEN));
        assert_eq!(&request.unwrap().token, TOKEN);
        assert_eq!(answered, [&[5, 0, 5, 0, 0, 3, 40][..], TOKEN, &[0, 0]].concat());
        let upper = TOKEN.to_ascii_uppercase();
        let (request, answered) = hear(&connect(1, 3, &upper));
        assert_eq!(&request.unwrap().token, TOKEN);
        assert!(answered.ends_with(&[&upper[..], &[0, 0]].concat()), "as the client wrote it");
    }

    #[test]
    fn what_is_nothing_for_us_is_refused_by_name() {
        let code = |said: &[u8]| {
            let (request, answered) = hear(said);
            assert_eq!(request.unwrap_err().kind(), io::ErrorKind::InvalidData);
            answered
        };
        let refused = |reply: u8| [5, 0, 5, reply, 0, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(code(b"GET / HTTP/1.1\r\n\r\n"), [0_u8; 0], "another protocol");
        assert_eq!(code(&[4, 1, 0, 80, 1, 2, 3, 4, 0]), [0_u8; 0], "version 4");
        assert_eq!(code(&[5, 1, 2]), [5, 0xff], "with a password only");
        assert_eq!(code(&[5, 0]), [5, 0xff], "with nothing");
        assert_eq!(code(&connect(2, 3, TOKEN)), refused(7), "BIND");
        assert_eq!(code(&connect(3, 3, TOKEN)), refused(7), "UDP ASSOCIATE");
        assert_eq!(code(&connect(1, 1, TOKEN)), refused(8), "an IPv4 address");
        for name in [&b""[..], b"localhost", &TOKEN[1..], b"972b7bf47291ca609517f67f86b5081086052daX", &[b'a'; 255]] {
            assert_eq!(code(&connect(1, 3, name)), refused(4), "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_said_ends(said in proptest::collection::vec(any::<u8>(), 0..700), well in any::<bool>()) {
            let said = if well { [&[5, 1, 0, 5, 1, 0, 3][..], &said].concat() } else { said };
            let (_, answered) = hear(&said);
            prop_assert!(answered.len() <= 2 + 47);
        }
    }
}
