//! Admission on a cluster: what the webhook answers to an AdmissionReview.
//!
//! A pod asks by annotation that a readiness probe is run by the Lifesign agent of its node instead of the kubelet: the
//! probe *moves* out of the container into another annotation, and a readiness gate stands for it. Custom kinds of ours are
//! judged by the rules of `api`. Nothing here calls out, keeps state or depends on time; every function is total over
//! whatever JSON arrives.

mod annotation;
pub mod certificates;
mod moved;
mod pods;
mod review;

pub use moved::{Moved, read_moved};
pub use pods::{Mutation, mutate};
pub use review::{Judged, ReviewOutcome, Reviewed, review};

/// The annotation by which a pod asks (container -> `readinessProbe` -> millisecond fields), the one that holds what was moved
/// (container -> whole probe, defaults applied), and the condition that stands for it.
pub use api::moved::{ANNOTATION_MOVED_PROBES as MOVED_PROBES, ANNOTATION_PROBES as PROBES, CONDITION as READY};
