//! The model cards of translators and language models, for readers who do not know the model.

use super::card::interruption_note;
use super::text_scores::{LanguageScores, MaskedScores, TranslationScores};
use crate::data::{DocumentSplit, PairSplit};
use crate::lang::wording::format_thousands;
use crate::lang::{escape_markdown, lang};
use crate::models::TextEncoderConfig;
use crate::text::TokenizationUnit;
use crate::text_models::generator::TextGenerator;
use crate::text_models::translator::TextTranslator;
use crate::tr;
use crate::train::training_loop::train_state::TrainState;
use std::fmt::Write;

/// The facts of a run for its card, besides the model and the data.
pub(crate) struct RunFacts<'a> {
    pub(crate) state: &'a TrainState,
    pub(crate) interrupted: bool,
    pub(crate) seed: u64,
    /// The part that the scores are computed on: `test`, `valid` or `train`.
    pub(crate) scored_on: &'a str,
    pub(crate) data_sha256: &'a str,
    pub(crate) tokens: TokenizationUnit,
}

impl RunFacts<'_> {
    fn heading(&self, title: &str) -> String {
        let mut card = format!("# {}\n\n", escape_markdown(title));
        if self.interrupted {
            card += &interruption_note(self.state.epoch);
        }
        card
    }
}

pub(crate) fn translator(
    model: &TextTranslator,
    data: &PairSplit,
    scores: &TranslationScores,
    run: &RunFacts<'_>,
) -> String {
    let config = &model.config().model;
    let [source, target] = &model.config().names;
    let mut card = run.heading(&tr!("Translator: {source} to {target}", "翻訳モデル: {source} から {target}"));
    let (layers, more) = (config.encoder.num_layers, config.num_decoder_layers);
    card += &tr!(
        "A transformer encoder–decoder ({layers} + {more} layers, width {}, {} heads, {} parameters; its tokens are {}) \
         trained from scratch with Chumoku {}. It converts “{source}” texts into “{target}”.\n\n",
        "トランスフォーマーのエンコーダー・デコーダー（{layers} + {more} 層、幅 {}、ヘッド {}、パラメータ {}、トークンは{}）を \
         Chumoku {} でゼロから学習したものです。“{source}” のテキストを “{target}” に変えます。\n\n",
        config.encoder.d_model,
        config.encoder.num_heads,
        format_thousands(model.num_parameters()),
        run.tokens.noun_in(lang()),
        env!("CARGO_PKG_VERSION")
    );
    let pairs = format_thousands(scores.pairs);
    card += &match run.scored_on {
        "test" => tr!(
            "## Scores\n\nOn {pairs} test pairs, which training never saw, with a beam of 5:\n\n",
            "## 評価\n\n学習に使っていないテストデータ {pairs} 組での値（ビーム幅 5）:\n\n"
        ),
        "valid" => tr!(
            "## Scores\n\nOn {pairs} validation pairs, with a beam of 5 (the pairs were also used to choose the model, \
             so the scores are optimistic):\n\n",
            "## 評価\n\n検証データ {pairs} 組での値（ビーム幅 5。学習の選択に使ったため、楽観的な値です）:\n\n"
        ),
        _ => tr!(
            "## Scores\n\nOn {pairs} training pairs, with a beam of 5 (there are no others; this says nothing about \
             new texts):\n\n",
            "## 評価\n\n学習データ {pairs} 組での値（ビーム幅 5。ほかにデータがないためで、新しいテキストについては何も分かりません）:\n\n"
        ),
    };
    let _ = writeln!(card, "| | | {} |\n|---|---|---|", lang().pick("signature", "算出方法"));
    let _ = writeln!(card, "| BLEU | {:.1} | `{}` |", scores.bleu, scores.bleu_signature);
    let _ = writeln!(card, "| chrF2 | {:.1} | `{}` |", scores.chrf, scores.chrf_signature);
    let exact = lang().pick("the reference itself", "参照訳と完全一致");
    let _ = writeln!(card, "| {exact} | {:.1} % | |\n", 100.0 * scores.exact);
    let [train, valid, test] = [&data.train, &data.valid, &data.test].map(|part| format_thousands(part.len()));
    card += &tr!(
        "## Data\n\n{train} pairs to train on, {valid} to validate, {test} to test. SHA-256 of the tokens: `{}`. Seed \
         {}.\n\n",
        "## データ\n\n学習 {train} 組、検証 {valid} 組、テスト {test} 組。トークンの SHA-256: `{}`。シード {}。\n\n",
        run.data_sha256,
        run.seed
    );
    for note in &data.notes {
        let _ = writeln!(card, "- {note}");
    }
    card + &tr!(
        "\n## Limits\n\nThe model knows nothing but its training pairs. Translations of texts in another language, \
         style or subject mean little, and the model does not say so. Texts of more than {} tokens are truncated; the \
         number of such texts is reported. Attention shows where the model looks, not why it decides.\n\n## \
         Use\n\n```\nchumoku translate THIS_FOLDER \"some text\"\nchumoku explain THIS_FOLDER \"some text\"\nchumoku eval \
         THIS_FOLDER pairs.tsv\n```\n",
        "\n## 限界\n\nこのモデルが知っているのは学習データだけです。言語・文体・話題の異なるテキストの訳にはほとんど意味がありませんが、\
         モデルはそれを知らせません。{} トークンを超えるテキストの終わりは訳さず、その数を表示します。アテンションが示すのはモデルが\
         どこを見ているかであって、判断の理由ではありません。\n\n## 使い方\n\n```\nchumoku translate このフォルダ \
         \"テキスト\"\nchumoku explain このフォルダ \"テキスト\"\nchumoku eval このフォルダ pairs.tsv\n```\n",
        config.max_length - 1
    )
}

