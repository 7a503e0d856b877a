//! What this process was told to ignore is nothing that containers should ignore too.
//!
//! `nohup` and the `&` of a shell start a process with signals ignored, and whatever it starts inherits that: a program that was never told
//! otherwise could then not be interrupted, in a terminal or without one.

use std::sync::Once;

use tokio::signal::unix::{SignalKind, signal};

use crate::procfs;

/// The signals that end a program which says nothing about them.
const ENDING: [SignalKind; 7] = [
    SignalKind::hangup(),
    SignalKind::interrupt(),
    SignalKind::quit(),
    SignalKind::user_defined1(),
    SignalKind::user_defined2(),
    SignalKind::alarm(),
    SignalKind::terminate(),
];

/// Lets processes that are started from now on take these signals as usual.
///
/// A signal that is handled is back at its default in what is started, one that is ignored stays so. Hence what is ignored here becomes
/// handled, by doing nothing about it.
pub(crate) fn restore_for_children() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let ignored = procfs::ignored_signals();
        for kind in ENDING.into_iter().filter(|kind| ignored & (1 << (kind.as_raw_value() - 1)) != 0) {
            if let Err(error) = signal(kind) {
                tracing::warn!(signal = kind.as_raw_value(), %error, "containers will ignore a signal that this process ignores");
            }
        }
    });
}
