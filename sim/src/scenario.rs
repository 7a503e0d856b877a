//! What is simulated: the scenario file, and the values that follow from it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use profiles::profile::{MONITOR_PERIOD, REPORT_FREQUENCY};
use profiles::{Day, Profile};
use serde::{Deserialize, Serialize};

/// A scenario. Times are seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Scenario {
    /// Everything random follows from it.
    pub seed: u64,
    /// How long; 1 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days: Option<f64>,
    /// How many nodes in one zone; 100 if absent and there are no zones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
    /// How many nodes in each zone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub zones: BTreeMap<String, usize>,
    /// The profile in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Values in force instead of those of a profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Values>,
    /// A rollout from one profile to another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transition: Option<Transition>,
    /// The way between nodes and control plane.
    pub link: Link,
    /// When everything is lost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
    /// When nodes really die.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deaths: Option<Deaths>,
    /// When parts of the control plane restart.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub restarts: Vec<Restart>,
}

/// Values in force. What is absent is that of the profile `Default`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Values {
    /// From heartbeat to heartbeat.
    pub interval: f64,
    /// How long a node may be silent.
    pub grace: f64,
    /// How often that is checked.
    pub monitor_period: f64,
    /// How long pods tolerate a node that is not ready.
    pub not_ready: i64,
    /// How long pods tolerate a node that is unreachable.
    pub unreachable: i64,
    /// Attempts per heartbeat.
    pub attempts: u32,
    /// How attempts are laid out.
    pub spacing: Spacing,
    /// Whether a node is never judged by less than the duration of its Lease.
    pub lease_aware_grace: bool,
    /// How long an unchanged status is left unposted.
    pub report_interval: f64,
    /// Whether heartbeats are late by a random part of up to 4 %.
    pub jitter: bool,
}

impl Default for Values {
    fn default() -> Values {
        Values::of(Profile::Default)
    }
}

impl Values {
    /// Returns the values of a profile, with our agent on every node.
    pub fn of(profile: Profile) -> Values {
        let values = profile.values();
        Values {
            interval: values.lease_renew_interval().as_secs_f64(),
            grace: values.node_monitor_grace_period.as_secs_f64(),
            monitor_period: MONITOR_PERIOD.as_secs_f64(),
            not_ready: values.default_not_ready_toleration_seconds,
            unreachable: values.default_unreachable_toleration_seconds,
            attempts: nodes::beats::ATTEMPTS,
            spacing: Spacing::Spread,
            lease_aware_grace: true,
            report_interval: REPORT_FREQUENCY.as_secs_f64(),
            jitter: true,
        }
    }
}

/// How the attempts of a heartbeat are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Spacing {
    /// All at once.
    Burst,
    /// Evenly over the interval, until one succeeds.
    #[default]
    Spread,
}

/// A rollout, planned step by step; each step takes effect when its time has passed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Transition {
    /// The profile at the start.
    pub from: String,
    /// The profile wanted.
    pub to: String,
    /// 0: as if no worker was registered yet, 2: later.
    #[serde(default = "day_two")]
    pub day: u8,
    /// How long each step takes.
    #[serde(default = "half_a_minute")]
    pub step_seconds: f64,
    /// How many nodes change at a time; 0: no limit.
    #[serde(default = "one")]
    pub max_unavailable: usize,
}

fn day_two() -> u8 {
    2
}

fn half_a_minute() -> f64 {
    30.0
}

fn one() -> usize {
    1
}

/// The way between a node and the control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Link {
    /// Per attempt and direction.
    pub latency: Latency,
    /// The probability that an attempt is lost, each on its own.
    pub loss: f64,
    /// Loss that comes in bursts, in addition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
}

/// How long a message is under way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Latency {
    /// Always the same.
    Constant(f64),
    /// Anything between two bounds.
    Uniform {
        /// At least.
        a: f64,
        /// At most.
        b: f64,
    },
    /// Mostly near the median, sometimes far above.
    Lognormal {
        /// Half of the messages are quicker.
        median: f64,
        /// The spread of the logarithm.
        sigma: f64,
    },
}

impl Default for Latency {
    fn default() -> Latency {
        Latency::Constant(0.0)
    }
}

/// A link with a good and a bad state, looked at once per attempt.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Burst {
    /// The probability to turn bad.
    pub p_enter: f64,
    /// The probability to turn good.
    pub p_leave: f64,
    /// The probability that an attempt is lost in the bad state.
    pub loss: f64,
}

