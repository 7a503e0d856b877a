//! `lifesign profile recommend`: which profile suits a fleet.

use std::collections::BTreeMap;
use std::time::Duration;

use api::Lease;
use clap::Args;
use machine::Time;
use profiles::Profile;
use runtime::{Clock, WatchEvent};
use sim::{Gaps, Latency, Length, Link, Outage, Output, Scope};

use super::api::ApiArgs;
use super::simulate::{as_table, simulate_all};
use super::table::table;
use super::{Format, print_json};
use crate::error::Failure;
use crate::{block_on, output, signals};
use sim::number;

/// Say which profile suits a fleet
///
/// The quickest profile with fewer than 0.01 false NotReady per node and day. From what is measured: the heartbeats of a
/// running cluster are watched for a while (an hour says little about outages, a day much; Ctrl-C ends it early). Or from
/// what is known of the links: --latency, --loss, --outage; then each profile is simulated.
#[derive(Args)]
pub(super) struct RecommendArgs {
    /// Median one-way latency of the links, for example 80ms
    #[arg(long, value_name = "DURATION", value_parser = api::duration::parse)]
    latency: Option<Duration>,
    /// The part of messages that is lost, for example 0.02 or 2%
    #[arg(long, value_name = "PART", value_parser = part)]
    loss: Option<f64>,
    /// Outages of each node: how often a day and how long, for example 2x45s; may be repeated
    #[arg(long, value_name = "NxDURATION", value_parser = outage)]
    outage: Vec<Outage>,
    /// What everything random follows from
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    api: ApiArgs,
    /// Watch heartbeats this long
    #[arg(long = "for", value_name = "DURATION", default_value = "1h", value_parser = api::duration::parse)]
    watch_for: Duration,
    /// How to say it
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    output: Format,
}

fn part(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 0.01));
    let part = number.parse::<f64>().map_err(|error| error.to_string())? * scale;
    if (0.0..1.0).contains(&part) { Ok(part) } else { Err("from 0 to less than 1, or a percentage".to_owned()) }
}

fn outage(text: &str) -> Result<Outage, String> {
    let rule = "how often a day and how long, for example 2x45s";
    let (count, length) = text.split_once('x').ok_or(rule)?;
    let per_day: f64 = count.parse().map_err(|_| rule)?;
    let length = api::duration::parse(length).map_err(|error| error.to_string())?;
    Ok(Outage { per_day, length: Length::Seconds(length.as_secs_f64()), scope: Scope::Node })
}

