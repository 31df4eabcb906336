//! Settings by name, such as `dropout=0.2,inside-words=2-5`, that override those chosen from the data.
//!
//! [`tune`](crate::train::tune) tries such sets, and `--settings` accepts one. The result of a search can therefore be
//! reproduced without the search.

use super::plan::Plan;
use crate::models::ClassifierConfig;
use crate::ngram::NgramConfig;
use crate::nn::{BackboneConfig, Pooling, PositionKind};
use crate::text::TokenizationUnit;
use crate::train::data::training_data::TrainingData;
use crate::{Error, Result, tr};
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::str::FromStr;

/// A setting of a classifier's training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Setting {
    /// The longest run of words that the n-gram model uses as a feature.
    Words,
    /// The longest run of characters that it uses, in scripts without spaces.
    Characters,
    /// The shortest and the longest run of characters inside words.
    InsideWords,
    /// The minimum number of texts that contain an n-gram.
    MinTexts,
    /// The exponent of an n-gram's relevance for classes.
    Relevance,
    /// The weight of the data against the n-gram model's penalty.
    C,
    /// The kind of tokens that the network reads.
    Tokens,
    /// The minimum count of a token.
    MinCount,
    /// The number of encoder layers.
    Layers,
    /// The encoder's width. Its feed-forward networks are twice as wide.
    Width,
    /// The number of attention heads.
    Heads,
    /// The positional encoding.
    Positions,
    /// Soft attention, or hard attention to the best key alone.
    Attention,
    /// The inverse temperature of attention.
    Beta,
    /// True (`yes`) if each head trains a factor of its inverse temperature.
    LearnBeta,
    /// The pooling of token vectors into a text vector.
    Pooling,
    /// The dropout rate of embeddings, layers and head.
    Dropout,
    /// Share of tokens dropped from each training text.
    TokenDropout,
    /// The highest learning rate.
    LearningRate,
    /// The maximum number of epochs.
    Epochs,
    /// The maximum number of tokens in a batch.
    BatchTokens,
    /// Share of the target spread over all classes.
    LabelSmoothing,
    /// Weight decay of matrices.
    WeightDecay,
}

/// The kind of value of a setting, with its bounds.
enum ValueKind {
    /// An integer.
    Integer(u32, u32),
    /// A real number.
    Real(f64, f64),
    /// A shortest and a longest length, encoded as ten times the first plus the second. 0 means none.
    Lengths,
    /// One of several names, encoded as its index.
    Name(&'static [&'static str]),
}

const TOKENS: [(&str, TokenizationUnit); 3] = [
    ("words", TokenizationUnit::Words),
    ("subwords", TokenizationUnit::Subwords),
    ("characters", TokenizationUnit::Characters),
];
const POOLINGS: [(&str, Pooling); 4] = [
    ("mean", Pooling::Mean),
    ("max", Pooling::Max),
    ("first", Pooling::First),
    ("mean-sqrt-length", Pooling::MeanSqrtLength),
];
const HARD_ATTENTION: [(&str, bool); 2] = [("soft", false), ("hard", true)];
const LEARN_BETA: [(&str, bool); 2] = [("no", false), ("yes", true)];
const POSITIONS: [(&str, PositionKind); 5] = [
    ("sinusoidal", PositionKind::Sinusoidal),
    ("rotary", PositionKind::Rotary),
    ("alibi", PositionKind::Alibi),
    ("learned", PositionKind::Learned),
    ("none", PositionKind::None),
];

