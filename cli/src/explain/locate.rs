//! Where a field stands in the text of a document.

/// Returns the line of a field in a document, from 0; as near as its block style tells.
pub(super) fn line(text: &str, path: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let (mut at, mut end, mut indent) = (0, lines.len(), None);
    for step in path.replace('[', ".[").split('.').filter(|step| !step.is_empty()) {
        let found = match step.strip_prefix('[').and_then(|inner| inner.trim_end_matches(']').parse::<usize>().ok()) {
            Some(index) => item(&lines, at, end, index),
            None => member(&lines, at, end, indent, step.trim_start_matches('[').trim_end_matches(']')),
        };
        let Some((place, column)) = found else { return at };
        (at, indent) = (place, Some(column));
        end = (at + 1..end)
            .find(|line| matters(lines[*line]) && column_of(lines[*line]) < inner_end(lines[at], column))
            .unwrap_or(end);
    }
    at
}

fn matters(line: &str) -> bool {
    let trimmed = line.trim_start();
    !trimmed.is_empty() && !trimmed.starts_with('#')
}

fn column_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns the column from which lines belong to what begins at a line; items of a list may stand right below their key.
fn inner_end(line: &str, column: usize) -> usize {
    if line[column..].starts_with("- ") || line.trim_end().ends_with('-') { column + 1 } else { column }
}

fn member(lines: &[&str], at: usize, end: usize, below: Option<usize>, key: &str) -> Option<(usize, usize)> {
    (at..end).find_map(|place| {
        let line = lines[place];
        // A member may stand in the line of its item: `- name: x`.
        let inner = line.trim_start().trim_start_matches("- ");
        let column = line.len() - inner.len();
        let name = inner.split(':').next().unwrap_or_default().trim_matches(['"', '\'']);
        let deeper = below.is_none_or(|below| column > below || (place > at && column >= below));
        (name == key && inner.contains(':') && deeper && matters(line)).then_some((place, column))
    })
}

fn item(lines: &[&str], at: usize, end: usize, index: usize) -> Option<(usize, usize)> {
    let first = (at + 1..end).find(|place| lines[*place].trim_start().starts_with('-'))?;
    let column = column_of(lines[first]);
    let items = (first..end).filter(|place| {
        matters(lines[*place]) && column_of(lines[*place]) == column && lines[*place].trim_start().starts_with('-')
    });
    items.clone().nth(index).map(|place| (place, column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_block_style() {
        let text = "kind: Pod\nspec:\n  # two of them\n  containers:\n  - name: a\n    livenessProbe:\n      periodSeconds: 1\n  - name: b\n    livenessProbe:\n      httpGet: {port: 1}\n      periodSeconds: 2\n";
        assert_eq!(line(text, "spec.containers[0].livenessProbe.periodSeconds"), 6);
        assert_eq!(line(text, "spec.containers[1].livenessProbe"), 8);
        assert_eq!(line(text, "spec.containers[1].livenessProbe.periodSeconds"), 10);
        // What is not written leads to what is around it.
        assert_eq!(line(text, "spec.containers[1].readinessProbe"), 7);
        assert_eq!(line(text, "spec.selector"), 1);
    }
}