pub(crate) fn autoencoder(
    model: &TextTranslator,
    width: usize,
    data: &PairSplit,
    scores: &TranslationScores,
    run: &RunFacts<'_>,
) -> String {
    let config = &model.config().model;
    let name = &model.config().names[0];
    let mut card =
        run.heading(&tr!("Autoencoder: {name}, {width} numbers", "オートエンコーダー: {name}、{width} 個の数"));
    let (layers, more) = (config.encoder.num_layers, config.num_decoder_layers);
    card += &tr!(
        "A transformer encoder–decoder ({layers} + {more} layers, width {}, {} heads, {} parameters; its tokens are {}) \
         trained from scratch with Chumoku {}. It writes “{name}” texts again. All that its decoder sees of a text are \
         {width} numbers: the mean of the encoder’s output after an affine map.\n\n",
        "トランスフォーマーのエンコーダー・デコーダー（{layers} + {more} 層、幅 {}、ヘッド {}、パラメータ {}、トークンは{}）を \
         Chumoku {} でゼロから学習し、“{name}” のテキストを復元するようにしたものです。デコーダーがテキストについて受け取るのは {width} 個の数\
         （エンコーダーの出力の平均をアフィン写像したもの）だけです。\n\n",
        config.encoder.d_model,
        config.encoder.num_heads,
        format_thousands(model.num_parameters()),
        run.tokens.noun_in(lang()),
        env!("CARGO_PKG_VERSION")
    );
    let texts = format_thousands(scores.pairs);
    card += &match run.scored_on {
        "test" => tr!(
            "## Scores\n\nOn {texts} test texts, which training never saw, with a beam of 5:\n\n",
            "## 評価\n\n学習に使っていないテストデータ {texts} 個での値（ビーム幅 5）:\n\n"
        ),
        "valid" => tr!(
            "## Scores\n\nOn {texts} validation texts, with a beam of 5 (the texts were also used to choose the model, so \
             the scores are optimistic):\n\n",
            "## 評価\n\n検証データ {texts} 個での値（ビーム幅 5。学習の選択に使ったため、楽観的な値です）:\n\n"
        ),
        _ => tr!(
            "## Scores\n\nOn {texts} training texts, with a beam of 5 (there are no others; this says nothing about new \
             texts):\n\n",
            "## 評価\n\n学習データ {texts} 個での値（ビーム幅 5。ほかにデータがないためで、新しいテキストについては何も分かりません）:\n\n"
        ),
    };
    card += &tr!(
        "| | |\n|---|---|\n| reconstructed exactly | {:.1} % |\n| characters right | {:.1} % |\n",
        "| | |\n|---|---|\n| 完全に復元 | {:.1} % |\n| 正しい文字 | {:.1} % |\n",
        100.0 * scores.exact,
        100.0 * scores.character_accuracy.unwrap_or(f64::NAN)
    );
    let [train, valid, test] = [&data.train, &data.valid, &data.test].map(|part| format_thousands(part.len()));
    card += &tr!(
        "\n## Data\n\n{train} texts to train on, {valid} to validate, {test} to test. SHA-256 of the tokens: `{}`. Seed \
         {}.\n\n",
        "\n## データ\n\n学習 {train}、検証 {valid}、テスト {test}。トークンの SHA-256: `{}`。シード {}。\n\n",
        run.data_sha256,
        run.seed
    );
    for note in &data.notes {
        let _ = writeln!(card, "- {note}");
    }
    card + &tr!(
        "\n## Limits\n\nThe model reconstructs texts like those it was trained on. Others come out as texts of that kind, \
         and the model does not say so. Texts of more than {} tokens are truncated.\n\n## Use\n\n```\nchumoku predict \
         THIS_FOLDER \"some text\"\nchumoku embed THIS_FOLDER \"some text\"\nchumoku eval THIS_FOLDER texts.txt\n```\n",
        "\n## 限界\n\nこのモデルが復元できるのは、学習データに似たテキストです。ほかのテキストも学習データのようなテキストに変わりますが、\
         モデルはそれを知らせません。{} トークンを超えるテキストは切り詰めます。\n\n## 使い方\n\n```\nchumoku predict このフォルダ \
         \"テキスト\"\nchumoku embed このフォルダ \"テキスト\"\nchumoku eval このフォルダ texts.txt\n```\n",
        config.max_length - 1
    )
}

