//! Candidates against one stored lease, over a network that delays and loses, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use api::Lease;
use leader::{Effect, Election, Input, Settings};
use machine::{Machine, Rng, Time};
use proptest::prelude::*;

/// A request on its way, or its answer.
enum Message {
    Request(usize, Effect),
    Answer(usize, Input),
}

/// The API server with one lease, and candidates around it.
struct World {
    now: Time,
    candidates: Vec<Option<Election>>,
    stored: Option<Lease>,
    version: u64,
    messages: BTreeMap<(Time, u64), Message>,
    sent: u64,
    rng: Rng,
    delay_max: Duration,
    /// Of 100 requests so many get no answer; half of those arrive all the same.
    loss: u64,
    history: Vec<(Time, usize, bool)>,
}

/// A request without an answer is given up after this time.
const TIMEOUT: Duration = Duration::from_secs(5);

impl World {
    fn new(count: usize, seed: u64, delay_max: Duration, loss: u64) -> World {
        let mut rng = Rng::new(seed);
        let now = Time::from_secs(1_000);
        let candidate = |index: usize| Some(Election::new(now, Settings::new(&format!("c{index}")), rng.fork()));
        let candidates = (0..count).map(candidate).collect();
        World {
            now,
            candidates,
            stored: None,
            version: 0,
            messages: BTreeMap::new(),
            sent: 0,
            rng: Rng::new(seed ^ 1),
            delay_max,
            loss,
            history: Vec::new(),
        }
    }

    fn leaders(&self) -> Vec<usize> {
        let leads = |(index, candidate): (usize, &Option<Election>)| candidate.as_ref()?.leads().then_some(index);
        self.candidates.iter().enumerate().filter_map(leads).collect()
    }

    fn messages(&mut self, after: Duration, message: Message) {
        self.sent += 1;
        self.messages.insert((self.now + after, self.sent), message);
    }

    fn step(&mut self, index: usize, input: Option<Input>) {
        let Some(candidate) = &mut self.candidates[index] else { return };
        let mut effects = Vec::new();
        candidate.step(self.now, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Lead => self.history.push((self.now, index, true)),
                Effect::Lost => self.history.push((self.now, index, false)),
                request => {
                    let delay = self.delay_max.mul_f64(self.rng.fraction());
                    if self.rng.below(100) >= self.loss {
                        self.messages(delay, Message::Request(index, request));
                    } else {
                        if self.rng.below(2) == 0 && matches!(request, Effect::Write(_)) {
                            // It arrives; the answer is what gets lost.
                            drop(self.answer(&request));
                        }
                        self.messages(TIMEOUT, Message::Answer(index, Input::Failed));
                    }
                }
            }
        }
        assert!(self.leaders().len() <= 1, "two lead at {:?}: {:?}", self.now, self.history);
    }

    fn answer(&mut self, request: &Effect) -> Input {
        let Effect::Write(lease) = request else { return Input::Seen(self.stored.clone().map(Box::new)) };
        let current = self.stored.as_ref().map(|lease| lease.metadata.resource_version.clone()).unwrap_or_default();
        if lease.metadata.resource_version != current {
            return Input::Failed;
        }
        self.version += 1;
        let mut lease = lease.clone();
        lease.metadata.resource_version = self.version.to_string();
        self.stored = Some(*lease.clone());
        Input::Written(lease)
    }

    /// Lets time pass.
    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let due = |(index, candidate): (usize, &Option<Election>)| Some((candidate.as_ref()?.deadline()?, index));
            let timer = self.candidates.iter().enumerate().filter_map(due).min();
            let message = self.messages.keys().next().copied();
            match (timer, message) {
                (Some((at, index)), message) if at <= end && message.is_none_or(|(arrives, _)| at <= arrives) => {
                    self.now = self.now.max(at);
                    self.step(index, None);
                }
                (_, Some(key)) if key.0 <= end => {
                    self.now = self.now.max(key.0);
                    match self.messages.remove(&key).expect("the key was just seen") {
                        Message::Answer(index, input) => self.step(index, Some(input)),
                        Message::Request(index, request) => {
                            let answer = self.answer(&request);
                            let delay = self.delay_max.mul_f64(self.rng.fraction());
                            self.messages(delay, Message::Answer(index, answer));
                        }
                    }
                }
                _ => break,
            }
        }
        self.now = end;
    }
}

