//! The film of a run: the attention on one text, recorded in `log.jsonl` during training.

use crate::explain::{AttentionCollector, AttentionFrame, FRAME_KEY, FramedText, word_weights};
use crate::models::{Classifier, LanguageModel, TranslationBatch, Translator};
use crate::nn::BackboneKind;
use crate::params::Params;
use crate::row::Row;
use crate::text::{TextTokenizer, word_spans};
use crate::train::{LogWeights, ObservedNetwork, WeightsObserver};
use crate::{Error, ModelKind, Result, tr};
use serde_json::json;
use std::ops::Range;

/// A text whose attention is recorded during training, for [`TrainOptions::watch`](crate::train::TrainOptions::watch).
/// [`load_frames`](crate::explain::load_frames) reads the frames.
///
/// ```
/// use chumoku::film::WatchedText;
/// use chumoku::train::TrainOptions;
/// use std::sync::Arc;
///
/// let mut options = TrainOptions::default();
/// options.watch = Some(Arc::new(WatchedText::new("a fine film")));
/// ```
#[derive(Clone, Debug)]
pub struct WatchedText {
    text: String,
}

impl WatchedText {
    /// Watches a text. For a translator and for pairs of texts, a tab separates both texts.
    pub fn new(text: impl Into<String>) -> WatchedText {
        WatchedText { text: text.into() }
    }
}

impl WeightsObserver for WatchedText {
    fn check(&self, kind: ModelKind, network: BackboneKind) -> Result<()> {
        let fault = |problem: String| Err(Error::Setting(problem));
        match kind {
            _ if self.text.trim().is_empty() => fault(tr!("the text to watch is empty", "記録するテキストが空です")),
            ModelKind::Tagger => fault(tr!(
                "watching attention: a tagger's attention cannot be recorded; leave the text out",
                "単語にラベルを付けるモデルのアテンションは記録できません。テキストの指定を外してください"
            )),
            ModelKind::Autoencoder => fault(tr!(
                "watching attention: the decoder of an autoencoder sees one vector, to which all attention goes; leave the text out",
                "オートエンコーダーのデコーダーが見るのは 1 本のベクトルだけで、アテンションはすべてそこに向きます。テキストの指定を外してください"
            )),
            ModelKind::Ngrams => fault(tr!(
                "watching attention: an n-gram model has no attention",
                "n-gram モデルには記録するアテンションがありません"
            )),
            ModelKind::Encoder => fault(tr!(
                "watching attention: cannot be recorded while an encoder is pretrained; record the classifier that \
                 starts from it",
                "エンコーダーの事前学習ではアテンションを記録できません。それを使う分類モデルの学習で記録してください"
            )),
            ModelKind::Classifier if network != BackboneKind::Transformer => fault(tr!(
                "watching attention: a recurrent network has no attention",
                "再帰型ネットワークには記録するアテンションがありません"
            )),
            ModelKind::Translator if !self.text.contains('\t') => fault(tr!(
                "watching a translator: expected a source and its translation with a tab between them, found no tab",
                "翻訳器のアテンションを記録するには原文と訳文をタブで区切って指定しますが、タブがありません"
            )),
            _ => Ok(()),
        }
    }

    fn observe<'a>(&self, network: ObservedNetwork<'a>) -> Result<LogWeights<'a>> {
        let record = match network {
            ObservedNetwork::Classifier { model, tokenizer, max_tokens, reads_pairs } => {
                let text = Row::from_line(&self.text, reads_pairs).ok_or_else(|| {
                    Error::Setting(tr!(
                        "--watch: expected two texts separated by a tab, since the rows are pairs of texts",
                        "--watch: 各行は 2 つのテキストの組です。2 つのテキストをタブで区切って指定してください"
                    ))
                })?;
                classifier(model, tokenizer, max_tokens, &text)?
            }
            ObservedNetwork::LanguageModel { model, tokenizer } => language_model(model, tokenizer, &self.text)?,
            ObservedNetwork::Translator { model, source, target } => translator(model, [source, target], &self.text)?,
        };
        Ok(Box::new(move |params, step, epoch| {
            let frame = AttentionFrame { step, epoch, ..record(params)? };
            Ok(json!({ "step": step, "epoch": epoch, FRAME_KEY: frame.to_json() }))
        }))
    }
}

