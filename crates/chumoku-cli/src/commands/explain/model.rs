//! Models whose self-attention is explained, and their predictions with heads switched off.

use crate::UsageError;
use crate::args::{Method, Precision};
use crate::models::{load, require_attention};
use chumoku::explain::InnerSteps;
use chumoku::row::{AsRow, Row, RowRef};
use chumoku::{FeatureColumn, ModelKind, TextClassifier, TextEmbedder, TextGenerator, read_model_folder, tr};
use chumoku_view::{Explanation, Lang};
use std::path::Path;
use std::time::{Duration, Instant};

/// Names heads as `--without` does.
pub(super) fn head_names(heads: &[[usize; 2]], lang: Lang) -> String {
    let names: Vec<String> = heads.iter().map(|[layer, head]| format!("{}.{}", layer + 1, head + 1)).collect();
    match (lang, names.len()) {
        (Lang::En, 1) => format!("head {}", names[0]),
        (Lang::En, _) => format!("heads {}", names.join(", ")),
        (Lang::Ja, _) => format!("ヘッド {} ", names.join("、")),
    }
}

/// A model whose self-attention is explained.
pub(super) enum AttentionModel {
    Classifier(&'static TextClassifier),
    Generator(&'static TextGenerator),
    Encoder(&'static TextEmbedder),
}

impl AttentionModel {
    pub(super) fn load(folder: &Path, precision: Option<Precision>) -> anyhow::Result<AttentionModel> {
        read_model_folder(folder, || AttentionModel::load_once(folder, precision))
    }

    fn load_once(folder: &Path, precision: Option<Precision>) -> anyhow::Result<AttentionModel> {
        Ok(match require_attention(folder)? {
            ModelKind::LanguageModel => AttentionModel::Generator(load::generator(folder, precision)?),
            ModelKind::Encoder => AttentionModel::Encoder(load::embedder(folder, precision)?),
            ModelKind::Translator => {
                refuse!(
                    "{}: expected a classifier, a language model or an encoder, found a translator",
                    "{}: 分類モデル、言語モデル、エンコーダーのいずれかが必要ですが、翻訳モデルです",
                    folder.display()
                );
            }
            // Loading fails with a message for any other kind of model.
            _ => AttentionModel::Classifier(load::classifier(folder, precision)?),
        })
    }
}

impl AttentionModel {
    fn kind(&self) -> ModelKind {
        match self {
            AttentionModel::Classifier(_) => ModelKind::Classifier,
            AttentionModel::Generator(_) => ModelKind::LanguageModel,
            AttentionModel::Encoder(_) => ModelKind::Encoder,
        }
    }

    /// Returns true if the model reads text pairs.
    pub(super) fn reads_pairs(&self) -> bool {
        matches!(self, AttentionModel::Classifier(model) if model.config().reads_pairs())
    }

    /// Returns the feature columns of the model.
    pub(super) fn columns(&self) -> &[FeatureColumn] {
        match self {
            AttentionModel::Classifier(model) => model.config().columns(),
            AttentionModel::Generator(_) | AttentionModel::Encoder(_) => &[],
        }
    }

    /// Returns the text to explain (both texts of a pair joined) and the text that an encoder compares it with.
    pub(super) fn text_and_target<'a>(
        &self,
        text: &'a str,
        target: Option<&'a str>,
    ) -> anyhow::Result<(Row, Option<&'a str>)> {
        if let AttentionModel::Encoder(_) = self {
            return Ok((text.into(), target));
        }
        Ok((join_second_text(text, target, self.reads_pairs(), self.kind())?, None))
    }
}

/// Joins the text to explain with the second text of `--target`, if the model reads pairs.
pub(super) fn join_second_text(
    text: &str,
    target: Option<&str>,
    reads_pairs: bool,
    kind: ModelKind,
) -> anyhow::Result<Row> {
    let problem = match (reads_pairs, target) {
        (true, Some(second)) if second.trim().is_empty() => {
            tr!("--target: expected the second text, found an empty one", "--target: 2 つ目のテキストが空です")
        }
        (true, Some(second)) => return Ok(Row::pair(text, second)),
        (false, None) => return Ok(text.into()),
        (true, None) => tr!(
            "this model reads two texts: give the second with --target, as `chumoku explain MODEL \"first\" --target \"second\"`",
            "このモデルは 2 つのテキストの組を読みます。`chumoku explain MODEL \"1 つ目\" --target \"2 つ目\"` のように、2 つ目を \
             --target で指定してください"
        ),
        (false, Some(_)) => tr!(
            "--target: for an encoder (a text to compare with), a translator (a translation to explain) or a model of two texts \
             (the second); this model is {}; leave --target out, or name the folder of another model",
            "--target: エンコーダー（比べるテキスト）、翻訳モデル（説明する訳文）、2 つのテキストを読むモデル（2 つ目）で使います。この\
             モデルは{}です。--target を外すか、別のモデルのフォルダを指定してください",
            kind.describe()
        ),
    };
    Err(UsageError(problem).into())
}

/// A model with the options of its explanations.
pub(super) struct Explainer<'a> {
    pub(super) model: &'a AttentionModel,
    /// The text that an encoder compares with; the text itself by default.
    pub(super) target: Option<&'a str>,
    pub(super) name: String,
    /// How the effect of words is measured.
    pub(super) method: Method,
    /// The label to explain, for multi-label models.
    pub(super) label: Option<&'a str>,
}

/// Refuses integrated gradients for models without them.
pub(super) fn check_method(method: Method, kind: ModelKind) -> Result<(), UsageError> {
    if method == Method::LeaveOneOut || kind == ModelKind::Classifier {
        return Ok(());
    }
    Err(UsageError(tr!(
        "--method {}: only for classifiers with a network; this model is {}; leave --method out",
        "--method {}: ネットワークを持つ分類モデルで使えます。このモデルは{}です。--method を外してください",
        "integrated-gradients",
        kind.describe()
    )))
}

/// Refuses a label for models that are not multi-label.
pub(super) fn check_label(label: Option<&str>, kind: ModelKind) -> Result<(), UsageError> {
    if label.is_none() || matches!(kind, ModelKind::Classifier | ModelKind::Ngrams) {
        return Ok(());
    }
    Err(UsageError(tr!(
        "--of-label: only for multi-label models; this model is {}; leave --of-label out",
        "--of-label: 複数のラベルを答えるモデルで使えます。このモデルは{}です。--of-label を外してください",
        kind.describe()
    )))
}

impl Explainer<'_> {
    pub(super) fn explain(&self, row: RowRef<'_>, steps: &InnerSteps<'_>) -> anyhow::Result<Explanation> {
        check_method(self.method, self.model.kind())?;
        Ok(match self.model {
            AttentionModel::Classifier(model) => {
                let mut progress = ExplainProgress::new();
                let requested = (self.method.into(), self.label);
                model.explain_label(row, &self.name, requested, steps, &mut |done, all| progress.show(done, all))?
            }
            AttentionModel::Generator(model) => model.explain_with_steps(row.text(), &self.name, steps)?,
            AttentionModel::Encoder(model) => model.explain(row.text(), self.target, &self.name)?,
        })
    }

