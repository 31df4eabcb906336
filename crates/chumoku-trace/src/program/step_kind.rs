//! Kinds of steps: a quantity itself, its gradient, or another matrix derived from it.

use chumoku::lang::Lang;

/// The meaning of a step's matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StepKind {
    /// The quantity itself.
    Value,
    /// The gradient of the loss with respect to it, of the same shape.
    Gradient,
    /// A term of that gradient: the part that comes through one of the steps that read the quantity.
    GradientPart,
    /// A normalized quantity before γ and β.
    BeforeAffine,
    /// The derivative of an activation at each of its inputs.
    Derivative,
    /// The gradient at the input of a gate: the sum before σ or tanh.
    GateInputGradient,
    /// The derivatives of one row of a softmax with respect to each of its inputs.
    Jacobian,
    /// The first moment of a parameter's gradients before a step of AdamW.
    FirstMomentBefore,
    /// The second moment before the step.
    SecondMomentBefore,
    /// The first moment after the step.
    FirstMoment,
    /// The second moment after the step.
    SecondMoment,
    /// The bias-corrected first moment.
    CorrectedFirst,
    /// The bias-corrected second moment.
    CorrectedSecond,
    /// The update of a parameter without weight decay.
    Update,
    /// The quantity after the step.
    AfterStep,
}

use StepKind::*;

/// The properties of a kind.
struct KindFacts {
    kind: StepKind,
    /// Name in files.
    name: &'static str,
    /// Prefix of a quantity's name in a claim; `None` if the kind cannot be claimed.
    claim_prefix: Option<&'static str>,
    /// Symbol, where `@` stands for that of the quantity and `#` for the qualifier.
    symbol: &'static str,
    /// Prefix of a quantity's title in English and Japanese.
    title: (&'static str, &'static str),
}

/// Defines the properties of the kinds in the order of a trace.
macro_rules! step_kinds {
    ($($kind:ident: $name:literal, $claim:expr, $symbol:literal, $title:expr;)*) => {
        const STEP_KINDS: &[KindFacts] = &[$(
            KindFacts { kind: StepKind::$kind, name: $name, claim_prefix: $claim, symbol: $symbol, title: $title }
        ),*];
    };
}

step_kinds! {
    Value: "value", Some(""), "@", ("", "");
    Gradient: "gradient", Some("d"), "d@", ("Gradient: ", "勾配：");
    GradientPart: "gradient_part", None, "d@|#", ("Part of the gradient: ", "勾配の一部：");
    BeforeAffine: "before_gamma_and_beta", None, "@", ("Before γ and β: ", "γ と β の前：");
    Derivative: "derivative", None, "f′(#)", ("Derivative: ", "導関数：");
    GateInputGradient: "gradient_inside", Some("ds_"), "ds(@)", ("Gradient inside the gate: ", "ゲートの中の勾配：");
    Jacobian: "jacobian", None, "J_#(@)", ("Jacobian of one row of softmax: ", "softmax の 1 行のヤコビ行列：");
    FirstMomentBefore: "first_moment_before", None, "m₀(@)", ("AdamW, first moment before: ", "AdamW、更新前の 1 次モーメント：");
    SecondMomentBefore: "second_moment_before", None, "v₀(@)", ("AdamW, second moment before: ", "AdamW、更新前の 2 次モーメント：");
    FirstMoment: "first_moment", Some("m_"), "m(@)", ("AdamW, first moment: ", "AdamW、1 次モーメント：");
    SecondMoment: "second_moment", Some("v_"), "v(@)", ("AdamW, second moment: ", "AdamW、2 次モーメント：");
    CorrectedFirst: "corrected_first_moment", Some("m_hat_"), "m\u{302}(@)", ("AdamW, bias-corrected first moment: ", "AdamW、バイアス補正した 1 次モーメント：");
    CorrectedSecond: "corrected_second_moment", Some("v_hat_"), "v\u{302}(@)", ("AdamW, bias-corrected second moment: ", "AdamW、バイアス補正した 2 次モーメント：");
    Update: "update", Some("update_"), "Δ(@)", ("AdamW, update: ", "AdamW、更新量：");
    AfterStep: "after", Some("new_"), "@⁺", ("After the step: ", "更新後：");
}

// The index of a kind in the table is its discriminant.
const _: () = {
    let mut i = 0;
    while i < STEP_KINDS.len() {
        assert!(STEP_KINDS[i].kind as usize == i);
        i += 1;
    }
};

impl StepKind {
    fn facts(self) -> &'static KindFacts {
        &STEP_KINDS[self as usize]
    }

    /// Returns all kinds in the order of a trace.
    pub(crate) fn all() -> impl Iterator<Item = StepKind> {
        STEP_KINDS.iter().map(|facts| facts.kind)
    }

    /// Returns the name in files.
    pub(crate) fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the prefix of a quantity's name in a claim about this kind; `None` if the kind cannot be claimed.
    pub(crate) fn claim_prefix(self) -> Option<&'static str> {
        self.facts().claim_prefix
    }

    /// Returns whether the kind belongs to a step of AdamW.
    pub(crate) fn is_of_optimizer(self) -> bool {
        matches!(self, FirstMoment | SecondMoment | CorrectedFirst | CorrectedSecond | Update | AfterStep)
    }

    /// Returns the symbol of this kind for the symbol of a quantity; `qualifier` is added to it.
    pub(crate) fn symbol(self, letter: &str, qualifier: &str) -> String {
        if self == StepKind::BeforeAffine {
            let first = letter.chars().next().map_or(0, char::len_utf8);
            return format!("{}\u{302}{}", &letter[..first], &letter[first..]);
        }
        let sign = |c: char| match c {
            '@' => letter.to_owned(),
            '#' => qualifier.to_owned(),
            c => c.to_string(),
        };
        self.facts().symbol.chars().map(sign).collect()
    }

    /// Returns the prefix of a quantity's title.
    pub(crate) fn title_prefix(self, lang: Lang) -> &'static str {
        let (en, ja) = self.facts().title;
        lang.pick(en, ja)
    }
}
