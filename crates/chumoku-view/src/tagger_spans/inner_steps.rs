//! Steps inside the network of a tagger: the logit lens as a table, and patching as heatmaps.

use crate::colored_words::{bilingual_html, share_class};
use crate::escape_markup;
use crate::figure::{ColorScale, Content, Figure, FigureAxis, Heatmap};
use crate::terminal::{
    aligned_names, layer_name, lens_note, lens_title, patching_scale, patching_title, position_sentence,
    small_difference_warning,
};
use chumoku::explain::{LogitLens, Patching};
use chumoku::lang::{Lang, show_controls, show_controls_in_text};
use chumoku::row::AsRow;
use chumoku::tr_in;
use std::fmt::Write;

/// Writes the tags that the head reads for each word after every layer, as a table.
pub(super) fn write_lens(lens: &LogitLens, lang: Lang, element: &mut String) {
    let say = |text: &dyn Fn(Lang) -> String| bilingual_html(lang, &|lang| escape_markup(&text(lang)));
    let title = say(&|lang| lens_title(None, lang));
    let note = say(&|lang| lens_note(lang).to_owned());
    let head = |depth: usize| format!("<th scope=\"col\">{}</th>", say(&|lang| layer_name(lang, depth)));
    let head: String = (0..lens.depths.len()).map(head).collect();
    let _ = writeln!(
        element,
        "<article id=\"lens\"><h2>{title}</h2><p class=\"how\">{note}</p><div class=\"wide\" tabindex=\"0\"><table><thead><tr>\
         <td></td>{head}</tr></thead><tbody>"
    );
    for (i, word) in lens.tokens.iter().enumerate() {
        let (number, word) = (i + 1, escape_markup(&show_controls(word)));
        let _ = write!(element, "<tr><th scope=\"row\" class=\"word\">{number} <bdi>{word}</bdi></th>");
        for answer in lens.depths.iter().filter_map(|depth| depth.get(i)) {
            let (class, percent) = (share_class(answer.probability), 100.0 * answer.probability);
            let tag = escape_markup(&show_controls(&answer.label));
            let _ = write!(element, "<td class=\"{class}\"><bdi>{tag}</bdi> {percent:.0} %</td>");
        }
        element.push_str("</tr>\n");
    }
    element.push_str("</tbody></table></div></article>\n");
}

/// Draws the effects on the tag of every patched site: by residual stream, head and feed-forward network.
pub(super) fn patching_figures(patching: &Patching, text: &str, lang: Lang) -> Vec<Figure> {
    let layer = |depth: usize| match depth {
        0 => layer_name(lang, 0),
        _ => tr_in!("layer {depth}", "第 {depth} 層", lang),
    };
    let axis = |name: &str, labels| FigureAxis { name: name.to_owned(), labels, is_numbered: false };
    let sites = patching.sites();
    let layers = sites.layers();
    let tokens = || axis(lang.pick("token", "トークン"), aligned_names(patching));
    let heads = || {
        let name = |head| tr_in!("head {head}", "ヘッド {head}", lang);
        axis(lang.pick("head", "ヘッド"), (1..=sites.heads_per_layer()).map(name).collect())
    };
    let maps = [
        (lang.pick("residual stream", "残差ストリーム"), 0, tokens(), &patching.residual),
        (lang.pick("output of each head", "各ヘッドの出力"), 1, heads(), &patching.heads),
        (lang.pick("feed-forward network", "フィードフォワード層"), 1, tokens(), &patching.feed_forward),
    ];
    let mut notes: Vec<String> = position_sentence(patching, lang).into_iter().collect();
    notes.push(patching_scale(patching, lang));
    if patching.has_small_difference() {
        notes.push(small_difference_warning(patching, lang));
    }
    let of_text = [text.as_row(), patching.other.as_row()];
    let answers: Vec<String> = of_text
        .iter()
        .zip(&patching.answers)
        .map(|(text, answer)| {
            let (text, label) = (lang.quoted(&show_controls_in_text(text)), show_controls(&answer.label));
            format!("{text} → {label} {:.1} %", 100.0 * answer.probability)
        })
        .collect();
    let map = |(name, first, columns, values): (&str, usize, FigureAxis, &Vec<f32>)| {
        let most = values.iter().fold(1.0_f32, |most, x| most.max(x.abs()));
        Figure {
            title: format!("{} · {name}", patching_title(patching, lang)),
            subtitle: answers.join("  "),
            notes: notes.clone(),
            content: Content::Heatmap(Heatmap {
                caption: String::new(),
                rows: axis(lang.pick("layer", "層"), (first..=layers).map(layer).collect()),
                columns,
                values: values.iter().copied().map(Some).collect(),
                scale: ColorScale::Signed(most),
            }),
            lang,
        }
    };
    maps.into_iter().map(map).collect()
}
