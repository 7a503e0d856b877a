//! What every shell needs: the clock, the loop that drives a machine, and a Kubernetes API to speak to.

mod clock;
mod drive;
mod events;
mod fence;
mod object;
mod tasks;
mod tls;
mod watching;
mod writes;

pub use clock::Clock;
pub use drive::drive;
pub use events::{EventWriter, request};
pub use fence::{Fence, NotLeading};
pub use object::{Obj, objects};
pub use tasks::{Ended, Tasks, Why, chain};
pub use tls::tls_to_anybody;
pub use watching::{Seen, watch};
pub use writes::perform;
