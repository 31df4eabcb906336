//! Access control: the API key, and the name by which clients address this machine.

use crate::request_error::{ErrorType, RequestError, Result};
use axum::http::{HeaderMap, StatusCode, Version, header};
use chumoku::tr;
use std::net::IpAddr;

/// Refuses a request without the correct key, if there is a key.
pub(crate) fn check_key(key: Option<&str>, headers: &HeaderMap) -> Result<()> {
    let Some(key) = key else { return Ok(()) };
    let given = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
    let given = given.and_then(|value| {
        let (scheme, token) = value.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
    });
    let message = match given {
        Some(given) if constant_time_eq(given, key.as_bytes()) => return Ok(()),
        Some(_) => tr!("the key is wrong", "キーが違います"),
        None => tr!(
            "a key is needed: send the header Authorization: Bearer KEY",
            "キーが必要です。ヘッダー Authorization: Bearer キー を付けてください"
        ),
    };
    Err(RequestError::new(StatusCode::UNAUTHORIZED, ErrorType::Unauthorized, message))
}

/// Compares two keys in a time that does not depend on where they differ.
fn constant_time_eq(given: &[u8], key: &[u8]) -> bool {
    let mut differs = given.len() ^ key.len();
    for (at, byte) in key.iter().enumerate() {
        let other = given.get(at).copied().unwrap_or(0);
        differs |= usize::from(std::hint::black_box(byte ^ other));
    }
    std::hint::black_box(differs) == 0
}

/// Refuses a request to a host name other than this machine's own, if only this machine is served. Otherwise a web page
/// whose name resolves to this machine could send requests from the browser (DNS rebinding).
pub(crate) fn check_host(own: &str, headers: &HeaderMap) -> Result<()> {
    let Some(host) = headers.get(header::HOST) else { return Ok(()) };
    let name = host.to_str().ok().and_then(host_name);
    if name.is_some_and(|name| is_own_name(name, own)) {
        return Ok(());
    }
    Err(RequestError::new(
        StatusCode::FORBIDDEN,
        ErrorType::Validation,
        tr!(
            "the Host header names another machine, but this service accepts only requests from this machine: use localhost or 127.0.0.1",
            "Host ヘッダーが別のマシンの名前です。このサービスはこのマシンからだけ使えます。localhost か 127.0.0.1 を指定してください"
        ),
    ))
}

/// Requires exactly one Host header, as RFC 9112 (3.2) does: a proxy may have checked another one, or none. Before
/// HTTP/1.1 the header is optional.
pub(crate) fn check_one_host(version: Version, headers: &HeaderMap) -> Result<()> {
    match headers.get_all(header::HOST).iter().count() {
        0 if version >= Version::HTTP_11 => Err(RequestError::malformed(tr!(
            "the request has no Host header, which HTTP/1.1 requires: send one",
            "Host ヘッダーがありません。HTTP/1.1 では必要です"
        ))),
        0 | 1 => Ok(()),
        _ => Err(RequestError::malformed(tr!(
            "the request has two Host headers: send one",
            "Host ヘッダーが 2 つあります。1 つだけ送ってください"
        ))),
    }
}

/// Refuses transfer codings other than a single `chunked`, as RFC 9112 (6.1) requires. Otherwise the service would take
/// compressed bytes for text.
pub(crate) fn check_coding(version: Version, headers: &HeaderMap) -> Result<()> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter().peekable();
    if codings.peek().is_none() {
        return Ok(());
    }
    if version < Version::HTTP_11 {
        return Err(RequestError::malformed(tr!(
            "the request has a Transfer-Encoding header, which HTTP/1.0 does not support: send Content-Length",
            "HTTP/1.0 では Transfer-Encoding ヘッダーを使えません。Content-Length を送ってください"
        )));
    }
    let codings: Vec<&[u8]> = codings.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).collect();
    match codings[..] {
        [only] if only.trim_ascii().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(RequestError::new(
            StatusCode::NOT_IMPLEMENTED,
            ErrorType::Validation,
            tr!(
                "the body has an unsupported transfer coding: send it unencoded, or with Transfer-Encoding: chunked",
                "本文の転送コーディングに対応していません。そのまま送るか、Transfer-Encoding: chunked だけを使ってください"
            ),
        )),
    }
}

