//! A container's first moments as lines of characters: one line per probe, one cell per step of time.
//!
//! Every line is at most as wide as asked for, whatever the times are.

use crate::report::{Action, Container};
use crate::times::{Start, Times};

use crate::findings::span;

/// What the characters mean.
pub(super) const LEGEND: &str =
    ". delay  ~ not started  : knocks  | attempt  S started  R ready  = stays ready  K killed if silent";

/// Cells between two numbers of the axis.
const MARK_CELLS: u64 = 10;

/// One line that is being drawn.
struct Line {
    cells: Vec<char>,
    step_ms: u64,
}

impl Line {
    fn new(cells: u64, step_ms: u64) -> Line {
        Line { cells: vec![' '; usize::try_from(cells).unwrap_or(0)], step_ms }
    }

    fn put(&mut self, at_ms: u64, mark: char) {
        let cell = usize::try_from(at_ms / self.step_ms).unwrap_or(usize::MAX);
        if let Some(cell) = self.cells.get_mut(cell).filter(|cell| mark != '|' || !cell.is_ascii_uppercase()) {
            *cell = mark;
        }
    }

    fn fill(&mut self, from_ms: u64, to_ms: u64, mark: char) {
        let last = u64::try_from(self.cells.len()).unwrap_or(u64::MAX);
        for cell in (from_ms / self.step_ms)..to_ms.div_ceil(self.step_ms).min(last) {
            self.put(cell.saturating_mul(self.step_ms), mark);
        }
    }

    /// Draws attempts at `first`, `first + period`, ... before `end`, at most one per cell.
    fn attempts(&mut self, first: u64, period_ms: u64, end_ms: u64) {
        let mut at = first;
        let shown = self.step_ms.saturating_mul(u64::try_from(self.cells.len()).unwrap_or(u64::MAX));
        while at < end_ms.min(shown) {
            self.put(at, '|');
            // Attempts that fall into one cell are one stroke, so those that are left out are not missed.
            let skipped = (self.step_ms / 2 / period_ms.max(1)).max(1);
            at = at.saturating_add(period_ms.max(1).saturating_mul(skipped));
        }
    }

    fn finish(self) -> String {
        self.cells.into_iter().collect::<String>().trim_end().to_owned()
    }
}

/// What happens to a container that answers from `listens_ms` on.
struct Scene {
    start: Start,
    listens_ms: u64,
    /// It is killed before it answers.
    killed_ms: Option<u64>,
    started_ms: u64,
}

/// Draws a container; empty if it has no probes that decide anything about it.
pub(super) fn timeline(container: &Container, listens_ms: Option<u64>, width: usize) -> Vec<String> {
    let times = |name: &str| {
        let probe = container.probes.iter().find(|probe| probe.name == name && probe.action != Action::Mark)?;
        Some(probe.times)
    };
    let start = Start { startup: times("startup"), readiness: times("readiness"), liveness: times("liveness") };
    if start == Start::default() {
        return Vec::new();
    }
    let listens = listens_ms.unwrap_or(0);
    let killed = start.budget_ms().filter(|budget| listens > *budget);
    let scene = Scene { start, listens_ms: listens, killed_ms: killed, started_ms: start.started_ms(listens) };
    let label = 11;
    let cells = u64::try_from(width.saturating_sub(label)).unwrap_or(0).clamp(20, 80);
    let step = step_ms(scene.horizon_ms(), cells);
    let mut lines = vec![format!("{:label$}{}", "", axis(cells, step))];
    for (name, line) in [
        ("startup", scene.startup(cells, step)),
        ("readiness", scene.readiness(cells, step)),
        ("liveness", scene.liveness(cells, step)),
    ] {
        if let Some(line) = line {
            lines.push(format!("{name:label$}{}", line.finish()).trim_end().to_owned());
        }
    }
    lines
}

/// Returns the shortest round step with which `horizon_ms` fits into the cells.
fn step_ms(horizon_ms: u64, cells: u64) -> u64 {
    let mut decade = 10u64;
    while let Some(next) = decade.checked_mul(10) {
        if let Some(step) = [1, 2, 5].into_iter().map(|digit| decade * digit).find(|step| horizon_ms / step < cells) {
            return step;
        }
        decade = next;
    }
    horizon_ms / cells + 1
}

fn axis(cells: u64, step_ms: u64) -> String {
    let mut text = String::new();
    let mut cell = 0;
    while cell < cells {
        let label = span(step_ms.saturating_mul(cell));
        let room = usize::try_from((cells - cell).min(MARK_CELLS)).unwrap_or(0);
        // A number that would run into the next one is left out.
        let label = if label.len() < room { label } else { String::new() };
        text.push_str(&format!("{label:room$}"));
        cell += MARK_CELLS;
    }
    text.trim_end().to_owned()
}

