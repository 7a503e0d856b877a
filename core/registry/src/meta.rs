//! Metadata that belongs to the server: identity, versions, times, deletion.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use api::Timestamp;
use api::field::{Error, Path};
use api::json;
use api::ordered::Ordered;
use machine::{Rng, Time};

use api::status::{Status, Subject};

/// The letters of generated names: no vowels, no look-alikes, so that no word appears.
const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// What is left of `generateName` so that the suffix fits a DNS label.
const GENERATE_NAME_MAX: usize = 58;

/// Returns a version 4 UUID.
pub fn uuid(rng: &mut Rng) -> String {
    let (high, low) = (rng.next_u64(), rng.next_u64());
    let high = (high & 0xFFFF_FFFF_FFFF_0FFF) | 0x4000;
    let low = (low & 0x3FFF_FFFF_FFFF_FFFF) | 0x8000_0000_0000_0000;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xFFFF,
        high & 0xFFFF,
        low >> 48,
        low & 0xFFFF_FFFF_FFFF
    )
}

/// Returns `base`, cut, with five random letters.
pub fn generate_name(base: &str, rng: &mut Rng) -> String {
    let mut name: String = base
        .chars()
        .scan(0, |bytes, c| {
            *bytes += c.len_utf8();
            (*bytes <= GENERATE_NAME_MAX).then_some(c)
        })
        .collect();
    for _ in 0..5 {
        name.push(char::from(SUFFIX_LETTERS[rng.below(SUFFIX_LETTERS.len() as u64) as usize]));
    }
    name
}

fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    json::object_mut(object, &["metadata"])
}

/// Makes the metadata of a new object: the server's fields are set, whatever the client sent.
pub fn prepare_create(object: &mut Value, namespace: &str, now: Time, generation: bool, rng: &mut Rng) {
    let base = json::text(object, &["metadata", "generateName"]).to_owned();
    let named = !json::text(object, &["metadata", "name"]).is_empty();
    let metadata = metadata(object);
    for field in
        ["resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields"]
    {
        metadata.remove(field);
    }
    if !named && !base.is_empty() {
        metadata.insert("name".into(), generate_name(&base, rng).into());
    }
    if namespace.is_empty() {
        metadata.remove("namespace");
    } else {
        metadata.insert("namespace".into(), namespace.into());
    }
    metadata.insert("uid".into(), uuid(rng).into());
    metadata.insert("creationTimestamp".into(), Timestamp(now).to_string().into());
    if generation {
        metadata.insert("generation".into(), 1.into());
    }
}

/// Whether an update came as a whole object or as a patch; they differ in how a wrong uid is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateForm {
    /// PUT.
    Replace,
    /// PATCH.
    Patch,
}

/// Carries the server's metadata over to the next state of an object and checks what the client claims of it.
pub fn prepare_update(new: &mut Value, old: &Value, subject: &Subject, form: UpdateForm) -> Result<(), Status> {
    let (claimed, actual) = (json::text(new, &["metadata", "uid"]).to_owned(), json::text(old, &["metadata", "uid"]));
    if !claimed.is_empty() && claimed != actual {
        let path = Path::root().child("metadata").child("uid");
        return Err(match form {
            UpdateForm::Replace => Status::conflict(
                subject,
                format!("Precondition failed: UID in precondition: {claimed}, UID in object meta: {actual}"),
            ),
            UpdateForm::Patch => Status::invalid(subject, &[Error::invalid(&path, claimed, "field is immutable")]),
        });
    }
    let stored = json::object(old, &["metadata"]).cloned().unwrap_or_default();
    let metadata = metadata(new);
    metadata.remove("selfLink");
    metadata.remove("managedFields");
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
    ] {
        match stored.get(field) {
            Some(value) => metadata.insert(field.into(), value.clone()),
            None => metadata.remove(field),
        };
    }
    Ok(())
}

/// Refuses finalizers that were added to an object that is being deleted.
pub fn validate_finalizers(new: &Value, old: &Value) -> Vec<Error> {
    if json::at(old, &["metadata", "deletionTimestamp"]).is_none() {
        return Vec::new();
    }
    let path = ["metadata", "finalizers"];
    let before: BTreeSet<Ordered<'_>> = json::items(old, &path).iter().map(Ordered).collect();
    let is_new = |finalizer: &&Value| !before.contains(&Ordered(finalizer));
    let added: Vec<String> = json::items(new, &path).iter().filter(is_new).map(ToString::to_string).collect();
    if added.is_empty() {
        return Vec::new();
    }
    let detail =
        format!("no new finalizers can be added if the object is being deleted, found new finalizers [{}]", added.join(", "));
    vec![Error::forbidden(&Path::root().child("metadata").child("finalizers"), detail)]
}

/// Sets `metadata.generation`.
pub fn set_generation(object: &mut Value, generation: i64) {
    metadata(object).insert("generation".into(), generation.into());
}

/// Removes members that say nothing: empty labels, annotations, finalizers and owner references.
pub fn tidy(object: &mut Value) {
    let metadata = metadata(object);
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let empty = match metadata.get(field) {
            Some(Value::Object(members)) => members.is_empty(),
            Some(Value::Array(items)) => items.is_empty(),
            Some(Value::Null) => true,
            _ => false,
        };
        if empty {
            metadata.remove(field);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_server_owns_identity_and_times() {
        let mut rng = Rng::new(1);
        let mut object =
            json!({"metadata": {"generateName": "gen-", "uid": "mine", "generation": 7, "deletionTimestamp": "x"}});
        prepare_create(&mut object, "ns", Time::from_secs(1_700_000_000), true, &mut rng);
        let name = json::text(&object, &["metadata", "name"]);
        assert!(name.starts_with("gen-") && name.len() == 9, "{name}");
        assert_eq!(json::int(&object, &["metadata", "generation"]), Some(1));
        assert_eq!(json::text(&object, &["metadata", "creationTimestamp"]), "2023-11-14T22:13:20Z");
        let uid = json::text(&object, &["metadata", "uid"]);
        assert_eq!((uid.len(), &uid[14..15]), (36, "4"));
        assert!(json::at(&object, &["metadata", "deletionTimestamp"]).is_none());
    }

    #[test]
    fn an_update_cannot_change_the_servers_fields() {
        let old = json!({"metadata": {"name": "a", "uid": "u", "generation": 3, "resourceVersion": "9"}});
        let mut new = json!({"metadata": {"name": "a", "generation": 9, "labels": {"x": "y"}, "deletionTimestamp": "z"}});
        let subject = Subject::default();
        prepare_update(&mut new, &old, &subject, UpdateForm::Replace).unwrap();
        assert_eq!(
            new,
            json!({"metadata": {"name": "a", "uid": "u", "generation": 3, "resourceVersion": "9", "labels": {"x": "y"}}})
        );
        let mut other = json!({"metadata": {"uid": "v"}});
        assert_eq!(prepare_update(&mut other.clone(), &old, &subject, UpdateForm::Replace).unwrap_err().code, 409);
        assert_eq!(prepare_update(&mut other, &old, &subject, UpdateForm::Patch).unwrap_err().code, 422);
    }

    #[test]
    fn generated_names_fit_a_label() {
        let name = generate_name(&"x".repeat(80), &mut Rng::new(3));
        assert_eq!(name.len(), 63);
    }
}
