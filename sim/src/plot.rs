//! A picture of results: one panel per question, one bar per run, as SVG.

use std::fmt::Write;

use crate::output::{Output, Quantiles, Rate};

const WIDTH: f64 = 980.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = 96.0;
const TOP: f64 = 66.0;
const ROW: f64 = 21.0;
/// Title, axis and space of a panel.
const AROUND: f64 = 62.0;
/// Beyond this factor between the smallest and the largest bar, lengths are logarithms.
const LOG_FROM: f64 = 200.0;

/// Returns an SVG document that compares runs: false alarms, detection, eviction, load.
pub fn plot(title: &str, runs: &[Output]) -> String {
    let height = TOP + 5.0 * (AROUND + ROW * runs.len() as f64);
    let mut svg = String::new();
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{height:.0}\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"28\" font-size=\"18\" font-weight=\"bold\">{}</text>\n",
        escape(title)
    );
    legend(&mut svg, runs);
    let rate = |rate: &Rate| Bar { low: Some(rate.low), value: rate.mean, high: Some(rate.high) };
    let spread = |times: &Quantiles| Bar { low: times.min, value: times.p50.unwrap_or(0.0), high: times.max };
    let panels: [(&str, Vec<Bar>); 5] = [
        (
            "False NotReady per node-day (line: 95 % interval)",
            runs.iter().map(|run| rate(&run.false_not_ready_per_node_day)).collect(),
        ),
        (
            "False evictions per node-day (line: 95 % interval)",
            runs.iter().map(|run| rate(&run.false_evictions_per_node_day)).collect(),
        ),
        (
            "Detection of a death, seconds: median (line: min to max)",
            runs.iter().map(|run| spread(&run.detect_seconds)).collect(),
        ),
        (
            "Eviction after a death, seconds: median (line: min to max)",
            runs.iter().map(|run| spread(&run.evict_seconds)).collect(),
        ),
        (
            "Writes per second to the API server",
            runs.iter().map(|run| Bar { low: None, value: run.writes_per_second.total, high: None }).collect(),
        ),
    ];
    let mut y = TOP;
    for (title, bars) in panels {
        y = panel(&mut svg, y, title, runs, &bars);
    }
    svg.push_str("</svg>\n");
    svg
}

/// What a run is about, by its name: a profile, a state between two, a state that no rollout visits.
fn colour(name: &str) -> &'static str {
    match name.as_bytes().first() {
        Some(b'!') => "#c0504d",
        Some(digit) if digit.is_ascii_digit() => "#9db4cf",
        _ => "#2f6db3",
    }
}

fn legend(svg: &mut String, runs: &[Output]) {
    let kinds =
        [("#2f6db3", "profile"), ("#9db4cf", "state on the way (heartbeat/grace/toleration)"), ("#c0504d", "! avoided state")];
    let shown = kinds.iter().filter(|(kind, _)| runs.iter().any(|run| colour(&run.profile) == *kind));
    let mut x = 16.0;
    for (kind, text) in shown {
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"46\" r=\"5\" fill=\"{kind}\"/><text x=\"{:.1}\" y=\"50\" fill=\"#555555\">{text}</text>",
            x + 5.0,
            x + 15.0,
        );
        x += 40.0 + 7.2 * text.len() as f64;
    }
}

struct Bar {
    low: Option<f64>,
    value: f64,
    high: Option<f64>,
}

impl Bar {
    fn end(&self) -> f64 {
        self.high.unwrap_or(self.value).max(self.value)
    }
}

/// How long a value is: its own length, or its logarithm from `least` on.
struct Scale {
    most: f64,
    least: Option<f64>,
}

impl Scale {
    fn of(bars: &[Bar]) -> Scale {
        let most = bars.iter().map(Bar::end).fold(0.0, f64::max);
        let smallest = bars.iter().map(|bar| bar.value).filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        // A whole power of ten below the smallest bar, so that it can be seen.
        let least = (most > LOG_FROM * smallest).then(|| 10f64.powf((smallest.log10() - 0.3).floor()));
        Scale { most, least }
    }