/// How long something lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// Always the same.
    Seconds(f64),
    /// Mostly near the median, sometimes far above.
    Lognormal {
        /// Half of them are shorter.
        median: f64,
        /// The spread of the logarithm.
        sigma: f64,
    },
}

/// Whom an outage hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// Each node on its own.
    Node,
    /// Each zone on its own.
    Zone,
    /// Everybody at once.
    ControlPlane,
}

/// A kind of outage: everything is lost meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "OutageKeys", into = "OutageKeys")]
pub struct Outage {
    /// How often, for each of its scope (each node, each zone, the control plane).
    pub per_day: f64,
    /// How long.
    pub length: Length,
    /// Whom it hits.
    pub scope: Scope,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OutageKeys {
    per_day: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lognormal: Option<LognormalKeys>,
    scope: Scope,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LognormalKeys {
    median: f64,
    sigma: f64,
}

impl TryFrom<OutageKeys> for Outage {
    type Error = &'static str;

    fn try_from(keys: OutageKeys) -> Result<Outage, &'static str> {
        let length = match (keys.seconds, keys.lognormal) {
            (Some(seconds), None) => Length::Seconds(seconds),
            (None, Some(LognormalKeys { median, sigma })) => Length::Lognormal { median, sigma },
            _ => return Err("an outage has either `seconds` or `lognormal`"),
        };
        Ok(Outage { per_day: keys.per_day, length, scope: keys.scope })
    }
}

impl From<Outage> for OutageKeys {
    fn from(outage: Outage) -> OutageKeys {
        let (seconds, lognormal) = match outage.length {
            Length::Seconds(seconds) => (Some(seconds), None),
            Length::Lognormal { median, sigma } => (None, Some(LognormalKeys { median, sigma })),
        };
        OutageKeys { per_day: outage.per_day, seconds, lognormal, scope: outage.scope }
    }
}

/// Real failures of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Deaths {
    /// How often a node dies.
    pub per_node_day: f64,
    /// After how long it is back.
    pub down_seconds: f64,
}

/// A part of the control plane that restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Component {
    /// The node lifecycle controller and the evictor lose their memory.
    #[serde(alias = "kcm")]
    ControllerManager,
    /// Nothing can be written meanwhile.
    #[serde(alias = "kas")]
    ApiServer,
}

/// Restarts of a part of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Restart {
    /// Which part.
    pub component: Component,
    /// How often.
    pub per_day: f64,
    /// How long it is away.
    pub seconds: f64,
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Restart>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(Restart),
        Many(Vec<Restart>),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(restart) => vec![restart],
        OneOrMany::Many(restarts) => restarts,
    })
}

/// Why a scenario cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// A number makes no sense.
    #[error("{field}: {value} is out of range; it must be {rule}")]
    OutOfRange {
        /// Where.
        field: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        rule: &'static str,
    },
    /// Two ways to say the same thing.
    #[error("give only one of `profile`, `values` and `transition`")]
    Ambiguous,
    /// Nodes twice.
    #[error("give either `nodes` or `zones`")]
    NodesTwice,
    /// A name that is no profile.
    #[error(transparent)]
    UnknownProfile(#[from] profiles::UnknownProfile),
}

/// What is in force at the start.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Start {
    pub(crate) values: Values,
    /// From, to, when, step time, nodes at a time.
    pub(crate) rollout: Option<(Profile, Profile, Day, Duration, usize)>,
}

impl Scenario {
    /// Returns a day in the life of a fleet behind a mediocre link: some loss, an outage of some seconds now and then, a
    /// death every twenty days.
    pub fn everyday(nodes: usize, days: f64, seed: u64, profile: Profile) -> Scenario {
        Scenario {
            seed,
            days: Some(days),
            nodes: Some(nodes),
            profile: Some(profile.name().to_owned()),
            link: Link { latency: Latency::Lognormal { median: 0.02, sigma: 0.5 }, loss: 0.01, burst: None },
            outages: vec![Outage { per_day: 0.5, length: Length::Lognormal { median: 15.0, sigma: 1.2 }, scope: Scope::Node }],
            deaths: Some(Deaths { per_node_day: 0.05, down_seconds: 900.0 }),
            ..Scenario::default()
        }
    }

    /// Returns the zones and how many nodes each has.
    pub(crate) fn fleet(&self) -> Result<Vec<(String, usize)>, ScenarioError> {
        match (self.nodes, self.zones.is_empty()) {
            (Some(_), false) => Err(ScenarioError::NodesTwice),
            (nodes, true) => Ok(vec![("-".to_owned(), nodes.unwrap_or(100))]),
            (None, false) => Ok(self.zones.iter().map(|(zone, count)| (zone.clone(), *count)).collect()),
        }
    }

