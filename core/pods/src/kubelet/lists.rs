//! When the container runtime is asked which containers there are, and about which pods.
//!
//! There are no events to wait for: what starts is found by asking. So it is asked often while somebody waits for a start, about
//! few pods, and rarely otherwise.

use std::time::Duration;

use machine::Time;

/// From list to list, by how much the instances of a pod matter.
const INTERVALS: [(Interest, Duration); 3] = [
    (Interest::Starting, Duration::from_millis(100)),
    (Interest::Probed, Duration::from_millis(250)),
    (Interest::None, Duration::from_secs(1)),
];
/// So many pods are asked about one by one; for more, one list of everything costs less.
const ONE_BY_ONE: usize = 8;
/// A runtime that is slow to answer is left alone for so many times as long as it took, but not for longer than this: to ask is a
/// tenth of what it does at most.
const REST: (u32, Duration) = (10, Duration::from_millis(500));

/// How much the instances of a pod matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interest {
    /// A container that is probed is about to start, or is not known to run.
    Starting,
    /// Its containers are probed.
    Probed,
    /// Nobody probes it.
    None,
}

/// What to ask the runtime for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The containers of these pods, by uid.
    Pods(Vec<String>),
    /// All containers; only those of these pods are looked at closely, by uid.
    All(Vec<String>),
}

impl Ask {
    /// Returns the pods that somebody wants to know about, by uid.
    pub fn pods(&self) -> &[String] {
        match self {
            Ask::Pods(pods) | Ask::All(pods) => pods,
        }
    }
}

/// When which pods were asked about.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    asked: [Option<Time>; 3],
    /// Until then the runtime is left alone.
    rest_until: Option<Time>,
}

impl Lists {
    /// Takes how long the runtime took to answer.
    pub fn answered(&mut self, began: Time, ended: Time) {
        let (times, most) = REST;
        self.rest_until = Some(ended + ended.since(began).saturating_mul(times).min(most));
    }

    /// Returns when to look again, and what to ask for now, if it is time; then it counts as asked.
    pub fn due<'a>(&mut self, now: Time, pods: impl Iterator<Item = (&'a str, Interest)>) -> (Option<Ask>, Time) {
        if let Some(until) = self.rest_until.filter(|until| *until > now) {
            return (None, until);
        }
        let mut groups: [Vec<&str>; 3] = Default::default();
        for (uid, interest) in pods {
            groups[interest as usize].push(uid);
        }
        let at = |asked: Option<Time>, interval| asked.map_or(Time::ZERO, |asked: Time| asked + interval);
        let mut wanted: Vec<&str> = Vec::new();
        let mut all = false;
        for (index, (interest, interval)) in INTERVALS.into_iter().enumerate() {
            if at(self.asked[index], interval) > now {
                continue;
            }
            // Even a node without any pod of interest is looked at, so that its runtime is known to answer.
            all |= interest == Interest::None;
            wanted.extend(&groups[index]);
        }
        all |= wanted.len() > ONE_BY_ONE;
        for (index, (interest, interval)) in INTERVALS.into_iter().enumerate() {
            let due = at(self.asked[index], interval) <= now && (interest == Interest::None || !groups[index].is_empty());
            if all || due {
                self.asked[index] = Some(now);
            }
        }
        let next = INTERVALS
            .into_iter()
            .enumerate()
            .filter(|(index, (interest, _))| *interest == Interest::None || !groups[*index].is_empty());
        let next = next.map(|(index, (_, interval))| at(self.asked[index], interval)).min().unwrap_or(now);
        let named = |uids: &[&str]| uids.iter().map(|uid| (*uid).to_owned()).collect();
        let ask = match (all, wanted.is_empty()) {
            (true, _) => Some(Ask::All(named(&groups[..Interest::None as usize].concat()))),
            (false, true) => None,
            (false, false) => Some(Ask::Pods(named(&wanted))),
        };
        (ask, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Time {
        Time::from_millis(ms)
    }

    /// Returns what is asked within a second, as the instants of asking and `all` or the number of pods.
    fn second(pods: &[(&str, Interest)]) -> Vec<(i64, usize)> {
        let (mut lists, mut now, mut asked) = (Lists::default(), at(10_000), Vec::new());
        while now < at(11_000) {
            let (ask, next) = lists.due(now, pods.iter().copied());
            let count = match ask {
                Some(Ask::All(_)) => Some(0),
                Some(Ask::Pods(uids)) => Some(uids.len()),
                None => None,
            };
            asked.extend(count.map(|count| (now.as_millis() - 10_000, count)));
            assert!(next > now, "no busy loop");
            now = next;
        }
        asked
    }

    #[test]
    fn a_node_without_probes_is_looked_at_once_a_second() {
        assert_eq!(second(&[("a", Interest::None)]), [(0, 0)]);
        assert_eq!(second(&[]), [(0, 0)]);
    }

    #[test]
    fn what_is_probed_is_looked_at_every_quarter_of_a_second() {
        assert_eq!(second(&[("a", Interest::Probed), ("b", Interest::None)]), [(0, 0), (250, 1), (500, 1), (750, 1)]);
    }

    #[test]
    fn what_starts_is_looked_at_ten_times_a_second() {
        let asked = second(&[("a", Interest::Starting), ("b", Interest::Probed)]);
        assert_eq!(asked.len(), 12, "{asked:?}");
        assert_eq!(asked.iter().filter(|(ms, _)| ms % 100 == 0).count(), 10, "{asked:?}");
        assert!(asked.iter().all(|(ms, count)| *count > 0 || *ms == 0), "one list of everything a second: {asked:?}");
    }

    #[test]
    fn a_list_of_everything_names_who_is_probed() {
        let pods = [("a", Interest::Probed), ("b", Interest::None), ("c", Interest::Starting)];
        let (ask, _) = Lists::default().due(at(10_000), pods.into_iter());
        assert_eq!(ask, Some(Ask::All(vec!["c".to_owned(), "a".to_owned()])));
    }

    #[test]
    fn a_runtime_that_is_slow_is_left_alone_for_a_while() {
        let pods = [("a", Interest::Starting)];
        for (took, rest) in [(3, 30), (20, 200), (900, 500)] {
            let mut lists = Lists::default();
            lists.due(at(10_000), pods.into_iter());
            lists.answered(at(10_000), at(10_000 + took));
            let until = at(10_000 + took + rest);
            assert_eq!(lists.due(at(10_001 + took), pods.into_iter()), (None, until), "{took} ms");
            let (ask, next) = lists.due(until.max(at(10_100)), pods.into_iter());
            assert!(ask.is_some() && next > until, "{took} ms: {ask:?}");
        }
    }

    #[test]
    fn many_pods_are_one_list() {
        let names: Vec<String> = (0..20).map(|number| number.to_string()).collect();
        let pods: Vec<(&str, Interest)> = names.iter().map(|name| (name.as_str(), Interest::Starting)).collect();
        assert!(second(&pods).iter().all(|(_, count)| *count == 0));
    }
}
