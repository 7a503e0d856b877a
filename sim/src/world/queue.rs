//! The event queue: by instant, then kind, then node.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use machine::Time;

/// Something that happens. At an equal instant they happen in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The controller manager goes away.
    ControllersStop,
    /// The controller manager is back, without its memory.
    ControllersStart,
    /// Steps of the rollout have taken effect.
    Step,
    /// A node dies.
    Death { node: usize },
    /// A node is back.
    Back { node: usize },
    /// A renewal arrives.
    Arrival { node: usize },
    /// A status arrives.
    Post { node: usize },
    /// The answer to a renewal is back.
    Answer { node: usize, life: u8, beat: u64 },
    /// The heartbeat loop of a node is due.
    Agent { node: usize },
}

const NODE_SHIFT: u32 = 36;
const KIND_SHIFT: u32 = 60;
const LIFE_SHIFT: u32 = 28;
const BEAT_MASK: u64 = (1 << LIFE_SHIFT) - 1;
const NODE_MASK: u64 = (1 << (KIND_SHIFT - NODE_SHIFT)) - 1;

impl Event {
    /// Packs an event into a number whose order is that of events: kind (4 bits), node (24), life (8), beat (28).
    fn pack(self) -> u64 {
        let (kind, node, rest) = match self {
            Event::ControllersStop => (0, 0, 0),
            Event::ControllersStart => (1, 0, 0),
            Event::Step => (2, 0, 0),
            Event::Death { node } => (3, node, 0),
            Event::Back { node } => (4, node, 0),
            Event::Arrival { node } => (5, node, 0),
            Event::Post { node } => (6, node, 0),
            Event::Answer { node, life, beat } => (7, node, u64::from(life) << LIFE_SHIFT | (beat & BEAT_MASK)),
            Event::Agent { node } => (8, node, 0),
        };
        kind << KIND_SHIFT | (node as u64) << NODE_SHIFT | rest
    }

    fn unpack(packed: u64) -> Event {
        let node = (packed >> NODE_SHIFT & NODE_MASK) as usize;
        match packed >> KIND_SHIFT {
            0 => Event::ControllersStop,
            1 => Event::ControllersStart,
            2 => Event::Step,
            3 => Event::Death { node },
            4 => Event::Back { node },
            5 => Event::Arrival { node },
            6 => Event::Post { node },
            7 => Event::Answer { node, life: (packed >> LIFE_SHIFT & 0xff) as u8, beat: packed & BEAT_MASK },
            _ => Event::Agent { node },
        }
    }
}

/// Events to come.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue(BinaryHeap<Reverse<(Time, u64)>>);

impl Queue {
    pub(super) fn push(&mut self, at: Time, event: Event) {
        self.0.push(Reverse((at, event.pack())));
    }

    /// Returns when the next event is; `Time::MAX`: there is none.
    pub(super) fn next_at(&self) -> Time {
        self.0.peek().map_or(Time::MAX, |Reverse((at, _))| *at)
    }

    /// Takes the next event.
    pub(super) fn pop(&mut self) -> Event {
        let Reverse((_, packed)) = self.0.pop().expect("an event that was just seen");
        Event::unpack(packed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_packing_and_keep_their_order() {
        let events = [
            Event::ControllersStop,
            Event::ControllersStart,
            Event::Step,
            Event::Death { node: 999_999 },
            Event::Back { node: 1 },
            Event::Arrival { node: 0 },
            Event::Post { node: 7 },
            Event::Answer { node: 999_999, life: 255, beat: 200_000_000 },
            Event::Agent { node: 3 },
        ];
        let mut queue = Queue::default();
        events.iter().rev().for_each(|event| queue.push(Time::ZERO, *event));
        let popped: Vec<Event> = events.iter().map(|_| queue.pop()).collect();
        assert_eq!(popped, events);
        assert_eq!(queue.next_at(), Time::MAX);
    }
}
