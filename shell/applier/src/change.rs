//! What is to be changed.

use std::path::PathBuf;

use profiles::steps::{Component, ComponentValues};

/// The drop-in of the kubelet; it must sort after all others.
pub const DROP_IN: &str = "90-lifesign-latency.conf";

/// A file that is to have this content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whose file.
    pub component: Component,
    /// Which file.
    pub path: PathBuf,
    /// The content; `None`: no file.
    pub content: Option<Vec<u8>>,
    /// What the component is to use then; `None`: whatever the content means.
    pub values: Option<ComponentValues>,
}
