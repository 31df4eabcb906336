//! The matrices of a worked example: names, shapes in letters, titles.

use chumoku::lang::Lang;

/// A matrix of a worked example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Quantity {
    Embeddings,
    Positions,
    X,
    InputW,
    InputB,
    InputSums,
    HiddenW,
    HiddenB,
    FirstHidden,
    FirstState,
    PreviousOutput,
    HiddenSums,
    InputGate,
    ForgetGate,
    NewContent,
    OutputGate,
    PreviousState,
    CellState,
    CellTanh,
    ResetGate,
    UpdateGate,
    CandidateSums,
    ResetSums,
    Candidate,
    StepOutput,
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
    GammaQ,
    GammaK,
    NormalizedQ,
    NormalizedK,
    RotarySpeeds,
    RotatedQ,
    RotatedK,
    Scores,
    ScaledScores,
    BiasedScores,
    MaskedScores,
    ScoreMax,
    ScoreExponentials,
    ScoreSums,
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
    ClassMax,
    ClassExponentials,
    ClassSums,
    Probabilities,
    Target,
    LogProbabilities,
    Loss,
}

use Quantity::*;

/// The quantities in the order of a trace: names in files, symbols in formulas, and titles.
const QUANTITIES: [(Quantity, &str, &str, (&str, &str)); 100] = [
    (Embeddings, "embeddings", "X_E", ("Embeddings", "埋め込み")),
    (Positions, "positions", "P", ("Positional encoding", "位置エンコーディング")),
    (X, "X", "X", ("Input", "入力")),
    (InputW, "W_x", "W_x", ("Weights of the inputs, by gate", "入力の重み行列（ゲートごと）")),
    (InputB, "b_x", "b_x", ("Bias of the inputs", "入力のバイアス")),
    (InputSums, "x_sums", "A_x", ("Contribution of the inputs, by gate", "入力による分（ゲートごと）")),
    (HiddenW, "W_h", "W_h", ("Weights of the previous output, by gate", "一つ前の出力の重み行列（ゲートごと）")),
    (HiddenB, "b_h", "b_h", ("Bias of the previous output", "一つ前の出力のバイアス")),
    (FirstHidden, "h_0", "h_0", ("Output before the first token", "最初のトークンの前の出力")),
    (FirstState, "c_0", "c_0", ("Cell state before the first token", "最初のトークンの前のセル状態")),
    (PreviousOutput, "h_previous", "H′", ("Output of the previous token", "一つ前のトークンの出力")),
    (
        HiddenSums,
        "h_sums",
        "A_h",
        ("Contribution of the previous output, by gate", "一つ前の出力による分（ゲートごと）"),
    ),
    (InputGate, "i", "i", ("Input gate", "入力ゲート")),
    (ForgetGate, "f", "f", ("Forget gate", "忘却ゲート")),
    (NewContent, "g", "g", ("New content", "新しい内容")),
    (OutputGate, "o", "o", ("Output gate", "出力ゲート")),
    (PreviousState, "c_previous", "C′", ("Cell state of the previous token", "一つ前のトークンのセル状態")),
    (CellState, "c", "C", ("Cell state", "セル状態")),
    (CellTanh, "c_tanh", "C_tanh", ("tanh of the cell state", "セル状態の tanh")),
    (ResetGate, "r", "r", ("Reset gate", "リセットゲート")),
    (UpdateGate, "z", "z", ("Update gate", "更新ゲート")),
    (
        CandidateSums,
        "n_sums",
        "A_n",
        ("Contribution of the previous output to the new content", "一つ前の出力が新しい内容に加える分"),
    ),
    (ResetSums, "reset", "A_r", ("The same, times the reset gate", "そのうちリセットゲートが通す分")),
    (Candidate, "n", "n", ("New content", "新しい内容")),
    (StepOutput, "h", "H", ("Output of each token", "各トークンの出力")),
    (Memory, "memory", "X_KV", ("Input of keys and values", "キーとバリューの入力")),
    (NormGamma, "gamma", "γ", ("Factors of the normalization", "正規化のスケール（γ）")),
    (NormBeta, "norm_beta", "β", ("Offsets of the normalization", "正規化のシフト（β）")),
    (Norm, "norm", "N", ("Layer normalization", "層正規化")),
    (WQ, "W_Q", "W_Q", ("Weights of the queries", "クエリの重み行列")),
    (BQ, "b_Q", "b_Q", ("Bias of the queries", "クエリのバイアス")),
    (WK, "W_K", "W_K", ("Weights of the keys", "キーの重み行列")),
    (BK, "b_K", "b_K", ("Bias of the keys", "キーのバイアス")),
    (WV, "W_V", "W_V", ("Weights of the values", "バリューの重み行列")),
    (BV, "b_V", "b_V", ("Bias of the values", "バリューのバイアス")),
    (Q, "Q", "Q", ("Queries", "クエリ")),
    (K, "K", "K", ("Keys", "キー")),
    (V, "V", "V", ("Values", "バリュー")),
    (GammaQ, "gamma_Q", "γ_Q", ("Factors of the normalization of queries", "クエリの正規化のスケール（γ）")),
    (GammaK, "gamma_K", "γ_K", ("Factors of the normalization of keys", "キーの正規化のスケール（γ）")),
    (NormalizedQ, "normalised_Q", "Q_n", ("Queries, normalized", "正規化したクエリ")),
    (NormalizedK, "normalised_K", "K_n", ("Keys, normalized", "正規化したキー")),
    (RotarySpeeds, "rotary_speeds", "ω", ("Angles of one step of position", "位置 1 つ分の回転角")),
    (RotatedQ, "rotated_Q", "Q′", ("Queries, rotated by position", "位置で回転したクエリ")),
    (RotatedK, "rotated_K", "K′", ("Keys, rotated by position", "位置で回転したキー")),
    (Scores, "scores", "S", ("Scores", "スコア")),
    (ScaledScores, "scaled", "S_scaled", ("Scaled scores", "スケーリングしたスコア")),
    (BiasedScores, "biased", "S_biased", ("Scores with biases", "バイアスを加えたスコア")),
    (MaskedScores, "masked", "S_masked", ("Masked scores", "マスクしたスコア")),
    (ScoreMax, "max", "m", ("Largest score of each row", "各行の最大値")),
    (ScoreExponentials, "exponentials", "E", ("Exponentials", "指数関数値")),
    (ScoreSums, "sums", "z", ("Sums of the exponentials", "指数関数値の和")),
    (Weights, "weights", "A", ("Attention weights", "アテンションの重み")),
    (HeadOutput, "heads", "H", ("Output of the head", "ヘッドの出力")),
    (Concat, "concat", "C", ("Heads side by side", "ヘッドの連結")),
    (WO, "W_O", "W_O", ("Weights of the output", "出力の重み行列")),
    (BO, "b_O", "b_O", ("Bias of the output", "出力のバイアス")),
    (Output, "output", "O", ("Output", "出力")),
    (Residual, "residual", "R", ("Residual connection", "残差接続")),
    (FinalNorm, "final_norm", "Y", ("Layer normalization", "層正規化")),
    (Gamma2, "gamma_2", "γ_2", ("Factors of the second normalization", "2 つ目の正規化のスケール（γ）")),
    (Beta2, "norm_beta_2", "β_2", ("Offsets of the second normalization", "2 つ目の正規化のシフト（β）")),
    (Norm2, "norm_2", "N_2", ("Second layer normalization", "2 つ目の層正規化")),
    (W1, "W_1", "W_1", ("Weights of the first linear layer", "1 つ目の線形層の重み行列")),
    (B1, "b_1", "b_1", ("Bias of the first linear layer", "1 つ目の線形層のバイアス")),
    (
        Inner,
        "inner",
        "U",
        ("Feed-forward network, first linear layer", "フィードフォワードネットワーク、1 つ目の線形層"),
    ),
    (Activated, "activated", "U′", ("Activation", "活性化")),
    (WGate, "W_gate", "W_gate", ("Weights of the gate", "ゲートの重み行列")),
    (BGate, "b_gate", "b_gate", ("Bias of the gate", "ゲートのバイアス")),
    (Gate, "gate", "G", ("Gate", "ゲート")),
    (Gated, "gated", "U_gated", ("Activation times gate", "活性化とゲートの積")),
    (W2, "W_2", "W_2", ("Weights of the second linear layer", "2 つ目の線形層の重み行列")),
    (B2, "b_2", "b_2", ("Bias of the second linear layer", "2 つ目の線形層のバイアス")),
    (
        FeedForward,
        "feed_forward",
        "F",
        ("Feed-forward network, second linear layer", "フィードフォワードネットワーク、2 つ目の線形層"),
    ),
    (Residual2, "residual_2", "R_2", ("Second residual connection", "2 つ目の残差接続")),
    (FinalNorm2, "final_norm_2", "Y_2", ("Second layer normalization", "2 つ目の層正規化")),
    (LastGamma, "gamma_last", "γ_L", ("γ of the normalization after the last layer", "最後の層の後の正規化の γ")),
    (LastBeta, "norm_beta_last", "β_L", ("β of the normalization after the last layer", "最後の層の後の正規化の β")),
    (LastNorm, "last_norm", "Y_L", ("Normalization after the last layer", "最後の層の後の正規化")),
    (Hidden, "hidden", "L", ("Vectors after the last layer", "最後の層を出たベクトル")),
    (Pooled, "pooled", "p", ("Pooling", "プーリング")),
    (DenseW, "W_dense", "W_D", ("Weights of the dense layer", "全結合層の重み行列")),
    (DenseB, "b_dense", "b_D", ("Bias of the dense layer", "全結合層のバイアス")),
    (Dense, "dense", "D", ("Dense layer", "全結合層")),
    (DenseTanh, "dense_tanh", "D′", ("Activation of the dense layer", "全結合層の活性化")),
    (DenseActivated, "dense_activated", "D_f", ("Activation of the dense layer", "全結合層の活性化")),
    (DenseGamma, "gamma_dense", "γ_D", ("γ of the dense layer’s normalization", "全結合層の正規化の γ")),
    (DenseBeta, "norm_beta_dense", "β_D", ("β of the dense layer’s normalization", "全結合層の正規化の β")),
    (DenseNorm, "dense_norm", "D_n", ("Normalization of the dense layer", "全結合層の正規化")),
    (Vector, "vector", "v", ("Vector of the text", "テキストのベクトル")),
    (ClassW, "W_class", "W_C", ("Weights of the classes", "クラスの重み行列")),
    (ClassB, "b_class", "b_C", ("Bias of the classes", "クラスのバイアス")),
    (Logits, "logits", "Z", ("Logits", "ロジット")),
    (ClassMax, "class_max", "m_C", ("Largest logit", "ロジットの最大値")),
    (ClassExponentials, "class_exponentials", "E_C", ("Exponentials of the logits", "ロジットの指数関数値")),
    (ClassSums, "class_sums", "z_C", ("Sum of the exponentials of the logits", "ロジットの指数関数値の和")),
    (Probabilities, "probabilities", "P_C", ("Probabilities of the classes", "クラスの確率")),
    (Target, "target", "T", ("Target", "正解")),
    (LogProbabilities, "log_probabilities", "L_C", ("Logarithms of the probabilities", "確率の対数")),
    (Loss, "loss", "ℒ", ("Cross-entropy loss", "交差エントロピー損失")),
];

