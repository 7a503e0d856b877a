//! The terminal view: the rows of the page, in text. What keys do and what is drawn is decided here, without a terminal.
//!
//! Works at 80 columns and 24 lines and without colour: a failed attempt differs by its sign, not by its colour alone.

mod detail;
mod run;
mod screen;
mod table;
mod terminal;

pub use run::{TopConfig, run};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use crossterm::style::Color;
use machine::Time;
use screen::{Line, Screen, Span, Style, columns};
use view::{Delta, PodState};

/// What is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tab {
    #[default]
    Pods,
    Services,
    Nodes,
    Events,
}

const TABS: [(Tab, &str); 4] =
    [(Tab::Pods, "Pods"), (Tab::Services, "Services"), (Tab::Nodes, "Nodes"), (Tab::Events, "Events")];

/// Nothing in detail has more lines.
const SCROLL_MAX: usize = 500;

/// In which order pods are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    #[default]
    Problems,
    Name,
    Newest,
    Restarts,
}

impl Order {
    const fn word(self) -> &'static str {
        match self {
            Order::Problems => "problems first",
            Order::Name => "by name",
            Order::Newest => "newest first",
            Order::Restarts => "by restarts",
        }
    }

    const fn next(self) -> Order {
        match self {
            Order::Problems => Order::Name,
            Order::Name => Order::Newest,
            Order::Newest => Order::Restarts,
            Order::Restarts => Order::Problems,
        }
    }
}

/// What the user has chosen.
#[derive(Debug, Default)]
pub(crate) struct Top {
    tab: Tab,
    order: Order,
    filter: String,
    /// Whether keys are letters of the filter.
    typing: bool,
    /// Which row is chosen, and which is the first that is shown.
    selected: usize,
    first: usize,
    /// The key of what is shown in detail.
    open: Option<String>,
    scroll: usize,
    /// Whether colours are used.
    pub(crate) colour: bool,
    /// Where the API is.
    pub(crate) cluster: String,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Continue,
    Quit,
}

