//! Texts with spans as one page that opens from disk: no script, no request.

use crate::{escape_markup, hash};
use chumoku::PredictedSpan;
use chumoku::lang::{Lang, show_controls_in_text};
use chumoku::tr_in;
use std::fmt::Write;

const STYLE: &str = include_str!("spans.css");

/// Number of colors of labels. More labels share colors; every span also shows its label.
const SPAN_COLORS: usize = 8;

/// Maximum number of texts on a page.
pub const MAX_SPANNED_TEXTS: usize = 2000;

fn escape_html(text: &str) -> String {
    escape_markup(&show_controls_in_text(text))
}

/// Returns a part of a text for the page, with line feeds and tabs replaced by spaces.
fn inline_text(text: &str) -> String {
    let plain = |c: char| if c.is_whitespace() && c.is_control() { ' ' } else { c };
    escape_markup(&text.chars().map(plain).collect::<String>())
}

/// Writes texts with their spans as one HTML page. Each span has the color of its label and is followed by the label;
/// its tooltip shows the probability.
///
/// `labels` holds all labels in the order of their colors. The content security policy of the page allows only its own
/// style sheet. With more than [`MAX_SPANNED_TEXTS`] texts the page shows the first and says so. `all` is the total
/// number of texts; `texts` may hold only the first.
#[must_use]
pub fn spans_to_html(
    title: &str,
    (texts, all): (&[(String, Vec<PredictedSpan>)], usize),
    labels: &[String],
    lang: Lang,
) -> String {
    // Browsers turn CR LF into LF before they compute the hash, and a checkout may use CR LF.
    let style = STYLE.replace("\r\n", "\n");
    let heading = tr_in!("Spans found by {title}", "{title} が検出したスパン", lang);
    let heading = escape_html(&heading);
    let mut out = String::new();
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
         http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{}'; base-uri 'none'; \
         form-action 'none'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta \
         name=\"referrer\" content=\"no-referrer\">\n<title>{heading} – Chumoku</title>\n<style>{style}</style>\n</head>\n<body>\n\
         <h1><bdi>{heading}</bdi></h1>\n",
        lang.code(),
        hash(&style),
    );
    let shown = &texts[..texts.len().min(MAX_SPANNED_TEXTS)];
    if all > shown.len() {
        let n = shown.len();
        let note = tr_in!("The first {n} of {all} texts.", "{all} 件のうち最初の {n} 件です。", lang);
        let _ = writeln!(out, "<p class=\"note\">{note}</p>");
    }
    let color = |label: &str| labels.iter().position(|other| other == label).unwrap_or_default() % SPAN_COLORS;
    out.push_str("<ul class=\"kinds\">\n");
    for label in labels {
        let n = shown.iter().flat_map(|(_, spans)| spans).filter(|found| found.span.label == *label).count();
        if n > 0 {
            let _ = writeln!(out, "<li class=\"k{}\"><bdi>{}</bdi> {n}</li>", color(label), escape_html(label));
        }
    }
    out.push_str("</ul>\n<ol class=\"texts\">\n");
    for (text, spans) in shown {
        let (mut letters, mut at) = (text.chars(), 0);
        let mut take = |n: usize| inline_text(&letters.by_ref().take(n).collect::<String>());
        out.push_str("<li dir=\"auto\">");
        for found in spans {
            out.push_str(&take(found.span.start - at));
            let inside = take(found.span.end - found.span.start);
            let (label, percent) = (escape_html(&found.span.label), 100.0 * found.probability);
            let _ = write!(
                out,
                "<mark class=\"k{}\" title=\"{label} {percent:.1} %\">{inside}<small>{label}</small></mark>",
                color(&found.span.label)
            );
            at = found.span.end;
        }
        out.push_str(&take(usize::MAX));
        out.push_str("</li>\n");
    }
    out.push_str("</ol>\n</body>\n</html>\n");
    out
}