/// Returns the names of choices.
const fn names<T, const N: usize>(choices: &[(&'static str, T); N]) -> [&'static str; N] {
    let (mut names, mut at) = ([""; N], 0);
    while at < N {
        names[at] = choices[at].0;
        at += 1;
    }
    names
}

/// Returns the encoding of a choice.
fn index_of<T: PartialEq>(choices: &[(&str, T)], choice: &T) -> Option<f64> {
    choices.iter().position(|(_, kind)| kind == choice).map(|at| at as f64)
}

impl Setting {
    /// All settings.
    pub const ALL: [Setting; 23] = [
        Setting::Words,
        Setting::Characters,
        Setting::InsideWords,
        Setting::MinTexts,
        Setting::Relevance,
        Setting::C,
        Setting::Tokens,
        Setting::MinCount,
        Setting::Layers,
        Setting::Width,
        Setting::Heads,
        Setting::Positions,
        Setting::Attention,
        Setting::Beta,
        Setting::LearnBeta,
        Setting::Pooling,
        Setting::Dropout,
        Setting::TokenDropout,
        Setting::LearningRate,
        Setting::Epochs,
        Setting::BatchTokens,
        Setting::LabelSmoothing,
        Setting::WeightDecay,
    ];

    fn spec(self) -> (&'static str, ValueKind) {
        use ValueKind::{Integer, Lengths, Name, Real};
        match self {
            Setting::Words => ("words", Integer(1, 8)),
            Setting::Characters => ("characters", Integer(1, 8)),
            Setting::InsideWords => ("inside-words", Lengths),
            Setting::MinTexts => ("min-texts", Integer(1, 1000)),
            Setting::Relevance => ("relevance", Real(0.0, 2.0)),
            Setting::C => ("c", Real(1e-3, 1e6)),
            Setting::Tokens => ("tokens", Name(const { &names(&TOKENS) })),
            Setting::MinCount => ("min-count", Integer(1, 1000)),
            Setting::Layers => ("layers", Integer(1, 24)),
            Setting::Width => ("width", Integer(16, 2048)),
            Setting::Heads => ("heads", Integer(1, 64)),
            Setting::Positions => ("positions", Name(const { &names(&POSITIONS) })),
            Setting::Attention => ("attention", Name(const { &names(&HARD_ATTENTION) })),
            Setting::Beta => ("beta", Real(1e-3, 1e3)),
            Setting::LearnBeta => ("learn-beta", Name(const { &names(&LEARN_BETA) })),
            Setting::Pooling => ("pooling", Name(const { &names(&POOLINGS) })),
            Setting::Dropout => ("dropout", Real(0.0, 0.9)),
            Setting::TokenDropout => ("token-dropout", Real(0.0, 0.9)),
            Setting::LearningRate => ("learning-rate", Real(1e-7, 1.0)),
            Setting::Epochs => ("epochs", Integer(1, 1_000_000)),
            Setting::BatchTokens => ("batch-tokens", Integer(16, 1 << 20)),
            Setting::LabelSmoothing => ("label-smoothing", Real(0.0, 0.9)),
            Setting::WeightDecay => ("weight-decay", Real(0.0, 10.0)),
        }
    }

    /// The name in `--settings`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.spec().0
    }

    /// Returns `true` for settings of the n-gram model.
    #[must_use]
    pub(crate) fn is_for_ngrams(self) -> bool {
        self <= Setting::C
    }

    /// Returns `true` for settings of the network's architecture. A pretrained encoder fixes them.
    #[must_use]
    pub(crate) fn is_for_architecture(self) -> bool {
        !self.is_for_ngrams() && self <= Setting::Pooling
    }

    fn format_value(self, value: f64) -> String {
        match self.spec().1 {
            ValueKind::Integer(..) | ValueKind::Real(..) => value.to_string(),
            ValueKind::Lengths if value == 0.0 => "none".into(),
            ValueKind::Lengths => format!("{}-{}", value as usize / 10, value as usize % 10),
            ValueKind::Name(names) => names.get(value as usize).copied().unwrap_or_default().into(),
        }
    }

    /// Reads a value as `--settings` writes it.
    pub(crate) fn parse(self, text: &str) -> Result<f64, String> {
        let (name, kind) = self.spec();
        let expected = match kind {
            ValueKind::Integer(least, most) => match text.parse::<u32>() {
                Ok(n) if (least..=most).contains(&n) => return Ok(f64::from(n)),
                _ => tr!("a whole number from {least} to {most}", "{least} から {most} までの整数"),
            },
            ValueKind::Real(least, most) => match text.parse::<f64>() {
                Ok(x) if (least..=most).contains(&x) => return Ok(x),
                _ => tr!("a number from {least} to {most}", "{least} から {most} までの数"),
            },
            ValueKind::Lengths => {
                let lengths = text.split_once('-').and_then(|(a, b)| Some([a.parse::<u8>().ok()?, b.parse().ok()?]));
                match lengths {
                    Some([a, b]) if 1 <= a && a <= b && b <= 8 => return Ok(f64::from(10 * a + b)),
                    _ if text == "none" => return Ok(0.0),
                    _ => tr!(
                        "two lengths from 1 to 8 such as 2-5, or none",
                        "1 から 8 までの 2 つの長さ（2-5 など）か none"
                    ),
                }
            }
            ValueKind::Name(names) => match names.iter().position(|name| *name == text) {
                Some(place) => return Ok(place as f64),
                None => tr!("one of {}", "{} のいずれか", names.join(", ")),
            },
        };
        let found = if text.is_empty() { tr!("nothing", "空") } else { text.to_owned() };
        Err(tr!("{name}: expected {expected}, found {found}", "{name}: {expected}が必要ですが、{found} です"))
    }
}

/// Overrides of settings. All other settings are chosen from the data.
///
/// ```
/// use chumoku::train::SettingOverrides;
///
/// let adjusted: SettingOverrides = "inside-words=2-5,dropout=0.2".parse()?;
/// assert_eq!(adjusted.to_string(), "inside-words=2-5,dropout=0.2");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SettingOverrides(BTreeMap<Setting, f64>);

impl Display for SettingOverrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each: Vec<String> = self
            .0
            .iter()
            .map(|(setting, &value)| format!("{}={}", setting.name(), setting.format_value(value)))
            .collect();
        f.write_str(&each.join(","))
    }
}