impl RecommendArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        if self.latency.is_none() && self.loss.is_none() && self.outage.is_empty() {
            return self.measured();
        }
        let latency = match self.latency {
            Some(median) => Latency::Lognormal { median: median.as_secs_f64(), sigma: 0.5 },
            None => Latency::default(),
        };
        let link = Link { latency, loss: self.loss.unwrap_or(0.0), burst: None };
        let scenarios = sim::candidates(&link, &self.outage, self.seed);
        for (_, scenario) in &scenarios {
            scenario.validate().map_err(Failure::usage)?;
        }
        let runs = simulate_all(&scenarios).map_err(Failure::bug)?;
        let choice = sim::choose(&runs);
        match self.output {
            Format::Json => print_json(&serde_json::json!({"recommendation": choice, "runs": runs})),
            Format::Table => {
                let rates: Vec<(Profile, f64)> =
                    Profile::ALL.into_iter().zip(runs.iter().map(|run| run.false_not_ready_per_node_day.mean)).collect();
                let verdict = verdict(choice.profile, choice.acceptable, &rates);
                let assumed = self.assumptions(&runs[0]);
                output::print(format!("{}\n{verdict}\n{assumed}\n", as_table(&runs)).as_bytes())
            }
        }
    }

    /// Returns what the simulation took for granted.
    fn assumptions(&self, run: &Output) -> String {
        let latency = match self.latency {
            Some(median) => format!("one-way latency with a median of {} (log-normal)", api::duration::format(median)),
            None => "no latency to speak of".to_owned(),
        };
        let loss = number(self.loss.unwrap_or(0.0) * 100.0);
        let outages = match self.outage.len() {
            0 => "no outages".to_owned(),
            1 => "one kind of outage, of single nodes".to_owned(),
            kinds => format!("{kinds} kinds of outages, of single nodes"),
        };
        format!(
            "assumed: {latency}; {loss} % of messages lost, each on its own; {outages}; {} nodes for {} days, seed {}",
            run.nodes, run.days, run.seed
        )
    }

    fn measured(&self) -> Result<(), Failure> {
        let gaps = block_on(self.watch())?;
        if gaps.gaps.is_empty() {
            return Err(Failure::no("no heartbeat was seen twice").hint("watch longer with --for"));
        }
        let recommendation = sim::recommend(&gaps);
        if self.output == Format::Json {
            return print_json(&recommendation);
        }
        let rates: Vec<(Profile, f64)> = recommendation
            .predictions
            .iter()
            .map(|prediction| (prediction.profile, prediction.false_not_ready_per_node_day))
            .collect();
        let rows: Vec<Vec<String>> = recommendation
            .predictions
            .iter()
            .map(|prediction| {
                let verdict = if prediction.acceptable { "good" } else { "too many" };
                vec![prediction.profile.to_string(), number(prediction.false_not_ready_per_node_day), verdict.to_owned()]
            })
            .collect();
        let text = format!(
            "{} heartbeats over {} node-days; {} % lost, {} outages, longest gap {} s\n\n{}\n{}\n",
            gaps.gaps.len(),
            number(gaps.node_days),
            number(recommendation.loss * 100.0),
            recommendation.outages,
            number(recommendation.longest_gap_seconds),
            table(&["PROFILE", "PREDICTED FALSE NOTREADY/NODE-DAY", ""], &[false, true, false], &rows),
            verdict(recommendation.profile, recommendation.acceptable, &rates),
        );
        let assumed = format!(
            "assumed: a gap of a few heartbeats ({} now) is independent loss, a longer one an outage; each node is like the others, \
             and what has not happened in {} node-days does not happen",
            api::duration::format(gaps.interval),
            number(gaps.node_days),
        );
        let text = format!("{text}{assumed}\n");
        output::print(text.as_bytes())
    }

    /// Measures the gaps between heartbeats.
    async fn watch(&self) -> Result<Gaps, Failure> {
        let api = self.api.client().await?;
        let (stop, clock) = (signals::stop_on_signal()?, Clock::system());
        let began = clock.now();
        let until = began + self.watch_for;
        eprintln!("watching heartbeats for {}; Ctrl-C ends it early", api::duration::format(self.watch_for));
        let mut leases = runtime::watch::<Lease>(&api.client, runtime::Scope::namespace("kube-node-lease"));
        let mut known: BTreeMap<String, (Option<api::Timestamp>, Option<Time>)> = BTreeMap::new();
        let (mut gaps, mut interval) = (Vec::new(), Duration::from_secs(10));
        loop {
            let seen = tokio::select! {
                () = stop.cancelled() => break,
                () = clock.sleep_until(Some(until)) => break,
                seen = leases.next() => seen,
            };
            let WatchEvent::Applied(lease) = seen else { continue };
            let (spec, now) = (&lease.view.spec, clock.now());
            if let Some(duration) = spec.duration() {
                interval = api::lease::interval_of(duration);
            }
            // The first sight of a Lease says nothing about when it was renewed.
            let entry = known.entry(lease.view.metadata.name.clone()).or_insert((spec.renew_time, None));
            if entry.0 != spec.renew_time {
                entry.0 = spec.renew_time;
                gaps.extend(entry.1.replace(now).map(|heard| now.since(heard)));
            }
        }
        let days = clock.now().since(began).as_secs_f64() / 86_400.0;
        Ok(Gaps { interval, node_days: days * known.len() as f64, gaps })
    }
}

/// Returns which profile it is, and why: its own rate, and that of the one before it, which would react more quickly.
fn verdict(profile: Profile, acceptable: bool, rates: &[(Profile, f64)]) -> String {
    let rate = |of: Profile| rates.iter().find(|(profile, _)| *profile == of).map_or(f64::NAN, |(_, rate)| *rate);
    let values = profile.values();
    let own = format!(
        "{} false NotReady per node and day (limit {}), pods of a dead node go after {} s",
        number(rate(profile)),
        number(sim::RATE_MAX),
        values.reaction_seconds()
    );
    if !acceptable {
        return format!("none is good enough; the fewest false alarms: {profile}\nwhy: {own}");
    }
    let before = Profile::ALL.into_iter().take_while(|other| *other != profile).last();
    let quicker = match before {
        Some(before) => format!("; {before} would give {}", number(rate(before))),
        None => "; no profile hears nodes more often".to_owned(),
    };
    format!("recommended: {profile}\nwhy: {own}{quicker}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_outages_are_read() {
        assert_eq!([part("2%"), part("0.5"), part("0")], [Ok(0.02), Ok(0.5), Ok(0.0)]);
        assert!(part("1").is_err() && part("150%").is_err() && part("x").is_err());
        assert_eq!(outage("2x45s").map(|outage| (outage.per_day, outage.length)), Ok((2.0, Length::Seconds(45.0))));
        assert!(outage("45s").is_err() && outage("ax45s").is_err() && outage("2xsoon").is_err());
    }
}
