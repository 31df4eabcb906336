//! The page at `/`, with views for one text, two texts, a translation, text generation and tables.
//!
//! The page is one file with its style sheet and script. Its security policy allows them by hash, and requests only to
//! this service.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use chumoku_view::{content_hash, framed_hashes, shared_style};
use std::sync::OnceLock;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = concat!(
    include_str!("words.js"),
    include_str!("base.js"),
    include_str!("ask.js"),
    include_str!("answer.js"),
    include_str!("frame.js"),
    include_str!("text.js"),
    include_str!("two.js"),
    include_str!("translation.js"),
    include_str!("writing.js"),
    include_str!("csv.js"),
    include_str!("table.js"),
    include_str!("start.js"),
);

/// The page with the values of its headers.
struct IndexPage {
    html: String,
    policy: HeaderValue,
    etag: HeaderValue,
}

fn index_page() -> &'static IndexPage {
    static PAGE: OnceLock<IndexPage> = OnceLock::new();
    PAGE.get_or_init(|| {
        let lines = |text: &str| text.replace("\r\n", "\n");
        let (style, script) = (lines(shared_style()) + &lines(STYLE), lines(SCRIPT));
        let html = lines(TEMPLATE).replace("@@STYLE@@", &style).replace("@@SCRIPT@@", &script);
        // Explanations in frames inherit this policy in addition to their own, so their scripts and styles are allowed
        // here too.
        let [scripts, styles] = framed_hashes();
        let listed = |own: &str, others: Vec<String>| {
            let all = std::iter::once(content_hash(own)).chain(others);
            all.map(|hash| format!(" '{hash}'")).collect::<String>()
        };
        let (scripts, styles) = (listed(&script, scripts), listed(&style, styles));
        let policy = format!(
            "default-src 'none'; script-src{scripts}; style-src{styles}; connect-src 'self'; img-src data:; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'"
        );
        let header = |text: String| HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("''"));
        let tag = header(format!("\"{}\"", content_hash(&html)));
        IndexPage { html, policy: header(policy), etag: tag }
    })
}

/// Returns true if the client is a browser, which accepts HTML.
pub(crate) fn accepts_html(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    accepts.flat_map(|value| value.split(',')).any(|kind| kind.trim_start().starts_with("text/html"))
}

/// Returns the page, or status 304 if the browser has it.
pub(crate) fn reply(headers: &HeaderMap) -> Response {
    let page = index_page();
    let is_known = headers.get(header::IF_NONE_MATCH) == Some(&page.etag);
    let body = if is_known { Body::empty() } else { Body::from(page.html.as_str()) };
    let mut response = Response::new(body);
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, page.policy.clone());
    headers.insert("X-Content-Type-Options", HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // Browsers revalidate the page each time, and receive it only after a change.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.insert(header::ETAG, page.etag.clone());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_one_file_without_forbidden_constructs() {
        let html = &index_page().html;
        assert!(!html.contains("@@"));
        let banned =
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "import(", "src="];
        for word in banned.into_iter().chain(["http:", "https:", "url(", "@import", " onclick", " style=\""]) {
            assert!([TEMPLATE, STYLE, SCRIPT].iter().all(|text| !text.contains(word)), "{word}");
        }
        assert!(!SCRIPT.contains("</") && !SCRIPT.contains("<!--") && !STYLE.contains("</"));
        assert!(html.len() < 150_000, "{}", html.len());
    }

    #[test]
    fn the_policy_allows_every_script_and_style() {
        let IndexPage { html, policy, .. } = index_page();
        let policy = policy.to_str().unwrap();
        for (open, close) in [("<script>", "</script>"), ("<style>", "</style>")] {
            let (_, rest) = html.split_once(open).unwrap();
            let inside = rest.split_once(close).unwrap().0;
            assert!(policy.contains(&format!("'{}'", content_hash(inside))), "{policy}");
        }
        assert!(!policy.contains("unsafe") && policy.starts_with("default-src 'none'"));
    }

    #[test]
    fn only_browsers_get_the_page() {
        let accepts = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            accepts_html(&headers)
        };
        assert!(accepts("text/html,application/xhtml+xml,*/*;q=0.8") && accepts("application/xml, text/html;q=0.5"));
        assert!(!accepts("*/*") && !accepts("application/json") && !accepts_html(&HeaderMap::new()));
    }
}
