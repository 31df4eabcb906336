//! The contents of a model folder: task, inputs, sizes, and scores of the training.

use crate::ExitCode;
use crate::progress::pluralize;
use crate::report::{percent, wrap};
use chumoku::Predictor;
use chumoku::data::format_thousands;
use chumoku::hierarchy::Hierarchy;
use chumoku::lang::{lang, sanitize};
use chumoku::nn::{BackboneConfig, EncoderConfig};
use chumoku::train::{network_name, network_sizes};
use chumoku::{
    AbstentionCalibration, FeatureColumn, ModelKind, NgramClassifier, TextAutoencoder, TextClassifier, TextEmbedder,
    TextGenerator, TextTagger, TextTranslator, TextTranslatorConfig, model_file, read_model_folder, tr,
};
use serde_json::{Map, Value, json};
use std::io::{Write, stdout};
use std::path::Path;

/// Levels of `--abstain` to report.
const ABSTAIN_LEVELS: [f64; 5] = [0.8, 0.9, 0.95, 0.98, 0.99];
/// Number of classes to name.
const MAX_NAMED: usize = 8;
const WIDTH: usize = 80;
/// Columns of the names on the left.
const NAME_WIDTH: usize = 14;

/// Lines for users, and the same content as JSON.
#[derive(Default)]
struct ModelInfo {
    lines: Vec<(&'static str, String)>,
    json: Map<String, Value>,
}

pub(super) fn run(folder: &Path, as_json: bool) -> anyhow::Result<ExitCode> {
    let about = read_model_folder(folder, || ModelInfo::from_folder(folder))?;
    let mut out = stdout().lock();
    if as_json {
        writeln!(out, "{}", Value::Object(about.json))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (name, text) in &about.lines {
        let name = crate::report::fit(name, NAME_WIDTH - 1);
        for (i, line) in wrap(text, WIDTH - NAME_WIDTH).lines().enumerate() {
            let before = if i == 0 { name.as_str() } else { "" };
            writeln!(out, "{}", format!("{} {line}", crate::report::fit(before, NAME_WIDTH - 1)).trim_end())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl ModelInfo {
    fn from_folder(folder: &Path) -> chumoku::Result<ModelInfo> {
        let kind = ModelKind::from_folder(folder)?;
        let mut about = ModelInfo::default();
        about.json.insert("folder".into(), json!(folder.display().to_string()));
        match kind {
            ModelKind::Classifier => about.classifier(&TextClassifier::load(folder)?),
            ModelKind::Ngrams => about.ngrams(&NgramClassifier::load(folder)?),
            ModelKind::Tagger => about.tagger(&TextTagger::load(folder)?),
            ModelKind::Translator => about.translator(&TextTranslator::load(folder)?),
            ModelKind::Autoencoder => about.autoencoder(&TextAutoencoder::load(folder)?),
            ModelKind::LanguageModel => about.generator(&TextGenerator::load(folder)?),
            // Loading fails with a message for any other kind of model.
            _ => about.embedder(&TextEmbedder::load(folder, None)?),
        }
        about.training(folder);
        about.files(folder);
        Ok(about)
    }

    fn line(&mut self, [english, japanese]: [&'static str; 2], text: String) {
        self.lines.push((lang().pick(english, japanese), text));
    }

    fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.json.insert(key.into(), value.into());
    }

    /// Adds the task of the model.
    fn task(&mut self, name: &str, version: &str, text: String) {
        self.put("task", name);
        self.line(["task", "タスク"], text);
        if !version.is_empty() {
            self.put("chumoku_version", version);
        }
    }

    /// Adds the classes or labels, with as many names as fit.
    fn labels(&mut self, labels: &[String]) {
        self.put("labels", labels);
        let shown: Vec<String> = labels.iter().take(MAX_NAMED).map(|label| sanitize(label)).collect();
        let more = if labels.len() > MAX_NAMED { lang().pick(", …", "、…") } else { "" };
        self.line(["labels", "ラベル"], shown.join(lang().pick(", ", "、")) + more);
    }

    fn levels(&mut self, tree: Option<&Hierarchy>) {
        let Some(tree) = tree else { return };
        self.put("levels", tree.depth());
        let (levels, nodes) = (tree.depth(), format_thousands(tree.nodes().len()));
        self.line(
            ["levels", "階層"],
            tr!("a tree of {levels} levels and {nodes} nodes", "{levels} 段、節は {nodes} 個"),
        );
    }

    fn reads(&mut self, pairs: bool, columns: &[FeatureColumn]) {
        self.put("pairs", pairs);
        let what = if pairs {
            lang().pick("pairs of texts", "2 つのテキストの組")
        } else {
            lang().pick("texts", "テキスト")
        };
        let names: Vec<Value> = columns.iter().map(|column| json!(column.name)).collect();
        self.put("columns", names);
        let columns: Vec<String> = columns.iter().map(FeatureColumn::describe).collect();
        let beside = match columns.is_empty() {
            true => String::new(),
            false => tr!("; columns {}", "。列: {}", columns.join(lang().pick(", ", "、"))),
        };
        self.line(["reads", "入力"], format!("{what}{beside}"));
    }

    fn network(&mut self, body: &BackboneConfig, parameters: usize) {
        let (name, sizes) = (network_name(body.kind()), network_sizes(body, lang()));
        self.put("network", json!({ "sizes": body.describe(), "parameters": parameters }));
        let parameters = format_thousands(parameters);
        self.line(
            ["network", "ネットワーク"],
            tr!("{name}, {sizes}: {parameters} parameters", "{name}、{sizes}、パラメータ {parameters}"),
        );
    }

    fn transformer(&mut self, encoder: &EncoderConfig, parameters: usize) {
        self.network(&BackboneConfig::Transformer(encoder.clone()), parameters);
    }

    fn tokens(&mut self, vocabulary: usize, most: usize) {
        self.put("vocabulary", vocabulary);
        self.put("max_tokens", most);
        let [vocabulary, most] = [vocabulary, most].map(format_thousands);
        self.line(
            ["tokens", "トークン"],
            tr!("vocabulary of {vocabulary}, up to {most} at a time", "語彙 {vocabulary}、一度に {most} まで"),
        );
    }

    fn features(&mut self, features: usize, what: String) {
        self.put("features", features);
        self.line(["n-grams", "n-gram"], what);
    }

    /// Adds the levels that `--abstain` can promise.
    fn abstention(&mut self, calibration: Option<&AbstentionCalibration>) {
        let Some(calibration) = calibration.filter(|calibration| !calibration.risk_coverage_curve.is_empty()) else {
            return;
        };
        let can = |share: &f64| match calibration.levels.is_empty() {
            true => calibration.threshold_for(*share).is_some(),
            false => calibration.level_thresholds(*share).iter().any(Option::is_some),
        };
        let shares: Vec<f64> = ABSTAIN_LEVELS.into_iter().filter(can).collect();
        self.put("abstain", shares.clone());
        let rows = format_thousands(calibration.rows);
        let text = match shares.is_empty() {
            true => tr!(
                "no level can be promised: {rows} validation rows are too few",
                "保証できる水準はありません（検証データ {rows} 行では足りません）"
            ),
            false => {
                let shares: Vec<String> = shares.iter().map(f64::to_string).collect();
                let shares = shares.join(lang().pick(", ", "、"));
                tr!(
                    "--abstain {shares} can be promised, based on {rows} validation rows",
                    "検証データ {rows} 行から --abstain {shares} を保証できます"
                )
            }
        };
        self.line(["abstain", "保留"], text);
    }

    /// Adds the objective of a predictor: classes, labels or a number, with label names and tree.
    fn objective(&mut self, model: Predictor<'_>, version: &str) {
        let (target, labels) = (model.target(), model.labels());
        let tree = model.hierarchy().or(model.label_hierarchy());
        let is_alone = matches!(model, Predictor::Ngrams(_));
        let n = format_thousands(labels.len());
        let by = if is_alone { lang().pick(", n-grams only", "（n-gram のみ）") } else { "" };
        if let Some(number) = target.number() {
            let [least, most] = number.discretizer.range;
            let text = tr!(
                "a number for each text, from {least} to {most}{by}",
                "テキストごとの数値（{least} から {most}）{by}"
            );
            self.task("score", version, text);
            self.put("range", json!([least, most]));
            return;
        }
        match target.is_one_class() {
            true => {
                self.task("classify", version, tr!("one of {n} classes for each text{by}", "{n} クラスの分類{by}"));
            }
            false => self.task(
                "labels",
                version,
                tr!("any of {n} labels for each text{by}", "{n} 個のラベルのうちいくつでも{by}"),
            ),
        }
        self.labels(labels);
        self.levels(tree);
    }

    fn classifier(&mut self, model: &TextClassifier) {
        let config = model.config();
        self.objective(Predictor::Classifier(model), &config.chumoku_version);
        self.reads(config.reads_pairs(), config.columns());
        self.network(&config.model.backbone, model.num_parameters());
        self.tokens(config.model.vocab_size, config.max_tokens());
        if let Some(features) = model.num_features() {
            let share = config.blend.ngrams / (config.blend.network + config.blend.ngrams).max(f32::MIN_POSITIVE);
            let features_shown = format_thousands(features);
            let beside = match config.target.is_one_class() {
                true => tr!(", {:.0} % of the weight", "、重みの {:.0} %", 100.0 * share),
                false => String::new(),
            };
            let text =
                tr!("{features_shown} alongside the network{beside}", "ネットワークと並ぶ {features_shown} 個{beside}");
            self.features(features, text);
        }
        self.abstention(config.abstention.as_ref());
    }

    fn ngrams(&mut self, model: &NgramClassifier) {
        let config = model.config();
        self.objective(Predictor::Ngrams(model), &config.chumoku_version);
        self.reads(config.reads_pairs(), model.columns());
        let features = format_thousands(model.num_features());
        self.features(model.num_features(), tr!("{features} in a linear model", "{features} 個の線形モデル"));
        self.abstention(config.abstention.as_ref());
    }

    fn tagger(&mut self, model: &TextTagger) {
        let config = model.config();
        let n = format_thousands(config.labels.len());
        let text = match config.each_word {
            true => tr!("one of {n} labels for each word", "単語ごとに {n} 種のラベル"),
            false => {
                let kinds = pluralize(config.labels.len(), "kind");
                tr!("spans of {kinds} in each text", "テキスト中の {n} 種のスパン")
            }
        };
        self.task("tag", &config.chumoku_version, text);
        self.labels(&config.labels);
        let features = format_thousands(model.num_features());
        self.features(
            model.num_features(),
            tr!(
                "{features} features of words in a conditional random field",
                "単語の特徴 {features} 個による条件付き確率場"
            ),
        );
        if let Some(network) = &config.network {
            self.transformer(&network.model.encoder.encoder, model.num_parameters());
            self.tokens(network.model.encoder.vocab_size, network.max_tokens);
        }
    }

    fn translator(&mut self, model: &TextTranslator) {
        let config = model.config();
        let [source, target] = config.names.each_ref().map(|name| sanitize(name));
        let text = tr!("translates from {source} to {target}", "{source} から {target} への翻訳");
        self.task("translate", &config.chumoku_version, text);
        self.encoder_decoder(config, model.num_parameters());
    }

    fn autoencoder(&mut self, model: &TextAutoencoder) {
        let (config, width) = (model.config(), model.embedding_dim());
        let text = tr!("writes texts again from {width} numbers", "{width} 個の数からのテキストの復元");
        self.task("autoencode", &config.chumoku_version, text);
        self.put("bottleneck", width);
        self.encoder_decoder(config, model.num_parameters());
    }

    fn encoder_decoder(&mut self, config: &TextTranslatorConfig, parameters: usize) {
        self.transformer(&config.model.encoder, parameters);
        let layers = config.model.num_decoder_layers;
        self.line(
            ["decoder", "デコーダー"],
            if layers == 1 { tr!("1 layer", "1 層") } else { tr!("{layers} layers", "{layers} 層") },
        );
        self.tokens(config.model.target_vocab_size, config.model.max_length);
    }

    fn generator(&mut self, model: &TextGenerator) {
        let config = model.config();
        self.task(
            "lm",
            &config.chumoku_version,
            tr!("continues texts (language model)", "文章の続きの生成（言語モデル）"),
        );
        self.transformer(&config.model.encoder, model.num_parameters());
        self.tokens(config.model.vocab_size, config.model.max_length);
    }

    fn embedder(&mut self, model: &TextEmbedder) {
        self.task("embed", "", tr!("a vector for each text (encoder)", "テキストの埋め込み（エンコーダー）"));
        let [width, limit] = [model.embedding_dim(), model.max_tokens()].map(format_thousands);
        let parameters = model.params().values().len();
        self.put("network", json!({ "width": model.embedding_dim(), "parameters": parameters }));
        self.put("max_tokens", model.max_tokens());
        let parameters = format_thousands(parameters);
        self.line(
            ["network", "ネットワーク"],
            tr!(
                "width {width}, {parameters} parameters, up to {limit} tokens",
                "幅 {width}、パラメータ {parameters}、{limit} トークンまで"
            ),
        );
        let prompts: Vec<&str> = model.prompts().collect();
        if !prompts.is_empty() {
            self.line(["prompts", "プロンプト"], prompts.join(lang().pick(", ", "、")));
            self.put("prompts", prompts);
        }
    }

    /// Adds the training information of `metrics.json`, if the file exists.
    fn training(&mut self, folder: &Path) {
        let text = std::fs::read_to_string(model_file(folder, "metrics.json")).unwrap_or_default();
        let Ok(metrics) = serde_json::from_str::<Value>(&text) else {
            if !text.is_empty() {
                self.line(
                    ["scores", "成績"],
                    tr!("unknown: metrics.json is damaged", "不明（metrics.json が壊れています）"),
                );
            }
            return;
        };
        let counts = ["rows", "documents"].into_iter().find_map(|key| Some((key, metrics[key].as_object()?)));
        let count = |part: &str| counts.and_then(|(_, counts)| counts.get(part)).and_then(Value::as_u64);
        if let (Some(rows), Some((key, _))) = (count("train"), counts) {
            // A document may be split between training and validation.
            let [one, many, ja] = if key == "rows" { ["row", "rows", "行"] } else { ["text", "texts", "件"] };
            let noun = lang().pick(if rows == 1 { one } else { many }, ja);
            let [train, valid, test] =
                [rows, count("valid").unwrap_or(0), count("test").unwrap_or(0)].map(|n| format_thousands(n as usize));
            let seed = &metrics["seed"];
            let text = tr!(
                "{train} {noun}, {valid} to validate, {test} to test; seed {seed}",
                "学習 {train} {noun}、検証 {valid}、テスト {test}、シード {seed}"
            );
            self.line(["trained on", "学習データ"], text);
        }
        let on = match metrics["scored_on"].as_str() {
            Some("test") => lang().pick("on the test rows", "テストデータ"),
            Some("valid") => lang().pick("on the validation rows (optimistic)", "検証データ（楽観的な値）"),
            _ => lang().pick(
                "on the training rows (no estimate for new texts)",
                "学習データ（新しいテキストについては分かりません）",
            ),
        };
        let shown: Vec<String> =
            main_metrics(&metrics).iter().map(|metric| format!("{} {}", metric.name, metric.value)).collect();
        if !shown.is_empty() {
            self.line(["scores", "成績"], tr!("{} {on}", "{}（{on}）", shown.join(lang().pick(", ", "、"))));
        }
        let kept = ["rows", "documents", "seed", "scored_on", "data_sha256", "epochs"];
        let mut about: Map<String, Value> = kept
            .into_iter()
            .filter(|key| !metrics[*key].is_null())
            .map(|key| (key.into(), metrics[key].clone()))
            .collect();
        for MainMetric { key, .. } in main_metrics(&metrics) {
            let value = [&metrics[key], &metrics["scores"][key]].into_iter().find(|value| !value.is_null());
            about.insert(key.into(), value.cloned().unwrap_or_default());
        }
        self.put("training", about);
    }

    fn files(&mut self, folder: &Path) {
        let size = |name: &str| Some((name.to_owned(), std::fs::metadata(model_file(folder, name)).ok()?.len()));
        let found: Vec<(String, u64)> =
            ["model.safetensors", "ngrams.safetensors", "tokenizer.json"].into_iter().filter_map(size).collect();
        let shown: Vec<String> = found.iter().map(|(name, bytes)| format!("{name} {}", shown_size(*bytes))).collect();
        self.line(["files", "ファイル"], shown.join(lang().pick(", ", "、")));
        self.put("bytes", found.into_iter().map(|(name, bytes)| (name, bytes.into())).collect::<Map<String, Value>>());
    }
}

fn shown_size(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes < 1e6 => format!("{:.0} KB", bytes / 1e3),
        bytes => format!("{:.1} MB", bytes / 1e6),
    }
}

/// A main metric of a model's task.
struct MainMetric {
    key: &'static str,
    name: &'static str,
    value: String,
}

/// Returns the main metrics of the model's task.
fn main_metrics(metrics: &Value) -> Vec<MainMetric> {
    let name = |en, ja| lang().pick(en, ja);
    let of_autoencoder =
        [("exact", name("exact", "完全一致"), true), ("character_accuracy", name("characters", "文字"), true)];
    let all = [
        ("accuracy", name("accuracy", "正解率"), true),
        ("micro_f1", name("micro-F1", "ミクロ F1"), true),
        ("macro_f1", name("macro-F1", "マクロ F1"), true),
        ("mean_absolute_error", name("mean absolute error", "平均絶対誤差"), false),
        ("spearman", name("Spearman", "順位相関"), false),
        ("span_f1", name("span F1", "スパン F1"), true),
        ("bleu", "BLEU", false),
        ("chrf", "chrF2", false),
        ("perplexity_per_token", name("perplexity per token", "トークン当たりのパープレキシティ"), false),
    ];
    let found = |(key, name, is_share): (&'static str, &'static str, bool)| {
        let value = metrics[key].as_f64().or_else(|| metrics["scores"][key].as_f64())?;
        let value = if is_share { percent(value) } else { format!("{value:.3}") };
        Some(MainMetric { key, name, value })
    };
    match metrics["task"] == "autoencode" {
        true => of_autoencoder.into_iter().filter_map(found).collect(),
        false => all.into_iter().filter_map(found).collect(),
    }
}