pub(crate) fn encoder(
    model: &TextEncoderConfig,
    parameters: usize,
    data: &DocumentSplit,
    scores: &MaskedScores,
    run: &RunFacts<'_>,
) -> String {
    let encoder = &model.encoder;
    let mut card = run.heading(lang().pick("Encoder", "エンコーダー"));
    card += &tr!(
        "A transformer encoder in ModernBERT's form ({} layers, width {}, {} heads, {} parameters, windows of {} tokens), \
         pretrained from scratch with Chumoku {} by filling in hidden tokens of unlabeled text. Classifiers are \
         fine-tuned from it.\n\n",
        "ModernBERT 形式のトランスフォーマーエンコーダー（{} 層、幅 {}、ヘッド {}、パラメータ {}、窓 {} トークン）を Chumoku {} \
         でゼロから学習したものです。ラベルのないテキストの隠したトークンを当てる事前学習で、分類モデルの出発点になります。\n\n",
        encoder.num_layers,
        encoder.d_model,
        encoder.num_heads,
        format_thousands(parameters),
        model.max_length,
        env!("CARGO_PKG_VERSION")
    );
    let hidden = format_thousands(scores.hidden);
    card += &match run.scored_on {
        "test" => tr!(
            "## Scores\n\nOn {hidden} hidden tokens of test text, which training never saw:\n\n",
            "## 評価\n\n学習に使っていないテスト用テキストの、隠した {hidden} トークンでの値:\n\n"
        ),
        "valid" => tr!(
            "## Scores\n\nOn {hidden} hidden tokens of validation text, also used to choose the model, so the figures \
             are slightly optimistic:\n\n",
            "## 評価\n\n検証用テキストの、隠した {hidden} トークンでの値（学習の選択に使ったため、やや楽観的な値です）:\n\n"
        ),
        _ => tr!(
            "## Scores\n\nOn {hidden} hidden tokens of training text, because there is no other; this says nothing \
             about new texts:\n\n",
            "## 評価\n\n学習用テキストの、隠した {hidden} トークンでの値（ほかにデータがないためで、新しいテキストについては何も\
             分かりません）:\n\n"
        ),
    };
    card += &tr!(
        "| | |\n|---|---|\n| accuracy | {:.1} % |\n| loss | {:.4} nats per token |\n",
        "| | |\n|---|---|\n| 正解率 | {:.1} % |\n| 損失 | {:.4} nat/トークン |\n",
        100.0 * scores.accuracy,
        scores.loss
    );
    card += &tr!(
        "\n## Data\n\n{} SHA-256 of the tokens: `{}`. Seed {}.\n\n",
        "\n## データ\n\n{}。トークンの SHA-256: `{}`。シード {}。\n\n",
        data.description,
        run.data_sha256,
        run.seed
    );
    card + &tr!(
        "## Limits\n\nThe model knows the vocabulary and the style of its training text, and little else.\n\n## \
         Use\n\n```\nchumoku train data.csv --from THIS_FOLDER\nchumoku embed THIS_FOLDER \"some text\"\n```\n",
        "## 限界\n\nこのモデルが知っているのは学習したテキストの言葉と書き方だけで、それ以外のテキストにはあまり役立ちません。\n\n\
         ## 使い方\n\n```\nchumoku train data.csv --from このフォルダ\nchumoku embed このフォルダ \"テキスト\"\n```\n"
    )
}