// The index of a quantity in the table is its discriminant.
const _: () = {
    let mut i = 0;
    while i < QUANTITIES.len() {
        assert!(QUANTITIES[i].0 as usize == i);
        i += 1;
    }
};

/// The length of an axis, by its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatrixAxis {
    /// Number of query tokens.
    Queries,
    /// Number of key tokens.
    Keys,
    /// Width of the model.
    Model,
    /// Width of the input of keys and values.
    Memory,
    /// Width of queries and keys: that of one head if each head has its own.
    KeyWidth,
    /// Width of queries and keys of one head.
    HeadWidth,
    /// Rotated pairs of numbers of one head.
    Pairs,
    /// Width of values.
    ValueWidth,
    /// Inner width of the feed-forward network.
    Inner,
    /// Width of the pooled row.
    Pooled,
    /// Width of the text's vector.
    Vector,
    /// Number of classified items: one text if rows are pooled, otherwise each token.
    Answers,
    /// The classes.
    Classes,
    /// Width of the output of a recurrent network.
    State,
    /// The same width for all gates of a recurrent network.
    Gates,
    /// One number.
    One,
}

impl Quantity {
    /// Returns all quantities in the order of a trace.
    pub(crate) fn all() -> impl Iterator<Item = Quantity> {
        QUANTITIES.iter().map(|facts| facts.0)
    }

