//! The pages of explanations and alignments: files that open from disk and send no request.

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Map, Value};
use std::fmt::Write;

use crate::content_hash::{content_hash, hash};
use crate::explanation_figures::ExplanationFigures;
use crate::phrases::{self, PHRASES};
use crate::picture::ColorMode;
use crate::tagger_spans::tagged_page_sources;
use crate::terminal::position_sentence;
use chumoku::explain::{Alignment, DerivedAttention, Explanation, Patching, shorten_numbers};
use chumoku::lang::{Lang, show_controls};

/// A page without its data: template, style sheet and script.
struct PageTemplate {
    template: &'static str,
    style: &'static str,
    script: &'static str,
}

const EXPLAIN_PAGE: PageTemplate = PageTemplate {
    template: include_str!("explain.html"),
    style: include_str!("explain.css"),
    script: concat!(
        include_str!("../framed.js"),
        include_str!("page.js"),
        include_str!("lines.js"),
        include_str!("lens.js"),
        include_str!("explain.strings.js"),
        include_str!("patching.strings.js"),
        include_str!("explain.heatmap.js"),
        include_str!("explain.heads.js"),
        include_str!("explain.depth.js"),
        include_str!("patching.js"),
        include_str!("explain.token_path.js"),
        include_str!("explain.js")
    ),
};

const ALIGNMENT_PAGE: PageTemplate = PageTemplate {
    template: include_str!("alignment.html"),
    style: concat!(include_str!("explain.css"), include_str!("alignment.css")),
    script: concat!(
        include_str!("../framed.js"),
        include_str!("page.js"),
        include_str!("lines.js"),
        include_str!("lens.js"),
        include_str!("alignment.strings.js"),
        include_str!("patching.strings.js"),
        include_str!("patching.decoder.js"),
        include_str!("patching.js"),
        include_str!("alignment.js")
    ),
};

/// Writes an explanation as one HTML page in the given language; the page can switch to the other.
///
/// `first` is the layer and head, from 0, that are shown at the start.
///
/// The page is self-contained. Its content security policy allows only its own script and style sheet, by their hashes:
/// no request, no other script, not even an inline style. The explanation is embedded as JSON. Its arrays are base64 in
/// separate elements, one for each head, so that the script decodes only what is shown. Numbers are exact little-endian
/// f32. For long texts, the weights of all heads but the first are bytes (1 is 255), and the page says so. Derived
/// numbers, and queries and keys of the other heads, are then left out. The same explanation and language give the same
/// bytes.
///
/// A link may end in `#layer=2&head=1&lang=ja`, with layers, heads and words counted from 1. Other keys are `word`,
/// `query`, `key`, `view`, `sort`, `off`, `theme`, `scale`, `root` and `table`.
///
/// # Panics
///
/// If the explanation is inconsistent; see [`Explanation::validate`].
#[must_use]
pub fn to_html(explanation: &Explanation, first: [usize; 2], lang: Lang) -> String {
    if let Err(error) = explanation.validate() {
        panic!("to_html needs an explanation that fits together: {error}");
    }
    let elements = array_elements(explanation, first) + &curve_pictures(explanation, lang);
    EXPLAIN_PAGE.page(lang, &page_data(explanation, first), &elements)
}

/// Writes an alignment as one HTML page with every layer and head, in the same way as [`to_html`]. `first` is the layer
/// and head, from 0, that are shown at the start.
///
/// A link may end in `#layer=2&head=1&lang=ja`; `target` and `source` (words), `view`, `sort`, `step`, `off`, `show`,
/// `theme` and `table` are the other keys.
#[must_use]
pub fn alignment_to_html(alignment: &Alignment, first: [usize; 2], lang: Lang) -> String {
    let mut fields = alignment.fields();
    fields.extend(first_head_fields(first));
    fields.extend(alignment.patching.iter().flat_map(patching_fields));
    let mut maps = ArrayElements::default();
    let size = alignment.target_words.len() * alignment.source_words.len();
    maps.add_shares("weights", &alignment.attention, size, alignment.heads, first);
    ALIGNMENT_PAGE.page(lang, &escape_script_json(&Value::Object(fields).to_string()), &maps.elements)
}

/// Returns the style sheet that Chumoku's pages share: light and dark colors, cards, tables, tabs.
#[must_use]
pub fn shared_style() -> &'static str {
    EXPLAIN_PAGE.style
}