impl FromStr for SettingOverrides {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut adjusted = SettingOverrides::default();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let Some(setting) = Setting::ALL.into_iter().find(|setting| setting.name() == name.trim()) else {
                let known: Vec<&str> = Setting::ALL.iter().map(|setting| setting.name()).collect();
                let known = known.join(", ");
                return Err(tr!(
                    "expected settings such as dropout=0.2,words=2, found “{name}”; the settings are {known}",
                    "dropout=0.2,words=2 のような設定が必要ですが、「{name}」です。使えるのは {known} です"
                ));
            };
            if adjusted.0.insert(setting, setting.parse(value.trim())?).is_some() {
                return Err(tr!("{name} is given twice", "{name} が 2 回指定されています"));
            }
        }
        Ok(adjusted)
    }
}

impl SettingOverrides {
    /// Returns `true` if no setting is overridden.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The overridden settings.
    pub fn settings(&self) -> impl Iterator<Item = Setting> {
        self.0.keys().copied()
    }

    pub(crate) fn get(&self, setting: Setting) -> Option<f64> {
        self.0.get(&setting).copied()
    }

    pub(crate) fn with(&self, setting: Setting, value: f64) -> SettingOverrides {
        let mut other = self.clone();
        other.0.insert(setting, value);
        other
    }

    pub(crate) fn without(&self, setting: Setting) -> SettingOverrides {
        let mut other = self.clone();
        other.0.remove(&setting);
        other
    }

    /// Returns the settings that are missing from `other` or have a different value there.
    pub(crate) fn differences_from(&self, other: &SettingOverrides) -> SettingOverrides {
        SettingOverrides(
            self.0.iter().filter(|(key, value)| other.0.get(key) != Some(value)).map(|(k, v)| (*k, *v)).collect(),
        )
    }

    /// Returns the settings of one ensemble member: the n-gram model, or the network.
    pub(crate) fn for_member(&self, of_ngrams: bool) -> SettingOverrides {
        SettingOverrides(
            self.0.iter().filter(|(key, _)| key.is_for_ngrams() == of_ngrams).map(|(k, v)| (*k, *v)).collect(),
        )
    }

    /// Rejects settings that do not apply: those of a network for an n-gram model alone, or those of the architecture
    /// for a pretrained network.
    ///
    /// # Errors
    /// If there is such a setting.
    pub fn check(&self, has_network: bool, is_pretrained: bool) -> Result<()> {
        let refused = |problem: String| Err(Error::Setting(problem));
        for setting in self.settings() {
            let name = setting.name();
            if !has_network && !setting.is_for_ngrams() {
                return refused(tr!(
                    "--settings {name}: an n-gram model has no network; leave it out",
                    "--settings {name}: n-gram モデルにネットワークはありません。指定を外してください"
                ));
            }
            if is_pretrained && setting.is_for_architecture() {
                return refused(tr!(
                    "--settings {name}: with --from, the pretrained model decides this; leave it out",
                    "--settings {name}: --from を指定した場合は、事前学習済みモデルの値を使います。指定を外してください"
                ));
            }
        }
        Ok(())
    }

