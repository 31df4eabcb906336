//! Pages of figures: they open from disk, in English and Japanese, light and dark.

use super::table::FigureTable;
use super::{Content, Figure};
use crate::picture::ColorMode;
use crate::{escape_markup, hash, join_ordinals, with_subscripts};
use chumoku::lang::Lang;
use std::fmt::Write;

const STYLE: &str = include_str!("figure.css");
const SCRIPT: &str = concat!(include_str!("../framed.js"), include_str!("figure.js"));

/// An interactive element above the figures of a page, with its script and style sheet.
#[derive(Clone, Copy, Default)]
pub(crate) struct PageWidget<'a> {
    pub(crate) element: &'a str,
    pub(crate) script: &'a str,
    pub(crate) style: &'a str,
}

/// Returns a page of figures, each given in English and in Japanese. The page can switch between them and starts in
/// `lang`.
///
/// Each picture has a table of its numbers. The page sends no request, and its content security policy allows only its
/// own script.
#[must_use]
pub fn figures_to_html(title: &str, figures: &[[Figure; 2]], lang: Lang) -> String {
    figures_page(title, figures, PageWidget::default(), lang)
}

/// Returns the script and the style sheet of such a page.
pub(crate) fn page_sources(player: PageWidget<'_>) -> [String; 2] {
    let script = (SCRIPT.to_owned() + player.script).replace("\r\n", "\n");
    [script, (STYLE.to_owned() + player.style).replace("\r\n", "\n") + &ColorMode::style()]
}

/// Returns a page with a widget above its figures.
pub(crate) fn figures_page(title: &str, figures: &[[Figure; 2]], player: PageWidget<'_>, lang: Lang) -> String {
    let [script, style] = page_sources(player);
    let title = escape_markup(title);
    let heading = |figure: &Figure| {
        let (code, text) = (figure.lang.code(), join_ordinals(&escape_markup(&figure.title)));
        let hidden = if figure.lang == lang { "" } else { " hidden" };
        format!("<h1 lang=\"{code}\" data-lang=\"{code}\"{hidden}><bdi>{text}</bdi></h1>")
    };
    let headings: String = figures.first().iter().flat_map(|both| both.iter().map(heading)).collect();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'\">\n<meta \
         name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"generator\" content=\"Chumoku\">\n\
         <title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<header><p class=\"brand\"><span class=\"seal\" \
         lang=\"ja\" aria-hidden=\"true\">注</span>Chumoku</p>{headings}<div class=\"tools\"><div class=\"pair\" role=\"group\" \
         aria-label=\"Language, 言語\"><button type=\"button\" id=\"en\" lang=\"en\">English</button><button type=\"button\" \
         id=\"ja\" lang=\"ja\">日本語</button></div><button type=\"button\" id=\"theme\"></button></div></header>\n<main>\n{}",
        lang.code(),
        hash(&script),
        hash(&style),
        player.element,
    );
    for (index, both) in figures.iter().enumerate() {
        page.push_str("<section>\n");
        for figure in both {
            let hidden = if figure.lang == lang { "" } else { " hidden" };
            let code = figure.lang.code();
            let _ = writeln!(page, "<div class=\"figure\" lang=\"{code}\" data-lang=\"{code}\"{hidden}>");
            let is_map = matches!(figure.content, Content::NetworkMap(_));
            // The heading of the page is the title of its first picture, unless a player lies between them.
            let is_below_heading = index == 0 && (is_map || player.element.is_empty());
            let svg = figure.scene_with(!is_below_heading).to_svg_with("", ColorMode::Classes);
            let _ = writeln!(page, "<div class=\"picture\" tabindex=\"0\">{svg}</div>");
            let summary = figure.lang.pick("All numbers as a table", "すべての数値（表）");
            let _ = writeln!(page, "<details><summary>{summary}</summary>");
            let markup = if is_map { with_subscripts } else { escape_markup };
            figure.tables().iter().for_each(|table| table.write_html(markup, &mut page));
            page.push_str("</details></div>\n");
        }
        page.push_str("</section>\n");
    }
    let _ = write!(page, "</main>\n<script>{script}</script>\n</body>\n</html>\n");
    page
}

impl FigureTable {
    /// Writes the table with the given markup of its texts.
    fn write_html(&self, markup: fn(&str) -> String, page: &mut String) {
        let caption = markup(&self.caption);
        let _ = write!(page, "<div class=\"wide\" tabindex=\"0\"><table><caption>{caption}</caption><thead><tr>");
        for name in &self.head {
            let _ = write!(page, "<th scope=\"col\"><bdi>{}</bdi></th>", markup(name));
        }
        page.push_str("</tr></thead><tbody>\n");
        for (name, cells) in &self.rows {
            let _ = write!(page, "<tr><th scope=\"row\"><bdi>{}</bdi></th>", markup(name));
            for cell in cells {
                let _ = write!(page, "<td>{}</td>", markup(cell));
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody></table></div>\n");
    }
}
