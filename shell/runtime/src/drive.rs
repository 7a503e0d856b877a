//! The loop that drives a machine: the place that waits for a deadline of a core.

use std::future::Future;

use futures::{Stream, StreamExt};
use machine::Machine;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::Clock;

/// Does what a machine says.
pub trait Shell<M: Machine> {
    /// Does one thing. It never waits: what takes time is spawned, and what comes of it is told to the machine.
    fn perform(&mut self, machine: &M, effect: M::Effect, answers: &mut Answers<M::Input>);

    /// Looks at the machine before a step, and at what it will be told; `None`: only that time has passed.
    fn before(&mut self, _machine: &M, _input: Option<&M::Input>) {}

    /// Looks at the machine after a step: for metrics, and for those who wait until everything was seen.
    fn stepped(&mut self, _machine: &M) {}

    /// Returns whether the loop ends here.
    fn is_over(&self) -> bool {
        false
    }
}

/// What is under way for a machine; all of it is dropped with the loop.
pub struct Answers<I>(JoinSet<I>);

impl<I: Send + 'static> Answers<I> {
    /// Does something that takes time; what it returns is told to the machine, unless it is aborted.
    pub fn spawn(&mut self, work: impl Future<Output = I> + Send + 'static) -> AbortHandle {
        self.0.spawn(work)
    }

    async fn next(&mut self) -> Option<I> {
        loop {
            match self.0.join_next().await? {
                Ok(input) => return Some(input),
                Err(error) => {
                    if let Ok(panic) = error.try_into_panic() {
                        // Whoever watches over the loop is to know.
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        }
    }
}

/// Drives `machine` until told to stop, or until the facts end, or until the shell says that it is over.
pub async fn drive<M: Machine>(
    machine: &mut M,
    clock: &Clock,
    stop: &CancellationToken,
    facts: impl Stream<Item = M::Input>,
    shell: &mut impl Shell<M>,
) where
    M::Input: Send + 'static,
{
    let mut facts = std::pin::pin!(facts);
    let mut answers = Answers(JoinSet::new());
    let mut effects = Vec::new();
    while !shell.is_over() {
        let deadline = machine.deadline();
        let input = tokio::select! {
            biased; // reproducible; answers first: what is new is judged from what is known; every step also does what is due
            () = stop.cancelled() => return,
            Some(answer) = answers.next() => Some(answer),
            fact = facts.next() => match fact {
                Some(fact) => Some(fact),
                None => return,
            },
            () = clock.sleep_until(deadline) => None,
        };
        shell.before(machine, input.as_ref());
        machine.step(clock.now(), input, &mut effects);
        for effect in effects.drain(..) {
            shell.perform(machine, effect, &mut answers);
        }
        shell.stepped(machine);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use machine::Time;

    /// Ticks every ten seconds; a fact moves the next tick to right now, an answer is remembered.
    struct Ticker {
        due: Time,
        answers: Vec<u64>,
    }

    #[derive(Debug)]
    enum Input {
        Now,
        Answer(u64),
    }

    impl Machine for Ticker {
        type Input = Input;
        type Effect = Time;
        fn step(&mut self, now: Time, input: Option<Input>, effects: &mut Vec<Time>) {
            match input {
                Some(Input::Answer(answer)) => return self.answers.push(answer),
                Some(Input::Now) => {}
                None if self.due > now => return,
                None => {}
            }
            effects.push(now);
            self.due = now + Duration::from_secs(10);
        }
        fn deadline(&self) -> Option<Time> {
            Some(self.due)
        }
    }

    #[derive(Default)]
    struct Record {
        ticks: Vec<i64>,
    }

    impl Shell<Ticker> for Record {
        fn perform(&mut self, _: &Ticker, tick: Time, answers: &mut Answers<Input>) {
            let seconds = tick.as_secs();
            self.ticks.push(seconds);
            answers.spawn(async move {
                tokio::time::sleep(Duration::from_secs(2)).await;
                Input::Answer(seconds.unsigned_abs())
            });
            answers.spawn(std::future::pending()).abort();
        }

        fn is_over(&self) -> bool {
            self.ticks.len() == 4
        }
    }

    #[tokio::test(start_paused = true)]
    async fn deadlines_facts_and_answers_step_the_machine() {
        let clock = Clock::starting_at(Time::ZERO);
        let mut ticker = Ticker { due: Time::from_secs(10), answers: Vec::new() };
        let facts = futures::stream::once(async {
            tokio::time::sleep(Duration::from_secs(15)).await;
            Input::Now
        });
        let facts = facts.chain(futures::stream::pending());
        let mut record = Record::default();
        drive(&mut ticker, &clock, &CancellationToken::new(), facts, &mut record).await;
        assert_eq!(record.ticks, [10, 15, 25, 35]);
        assert_eq!(ticker.answers, [10, 15, 25], "each two seconds later; the last one was dropped");
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_is_told_to_stop_stops() {
        let clock = Clock::starting_at(Time::ZERO);
        let stop = CancellationToken::new();
        let mut ticker = Ticker { due: Time::from_secs(1000), answers: Vec::new() };
        let mut record = Record::default();
        let driven = drive(&mut ticker, &clock, &stop, futures::stream::pending(), &mut record);
        let stopping = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            stop.cancel();
        };
        tokio::join!(driven, stopping);
        assert_eq!(clock.now(), Time::from_secs(1));
    }
}