    fn x(&self, value: f64) -> f64 {
        let part = match self.least {
            _ if self.most <= 0.0 || value <= 0.0 => 0.0,
            None => value / self.most,
            Some(least) => (value / least).log10() / (self.most / least).log10(),
        };
        LEFT + part.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    /// Returns where lines of the grid are.
    fn ticks(&self) -> Vec<f64> {
        match self.least {
            _ if self.most <= 0.0 => Vec::new(),
            Some(least) => {
                let decades = (self.most / least).log10().floor() as i32;
                let step = (decades / 6 + 1).max(1) as usize;
                (0..=decades).step_by(step).map(|power| least * 10f64.powi(power)).collect()
            }
            None => {
                let rough = self.most / 5.0;
                let power = 10f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough);
                let step = step.unwrap_or(rough);
                (0..=5).map(|index| f64::from(index) * step).filter(|tick| *tick <= self.most).collect()
            }
        }
    }
}

/// Draws a panel, and returns where the next one begins.
fn panel(svg: &mut String, top: f64, title: &str, runs: &[Output], bars: &[Bar]) -> f64 {
    let scale = Scale::of(bars);
    let note = if scale.least.is_some() { ", logarithmic" } else { "" };
    let _ = writeln!(
        svg,
        "<text x=\"16\" y=\"{:.1}\" font-weight=\"bold\" fill=\"#222222\">{}{note}</text>",
        top + 14.0,
        escape(title)
    );
    let (first, last) = (top + 24.0, top + 24.0 + ROW * bars.len() as f64);
    for tick in scale.ticks() {
        let x = scale.x(tick);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{first:.1}\" x2=\"{x:.1}\" y2=\"{last:.1}\" stroke=\"#dddddd\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"11\" fill=\"#777777\">{}</text>",
            last + 13.0,
            label(tick)
        );
    }
    for (index, (run, bar)) in runs.iter().zip(bars).enumerate() {
        let middle = first + ROW * (index as f64 + 0.5);
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n\
             <rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"13\" fill=\"{}\"/>",
            LEFT - 8.0,
            middle + 4.5,
            escape(&run.profile),
            middle - 6.5,
            (scale.x(bar.value) - LEFT).max(0.5),
            colour(&run.profile),
        );
        if let (Some(low), Some(high)) = (bar.low, bar.high) {
            let _ = writeln!(
                svg,
                "<line x1=\"{:.1}\" y1=\"{middle:.1}\" x2=\"{:.1}\" y2=\"{middle:.1}\" stroke=\"#222222\" stroke-width=\"1.5\"/>",
                scale.x(low),
                scale.x(high),
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#222222\">{}</text>",
            scale.x(bar.end()) + 6.0,
            middle + 4.5,
            number(bar.value)
        );
    }
    last + AROUND - 24.0
}

/// Returns a rate or a number of seconds in few digits.
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.1}"),
        size if size >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// Returns the number at a line of the grid: round, so without zeros at its end.
fn label(value: f64) -> String {
    let text = number(value);
    if text.contains('.') && !text.contains('e') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scenario, simulate};
    use profiles::Profile;

    #[test]
    fn every_run_has_a_bar_in_every_panel_and_names_are_escaped() {
        let mut runs: Vec<Output> = Profile::ALL
            .into_iter()
            .map(|profile| simulate(&Scenario::everyday(5, 0.1, 1, profile)).expect("a good scenario"))
            .collect();
        runs[0].profile = "a <b> & c".to_owned();
        let svg = plot("three \"profiles\"", &runs);
        assert_eq!(svg.matches("<rect").count(), 1 + 5 * 3);
        assert!(svg.contains("a &lt;b&gt; &amp; c") && svg.contains("three &quot;profiles&quot;"));
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 1234.6, 12.34, 0.0123, 0.000_043].map(number), ["0", "1235", "12.3", "0.0123", "4.3e-5"]);
        assert_eq!([0.0, 0.001, 0.02, 10.0, 400.0].map(label), ["0", "0.001", "0.02", "10", "400"]);
    }
}
