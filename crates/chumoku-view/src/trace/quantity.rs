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
    Gamma2,
    Beta2,
    Norm2,
    W1,
    B1,
    Inner,
    Activated,
    WGate,
    BGate,
    Gate,
    Gated,
    W2,
    B2,
    FeedForward,
    Residual2,
    FinalNorm2,
    LastGamma,
    LastBeta,
    LastNorm,
    Hidden,
    Pooled,
    DenseW,
    DenseB,
    Dense,
    DenseTanh,
    DenseActivated,
    DenseGamma,
    DenseBeta,
    DenseNorm,
    Vector,
    ClassW,
    ClassB,
    Logits,
    ClassLargest,
    ClassExponentials,
    ClassSums,
    Probabilities,
    Target,
    LogProbabilities,
    Loss,
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
    /// Width inside the feed-forward network.
    Inner,
    /// Width of what is pooled of all tokens.
    Pooled,
    /// Width of the text's vector.
    Vector,
    /// What is classified: the text where its rows are pooled, else each token.
    Answers,
    /// The classes.
    Classes,
    /// One number.
    One,
}

impl Quantity {
    /// All of them, in the order of a trace.
    pub(crate) const ALL: [Quantity; 78] = [
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
        Gamma2,
        Beta2,
        Norm2,
        W1,
        B1,
        Inner,
        Activated,
        WGate,
        BGate,
        Gate,
        Gated,
        W2,
        B2,
        FeedForward,
        Residual2,
        FinalNorm2,
        LastGamma,
        LastBeta,
        LastNorm,
        Hidden,
        Pooled,
        DenseW,
        DenseB,
        Dense,
        DenseTanh,
        DenseActivated,
        DenseGamma,
        DenseBeta,
        DenseNorm,
        Vector,
        ClassW,
        ClassB,
        Logits,
        ClassLargest,
        ClassExponentials,
        ClassSums,
        Probabilities,
        Target,
        LogProbabilities,
        Loss,
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
            Gamma2 => "gamma_2",
            Beta2 => "norm_beta_2",
            Norm2 => "norm_2",
            W1 => "W_1",
            B1 => "b_1",
            Inner => "inner",
            Activated => "activated",
            WGate => "W_gate",
            BGate => "b_gate",
            Gate => "gate",
            Gated => "gated",
            W2 => "W_2",
            B2 => "b_2",
            FeedForward => "feed_forward",
            Residual2 => "residual_2",
            FinalNorm2 => "final_norm_2",
            LastGamma => "gamma_last",
            LastBeta => "norm_beta_last",
            LastNorm => "last_norm",
            Hidden => "hidden",
            Pooled => "pooled",
            DenseW => "W_dense",
            DenseB => "b_dense",
            Dense => "dense",
            DenseTanh => "dense_tanh",
            DenseActivated => "dense_activated",
            DenseGamma => "gamma_dense",
            DenseBeta => "norm_beta_dense",
            DenseNorm => "dense_norm",
            Vector => "vector",
            ClassW => "W_class",
            ClassB => "b_class",
            Logits => "logits",
            ClassLargest => "class_max",
            ClassExponentials => "class_exponentials",
            ClassSums => "class_sums",
            Probabilities => "probabilities",
            Target => "target",
            LogProbabilities => "log_probabilities",
            Loss => "loss",
        }
    }

    /// Whether training changes it.
    pub(super) fn is_parameter(self) -> bool {
        self.is_matrix()
            || matches!(
                self,
                NormGamma
                    | NormBeta
                    | BQ
                    | BK
                    | BV
                    | HeadGammaQ
                    | HeadGammaK
                    | BO
                    | Gamma2
                    | Beta2
                    | B1
                    | BGate
                    | B2
                    | LastGamma
                    | LastBeta
                    | DenseB
                    | DenseGamma
                    | DenseBeta
                    | ClassB
            )
    }

    /// Whether it is a parameter of two dimensions, which decays.
    pub(super) fn is_matrix(self) -> bool {
        matches!(self, WQ | WK | WV | WO | W1 | WGate | W2 | DenseW | ClassW)
    }

    /// Whether it is shown once more after a step of training.
    pub(super) fn is_shown_after(self) -> bool {
        self.is_parameter() || matches!(self, Logits | Probabilities | Loss)
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
            Gamma2 => "γ_2",
            Beta2 => "β_2",
            Norm2 => "N_2",
            W1 => "W_1",
            B1 => "b_1",
            Inner => "U",
            Activated => "U′",
            WGate => "W_gate",
            BGate => "b_gate",
            Gate => "G",
            Gated => "U_gated",
            W2 => "W_2",
            B2 => "b_2",
            FeedForward => "F",
            Residual2 => "R_2",
            FinalNorm2 => "Y_2",
            LastGamma => "γ_L",
            LastBeta => "β_L",
            LastNorm => "Y_L",
            Hidden => "L",
            Pooled => "p",
            DenseW => "W_D",
            DenseB => "b_D",
            Dense => "D",
            DenseTanh => "D′",
            DenseActivated => "D_f",
            DenseGamma => "γ_D",
            DenseBeta => "β_D",
            DenseNorm => "D_n",
            Vector => "v",
            ClassW => "W_C",
            ClassB => "b_C",
            Logits => "Z",
            ClassLargest => "m_C",
            ClassExponentials => "E_C",
            ClassSums => "z_C",
            Probabilities => "P_C",
            Target => "T",
            LogProbabilities => "L_C",
            Loss => "ℒ",
        }
    }

    /// Its axes.
    pub(crate) fn axes(self) -> [Axis; 2] {
        match self {
            Embeddings | Positions | X | Norm | Output | Residual | FinalNorm | Norm2 | FeedForward | Residual2
            | FinalNorm2 | LastNorm | Hidden => [Axis::Queries, Axis::Model],
            Memory => [Axis::Keys, Axis::Memory],
            NormGamma | NormBeta | BO | Gamma2 | Beta2 | LastGamma | LastBeta | B2 => [Axis::One, Axis::Model],
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
            W1 | WGate => [Axis::Model, Axis::Inner],
            B1 | BGate => [Axis::One, Axis::Inner],
            Inner | Activated | Gate | Gated => [Axis::Queries, Axis::Inner],
            W2 => [Axis::Inner, Axis::Model],
            Pooled => [Axis::One, Axis::Pooled],
            DenseW => [Axis::Pooled, Axis::Vector],
            DenseB | Dense | DenseTanh | DenseActivated | DenseGamma | DenseBeta | DenseNorm | Vector => {
                [Axis::One, Axis::Vector]
            }
            ClassW => [Axis::Vector, Axis::Classes],
            ClassB => [Axis::One, Axis::Classes],
            Logits | ClassExponentials | Probabilities | Target | LogProbabilities => [Axis::Answers, Axis::Classes],
            ClassLargest | ClassSums => [Axis::Answers, Axis::One],
            Loss => [Axis::One, Axis::One],
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
            Gamma2 => ("Factors of the second normalisation", "2 つ目の正規化のスケール（γ）"),
            Beta2 => ("Offsets of the second normalisation", "2 つ目の正規化のシフト（β）"),
            Norm2 => ("Second layer normalisation", "2 つ目の層正規化"),
            W1 => ("Weights of the first linear layer", "1 つ目の線形層の重み行列"),
            B1 => ("Bias of the first linear layer", "1 つ目の線形層のバイアス"),
            Inner => ("Feed-forward network, first linear layer", "フィードフォワードネットワーク、1 つ目の線形層"),
            Activated => ("Activation", "活性化"),
            WGate => ("Weights of the gate", "ゲートの重み行列"),
            BGate => ("Bias of the gate", "ゲートのバイアス"),
            Gate => ("Gate", "ゲート"),
            Gated => ("Activation times gate", "活性化とゲートの積"),
            W2 => ("Weights of the second linear layer", "2 つ目の線形層の重み行列"),
            B2 => ("Bias of the second linear layer", "2 つ目の線形層のバイアス"),
            FeedForward => {
                ("Feed-forward network, second linear layer", "フィードフォワードネットワーク、2 つ目の線形層")
            }
            Residual2 => ("Second residual connection", "2 つ目の残差接続"),
            FinalNorm2 => ("Second layer normalisation", "2 つ目の層正規化"),
            LastGamma => ("γ of the normalisation behind the last layer", "最後の層の後の正規化の γ"),
            LastBeta => ("β of the normalisation behind the last layer", "最後の層の後の正規化の β"),
            LastNorm => ("Normalisation behind the last layer", "最後の層の後の正規化"),
            Hidden => ("Vectors after the last layer", "最後の層を出たベクトル"),
            Pooled => ("Pooling", "プーリング"),
            DenseW => ("Weights of the dense layer", "全結合層の重み行列"),
            DenseB => ("Bias of the dense layer", "全結合層のバイアス"),
            Dense => ("Dense layer", "全結合層"),
            DenseTanh => ("Activation of the dense layer", "全結合層の活性化"),
            DenseActivated => ("Activation of the dense layer", "全結合層の活性化"),
            DenseGamma => ("γ of the dense layer’s normalisation", "全結合層の正規化の γ"),
            DenseBeta => ("β of the dense layer’s normalisation", "全結合層の正規化の β"),
            DenseNorm => ("Normalisation of the dense layer", "全結合層の正規化"),
            Vector => ("Vector of the text", "テキストのベクトル"),
            ClassW => ("Weights of the classes", "クラスの重み行列"),
            ClassB => ("Bias of the classes", "クラスのバイアス"),
            Logits => ("Logits", "ロジット"),
            ClassLargest => ("Largest logit", "ロジットの最大値"),
            ClassExponentials => ("Exponentials of the logits", "ロジットの指数"),
            ClassSums => ("Sum of the exponentials of the logits", "ロジットの指数の和"),
            Probabilities => ("Probabilities of the classes", "クラスの確率"),
            Target => ("Target", "正解"),
            LogProbabilities => ("Logarithms of the probabilities", "確率の対数"),
            Loss => ("Cross-entropy loss", "交差エントロピー損失"),
        };
        lang.pick(en, ja)
    }
}
