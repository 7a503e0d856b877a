//! `latency-profiles/tolerations`: admission, matching, the eviction of one pod, migration of running pods.

use std::sync::Arc;

use api::Timestamp;
use api::node::Taint;
use api::pod::Toleration;
use machine::{Machine, Time};
use nodes::eviction::{Effect, EvictionPod, Evictor, Input};
use nodes::tolerations::{Defaults, TolerationTime, admit, retolerate, toleration_time};
use profiles::Profile;
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

use super::world::{seconds, time};

pub(crate) type Case = testkit::Case<Given, Value>;

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Given {
    Admit {
        defaults: Seconds,
        operation: String,
        #[serde(default)]
        subresource: String,
        tolerations: Vec<GivenToleration>,
    },
    Match {
        taints: Vec<GivenTaint>,
        tolerations: Vec<GivenToleration>,
    },
    Evict {
        tolerations: Vec<GivenToleration>,
        events: Vec<Event>,
        until: f64,
    },
    Retolerate {
        from: String,
        to: String,
        tolerations: Vec<GivenToleration>,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Seconds {
    not_ready: i64,
    unreachable: i64,
}

/// As the API has it, but strict about unknown keys.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[derive(Default)]
pub(crate) struct GivenToleration {
    key: String,
    operator: String,
    value: String,
    effect: String,
    toleration_seconds: Option<i64>,
}

impl GivenToleration {
    pub(crate) fn read(self) -> Toleration {
        let GivenToleration { key, operator, value, effect, toleration_seconds } = self;
        Toleration { key, operator, value, effect, toleration_seconds }
    }
}

fn read(tolerations: Vec<GivenToleration>) -> Vec<Toleration> {
    tolerations.into_iter().map(GivenToleration::read).collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GivenTaint {
    key: String,
    effect: String,
    #[serde(default)]
    value: String,
    time_added: Option<f64>,
}

impl GivenTaint {
    fn read(&self, at: f64) -> Taint {
        let time_added = Some(Timestamp(time(self.time_added.unwrap_or(at))));
        Taint { key: self.key.clone(), value: self.value.clone(), effect: self.effect.clone(), time_added }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Event {
    at: f64,
    taints: Option<Vec<GivenTaint>>,
    tolerations: Option<Vec<GivenToleration>>,
    #[serde(default)]
    restart: bool,
}

pub(crate) fn check(case: Case) -> Verdict {
    let got = match case.given {
        Given::Admit { defaults, operation, subresource, tolerations } => {
            let defaults = Defaults { not_ready_seconds: defaults.not_ready, unreachable_seconds: defaults.unreachable };
            let mut pod = json!({"spec": {"tolerations": read(tolerations)}});
            admit(&mut pod, &operation, &subresource, &defaults);
            json!({"tolerations": pod["spec"]["tolerations"]})
        }
        Given::Match { taints, tolerations } => {
            let taints: Vec<Taint> = taints.iter().map(|taint| taint.read(0.0)).collect();
            let tolerations = read(tolerations);
            let no_execute = taints.iter().filter(|taint| taint.effect == "NoExecute");
            let shortest = no_execute.map(|taint| toleration_time(&tolerations, taint)).min();
            match shortest.unwrap_or(TolerationTime::Forever) {
                TolerationTime::NotTolerated => json!({"tolerated": false, "seconds": null}),
                TolerationTime::Seconds(seconds) => json!({"tolerated": true, "seconds": seconds}),
                TolerationTime::Forever => json!({"tolerated": true, "seconds": null}),
            }
        }
        Given::Evict { tolerations, events, until } => json!({"log": evictions(read(tolerations), events, until)?}),
        Given::Retolerate { from, to, tolerations } => {
            let tolerations = read(tolerations);
            let moved = retolerate(&tolerations, &defaults(&from)?, &defaults(&to)?);
            json!({"changed": moved.is_some(), "tolerations": moved.unwrap_or(tolerations)})
        }
    };
    same(&case.expect, &got)
}

fn defaults(profile: &str) -> Result<Defaults, String> {
    let values = Profile::parse(profile).map_err(|error| error.to_string())?.values();
    Ok(Defaults {
        not_ready_seconds: values.default_not_ready_toleration_seconds,
        unreachable_seconds: values.default_unreachable_toleration_seconds,
    })
}

/// One pod on one node, through the evictor.
struct OnePod {
    evictor: Evictor,
    taints: Vec<Taint>,
    pod: EvictionPod,
    gone: bool,
    log: Vec<String>,
}

impl OnePod {
    fn tell_all(&mut self, now: Time) {
        let mut effects = Vec::new();
        let node = Input::Node { name: self.pod.node.clone(), taints: self.taints.clone(), ready: false };
        self.evictor.apply(now, node, &mut effects);
        if !self.gone {
            self.evictor.apply(now, Input::Pod(self.pod.clone()), &mut effects);
        }
        self.event(now, effects);
    }

    fn event(&mut self, now: Time, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Evict { key, .. } => {
                    self.log.push(format!("{} evict", seconds(now)));
                    self.gone = true;
                    self.evictor.apply(now, Input::PodDeleted(key), &mut Vec::new());
                }
                Effect::Scheduled { at, .. } => self.log.push(format!("{} evict-scheduled {}", seconds(now), seconds(at))),
                Effect::Cancelled { .. } => self.log.push(format!("{} evict-cancelled", seconds(now))),
            }
        }
    }

    fn timers(&mut self, now: Time) {
        let mut effects = Vec::new();
        self.evictor.step(now, None, &mut effects);
        self.event(now, effects);
    }
}

fn evictions(tolerations: Vec<Toleration>, events: Vec<Event>, until: f64) -> Result<Vec<String>, String> {
    let name = |text: &str| Arc::<str>::from(text);
    let pod =
        EvictionPod { key: name("default/p"), uid: name("1"), node: name("a"), tolerations, bound_at: None, deleting: false };
    let mut one = OnePod { evictor: Evictor::new(), taints: Vec::new(), pod, gone: false, log: Vec::new() };
    one.tell_all(Time::from_micros(i64::MIN / 2));
    let mut events = events.into_iter().peekable();
    loop {
        let event = events.peek().map(|event| time(event.at));
        let now = [event, one.evictor.deadline()].into_iter().flatten().min().filter(|now| *now <= time(until));
        let Some(now) = now else { return Ok(one.log) };
        while let Some(event) = events.next_if(|event| time(event.at) <= now) {
            match event {
                Event { taints: Some(taints), tolerations: None, restart: false, at } => {
                    one.taints = taints.iter().map(|taint| taint.read(at)).collect();
                }
                Event { taints: None, tolerations: Some(tolerations), restart: false, .. } => {
                    one.pod.tolerations = read(tolerations);
                }
                Event { taints: None, tolerations: None, restart: true, .. } => one.evictor = Evictor::new(),
                Event { at, .. } => return Err(format!("event at {at} must say exactly one thing")),
            }
            one.tell_all(now);
        }
        one.timers(now);
    }
}
