//! How far a text is answered, and why not further.

/// How far a text is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it is.
    Whole,
    /// Down to this level of the tree, from 1.
    Down(usize),
    /// Not at all.
    Not(Objection),
}

impl Verdict {
    /// Why it is not, if it is not.
    #[must_use]
    pub fn objection(self) -> Option<Objection> {
        match self {
            Verdict::Not(objection) => Some(objection),
            Verdict::Whole | Verdict::Down(_) => None,
        }
    }
}

/// Why a text is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objection {
    /// The probability is too low.
    Unsure,
    /// The text is unlike those of training.
    Unlike,
}

impl Objection {
    /// What JSON and columns call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Objection::Unsure => "unsure",
            Objection::Unlike => "unlike_training",
        }
    }
}
