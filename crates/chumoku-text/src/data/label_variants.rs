//! Labels that differ only in letter case, width, white space or hyphens: `Ham`, `ham`, `HAM`, `ｈａｍ`.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use tokenizers::NormalizedString;

use super::schema_inference::quantity::Quantity;
use crate::lang::lang;
use crate::lang::wording::{join_names, list_names, quote};
use crate::tr;

/// Most groups or examples that a message names. Twice as many spellings are named in each group.
const MAX_NAMED: usize = 4;

/// The spellings of what is probably one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelVariants {
    /// The most frequent spelling and its number of rows.
    pub(crate) preferred: (String, usize),
    /// The other spellings and their numbers of rows, the most frequent first.
    pub(crate) others: Vec<(String, usize)>,
}

/// Returns a key that is the same for all spellings of a label.
pub fn label_key(label: &str) -> String {
    let mut text = NormalizedString::from(label.trim());
    text.nfkc();
    let lower = text.get().to_lowercase();
    let chars: Vec<char> = lower.chars().collect();
    let is_between = |at: usize| {
        let neighbours = [at.checked_sub(1).and_then(|at| chars.get(at)), chars.get(at + 1)];
        neighbours.iter().all(|c| c.is_some_and(|c| c.is_alphanumeric()))
    };
    // A hyphen before a number is its sign.
    let words: String = chars
        .iter()
        .enumerate()
        .map(|(at, &c)| if matches!(c, '-' | '_') && is_between(at) { ' ' } else { c })
        .collect();
    let trimmed = words.trim_matches(|c: char| c.is_whitespace() || matches!(c, '.' | ',' | ';' | ':' | '"' | '\''));
    // White space is removed between words, but kept between numbers.
    let mut key = String::with_capacity(trimmed.len());
    for word in trimmed.split_whitespace() {
        let parts_numbers = key.ends_with(|c: char| c.is_numeric()) && word.starts_with(|c: char| c.is_numeric());
        if parts_numbers {
            key.push(' ');
        }
        key.push_str(word);
    }
    // pandas writes integers like this if some are missing.
    match key.strip_suffix(".0").filter(|whole| !whole.is_empty() && whole.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(whole) => whole.to_owned(),
        None if key.is_empty() => label.trim().to_owned(),
        None => key,
    }
}

/// Returns the labels with several spellings, those with the most rows first.
pub fn label_variants<'a>(labels: impl IntoIterator<Item = &'a str>) -> Vec<LabelVariants> {
    let mut counts: HashMap<&str, (usize, usize)> = HashMap::new();
    for (at, label) in labels.into_iter().enumerate() {
        counts.entry(label).or_insert((0, at)).0 += 1;
    }
    let mut groups: HashMap<String, Vec<(&str, usize, usize)>> = HashMap::new();
    for (label, (count, first)) in counts {
        groups.entry(label_key(label)).or_default().push((label, count, first));
    }
    let mut found: Vec<(usize, LabelVariants)> = Vec::new();
    for mut spellings in groups.into_values().filter(|spellings| spellings.len() > 1) {
        // The most frequent spelling is preferred. The first wins a tie.
        spellings.sort_unstable_by_key(|&(_, count, first)| (std::cmp::Reverse(count), first));
        let mut spellings = spellings.into_iter().map(|(label, count, first)| ((label.to_owned(), count), first));
        let Some((kept, first)) = spellings.next() else { continue };
        found.push((first, LabelVariants { preferred: kept, others: spellings.map(|(label, _)| label).collect() }));
    }
    let rows = |of: &LabelVariants| of.preferred.1 + of.others.iter().map(|(_, count)| count).sum::<usize>();
    found.sort_unstable_by_key(|(first, of)| (std::cmp::Reverse(rows(of)), *first));
    found.into_iter().map(|(_, of)| of).collect()
}

/// Changes every label to the first of `known` that it is a variant of, else to its most frequent spelling.
pub fn merge_labels<'a>(labels: impl IntoIterator<Item = &'a mut String>, known: &[String]) {
    let mut labels: Vec<&mut String> = labels.into_iter().collect();
    let variants = label_variants(labels.iter().map(|label| label.as_str()));
    let mut spelling: HashMap<String, String> =
        variants.into_iter().map(|of| (label_key(&of.preferred.0), of.preferred.0)).collect();
    for label in known.iter().rev() {
        spelling.insert(label_key(label), label.clone());
    }
    if spelling.is_empty() {
        return;
    }
    for label in &mut labels {
        if let Some(kept) = spelling.get(&label_key(label)).filter(|kept| *kept != *label) {
            label.clone_from(kept);
        }
    }
}

