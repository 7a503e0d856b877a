//! The loop of the terminal: keys in, frames out, a few times a second.

use std::io;
use std::time::Duration;

use crossterm::event::{self, Event, KeyEventKind};
use machine::Time;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use view::Delta;

use super::terminal::Terminal;
use super::{Flow, Top};
use crate::shared::Shared;

/// How often the screen is drawn without keys.
const PERIOD: Duration = Duration::from_millis(500);
/// How long one look for a key takes; then it is seen whether all is over.
const KEY_WAIT: Duration = Duration::from_millis(100);
/// Keys that may wait: nobody types faster than a screen is drawn for long.
const KEYS_MAX: usize = 64;

/// What is shown beside the board.
#[derive(Clone, Debug)]
pub struct TopConfig {
    /// Where the API is, for people.
    pub cluster: String,
    /// Whether colours are used.
    pub colour: bool,
}

/// Draws on the terminal until the user quits or all is over.
pub async fn run(shared: Shared, config: TopConfig, stop: CancellationToken) -> io::Result<()> {
    let viewer = shared.view(usize::MAX);
    let terminal = Terminal::open()?;
    let keys = read_keys(stop.clone());
    let result = draw_all(terminal, &shared, config, keys, &stop).await;
    stop.cancel();
    drop(viewer);
    result
}

fn read_keys(stop: CancellationToken) -> mpsc::Receiver<Event> {
    let (sender, keys) = mpsc::channel(KEYS_MAX);
    // The terminal can only be waited for in a thread.
    std::thread::spawn(move || {
        while !stop.is_cancelled() {
            match event::poll(KEY_WAIT).and_then(|ready| if ready { event::read().map(Some) } else { Ok(None) }) {
                Ok(Some(event)) => {
                    if sender.blocking_send(event).is_err() {
                        return;
                    }
                }
                Ok(None) => {}
                Err(_) => return,
            }
        }
    });
    keys
}

async fn draw_all(
    mut terminal: Terminal,
    shared: &Shared,
    config: TopConfig,
    mut keys: mpsc::Receiver<Event>,
    stop: &CancellationToken,
) -> io::Result<()> {
    let mut top = Top { colour: config.colour, cluster: config.cluster, ..Top::default() };
    loop {
        let (seen, now) = look(shared);
        terminal.draw(|screen| top.draw(screen, &seen, now, problem(shared, now).as_deref()))?;
        let event = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            event = keys.recv() => match event {
                Some(event) => event,
                // The terminal is gone.
                None => return Ok(()),
            },
            () = tokio::time::sleep(PERIOD) => continue,
        };
        if let Event::Key(key) = event
            && key.kind == KeyEventKind::Press
            && top.key(key, &top.keys(&seen)) == Flow::Quit
        {
            return Ok(());
        }
    }
}

fn look(shared: &Shared) -> (Delta, Time) {
    let now = shared.now();
    (shared.board().delta(now, None), now)
}

fn problem(shared: &Shared, now: Time) -> Option<String> {
    let (since, why) = shared.unanswered()?;
    Some(format!("no answer of the API server for {} s: {why}", now.since(since).as_secs()))
}
