//! Labels, owner and name of managed slices.
//!
//! The whole wanted label map is compared with the stored one. Kubernetes leaves the reserved labels out of the comparison, so
//! a Service that became headless, or stopped being so, keeps the wrong label, and a stale one hides the slice from kube-proxy.

use std::collections::BTreeMap;

use api::endpointslice::{CONTROLLER_NAME, HEADLESS_LABEL, MANAGED_BY_LABEL, SERVICE_NAME_LABEL};
use api::{ObjectMeta, OwnerReference, Service, names};

use crate::service::headless;

/// Returns the labels that every slice of a Service must have: those of the Service and the reserved ones.
pub fn wanted_labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone();
    labels.remove(HEADLESS_LABEL);
    labels.insert(SERVICE_NAME_LABEL.to_owned(), service.metadata.name.clone());
    labels.insert(MANAGED_BY_LABEL.to_owned(), CONTROLLER_NAME.to_owned());
    if headless(service) {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    }
    labels
}

/// Returns whether a slice belongs to this very Service.
pub fn owned_by(slice: &ObjectMeta, service_uid: &str) -> bool {
    let ours = |owner: &OwnerReference| owner.uid == service_uid && owner.kind == "Service" && owner.api_version == "v1";
    slice.owner_references.iter().any(ours)
}

/// Returns the reference from a slice to its Service.
pub fn owner_reference(name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Service".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Returns what the names of a Service's slices begin with: `<service>-`, or the bare name if that is too long.
pub fn generate_name(service: &str) -> String {
    let with_dash = format!("{service}-");
    // A prefix may end in a dash because more follows; any letter stands for it.
    if names::dns1123_subdomain(&format!("{with_dash}a")).is_none() { with_dash } else { service.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bare_name_is_used_when_no_dash_fits() {
        assert_eq!(generate_name("web"), "web-");
        let long = "a".repeat(253);
        assert_eq!(generate_name(&long), long);
    }

    #[test]
    fn a_slice_is_owned_by_uid_not_by_name() {
        let meta = ObjectMeta { owner_references: vec![owner_reference("web", "u1")], ..ObjectMeta::default() };
        assert!(owned_by(&meta, "u1") && !owned_by(&meta, "u2"));
    }
}