    /// Returns the configuration of the n-gram model for this data.
    pub(crate) fn ngram_config<A>(&self, data: &TrainingData<A>) -> NgramConfig {
        let mut config = NgramConfig::default_for(data.reads_pairs());
        let whole = |setting| self.get(setting).map(|value| value as usize);
        let scheme = &mut config.scheme;
        scheme.words = whole(Setting::Words).unwrap_or(scheme.words);
        scheme.characters = whole(Setting::Characters).unwrap_or(scheme.characters);
        if let Some(lengths) = whole(Setting::InsideWords) {
            scheme.inside_words = (lengths > 0).then_some((lengths / 10, lengths % 10));
            // An explicit setting holds for texts of any length.
            config.inside_words_up_to = f64::INFINITY;
        }
        config.min_document_frequency = whole(Setting::MinTexts).map(|texts| texts as u32);
        config.relevance = self.get(Setting::Relevance).unwrap_or(config.relevance);
        if let Some(c) = self.get(Setting::C) {
            (config.c_grid, config.c_without_validation) = (vec![c as f32], c as f32);
        }
        config
    }

    /// Returns the choice of a setting with names.
    fn choice<T: Copy>(&self, setting: Setting, choices: &[(&str, T)]) -> Option<T> {
        Some(choices.get(self.get(setting)? as usize)?.1)
    }

    /// Returns the kind of tokens, and the minimum count of a token.
    pub(crate) fn tokens(&self) -> (Option<TokenizationUnit>, Option<u64>) {
        (self.choice(Setting::Tokens, &TOKENS), self.get(Setting::MinCount).map(|count| count as u64))
    }

    /// Applies the settings of the architecture to a transformer that is trained from scratch.
    pub(crate) fn apply_architecture(&self, model: &mut ClassifierConfig) {
        let whole = |setting| self.get(setting).map(|value| value as usize);
        if let BackboneConfig::Transformer(body) = &mut model.backbone {
            body.num_layers = whole(Setting::Layers).unwrap_or(body.num_layers);
            if let Some(width) = whole(Setting::Width) {
                // Keeps heads about as wide as before.
                let heads = (width * body.num_heads / body.d_model).max(1);
                body.num_heads = (1..=heads).rev().find(|heads| width.is_multiple_of(*heads)).unwrap_or(1);
                (body.d_model, body.d_ff) = (width, 2 * width);
            }
            body.num_heads = whole(Setting::Heads).unwrap_or(body.num_heads);
            let attention = &mut body.attention;
            attention.beta = self.get(Setting::Beta).or(attention.beta);
            attention.hard_attention =
                self.choice(Setting::Attention, &HARD_ATTENTION).unwrap_or(attention.hard_attention);
            attention.train_beta = self.choice(Setting::LearnBeta, &LEARN_BETA).unwrap_or(attention.train_beta);
        }
        model.pooling = self.choice(Setting::Pooling, &POOLINGS).unwrap_or(model.pooling);
    }

    /// Returns the positional encoding.
    pub(crate) fn positions(&self) -> Option<PositionKind> {
        self.choice(Setting::Positions, &POSITIONS)
    }

    /// Applies the training settings of the network.
    pub(crate) fn apply_training(&self, plan: &mut Plan) {
        if let Some(dropout) = self.get(Setting::Dropout).map(|share| share as f32) {
            let model = &mut plan.model;
            (model.embedding_dropout, model.head_dropout) = (dropout, dropout);
            if let BackboneConfig::Transformer(body) = &mut model.backbone {
                body.dropout = dropout;
            }
        }
        if let Some(share) = self.get(Setting::TokenDropout) {
            plan.token_dropout = share as f32;
        }
        let settings = &mut plan.settings;
        settings.learning_rate = self.get(Setting::LearningRate).unwrap_or(settings.learning_rate);
        if let Some(epochs) = self.get(Setting::Epochs).map(|epochs| epochs as u64) {
            settings.epochs = epochs;
            if plan.fine_tuning.is_none() {
                settings.patience = (epochs / 3).max(6);
            }
        }
        if let Some(tokens) = self.get(Setting::BatchTokens).map(|tokens| tokens as usize) {
            let most = plan.fine_tuning.as_ref().map_or(plan.model.max_length, |fine_tuning| fine_tuning.max_tokens);
            settings.batch_tokens = tokens.max(most);
        }
        if let Some(share) = self.get(Setting::LabelSmoothing) {
            settings.label_smoothing = share as f32;
        }
        settings.weight_decay = self.get(Setting::WeightDecay).unwrap_or(settings.weight_decay);
    }