impl Top {
    /// Takes a key; `keys` are those of the rows that are listed.
    pub(crate) fn key(&mut self, key: KeyEvent, keys: &[String]) -> Flow {
        if key.modifiers.contains(KeyModifiers::CONTROL) && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Flow::Quit;
        }
        if self.typing {
            self.type_key(key.code);
            return Flow::Continue;
        }
        match key.code {
            KeyCode::Char('q') => return Flow::Quit,
            KeyCode::Esc if self.open.is_some() => self.open = None,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char(number @ '1'..='4') => self.choose(TABS[number as usize - '1' as usize].0),
            KeyCode::Tab | KeyCode::Right => self.choose(self.neighbour(1)),
            KeyCode::BackTab | KeyCode::Left => self.choose(self.neighbour(TABS.len() - 1)),
            KeyCode::Down | KeyCode::Char('j') => self.step(1, keys.len()),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1, keys.len()),
            KeyCode::PageDown => self.step(10, keys.len()),
            KeyCode::PageUp => self.step(-10, keys.len()),
            KeyCode::Home | KeyCode::Char('g') => self.step(i64::MIN, keys.len()),
            KeyCode::End | KeyCode::Char('G') => self.step(i64::MAX, keys.len()),
            KeyCode::Enter => {
                self.open = keys.get(self.selected).cloned();
                self.scroll = 0;
            }
            _ => {}
        }
        Flow::Continue
    }

    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => (self.typing, self.filter) = (false, String::new()),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.selected = 0;
    }

    fn neighbour(&self, step: usize) -> Tab {
        let at = TABS.iter().position(|(tab, _)| *tab == self.tab).unwrap_or(0);
        TABS[(at + step) % TABS.len()].0
    }

    fn choose(&mut self, tab: Tab) {
        (self.tab, self.open, self.scroll) = (tab, None, 0);
        self.selected = 0;
    }

    fn step(&mut self, by: i64, rows: usize) {
        let (place, last) = match self.open {
            Some(_) => (&mut self.scroll, SCROLL_MAX),
            None => (&mut self.selected, rows.saturating_sub(1)),
        };
        let [at, last] = [*place, last].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        *place = usize::try_from(at.saturating_add(by).clamp(0, last)).unwrap_or(0);
    }

    fn matches(&self, texts: &[&str]) -> bool {
        let all = texts.join(" ").to_lowercase();
        self.filter.to_lowercase().split_whitespace().all(|word| all.contains(word))
    }

    /// Returns the keys of the rows that are listed, in order.
    pub(crate) fn keys(&self, seen: &Delta) -> Vec<String> {
        table::keys(self, seen)
    }

    /// Draws everything: two lines of what is shown, the list or the object, and a line of what keys do.
    pub(crate) fn draw(&mut self, screen: &mut Screen, seen: &Delta, now: Time, problem: Option<&str>) {
        let (width, body) = (screen.width(), screen.height().saturating_sub(3));
        screen.put(0, 0, width, &self.headline(seen, problem));
        screen.put(0, 1, width, &self.tabs(seen));
        match self.open.clone() {
            Some(key) => {
                let lines = detail::lines(self, seen, &key, now, width);
                for (y, line) in lines.iter().skip(self.scroll).take(body).enumerate() {
                    screen.put(0, 2 + y, width, line);
                }
            }
            None => self.draw_table(screen, seen, now, body),
        }
        let keys = match (self.typing, self.open.is_some()) {
            (true, _) => "type to filter   Enter keep   Esc clear",
            (_, true) => "Esc back   Up/Down scroll   q quit",
            _ => "/ filter   s order   Enter open   Tab next list   q quit",
        };
        screen.put(0, 2 + body, width, &Line::from(Span::styled(keys, self.dim())));
    }

    fn draw_table(&mut self, screen: &mut Screen, seen: &Delta, now: Time, lines: usize) {
        let (titles, widths, rows) = table::rows(self, seen, now, screen.width());
        let columns = columns(&widths, screen.width());
        for (title, (x, room)) in titles.into_iter().zip(&columns) {
            screen.put(*x, 2, *room, &Line::from(Span::styled(title, self.dim())));
        }
        // The chosen row is always among those that are shown.
        let shown = lines.saturating_sub(1).max(1);
        self.selected = self.selected.min(rows.len().saturating_sub(1));
        self.first = self.first.clamp((self.selected + 1).saturating_sub(shown), self.selected);
        for (at, row) in rows.iter().enumerate().skip(self.first).take(shown) {
            let y = 3 + at - self.first;
            for (cell, (x, room)) in row.iter().zip(&columns) {
                screen.put(*x, y, *room, cell);
            }
            if at == self.selected {
                screen.reverse(y);
            }
        }
    }

    fn headline(&self, seen: &Delta, problem: Option<&str>) -> Line {
        let mut parts = vec![Span::styled("lifesign top", self.bold()), Span::raw("  ")];
        match problem {
            Some(problem) => parts.push(Span::styled(problem.to_owned(), self.tone(Color::DarkRed))),
            None => {
                let ready = seen.pods.put.iter().filter(|pod| pod.state == PodState::Ready).count();
                let sum = |count: fn(&view::ServiceRow) -> usize| seen.services.put.iter().map(count).sum::<usize>();
                let nodes = seen.nodes.put.iter().filter(|node| node.ready == "True").count();
                let text = format!(
                    "pods {ready}/{}  endpoints {} ready, {} draining  nodes {nodes}/{}  {}",
                    seen.pods.put.len(),
                    sum(|service| service.ready),
                    sum(|service| service.draining),
                    seen.nodes.put.len(),
                    self.cluster
                );
                parts.push(Span::raw(text));
            }
        }
        Line::from(parts)
    }

    fn tabs(&self, seen: &Delta) -> Line {
        let mut parts = Vec::new();
        for (number, (tab, title)) in TABS.into_iter().enumerate() {
            let count = match tab {
                Tab::Pods => seen.pods.put.len(),
                Tab::Services => seen.services.put.len(),
                Tab::Nodes => seen.nodes.put.len(),
                Tab::Events => seen.events.put.len(),
            };
            let text = format!("{} {title} {count}", number + 1);
            let here = tab == self.tab;
            parts.push(if here { Span::styled(format!("[{text}]"), self.bold()) } else { Span::raw(format!(" {text} ")) });
        }
        if self.typing || !self.filter.is_empty() {
            let cursor = if self.typing { "_" } else { "" };
            parts.push(Span::styled(format!("  /{}{cursor}", self.filter), self.tone(Color::DarkCyan)));
        } else if self.tab == Tab::Pods {
            parts.push(Span::styled(format!("  {}", self.order.word()), self.dim()));
        }
        Line::from(parts)
    }

    fn tone(&self, colour: Color) -> Style {
        Style { colour: self.colour.then_some(colour), ..Style::default() }
    }

    fn dim(&self) -> Style {
        Style { dim: self.colour, ..Style::default() }
    }

    fn bold(&self) -> Style {
        Style { bold: true, ..Style::default() }
    }
}

#[cfg(test)]
mod tests;
