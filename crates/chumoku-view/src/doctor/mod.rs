//! The page of a checkup of a labeled file: all findings, which can be filtered and searched, and a confusion map of
//! labels.

use crate::figure::{Content, Figure, Heatmap, PageWidget, figures_page};
use crate::html::escape_script_json;
use chumoku::doctor::{DoctorInput, DoctorReport, Finding, FindingFile, FindingKind};
use chumoku::lang::{Lang, show_controls_in_text};
use chumoku::row::AsRow;
use chumoku::tr_in;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Maximum number of findings of a kind on the page; the table holds all.
const MAX_FINDINGS: usize = 2_000;
/// Maximum number of labels in the confusion map.
const MAX_LABELS: usize = 20;
/// Maximum number of characters of a text on the page.
const MAX_CHARACTERS: usize = 2_000;

/// Returns the page of a checkup in English and Japanese; it starts in `lang`. Like
/// [`figures_to_html`](crate::figures_to_html), it sends no request.
///
/// A link may end in `#kind=duplicate&find=soup`.
#[must_use]
pub fn doctor_to_html(given: &DoctorInput, checkup: &DoctorReport, lang: Lang) -> String {
    let name = given.dataset.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let title = |lang: Lang| tr_in!("Problems found in {name}", "{name} の検査結果", lang);
    let data = escape_script_json(&page_data(given, checkup).to_string());
    let element = format!(
        "<section id=\"doctor\"></section>\n<script type=\"application/json\" id=\"doctor-data\">{data}</script>\n"
    );
    let player = PageWidget { element: &element, script: include_str!("doctor.js"), style: include_str!("doctor.css") };
    let figures = [[Lang::En, Lang::Ja].map(|lang| label_noise_figure(checkup, title(lang), lang))];
    figures_page(&title(lang), &figures, player, lang)
}

/// Returns the data for the page's script.
fn page_data(given: &DoctorInput, checkup: &DoctorReport) -> Value {
    let both = [Lang::En, Lang::Ja].map(|lang| checkup.findings(given, lang));
    let mut counts: BTreeMap<FindingKind, usize> = BTreeMap::new();
    let mut findings = Vec::new();
    for (en, ja) in both[0].iter().zip(&both[1]) {
        let count = counts.entry(en.kind).or_default();
        *count += 1;
        if *count <= MAX_FINDINGS {
            findings.push(finding_json(en, ja));
        }
    }
    let kinds = counts.iter().map(|(kind, count)| {
        json!({ "key": kind.key(), "count": count, "en": kind.title(Lang::En), "ja": kind.title(Lang::Ja) })
    });
    json!({
        "rows": given.dataset.examples.len() + given.incomplete.len(),
        "labels": checkup.labels.len(),
        "noise": {
            "informed": checkup.noise.is_informed,
            "rows": checkup.noise.wrong_rows.round(),
            "share": checkup.noise.share(),
            "weak": checkup.noise.is_weak,
            "doubted": checkup.noise.num_flagged,
            "alarms": checkup.noise.false_alarms.round(),
            "listed": checkup.noise.listed_false_alarms.round(),
        },
        "kinds": kinds.collect::<Vec<_>>(),
        "most": MAX_FINDINGS,
        "findings": findings,
    })
}

fn finding_json(en: &Finding, ja: &Finding) -> Value {
    let whole = en.text.as_row().display();
    let text: String = whole.chars().take(MAX_CHARACTERS).collect();
    let text = show_controls_in_text(&text) + if text.len() < whole.len() { "…" } else { "" };
    let both = |[en, ja]: [&str; 2]| json!({ "en": show_controls_in_text(en), "ja": show_controls_in_text(ja) });
    json!({
        "kind": en.kind.key(),
        "part": match en.file { FindingFile::Data => "data", FindingFile::Test => "test", FindingFile::Unlabeled => "unlabelled" },
        "line": en.line,
        "text": text,
        "label": show_controls_in_text(&en.label),
        "suggestion": both([&en.suggestion, &ja.suggestion]),
        "reason": both([&en.reason, &ja.reason]),
        "score": en.score,
    })
}

/// The confusion map of the labels with the most noise: the share of each given label's rows that probably have another
/// label.
fn label_noise_figure(checkup: &DoctorReport, title: String, lang: Lang) -> Figure {
    let mut of_label: BTreeMap<u32, f64> = (0..).take(checkup.labels.len()).map(|label| (label, 0.0)).collect();
    for pair in &checkup.noise.pairs {
        for label in [pair.given, pair.likely] {
            *of_label.entry(label).or_default() += pair.rows;
        }
    }
    let mut labels: Vec<(u32, f64)> = of_label.into_iter().collect();
    labels.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    labels.truncate(MAX_LABELS);
    let mut labels: Vec<u32> = labels.into_iter().map(|(label, _)| label).collect();
    labels.sort_unstable();
    let shares: BTreeMap<[u32; 2], f32> =
        checkup.noise.pairs.iter().map(|pair| ([pair.given, pair.likely], pair.share as f32)).collect();
    let share = |given: usize, likely: usize| shares.get(&[labels[given], labels[likely]]).copied().unwrap_or(0.0);
    let names: Vec<&str> = labels.iter().map(|&label| &checkup.labels[label as usize][..]).collect();
    let axes = match lang {
        Lang::En => ["given label", "likely label"],
        Lang::Ja => ["付いているラベル", "推定されるラベル"],
    };
    let (subtitle, note) = match lang {
        Lang::En => (
            "Share of each label's texts that probably have another label",
            "Estimated by confident learning (Northcutt, Jiang and Chuang 2021) from models that were not trained on the texts.",
        ),
        Lang::Ja => (
            "各ラベルのテキストのうち、別のラベルが正しいと推定される割合",
            "そのテキストを学習に使っていないモデルから、confident learning（Northcutt、Jiang、Chuang 2021）で推定しました。",
        ),
    };
    Figure {
        title,
        subtitle: subtitle.into(),
        notes: vec![note.into()],
        content: Content::Heatmap(Heatmap::from_confusions(&names, axes, share)),
        lang,
    }
}