/// Returns the hashes of the scripts and of the style sheets of [`to_html`], [`alignment_to_html`] and
/// [`tagged_to_html`](crate::tagged_to_html), in the form of a content security policy. A page that embeds these pages
/// in `srcdoc` frames passes its own policy on to them and must allow these hashes.
///
/// The name of such a frame is `chumoku:` and the end of a link. The embedded page then shows no heading of its own. It
/// reports its height in messages `{"chumoku": {"height": …}}`, and its state in `{"chumoku": {"link": …}}`.
#[must_use]
pub fn framed_hashes() -> [Vec<String>; 2] {
    let hashes = |part: fn(&PageTemplate) -> &'static str| {
        [EXPLAIN_PAGE, ALIGNMENT_PAGE].iter().map(|program| content_hash(part(program))).collect::<Vec<String>>()
    };
    let mut all = [hashes(|program| program.script), hashes(|program| program.style)];
    for (hashes, text) in all.iter_mut().zip(tagged_page_sources()) {
        hashes.push(hash(&text));
    }
    all
}

/// Returns the deletion and insertion curves as pictures in both languages, if they were measured. The script places
/// the one to show.
fn curve_pictures(explanation: &Explanation, first: Lang) -> String {
    let picture = |lang: Lang| {
        let scene = explanation.curves(lang)?.scene();
        let (code, hidden) = (lang.code(), if lang == first { "" } else { " hidden" });
        Some(format!("<div lang=\"{code}\"{hidden}>{}</div>", scene.to_svg_with("", ColorMode::Classes)))
    };
    let pictures: String = [Lang::En, Lang::Ja].into_iter().filter_map(picture).collect();
    if pictures.is_empty() { pictures } else { format!("<div id=\"curves\">{pictures}</div>\n") }
}

/// Returns a text in both languages, by their codes.
fn both(text: &dyn Fn(Lang) -> String) -> Value {
    [Lang::En, Lang::Ja].map(|lang| (lang.code().to_owned(), Value::from(text(lang)))).into_iter().collect()
}

/// Returns what a page says about patching besides its numbers.
fn patching_fields(patching: &Patching) -> Vec<(String, Value)> {
    let mut fields = vec![("patching_is_small".to_owned(), patching.has_small_difference().into())];
    if patching.position.is_some() {
        let sentence = |lang| position_sentence(patching, lang).unwrap_or_default();
        fields.push(("patching_position".to_owned(), both(&sentence)));
    }
    fields
}

fn first_head_fields([layer, head]: [usize; 2]) -> [(String, Value); 2] {
    [("first_layer".to_owned(), layer.into()), ("first_head".to_owned(), head.into())]
}

/// Maximum count of numbers in an array that a page holds exactly, over all layers and heads. Larger arrays are stored
/// as bytes if they are only drawn, or left out, except for the head that is shown first.
const MAX_EXACT_NUMBERS: usize = 1 << 16;

/// Maximum count of numbers in a derived array. Larger ones are left out.
const MAX_DERIVED_NUMBERS: usize = 1 << 20;

/// Arrays of a page, one base64 element each.
#[derive(Default)]
struct ArrayElements {
    elements: String,
}

impl ArrayElements {
    fn add_element(&mut self, name: &str, layer: usize, head: Option<usize>, form: &str, bytes: &[u8]) {
        let head = head.map_or_else(String::new, |head| format!(" data-head=\"{head}\""));
        let base64 = BASE64_STANDARD.encode(bytes);
        let _ = writeln!(
            self.elements,
            "<script type=\"text/plain\" class=\"map\" data-name=\"{name}\" data-layer=\"{layer}\"{head} \
             data-form=\"{form}\">{base64}</script>"
        );
    }

    /// Adds arrays of `size` numbers, one for each layer and head, or one for each layer without `heads`.
    fn add_exact(&mut self, name: &str, numbers: &[f32], size: usize, heads: Option<usize>) {
        for (index, map) in numbers.chunks_exact(size.max(1)).enumerate() {
            let [layer, head] = heads.map_or([index, 0], |heads| [index / heads, index % heads]);
            self.add_element(name, layer, heads.map(|_| head), "f32", &f32_bytes(map));
        }
    }

