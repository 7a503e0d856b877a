//! Equality and order of CEL values. Values of different types are unequal; numbers compare across their types.

use std::cmp::Ordering;

use super::value::Val;
use crate::schema::{ListType, Schema};

impl Val<'_> {
    /// Returns whether two values are equal.
    pub(super) fn equals(&self, other: &Val<'_>) -> bool {
        match (self, other) {
            (Val::Null, Val::Null) => true,
            (Val::Bool(a), Val::Bool(b)) => a == b,
            (Val::Str(a), Val::Str(b)) => a == b,
            (Val::Bytes(a), Val::Bytes(b)) => a == b,
            (Val::Type(a), Val::Type(b)) => a == b,
            (Val::Special(a), Val::Special(b)) => a == b,
            (Val::Optional(a), Val::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => a.equals(b),
                (a, b) => a.is_none() && b.is_none(),
            },
            (Val::Items(..) | Val::List(_), Val::Items(..) | Val::List(_)) => {
                let (a, b) = (self.items().unwrap_or_default(), other.items().unwrap_or_default());
                a.len() == b.len()
                    && if is_unordered(self) || is_unordered(other) {
                        a.iter().all(|item| b.iter().any(|other| item.equals(other)))
                    } else {
                        a.iter().zip(&b).all(|(a, b)| a.equals(b))
                    }
            }
            (Val::Members(..) | Val::Map(_), Val::Members(..) | Val::Map(_)) => {
                let keys = self.keys().unwrap_or_default();
                keys.len() == other.keys().map_or(0, |keys| keys.len())
                    && keys.iter().all(|key| match (self.entry(key), other.entry(key)) {
                        (Some(a), Some(b)) => a.equals(&b),
                        _ => false,
                    })
            }
            _ => self.order(other) == Some(Ordering::Equal),
        }
    }

    /// Returns the order of two values; `None` if they have none.
    pub(super) fn order(&self, other: &Val<'_>) -> Option<Ordering> {
        match (self, other) {
            (Val::Bool(a), Val::Bool(b)) => Some(a.cmp(b)),
            (Val::Str(a), Val::Str(b)) => Some(a.cmp(b)),
            (Val::Bytes(a), Val::Bytes(b)) => Some(a.cmp(b)),
            (Val::Timestamp(a), Val::Timestamp(b)) | (Val::Duration(a), Val::Duration(b)) => Some(a.cmp(b)),
            (Val::Double(a), b) => a.partial_cmp(&b.as_double()?),
            (a, Val::Double(b)) => a.as_double()?.partial_cmp(b),
            (a, b) => Some(a.as_whole()?.cmp(&b.as_whole()?)),
        }
    }

    fn as_whole(&self) -> Option<i128> {
        match self {
            Val::Int(int) => Some(i128::from(*int)),
            Val::Uint(uint) => Some(i128::from(*uint)),
            _ => None,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "as CEL compares whole numbers with doubles")]
    pub(super) fn as_double(&self) -> Option<f64> {
        match self {
            Val::Int(int) => Some(*int as f64),
            Val::Uint(uint) => Some(*uint as f64),
            Val::Double(double) => Some(*double),
            _ => None,
        }
    }
}

/// Returns whether the order of a list's items means nothing: it is a set or a map by its schema.
pub(super) fn is_unordered(list: &Val<'_>) -> bool {
    matches!(list, Val::Items(_, Some(Schema { list_type: ListType::Set | ListType::Map(_), .. })))
}
