//! A store that forgets: for tests and temporary planes.

use std::sync::Arc;

use registry::state::{Change, RegistryState, WindowLimits};

use super::{Room, Store, StoreError};

/// Keeps nothing.
#[derive(Debug, Default)]
pub struct MemoryStore;

impl Store for MemoryStore {
    fn load(&mut self, limits: WindowLimits) -> Result<RegistryState, StoreError> {
        Ok(RegistryState::restore(0, [], 0, Vec::new(), limits))
    }

    fn commit(&mut self, _changes: &[Arc<Change>], _floor: u64, _room: Room) -> Result<(), StoreError> {
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }
}
