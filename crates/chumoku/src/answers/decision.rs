//! How far a text is answered, and why not further.

/// How far a text is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerDecision {
    /// As it is.
    Full,
    /// Down to this level of the tree, from 1.
    UpToLevel(usize),
    /// Not at all.
    Abstain(AbstentionReason),
}

impl AnswerDecision {
    /// Why it is not, if it is not.
    #[must_use]
    pub fn abstention_reason(self) -> Option<AbstentionReason> {
        match self {
            AnswerDecision::Abstain(objection) => Some(objection),
            AnswerDecision::Full | AnswerDecision::UpToLevel(_) => None,
        }
    }
}

/// Why a text is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbstentionReason {
    /// The probability is too low.
    LowConfidence,
    /// The text is unlike those of training.
    UnlikeTraining,
}

impl AbstentionReason {
    /// What JSON and columns call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AbstentionReason::LowConfidence => "unsure",
            AbstentionReason::UnlikeTraining => "unlike_training",
        }
    }
}