    /// Returns the name in files.
    pub(crate) fn name(self) -> &'static str {
        QUANTITIES[self as usize].1
    }

    /// Returns whether training changes the quantity.
    pub(super) fn is_parameter(self) -> bool {
        self.is_matrix()
            || matches!(
                self,
                InputB
                    | HiddenB
                    | NormGamma
                    | NormBeta
                    | BQ
                    | BK
                    | BV
                    | GammaQ
                    | GammaK
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

    /// Returns whether the quantity is a two-dimensional parameter, to which weight decay applies.
    pub(super) fn is_matrix(self) -> bool {
        matches!(self, InputW | HiddenW | WQ | WK | WV | WO | W1 | WGate | W2 | DenseW | ClassW)
    }

    /// Returns whether the quantity is shown again after a training step.
    pub(super) fn is_shown_after(self) -> bool {
        self.is_parameter() || matches!(self, Logits | Probabilities | Loss)
    }

    /// Returns the quantity with a name.
    pub(crate) fn from_name(name: &str) -> Option<Quantity> {
        Quantity::all().find(|quantity| quantity.name() == name)
    }

    /// Returns the symbol in formulas.
    pub(crate) fn symbol(self) -> &'static str {
        QUANTITIES[self as usize].2
    }

    /// Returns the axes.
    pub(crate) fn axes(self) -> [MatrixAxis; 2] {
        match self {
            Embeddings | Positions | X | Norm | Output | Residual | FinalNorm | Norm2 | FeedForward | Residual2
            | FinalNorm2 | LastNorm | Hidden => [MatrixAxis::Queries, MatrixAxis::Model],
            InputW => [MatrixAxis::Model, MatrixAxis::Gates],
            HiddenW => [MatrixAxis::State, MatrixAxis::Gates],
            InputB | HiddenB => [MatrixAxis::One, MatrixAxis::Gates],
            FirstHidden | FirstState => [MatrixAxis::One, MatrixAxis::State],
            InputSums | HiddenSums => [MatrixAxis::Queries, MatrixAxis::Gates],
            PreviousOutput | InputGate | ForgetGate | NewContent | OutputGate | PreviousState | CellState
            | CellTanh | ResetGate | UpdateGate | CandidateSums | ResetSums | Candidate | StepOutput => {
                [MatrixAxis::Queries, MatrixAxis::State]
            }
            Memory => [MatrixAxis::Keys, MatrixAxis::Memory],
            NormGamma | NormBeta | BO | Gamma2 | Beta2 | LastGamma | LastBeta | B2 => {
                [MatrixAxis::One, MatrixAxis::Model]
            }
            WQ => [MatrixAxis::Model, MatrixAxis::KeyWidth],
            WK => [MatrixAxis::Memory, MatrixAxis::KeyWidth],
            WV => [MatrixAxis::Memory, MatrixAxis::ValueWidth],
            BQ | BK => [MatrixAxis::One, MatrixAxis::KeyWidth],
            BV => [MatrixAxis::One, MatrixAxis::ValueWidth],
            GammaQ | GammaK => [MatrixAxis::One, MatrixAxis::HeadWidth],
            RotarySpeeds => [MatrixAxis::One, MatrixAxis::Pairs],
            Q | NormalizedQ | RotatedQ => [MatrixAxis::Queries, MatrixAxis::KeyWidth],
            K | NormalizedK | RotatedK => [MatrixAxis::Keys, MatrixAxis::KeyWidth],
            V => [MatrixAxis::Keys, MatrixAxis::ValueWidth],
            Scores | ScaledScores | BiasedScores | MaskedScores | ScoreExponentials | Weights => {
                [MatrixAxis::Queries, MatrixAxis::Keys]
            }
            ScoreMax | ScoreSums => [MatrixAxis::Queries, MatrixAxis::One],
            HeadOutput | Concat => [MatrixAxis::Queries, MatrixAxis::ValueWidth],
            WO => [MatrixAxis::ValueWidth, MatrixAxis::Model],
            W1 | WGate => [MatrixAxis::Model, MatrixAxis::Inner],
            B1 | BGate => [MatrixAxis::One, MatrixAxis::Inner],
            Inner | Activated | Gate | Gated => [MatrixAxis::Queries, MatrixAxis::Inner],
            W2 => [MatrixAxis::Inner, MatrixAxis::Model],
            Pooled => [MatrixAxis::One, MatrixAxis::Pooled],
            DenseW => [MatrixAxis::Pooled, MatrixAxis::Vector],
            DenseB | Dense | DenseTanh | DenseActivated | DenseGamma | DenseBeta | DenseNorm | Vector => {
                [MatrixAxis::One, MatrixAxis::Vector]
            }
            ClassW => [MatrixAxis::Vector, MatrixAxis::Classes],
            ClassB => [MatrixAxis::One, MatrixAxis::Classes],
            Logits | ClassExponentials | Probabilities | Target | LogProbabilities => {
                [MatrixAxis::Answers, MatrixAxis::Classes]
            }
            ClassMax | ClassSums => [MatrixAxis::Answers, MatrixAxis::One],
            Loss => [MatrixAxis::One, MatrixAxis::One],
        }
    }

    /// Returns the title.
    pub(crate) fn title(self, lang: Lang) -> &'static str {
        let (en, ja) = QUANTITIES[self as usize].3;
        lang.pick(en, ja)
    }
}
