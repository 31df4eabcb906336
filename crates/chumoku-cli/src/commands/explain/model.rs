//! A model whose self-attention is explained, and what it says with heads switched off.

use crate::Usage;
use chumoku::view::{Explanation, Lang};
use chumoku::{ModelKind, TextClassifier, TextGenerator, tr};
use std::path::Path;

/// Names heads as `--without` does.
pub(super) fn named(heads: &[[usize; 2]], lang: Lang) -> String {
    let names: Vec<String> = heads.iter().map(|[layer, head]| format!("{}.{}", layer + 1, head + 1)).collect();
    match (lang, names.len()) {
        (Lang::En, 1) => format!("head {}", names[0]),
        (Lang::En, _) => format!("heads {}", names.join(", ")),
        (Lang::Ja, _) => format!("ヘッド {} ", names.join("、")),
    }
}

/// That a folder holds an n-gram model where attention is asked for.
pub(crate) fn no_attention(folder: &Path) -> anyhow::Error {
    let folder = folder.display();
    let problem = tr!(
        "{folder}: this is an n-gram model, which has no attention; name a model with a transformer, as `chumoku train` \
         without --model ngrams makes it",
        "{folder}：n-gram モデルにはアテンションがありません。トランスフォーマーのモデル（--model ngrams なしの \
         `chumoku train` で作ったもの）を指定してください"
    );
    Usage(problem).into()
}

/// A model whose self-attention is explained.
pub(super) enum Model {
    Classifier(Box<TextClassifier>),
    Generator(Box<TextGenerator>),
}

impl Model {
    pub(super) fn load(folder: &Path) -> anyhow::Result<Model> {
        Ok(match ModelKind::of(folder)? {
            ModelKind::Classifier => Model::Classifier(Box::new(TextClassifier::load(folder)?)),
            ModelKind::LanguageModel => Model::Generator(Box::new(TextGenerator::load(folder)?)),
            ModelKind::Ngrams => return Err(no_attention(folder)),
            ModelKind::Translator => {
                let problem =
                    format!("{}: expected a classifier or a language model, found a translator", folder.display());
                return Err(Usage(problem).into());
            }
        })
    }
}

/// A model, and what it is called.
pub(super) struct Explainer<'a> {
    pub(super) model: &'a Model,
    pub(super) name: String,
}

impl Explainer<'_> {
    pub(super) fn explain(&self, text: &str) -> anyhow::Result<Explanation> {
        Ok(match self.model {
            Model::Classifier(model) => model.explain(text, &self.name)?,
            Model::Generator(model) => model.explain(text, &self.name)?,
        })
    }

    /// What is predicted with heads switched off, in a sentence.
    pub(super) fn without(&self, e: &Explanation, heads: &[[usize; 2]], lang: Lang) -> anyhow::Result<String> {
        let before = e.probabilities.iter().find(|p| p.label == e.label).map_or(f32::NAN, |p| p.probability);
        let (label, after, now) = match self.model {
            Model::Classifier(model) => {
                let prediction = model.predict_without(&[&e.text], heads)?.remove(0);
                let class = model.labels().iter().position(|label| *label == e.label);
                let p = &prediction.probabilities;
                (
                    model.labels()[prediction.class()].clone(),
                    class.map_or(f32::NAN, |class| p[class]),
                    p[prediction.class()],
                )
            }
            Model::Generator(model) => {
                let next = model.next_token(&e.text, heads)?;
                let of = |label: &str| next.iter().find(|(token, _)| token == label).map_or(0.0, |(_, p)| *p);
                (next[0].0.clone(), of(&e.label), next[0].1)
            }
        };
        let [before, after, now] = [before, after, now].map(|p| 100.0 * p);
        let heads = named(heads, lang);
        // Two lines, so that an ordinary label fits a narrow terminal.
        let first = match lang {
            Lang::En => format!("Without {heads}:\n  “{}” goes from {before:.1} % to {after:.1} %", e.label),
            Lang::Ja => {
                format!("{heads}を無効にすると：\n  「{}」は {before:.1} % から {after:.1} % になります", e.label)
            }
        };
        let changed = match (label == e.label, lang) {
            (true, Lang::En) => "; the prediction stays.".to_owned(),
            (true, Lang::Ja) => "。予測は変わりません。".to_owned(),
            (false, Lang::En) => format!(".\n  The prediction becomes “{label}” ({now:.1} %)."),
            (false, Lang::Ja) => format!("。\n  予測は「{label}」（{now:.1} %）に変わります。"),
        };
        Ok(first + &changed)
    }
}