/// Describes the labels with several spellings. Returns `None` if there are none.
pub fn describe_variants(variants: &[LabelVariants]) -> Option<String> {
    let (first, spellings) = (variants.first()?, variants.iter().map(|of| 1 + of.others.len()).sum::<usize>());
    let group = |of: &LabelVariants| {
        let all = std::iter::once(&of.preferred).chain(&of.others).take(2 * MAX_NAMED);
        join_names(&all.map(|(label, rows)| format!("{} {rows}", quote(label))).collect::<Vec<_>>())
    };
    let mut named = vec![group(first)];
    named.extend(variants[1..].iter().take(MAX_NAMED - 1).map(group));
    let more = if variants.len() > MAX_NAMED { lang().pick("; …", "／…") } else { "" };
    let (labels, named) = (variants.len(), named.join(lang().pick("; ", "／")));
    Some(tr!(
        "{spellings} labels look like {labels} in several spellings ({named}{more}); merge them with --merge-labels",
        "{spellings} 個のラベルは {labels} 個のラベルの表記ゆれのようです（{named}{more}）。--merge-labels で同じラベルとして扱います"
    ))
}

/// The labels of one of several training files, or of the model that training starts from.
#[derive(Debug, Clone, Default)]
pub struct FileLabels<'a> {
    /// The file or the model folder.
    pub path: PathBuf,
    /// The distinct labels.
    pub labels: BTreeSet<&'a str>,
}