    /// Describes the prediction with heads switched off.
    pub(super) fn without_heads(&self, e: &Explanation, heads: &[[usize; 2]], lang: Lang) -> anyhow::Result<String> {
        // A classifier with n-grams: first the network alone, which has the heads, then the ensemble.
        let found = match self.model {
            AttentionModel::Classifier(model) => {
                let prediction = model.predict_without_heads(&[&e.full_row()], heads)?.remove(0);
                let labels = model.labels();
                let class = |label: &str| labels.iter().position(|other| other == label);
                let changed =
                    |whose, from: &str, to: usize, before: Option<f32>, p: &dyn Fn(usize) -> f32| PredictionChange {
                        prefix: whose,
                        label: from.to_owned(),
                        before: before.unwrap_or(f32::NAN),
                        after: class(from).map_or(f32::NAN, p),
                        new_prediction: (labels[to].clone(), p(to)),
                    };
                let before = e.probabilities.iter().find(|p| p.label == e.label).map(|p| p.probability);
                // A number asks about its threshold, even if other labels are more probable.
                let to =
                    |label: &str, most: usize| if e.number.is_some() { class(label).unwrap_or(most) } else { most };
                let of_whole = |whose| {
                    changed(whose, &e.label, to(&e.label, prediction.class()), before, &|class| {
                        prediction.probabilities[class]
                    })
                };
                match &e.parts {
                    None => vec![of_whole("")],
                    Some(parts) => {
                        let first = parts.network.first().map_or(e.label.as_str(), |p| p.label.as_str());
                        let own = if e.number.is_some() { e.label.as_str() } else { first };
                        let p = |class: usize| prediction.network[class].exp();
                        let whose = lang.pick("transformer alone: ", "トランスフォーマー単独：");
                        let most = to(own, prediction.network_class());
                        let network = changed(whose, own, most, e.network_probability(own), &p);
                        vec![network, of_whole(lang.pick("with n-grams: ", "n-gram と合わせた予測："))]
                    }
                }
            }
            AttentionModel::Encoder(model) => {
                let now = model.similarity_without(e.text.as_row().text(), self.target, heads)?;
                return Ok(similarity_without_heads(e, now, &head_names(heads, lang), lang));
            }
            AttentionModel::Generator(model) => {
                let next = model.next_token(e.text.as_row().text(), heads)?;
                let of = |label: &str| next.iter().find(|(token, _)| token == label).map_or(0.0, |(_, p)| *p);
                let before = e.probabilities.iter().find(|p| p.label == e.label).map_or(f32::NAN, |p| p.probability);
                vec![PredictionChange {
                    prefix: "",
                    label: e.label.clone(),
                    before,
                    after: of(&e.label),
                    new_prediction: next[0].clone(),
                }]
            }
        };
        let heads = head_names(heads, lang);
        let first = match lang {
            Lang::En => format!("Without {heads}:"),
            Lang::Ja => format!("{heads}を無効にすると："),
        };
        Ok(found.iter().fold(first, |lines, changed| lines + "\n" + &changed.to_text(lang)))
    }
}

