//! Training a tagger: a conditional random field over the words or characters of texts.

use super::card::{cell, score_heading};
use super::names::label;
use super::training::{Training, held_out, write_folder};
use super::{Event, SeenTexts};
use crate::crf::{Corpus, Fit, Sentence, Settings, Tags, features};
use crate::data::{self, Example, Span, SpanUnit, SpannedText, SpannedTexts};
use crate::lang::lang;
use crate::lang::wording::thousands;
use crate::model_folder::TRAINED_ON;
use crate::scoring::SpanScores;
use crate::text_tagger::{TaggerConfig, TextTagger, units};
use crate::{Error, ModelKind, Result, checksum, tr};
use rayon::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Settings that are tried: short steps that can go on for long, and long ones.
const TRIED: [Settings; 3] =
    [Settings { rate: 0.1, penalty: 0.1 }, Settings { rate: 0.3, penalty: 1.0 }, Settings { rate: 0.3, penalty: 5.0 }];
/// Settings and passes where there are no validation rows.
const USUAL: (Settings, u64) = (TRIED[1], 15);
/// Passes at most.
const EPOCHS: u64 = 25;
/// Passes without improvement before settings are given up.
const PATIENCE: u64 = 5;

/// What a tagger is trained, chosen and tested on.
#[derive(Clone, Debug)]
pub struct TaggerData {
    /// The kinds of spans, sorted.
    pub labels: Vec<String>,
    /// Whether each word has a label.
    pub each_word: bool,
    /// What gets a label.
    pub unit: SpanUnit,
    /// To learn from.
    pub train: Vec<SpannedText>,
    /// To choose by.
    pub valid: Vec<SpannedText>,
    /// To report.
    pub test: Vec<SpannedText>,
    /// What was odd, for the report.
    pub notes: Vec<String>,
}

impl TaggerData {
    /// Parts of the files given: validation and test rows are split off the training file where they have no file of their own.
    ///
    /// # Errors
    /// If there are too few rows, no spans, or spans of kinds that the training file does not have.
    pub fn new(train: &SpannedTexts, valid: Option<&SpannedTexts>, test: Option<&SpannedTexts>) -> Result<TaggerData> {
        train.check_trainable()?;
        let labels: Vec<String> = train.kinds().into_keys().map(str::to_owned).collect();
        for other in [valid, test].into_iter().flatten() {
            other.check_known_labels(&labels)?;
        }
        let plain = |row: &SpannedText| Example { text: row.text.clone(), label: String::new(), line: row.line };
        let rows: Vec<Example> = train.examples.iter().map(plain).collect();
        let share = |given: Option<&SpannedTexts>| if given.is_some() { 0.0 } else { 0.1 };
        let split = data::split(&rows, 0, share(valid), share(test));
        let part = |rows: &[usize]| rows.iter().map(|&row| train.examples[row].clone()).collect::<Vec<_>>();
        let own =
            |given: Option<&SpannedTexts>, rows: &[usize]| given.map_or_else(|| part(rows), |g| g.examples.clone());
        let mut notes: Vec<String> =
            [Some(train), valid, test].into_iter().flatten().flat_map(|data| data.notes.clone()).collect();
        for (name, other) in [(tr!("validation", "検証"), valid), (tr!("test", "テスト"), test)] {
            let Some(other) = other else { continue };
            let others: Vec<Example> = other.examples.iter().map(plain).collect();
            let (n, of) = (data::shared_texts(&rows, &others).count, others.len());
            if n > 0 {
                notes.push(tr!(
                    "warning: {n} of {of} {name} rows have a text that is also in the training file: their score says nothing \
                     about new texts",
                    "警告: {name}データの {of} 行のうち {n} 行は、テキストが学習ファイルにもあります。その評価値からは、新しいテキスト\
                     について何も分かりません"
                ));
            }
        }
        Ok(TaggerData {
            labels,
            each_word: train.each_word,
            unit: SpanUnit::of(train.examples.iter().map(|row| row.text.as_str())),
            train: part(&split.train),
            valid: own(valid, &split.valid),
            test: own(test, &split.test),
            notes,
        })
    }

    fn tags(&self) -> Tags {
        Tags { kinds: self.labels.len(), each_word: self.each_word }
    }

    fn sentences(&self, parts: &[&[SpannedText]]) -> Vec<Sentence> {
        parts.concat().par_iter().map(|row| self.sentence(row)).collect()
    }

