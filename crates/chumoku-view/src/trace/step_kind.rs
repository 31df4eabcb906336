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

/// The kinds in the order of a trace: name in files, and prefix of a quantity's title.
const STEP_KINDS: [(StepKind, &str, (&str, &str)); 15] = [
    (Value, "value", ("", "")),
    (Gradient, "gradient", ("Gradient: ", "勾配：")),
    (GradientPart, "gradient_part", ("Part of the gradient: ", "勾配の一部：")),
    (BeforeAffine, "before_gamma_and_beta", ("Before γ and β: ", "γ と β の前：")),
    (Derivative, "derivative", ("Derivative: ", "導関数：")),
    (GateInputGradient, "gradient_inside", ("Gradient inside the gate: ", "ゲートの中の勾配：")),
    (Jacobian, "jacobian", ("Jacobian of one row of softmax: ", "ソフトマックスの 1 行のヤコビ行列：")),
    (FirstMomentBefore, "first_moment_before", ("AdamW, first moment before: ", "AdamW、更新前の 1 次モーメント：")),
    (SecondMomentBefore, "second_moment_before", ("AdamW, second moment before: ", "AdamW、更新前の 2 次モーメント：")),
    (FirstMoment, "first_moment", ("AdamW, first moment: ", "AdamW、1 次モーメント：")),
    (SecondMoment, "second_moment", ("AdamW, second moment: ", "AdamW、2 次モーメント：")),
    (
        CorrectedFirst,
        "corrected_first_moment",
        ("AdamW, bias-corrected first moment: ", "AdamW、バイアス補正した 1 次モーメント："),
    ),
    (
        CorrectedSecond,
        "corrected_second_moment",
        ("AdamW, bias-corrected second moment: ", "AdamW、バイアス補正した 2 次モーメント："),
    ),
    (Update, "update", ("AdamW, update: ", "AdamW、更新量：")),
    (AfterStep, "after", ("After the step: ", "更新後：")),
];

// The index of a kind in the table is its discriminant.
const _: () = {
    let mut i = 0;
    while i < STEP_KINDS.len() {
        assert!(STEP_KINDS[i].0 as usize == i);
        i += 1;
    }
};

impl StepKind {
    /// Returns all kinds in the order of a trace.
    pub(super) fn all() -> impl Iterator<Item = StepKind> {
        STEP_KINDS.iter().map(|facts| facts.0)
    }

    /// Returns the name in files.
    pub(super) fn name(self) -> &'static str {
        STEP_KINDS[self as usize].1
    }

    /// Returns the prefix of a quantity's name in a claim about this kind; `None` if the kind cannot be claimed.
    pub(super) fn claim_prefix(self) -> Option<&'static str> {
        Some(match self {
            Value => "",
            Gradient => "d",
            GateInputGradient => "ds_",
            FirstMoment => "m_",
            SecondMoment => "v_",
            CorrectedFirst => "m_hat_",
            CorrectedSecond => "v_hat_",
            Update => "update_",
            AfterStep => "new_",
            _ => return None,
        })
    }

    /// Returns whether the kind belongs to a step of AdamW.
    pub(super) fn is_of_optimizer(self) -> bool {
        matches!(self, FirstMoment | SecondMoment | CorrectedFirst | CorrectedSecond | Update | AfterStep)
    }

    /// Returns the symbol of this kind for the symbol of a quantity; `qualifier` is added to it.
    pub(super) fn symbol(self, letter: &str, qualifier: &str) -> String {
        match self {
            Value => letter.to_owned(),
            Gradient => format!("d{letter}"),
            GradientPart => format!("d{letter}|{qualifier}"),
            BeforeAffine => {
                let first = letter.chars().next().map_or(0, char::len_utf8);
                format!("{}\u{302}{}", &letter[..first], &letter[first..])
            }
            Derivative => format!("f′({qualifier})"),
            GateInputGradient => format!("ds({letter})"),
            Jacobian => format!("J_{qualifier}({letter})"),
            FirstMomentBefore => format!("m₀({letter})"),
            SecondMomentBefore => format!("v₀({letter})"),
            FirstMoment => format!("m({letter})"),
            SecondMoment => format!("v({letter})"),
            CorrectedFirst => format!("m\u{302}({letter})"),
            CorrectedSecond => format!("v\u{302}({letter})"),
            Update => format!("Δ({letter})"),
            AfterStep => format!("{letter}⁺"),
        }
    }

    /// Returns the prefix of a quantity's title.
    pub(super) fn title_prefix(self, lang: Lang) -> &'static str {
        let (en, ja) = STEP_KINDS[self as usize].2;
        lang.pick(en, ja)
    }
}