    pub(crate) fn span(&self) -> Duration {
        Duration::from_secs_f64(self.days.unwrap_or(1.0) * 86_400.0)
    }

    pub(crate) fn start(&self) -> Result<Start, ScenarioError> {
        let given = [self.profile.is_some(), self.values.is_some(), self.transition.is_some()];
        if given.into_iter().filter(|given| *given).count() > 1 {
            return Err(ScenarioError::Ambiguous);
        }
        if let Some(transition) = &self.transition {
            let (from, to) = (Profile::parse(&transition.from)?, Profile::parse(&transition.to)?);
            let day = match transition.day {
                0 => Day::Zero,
                2 => Day::Two,
                day => return Err(out_of_range("transition.day", day, "0 or 2")),
            };
            let step = Duration::from_secs_f64(transition.step_seconds);
            return Ok(Start { values: Values::of(from), rollout: Some((from, to, day, step, transition.max_unavailable)) });
        }
        let profile = Profile::parse(self.profile.as_deref().unwrap_or_default())?;
        Ok(Start { values: self.values.clone().unwrap_or_else(|| Values::of(profile)), rollout: None })
    }

    /// Checks everything that would make a run endless, empty or meaningless.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        let check = |field, value: f64, low: f64, high: f64, rule| {
            if value >= low && value <= high { Ok(()) } else { Err(out_of_range(field, value, rule)) }
        };
        let year = 366.0 * 86_400.0;
        check("days", self.days.unwrap_or(1.0), 1e-6, 36_600.0, "more than 0 and at most 36600")?;
        let start = self.start()?;
        let values = &start.values;
        let span = "at least 0.001 and at most a year";
        check("values.interval", values.interval, 0.001, year, span)?;
        check("values.grace", values.grace, 0.001, year, span)?;
        check("values.monitorPeriod", values.monitor_period, 0.001, year, span)?;
        check("values.reportInterval", values.report_interval, 0.001, year, span)?;
        check("values.attempts", f64::from(values.attempts), 1.0, 1000.0, "1 to 1000")?;
        let fraction = "a probability from 0 to 1";
        check("link.loss", self.link.loss, 0.0, 1.0, fraction)?;
        if let Some(burst) = self.link.burst {
            check("link.burst.pEnter", burst.p_enter, 0.0, 1.0, fraction)?;
            check("link.burst.pLeave", burst.p_leave, 0.0, 1.0, fraction)?;
            check("link.burst.loss", burst.loss, 0.0, 1.0, fraction)?;
        }
        let (low, high) = match self.link.latency {
            Latency::Constant(seconds) => (seconds, seconds),
            Latency::Uniform { a, b } => (a, b),
            Latency::Lognormal { median, sigma } => (median.min(sigma), median.max(sigma)),
        };
        check("link.latency", low, 0.0, high, "not negative, the smaller bound first")?;
        check("link.latency", high, low, 3_600.0, "at most an hour")?;
        for outage in &self.outages {
            check("outages.perDay", outage.per_day, 0.0, 86_400.0, "0 to 86400")?;
            let (Length::Seconds(a) | Length::Lognormal { median: a, .. }) = outage.length;
            check("outages", a, 0.0, year, "not negative and at most a year")?;
        }
        if let Some(deaths) = self.deaths {
            check("deaths.perNodeDay", deaths.per_node_day, 0.0, 86_400.0, "0 to 86400")?;
            check("deaths.downSeconds", deaths.down_seconds, 0.001, year, span)?;
        }
        for restart in &self.restarts {
            check("restarts.perDay", restart.per_day, 0.0, 86_400.0, "0 to 86400")?;
            check("restarts.seconds", restart.seconds, 0.0, year, "not negative and at most a year")?;
        }
        if let Some(transition) = &self.transition {
            check("transition.stepSeconds", transition.step_seconds, 0.001, year, span)?;
        }
        let nodes: usize = self.fleet()?.iter().map(|(_, count)| *count).sum();
        check("nodes", nodes as f64, 1.0, 1e6, "1 to 1000000")
    }
}

fn out_of_range(field: &'static str, value: impl ToString, rule: &'static str) -> ScenarioError {
    ScenarioError::OutOfRange { field, value: value.to_string(), rule }
}