/// Describes the change of an embedding or of its similarity.
fn similarity_without_heads(e: &Explanation, now: f32, heads: &str, lang: Lang) -> String {
    let before = e.similarity.unwrap_or(f32::NAN);
    match (lang, e.is_compared_with_itself()) {
        (Lang::En, false) => format!("Without {heads}: the cosine similarity goes from {before:.4} to {now:.4}."),
        (Lang::En, true) => format!("Without {heads}: the cosine of the vector with that of all heads is {now:.4}."),
        (Lang::Ja, false) => {
            format!("{heads}を無効にすると：コサイン類似度は {before:.4} から {now:.4} になります。")
        }
        (Lang::Ja, true) => {
            format!("{heads}を無効にすると：元のベクトルとのコサインは {now:.4} です。")
        }
    }
}

/// The change of a prediction.
struct PredictionChange {
    prefix: &'static str,
    label: String,
    before: f32,
    after: f32,
    /// The new prediction with its probability.
    new_prediction: (String, f32),
}

impl PredictionChange {
    /// Formats the change in one or two lines: an ordinary label fits a narrow terminal.
    fn to_text(&self, lang: Lang) -> String {
        let PredictionChange { prefix: whose, label, before, after, new_prediction: (other, now) } = self;
        let [before, after, now] = [before, after, now].map(|p| 100.0 * p);
        let first = match lang {
            Lang::En => format!("  {whose}“{label}” goes from {before:.1} % to {after:.1} %"),
            Lang::Ja => format!("  {whose}「{label}」は {before:.1} % から {after:.1} % になります"),
        };
        let changed = match (label == other, lang) {
            (true, Lang::En) => "; the prediction stays.".to_owned(),
            (true, Lang::Ja) => "。予測は変わりません。".to_owned(),
            (false, Lang::En) => format!(".\n  The prediction becomes “{other}” ({now:.1} %)."),
            (false, Lang::Ja) => format!("。\n  予測は「{other}」（{now:.1} %）に変わります。"),
        };
        first + &changed
    }
}

/// Progress of long explanations on standard error: words that were left out, or errors that were explained.
pub(super) struct ExplainProgress {
    last: Instant,
    are_errors: bool,
}

impl ExplainProgress {
    pub(super) fn new() -> ExplainProgress {
        ExplainProgress { last: Instant::now(), are_errors: false }
    }

    pub(super) fn for_errors() -> ExplainProgress {
        ExplainProgress { are_errors: true, ..ExplainProgress::new() }
    }

    pub(super) fn show(&mut self, done: usize, all: usize) {
        if done < all && self.last.elapsed() > Duration::from_secs(2) {
            self.last = Instant::now();
            let text = match self.are_errors {
                false => tr!(
                    "words     {done} of {all} left out in turn",
                    "語        {all} 語中 {done} 語の影響を測定しました"
                ),
                true => tr!("errors    {done} of {all} explained", "誤り      {all} 件中 {done} 件を説明しました"),
            };
            say!("{text}");
        }
    }
}
