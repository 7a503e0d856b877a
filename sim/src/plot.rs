//! A picture of results: one panel per question, one bar per run, as SVG.

use std::fmt::Write;

use crate::output::{Output, Quantiles};

const WIDTH: f64 = 860.0;
const PANEL: f64 = 150.0;
const LEFT: f64 = 210.0;
const RIGHT: f64 = 130.0;
const TOP: f64 = 46.0;

/// Returns an SVG document that compares runs: false alarms, detection, eviction, load.
pub fn plot(title: &str, runs: &[Output]) -> String {
    let height = TOP + 5.0 * (PANEL.min(40.0 + 26.0 * runs.len() as f64) + 14.0);
    let mut svg = String::new();
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{height:.0}\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"26\" font-size=\"17\" font-weight=\"bold\">{}</text>\n",
        escape(title)
    );
    let rate = |run: &Output| {
        let rate = run.false_not_ready_per_node_day;
        Bar { low: Some(rate.low), value: rate.mean, high: Some(rate.high) }
    };
    let evictions = |run: &Output| {
        let rate = run.false_evictions_per_node_day;
        Bar { low: Some(rate.low), value: rate.mean, high: Some(rate.high) }
    };
    let spread = |times: &Quantiles| Bar { low: times.min, value: times.p50.unwrap_or(0.0), high: times.max };
    let panels: [(&str, Vec<Bar>); 5] = [
        ("false NotReady per node-day (95 % interval)", runs.iter().map(rate).collect()),
        ("false evictions per node-day (95 % interval)", runs.iter().map(evictions).collect()),
        ("detection of a death, seconds (p50; min to max)", runs.iter().map(|run| spread(&run.detect_seconds)).collect()),
        ("eviction after a death, seconds (p50; min to max)", runs.iter().map(|run| spread(&run.evict_seconds)).collect()),
        (
            "writes per second",
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

struct Bar {
    low: Option<f64>,
    value: f64,
    high: Option<f64>,
}

/// Draws a panel, and returns where the next one begins.
fn panel(svg: &mut String, top: f64, title: &str, runs: &[Output], bars: &[Bar]) -> f64 {
    let _ =
        writeln!(svg, "<text x=\"16\" y=\"{:.1}\" font-weight=\"bold\" fill=\"#333333\">{}</text>", top + 14.0, escape(title));
    let most = bars.iter().map(|bar| bar.high.unwrap_or(bar.value).max(bar.value)).fold(0.0, f64::max);
    let x = |value: f64| LEFT + if most > 0.0 { value / most * (WIDTH - LEFT - RIGHT) } else { 0.0 };
    let mut y = top + 24.0;
    let row = (PANEL - 40.0).min(26.0 * bars.len() as f64) / bars.len().max(1) as f64;
    for (index, (run, bar)) in runs.iter().zip(bars).enumerate() {
        let colour = ["#4472a8", "#5a9e6f", "#c98b3a", "#a45a8c", "#7a7a7a"][index % 5];
        let (bar_height, middle) = (row * 0.66, y + row / 2.0);
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n\
             <rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{bar_height:.1}\" fill=\"{colour}\"/>",
            LEFT - 8.0,
            middle + 4.5,
            escape(&run.profile),
            middle - bar_height / 2.0,
            (x(bar.value) - LEFT).max(0.5),
        );
        if let (Some(low), Some(high)) = (bar.low, bar.high) {
            let _ = writeln!(
                svg,
                "<line x1=\"{:.1}\" y1=\"{middle:.1}\" x2=\"{:.1}\" y2=\"{middle:.1}\" stroke=\"#222222\" stroke-width=\"1.5\"/>",
                x(low),
                x(high),
            );
        }
        let end = x(bar.high.unwrap_or(bar.value).max(bar.value));
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#333333\">{}</text>",
            end + 6.0,
            middle + 4.5,
            number(bar.value)
        );
        y += row;
    }
    y + 14.0
}

/// Returns a number with three significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.1}"),
        size if size >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
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
    }
}
