//! The loop that drives a machine: the only place that waits for a deadline of a core.

use machine::Machine;
use tokio::sync::mpsc;

use crate::Clock;

/// Drives `machine` until every sender of `inputs` is gone.
///
/// `perform` spawns or sends; it never blocks.
pub async fn drive<M: Machine>(
    mut machine: M,
    clock: Clock,
    mut inputs: mpsc::Receiver<M::Input>,
    mut perform: impl FnMut(M::Effect),
) {
    let mut effects = Vec::new();
    loop {
        let deadline = machine.deadline();
        let input = tokio::select! {
            biased; // reproducible; inputs may go first because every step also does what is due
            input = inputs.recv() => match input {
                Some(input) => Some(input),
                None => return,
            },
            () = clock.sleep_until(deadline) => None,
        };
        machine.step(clock.now(), input, &mut effects);
        effects.drain(..).for_each(&mut perform);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use machine::Time;

    /// Ticks every ten seconds; an input moves the next tick to right now.
    struct Ticker {
        due: Time,
    }

    impl Machine for Ticker {
        type Input = ();
        type Effect = Time;
        fn step(&mut self, now: Time, input: Option<()>, effects: &mut Vec<Time>) {
            if input.is_some() || self.due <= now {
                effects.push(now);
                self.due = now + Duration::from_secs(10);
            }
        }
        fn deadline(&self) -> Option<Time> {
            Some(self.due)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn deadlines_and_inputs_step_the_machine() {
        let (inputs, receiver) = mpsc::channel(1);
        let (ticks, mut seen) = mpsc::unbounded_channel();
        let clock = Clock::starting_at(Time::ZERO);
        let driver = tokio::spawn(drive(Ticker { due: Time::from_secs(10) }, clock, receiver, move |tick| {
            ticks.send(tick.as_secs()).unwrap();
        }));
        tokio::time::sleep(Duration::from_secs(15)).await;
        inputs.send(()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(11)).await;
        drop(inputs);
        driver.await.unwrap();
        let mut all = Vec::new();
        while let Some(tick) = seen.recv().await {
            all.push(tick);
        }
        assert_eq!(all, [10, 15, 25]);
    }
}
