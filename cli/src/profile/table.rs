//! Tables for people.

/// Returns a table: columns as wide as they need to be, numbers to the right where `right` says so.
pub(super) fn table(head: &[&str], right: &[bool], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[column] - cell.chars().count());
            let cell = if right[column] { format!("{pad}{cell}") } else { format!("{cell}{pad}") };
            line.push_str(&cell);
            line.push_str("   ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns a number, or a dash where nothing was measured.
pub(super) fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), sim::number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["bbb".to_owned(), "1000".to_owned()]];
        assert_eq!(table(&["NAME", "N"], &[false, true], &rows), "NAME      N\na         1\nbbb    1000\n");
        assert_eq!([maybe(Some(12.34)), maybe(None)], ["12.3", "-"]);
    }
}
