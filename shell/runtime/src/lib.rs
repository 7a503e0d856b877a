//! What every shell needs: the clock, the loop that drives a machine, and a Kubernetes API to speak to.

mod client;
mod clock;
mod drive;
mod events;
mod fence;
pub mod files;
mod informer;
mod listen;
mod metrics;
mod object;
mod random;
mod refusals;
pub mod requests;
mod tasks;
mod tls;
mod writes;

pub use client::{Body, Client, ClientError, Config, ConfigError, Kubeconfig, Trust};
pub use clock::Clock;
pub use drive::{Answers, Shell, drive};
pub use events::EventWriter;
pub use fence::{Fence, NotLeading};
pub use informer::{Events, Informers, Scope, WatchEvent, watch};
pub use listen::listen;
pub use metrics::Metrics;
pub use object::Obj;
pub use random::random_seed;
pub use requests::{RequestError, request};
pub use tasks::{Ended, Tasks, Why, chain};
pub use tls::tls_without_verification;
pub use writes::{Answer, Writer};
