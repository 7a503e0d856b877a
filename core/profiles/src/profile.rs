//! The profiles and their values.

use std::fmt;
use std::time::Duration;

/// Grace of `Default`, as in the enhancement; an option may set 40 s to 60 s.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(40);
/// Built-in `--node-monitor-grace-period` of Kubernetes 1.32 and later; counts as `Default` where nothing is wanted.
pub const BUILT_IN_GRACE: Duration = Duration::from_secs(50);
/// How often the controller manager looks at the nodes; the same in every profile.
pub const MONITOR_PERIOD: Duration = Duration::from_secs(5);
/// How often an unchanged status is posted; the same in every profile.
pub const REPORT_FREQUENCY: Duration = Duration::from_secs(300);

/// A latency profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// 10 s, 40 s, 300 s.
    #[default]
    Default,
    /// `MediumUpdateAverageReaction`: 20 s, 2 m, 60 s.
    Medium,
    /// `LowUpdateSlowReaction`: 1 m, 5 m, 60 s.
    Low,
}

/// A name that is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown profile {0:?}; use Default, MediumUpdateAverageReaction or LowUpdateSlowReaction")]
pub struct UnknownProfile(pub String);

impl Profile {
    /// Every profile, from the quickest to the slowest.
    pub const ALL: [Profile; 3] = [Profile::Default, Profile::Medium, Profile::Low];

    /// Returns the name of the API.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Default => "Default",
            Profile::Medium => "MediumUpdateAverageReaction",
            Profile::Low => "LowUpdateSlowReaction",
        }
    }

    /// Returns the profile of that name; empty is `Default`.
    pub fn parse(name: &str) -> Result<Profile, UnknownProfile> {
        Target::parse(name).map(Target::profile)
    }

    /// Returns the values of the profile.
    pub const fn values(self) -> Values {
        self.values_with(DEFAULT_GRACE)
    }

    /// Returns the values of the profile where the grace of `Default` is an option.
    pub const fn values_with(self, default_grace: Duration) -> Values {
        let (update, grace, toleration) = match self {
            Profile::Default => (10, default_grace, 300),
            Profile::Medium => (20, Duration::from_secs(120), 60),
            Profile::Low => (60, Duration::from_secs(300), 60),
        };
        Values {
            node_status_update_frequency: Duration::from_secs(update),
            node_monitor_grace_period: grace,
            default_not_ready_toleration_seconds: toleration,
            default_unreachable_toleration_seconds: toleration,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// What `spec.workerLatencyProfile` says: nothing, or a profile.
///
/// Both `Empty` and `Default` mean the same values; the difference is whether they are written or left to the components.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// Nothing is wanted: what the components have built in.
    #[default]
    Empty,
    /// A profile is wanted.
    Of(Profile),
}

impl Target {
    /// Returns what a text of the API means.
    pub fn parse(name: &str) -> Result<Target, UnknownProfile> {
        if name.is_empty() {
            return Ok(Target::Empty);
        }
        let profile = Profile::ALL.into_iter().find(|profile| profile.name() == name);
        profile.map(Target::Of).ok_or_else(|| UnknownProfile(name.to_owned()))
    }

    /// Returns the profile that is in force.
    pub const fn profile(self) -> Profile {
        match self {
            Target::Empty => Profile::Default,
            Target::Of(profile) => profile,
        }
    }
}

/// The values that a profile sets, or that are observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    /// How often a node speaks: its status is computed and its Lease renewed.
    pub node_status_update_frequency: Duration,
    /// How long a node may be silent.
    pub node_monitor_grace_period: Duration,
    /// How long pods stay on a node that is not ready, unless they say otherwise.
    pub default_not_ready_toleration_seconds: i64,
    /// How long pods stay on a node that is unreachable, unless they say otherwise.
    pub default_unreachable_toleration_seconds: i64,
}

impl Values {
    /// Returns how often the Lease is renewed: the profile slows down the Lease as well, or it would save nothing.
    pub const fn lease_renew_interval(&self) -> Duration {
        self.node_status_update_frequency
    }

    /// Returns how many heartbeats fit into the grace.
    pub const fn chances(&self) -> u64 {
        crate::hazard::chances(self.lease_renew_interval(), self.node_monitor_grace_period)
    }

    /// Returns the seconds from the last sign of a node to the eviction of its pods.
    pub fn reaction_seconds(&self) -> i64 {
        let grace = i64::try_from(self.node_monitor_grace_period.as_secs()).unwrap_or(i64::MAX);
        grace.saturating_add(self.default_unreachable_toleration_seconds)
    }
}

/// Returns the profile whose values these exactly are; `None`: custom values.
pub fn infer(observed: &Values, default_grace: Duration) -> Option<Profile> {
    let equal = |grace| Profile::ALL.into_iter().find(|profile| profile.values_with(grace) == *observed);
    equal(default_grace).or_else(|| equal(BUILT_IN_GRACE))
}

/// Who answers for a part of the rollout; the names are those of the enhancement. Ordered as conditions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// Default tolerations.
    KubeApiServer,
    /// Grace.
    KubeControllerManager,
    /// Heartbeats of the workers.
    MachineConfig,
}

impl Owner {
    /// Every owner, in the order of conditions.
    pub const ALL: [Owner; 3] = [Owner::KubeApiServer, Owner::KubeControllerManager, Owner::MachineConfig];

    /// Returns the name of the API.
    pub const fn name(self) -> &'static str {
        match self {
            Owner::KubeApiServer => "KubeAPIServerOperator",
            Owner::KubeControllerManager => "KubeControllerManagerOperator",
            Owner::MachineConfig => "MachineConfigOperator",
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_api() {
        assert_eq!(Profile::ALL.map(Profile::name), api::config_node::PROFILES);
        assert_eq!(Owner::ALL.map(Owner::name), api::config_node::OWNERS);
        assert_eq!(Target::parse("default"), Err(UnknownProfile("default".into())), "names are case sensitive");
    }

    #[test]
    fn the_option_for_the_grace_of_default_is_recognised() {
        let sixty = Duration::from_secs(60);
        assert_eq!(infer(&Profile::Default.values_with(sixty), sixty), Some(Profile::Default));
        assert_eq!(infer(&Profile::Default.values_with(sixty), DEFAULT_GRACE), None);
    }
}