    /// Adds a map of shares for every head: exact, unless there are too many; then all but those of the first head are
    /// bytes.
    fn add_shares(&mut self, name: &str, numbers: &[f32], size: usize, heads: usize, first: [usize; 2]) {
        for (index, map) in numbers.chunks_exact(size.max(1)).enumerate() {
            let [layer, head] = [index / heads, index % heads];
            if numbers.len() <= MAX_EXACT_NUMBERS || [layer, head] == first {
                self.add_element(name, layer, Some(head), "f32", &f32_bytes(map));
            } else {
                let bytes: Vec<u8> = map.iter().map(|x| (x.clamp(0.0, 1.0) * 255.0).round() as u8).collect();
                self.add_element(name, layer, Some(head), "u8", &bytes);
            }
        }
    }
}

fn array_elements(e: &Explanation, first: [usize; 2]) -> String {
    let square = e.words.len() * e.words.len();
    let mut maps = ArrayElements::default();
    maps.add_shares("weights", &e.attention, square, e.heads, first);
    let DerivedAttention { value_weighted, rollout } = &e.derived;
    if value_weighted.len() <= MAX_DERIVED_NUMBERS {
        maps.add_shares("value_weighted", value_weighted, square, e.heads, first);
    }
    // One map for each layer instead of each head: small enough to stay exact.
    if rollout.len() <= MAX_DERIVED_NUMBERS {
        maps.add_exact("rollout", rollout, square, None);
    }
    if let Some(depth) = &e.depth {
        let size = e.pieces.len() * depth.dim;
        for (name, numbers) in [("queries", &depth.queries), ("keys", &depth.keys)] {
            if numbers.len() <= MAX_EXACT_NUMBERS {
                maps.add_exact(name, numbers, size, Some(e.heads));
            } else if let Some(map) = numbers.chunks_exact(size).nth(first[0] * e.heads + first[1]) {
                maps.add_element(name, first[0], Some(first[1]), "f32", &f32_bytes(map));
            }
        }
    }
    maps.elements
}

impl PageTemplate {
    /// Returns the page with its data, which is JSON that is safe inside a script element.
    fn page(&self, lang: Lang, data: &str, maps: &str) -> String {
        // Browsers turn CR LF into LF before they compute the hash, and a checkout may use CR LF.
        let [template, style, script] = [self.template, self.style, self.script].map(|text| text.replace("\r\n", "\n"));
        let mut page = String::with_capacity(template.len() + style.len() + script.len() + data.len() + maps.len());
        // The template is split once, so a placeholder inside a text stays text.
        for (i, part) in template.split("@@").enumerate() {
            match part {
                _ if i % 2 == 0 => page.push_str(part),
                "LANG" => page.push_str(lang.code()),
                "STYLE" => page.push_str(&style),
                "SCRIPT" => page.push_str(&script),
                "STYLE_HASH" => page.push_str(&hash(&style)),
                "SCRIPT_HASH" => page.push_str(&hash(&script)),
                "DATA" => page.push_str(data),
                "MAPS" => page.push_str(maps),
                other => unreachable!("the template has no placeholder {other}"),
            }
        }
        page
    }
}

