//! The terminal view: the rows of the page, in text. What keys do and what is drawn is decided here, without a terminal.
//!
//! Works at 80 columns and 24 lines and without colour: a failed attempt differs by its sign, not by its colour alone.

mod detail;
mod run;
mod table;

pub use run::{TopConfig, run};

use machine::Time;
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table, TableState};
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
    table: TableState,
    /// The key of what is shown in detail.
    open: Option<String>,
    scroll: u16,
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
                self.open = keys.get(self.table.selected().unwrap_or(0)).cloned();
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
        self.table.select(Some(0));
    }

    fn neighbour(&self, step: usize) -> Tab {
        let at = TABS.iter().position(|(tab, _)| *tab == self.tab).unwrap_or(0);
        TABS[(at + step) % TABS.len()].0
    }

    fn choose(&mut self, tab: Tab) {
        (self.tab, self.open, self.scroll) = (tab, None, 0);
        self.table.select(Some(0));
    }

    fn step(&mut self, by: i64, rows: usize) {
        if self.open.is_some() {
            self.scroll = u16::try_from((i64::from(self.scroll)).saturating_add(by).clamp(0, 500)).unwrap_or(0);
            return;
        }
        let last = i64::try_from(rows.saturating_sub(1)).unwrap_or(0);
        let at = i64::try_from(self.table.selected().unwrap_or(0)).unwrap_or(0);
        self.table.select(usize::try_from(at.saturating_add(by).clamp(0, last)).ok());
    }

    fn matches(&self, texts: &[&str]) -> bool {
        let all = texts.join(" ").to_lowercase();
        self.filter.to_lowercase().split_whitespace().all(|word| all.contains(word))
    }

    /// Returns the keys of the rows that are listed, in order.
    pub(crate) fn keys(&self, seen: &Delta) -> Vec<String> {
        table::keys(self, seen)
    }

    /// Draws everything.
    pub(crate) fn draw(&mut self, frame: &mut Frame<'_>, seen: &Delta, now: Time, problem: Option<&str>) {
        let [head, tabs, body, foot] =
            Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)])
                .areas(frame.area());
        frame.render_widget(Paragraph::new(self.headline(seen, problem)), head);
        frame.render_widget(Paragraph::new(self.tabs(seen)), tabs);
        match self.open.clone() {
            Some(key) => {
                let lines = detail::lines(self, seen, &key, now, body.width);
                frame.render_widget(Paragraph::new(lines).scroll((self.scroll, 0)), body);
            }
            None => self.draw_table(frame, seen, now, body),
        }
        let keys = match (self.typing, self.open.is_some()) {
            (true, _) => "type to filter   Enter keep   Esc clear",
            (_, true) => "Esc back   Up/Down scroll   q quit",
            _ => "/ filter   s order   Enter open   Tab next list   q quit",
        };
        frame.render_widget(Paragraph::new(Span::styled(keys, self.dim())), foot);
    }

    fn draw_table(&mut self, frame: &mut Frame<'_>, seen: &Delta, now: Time, area: Rect) {
        let (titles, widths, rows) = table::rows(self, seen, now, area.width);
        let last = rows.len().saturating_sub(1);
        self.table.select(Some(self.table.selected().unwrap_or(0).min(last)));
        let head = Row::new(titles).style(self.dim());
        let chosen = Style::default().add_modifier(Modifier::REVERSED);
        let table = Table::new(rows, widths).header(head).row_highlight_style(chosen).column_spacing(1);
        frame.render_stateful_widget(table, area, &mut self.table);
    }

    fn headline(&self, seen: &Delta, problem: Option<&str>) -> Line<'static> {
        let mut parts = vec![Span::styled("lifesign top", self.bold()), Span::raw("  ")];
        match problem {
            Some(problem) => parts.push(Span::styled(problem.to_owned(), self.tone(Color::Red))),
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

    fn tabs(&self, seen: &Delta) -> Line<'static> {
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
            parts.push(Span::styled(format!("  /{}{cursor}", self.filter), self.tone(Color::Cyan)));
        } else if self.tab == Tab::Pods {
            parts.push(Span::styled(format!("  {}", self.order.word()), self.dim()));
        }
        Line::from(parts)
    }

    fn tone(&self, colour: Color) -> Style {
        if self.colour { Style::default().fg(colour) } else { Style::default() }
    }

    fn dim(&self) -> Style {
        if self.colour { Style::default().add_modifier(Modifier::DIM) } else { Style::default() }
    }

    fn bold(&self) -> Style {
        Style::default().add_modifier(Modifier::BOLD)
    }
}

#[cfg(test)]
mod tests;
