//! Words colored by their effect, as running text on a page.

use crate::escape_markup;
use crate::marked_words::largest_effect;
use crate::picture::{Paint, Theme, hex};
use crate::signed_number;
use chumoku::explain::HighlightedWord;
use chumoku::lang::Lang;
use std::fmt::Write;
use std::ops::Range;

/// Color steps on each side of zero.
const STEPS: i32 = 8;

/// Returns the same markup in English and Japanese; the page shows one of them.
pub(crate) fn bilingual_html(first: Lang, text: &dyn Fn(Lang) -> String) -> String {
    let one = |lang: Lang| {
        let (code, hidden) = (lang.code(), if lang == first { "" } else { " hidden" });
        format!("<span lang=\"{code}\" data-lang=\"{code}\"{hidden}>{}</span>", crate::join_ordinals(&text(lang)))
    };
    one(Lang::En) + &one(Lang::Ja)
}

/// Returns the CSS class of a color step.
fn effect_class(step: i32) -> String {
    match step {
        0 => "w0".into(),
        step if step > 0 => format!("w{step}"),
        step => format!("v{}", -step),
    }
}

/// Returns the CSS class of a share between 0 and 1.
pub(crate) fn share_class(share: f32) -> String {
    effect_class((share * STEPS as f32).round() as i32)
}

/// Returns the markup of the color scale, from the strongest negative to the strongest positive effect.
pub(crate) fn color_scale() -> String {
    (-STEPS..=STEPS).step_by(2).map(|step| format!("<i class=\"{}\"></i>", effect_class(step))).collect()
}

/// Returns the style rules of all color steps, light and dark.
pub(crate) fn effect_styles() -> String {
    let mut style = String::new();
    for (theme, prefix) in [(Theme::Light, ""), (Theme::Dark, ":root[data-theme=\"dark\"] ")] {
        for step in (-STEPS..=STEPS).filter(|&step| step != 0) {
            let level = step as f32 / STEPS as f32;
            let [back, ink] = [Paint::Signed(level), Paint::TextOnSigned(level)].map(|paint| hex(paint.rgb(theme)));
            let _ = writeln!(style, "{prefix}.{}{{background:{back};color:{ink}}}", effect_class(step));
        }
    }
    style
}

/// Returns the words of the range `shown` in colors. For each word, `more` returns whether it is underlined and the
/// text after its number.
pub(crate) fn colored_words(
    words: &[HighlightedWord],
    shown: Range<usize>,
    annotation: &dyn Fn(usize) -> (bool, String),
) -> String {
    let most = largest_effect(words);
    let mut out = String::new();
    let end = shown.end;
    for (i, word) in words.iter().enumerate().take(end).skip(shown.start) {
        let text = escape_markup(&word.text);
        let space = if word.is_spaced { " " } else { "" };
        let step = word.effect.filter(|_| most > 0.0).map_or(0, |effect| (effect / most * STEPS as f32).round() as i32);
        let (is_marked, behind) = annotation(i);
        let text = if is_marked { format!("<u>{text}</u>") } else { text };
        let _ = match (step, word.effect) {
            (0, _) | (_, None) if behind.is_empty() => write!(out, "{space}{text}"),
            (_, None) => write!(out, "{space}{text}"),
            (step, Some(effect)) => {
                let (class, effect) = (effect_class(step), signed_number(effect, 2));
                write!(out, "{space}<span class=\"{class}\" title=\"{effect}{behind}\">{text}</span>")
            }
        };
    }
    if words.len() > end {
        out.push_str(" …");
    }
    out
}
