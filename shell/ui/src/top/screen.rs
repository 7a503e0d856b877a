//! What a terminal shows, as cells: texts with styles are put into it, and nothing is written anywhere.

use crossterm::style::Color;
use unicode_width::UnicodeWidthChar;

/// How a text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) colour: Option<Color>,
    pub(crate) bold: bool,
    pub(crate) dim: bool,
    pub(crate) reversed: bool,
}

/// Text of one style.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    text: String,
    style: Style,
}

impl Span {
    pub(crate) fn styled(text: impl Into<String>, style: Style) -> Span {
        Span { text: text.into(), style }
    }

    pub(crate) fn raw(text: impl Into<String>) -> Span {
        Span::styled(text, Style::default())
    }
}

/// A line, or what stands in one column of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) spans: Vec<Span>,
}

impl From<String> for Line {
    fn from(text: String) -> Line {
        Line::from(Span::raw(text))
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Line {
        Line::from(Span::raw(text))
    }
}

impl From<Span> for Line {
    fn from(span: Span) -> Line {
        Line { spans: vec![span] }
    }
}

impl From<Vec<Span>> for Line {
    fn from(spans: Vec<Span>) -> Line {
        Line { spans }
    }
}

/// How wide a column is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Width {
    Fixed(usize),
    /// What is left of the line goes to the last one of these.
    AtLeast(usize),
}

/// Returns where each column begins and how wide it is; there is a space between two.
pub(crate) fn columns(widths: &[Width], room: usize) -> Vec<(usize, usize)> {
    let least = |width: &Width| match width {
        Width::Fixed(width) | Width::AtLeast(width) => *width,
    };
    let used = widths.iter().map(least).sum::<usize>() + widths.len().saturating_sub(1);
    let widest = widths.iter().rposition(|width| matches!(width, Width::AtLeast(_)));
    let mut begin = 0;
    let place = |(at, width): (usize, &Width)| {
        let extra = if Some(at) == widest { room.saturating_sub(used) } else { 0 };
        let column = (begin, least(width) + extra);
        begin += column.1 + 1;
        column
    };
    widths.iter().enumerate().map(place).collect()
}

/// One place of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    /// `None`: the wide letter before it takes this place too.
    pub(super) letter: Option<char>,
    pub(super) style: Style,
}

const EMPTY: Cell = Cell { letter: Some(' '), style: Style { colour: None, bold: false, dim: false, reversed: false } };

/// What a terminal shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    width: usize,
    cells: Vec<Cell>,
}

impl Screen {
    pub(crate) fn new(width: u16, height: u16) -> Screen {
        let width = usize::from(width);
        Screen { width, cells: vec![EMPTY; width * usize::from(height)] }
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn height(&self) -> usize {
        self.cells.len().checked_div(self.width).unwrap_or(0)
    }

    /// Returns the cells of a line.
    pub(super) fn row(&self, y: usize) -> &[Cell] {
        &self.cells[y * self.width..][..self.width]
    }

    /// Puts a line somewhere; what does not fit is cut off.
    pub(crate) fn put(&mut self, x: usize, y: usize, room: usize, line: &Line) {
        if y >= self.height() {
            return;
        }
        let end = x.saturating_add(room).min(self.width);
        let row = &mut self.cells[y * self.width..][..self.width];
        let mut at = x;
        for span in &line.spans {
            for letter in span.text.chars() {
                let wide = letter.width().unwrap_or(0);
                // What has no width would change the letter before it, and a line must not depend on how a terminal shows that.
                if wide == 0 {
                    continue;
                }
                if at + wide > end {
                    return;
                }
                row[at] = Cell { letter: Some(letter), style: span.style };
                row[at + 1..at + wide].fill(Cell { letter: None, style: span.style });
                at += wide;
            }
        }
    }

    /// Shows a line the other way round, over its whole width.
    pub(crate) fn reverse(&mut self, y: usize) {
        let cells = self.cells.iter_mut().skip(y * self.width).take(self.width);
        cells.for_each(|cell| cell.style.reversed = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(screen: &Screen, y: usize) -> String {
        screen.row(y).iter().filter_map(|cell| cell.letter).collect()
    }

    #[test]
    fn what_does_not_fit_is_cut_off_also_in_the_middle_of_a_wide_letter() {
        let mut screen = Screen::new(6, 2);
        screen.put(1, 0, 3, &Line::from("abcdef"));
        assert_eq!(text(&screen, 0), " abc  ");
        screen.put(0, 1, 6, &Line::from("a\u{301}日本語"));
        assert_eq!(text(&screen, 1), "a日本 ", "a third one would take two places, and one is left");
        screen.put(5, 1, 9, &Line::from("xy"));
        assert_eq!(text(&screen, 1), "a日本x");
        screen.put(0, 2, 9, &Line::from("below"));
        screen.put(9, 0, 9, &Line::from("beside"));
        assert_eq!(text(&screen, 0), " abc  ");
    }

    #[test]
    fn what_is_left_of_a_line_goes_to_the_last_column_that_can_take_it() {
        let widths = [Width::AtLeast(4), Width::Fixed(3), Width::AtLeast(2)];
        assert_eq!(columns(&widths, 20), [(0, 4), (5, 3), (9, 11)]);
        assert_eq!(columns(&widths, 5), [(0, 4), (5, 3), (9, 2)]);
    }
}