impl Scene {
    fn horizon_ms(&self) -> u64 {
        let ready = self
            .start
            .readiness
            .map(|times| self.ready_ms(&times).saturating_add(times.period_after_success_ms.saturating_mul(2)));
        let starts = self.start.budget_ms();
        let lives = self.start.liveness.map(|times| self.lives_ms(&times).saturating_add(times.period_ms));
        let end = [ready, starts, lives].into_iter().flatten().max().unwrap_or(0);
        self.killed_ms.map_or(end, |killed| killed.max(1_000))
    }

    fn ready_first_ms(&self, times: &Times) -> u64 {
        times.delay_ms.max(self.started_ms)
    }

    fn ready_ms(&self, times: &Times) -> u64 {
        times.success_ms(self.ready_first_ms(times), self.listens_ms)
    }

    fn lives_ms(&self, times: &Times) -> u64 {
        match self.start.startup {
            // The startup success is itself a sign of life.
            Some(_) => times.delay_ms.max(self.started_ms.saturating_add(times.period_ms)),
            None => times.delay_ms,
        }
    }

    /// Draws the attempts until the Success at `end`.
    fn waiting(&self, line: &mut Line, times: &Times, first: u64, end_ms: u64) {
        let knock = times.knock_ms(first, self.listens_ms).filter(|knock| *knock <= end_ms);
        if times.probe_on_listen {
            line.fill(first, end_ms.min(knock.unwrap_or(self.listens_ms)), ':');
        }
        // The grid goes on from the knock.
        if let Some(knock) = knock {
            line.attempts(knock, times.period_ms, end_ms.saturating_add(1));
        }
        let end_ms = knock.map_or(end_ms, |knock| end_ms.min(knock.saturating_sub(1)));
        let grid = if times.second_look { 2 } else { 0 };
        for at in (0..grid).map(|index| times.attempt_ms(first, index)).filter(|at| *at <= end_ms) {
            line.put(at, '|');
        }
        line.attempts(times.attempt_ms(first, grid), times.period_ms, end_ms.saturating_add(1));
    }

    fn startup(&self, cells: u64, step: u64) -> Option<Line> {
        let times = self.start.startup?;
        let mut line = Line::new(cells, step);
        let killed = times.never_up().from_ms;
        line.fill(0, times.delay_ms, '.');
        match self.killed_ms {
            Some(killed) => self.waiting(&mut line, &times, times.delay_ms, killed),
            None => {
                self.waiting(&mut line, &times, times.delay_ms, self.started_ms);
                line.put(self.started_ms, 'S');
            }
        }
        if killed / step > self.started_ms / step || self.killed_ms.is_some() {
            line.put(killed, 'K');
        }
        Some(line)
    }

    fn readiness(&self, cells: u64, step: u64) -> Option<Line> {
        let times = self.start.readiness?;
        let mut line = Line::new(cells, step);
        if let (Some(killed), Some(_)) = (self.killed_ms, self.start.startup) {
            line.fill(0, killed, '~');
            return Some(line);
        }
        let first = self.ready_first_ms(&times);
        line.fill(0, times.delay_ms.min(self.killed_ms.unwrap_or(u64::MAX)), '.');
        line.fill(0, self.started_ms, '~');
        if let Some(killed) = self.killed_ms {
            self.waiting(&mut line, &times, first, killed);
            return Some(line);
        }
        let ready = self.ready_ms(&times);
        line.fill(ready, step.saturating_mul(cells), '=');
        self.waiting(&mut line, &times, first, ready);
        // A look does not shift the grid, so the attempt after it is not one period later.
        let next = match times.second_look && ready == times.attempt_ms(first, 1) {
            true => times.attempt_ms(first, 2),
            false => ready.saturating_add(times.period_after_success_ms),
        };
        line.attempts(next, times.period_after_success_ms, u64::MAX);
        line.put(ready, 'R');
        Some(line)
    }

    fn liveness(&self, cells: u64, step: u64) -> Option<Line> {
        let times = self.start.liveness?;
        let mut line = Line::new(cells, step);
        match (self.killed_ms, self.start.startup) {
            (Some(killed), Some(_)) => {
                line.fill(0, killed, '~');
                return Some(line);
            }
            (killed, startup) => {
                line.fill(0, times.delay_ms, '.');
                line.fill(0, self.started_ms, '~');
                line.attempts(
                    self.lives_ms(&times),
                    times.period_ms,
                    killed.map_or(u64::MAX, |killed| killed.saturating_add(1)),
                );
                if startup.is_none() {
                    line.put(times.never_up().from_ms, 'K');
                }
            }
        }
        Some(line)
    }
}
