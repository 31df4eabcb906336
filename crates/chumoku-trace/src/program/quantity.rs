//! The matrices of a worked example: names, shapes in letters, titles.

use chumoku::lang::Lang;

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
    /// Pairs of a query and a key: those of the first query come first.
    QueryKeyPairs,
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

/// Properties of a quantity that do not depend on the example.
struct QuantityFacts {
    quantity: Quantity,
    /// Name in files.
    name: &'static str,
    /// Symbol in formulas.
    symbol: &'static str,
    /// Titles in English and Japanese.
    title: (&'static str, &'static str),
    axes: [MatrixAxis; 2],
    /// For a parameter, whether it is a matrix, to which weight decay applies.
    parameter: Option<bool>,
}

/// Defines the quantities in the order of a trace: name in files, symbol in formulas, titles, axes, and `matrix` or
/// `vector` for parameters.
macro_rules! quantities {
    (@parameter) => { None };
    (@parameter matrix) => { Some(true) };
    (@parameter vector) => { Some(false) };
    ($($quantity:ident: $name:literal, $symbol:literal, $title:expr, [$rows:ident, $columns:ident] $($kind:ident)?;)*) => {
        /// A matrix of a worked example.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Quantity { $($quantity),* }

        /// The properties of each quantity; the index is its discriminant.
        const QUANTITIES: &[QuantityFacts] = &[$(QuantityFacts {
            quantity: Quantity::$quantity,
            name: $name,
            symbol: $symbol,
            title: $title,
            axes: [MatrixAxis::$rows, MatrixAxis::$columns],
            parameter: quantities!(@parameter $($kind)?),
        }),*];
    };
}

