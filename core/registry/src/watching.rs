//! What a watcher sees of a change: selectors turn changes into appearances and disappearances.

use std::sync::Arc;

use crate::state::{Change, ChangeType, Stored};

/// What a watcher is to be told.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The type of the event.
    pub type_: ChangeType,
    /// The object to show.
    pub object: Arc<Stored>,
    /// The revision that the shown object must carry, if not its own: an object that stopped to match is shown in its
    /// last matching state, at the version of the change.
    pub at: Option<u64>,
}

/// Decides what a watcher that selects by `matches` sees of a change; `None`: nothing.
pub fn seen(change: &Change, matches: impl Fn(&Stored) -> bool) -> Option<Seen> {
    let now = change.type_ != ChangeType::Deleted && matches(&change.object);
    let before = change.previous.as_ref().is_some_and(|previous| matches(previous));
    let show = |type_, object: &Arc<Stored>, at| Some(Seen { type_, object: Arc::clone(object), at });
    match (before, now) {
        (false, true) => show(ChangeType::Added, &change.object, None),
        (true, true) => show(ChangeType::Modified, &change.object, None),
        (true, false) if change.type_ == ChangeType::Deleted => show(ChangeType::Deleted, &change.object, None),
        (true, false) => show(ChangeType::Deleted, change.previous.as_ref()?, Some(change.revision)),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Time;
    use serde_json::json;

    fn stored(revision: u64, app: &str) -> Arc<Stored> {
        Arc::new(Stored::new(revision, json!({"metadata": {"name": "a", "labels": {"app": app}}})))
    }

    fn change(type_: ChangeType, previous: Option<Arc<Stored>>, object: Arc<Stored>) -> Change {
        Change { revision: object.revision, at: Time::ZERO, key: "/k".into(), type_, object, previous }
    }

    #[test]
    fn selectors_make_objects_appear_and_disappear() {
        let web = |stored: &Stored| stored.index.labels.get("app").is_some_and(|app| app == "web");
        let kind = |change: &Change| seen(change, web).map(|seen| (seen.type_, seen.at));
        use ChangeType::{Added, Deleted, Modified};
        assert_eq!(kind(&change(Added, None, stored(1, "web"))), Some((Added, None)));
        assert_eq!(kind(&change(Added, None, stored(1, "db"))), None);
        assert_eq!(kind(&change(Modified, Some(stored(1, "db")), stored(2, "web"))), Some((Added, None)));
        assert_eq!(kind(&change(Modified, Some(stored(1, "web")), stored(2, "web"))), Some((Modified, None)));
        assert_eq!(kind(&change(Modified, Some(stored(1, "web")), stored(2, "db"))), Some((Deleted, Some(2))));
        assert_eq!(kind(&change(Deleted, Some(stored(1, "web")), stored(2, "web"))), Some((Deleted, None)));
        assert_eq!(kind(&change(Deleted, Some(stored(1, "db")), stored(2, "db"))), None);
    }
}
