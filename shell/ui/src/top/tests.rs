use std::sync::Arc;

use api::Timestamp;
use serde_json::{Value, json};
use view::{AgentReport, Board, Fact, Limits, Origin};

use super::*;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).expect("a view of this object"))
}

fn pod(name: &str, ready: bool) -> Fact {
    let condition = json!({"type": "Ready", "status": if ready { "True" } else { "False" }, "reason": if ready { "" } else { "ContainersNotReady" }});
    Fact::Pod(read(json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": "1970-01-01T00:00:40Z"},
        "spec": {"nodeName": "n1", "containers": [{"name": "app", "readinessProbe": {"httpGet": {"port": 8080, "path": "/"}}}]},
        "status": {"phase": "Running", "conditions": [condition]},
    })))
}

const NOW: Time = Time::from_secs(100);

fn seen() -> Delta {
    let mut board = Board::new(Limits::default());
    let stamp = |ms: i64| Timestamp(Time::from_millis(ms)).micro();
    let outcomes = json!([
        {"began": stamp(95_000), "ended": stamp(95_000), "outcome": "success"},
        {"began": stamp(96_000), "ended": stamp(96_020), "outcome": "success"},
        {"began": stamp(97_000), "ended": stamp(97_001), "outcome": "failure", "message": "HTTP probe failed\u{1b}[2J with statuscode: 503"},
    ]);
    let report = json!({"workers": [{"uid": "web-2", "container": "app", "probe": "Readiness", "outcomes": outcomes}]});
    let facts = [
        pod("web-1", true),
        pod("web-2", false),
        Fact::Service(read(
            json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"clusterIP": "10.0.0.9", "ports": [{"port": 80}]}}),
        )),
        Fact::Node(read(json!({"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}))),
        Fact::Lease(read(
            json!({"metadata": {"name": "n1"}, "spec": {"leaseDurationSeconds": 40, "renewTime": "1970-01-01T00:01:36Z"}}),
        )),
        Fact::Event(read(
            json!({"metadata": {"name": "e", "namespace": "shop"}, "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web-2"}, "type": "Warning", "reason": "Unhealthy", "message": "Readiness probe failed", "lastTimestamp": "1970-01-01T00:01:37Z"}),
        )),
        Fact::Report(Arc::new(AgentReport::read(&report))),
    ];
    for fact in facts {
        board.apply(NOW, Origin::Listed, fact);
    }
    board.delta(NOW, None)
}

fn screen(top: &mut Top, width: u16, height: u16) -> Vec<String> {
    let mut screen = Screen::new(width, height);
    top.draw(&mut screen, &seen(), NOW, None);
    let line = |y| screen.row(y).iter().filter_map(|cell| cell.letter).collect::<String>();
    (0..usize::from(height)).map(|y| line(y).trim_end().to_owned()).collect()
}

fn press(top: &mut Top, codes: &[KeyCode]) -> Flow {
    let keys = |top: &Top| top.keys(&seen());
    let mut flow = Flow::Continue;
    for code in codes {
        let rows = keys(top);
        flow = top.key(KeyEvent::from(*code), &rows);
    }
    flow
}

#[test]
fn pods_are_listed_with_their_attempts_problems_first() {
    let lines = screen(&mut Top { cluster: "https://x".to_owned(), ..Top::default() }, 80, 24);
    assert_eq!(lines[0], "lifesign top  pods 1/2  endpoints 0 ready, 0 draining  nodes 1/1  https://x");
    assert_eq!(lines[1], "[1 Pods 2] 2 Services 1  3 Nodes 1  4 Events 1   problems first");
    assert_eq!(lines[3], "ContainersNotReady shop/web-2                    ▁▄x              0        1m");
    assert!(lines[4].starts_with("Ready              shop/web-1"), "{}", lines[4]);
    assert_eq!(lines[23], "/ filter   s order   Enter open   Tab next list   q quit");
    assert!(lines.iter().all(|line| line.chars().count() <= 80));
}

#[test]
fn without_colour_there_is_none() {
    let colours = |colour: bool| {
        let mut screen = Screen::new(80, 24);
        Top { colour, ..Top::default() }.draw(&mut screen, &seen(), NOW, None);
        (0..24).any(|y| screen.row(y).iter().any(|cell| cell.style.colour.is_some()))
    };
    assert!(!colours(false));
    assert!(colours(true));
}

#[test]
fn a_filter_is_typed_kept_and_cleared() {
    let mut top = Top::default();
    press(
        &mut top,
        &[KeyCode::Char('/'), KeyCode::Char('q'), KeyCode::Backspace, KeyCode::Char('-'), KeyCode::Char('1'), KeyCode::Enter],
    );
    assert_eq!(top.keys(&seen()), ["shop/web-1"]);
    assert!(screen(&mut top, 80, 24)[1].ends_with("/-1"));
    press(&mut top, &[KeyCode::Esc]);
    assert_eq!(top.keys(&seen()).len(), 2);
    assert_eq!(press(&mut top, &[KeyCode::Char('q')]), Flow::Quit);
}

#[test]
fn a_pod_is_opened_and_its_texts_cannot_move_the_cursor() {
    let mut top = Top::default();
    press(&mut top, &[KeyCode::Enter]);
    let lines = screen(&mut top, 80, 40);
    assert_eq!(lines[2], "pod shop/web-2: NotReady ContainersNotReady");
    assert!(lines.iter().any(|line| line == "  HTTP probe failed [2J with statuscode: 503"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("Readiness of app: GET :8080/")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("3s Unhealthy Readiness probe failed")), "{lines:#?}");
    press(&mut top, &[KeyCode::Esc, KeyCode::Down, KeyCode::Enter]);
    let lines = screen(&mut top, 80, 40);
    assert!(lines.iter().any(|line| line.contains("no agent of Lifesign tells its attempts")), "{lines:#?}");
}

#[test]
fn nodes_services_and_events_have_lists_of_their_own() {
    let mut top = Top::default();
    press(&mut top, &[KeyCode::Char('3')]);
    let nodes = screen(&mut top, 80, 24);
    assert_eq!(nodes[3], "Ready              n1               4s        50s?   4       1/2");
    press(&mut top, &[KeyCode::Left]);
    assert!(screen(&mut top, 80, 24)[3].contains("10.0.0.9 80/TCP"));
    press(&mut top, &[KeyCode::Char('4'), KeyCode::Enter]);
    assert!(screen(&mut top, 80, 24)[5].contains("Readiness probe failed"));
}

#[test]
fn the_chosen_row_is_shown_and_the_other_way_round() {
    let mut top = Top::default();
    let reversed = |top: &mut Top, height: u16| {
        let mut screen = Screen::new(80, height);
        top.draw(&mut screen, &seen(), NOW, None);
        let shown = (0..usize::from(height)).filter(|y| screen.row(*y).iter().all(|cell| cell.style.reversed));
        let text = |y| screen.row(y).iter().filter_map(|cell| cell.letter).collect::<String>();
        shown.map(|y| (y, text(y).contains("web-1"))).collect::<Vec<_>>()
    };
    assert_eq!(reversed(&mut top, 24), [(3, false)]);
    press(&mut top, &[KeyCode::Down, KeyCode::Down]);
    assert_eq!(reversed(&mut top, 24), [(4, true)]);
    assert_eq!(reversed(&mut top, 5), [(3, true)], "where there is room for one row it is this one");
    press(&mut top, &[KeyCode::Home]);
    assert_eq!(reversed(&mut top, 5), [(3, false)]);
}

#[test]
fn a_tiny_terminal_is_no_reason_to_panic() {
    for (width, height) in [(0, 0), (1, 1), (10, 3), (40, 6), (300, 80)] {
        screen(&mut Top::default(), width, height);
    }
}

#[test]
fn the_end_of_a_long_name_is_kept() {
    assert_eq!(table::shortened("shop/web-2", 20), "shop/web-2");
    let name = table::shortened("default/game-server-5d5d6c7947-x2vqz", 29);
    assert_eq!(name.chars().count(), 29);
    assert!(name.ends_with("-x2vqz") && name.starts_with("default/game"), "{name}");
}
