//! The live page and the terminal view: what happens on a plane or cluster, to look at. Reading only.
//!
//! [`follow`] keeps a [`Shared`] board up to date from a Kubernetes API and from agents of ours; [`Page`] serves it to browsers
//! on this machine. What is shown is decided by [`view`].

mod agents;
mod page;
mod shared;
mod source;
pub mod top;

pub use page::{Page, PageConfig};
pub use shared::{Shared, Viewer};
pub use source::{Source, follow};

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

/// Asks an agent of ours: its address and the path of the request in, its answer out.
pub type AskAgent = Arc<dyn Fn(String, String) -> BoxFuture<'static, Result<Value, String>> + Send + Sync>;

/// Says more about an object: what `why` and `explain` say of it.
pub type AskDetail = Arc<dyn Fn(Subject) -> BoxFuture<'static, Value> + Send + Sync>;

/// What somebody wants to know more about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// `pod`, `svc` or `node`.
    pub kind: String,
    /// Where it is; empty: it is in no namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}
