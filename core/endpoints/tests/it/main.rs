//! The controller against a model of the API: laws that hold for every history, and scenarios with failures and time.

mod histories;
mod scenarios;
mod world;