impl<'a> FileLabels<'a> {
    /// Collects the distinct labels of a file.
    pub fn new(path: &Path, labels: impl IntoIterator<Item = &'a str>) -> FileLabels<'a> {
        FileLabels { path: path.to_owned(), labels: labels.into_iter().collect() }
    }

    /// Returns the name of the file, for messages.
    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// The labels of the files before the current one, by what they mean.
#[derive(Default)]
struct EarlierLabels<'a> {
    /// Each label, with its file.
    files: HashMap<&'a str, String>,
    spellings: HashMap<String, &'a str>,
    numbers: HashMap<u64, Vec<(Quantity, &'a str)>>,
}

impl<'a> EarlierLabels<'a> {
    fn add(&mut self, file: &FileLabels<'a>) {
        for &label in &file.labels {
            self.files.entry(label).or_insert_with(|| file.name());
            self.spellings.entry(label_key(label)).or_insert(label);
            if let Some(number) = Quantity::parse(label) {
                self.numbers.entry(number.value.to_bits()).or_default().push((number, label));
            }
        }
    }

    /// Returns another way to write this label, and whether `--merge-labels` treats both as one.
    fn find(&self, label: &str) -> Option<(&'a str, bool)> {
        if let Some(&spelling) = self.spellings.get(&label_key(label)) {
            return Some((spelling, true));
        }
        let number = Quantity::parse(label)?;
        let same = self.numbers.get(&number.value.to_bits())?.iter().find(|(other, _)| number.has_unit_of(other))?;
        Some((same.1, false))
    }
}

/// Describes labels that a file writes differently from the files before it, such as `Ham` after `ham`, or `4 stars`
/// after `4`. Also describes files that share no label with those before. Returns one note for each of both, if any.
/// `can_merge` says that the task has `--merge-labels`.
pub fn describe_file_differences(files: &[FileLabels<'_>], can_merge: bool) -> Vec<String> {
    let (mut earlier, mut notes) = (EarlierLabels::default(), Vec::new());
    let (mut differing, mut examples, mut is_mergeable) = (Vec::new(), Vec::new(), true);
    let mut unrelated = None;
    for file in files {
        let new: Vec<&str> = file.labels.iter().copied().filter(|label| !earlier.files.contains_key(label)).collect();
        let before = examples.len();
        for &label in &new {
            if let Some((other, is_merged)) = earlier.find(label) {
                let [label, other] = [(label, file.name()), (other, earlier.files[other].clone())]
                    .map(|(label, file)| tr!("{} in {file}", "{file} の{}", quote(label)));
                examples.push(tr!("{label}, {other}", "{label}と{other}"));
                is_mergeable &= is_merged;
            }
        }
        if examples.len() > before {
            differing.push(file.name());
        } else if new.len() == file.labels.len() && new.len() > 1 && earlier.files.len() > 1 {
            let known: BTreeSet<&&str> = earlier.files.keys().collect();
            let known: Vec<&str> = known.into_iter().copied().collect();
            unrelated = unrelated.or_else(|| Some((file.name(), list_names(&new), list_names(&known))));
        }
        earlier.add(file);
    }
    if !examples.is_empty() {
        let more = if examples.len() > MAX_NAMED { lang().pick("; …", "／…") } else { "" };
        examples.truncate(MAX_NAMED);
        let (files, examples) = (join_names(&differing), examples.join(lang().pick("; ", "／")));
        let merge = match is_mergeable {
            _ if !can_merge => lang().pick("", "ようにして"),
            true => lang().pick(", or merge them with --merge-labels", "か、--merge-labels で同じラベルとして扱って"),
            false => lang().pick(", or predict numbers with --task score", "か、--task score で数値として学習して"),
        };
        notes.push(tr!(
            "{files}: labels are written differently than in the files before ({examples}{more}) and count as different labels; write them alike{merge}",
            "{files}: 前のファイルと書き方の違うラベルがあり（{examples}{more}）、別のラベルとして扱います。書き方をそろえる{merge}ください"
        ));
    }
    if let Some((file, found, known)) = unrelated {
        notes.push(tr!(
            "{file}: no label is in the files before: found {found}, before {known}; if they mean the same, write them alike",
            "{file}: 前のファイルと共通のラベルがありません（{found}、前のファイルは {known}）。同じ意味なら、書き方をそろえてください"
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_label_share_a_key() {
        for (a, b) in [
            ("Ham", "ham"),
            ("HAM", "ham"),
            ("spam ", "spam"),
            ("ｈａｍ", "ham"),
            ("ｽﾊﾟﾑ", "スパム"),
            ("not_spam", "not spam"),
            ("Not-Spam", "notspam"),
            ("1.0", "1"),
            ("spam.", "spam"),
            ("very  good", "very good"),
        ] {
            assert_eq!(label_key(a), label_key(b), "{a} {b}");
        }
        for (a, b) in [("-1", "1"), ("C", "C++"), ("C#", "C"), ("1-0", "10"), ("1.5", "15"), ("+", "-"), ("a", "b")] {
            assert_ne!(label_key(a), label_key(b), "{a} {b}");
        }
    }

    #[test]
    fn the_most_frequent_spelling_is_preferred_unless_another_is_known() {
        let labels = ["Ham", "ham", "HAM", "ham", "spam", "Spam", "other"];
        let found = label_variants(labels);
        let of = |kept: (&str, usize), others: &[(&str, usize)]| LabelVariants {
            preferred: (kept.0.into(), kept.1),
            others: others.iter().map(|&(label, rows)| (label.into(), rows)).collect(),
        };
        assert_eq!(found, [of(("ham", 2), &[("Ham", 1), ("HAM", 1)]), of(("spam", 1), &[("Spam", 1)])]);
        let merged = |known: &[&str]| {
            let mut labels = labels.map(String::from);
            merge_labels(&mut labels, &known.iter().map(|label| (*label).to_owned()).collect::<Vec<_>>());
            labels
        };
        assert_eq!(merged(&[]), ["ham", "ham", "ham", "ham", "spam", "spam", "other"]);
        assert_eq!(merged(&["HAM", "Other"]), ["HAM", "HAM", "HAM", "HAM", "spam", "spam", "Other"]);
        let message = describe_variants(&found).unwrap();
        assert!(
            message.starts_with("5 labels look like 2 ") && message.contains("“ham” 2, “Ham” 1, “HAM” 1"),
            "{message}"
        );
        assert_eq!(describe_variants(&label_variants(["a", "b", "a"])), None);
    }

    #[test]
    fn labels_that_files_write_differently_are_described() {
        let notes = |files: &[(&str, &[&'static str])]| {
            let files: Vec<FileLabels<'_>> =
                files.iter().map(|(path, labels)| FileLabels::new(Path::new(path), labels.iter().copied())).collect();
            describe_file_differences(&files, true)
        };
        let found = notes(&[("a.csv", &["pos", "neg"]), ("b.csv", &["Pos", "NEG"]), ("c.csv", &["pos", "neg"])]);
        assert_eq!(
            found,
            [
                "b.csv: labels are written differently than in the files before (“NEG” in b.csv, “neg” in a.csv; “Pos” in b.csv, “pos” in \
                 a.csv) and count as different labels; write them alike, or merge them with --merge-labels"
            ]
        );
        // Each pair is one number, but not two spellings of the same words, so merging would not help.
        for [first, second] in [["4", "4 stars"], ["★★★★", "4"], ["1.5", "1,50"], ["7", "07"]] {
            let found = notes(&[("a.csv", &[first, "x"]), ("b.csv", &[second, "x"])]);
            assert_eq!(found.len(), 1, "{first} {second}");
            let example = format!("(“{second}” in b.csv, “{first}” in a.csv)");
            assert!(found[0].contains(&example), "{example}: {found:?}");
            assert!(found[0].ends_with("or predict numbers with --task score"), "{found:?}");
        }
        assert!(notes(&[("a.csv", &["4", "x"]), ("b.csv", &["4.0", "x"])])[0].ends_with("--merge-labels"));
        // Other units are other labels, and so are new labels beside known ones.
        for [first, second] in [["3 days", "3 months"], ["4/5", "4/10"], ["10", "10 %"], ["x", "z"]] {
            assert_eq!(notes(&[("a.csv", &[first, "y"]), ("b.csv", &[second, "y"])]), [""; 0], "{first} {second}");
        }
        let found = notes(&[("a.csv", &["ham", "spam"]), ("b.csv", &["0", "1"])]);
        assert!(found.len() == 1 && found[0].starts_with("b.csv: no label is in the files before: found “0”, “1”"));
        assert!(found[0].contains("before “ham”, “spam”"), "{found:?}");
        // One file for each label is usual.
        assert_eq!(notes(&[("ham.csv", &["ham"]), ("spam.csv", &["spam"]), ("x.csv", &["x"])]), [""; 0]);
    }
}
