//! Where a field stands in the text of a document.

/// Returns the line of a field in a document, from 0; as near as its block style tells.
pub(super) fn line(text: &str, path: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return 0;
    }
    let (mut at, mut end, mut indent) = (0, lines.len(), None);
    for step in steps(path) {
        let found = match step {
            Step::Item(index) => item(&lines, at, end, index),
            Step::Member(key) => member(&lines, at, end, indent, key),
        };
        let Some((place, column)) = found else { return at };
        (at, indent) = (place, Some(column));
        end = (at + 1..end)
            .find(|line| matters(lines[*line]) && column_of(lines[*line]) < inner_end(lines[at], column))
            .unwrap_or(end);
    }
    at
}

enum Step<'a> {
    Member(&'a str),
    Item(usize),
}

/// Takes a path apart: `a.b[0]` and `annotations[example.com/key]`.
fn steps(path: &str) -> Vec<Step<'_>> {
    let mut found = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some((inner, after)) = rest.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            found.push(inner.parse().map_or(Step::Member(inner), Step::Item));
            rest = after;
        } else {
            let (step, after) = rest.split_at(rest[1..].find(['.', '[']).map_or(rest.len(), |end| end + 1));
            found.push(Step::Member(step.trim_start_matches('.')));
            rest = after;
        }
    }
    found
}

/// Returns the lines at which the items of a list begin, from 0; none if the style of the document does not tell.
pub(crate) fn items(text: &str, count: usize) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let Some(head) = lines.iter().position(|line| line.trim_end() == "items:") else { return Vec::new() };
    let column = lines[head + 1..].iter().find(|line| matters(line)).map_or(0, |line| column_of(line));
    let begins = |line: &&str| column_of(line) == column && line.trim_start().starts_with('-');
    let ends = |line: &&str| matters(line) && column_of(line) == 0 && !line.starts_with('-');
    let below = lines[head + 1..].iter().take_while(|line| !ends(line)).enumerate();
    let starts: Vec<usize> = below.filter(|(_, line)| begins(line)).map(|(place, _)| head + 1 + place).collect();
    if starts.len() == count { starts } else { Vec::new() }
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
        let text = "metadata:\n  annotations:\n    a: b\n    lifesign.dev/probes: x\nspec: {}\n";
        assert_eq!(line(text, "metadata.annotations[lifesign.dev/probes][app].readinessProbe"), 3);
        assert_eq!(line(text, "kind"), 0);
    }

    #[test]
    fn items_of_a_list_are_found_in_block_style() {
        let text = "kind: List\nitems:\n- kind: Pod\n  spec:\n    containers:\n    - name: a\n- kind: Pod\nmetadata: {}\n";
        assert_eq!(items(text, 2), [2, 6]);
        assert!(items(text, 3).is_empty());
        assert!(items("{\"items\": [1]}", 1).is_empty());
        assert_eq!(line("- kind: Pod\n  spec:\n    containers:\n    - name: a\n", "spec.containers[0]"), 3);
    }
}