/// Returns the name in a Host header without its port, or `None` if the header is malformed.
fn host_name(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']')?;
            (address, if rest.is_empty() { "" } else { rest.strip_prefix(':')? })
        }
        None => host.rsplit_once(':').unwrap_or((host, "")),
    };
    port.bytes().all(|byte| byte.is_ascii_digit()).then_some(name)
}

/// Returns the Host header in a form that is safe to show on a page: a name or address with an optional port.
pub(crate) fn shown_host(headers: &HeaderMap) -> Option<&str> {
    let host = headers.get(header::HOST)?.to_str().ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let name = host_name(host)?;
    (!name.is_empty() && host.bytes().all(is_plain)).then_some(host)
}

fn is_own_name(name: &str, own: &str) -> bool {
    let is_loopback = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_loopback || name.eq_ignore_ascii_case("localhost") || name.eq_ignore_ascii_case(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_the_exact_key_is_accepted() {
        let with = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
            check_key(Some("secret"), &headers).is_ok()
        };
        assert!(with("Bearer secret") && with("bearer secret"));
        let wrong = ["Bearer secre", "Bearer secrets", "Bearer Secret", "Bearer ", "Basic secret", "secret", ""];
        assert!(wrong.iter().all(|value| !with(value)));
        assert!(check_key(Some("secret"), &HeaderMap::new()).is_err());
        assert!(check_key(None, &HeaderMap::new()).is_ok());
    }

    #[test]
    fn other_host_names_are_refused() {
        let host = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(value));
            check_host("box.local", &headers).is_ok()
        };
        assert!(
            ["localhost", "localhost:3000", "127.0.0.1:1", "127.9.9.9", "[::1]:3000", "BOX.local:3"]
                .map(host)
                .iter()
                .all(|ok| *ok)
        );
        assert!(
            ["evil.example", "evil.example:3000", "127.0.0.1.evil.example", "10.0.0.1", "", ":3000"]
                .map(host)
                .iter()
                .all(|ok| !*ok)
        );
        // A name is followed by a port or nothing.
        let odd =
            ["localhost:evil.example", "[::1]evil.example", "[::1]:3000.evil.example", "[::1", "localhost:3000@x"];
        assert!(odd.map(host).iter().all(|ok| !*ok));
    }

    #[test]
    fn bodies_are_chunked_or_unencoded() {
        let of = |version, values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::TRANSFER_ENCODING, HeaderValue::from_static(value));
            }
            check_coding(version, &headers).map_err(|refusal| refusal.status.as_u16())
        };
        for plain in [&[][..], &["chunked"], &[" Chunked "]] {
            assert_eq!(of(Version::HTTP_11, plain), Ok(()), "{plain:?}");
        }
        for coded in
            [&["gzip, chunked"][..], &["gzip", "chunked"], &["gzip"], &["chunked, chunked"], &[""], &["identity"]]
        {
            assert_eq!(of(Version::HTTP_11, coded), Err(501), "{coded:?}");
        }
        assert_eq!(of(Version::HTTP_10, &["chunked"]), Err(400));
    }

    #[test]
    fn exactly_one_host_header_is_required() {
        let mut headers = HeaderMap::new();
        assert!(check_one_host(Version::HTTP_10, &headers).is_ok());
        assert!(check_one_host(Version::HTTP_11, &headers).is_err());
        headers.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!(check_one_host(Version::HTTP_11, &headers).is_ok());
        assert_eq!(shown_host(&headers), Some("localhost"));
        headers.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!([Version::HTTP_10, Version::HTTP_11].iter().all(|version| check_one_host(*version, &headers).is_err()));
        for odd in ["a\"b", "<b>", "", ":80", "a b"] {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(odd))]);
            assert_eq!(shown_host(&headers), None, "{odd}");
        }
    }
}
