//! What kubectl prints, without what differs from run to run; and command lines as words.

/// Splits a command line at blanks, but not between single quotes.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quoted, mut any) = (String::new(), false, false);
    for c in line.chars() {
        match c {
            '\'' => (quoted, any) = (!quoted, true),
            c if c.is_whitespace() && !quoted => {
                if any || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            c => word.push(c),
        }
    }
    if any || !word.is_empty() {
        words.push(word);
    }
    words
}

/// Tells the columns of a table apart by its head, and hides what differs from run to run.
pub(crate) fn table(text: &str) -> String {
    let mut lines = text.lines();
    let Some(head) = lines.next() else { return String::new() };
    let starts = column_starts(head);
    let split = |line: &str| -> Vec<String> {
        let characters: Vec<char> = line.chars().collect();
        let ends = starts.iter().skip(1).copied().chain([characters.len()]);
        let cell = |(start, end): (usize, usize)| {
            let end = end.min(characters.len());
            characters.get(start..end).unwrap_or_default().iter().collect::<String>().trim().to_owned()
        };
        starts.iter().copied().zip(ends).map(cell).collect()
    };
    let heads = split(head);
    let row = |line: &str| {
        let cells = split(line);
        heads.iter().zip(&cells).map(|(head, cell)| in_column(head, cell)).collect::<Vec<_>>().join(" | ")
    };
    std::iter::once(heads.join(" | ")).chain(lines.map(row)).collect::<Vec<_>>().join("\n")
}

/// Columns begin after three blanks; names of columns have one blank at most.
fn column_starts(head: &str) -> Vec<usize> {
    let characters: Vec<char> = head.chars().collect();
    let begins = |at: usize| characters[at] != ' ' && (at == 0 || (at >= 3 && characters[at - 3..at] == [' '; 3]));
    (0..characters.len()).filter(|at| begins(*at)).collect()
}

/// Hides ages, and the addresses and ports that are handed out.
fn in_column(head: &str, cell: &str) -> String {
    match (head, cell.split_once(':')) {
        ("CLUSTER-IP", _) if cell.parse::<std::net::IpAddr>().is_ok() => head.to_owned(),
        ("PORT(S)", Some((port, rest))) => {
            let (node_port, protocol) = rest.split_once('/').unwrap_or((rest, ""));
            assert!(node_port.parse::<u16>().is_ok_and(|port| port >= 30000), "{cell}");
            format!("{port}:NODE-PORT/{protocol}")
        }
        _ => without_age(cell),
    }
}

/// Hides ages.
pub(crate) fn without_age(cell: &str) -> String {
    let mut parts = cell.split_inclusive(['s', 'm', 'h', 'd', 'y']);
    let is_age = !cell.is_empty()
        && parts.all(|part| {
            part.len() > 1
                && part[..part.len() - 1].bytes().all(|byte| byte.is_ascii_digit())
                && !part.ends_with(|c: char| c.is_ascii_digit())
        });
    if is_age { "AGE".to_owned() } else { cell.to_owned() }
}