/// Computes the attention on the watched text for given weights.
type FrameRecorder<'a> = Box<dyn Fn(&Params<f32>) -> Result<AttentionFrame> + 'a>;

/// Records the attention of a classifier. A recurrent network has none.
fn classifier<'a>(
    model: &'a Classifier,
    tokenizer: &TextTokenizer,
    most: usize,
    text: &Row,
) -> Result<FrameRecorder<'a>> {
    let config = model.config();
    let (size, causal) =
        config.backbone.transformer().map_or(([0; 2], false), |c| ([c.num_layers, c.num_heads], c.causal));
    let reading = FramedText::read(text, tokenizer, most)?;
    let words = reading.word_names(text, tokenizer);
    Ok(Box::new(move |params| {
        let mut look = AttentionCollector::new(&reading.tokens);
        model.trace_layers(params, &reading.ids, &mut |record| look.add(record))?;
        Ok(frame([words.clone(), words.clone()], size, causal, look.attention))
    }))
}

/// Records the attention of a language model.
fn language_model<'a>(model: &'a LanguageModel, tokenizer: &TextTokenizer, text: &str) -> Result<FrameRecorder<'a>> {
    let config = model.config();
    let size = [config.encoder.num_layers, config.encoder.num_heads];
    let reading = FramedText::read(text, tokenizer, config.max_length)?;
    let words = reading.word_names(text, tokenizer);
    Ok(Box::new(move |params| {
        let mut look = AttentionCollector::new(&reading.tokens);
        model.trace_layers(params, &reading.ids, &mut |record| look.add(record))?;
        Ok(frame([words.clone(), words.clone()], size, true, look.attention))
    }))
}

/// Records the cross-attention of a translator, for a source and its translation separated by a tab.
fn translator<'a>(
    model: &'a Translator,
    [reader, writer]: [&TextTokenizer; 2],
    text: &str,
) -> Result<FrameRecorder<'a>> {
    let (source, target) = text.split_once('\t').unwrap_or((text, ""));
    let limit = model.config().max_length - 1;
    let mut pair = TranslationBatch::default();
    let mut sides = Vec::new();
    for (text, tokenizer) in [(source, reader), (target, writer)] {
        let encoded = tokenizer.encode(text)?;
        if encoded.ids.len() > limit {
            return Err(chumoku_nn::Error::TooLong { limit, found: encoded.ids.len() }.into());
        }
        let words = word_spans(text, &encoded);
        // The end token of each side counts as a separate word.
        let end = encoded.ids.len()..encoded.ids.len() + 1;
        let tokens: Vec<Range<usize>> = words.iter().map(|word| word.tokens.clone()).chain([end]).collect();
        let names = words.iter().map(|word| text[word.bytes.clone()].to_owned()).chain(["[END]".to_owned()]);
        sides.push((names.collect::<Vec<String>>(), tokens, encoded.ids));
    }
    pair.push(&[&sides[0].2[..], &[reader.cls_id()]].concat(), &sides[1].2, writer.cls_id());
    let words = [sides[1].0.clone(), sides[0].0.clone()];
    Ok(Box::new(move |params| {
        let layers = model.alignment(params, &pair)?;
        let heads = layers.iter().flat_map(|layer| layer.outer_iter());
        let attention: Vec<f32> =
            heads.flat_map(|head| word_weights(&head.mapv(f64::from), [&sides[1].1, &sides[0].1])).collect();
        Ok(frame(words.clone(), [layers.len(), model.config().encoder.num_heads], false, attention))
    }))
}

