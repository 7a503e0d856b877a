//! A number or a text: ports, and quantities of a rollout.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number, or a text such as a port name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i64),
    /// A text.
    String(String),
}

impl Default for IntOrString {
    fn default() -> IntOrString {
        IntOrString::Int(0)
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntOrString::Int(number) => number.fmt(out),
            IntOrString::String(text) => text.fmt(out),
        }
    }
}
