//! Serializes a [`Precision`] by name.

use crate::tr;
use chumoku_kernels::Precision;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

/// Writes the name of a precision.
pub fn serialize<S: Serializer>(precision: &Precision, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(precision.name())
}

/// Reads the name of a precision.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Precision, D::Error> {
    let name = String::deserialize(deserializer)?;
    Precision::from_name(&name).ok_or_else(|| {
        D::Error::custom(tr!(
            "precision: expected highest, high or medium, found {name:?}",
            "precision: highest、high、medium のいずれかが必要ですが、{name:?} です"
        ))
    })
}