    /// Returns the value of a setting in a plan, for numeric settings of the network.
    pub(crate) fn value_in_plan(setting: Setting, plan: &Plan) -> Option<f64> {
        // Converts through text, since an f32 of 0.3 is not the f64 0.3.
        let short = |x: f32| x.to_string().parse().ok();
        let body = plan.model.backbone.transformer();
        match setting {
            Setting::Layers => body.map(|body| body.num_layers as f64),
            Setting::Width => body.map(|body| body.d_model as f64),
            Setting::Dropout => short(plan.model.head_dropout),
            Setting::TokenDropout => short(plan.token_dropout),
            Setting::LearningRate => Some(plan.settings.learning_rate),
            Setting::Epochs => Some(plan.settings.epochs as f64),
            Setting::BatchTokens => Some(plan.settings.batch_tokens as f64),
            Setting::LabelSmoothing => short(plan.settings.label_smoothing),
            Setting::WeightDecay => Some(plan.settings.weight_decay),
            Setting::Attention => body.and_then(|body| index_of(&HARD_ATTENTION, &body.attention.hard_attention)),
            Setting::Beta => body.and_then(|body| body.attention.beta),
            Setting::LearnBeta => body.and_then(|body| index_of(&LEARN_BETA, &body.attention.train_beta)),
            Setting::Pooling => index_of(&POOLINGS, &plan.model.pooling),
            Setting::Positions => index_of(&POSITIONS, &plan.model.position),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Row;
    use crate::scoring::Rows;
    use crate::train::settings::plan::DataShape;

    #[test]
    fn settings_survive_formatting_and_parsing() {
        let text = "words=2,inside-words=2-6,min-texts=3,relevance=0.75,c=8,tokens=subwords,width=96,positions=rotary,\
                    pooling=max,dropout=0.2,learning-rate=0.0005";
        let adjusted: SettingOverrides = text.parse().unwrap();
        assert_eq!(adjusted.to_string(), text);
        assert_eq!(adjusted.for_member(true).to_string(), "words=2,inside-words=2-6,min-texts=3,relevance=0.75,c=8");
        assert_eq!("".parse::<SettingOverrides>().unwrap(), SettingOverrides::default());
        let of = |settings: &str, text: Row| {
            let rows = Rows { texts: vec![text], labels: vec![0], weights: None };
            let data: TrainingData = TrainingData { train: rows, ..TrainingData::default() };
            settings.parse::<SettingOverrides>().unwrap().ngram_config(&data)
        };
        assert_eq!(of("inside-words=none", "a text".into()).scheme.inside_words, None);
        // Unset settings keep their defaults, which differ for pairs.
        assert_eq!(of("", "a text".into()), NgramConfig::default());
        let of_pairs =
            ["", "characters=5", "relevance=0.75"].map(|settings| of(settings, Row::pair("a text", "another")));
        assert_eq!(
            of_pairs.map(|config| (config.scheme.characters, config.relevance)),
            [(3, 0.0), (5, 0.0), (3, 0.75)]
        );
        for (text, part) in [
            ("depth=2", "found “depth”; the settings are words, characters"),
            ("words=0", "from 1 to 8, found 0"),
            ("words", "found nothing"),
            ("dropout=1", "from 0 to 0.9"),
            ("inside-words=5-2", "such as 2-5"),
            ("pooling=sum", "one of mean, max"),
            ("c=2,c=4", "twice"),
        ] {
            let error = text.parse::<SettingOverrides>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn overrides_are_applied_to_the_plan() {
        let shape = DataShape { lengths: &[10; 50], class_rows: &[25, 25], vocab_size: 100 };
        let adjusted: SettingOverrides =
            "layers=3,width=64,attention=hard,beta=0.5,learn-beta=yes,pooling=max,dropout=0.2,epochs=30,label-smoothing=0,\
             learning-rate=0.002"
                .parse()
                .unwrap();
        let mut plan = Plan::new(&shape);
        adjusted.apply_architecture(&mut plan.model);
        adjusted.apply_training(&mut plan);
        let body = plan.model.backbone.transformer().unwrap();
        assert_eq!([body.num_layers, body.d_model, body.d_ff, body.num_heads], [3, 64, 128, 2]);
        let attention = &body.attention;
        assert_eq!((attention.hard_attention, attention.beta, attention.train_beta), (true, Some(0.5), true));
        assert_eq!([body.dropout, plan.model.head_dropout, plan.settings.label_smoothing], [0.2, 0.2, 0.0]);
        assert_eq!((plan.settings.epochs, plan.settings.patience), (30, 10));
        for setting in adjusted.settings() {
            assert_eq!(SettingOverrides::value_in_plan(setting, &plan), adjusted.get(setting), "{}", setting.name());
        }
        assert!(adjusted.check(true, false).is_ok() && adjusted.check(false, false).is_err());
        assert!(adjusted.check(true, true).unwrap_err().to_string().contains("--settings layers"));
    }
}
