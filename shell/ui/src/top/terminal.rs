//! The terminal: taken over, given back whatever happens, and written to where what it shows has changed.

use std::io::{self, Stdout, Write};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::{Attribute, Print, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{execute, queue};

use super::screen::{Screen, Style};

/// The terminal of this process.
pub(super) struct Terminal {
    out: Stdout,
    shown: Screen,
}

impl Terminal {
    /// Takes the terminal over, until this is dropped. A panic gives it back before it says why.
    pub(super) fn open() -> io::Result<Terminal> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
        let terminal = Terminal { out: io::stdout(), shown: Screen::new(0, 0) };
        enable_raw_mode()?;
        execute!(&terminal.out, EnterAlternateScreen, Hide)?;
        Ok(terminal)
    }

    /// Draws a screen of the size that the terminal has now.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Screen)) -> io::Result<()> {
        let (width, height) = size()?;
        let mut screen = Screen::new(width, height);
        draw(&mut screen);
        if (self.shown.width(), self.shown.height()) != (screen.width(), screen.height()) {
            queue!(self.out, Clear(ClearType::All))?;
            self.shown = Screen::new(width, height);
        }
        write_changes(&mut self.out, &self.shown, &screen)?;
        self.out.flush()?;
        self.shown = screen;
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back; one that is gone needs nothing.
fn give_back() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Writes what makes a terminal that shows one screen show another one of the same size.
fn write_changes(out: &mut impl Write, before: &Screen, after: &Screen) -> io::Result<()> {
    let mut style = Style::default();
    for y in 0..after.height() {
        // Where the next letter would go without being told.
        let mut at = None;
        for (x, (old, new)) in before.row(y).iter().zip(after.row(y)).enumerate() {
            let Some(letter) = new.letter.filter(|_| old != new) else { continue };
            if at != Some(x) {
                queue!(out, MoveTo(column(x), column(y)))?;
            }
            if new.style != style {
                style = new.style;
                write_style(out, style)?;
            }
            queue!(out, Print(letter))?;
            let wide = 1 + after.row(y)[x + 1..].iter().take_while(|cell| cell.letter.is_none()).count();
            at = Some(x + wide);
        }
    }
    if style == Style::default() { Ok(()) } else { write_style(out, Style::default()) }
}

fn column(at: usize) -> u16 {
    u16::try_from(at).unwrap_or(u16::MAX)
}

fn write_style(out: &mut impl Write, style: Style) -> io::Result<()> {
    queue!(out, SetAttribute(Attribute::Reset))?;
    if let Some(colour) = style.colour {
        queue!(out, SetForegroundColor(colour))?;
    }
    let attributes = [(style.bold, Attribute::Bold), (style.dim, Attribute::Dim), (style.reversed, Attribute::Reverse)];
    for (_, attribute) in attributes.into_iter().filter(|(on, _)| *on) {
        queue!(out, SetAttribute(attribute))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crossterm::style::Color;

    use super::super::screen::{Line, Span};
    use super::*;

    fn changes(before: &Screen, after: &Screen) -> String {
        let mut out = Vec::new();
        write_changes(&mut out, before, after).unwrap();
        String::from_utf8(out).unwrap().replace('\u{1b}', "^")
    }

    #[test]
    fn only_what_has_changed_is_written() {
        let (empty, mut one) = (Screen::new(8, 2), Screen::new(8, 2));
        one.put(2, 1, 8, &Line::from("ab"));
        assert_eq!(changes(&empty, &one), "^[2;3Hab");
        assert_eq!(changes(&one, &one), "");
        let mut two = one.clone();
        two.put(3, 1, 8, &Line::from("c"));
        assert_eq!(changes(&one, &two), "^[2;4Hc");
        assert_eq!(changes(&two, &empty), "^[2;3H  ", "what is gone is written over");
    }

    #[test]
    fn a_style_is_set_where_it_begins_and_taken_back_at_the_end() {
        let (empty, mut one) = (Screen::new(8, 1), Screen::new(8, 1));
        let red = Style { colour: Some(Color::DarkRed), ..Style::default() };
        one.put(0, 0, 8, &Line::from(vec![Span::styled("ab", red), Span::raw("c")]));
        assert_eq!(changes(&empty, &one), "^[1;1H^[0m^[38;5;1mab^[0mc");
        let mut bold = Screen::new(8, 1);
        bold.put(0, 0, 8, &Line::from(Span::styled("a", Style { bold: true, ..Style::default() })));
        assert_eq!(changes(&empty, &bold), "^[1;1H^[0m^[1ma^[0m");
    }

    #[test]
    fn a_wide_letter_takes_two_places() {
        let (mut one, mut two) = (Screen::new(8, 1), Screen::new(8, 1));
        one.put(0, 0, 8, &Line::from("日x"));
        assert_eq!(changes(&Screen::new(8, 1), &one), "^[1;1H日x");
        two.put(0, 0, 8, &Line::from("abx"));
        assert_eq!(changes(&one, &two), "^[1;1Hab");
        assert_eq!(changes(&two, &one), "^[1;1H日");
    }
}