    fn sentence(&self, row: &SpannedText) -> Sentence {
        let units = units(row, self.unit);
        let places = places(&row.text, &units);
        let mut free = 0;
        let mut spans = Vec::new();
        for span in &row.spans {
            // Units that a span shares with the one before are that one's.
            let first = places.partition_point(|place| place.1 <= span.start).max(free);
            let end = places.partition_point(|place| place.0 < span.end);
            if first < end {
                let kind = self.labels.binary_search(&span.label).expect("kinds are known");
                spans.push((first..end, kind));
                free = end;
            }
        }
        let labels = self.tags().encode(units.len(), &spans);
        Sentence { seen: features(&row.text, &units, self.unit), labels }
    }

    /// SHA-256 of all texts and spans, in order.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for rows in [&self.train, &self.valid, &self.test] {
            hash.update((rows.len() as u64).to_le_bytes());
            for row in rows {
                hash.update((row.text.len() as u64).to_le_bytes());
                hash.update(&row.text);
                for span in &row.spans {
                    hash.update(
                        [span.start as u64, span.end as u64, span.label.len() as u64].map(u64::to_le_bytes).concat(),
                    );
                    hash.update(&span.label);
                }
            }
        }
        checksum::hex(hash.finalize())
    }
}

/// How a run ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct TaggerOutcome {
    /// The model, as it was saved.
    pub model: TextTagger,
    /// What `metrics.json` holds.
    pub metrics: Value,
    /// Scores on the test rows.
    pub test: SpanScores,
    /// Scores on the same rows of marking what was a span in training, wherever it stands.
    pub dictionary: SpanScores,
}

/// Trains a tagger and writes the model folder `out`. Of three settings and so many epochs the best on the validation rows are
/// taken, and the model is trained once more on these rows too.
///
/// # Errors
/// If the folder cannot be written; [`Error::Interrupted`] when `stop` was set: nothing has been written then.
pub fn train_tagger(data: &TaggerData, training: Training<'_>) -> Result<TaggerOutcome> {
    training.begin(ModelKind::Tagger)?;
    let Training { options, out, stop, mut observe } = training;
    let config = TaggerConfig {
        model_type: ModelKind::Tagger.model_type().into(),
        chumoku_version: env!("CARGO_PKG_VERSION").into(),
        labels: data.labels.clone(),
        unit: data.unit,
        each_word: data.each_word,
    };
    let is_stopped = || stop.load(Ordering::Relaxed);
    let most = options.epochs.unwrap_or(EPOCHS);
    let mut chosen = (USUAL.0, options.epochs.unwrap_or(USUAL.1), None);
    if data.valid.iter().any(|row| !row.spans.is_empty()) {
        let (settings, epochs, f1) = choose(data, options.seed, most, |epoch, best| {
            let (Settings { rate, penalty }, best, f1) = best;
            observe(Event::Working(
                label("model"),
                tr!(
                    "epoch {epoch}; best so far: steps {rate}, penalty {penalty}, epoch {best}, F1 {f1:.3}",
                    "エポック {epoch}。これまでの最良: 学習率 {rate}、罰則 {penalty}、エポック {best}、F1 {f1:.3}"
                ),
            ));
            if is_stopped() { Err(Error::Interrupted) } else { Ok(()) }
        })?;
        let Settings { rate, penalty } = settings;
        observe(Event::Said(
            label("model"),
            tr!(
                "steps {rate}, penalty {penalty}, {epochs} epochs; validation F1 {f1:.3}",
                "学習率 {rate}、罰則 {penalty}、{epochs} エポック。検証データの F1 {f1:.3}"
            ),
        ));
        chosen = (settings, epochs, Some(f1));
    }
    let corpus = Corpus::new(data.sentences(&[&data.train, &data.valid]), data.tags());
    let mut fit = Fit::new(&corpus, chosen.0, options.seed);
    for _ in 0..chosen.1 {
        fit.epoch().ok_or_else(not_finite)?;
        if is_stopped() {
            return Err(Error::Interrupted);
        }
    }
    let model = TextTagger { config, crf: fit.into_model() };
    let (rows, part) = held_out([&data.train, &data.valid, &data.test], Vec::is_empty);
    let test = model.score(rows, options.seed)?;
    let dictionary = dictionary(data, rows, options.seed);
    let metrics = json!({
        "chumoku_version": env!("CARGO_PKG_VERSION"),
        "task": "tag",
        "seed": options.seed,
        "interrupted": false,
        "rows": { "train": data.train.len(), "valid": data.valid.len(), "test": data.test.len() },
        "labels": data.labels,
        "data_sha256": data.fingerprint(),
        "features": model.num_features(),
        "rate": chosen.0.rate,
        "penalty": chosen.0.penalty,
        "epochs": chosen.1,
        "valid": chosen.2.map(|f1| json!({ "span_f1": f1 })),
        "scored_on": part,
        "span_f1": test.all.f1,
        "scores": test,
        "parts": { "dictionary": dictionary },
        "notes": data.notes,
    });
    let mut files = model.files();
    let texts: Vec<&str> = data.train.iter().chain(&data.valid).map(|row| row.text.as_str()).collect();
    files.push((TRAINED_ON, SeenTexts::of(&texts).to_bytes()));
    let card = card(&model, data, [&test, &dictionary], part, options.seed);
    write_folder(out, files, &metrics, card)?;
    Ok(TaggerOutcome { model, metrics, test, dictionary })
}

