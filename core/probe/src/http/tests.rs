use std::time::Duration;

use api::IntOrString;
use api::pod::HttpHeader;
use proptest::prelude::*;

use super::*;
use crate::outcome::{Cause, Outcome, Report};

fn action(path: &str, headers: &[(&str, &str)]) -> HttpGetAction {
    let http_headers =
        headers.iter().map(|(name, value)| HttpHeader { name: (*name).to_owned(), value: (*value).to_owned() }).collect();
    HttpGetAction { path: path.to_owned(), port: IntOrString::Int(8080), http_headers, ..HttpGetAction::default() }
}

fn request(action: &HttpGetAction) -> Result<Request, Report> {
    Request::new(action, &Target { pod_ip: Some("10.1.2.3"), ports: &[], version: "1.36" })
}

fn target(path: &str) -> String {
    request(&action(path, &[])).unwrap().url.target
}

#[test]
fn paths_are_asked_for_as_they_are_meant() {
    for (path, expected) in [
        ("", "/"),
        ("/a?", "/a?"),
        ("/a?x=%zz", "/a?x=%zz"),
        ("/a?x=1 2", "/a?x=1%202"),
        ("/ä", "/%C3%A4"),
        ("/a%2Fb c", "/a%2Fb%20c"),
        ("/a[0]\"", "/a[0]%22"),
        ("/a\nb?c", "/a%0Ab%3Fc"),
        ("/a#%zz", "/a%23%25zz"),
        ("//evil.example/x", "/x"),
        ("https://evil.example", "/"),
        ("health:check", "/health:check"),
    ] {
        assert_eq!(target(path), expected, "{path:?}");
    }
}

#[test]
fn a_location_leads_where_rfc_3986_says() {
    let base = request(&action("/a/b?q", &[])).unwrap().url;
    for (location, expected) in [
        ("c", "http://10.1.2.3:8080/a/c"),
        ("../../c", "http://10.1.2.3:8080/c"),
        ("./", "http://10.1.2.3:8080/a/"),
        ("?x=1", "http://10.1.2.3:8080/a/b?x=1"),
        ("#top", "http://10.1.2.3:8080/a/b?q"),
        ("//10.1.2.3/x", "http://10.1.2.3/x"),
        ("HTTPS://10.1.2.3:", "https://10.1.2.3/"),
        ("http://[FD00::7]:80/", "http://[FD00::7]:80/"),
    ] {
        assert_eq!(base.join(location).unwrap().0.to_string(), expected, "{location:?}");
    }
    for location in ["/%zz", "/a\r\nb", "http://[::1", "http://a b/", "http://h:x/", ":x", "1:2"] {
        assert!(base.join(location).is_err(), "{location:?}");
    }
}

#[test]
fn headers_that_would_break_the_request_are_not_sent() {
    let given = [("Content-Length", "5"), ("transfer-encoding", "chunked"), ("X-Ok", " v ")];
    let headers = request(&action("/", &given)).unwrap().headers;
    assert_eq!(headers[0], ("X-Ok".to_owned(), "v".to_owned()));
    assert!(headers.iter().all(|(name, _)| !name.eq_ignore_ascii_case("content-length")));
    let smuggled = request(&action("/", &[("X-A", "1\r\nX-B: 2")])).unwrap_err();
    assert_eq!(smuggled.outcome, Outcome::Failure);
    let bad_host = HttpGetAction { host: "a\r\nb".to_owned(), ..action("/", &[]) };
    assert_eq!(request(&bad_host).unwrap_err().outcome, Outcome::Failure);
}

#[test]
fn a_pod_without_an_address_is_not_at_fault() {
    let target = Target { pod_ip: None, ports: &[], version: "1.36" };
    assert_eq!(Request::new(&action("/", &[]), &target).unwrap_err().outcome, Outcome::Error);
}

#[test]
fn sni_is_sent_for_names_only() {
    let https = |host: &str| HttpGetAction { host: host.to_owned(), scheme: "HTTPS".to_owned(), ..action("/", &[]) };
    let name = |host: &str| request(&https(host)).unwrap().tls().unwrap().server_name;
    assert_eq!(name("shop.example"), Some("shop.example".to_owned()));
    assert_eq!((name(""), name("[fd00::7]")), (None, None));
    assert_eq!(request(&action("/", &[])).unwrap().tls(), None);
}

fn redirect(location: &str) -> HttpAnswer {
    HttpAnswer::Head { status: 302, location: Some(location.to_owned()) }
}

