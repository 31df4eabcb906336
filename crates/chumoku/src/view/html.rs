//! An explanation or an alignment as one page: a file that opens from disk and asks nothing of the network.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::alignment::Alignment;
use super::base64;
use super::explanation::Explanation;
use super::phrases::{KNOWN, Lang};

/// A page without its data: template, style sheet and script.
struct Program {
    template: &'static str,
    style: &'static str,
    script: &'static str,
}

const EXPLAIN: Program = Program {
    template: include_str!("explain.html"),
    style: include_str!("explain.css"),
    script: concat!(include_str!("explain.strings.js"), include_str!("explain.js")),
};

const ALIGNMENT: Program = Program {
    template: include_str!("alignment.html"),
    style: concat!(include_str!("explain.css"), include_str!("alignment.css")),
    script: concat!(include_str!("alignment.strings.js"), include_str!("alignment.js")),
};

/// Writes an explanation as one HTML page in the given language; the page can switch to the other.
///
/// The page holds everything it needs. Its content security policy names the one script and the one style
/// sheet by their hashes and allows nothing else: no request, no other script, not even an inline style. The
/// explanation stands in it as JSON, the attention array as base64 of little-endian f32, so that the page
/// shows the very numbers that it was given, and so that the file stays small. The same explanation and
/// language give the same bytes.
///
/// A link may end in `#layer=2&head=1&lang=ja`, with layers, heads and words counted from 1; `word`, `query`
/// and `key`, `theme`, `scale`, `root` and `table` are the other keys.
///
/// # Panics
///
/// If the explanation does not fit together; see [`Explanation::validate`].
#[must_use]
pub fn to_html(explanation: &Explanation, lang: Lang) -> String {
    if let Err(error) = explanation.validate() {
        panic!("to_html needs an explanation that fits together: {error}");
    }
    EXPLAIN.page(lang, &data(explanation))
}

/// Writes an alignment as one HTML page, as [`to_html`] does an explanation: offline, with every layer and head.
///
/// A link may end in `#layer=2&head=1&lang=ja`; `target` and `source` (words), `show`, `theme` and `table` are the other
/// keys.
#[must_use]
pub fn alignment_to_html(alignment: &Alignment, lang: Lang) -> String {
    let mut fields = alignment.fields();
    fields.insert("attention_f32le_base64".into(), floats(&alignment.attention).into());
    ALIGNMENT.page(lang, &escape(&Value::Object(fields).to_string()))
}

impl Program {
    /// The page with its data, JSON that may stand inside a script element.
    fn page(&self, lang: Lang, data: &str) -> String {
        // Browsers turn CR LF into LF before they hash; a checkout may have done the reverse.
        let [template, style, script] = [self.template, self.style, self.script].map(|text| text.replace("\r\n", "\n"));
        let mut page = String::with_capacity(template.len() + style.len() + script.len() + data.len());
        // The template is cut once, so that a text with a placeholder in it stays a text.
        for (i, part) in template.split("@@").enumerate() {
            match part {
                _ if i % 2 == 0 => page.push_str(part),
                "LANG" => page.push_str(lang.code()),
                "STYLE" => page.push_str(&style),
                "SCRIPT" => page.push_str(&script),
                "STYLE_HASH" => page.push_str(&hash(&style)),
                "SCRIPT_HASH" => page.push_str(&hash(&script)),
                "DATA" => page.push_str(data),
                other => unreachable!("the template has no placeholder {other}"),
            }
        }
        page
    }
}

/// Numbers as base64 of little-endian f32.
fn floats(numbers: &[f32]) -> String {
    base64::encode(&numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>())
}

/// The hash of an inline script or style sheet, as a content security policy writes it.
pub(crate) fn hash(text: &str) -> String {
    format!("sha256-{}", base64::encode(&Sha256::digest(text)))
}

/// The explanation as JSON that may stand inside a script element.
fn data(explanation: &Explanation) -> String {
    let rest = Explanation { attention: Vec::new(), ..explanation.clone() };
    let phrases: Map<String, Value> = KNOWN.iter().map(|(en, ja)| ((*en).to_owned(), Value::from(*ja))).collect();

    // By way of text and not of a `Value`, which would widen every f32 to f64 and print digits it never had.
    let mut json = serde_json::to_string(&rest).expect("an explanation has only string keys");
    let end = json.pop();
    debug_assert_eq!(end, Some('}'));
    json.push_str(",\"attention_f32le_base64\":\"");
    json.push_str(&floats(&explanation.attention));
    json.push_str("\",\"phrases\":");
    json.push_str(&Value::Object(phrases).to_string());
    json.push('}');
    escape(&json)
}

/// Makes JSON safe inside a script element.
///
/// `</script>` would end the element and `<!--` change how its end is found. All these characters stand only
/// within JSON's strings, where `\u` says the same.
fn escape(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_placeholder_is_filled_once() {
        for program in [EXPLAIN, ALIGNMENT] {
            let names: Vec<&str> = program.template.split("@@").skip(1).step_by(2).collect();
            assert_eq!(names, ["LANG", "SCRIPT_HASH", "STYLE_HASH", "STYLE", "DATA", "SCRIPT"]);
        }
    }

    #[test]
    fn the_programs_are_small_and_keep_their_rules() {
        let banned = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "fetch(",
            "XMLHttpRequest",
            "WebSocket",
            "import(",
            "localStorage",
            "http:",
            "https:",
            "url(",
            "@import",
            "src=",
        ];
        for Program { template, style, script } in [EXPLAIN, ALIGNMENT] {
            assert!(template.len() + style.len() + script.len() < 60 * 1024);
            for word in banned {
                assert!([template, style, script].iter().all(|text| !text.contains(word)), "{word}");
            }
            // A script element ends at the first of these, wherever it stands.
            assert!(!script.contains("</") && !script.contains("<!--") && !style.contains("</"));
        }
    }

    #[test]
    fn json_cannot_end_its_element() {
        let hostile = "</script><!--<script>&\u{2028}\u{2029}\\";
        let json = serde_json::to_string(hostile).expect("a string");
        let escaped = escape(&json);
        assert!(!escaped.contains(['<', '>', '&', '\u{2028}', '\u{2029}']));
        let back: String = serde_json::from_str(&escaped).expect("still JSON");
        assert_eq!(back, hostile);
    }
}
