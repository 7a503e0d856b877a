//! The machine of a pod in a small world: processes that start and end as told, an API that stores what is written.

mod laws;
mod lifecycle;
mod probing;
mod restoring;
mod stopping;
mod world;
mod writing;