#[test]
fn a_chosen_host_survives_only_a_location_without_a_scheme() {
    let request = request(&action("/", &[("Host", "shop.example"), ("X-A", "1")])).unwrap();
    let mut exchange = Exchange::new(request, true, Duration::from_secs(1));
    assert_eq!(exchange.take(redirect("/a")), ExchangeStep::Send);
    assert_eq!(exchange.request().host, "shop.example");
    assert_eq!(exchange.take(redirect("http://10.1.2.3:9901/b")), ExchangeStep::Send);
    assert_eq!(exchange.request().host, "10.1.2.3:9901");
    assert_eq!(exchange.take(redirect("/c")), ExchangeStep::Send);
    assert_eq!(exchange.request().host, "10.1.2.3:9901");
    assert!(exchange.request().headers.contains(&("X-A".to_owned(), "1".to_owned())));
}

#[test]
fn rules_of_a_redirect_are_judged_in_order() {
    let outcome = |followed: usize, location: &str| {
        let mut exchange = Exchange::new(request(&action("/", &[])).unwrap(), false, Duration::from_secs(1));
        for _ in 0..followed {
            assert_eq!(exchange.take(redirect("/x")), ExchangeStep::Send);
        }
        match exchange.take(redirect(location)) {
            ExchangeStep::Done(report) => Some(report.outcome),
            _ => None,
        }
    };
    assert_eq!(outcome(9, "http://other.example/"), Some(Outcome::Warning));
    assert_eq!(outcome(9, "/x"), Some(Outcome::Failure));
    assert_eq!(outcome(0, "ftp://10.1.2.3/"), Some(Outcome::Failure));
    assert_eq!(outcome(0, "ftp://other.example/"), Some(Outcome::Warning));
    assert_eq!(outcome(0, "mailto:root"), Some(Outcome::Warning));
    assert_eq!(outcome(0, "http://other.example:99999/"), Some(Outcome::Warning));
    assert_eq!(outcome(0, "http://10.1.2.3:99999/"), Some(Outcome::Failure));
    assert_eq!(outcome(0, "https://10.1.2.3/"), None);
}

#[test]
fn a_retry_begins_at_the_first_url_and_the_third_error_is_final() {
    let mut exchange = Exchange::new(request(&action("/first", &[])).unwrap(), true, Duration::from_secs(1));
    assert_eq!(exchange.take(redirect("/second")), ExchangeStep::Send);
    let error = || HttpAnswer::Failed(Cause::Errno("EMFILE".into()));
    assert_eq!(exchange.take(error()), ExchangeStep::Send);
    assert_eq!(exchange.request().url.target, "/first");
    assert_eq!(exchange.take(error()), ExchangeStep::Send);
    assert!(matches!(exchange.take(error()), ExchangeStep::Done(report) if report.outcome == Outcome::Error));
}

#[test]
fn a_retry_has_all_its_redirects_again() {
    let mut exchange = Exchange::new(request(&action("/", &[])).unwrap(), true, Duration::from_secs(1));
    for _ in 0..2 {
        for _ in 0..9 {
            assert_eq!(exchange.take(redirect("/x")), ExchangeStep::Send);
        }
        assert_eq!(exchange.take(HttpAnswer::Failed(Cause::Errno("ENOBUFS".into()))), ExchangeStep::Send);
    }
}

#[test]
fn the_status_line_of_an_error_decides_whatever_the_body_does() {
    let mut exchange = Exchange::new(request(&action("/", &[])).unwrap(), true, Duration::from_secs(1));
    assert_eq!(exchange.take(HttpAnswer::Head { status: 500, location: None }), ExchangeStep::Read { max: 256 });
    let late = HttpAnswer::Failed(Cause::TimedOut { lag: Duration::from_secs(9) });
    assert!(matches!(exchange.take(late), ExchangeStep::Done(report) if report.outcome == Outcome::Failure));
}

#[test]
fn a_shown_body_is_short_and_has_no_control_characters() {
    let message = failure_message(503, Some(format!("a\n{}", "ä".repeat(300)).as_bytes()));
    assert!(message.contains("a ä") && message.len() < 330, "{message}");
    assert!(!message.chars().any(char::is_control));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::cases(256)))]

    #[test]
    fn whatever_is_written_as_path_the_request_line_is_well_formed(path in ".{0,40}") {
        let target = target(&path);
        prop_assert!(target.starts_with('/'));
        prop_assert!(target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#'), "{:?}", target);
    }

    #[test]
    fn no_location_leads_to_another_host(locations in prop::collection::vec("(https?:)?(//(10.1.2.3|h)(:[0-9]{1,5})?)?[a-z./?#%:@\\[\\]]{0,12}", 1..12)) {
        let mut exchange = Exchange::new(request(&action("/", &[])).unwrap(), true, Duration::from_secs(1));
        for location in locations {
            let step = exchange.take(redirect(&location));
            let url = &exchange.request().url;
            prop_assert_eq!(&url.host, "10.1.2.3");
            prop_assert!(url.target.starts_with('/') && !url.target.contains('#'));
            if matches!(step, ExchangeStep::Done(_)) {
                break;
            }
        }
    }
}
