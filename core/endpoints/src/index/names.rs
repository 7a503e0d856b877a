//! Maps keyed by names of which there may be many.
//!
//! Ten thousand pods of one workload have names that differ in their last few letters, each somewhere else in memory: finding
//! one by comparing names means fetching a dozen of them. Here the keys are numbers that lie side by side, and one name is
//! fetched, the one that was found. The order is that of the numbers: always the same, but not that of the names.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A map keyed by names, ordered by their [`digest`]s.
#[derive(Clone, Debug)]
pub(crate) struct Names<V> {
    /// By digest; names with the same one are counted from 0, without a gap.
    map: BTreeMap<(u64, u32), (Arc<str>, V)>,
}

impl<V> Default for Names<V> {
    fn default() -> Names<V> {
        Names { map: BTreeMap::new() }
    }
}

/// FNV-1a: short, and the same in every build.
fn digest(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl<V> Names<V> {
    pub(crate) fn get(&self, name: &str) -> Option<&V> {
        let key = self.find(digest(name), name).ok()?;
        self.map.get(&key).map(|(_, value)| value)
    }

    /// Returns a name as it is kept.
    pub(crate) fn kept(&self, name: &str) -> Option<&Arc<str>> {
        let key = self.find(digest(name), name).ok()?;
        self.map.get(&key).map(|(name, _)| name)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut V> {
        let key = self.find(digest(name), name).ok()?;
        self.map.get_mut(&key).map(|(_, value)| value)
    }

    /// Sets the value of a name; returns the one it had.
    pub(crate) fn insert(&mut self, name: Arc<str>, value: V) -> Option<V> {
        self.insert_as(digest(&name), name, value)
    }

    /// Returns the value of a name, which is made if there is none.
    pub(crate) fn get_or_default(&mut self, name: &Arc<str>) -> &mut V
    where
        V: Default,
    {
        let (Ok(key) | Err(key)) = self.find(digest(name), name);
        &mut self.map.entry(key).or_insert_with(|| (Arc::clone(name), V::default())).1
    }

    /// Takes a name out; returns it as it was kept, and its value.
    pub(crate) fn remove(&mut self, name: &str) -> Option<(Arc<str>, V)> {
        self.remove_as(digest(name), name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &V)> {
        self.map.values().map(|(name, value)| (name, value))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut V)> {
        self.map.values_mut().map(|(name, value)| (&*name, value))
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Returns where a name is, or where it would go.
    fn find(&self, digest: u64, name: &str) -> Result<(u64, u32), (u64, u32)> {
        let mut key = (digest, 0);
        while let Some((known, _)) = self.map.get(&key) {
            if **known == *name {
                return Ok(key);
            }
            key.1 += 1;
        }
        Err(key)
    }

    fn insert_as(&mut self, digest: u64, name: Arc<str>, value: V) -> Option<V> {
        let (Ok(key) | Err(key)) = self.find(digest, &name);
        self.map.insert(key, (name, value)).map(|(_, replaced)| replaced)
    }

    fn remove_as(&mut self, digest: u64, name: &str) -> Option<(Arc<str>, V)> {
        let key = self.find(digest, name).ok()?;
        let removed = self.map.remove(&key);
        // The last of them takes the free place.
        let last = self.map.range((digest, key.1)..=(digest, u32::MAX)).next_back().map(|(last, _)| *last);
        if let Some(moved) = last.and_then(|last| self.map.remove(&last)) {
            self.map.insert(key, moved);
        }
        removed
    }
}

impl<V> FromIterator<(Arc<str>, V)> for Names<V> {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, V)>>(pairs: I) -> Names<V> {
        let mut pairs: Vec<_> = pairs.into_iter().map(|(name, value)| (digest(&name), name, value)).collect();
        // In order, so that the map is built and not searched.
        pairs.sort_by_key(|(digest, ..)| *digest);
        let mut place = (0, 0);
        let numbered = pairs.into_iter().enumerate().map(|(at, (digest, name, value))| {
            place = if at > 0 && place.0 == digest { (digest, place.1 + 1) } else { (digest, 0) };
            (place, (name, value))
        });
        Names { map: numbered.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_until_it_is_taken_out() {
        let mut names: Names<u32> = (0..100).map(|number| (format!("web-{number}").into(), number)).collect();
        assert_eq!(names.insert("web-7".into(), 1007), Some(7));
        *names.get_mut("web-8").unwrap() += 1000;
        assert_eq!((names.get("web-7"), names.get("web-8"), names.get("web-100")), (Some(&1007), Some(&1008), None));
        assert_eq!(names.remove("web-7").map(|(_, value)| value), Some(1007));
        assert!(names.remove("web-7").is_none() && names.get_mut("web-7").is_none() && names.get("web-7").is_none());
        assert_eq!((names.iter().count(), names.len(), names.is_empty()), (99, 99, false));
        assert_eq!((*names.get_or_default(&"web-7".into()), *names.get_or_default(&"web-9".into())), (0, 9));
        assert_eq!((names.kept("web-7").map(|name| &**name), names.kept("web-100")), (Some("web-7"), None));
    }

    #[test]
    fn names_with_the_same_digest_are_kept_apart() {
        let mut names = Names::default();
        for (value, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
            names.insert_as(1, name.into(), value);
        }
        names.insert_as(2, "e".into(), 4);
        names.insert_as(1, "b".into(), 11);
        let value = |names: &Names<usize>, name: &str| names.find(1, name).ok().map(|key| names.map[&key].1);
        assert_eq!(["a", "b", "c", "d", "e"].map(|name| value(&names, name)), [Some(0), Some(11), Some(2), Some(3), None]);
        assert_eq!(names.remove_as(1, "b").map(|(_, value)| value), Some(11));
        assert_eq!(["a", "b", "c", "d"].map(|name| value(&names, name)), [Some(0), None, Some(2), Some(3)]);
        ["d", "a", "c"].into_iter().for_each(|name| assert!(names.remove_as(1, name).is_some()));
        assert_eq!(names.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>(), ["e"]);
    }
}
