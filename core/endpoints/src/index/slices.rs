//! The slices of one Service as the controller compares with them.

use std::borrow::Cow;
use std::sync::Arc;

use api::endpointslice::Endpoint;
use api::{EndpointSlice, ObjectMeta};

use crate::content::{Content, Kinds, kind};
use crate::index::names::Names;
use crate::ports::Ports;

/// The slices of a Service, and how many of their endpoints are in which state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slices {
    by_name: Names<StoredSlice>,
    published: Kinds,
}

impl Slices {
    pub(crate) fn get(&self, name: &str) -> Option<&StoredSlice> {
        self.by_name.get(name)
    }

    /// Returns the slices, ascending name.
    pub(crate) fn sorted(&self) -> Vec<&StoredSlice> {
        let mut slices: Vec<_> = self.by_name.iter().collect();
        slices.sort_unstable_by_key(|(name, _)| *name);
        slices.into_iter().map(|(_, slice)| slice).collect()
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut StoredSlice> {
        self.by_name.get_mut(name)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns how many endpoints are in which state.
    pub(crate) fn published(&self) -> Kinds {
        self.published
    }

    pub(crate) fn insert(&mut self, name: Arc<str>, slice: StoredSlice) {
        slice.kinds.iter().zip(&mut self.published).for_each(|(count, total)| *total += count);
        if let Some(replaced) = self.by_name.insert(name, slice) {
            self.unpublish(&replaced.kinds);
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<StoredSlice> {
        let (_, removed) = self.by_name.remove(name)?;
        self.unpublish(&removed.kinds);
        Some(removed)
    }

    fn unpublish(&mut self, kinds: &Kinds) {
        kinds.iter().zip(&mut self.published).for_each(|(count, total)| *total -= count);
    }
}

/// A slice as the controller compares with it.
#[derive(Clone, Debug)]
pub(crate) struct StoredSlice {
    pub(crate) meta: ObjectMeta,
    pub(crate) address_type: String,
    pub(crate) ports: Arc<Ports>,
    pub(crate) body: Body,
    /// How many of its endpoints are in which state; does not change while the slice is listed.
    kinds: Kinds,
}

/// The endpoints of a stored slice.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// As somebody wrote them.
    Observed(Vec<Endpoint>),
    /// As this instance sent them.
    Sent(Content),
    /// As somebody wrote them, and what we would send; the two differ only where no write is due for it.
    Both(Vec<Endpoint>, Content),
}

impl Body {
    /// Returns the endpoints that the controller compares with.
    pub(crate) fn endpoints(&self) -> Cow<'_, [Endpoint]> {
        match self {
            Body::Observed(endpoints) | Body::Both(endpoints, _) => endpoints.as_slice().into(),
            Body::Sent(content) => content.endpoints().into(),
        }
    }

    /// Returns the text that we would send for the slice as it is; there is one when the Service is settled.
    pub(crate) fn content(&self) -> &Content {
        match self {
            Body::Sent(content) | Body::Both(_, content) => content,
            Body::Observed(_) => panic!("a settled Service knows the text of its slices"),
        }
    }
}

impl StoredSlice {
    /// Returns a slice as this instance sent it.
    pub(crate) fn sent(meta: ObjectMeta, address_type: &str, ports: Arc<Ports>, content: Content) -> StoredSlice {
        let kinds = content.kinds();
        StoredSlice { meta, address_type: address_type.to_owned(), ports, body: Body::Sent(content), kinds }
    }

    /// Returns a slice as somebody wrote it.
    pub(crate) fn observed(slice: EndpointSlice) -> StoredSlice {
        let mut kinds = Kinds::default();
        slice.endpoints.iter().for_each(|endpoint| kinds[kind(&endpoint.conditions)] += 1);
        StoredSlice {
            meta: slice.metadata,
            address_type: slice.address_type,
            ports: Arc::new(Ports::new(slice.ports)),
            body: Body::Observed(slice.endpoints),
            kinds,
        }
    }
}
