//! What the matrices of a worked example are: names, shapes in letters, titles.

use chumoku::lang::Lang;

/// A matrix of a worked example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Quantity {
    Embeddings,
    Positions,
    X,
    Memory,
    NormGamma,
    NormBeta,
    Norm,
    WQ,
    BQ,
    WK,
    BK,
    WV,
    BV,
    Q,
    K,
    V,
    HeadGammaQ,
    HeadGammaK,
    NormedQ,
    NormedK,
    Speeds,
    TurnedQ,
    TurnedK,
    Scores,
    Scaled,
    Biased,
    Masked,
    Largest,
    Exponentials,
    Sums,
    Weights,
    HeadOutput,
    Concat,
    WO,
    BO,
    Output,
    Residual,
    FinalNorm,
    Hidden,
    Pooled,
    DenseW,
    DenseB,
    Dense,
    DenseTanh,
    Vector,
}

use Quantity::*;

/// How long an axis is, in letters.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    /// Tokens that ask.
    Queries,
    /// Tokens that are asked.
    Keys,
    /// Width of the model.
    Model,
    /// Width of what keys and values are made from.
    Memory,
    /// Width of queries and keys: of one head where it has its own.
    KeyWidth,
    /// Width of queries and keys of one head.
    HeadWidth,
    /// Pairs of numbers that positions turn, of one head.
    Pairs,
    /// Width of values.
    ValueWidth,
    /// Width of what is pooled of all tokens.
    Pooled,
    /// Width of the text's vector.
    Vector,
    /// One number.
    One,
}

impl Quantity {
    /// All of them, in the order of a trace.
    pub(crate) const ALL: [Quantity; 45] = [
        Embeddings,
        Positions,
        X,
        Memory,
        NormGamma,
        NormBeta,
        Norm,
        WQ,
        BQ,
        WK,
        BK,
        WV,
        BV,
        Q,
        K,
        V,
        HeadGammaQ,
        HeadGammaK,
        NormedQ,
        NormedK,
        Speeds,
        TurnedQ,
        TurnedK,
        Scores,
        Scaled,
        Biased,
        Masked,
        Largest,
        Exponentials,
        Sums,
        Weights,
        HeadOutput,
        Concat,
        WO,
        BO,
        Output,
        Residual,
        FinalNorm,
        Hidden,
        Pooled,
        DenseW,
        DenseB,
        Dense,
        DenseTanh,
        Vector,
    ];

