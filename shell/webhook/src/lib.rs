//! The admission webhook: every replica of the controllers serves it, the leader keeps its certificates.
//!
//! What is answered is decided by `admission`; this crate owns the socket, the certificates in their Secret, and what the
//! webhook configurations trust.

mod certificate;
mod keep;
mod metrics;
mod serve;
mod shown;

pub use keep::keep;
pub use metrics::Metrics;
pub use serve::serve;
pub use shown::Shown;

/// The name of the Secret that holds the certificates, and of the Service that they are for.
pub const NAME: &str = "lifesign-webhook";
/// The name of both webhook configurations.
pub const CONFIGURATION: &str = "lifesign";
/// The path at which reviews are answered.
pub const PATH: &str = "/admit";

/// Returns the path of the Secret in the API.
fn secret_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets/{NAME}")
}
