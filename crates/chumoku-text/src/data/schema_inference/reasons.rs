//! The reasons for choosing a column, as text.

use crate::lang::lang;

/// Describes a label column, for messages.
pub(crate) fn label_description() -> &'static str {
    lang().pick("a column of few, repeated values", "少数の値が繰り返される列")
}

/// The reason for a column that the training file had.
pub(crate) fn as_in_training() -> &'static str {
    lang().pick("as in training", "学習時と同じ")
}

/// The reason for a column that the caller named.
pub(crate) fn as_requested() -> &'static str {
    lang().pick("as requested", "指定どおり")
}

/// The reason for a column that is `given` by the caller, or else by the training file.
pub(crate) fn why_requested(given: &Option<String>) -> &'static str {
    if given.is_some() { as_requested() } else { as_in_training() }
}

/// The reason for a column chosen by its name.
pub(crate) fn its_name() -> &'static str {
    lang().pick("its name", "列名から")
}

/// The reason for the only remaining column.
pub(crate) fn the_only_other() -> &'static str {
    lang().pick("the only other", "残る唯一の列")
}

/// The reason for a label column chosen by its content.
pub(crate) fn few_values() -> &'static str {
    lang().pick("few distinct values", "値の種類が少ない列")
}
