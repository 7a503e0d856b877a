//! How objects and changes are written: a revision and the JSON; a change with what was there before it.

use std::sync::Arc;

use machine::Time;
use registry::state::{Change, ChangeType, Stored, Templates};

use super::LogRow;

/// Revision, then the JSON.
pub(super) fn encode_stored(stored: &Stored) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + stored.size());
    bytes.extend_from_slice(&stored.revision.to_le_bytes());
    stored.write(|piece| bytes.extend_from_slice(piece));
    bytes
}

pub(super) fn decode_stored(bytes: &[u8], templates: &mut Templates) -> Option<Arc<Stored>> {
    let (revision, json) = bytes.split_first_chunk::<8>()?;
    Some(Arc::new(Stored::from_bytes(u64::from_le_bytes(*revision), json, templates)?))
}

/// Type, time, key, then the object before (if any) and the last state (if it was a deletion), each with its length.
pub(super) fn encode_row(change: &Change) -> Vec<u8> {
    let mut bytes = vec![match change.type_ {
        ChangeType::Added => b'A',
        ChangeType::Modified => b'M',
        ChangeType::Deleted => b'D',
    }];
    bytes.extend_from_slice(&change.at.as_micros().to_le_bytes());
    let mut part = |content: &[u8]| {
        bytes.extend_from_slice(&u32::try_from(content.len()).expect("objects are bounded to megabytes").to_le_bytes());
        bytes.extend_from_slice(content);
    };
    part(change.key.as_bytes());
    part(&change.previous.as_ref().map(|previous| encode_stored(previous)).unwrap_or_default());
    part(&if change.type_ == ChangeType::Deleted { encode_stored(&change.object) } else { Vec::new() });
    bytes
}

pub(super) fn decode_row(revision: u64, bytes: &[u8], templates: &mut Templates) -> Option<LogRow> {
    let (tag, rest) = bytes.split_first()?;
    let type_ = match tag {
        b'A' => ChangeType::Added,
        b'M' => ChangeType::Modified,
        b'D' => ChangeType::Deleted,
        _ => return None,
    };
    let (at, mut rest) = rest.split_first_chunk::<8>()?;
    let mut part = || {
        let (length, tail) = rest.split_first_chunk::<4>()?;
        let (content, tail) = tail.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        rest = tail;
        Some(content)
    };
    let (key, previous, last) = (part()?, part()?, part()?);
    let mut optional =
        |content: &[u8]| if content.is_empty() { Some(None) } else { decode_stored(content, templates).map(Some) };
    Some(LogRow {
        revision,
        at: Time::from_micros(i64::from_le_bytes(*at)),
        key: std::str::from_utf8(key).ok()?.into(),
        type_,
        previous: optional(previous)?,
        last: optional(last)?,
    })
}
