//! Summary of the findings for a terminal of 80 columns.

use crate::progress::pluralize;
use crate::report::{align_right, fit, percent, wrap};
use chumoku::data::{describe_variants, format_thousands, label_variants};
use chumoku::doctor::{DoctorInput, DoctorReport, Finding, FindingKind};
use chumoku::lang::{lang, show_controls_in_text};
use chumoku::tr;
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr;

/// Columns of the terminal.
const WIDTH: usize = 80;
/// Number of likely wrong labels to show, and of findings of each other kind.
const MAX_FINDINGS: [usize; 2] = [10, 3];
/// Number of label pairs to show.
const MAX_PAIRS: usize = 5;
/// Columns of a label.
const LABEL_WIDTH: usize = 14;

/// Formats the summary: the share of wrong labels, and the first findings of each kind.
pub(super) fn summary(given: &DoctorInput, checkup: &DoctorReport, findings: &[Finding]) -> String {
    let rows = given.dataset.examples.len() + given.incomplete.len();
    let (rows, classes) = (format_thousands(rows), format_thousands(checkup.labels.len()));
    let mut out = tr!("{rows} rows, {classes} classes\n", "{rows} 行、{classes} クラス\n");
    // Spellings of one label look like wrong labels until they are merged.
    let labels = given.dataset.examples.iter().map(|example| example.label.as_str());
    if let Some(description) = describe_variants(&label_variants(labels)) {
        out += &wrap(&tr!("First: {description}.", "まず: {description}。"), WIDTH);
        out += "\n\n";
    }
    out += &noise_summary(checkup);
    for kind in FindingKind::ALL {
        let found: Vec<&Finding> = findings.iter().filter(|finding| finding.kind == kind).collect();
        if !found.is_empty() {
            let _ = writeln!(out, "\n{} ({})", capitalize(kind.title(lang())), format_thousands(found.len()));
            out += &finding_list(&found);
        }
    }
    if findings.is_empty() {
        out += &tr!("\nNo other problems found.\n", "\nほかに問題は見つかりませんでした。\n");
    }
    out
}

fn capitalize(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Formats the estimated label noise, in total and by label pair.
fn noise_summary(checkup: &DoctorReport) -> String {
    let noise = &checkup.noise;
    if !noise.is_informed {
        let text = tr!(
            "Labels are not checked: models trained on the other rows predict no better than the label frequencies.",
            "ラベルの正誤は判定していません。ほかの行から学んだモデルが、各ラベルの頻度のほかに何も知らないためです。"
        );
        return wrap(&text, WIDTH) + "\n";
    }
    let (alarms, doubted) =
        (format_thousands(noise.false_alarms.round() as usize), format_thousands(noise.num_flagged));
    if noise.is_weak {
        let text = tr!(
            "No label is listed as likely wrong: models trained on the other rows doubt {doubted} labels, but about {alarms} of these would be \
             false alarms, judging by the rows where the models are most confident.",
            "誤りらしいラベルは挙げません。ほかの行から学んだモデルは {doubted} 個のラベルを疑いますが、そのうち約 {alarms} 個は誤報と\
             見込まれます（モデルが最も確信する行でラベルが食い違う割合による推定）。"
        );
        return wrap(&text, WIDTH) + "\n";
    }
    let n = noise.wrong_rows.round() as usize;
    let (share, rows, n) = (percent(noise.share()), pluralize(n, "row"), format_thousands(n));
    let mut out = wrap(
        &tr!(
            "Label noise: about {share} of the labels ({rows}) are wrong, according to models that were not trained on \
             their texts.",
            "ラベルの誤りは約 {share}（{n} 行）と推定されます。そのテキストを学習に使っていないモデルから見た値です。"
        ),
        WIDTH,
    ) + "\n";
    let listed = checkup.label_issues.len();
    if listed > 0 {
        let (alarms, listed) = (format_thousands(noise.listed_false_alarms.round() as usize), format_thousands(listed));
        out += &wrap(
            &tr!(
                "Labels listed below as likely wrong: {listed}. Expected false alarms among them: about {alarms}.",
                "以下で誤りらしいとする {listed} 個のラベルのうち、約 {alarms} 個は誤報と見込まれます。"
            ),
            WIDTH,
        );
        out.push('\n');
    }
    let pairs: Vec<_> = noise.pairs.iter().filter(|pair| pair.rows >= 0.5).take(MAX_PAIRS).collect();
    let widths = [
        pairs.iter().map(|pair| checkup.labels[pair.given as usize].width()).max().unwrap_or(0).min(24),
        pairs.iter().map(|pair| checkup.labels[pair.likely as usize].width()).max().unwrap_or(0).min(24),
    ];
    for pair in pairs {
        let [given, likely] =
            [pair.given, pair.likely].map(|label| show_controls_in_text(&checkup.labels[label as usize]));
        let (n, share) = (pair.rows.round() as usize, percent(pair.share));
        let [given, likely] = [fit(&given, widths[0]), fit(&likely, widths[1])];
        let (rows, n) = (align_right(&pluralize(n, "row"), 11), align_right(&format_thousands(n), 6));
        out += &tr!(
            "  {given} → {likely} {rows} ({share} of the first)\n",
            "  {given} → {likely} {n} 行（前者の {share}）\n"
        );
    }
    out
}

/// Formats the first findings of a kind: line, label and text on one line, the reason below.
fn finding_list(found: &[&Finding]) -> String {
    let most = MAX_FINDINGS[usize::from(found.iter().any(|finding| finding.kind != FindingKind::WrongLabel))];
    let shown = &found[..found.len().min(most)];
    let digits = shown.iter().map(|finding| finding.line.to_string().len()).max().unwrap_or(1);
    let labels = shown.iter().map(|finding| finding_label(finding).width()).max().unwrap_or(0);
    let mut out = String::new();
    for finding in shown {
        let head = format!("  {:>digits$}  {}", finding.line, fit(&finding_label(finding), labels));
        let text = fit(&show_controls_in_text(&finding.text), WIDTH.saturating_sub(head.width() + 2));
        let _ = writeln!(out, "{}", format!("{head}  {text}").trim_end());
        let indent = " ".repeat(digits + 4);
        let reason = wrap(&show_controls_in_text(&finding.reason), WIDTH - indent.len());
        let _ = writeln!(out, "{indent}{}", reason.replace('\n', &format!("\n{indent}")));
    }
    if found.len() > most {
        let more = format_thousands(found.len() - most);
        out +=
            &tr!("  and {more} more (--out FOLDER writes all)\n", "  ほか {more} 件（すべては --out フォルダ に）\n");
    }
    out
}

/// Returns `given → likely`, or the label alone.
fn finding_label(finding: &Finding) -> String {
    let short = |label: &str| fit(&show_controls_in_text(label), LABEL_WIDTH).trim_end().to_owned();
    match finding.kind {
        FindingKind::WrongLabel | FindingKind::OddLabel | FindingKind::Conflict if !finding.suggestion.is_empty() => {
            format!("{} → {}", short(&finding.label), short(&finding.suggestion))
        }
        FindingKind::LabelNext => short(&finding.suggestion),
        _ => short(&finding.label),
    }
}
