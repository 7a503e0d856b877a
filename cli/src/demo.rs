//! `lifesign demo`: a tour of all four features on a temporary plane; every figure is measured while it runs.
//!
//! The plane and two further agents are processes of this binary on free ports and claimed addresses, so several demos run beside each
//! other. Whatever happens, they are stopped and their folder is removed.

mod game;
mod listen;
mod plane;
mod roll;
mod screen;
mod silence;
mod wait;

use std::time::Instant;

use clap::Args;

use crate::error::Failure;
use crate::logging::LogArgs;
use crate::{block_on, signals};
use plane::DemoPlane;
use screen::Screen;

/// How much faster the clocks of a plane run with `--fast`.
const FAST: u32 = 10;

/// Show all four features on a temporary plane, in about a minute
///
/// Needs no root, no cluster and no network, and leaves nothing behind. Every figure is measured while it runs: containers that are ready
/// when they listen, an idle game server that is scaled in first, a rolling update under load, and a node that falls silent.
#[derive(Args)]
pub(crate) struct DemoArgs {
    /// Let the clocks of the plane run ten times as fast, and ask fewer pods: for tests, its figures say little
    #[arg(long)]
    fast: bool,
}

impl DemoArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        LogArgs::from_environment().start("warn");
        block_on(async {
            let stop = signals::stop_on_signal()?;
            let screen = Screen::new();
            let mut plane = DemoPlane::new(if self.fast { FAST } else { 1 })?;
            let ended = tokio::select! {
                ended = tour(&mut plane, &screen) => ended,
                () = stop.cancelled() => Err(Failure::no("the demo was interrupted")),
            };
            screen.status("cleaning up");
            let stopped = plane.stop().await;
            screen.status("");
            ended.and(stopped)
        })
    }
}

async fn tour(plane: &mut DemoPlane, screen: &Screen) -> Result<(), Failure> {
    let began = Instant::now();
    screen.text(&format!(
        "Lifesign {}: a tour of its four features. Every figure is measured now, on this machine.",
        env!("CARGO_PKG_VERSION")
    ));
    screen.status("starting an API server, controllers and three nodes");
    plane.start().await?;
    plane.join("far", &[]).await?;
    // As a kubelet asks: once per period, whether or not anybody listens.
    plane.join("plain", &["--feature-gates=ProbeOnListen=false", "--second-look=false"]).await?;
    screen.text(&format!(
        "A plane with three nodes is up after {}; its pods are local processes.",
        screen::span(began.elapsed())
    ));
    if plane.speed() > 1 {
        screen.text(&format!("Its clocks run {} times as fast (--fast): these figures say little.", plane.speed()));
    }
    // It takes longest to be noticed, so it comes first and is looked at last.
    let silence = silence::begin(plane).await?;
    listen::show(plane, screen).await?;
    game::show(plane, screen).await?;
    roll::show(plane, screen).await?;
    silence.show(plane, screen).await?;
    screen.text(&format!("\nThat took {}. Now with something of yours:", screen::span(began.elapsed())));
    screen.text("   lifesign up -f examples/fast-ready.yaml      a plane that stays, for kubectl and every other client");
    screen.text("   lifesign explain -f your-manifest.yaml       what its probes will do");
    Ok(())
}