fn frame(words: [Vec<String>; 2], [layers, heads]: [usize; 2], causal: bool, attention: Vec<f32>) -> AttentionFrame {
    AttentionFrame { step: 0, epoch: 0, words, layers, heads, causal, attention }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{LanguageModelConfig, TranslatorConfig, TranslatorOptions};
    use crate::nn::{EncoderConfig, InputEmbeddingsOptions, PositionKind};
    use crate::text::{NormalizationForm, TokenizationUnit, TokenizerConfig};
    use std::sync::Arc;
    use testkit::Random;

    fn tokenizer() -> TextTokenizer {
        let config = TokenizerConfig {
            vocab_size: 60,
            min_frequency: 1,
            form: NormalizationForm::NfkcLowercase,
            unit: TokenizationUnit::Subwords,
        };
        TextTokenizer::train(&["ab ab ab cd cd", "q w"], &config).unwrap()
    }

    fn encoder(causal: bool) -> EncoderConfig {
        EncoderConfig { causal, ..EncoderConfig::new(1, 16, 2, 24) }
    }

    fn random(layout: &Arc<crate::params::ParamLayout>) -> Params<f32> {
        let mut params = Params::zeros(layout);
        let mut random = Random::new(3);
        params.values_mut().iter_mut().for_each(|value| *value = 0.4 * random.number() as f32);
        params
    }

    #[test]
    fn a_translator_records_attention_from_translation_to_source() {
        let tokenizer = tokenizer();
        let config = |max_length| TranslatorConfig {
            source_vocab_size: tokenizer.vocab_size(),
            target_vocab_size: tokenizer.vocab_size(),
            joint_vocabulary: false,
            encoder: encoder(false),
            num_decoder_layers: 1,
            position: PositionKind::Sinusoidal,
            max_length,
            embedding_dropout: 0.0,
            options: TranslatorOptions::default(),
        };
        let text = "ab wxyz cd\tcd ab";
        let longest = tokenizer.encode("ab wxyz cd").unwrap().ids.len();
        let model = Translator::new(config(longest + 1)).unwrap();
        let watch = translator(&model, [&tokenizer; 2], text).unwrap();
        let frame = watch(&random(model.layout())).unwrap();
        assert_eq!(frame.words, [vec!["cd", "ab", "[END]"], vec!["ab", "wxyz", "cd", "[END]"]]);
        assert_eq!((frame.layers, frame.heads, frame.causal), (1, 2, false));
        assert_eq!(frame.attention.len(), 2 * 3 * 4);
        assert!(frame.attention.chunks(4).all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-5));
        // One token less than the source and its end token need.
        let model = Translator::new(config(longest)).unwrap();
        assert!(translator(&model, [&tokenizer; 2], text).is_err());
    }

    #[test]
    fn a_language_model_records_no_attention_to_later_words() {
        let tokenizer = tokenizer();
        let config = LanguageModelConfig {
            vocab_size: tokenizer.vocab_size(),
            encoder: encoder(true),
            position: PositionKind::Sinusoidal,
            max_length: 20,
            embedding_dropout: 0.0,
            embeddings: InputEmbeddingsOptions::default(),
            untied_output: false,
        };
        let model = LanguageModel::new(config).unwrap();
        let frame = language_model(&model, &tokenizer, "ab cd").unwrap()(&random(model.layout())).unwrap();
        assert!(frame.causal);
        assert_eq!(frame.words[0], ["[CLS]", "ab", "cd"]);
        for (at, x) in frame.attention.iter().enumerate() {
            assert_eq!(at % 3 > at / 3 % 3, *x == 0.0, "{at}: {x}");
        }
    }

    #[test]
    fn texts_that_cannot_be_recorded_are_rejected() {
        let fault = |text: &str, kind: ModelKind, network: BackboneKind| {
            WatchedText::new(text).check(kind, network).err().map(|error| error.to_string())
        };
        let transformer = BackboneKind::Transformer;
        assert!(fault("x", ModelKind::Translator, transformer).unwrap().contains("tab"));
        assert!(fault(" \t ", ModelKind::Translator, transformer).unwrap().contains("empty"));
        assert!(fault("x", ModelKind::Encoder, transformer).unwrap().contains("pretrained"));
        assert!(
            fault("x", ModelKind::Classifier, BackboneKind::Recurrent(chumoku_kernels::RecurrentCell::Lstm))
                .unwrap()
                .contains("recurrent")
        );
        for (text, kind) in
            [("x\ty", ModelKind::Translator), ("x", ModelKind::Classifier), ("x", ModelKind::LanguageModel)]
        {
            assert_eq!(fault(text, kind, transformer), None);
        }
    }
}
