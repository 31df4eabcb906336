//! The decision to answer a text, and the abstention reason.

/// How far a text is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerDecision {
    /// The full answer is given.
    Full,
    /// The answer is given down to this level of the class tree, from 1.
    UpToLevel(usize),
    /// No answer is given.
    Abstain(AbstentionReason),
}

impl AnswerDecision {
    /// Returns the abstention reason, if no answer is given.
    #[must_use]
    pub(crate) fn abstention_reason(self) -> Option<AbstentionReason> {
        match self {
            AnswerDecision::Abstain(objection) => Some(objection),
            AnswerDecision::Full | AnswerDecision::UpToLevel(_) => None,
        }
    }
}

/// The reason why a text gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbstentionReason {
    /// The confidence is too low.
    LowConfidence,
    /// The text is unlike the training data.
    UnlikeTraining,
}

impl AbstentionReason {
    /// The name in JSON and columns.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            AbstentionReason::LowConfidence => "unsure",
            AbstentionReason::UnlikeTraining => "unlike_training",
        }
    }
}
