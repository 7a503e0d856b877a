//! The agents of the world: heartbeat loops, and what becomes of what they send.

use std::time::Duration;

use machine::Time;
use nodes::beats::{self, Beats};
use nodes::monitor::Ready;

use super::World;
use super::queue::Event;

/// What the loop of a node wants done at an instant.
#[derive(Default)]
struct Wants {
    post: bool,
    attempts: u32,
    beat: u64,
    lease_duration: Duration,
}

impl Wants {
    #[inline]
    fn take(&mut self, effect: beats::Effect) {
        match effect {
            beats::Effect::Attempt { beat, lease_duration, .. } => {
                (self.attempts, self.beat, self.lease_duration) = (self.attempts + 1, beat, lease_duration);
            }
            beats::Effect::PostStatus => self.post = true,
            // Answers to a beat that is over are told by its number.
            beats::Effect::Drop { .. } => {}
        }
    }
}

impl World {
    pub(super) fn start_agent(&mut self, index: usize, first: Time) {
        let node = &mut self.nodes[index];
        let config = beats::Config { interval: node.interval, ..self.beats };
        node.beats = Some(Beats::new(first, config, node.rng.fork()));
        (node.life, node.answers) = (node.life.wrapping_add(1), 0);
        self.schedule_wake(index);
    }

    pub(super) fn schedule_wake(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let wake = node.beats.as_ref().map_or(Time::MAX, Beats::due);
        // An earlier event in the queue is good enough: the agent then finds that there is nothing to do yet.
        if wake < node.wake || node.wake <= self.now {
            node.wake = wake;
            self.queue.push(wake, Event::Agent { node: index });
        }
    }

    /// Runs the loop of a node, ahead of the others as long as nothing that they do can matter to it, or it to them.
    pub(super) fn wake_agent(&mut self, index: usize) {
        let node = &self.nodes[index];
        let death = node.deaths.list().get(node.next_death).map_or(Time::MAX, |(from, _)| *from);
        let limit = self.next_control.min(death).min(self.end);
        let mut at = self.now;
        loop {
            self.step_agent(index, at, None);
            let node = &self.nodes[index];
            at = node.beats.as_ref().map_or(Time::MAX, Beats::due);
            if node.answers > 0 || !self.look_ahead || at >= limit {
                break;
            }
        }
        self.schedule_wake(index);
    }

    /// Steps the loop of a node and does what it wants.
    pub(super) fn step_agent(&mut self, index: usize, at: Time, input: Option<beats::Input>) {
        let mut wants = Wants::default();
        if let Some(beats) = &mut self.nodes[index].beats {
            beats.step_with(at, input, |effect| wants.take(effect));
        }
        if wants.post {
            self.post(index, at);
        }
        for _ in 0..wants.attempts {
            // All attempts of a burst start together, but one that gets through ends it.
            if self.attempt(index, at, wants.beat, wants.lease_duration) && self.beats.spacing == beats::Spacing::Burst {
                break;
            }
        }
    }

    /// Returns whether a link is down at any time of a span.
    fn down(&mut self, index: usize, from: Time, to: Time) -> bool {
        let now = self.now;
        let node = &mut self.nodes[index];
        node.outages.hit(now, from, to) || self.zones[node.zone].1.hit(now, from, to) || self.control_plane.hit(now, from, to)
    }

    /// Sends a renewal, and returns whether it arrives.
    fn attempt(&mut self, index: usize, at: Time, beat: u64, lease_duration: Duration) -> bool {
        let node = &mut self.nodes[index];
        node.lease_sent = lease_duration;
        if !node.link.passes(&self.link) {
            return false;
        }
        let arrival = node.link.arrival(at, &self.link);
        let answer = node.link.arrival(arrival, &self.link);
        let answered = !self.down(index, at, answer);
        if !answered && self.down(index, at, arrival) {
            return false;
        }
        self.stats.lease_writes += u64::from(arrival <= self.end);
        if answered && self.take_ahead(index, arrival, answer) {
            self.answered_ahead(index, answer, beat);
            return true;
        }
        self.queue.push(arrival, Event::Arrival { node: index });
        if answered {
            let life = self.nodes[index].life;
            self.nodes[index].answers += 1;
            self.queue.push(answer, Event::Answer { node: index, life, beat });
        }
        true
    }

    /// Takes an answer before it is there. The loop wants nothing but a status post from time to time.
    fn answered_ahead(&mut self, index: usize, at: Time, beat: u64) {
        let mut wants = Wants::default();
        if let Some(beats) = &mut self.nodes[index].beats {
            beats.step_with(at, Some(beats::Input::Renewed { beat }), |effect| wants.take(effect));
        }
        debug_assert_eq!(wants.attempts, 0, "the next attempt lies behind the answer");
        if wants.post {
            self.post(index, at);
        }
    }

    /// Tells the monitor of a heartbeat before it arrives, if nothing until its answer can depend on that.
    fn take_ahead(&mut self, index: usize, arrival: Time, answer: Time) -> bool {
        let node = &self.nodes[index];
        let death = node.deaths.list().get(node.next_death).map_or(Time::MAX, |(from, _)| *from);
        let deadline = node.beats.as_ref().map_or(Time::MAX, Beats::due);
        let undisturbed = answer < self.next_control.min(death).min(deadline) && node.answers == 0;
        let undisturbed = undisturbed && node.lease_known == node.lease_sent;
        let Some(monitor) = self.monitor.as_mut().filter(|_| self.look_ahead && undisturbed) else { return false };
        monitor.heard_ahead(arrival, self.ids[index])
    }

    pub(super) fn answer(&mut self, index: usize, life: u8, beat: u64) {
        if self.nodes[index].life != life || self.nodes[index].beats.is_none() {
            return;
        }
        self.nodes[index].answers -= 1;
        self.step_agent(index, self.now, Some(beats::Input::Renewed { beat }));
        // The agent reads its own Node: what the API says of it is wrong, so it says so.
        let node = &self.nodes[index];
        if node.ready != Ready::True && !node.post_under_way(self.now) {
            self.step_agent(index, self.now, Some(beats::Input::ReadyChanged));
        }
        self.schedule_wake(index);
    }

    /// Sends the status of a node. It goes the way that a renewal has just gone: only an outage can stop it.
    fn post(&mut self, index: usize, at: Time) {
        let arrival = self.nodes[index].link.arrival(at, &self.link);
        if self.down(index, at, arrival) {
            if let Some(beats) = &mut self.nodes[index].beats {
                beats.step_with(at, Some(beats::Input::PostFailed), |_| {});
            }
            return;
        }
        self.stats.status_writes += u64::from(arrival <= self.end);
        self.nodes[index].post_arrives = arrival;
        self.queue.push(arrival, Event::Post { node: index });
    }
}