pub(crate) fn language_model(
    model: &TextGenerator,
    data: &DocumentSplit,
    (scores, before): (&LanguageScores, Option<&LanguageScores>),
    run: &RunFacts<'_>,
) -> String {
    let config = &model.config().model;
    let mut card = run.heading(lang().pick("Language model", "言語モデル"));
    let how = match before {
        None => lang().pick("trained from scratch", "ゼロから学習"),
        Some(_) => lang().pick("pretrained by others and trained further", "事前学習済みのモデルから追加学習"),
    };
    card += &tr!(
        "A causal transformer ({} layers, width {}, {} heads, {} parameters, context {} tokens; its tokens are {}) {how} \
         with Chumoku {}. It continues texts.\n\n",
        "因果的トランスフォーマー（{} 層、幅 {}、ヘッド {}、パラメータ {}、文脈 {} トークン、トークンは{}）を Chumoku {} で{how}\
         したものです。テキストの続きを書きます。\n\n",
        config.encoder.num_layers,
        config.encoder.d_model,
        config.encoder.num_heads,
        format_thousands(model.num_parameters()),
        config.max_length,
        run.tokens.noun_in(lang()),
        env!("CARGO_PKG_VERSION")
    );
    let tokens = format_thousands(scores.tokens);
    card += &match run.scored_on {
        "test" => tr!(
            "## Scores\n\nOn {tokens} tokens of test text, which training never saw:\n\n",
            "## 評価\n\n学習に使っていないテスト用テキスト {tokens} トークンでの値:\n\n"
        ),
        "valid" => tr!(
            "## Scores\n\nOn {tokens} tokens of validation text, also used to choose the model, so the figures are \
             slightly optimistic:\n\n",
            "## 評価\n\n検証用テキスト {tokens} トークンでの値（学習の選択に使ったため、やや楽観的な値です）:\n\n"
        ),
        _ => tr!(
            "## Scores\n\nOn {tokens} tokens of training text, because there is no other; this says nothing about \
             new texts:\n\n",
            "## 評価\n\n学習用テキスト {tokens} トークンでの値（ほかにデータがないためで、新しいテキストについては何も分かりません）:\n\n"
        ),
    };
    card += &tr!(
        "| | |\n|---|---|\n| loss | {:.4} nats per token |\n",
        "| | |\n|---|---|\n| 損失 | {:.4} nat/トークン |\n",
        scores.loss
    );
    for (name, value) in scores.perplexities() {
        card += &tr!("| perplexity per {name} | {value:.3} |\n", "| パープレキシティ（{name}あたり） | {value:.3} |\n");
    }
    if let Some(before) = before {
        let [(token, of_token), (unit, of_unit), _] = before.perplexities();
        card += &tr!(
            "\nBefore it was trained further: loss {:.4}, perplexity {of_token:.3} per {token}, {of_unit:.3} per {unit}.\n",
            "\n追加学習の前: 損失 {:.4}、パープレキシティは{token}あたり {of_token:.3}、{unit}あたり {of_unit:.3}。\n",
            before.loss
        );
    }
    card += &tr!(
        "\nText is read in consecutive windows of the context length, so the first tokens of a window are predicted \
         from little context. Perplexities per {} and per byte can be compared between models with different \
         tokens.\n\n## Data\n\n{} SHA-256 of the tokens: `{}`. Seed {}.\n\n",
        "\nテキストは文脈の長さの窓を並べて読むため、窓の最初のトークンはわずかな手がかりから予測されます。{}あたりとバイトあたりの\
         パープレキシティは、トークンの異なるモデルとも比べられます。\n\n## データ\n\n{}。トークンの SHA-256: `{}`。シード {}。\n\n",
        scores.perplexities()[1].0,
        data.description,
        run.data_sha256,
        run.seed
    );
    card + &tr!(
        "## Limits\n\nThe model writes what is likely after its training text, true or not, and may repeat parts of that \
         text word for word.\n\n## Use\n\n```\nchumoku generate THIS_FOLDER \"some text\"\nchumoku eval THIS_FOLDER \
         text.txt\n```\n",
        "## 限界\n\nこのモデルは、学習したテキストに続きそうなことを、正しいかどうかにかかわらず書きます。学習したテキストの一部をそのまま\
         繰り返すこともあります。\n\n## 使い方\n\n```\nchumoku generate このフォルダ \"テキスト\"\nchumoku eval このフォルダ \
         text.txt\n```\n"
    )
}