quantities! {
    TokenIds: "ids", "id", ("Token ids", "トークンの id"), [Queries, One];
    TokenVectors: "token_vectors", "E", ("Rows of the embedding table", "埋め込み表の行"), [Queries, Model];
    Embeddings: "embeddings", "X_E", ("Embeddings", "埋め込み"), [Queries, Model];
    Positions: "positions", "P", ("Positional encoding", "位置エンコーディング"), [Queries, Model];
    PositionSum: "embeddings_positions", "X_P", ("Embeddings with positions", "位置を加えた埋め込み"), [Queries, Model];
    TypeIds: "type_ids", "t", ("Token types", "トークンの種別"), [Queries, One];
    TypeVectors: "type_vectors", "E_T", ("Rows of the table of token types", "トークンの種別の表の行"), [Queries, Model];
    EmbeddingSum: "embedding_sum", "X_S", ("Sum of the embeddings", "埋め込みの和"), [Queries, Model];
    EmbeddingGamma: "gamma_embedding", "γ_E", ("γ of the embeddings’ normalization", "埋め込みの正規化の γ"), [One, Model] vector;
    EmbeddingBeta: "norm_beta_embedding", "β_E", ("β of the embeddings’ normalization", "埋め込みの正規化の β"),
        [One, Model] vector;
    X: "X", "X", ("Input", "入力"), [Queries, Model];
    InputW: "W_x", "W_x", ("Weights of the inputs, by gate", "入力の重み行列（ゲートごと）"), [Model, Gates] matrix;
    InputB: "b_x", "b_x", ("Bias of the inputs", "入力のバイアス"), [One, Gates] vector;
    InputSums: "x_sums", "A_x", ("Contribution of the inputs, by gate", "入力による分（ゲートごと）"), [Queries, Gates];
    HiddenW: "W_h", "W_h", ("Weights of the previous output, by gate", "一つ前の出力の重み行列（ゲートごと）"), [State, Gates] matrix;
    HiddenB: "b_h", "b_h", ("Bias of the previous output", "一つ前の出力のバイアス"), [One, Gates] vector;
    FirstHidden: "h_0", "h_0", ("Output before the first token", "最初のトークンの前の出力"), [One, State];
    FirstState: "c_0", "c_0", ("Cell state before the first token", "最初のトークンの前のセル状態"), [One, State];
    PreviousOutput: "h_previous", "H′", ("Output of the previous token", "一つ前のトークンの出力"), [Queries, State];
    HiddenSums: "h_sums", "A_h", ("Contribution of the previous output, by gate", "一つ前の出力による分（ゲートごと）"),
        [Queries, Gates];
    InputGate: "i", "i", ("Input gate", "入力ゲート"), [Queries, State];
    ForgetGate: "f", "f", ("Forget gate", "忘却ゲート"), [Queries, State];
    NewContent: "g", "g", ("New content", "新しい内容"), [Queries, State];
    OutputGate: "o", "o", ("Output gate", "出力ゲート"), [Queries, State];
    PreviousState: "c_previous", "C′", ("Cell state of the previous token", "一つ前のトークンのセル状態"), [Queries, State];
    CellState: "c", "C", ("Cell state", "セル状態"), [Queries, State];
    CellTanh: "c_tanh", "C_tanh", ("tanh of the cell state", "セル状態の tanh"), [Queries, State];
    ResetGate: "r", "r", ("Reset gate", "リセットゲート"), [Queries, State];
    UpdateGate: "z", "z", ("Update gate", "更新ゲート"), [Queries, State];
    CandidateSums: "n_sums", "A_n", ("Contribution of the previous output to the new content", "一つ前の出力が新しい内容に加える分"),
        [Queries, State];
    ResetSums: "reset", "A_r", ("The same, times the reset gate", "そのうちリセットゲートが通す分"), [Queries, State];
    Candidate: "n", "n", ("New content", "新しい内容"), [Queries, State];
    StepOutput: "h", "H", ("Output of each token", "各トークンの出力"), [Queries, State];
    Memory: "memory", "X_KV", ("Input of keys and values", "キーとバリューの入力"), [Keys, Memory];
    NormGamma: "gamma", "γ", ("Factors of the normalization", "正規化のスケール（γ）"), [One, Model] vector;
    NormBeta: "norm_beta", "β", ("Offsets of the normalization", "正規化のシフト（β）"), [One, Model] vector;
    Norm: "norm", "N", ("Layer normalization", "層正規化"), [Queries, Model];
    WQ: "W_Q", "W_Q", ("Weights of the queries", "クエリの重み行列"), [Model, KeyWidth] matrix;
    BQ: "b_Q", "b_Q", ("Bias of the queries", "クエリのバイアス"), [One, KeyWidth] vector;
    WK: "W_K", "W_K", ("Weights of the keys", "キーの重み行列"), [Memory, KeyWidth] matrix;
    BK: "b_K", "b_K", ("Bias of the keys", "キーのバイアス"), [One, KeyWidth] vector;
    WV: "W_V", "W_V", ("Weights of the values", "バリューの重み行列"), [Memory, ValueWidth] matrix;
    BV: "b_V", "b_V", ("Bias of the values", "バリューのバイアス"), [One, ValueWidth] vector;
    Q: "Q", "Q", ("Queries", "クエリ"), [Queries, KeyWidth];
    K: "K", "K", ("Keys", "キー"), [Keys, KeyWidth];
    V: "V", "V", ("Values", "バリュー"), [Keys, ValueWidth];
    GammaQ: "gamma_Q", "γ_Q", ("Factors of the normalization of queries", "クエリの正規化のスケール（γ）"), [One, HeadWidth] vector;
    GammaK: "gamma_K", "γ_K", ("Factors of the normalization of keys", "キーの正規化のスケール（γ）"), [One, HeadWidth] vector;
    NormalizedQ: "normalised_Q", "Q_n", ("Queries, normalized", "正規化したクエリ"), [Queries, KeyWidth];
    NormalizedK: "normalised_K", "K_n", ("Keys, normalized", "正規化したキー"), [Keys, KeyWidth];
    RotarySpeeds: "rotary_speeds", "ω", ("Angles of one step of position", "位置 1 つ分の回転角"), [One, Pairs];
    RotatedQ: "rotated_Q", "Q′", ("Queries, rotated by position", "位置で回転したクエリ"), [Queries, KeyWidth];
    RotatedK: "rotated_K", "K′", ("Keys, rotated by position", "位置で回転したキー"), [Keys, KeyWidth];
    PairSums: "pair_sums", "B_qk", ("Sum of every query and key", "クエリとキーのすべての組の和"), [QueryKeyPairs, KeyWidth];
    PairTanh: "pair_tanh", "T_qk", ("tanh of every pair", "すべての組の tanh"), [QueryKeyPairs, KeyWidth];
    ScoreVector: "v_a", "v_a", ("Vector of the additive score", "加法スコアのベクトル"), [KeyWidth, One] matrix;
    PairScores: "pair_scores", "e", ("Score of every pair", "すべての組のスコア"), [QueryKeyPairs, One];
    Scores: "scores", "S", ("Scores", "スコア"), [Queries, Keys];
    ScaledScores: "scaled", "S_scaled", ("Scaled scores", "スケーリングしたスコア"), [Queries, Keys];
    BiasedScores: "biased", "S_biased", ("Scores with biases", "バイアスを加えたスコア"), [Queries, Keys];
    MaskedScores: "masked", "S_masked", ("Masked scores", "マスクしたスコア"), [Queries, Keys];
    ScoreMax: "max", "m", ("Largest score of each row", "各行の最大値"), [Queries, One];
    ScoreExponentials: "exponentials", "E", ("Exponentials", "指数関数値"), [Queries, Keys];
    ScoreSums: "sums", "z", ("Sums of the exponentials", "指数関数値の和"), [Queries, One];
    Weights: "weights", "A", ("Attention weights", "アテンションの重み"), [Queries, Keys];
    HeadOutput: "heads", "H", ("Output of the head", "ヘッドの出力"), [Queries, ValueWidth];
    Concat: "concat", "C", ("Heads side by side", "ヘッドの連結"), [Queries, ValueWidth];
    WO: "W_O", "W_O", ("Weights of the output", "出力の重み行列"), [ValueWidth, Model] matrix;
    BO: "b_O", "b_O", ("Bias of the output", "出力のバイアス"), [One, Model] vector;
    Output: "output", "O", ("Output", "出力"), [Queries, Model];
    Residual: "residual", "R", ("Residual connection", "残差接続"), [Queries, Model];
    FinalNorm: "final_norm", "Y", ("Layer normalization", "層正規化"), [Queries, Model];
    Gamma2: "gamma_2", "γ_2", ("Factors of the second normalization", "2 つ目の正規化のスケール（γ）"), [One, Model] vector;
    Beta2: "norm_beta_2", "β_2", ("Offsets of the second normalization", "2 つ目の正規化のシフト（β）"), [One, Model] vector;
    Norm2: "norm_2", "N_2", ("Second layer normalization", "2 つ目の層正規化"), [Queries, Model];
    W1: "W_1", "W_1", ("Weights of the first linear layer", "1 つ目の線形層の重み行列"), [Model, Inner] matrix;
    B1: "b_1", "b_1", ("Bias of the first linear layer", "1 つ目の線形層のバイアス"), [One, Inner] vector;
    Inner: "inner", "U", ("Feed-forward network, first linear layer", "フィードフォワードネットワーク、1 つ目の線形層"), [Queries, Inner];
    Activated: "activated", "U′", ("Activation", "活性化"), [Queries, Inner];
    WGate: "W_gate", "W_gate", ("Weights of the gate", "ゲートの重み行列"), [Model, Inner] matrix;
    BGate: "b_gate", "b_gate", ("Bias of the gate", "ゲートのバイアス"), [One, Inner] vector;
    Gate: "gate", "G", ("Gate", "ゲート"), [Queries, Inner];
    Gated: "gated", "U_gated", ("Activation times gate", "活性化とゲートの積"), [Queries, Inner];
    W2: "W_2", "W_2", ("Weights of the second linear layer", "2 つ目の線形層の重み行列"), [Inner, Model] matrix;
    B2: "b_2", "b_2", ("Bias of the second linear layer", "2 つ目の線形層のバイアス"), [One, Model] vector;
    FeedForward: "feed_forward", "F", ("Feed-forward network, second linear layer", "フィードフォワードネットワーク、2 つ目の線形層"),
        [Queries, Model];
    Residual2: "residual_2", "R_2", ("Second residual connection", "2 つ目の残差接続"), [Queries, Model];
    FinalNorm2: "final_norm_2", "Y_2", ("Second layer normalization", "2 つ目の層正規化"), [Queries, Model];
    LastGamma: "gamma_last", "γ_L", ("γ of the normalization after the last layer", "最後の層の後の正規化の γ"),
        [One, Model] vector;
    LastBeta: "norm_beta_last", "β_L", ("β of the normalization after the last layer", "最後の層の後の正規化の β"),
        [One, Model] vector;
    LastNorm: "last_norm", "Y_L", ("Normalization after the last layer", "最後の層の後の正規化"), [Queries, Model];
    Hidden: "hidden", "L", ("Vectors after the last layer", "最後の層を出たベクトル"), [Queries, Model];
    Pooled: "pooled", "p", ("Pooling", "プーリング"), [One, Pooled];
    DenseW: "W_dense", "W_D", ("Weights of the dense layer", "全結合層の重み行列"), [Pooled, Vector] matrix;
    DenseB: "b_dense", "b_D", ("Bias of the dense layer", "全結合層のバイアス"), [One, Vector] vector;
    Dense: "dense", "D", ("Dense layer", "全結合層"), [One, Vector];
    DenseTanh: "dense_tanh", "D′", ("Activation of the dense layer", "全結合層の活性化"), [One, Vector];
    DenseActivated: "dense_activated", "D_f", ("Activation of the dense layer", "全結合層の活性化"), [One, Vector];
    DenseGamma: "gamma_dense", "γ_D", ("γ of the dense layer’s normalization", "全結合層の正規化の γ"), [One, Vector] vector;
    DenseBeta: "norm_beta_dense", "β_D", ("β of the dense layer’s normalization", "全結合層の正規化の β"), [One, Vector] vector;
    DenseNorm: "dense_norm", "D_n", ("Normalization of the dense layer", "全結合層の正規化"), [One, Vector];
    Vector: "vector", "v", ("Vector of the text", "テキストのベクトル"), [One, Vector];
    ClassW: "W_class", "W_C", ("Weights of the classes", "クラスの重み行列"), [Vector, Classes] matrix;
    ClassB: "b_class", "b_C", ("Bias of the classes", "クラスのバイアス"), [One, Classes] vector;
    Logits: "logits", "Z", ("Logits", "ロジット"), [Answers, Classes];
    ClassMax: "class_max", "m_C", ("Largest logit", "ロジットの最大値"), [Answers, One];
    ClassExponentials: "class_exponentials", "E_C", ("Exponentials of the logits", "ロジットの指数関数値"), [Answers, Classes];
    ClassSums: "class_sums", "z_C", ("Sum of the exponentials of the logits", "ロジットの指数関数値の和"), [Answers, One];
    Probabilities: "probabilities", "P_C", ("Probabilities of the classes", "クラスの確率"), [Answers, Classes];
    Target: "target", "T", ("Target", "正解"), [Answers, Classes];
    LogProbabilities: "log_probabilities", "L_C", ("Logarithms of the probabilities", "確率の対数"), [Answers, Classes];
    Loss: "loss", "ℒ", ("Cross-entropy loss", "交差エントロピー損失"), [One, One];
}