    /// Its name in files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Embeddings => "embeddings",
            Positions => "positions",
            X => "X",
            Memory => "memory",
            NormGamma => "gamma",
            NormBeta => "norm_beta",
            Norm => "norm",
            WQ => "W_Q",
            BQ => "b_Q",
            WK => "W_K",
            BK => "b_K",
            WV => "W_V",
            BV => "b_V",
            Q => "Q",
            K => "K",
            V => "V",
            HeadGammaQ => "gamma_Q",
            HeadGammaK => "gamma_K",
            NormedQ => "normalised_Q",
            NormedK => "normalised_K",
            Speeds => "rotary_speeds",
            TurnedQ => "rotated_Q",
            TurnedK => "rotated_K",
            Scores => "scores",
            Scaled => "scaled",
            Biased => "biased",
            Masked => "masked",
            Largest => "max",
            Exponentials => "exponentials",
            Sums => "sums",
            Weights => "weights",
            HeadOutput => "heads",
            Concat => "concat",
            WO => "W_O",
            BO => "b_O",
            Output => "output",
            Residual => "residual",
            FinalNorm => "final_norm",
            Hidden => "hidden",
            Pooled => "pooled",
            DenseW => "W_dense",
            DenseB => "b_dense",
            Dense => "dense",
            DenseTanh => "dense_tanh",
            Vector => "vector",
        }
    }

    /// The quantity of a name.
    pub(crate) fn named(name: &str) -> Option<Quantity> {
        Quantity::ALL.into_iter().find(|quantity| quantity.name() == name)
    }

    /// Its letter in formulas.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Embeddings => "X_E",
            Positions => "P",
            X => "X",
            Memory => "X_KV",
            NormGamma => "γ",
            NormBeta => "β",
            Norm => "N",
            WQ => "W_Q",
            BQ => "b_Q",
            WK => "W_K",
            BK => "b_K",
            WV => "W_V",
            BV => "b_V",
            Q => "Q",
            K => "K",
            V => "V",
            HeadGammaQ => "γ_Q",
            HeadGammaK => "γ_K",
            NormedQ => "Q_n",
            NormedK => "K_n",
            Speeds => "ω",
            TurnedQ => "Q′",
            TurnedK => "K′",
            Scores => "S",
            Scaled => "S_scaled",
            Biased => "S_biased",
            Masked => "S_masked",
            Largest => "m",
            Exponentials => "E",
            Sums => "z",
            Weights => "A",
            HeadOutput => "H",
            Concat => "C",
            WO => "W_O",
            BO => "b_O",
            Output => "O",
            Residual => "R",
            FinalNorm => "Y",
            Hidden => "L",
            Pooled => "p",
            DenseW => "W_D",
            DenseB => "b_D",
            Dense => "D",
            DenseTanh => "D′",
            Vector => "v",
        }
    }

    /// Its axes.
    pub(crate) fn axes(self) -> [Axis; 2] {
        match self {
            Embeddings | Positions | X | Norm | Output | Residual | FinalNorm | Hidden => [Axis::Queries, Axis::Model],
            Memory => [Axis::Keys, Axis::Memory],
            NormGamma | NormBeta | BO => [Axis::One, Axis::Model],
            WQ => [Axis::Model, Axis::KeyWidth],
            WK => [Axis::Memory, Axis::KeyWidth],
            WV => [Axis::Memory, Axis::ValueWidth],
            BQ | BK => [Axis::One, Axis::KeyWidth],
            BV => [Axis::One, Axis::ValueWidth],
            HeadGammaQ | HeadGammaK => [Axis::One, Axis::HeadWidth],
            Speeds => [Axis::One, Axis::Pairs],
            Q | NormedQ | TurnedQ => [Axis::Queries, Axis::KeyWidth],
            K | NormedK | TurnedK => [Axis::Keys, Axis::KeyWidth],
            V => [Axis::Keys, Axis::ValueWidth],
            Scores | Scaled | Biased | Masked | Exponentials | Weights => [Axis::Queries, Axis::Keys],
            Largest | Sums => [Axis::Queries, Axis::One],
            HeadOutput | Concat => [Axis::Queries, Axis::ValueWidth],
            WO => [Axis::ValueWidth, Axis::Model],
            Pooled => [Axis::One, Axis::Pooled],
            DenseW => [Axis::Pooled, Axis::Vector],
            DenseB | Dense | DenseTanh | Vector => [Axis::One, Axis::Vector],
        }
    }

    /// What it is called.
    pub(crate) fn title(self, lang: Lang) -> &'static str {
        let (en, ja) = match self {
            Embeddings => ("Embeddings", "埋め込み"),
            Positions => ("Positional encoding", "位置エンコーディング"),
            X => ("Input", "入力"),
            Memory => ("What keys and values are made from", "キーとバリューの元"),
            NormGamma => ("Factors of the normalisation", "正規化のスケール（γ）"),
            NormBeta => ("Offsets of the normalisation", "正規化のシフト（β）"),
            Norm => ("Layer normalisation", "層正規化"),
            WQ => ("Weights of the queries", "クエリの重み行列"),
            BQ => ("Bias of the queries", "クエリのバイアス"),
            WK => ("Weights of the keys", "キーの重み行列"),
            BK => ("Bias of the keys", "キーのバイアス"),
            WV => ("Weights of the values", "バリューの重み行列"),
            BV => ("Bias of the values", "バリューのバイアス"),
            Q => ("Queries", "クエリ"),
            K => ("Keys", "キー"),
            V => ("Values", "バリュー"),
            HeadGammaQ => ("Factors of the normalisation of queries", "クエリの正規化のスケール（γ）"),
            HeadGammaK => ("Factors of the normalisation of keys", "キーの正規化のスケール（γ）"),
            NormedQ => ("Queries, normalised", "正規化したクエリ"),
            NormedK => ("Keys, normalised", "正規化したキー"),
            Speeds => ("Angles of one step of position", "位置 1 つ分の回転角"),
            TurnedQ => ("Queries, turned by position", "位置で回転したクエリ"),
            TurnedK => ("Keys, turned by position", "位置で回転したキー"),
            Scores => ("Scores", "スコア"),
            Scaled => ("Scaled scores", "スケーリングしたスコア"),
            Biased => ("Scores with biases", "バイアスを加えたスコア"),
            Masked => ("Masked scores", "マスクしたスコア"),
            Largest => ("Largest score of each row", "各行の最大値"),
            Exponentials => ("Exponentials", "指数"),
            Sums => ("Sums of the exponentials", "指数の和"),
            Weights => ("Attention weights", "アテンションの重み"),
            HeadOutput => ("Output of the head", "ヘッドの出力"),
            Concat => ("Heads side by side", "ヘッドの連結"),
            WO => ("Weights of the output", "出力の重み行列"),
            BO => ("Bias of the output", "出力のバイアス"),
            Output => ("Output", "出力"),
            Residual => ("Residual connection", "残差接続"),
            FinalNorm => ("Layer normalisation", "層正規化"),
            Hidden => ("Vectors after the last layer", "最後の層を出たベクトル"),
            Pooled => ("Pooling", "プーリング"),
            DenseW => ("Weights of the dense layer", "全結合層の重み行列"),
            DenseB => ("Bias of the dense layer", "全結合層のバイアス"),
            Dense => ("Dense layer", "全結合層"),
            DenseTanh => ("Activation of the dense layer", "全結合層の活性化"),
            Vector => ("Vector of the text", "テキストのベクトル"),
        };
        lang.pick(en, ja)
    }
}