/// Where each unit begins and ends, in characters.
fn places(text: &str, units: &[Range<usize>]) -> Vec<(usize, usize)> {
    let (mut bytes, mut characters) = (0, 0);
    let mut place = |unit: &Range<usize>| {
        let start = characters + text[bytes..unit.start].chars().count();
        characters = start + text[unit.clone()].chars().count();
        bytes = unit.end;
        (start, characters)
    };
    units.iter().map(&mut place).collect()
}

fn not_finite() -> Error {
    Error::NotFinite(tr!(
        "training: the likelihood of a text is not a number; try fewer passes with --epochs",
        "学習中に、テキストの尤度が数値になりませんでした。--epochs で学習の回数を減らしてみてください"
    ))
}

/// A validation row, ready to be judged by.
struct Judged {
    known: Vec<Vec<u32>>,
    places: Vec<(usize, usize)>,
    /// Start, end and kind of the true spans.
    truth: Vec<(usize, usize, usize)>,
}

impl Judged {
    fn of(data: &TaggerData, corpus: &Corpus, row: &SpannedText) -> Judged {
        let units = units(row, data.unit);
        let kind = |label: &String| data.labels.binary_search(label).expect("kinds are known");
        Judged {
            known: corpus.known(&features(&row.text, &units, data.unit)),
            places: places(&row.text, &units),
            truth: row.spans.iter().map(|span| (span.start, span.end, kind(&span.label))).collect(),
        }
    }

    /// Twice the spans that are right, and the spans that are true or found.
    fn count(&self, fit: &Fit<'_>, tags: Tags) -> [usize; 2] {
        let found = tags.decode(&fit.best(&self.known));
        let place =
            |(units, kind): &(Range<usize>, usize)| (self.places[units.start].0, self.places[units.end - 1].1, *kind);
        let right = found.iter().map(place).filter(|span| self.truth.contains(span)).count();
        [2 * right, self.truth.len() + found.len()]
    }
}

/// Settings, a number of epochs, and the F1 on the validation rows.
type Choice = (Settings, u64, f64);