impl Quantity {
    fn facts(self) -> &'static QuantityFacts {
        &QUANTITIES[self as usize]
    }

    /// Returns all quantities in the order of a trace.
    pub(crate) fn all() -> impl Iterator<Item = Quantity> {
        QUANTITIES.iter().map(|facts| facts.quantity)
    }

    /// Returns the name in files.
    pub(crate) fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns whether training changes the quantity.
    pub(crate) fn is_parameter(self) -> bool {
        self.facts().parameter.is_some()
    }

    /// Returns whether the quantity is a two-dimensional parameter, to which weight decay applies.
    pub(crate) fn is_matrix(self) -> bool {
        self.facts().parameter == Some(true)
    }

    /// Returns whether the quantity is shown again after a training step.
    pub(crate) fn is_shown_after(self) -> bool {
        self.is_parameter() || matches!(self, Quantity::Logits | Quantity::Probabilities | Quantity::Loss)
    }

    /// Returns the quantity with a name.
    pub(crate) fn from_name(name: &str) -> Option<Quantity> {
        Quantity::all().find(|quantity| quantity.name() == name)
    }

    /// Returns the symbol in formulas.
    pub(crate) fn symbol(self) -> &'static str {
        self.facts().symbol
    }

    /// Returns the axes.
    pub(crate) fn axes(self) -> [MatrixAxis; 2] {
        self.facts().axes
    }

    /// Returns the title.
    pub(crate) fn title(self, lang: Lang) -> &'static str {
        let (en, ja) = self.facts().title;
        lang.pick(en, ja)
    }
}