#[test]
fn one_leads_and_goes_on_leading() {
    let mut world = World::new(3, 7, Duration::from_millis(20), 0);
    world.run(Duration::from_secs(3_600));
    assert_eq!(world.history.len(), 1, "{:?}", world.history);
    let lease = world.stored.clone().unwrap();
    let leader = world.leaders()[0];
    assert_eq!(lease.spec.holder_identity.as_deref(), Some(format!("c{leader}").as_str()));
    assert_eq!(lease.spec.lease_transitions, Some(0));
    for candidate in world.candidates.iter().flatten() {
        assert_eq!(candidate.leader(), lease.spec.holder_identity.as_deref());
    }
    // One write per renewal and no read: 3,600 s / 2 s, a little less for the round trips.
    assert!((1_700..=1_801).contains(&world.version), "{}", world.version);
}

#[test]
fn another_one_leads_when_the_leader_dies() {
    let mut world = World::new(2, 3, Duration::from_millis(5), 0);
    world.run(Duration::from_secs(60));
    let (dead, at) = (world.leaders()[0], world.now);
    world.candidates[dead] = None;
    world.run(Duration::from_secs(60));
    let (taken, _, leads) = *world.history.last().unwrap();
    assert!(leads && world.leaders() == [1 - dead]);
    let after = taken.since(at);
    // It was last renewed up to 2 s before, and is looked at every 2.4 s at most.
    assert!(after >= Duration::from_secs(13) && after <= Duration::from_secs(18), "{after:?}");
    assert_eq!(world.stored.unwrap().spec.lease_transitions, Some(1));
}

#[test]
fn a_leader_that_gives_up_is_followed_at_once() {
    let mut world = World::new(2, 3, Duration::from_millis(5), 0);
    world.run(Duration::from_secs(60));
    let (old, at) = (world.leaders()[0], world.now);
    let released = world.candidates[old].take().unwrap().release(world.now).unwrap();
    assert!(matches!(world.answer(&Effect::Write(released)), Input::Written(_)));
    world.run(Duration::from_secs(10));
    assert_eq!(world.leaders(), [1 - old]);
    assert!(world.history.last().unwrap().0.since(at) <= Duration::from_secs(3));
}

#[test]
fn a_leader_that_cannot_renew_stops_before_anybody_else_starts() {
    let mut world = World::new(2, 3, Duration::from_millis(5), 0);
    world.run(Duration::from_secs(60));
    let (cut, at) = (world.leaders()[0], world.now);
    // Nothing that it sends arrives any more.
    let mut effects = Vec::new();
    let mut lost = None;
    while lost.is_none() {
        let candidate = world.candidates[cut].as_mut().unwrap();
        let due = candidate.deadline().unwrap();
        let input = (!effects.is_empty()).then_some(Input::Failed);
        effects.clear();
        candidate.step(due, input, &mut effects);
        lost = effects.contains(&Effect::Lost).then_some(due);
        effects.retain(|effect| matches!(effect, Effect::Read | Effect::Write(_)));
    }
    assert!(lost.unwrap().since(at) <= Duration::from_secs(10));
    world.candidates[cut] = None;
    world.run(Duration::from_secs(60));
    assert!(world.history.last().unwrap().0 > lost.unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn two_never_lead_at_once(count in 1_usize..5, seed: u64, delay in 0_u64..8_000, loss in 0_u64..60) {
        let mut world = World::new(count, seed, Duration::from_millis(delay), loss);
        world.run(Duration::from_secs(1_800));
    }

    #[test]
    fn somebody_leads_when_the_network_is_fair(count in 1_usize..5, seed: u64, loss in 0_u64..20) {
        let mut world = World::new(count, seed, Duration::from_millis(200), loss);
        world.run(Duration::from_secs(600));
        prop_assert!(world.history.iter().any(|(_, _, leads)| *leads));
    }
}