/// The best choice on the validation rows. Settings are tried side by side; `told` hears of the best after each epoch.
fn choose(data: &TaggerData, seed: u64, most: u64, mut told: impl FnMut(u64, Choice) -> Result<()>) -> Result<Choice> {
    let corpus = Corpus::new(data.sentences(&[&data.train]), data.tags());
    let rows: Vec<Judged> = data.valid.par_iter().map(|row| Judged::of(data, &corpus, row)).collect();
    // Each with its best epoch and the F1 then.
    let mut runs: Vec<(Fit<'_>, Choice)> =
        TRIED.iter().map(|&settings| (Fit::new(&corpus, settings, seed), (settings, 0, -1.0))).collect();
    let mut best = (USUAL.0, 0, -1.0);
    for epoch in 1..=most {
        let learn = |(fit, mine): &mut (Fit<'_>, Choice)| {
            fit.epoch()?;
            let counts = rows.iter().map(|row| row.count(fit, data.tags()));
            let [twice, all] = counts.fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
            let f1 = twice as f64 / all.max(1) as f64;
            if f1 > mine.2 {
                (mine.1, mine.2) = (epoch, f1);
            }
            Some(())
        };
        runs.par_iter_mut().map(learn).collect::<Option<Vec<()>>>().ok_or_else(not_finite)?;
        best = runs.iter().fold(best, |best, (_, mine)| if mine.2 > best.2 { *mine } else { best });
        told(epoch, best)?;
        runs.retain(|(_, mine)| epoch < mine.1 + PATIENCE);
        if runs.is_empty() {
            break;
        }
    }
    Ok(best)
}

/// Scores of marking every stretch of units that was a span in training, the longest first, as what it was most often.
fn dictionary(data: &TaggerData, rows: &[SpannedText], seed: u64) -> SpanScores {
    let mut names: HashMap<String, Vec<usize>> = HashMap::new();
    let slice = |row: &SpannedText, start: usize, end: usize| -> String {
        row.text.chars().skip(start).take(end - start).collect()
    };
    for row in data.train.iter().chain(&data.valid) {
        for span in &row.spans {
            let kind = data.labels.binary_search(&span.label).unwrap_or_default();
            let counts = names.entry(slice(row, span.start, span.end)).or_insert_with(|| vec![0; data.labels.len()]);
            counts[kind] += 1;
        }
    }
    let lengths: HashSet<usize> = names.keys().map(|name| name.chars().count()).collect();
    let mut lengths: Vec<usize> = lengths.into_iter().collect();
    lengths.sort_by_key(|&n| std::cmp::Reverse(n));
    let find = |row: &SpannedText| {
        let letters: Vec<(usize, char)> = row.text.char_indices().collect();
        let byte = |at: usize| letters.get(at).map_or(row.text.len(), |(at, _)| *at);
        let units = units(row, data.unit);
        let (starts, ends): (HashSet<usize>, HashSet<usize>) = units.iter().map(|unit| (unit.start, unit.end)).unzip();
        let (mut found, mut at) = (Vec::new(), 0);
        while at < letters.len() {
            let fits = |n: &&usize| {
                at + **n <= letters.len()
                    && starts.contains(&byte(at))
                    && ends.contains(&byte(at + **n))
                    && names.contains_key(&row.text[byte(at)..byte(at + **n)])
            };
            match lengths.iter().find(fits) {
                None => at += 1,
                Some(&n) => {
                    let counts = &names[&row.text[byte(at)..byte(at + n)]];
                    let kind = (0..counts.len()).fold(0, |best, k| if counts[k] > counts[best] { k } else { best });
                    found.push(Span { start: at, end: at + n, label: data.labels[kind].clone() });
                    at += n;
                }
            }
        }
        found
    };
    let found: Vec<Vec<Span>> = rows.iter().map(find).collect();
    SpanScores::of(rows.iter().map(|row| &row.spans[..]).zip(found.iter().map(Vec::as_slice)), seed)
}

/// The model card.
fn card(model: &TextTagger, data: &TaggerData, [test, dictionary]: [&SpanScores; 2], part: &str, seed: u64) -> String {
    let labels: String = cell(&data.labels.join(lang().pick(", ", "、"))).chars().take(200).collect();
    let mut card = tr!("# Tagger: {labels}\n\n", "# 単語にラベルを付けるモデル: {labels}\n\n");
    if let Some(warning) = test.warning() {
        let _ = writeln!(card, "**{warning}**\n");
    }
    card += &tr!(
        "A conditional random field over {} features, trained from scratch with Chumoku {}; no network.\n\n",
        "{} 個の特徴による条件付き確率場（CRF）です。Chumoku {} でゼロから学習しました。ネットワークは使っていません。\n\n",
        thousands(model.num_features()),
        env!("CARGO_PKG_VERSION")
    );
    card += &score_heading(test.rows, part);
    card += lang().pick("| | precision | recall | F1 | spans |", "| | 適合率 | 再現率 | F1 | スパン |");
    card += "\n|---|---|---|---|---|\n";
    let mut row = |name: &str, score: &crate::scoring::SpanScore| {
        let [p, r, f] = [score.precision, score.recall, score.f1].map(|x| format!("{:.1} %", 100.0 * x));
        let _ = writeln!(card, "| {} | {p} | {r} | {f} | {} |", cell(name), score.spans);
    };
    row(lang().pick("**this model**", "**このモデル**"), &test.all);
    row(
        lang().pick("names seen in training alone (baseline)", "学習データにある名前だけ（比較対象）"),
        &dictionary.all,
    );
    test.kinds.iter().for_each(|kind| row(&kind.label, kind));
    card += &tr!(
        "\n## Data\n\n{} rows to train on, {} to validate, {} to test. SHA-256 of texts and spans: `{}`. Seed {seed}.\n",
        "\n## データ\n\n学習 {} 行、検証 {} 行、テスト {} 行。テキストとスパンの SHA-256: `{}`。シード {seed}。\n",
        data.train.len(),
        data.valid.len(),
        data.test.len(),
        data.fingerprint()
    );
    for (i, note) in data.notes.iter().enumerate() {
        let _ = writeln!(card, "{}- {note}", if i == 0 { "\n" } else { "" });
    }
    card + &tr!(
        "\n## Limits\n\nThe model knows nothing but its training rows: names that are in none of them are found by their form and surroundings \
         alone. Texts in another language, style or subject are marked badly.\n\n## Use\n\n```\nchumoku predict THIS_FOLDER \"some text\"\n```\n",
        "\n## 限界\n\nこのモデルが知っているのは学習データだけです。学習データにない名前は、語形と前後の語だけで判断します。言語・文体・\
         話題の異なるテキストでは、印はあてになりません。\n\n## 使い方\n\n```\nchumoku predict このフォルダ \"テキスト\"\n```\n"
    )
}