/// Returns numbers as little-endian f32.
pub(crate) fn f32_bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Returns the explanation as JSON that is safe inside a script element.
fn page_data(explanation: &Explanation, first: [usize; 2]) -> String {
    let mut fields = explanation.fields();
    for empty in ["attention", "derived"] {
        fields.remove(empty);
    }
    fields.extend(first_head_fields(first));
    if let Some(cut) = &explanation.cut {
        let both = [Lang::En, Lang::Ja]
            .map(|lang| (lang.code().to_owned(), phrases::truncation_note(lang, cut, explanation.kind).into()));
        fields.insert("cut".to_owned(), Value::Object(both.into_iter().collect()));
    }
    // Right-to-left text must not change the direction of the sentence around it.
    let words: Vec<String> =
        explanation.words.iter().map(|word| format!("\u{2068}{}\u{2069}", show_controls(&word.text))).collect();
    let statistics = explanation.head_statistics().into_iter().map(|head| {
        let mut fields = shorten_numbers(serde_json::to_value(head).expect("figures are plain data"));
        let text = |lang| Value::from(head.describe(lang, words.get(head.sink).map_or("", |word| word)));
        fields["text"] = [("en".to_owned(), text(Lang::En)), ("ja".to_owned(), text(Lang::Ja))].into_iter().collect();
        fields
    });
    fields.insert("head_statistics".to_owned(), statistics.collect());
    fields.insert("roles".to_owned(), both(&chumoku::explain::role_rule));
    if let (Some(parts), [first, second, ..], None) =
        (&explanation.parts, &explanation.probabilities[..], explanation.number)
    {
        let classes = [if explanation.exclusive { &first.label } else { &explanation.label }, &second.label];
        let classes = classes.map(|label| format!("\u{2068}{}\u{2069}", show_controls(label)));
        let text = |lang| {
            let network = phrases::network_name(lang, explanation.layers > 0);
            phrases::member_shares_note(lang, parts, &classes[0], explanation.exclusive.then_some(&classes[1]), network)
        };
        fields.insert("shares".to_owned(), both(&text));
    }
    if !explanation.columns.is_empty() {
        let class = format!("\u{2068}{}\u{2069}", show_controls(&explanation.attribution.class));
        let texts = [
            ("title", both(&|lang| phrases::column_heading(lang, &class))),
            ("note", both(&|lang| phrases::column_note(lang, &class))),
        ];
        fields
            .insert("column_texts".to_owned(), texts.map(|(name, text)| (name.to_owned(), text)).into_iter().collect());
        if let Some(Value::Array(columns)) = fields.get_mut("columns") {
            for (shown, column) in columns.iter_mut().zip(&explanation.columns) {
                shown["value_text"] = both(&|lang| phrases::column_value(lang, column));
            }
        }
    }
    if let Some(number) = explanation.number {
        fields.insert("number_text".to_owned(), both(&|lang| phrases::number_with_interval(lang, number)));
    }
    if let Some(integral) = &explanation.attribution.integral {
        fields.insert("integral_text".to_owned(), both(&|lang| phrases::integral_note(lang, integral)));
    }
    if let Some(curves) = &explanation.attribution.curves {
        let class = format!("\u{2068}{}\u{2069}", show_controls(&explanation.attribution.class));
        fields.insert("curves_text".to_owned(), both(&|lang| phrases::curves_note(lang, curves, &class)));
    }
    fields.extend(explanation.patching.iter().flat_map(patching_fields));
    fields.insert("trust_text".to_owned(), both(&|lang| phrases::trust_sentence(lang, explanation)));
    let phrases: Map<String, Value> = PHRASES.iter().map(|(en, ja)| ((*en).to_owned(), Value::from(*ja))).collect();
    fields.insert("phrases".to_owned(), phrases.into());
    escape_script_json(&Value::Object(fields).to_string())
}

/// Makes JSON safe inside a script element.
///
/// `</script>` would end the element, and `<!--` would change where it ends. These characters occur only inside JSON
/// strings, where `\u` escapes mean the same.
pub fn escape_script_json(json: &str) -> String {
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
        for program in [EXPLAIN_PAGE, ALIGNMENT_PAGE] {
            let names: Vec<&str> = program.template.split("@@").skip(1).step_by(2).collect();
            assert_eq!(names, ["LANG", "SCRIPT_HASH", "STYLE_HASH", "STYLE", "DATA", "MAPS", "SCRIPT"]);
        }
    }

    #[test]
    fn scripts_are_small_and_use_no_forbidden_functions() {
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
        for PageTemplate { template, style, script } in [EXPLAIN_PAGE, ALIGNMENT_PAGE] {
            assert!(template.len() + style.len() + script.len() < 150 * 1024);
            for word in banned {
                assert!([template, style, script].iter().all(|text| !text.contains(word)), "{word}");
            }
            // The first of these ends a script element, wherever it occurs.
            assert!(!script.contains("</") && !script.contains("<!--") && !style.contains("</"));
        }
    }

    #[test]
    fn texts_suit_both_themes_and_names_are_nouns() {
        for PageTemplate { template, script, .. } in [EXPLAIN_PAGE, ALIGNMENT_PAGE] {
            for word in ["Darker", "色が濃い", "-said", "said_", ".said"] {
                assert!(!template.contains(word) && !script.contains(word), "{word}");
            }
        }
    }

    #[test]
    fn json_cannot_end_its_script_element() {
        let hostile = "</script><!--<script>&\u{2028}\u{2029}\\";
        let json = serde_json::to_string(hostile).expect("a string");
        let escaped = escape_script_json(&json);
        assert!(!escaped.contains(['<', '>', '&', '\u{2028}', '\u{2029}']));
        let back: String = serde_json::from_str(&escaped).expect("still JSON");
        assert_eq!(back, hostile);
    }
}
