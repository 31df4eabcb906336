//! Requests for steps inside the network: the logit lens and patching.

use super::patching::Patching;
use crate::Result;
use crate::row::RowRef;

/// The steps inside the network that an explanation shows besides attention and effects. By default, this is the logit
/// lens alone.
#[derive(Clone, Copy, Debug)]
pub struct InnerSteps<'a> {
    /// False to leave out the logit lens.
    pub has_lens: bool,
    /// The other text of activation patching, whose values replace those of the explained text.
    pub patch: Option<RowRef<'a>>,
    /// Pairs of aligned token positions, from 0, of the text and of the other text. Texts with the same number of tokens
    /// need none.
    pub aligned: Option<&'a [[usize; 2]]>,
}

impl Default for InnerSteps<'_> {
    fn default() -> Self {
        InnerSteps { has_lens: true, patch: None, aligned: None }
    }
}

impl InnerSteps<'_> {
    /// Requests neither the logit lens nor patching.
    pub const NONE: InnerSteps<'static> = InnerSteps { has_lens: false, patch: None, aligned: None };

    /// Calls `patch` with the other text and the aligned tokens, if patching is requested. Explanations call this first,
    /// so that a wrong text or alignment is refused before anything is computed.
    pub(super) fn patch(
        &self,
        patch: impl FnOnce(RowRef<'_>, Option<&[[usize; 2]]>) -> Result<Patching>,
    ) -> Result<Option<Patching>> {
        self.patch.map(|other| patch(other, self.aligned)).transpose()
    }
}
