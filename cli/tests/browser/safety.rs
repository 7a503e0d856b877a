//! Texts of users stay text, and nobody else may look.

use serde_json::{Value, json};

use crate::driver::{Browser, http};
use crate::{PODS, Site, server};

const HOSTILE: &str = "<img src=x onerror='window.hit=1'><script>window.hit=2</script>\u{202e}\"'`${window.hit=3}";

pub(crate) fn hostile_texts_stay_text() {
    let site = Site::start();
    let mut pod = server("plain", "plain", &[]);
    pod["spec"]["containers"][0]["livenessProbe"] = json!({"exec": {"command": ["true", HOSTILE]}, "periodSeconds": 1});
    site.create(PODS, &pod);
    // The API refuses such a name for a pod; an event may speak of one.
    let mut named = server("plain", "plain", &[]);
    named["metadata"]["name"] = json!(HOSTILE);
    assert_eq!(site.call("POST", PODS, &named).0, 422);
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "hostile", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": HOSTILE}, "type": "Warning",
        "reason": HOSTILE, "message": HOSTILE, "lastTimestamp": "2031-01-01T00:00:00Z",
    });
    site.create("/api/v1/namespaces/default/events", &event);
    let about_pod = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "about-pod", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "plain"}, "type": "Warning", "reason": "Odd", "message": HOSTILE,
        "lastTimestamp": "2031-01-01T00:00:00Z",
    });
    site.create("/api/v1/namespaces/default/events", &about_pod);
    let browser = Browser::start(1200, 900);
    browser.open(&site.url());
    browser.until("the event", "document.querySelector('[data-event=\"default/hostile\"]') !== null");
    let text = browser.run("return document.querySelector('[data-event=\"default/hostile\"] p').textContent");
    assert_eq!(text, HOSTILE, "shown as it is");
    let about = browser.run("return document.querySelector('[data-event=\"default/hostile\"] .about').textContent");
    assert_eq!(about, format!("Pod default/{HOSTILE}"));
    browser.until("the pod", "document.querySelector('[data-pod=\"default/plain\"][data-state=ready]') !== null");
    browser.run("document.querySelector('[data-pod=\"default/plain\"]').click()");
    browser.until(
        "its probe",
        "[...document.querySelectorAll('#detail code')].some((code) => code.textContent.includes('onerror'))",
    );
    browser.until("its event", "document.querySelector('#detail [data-event] p') !== null");
    browser.until("the answer of why", "document.querySelector('#detail .answer b') !== null");
    let made = browser.run(
        "return [window.hit ?? null, document.querySelectorAll('main img, main script, dialog img, dialog script').length]",
    );
    assert_eq!(made, json!([null, 0]), "nothing of it became markup or ran");
    // Whoever forgets that finds that the browser refuses.
    let refused = browser
        .run("try { document.body['inner' + 'HTML'] = '<b>x</b>'; return 'accepted' } catch (error) { return error.name }");
    assert_eq!(refused, "TypeError");
}

pub(crate) fn a_wrong_token_a_foreign_host_and_a_foreign_origin_are_refused() {
    let site = Site::start();
    let url = site.url();
    let (address, token) = url.trim_start_matches("http://").split_once("/#").unwrap();
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let (good, own) = (format!("Bearer {token}"), format!("http://127.0.0.1:{port}"));
    let get = |path: &str, headers: &[(&str, &str)]| http(port, "GET", path, headers, &Value::Null).unwrap();
    assert_eq!(get("/stream", &[("Authorization", &good)]).0, 200);
    assert_eq!(get("/stream", &[("Authorization", &good), ("Origin", &own)]).0, 200);
    for path in ["/stream", "/detail?kind=pod&namespace=default&name=a"] {
        assert_eq!(get(path, &[]).0, 403, "{path} without a token");
        assert_eq!(get(path, &[("Authorization", "Bearer 0123")]).0, 403, "{path} with a wrong token");
    }
    for path in ["/", "/app.js", "/stream"] {
        assert_eq!(get(path, &[("Authorization", &good), ("Host", "evil.example")]).0, 403, "{path} of a foreign host");
        assert_eq!(
            get(path, &[("Authorization", &good), ("Origin", "http://evil.example")]).0,
            403,
            "{path} from a foreign origin"
        );
    }
    assert_eq!(http(port, "POST", "/stream", &[("Authorization", &good)], &Value::Null).unwrap().0, 405);
    assert_eq!(get("/detail?kind=secret&namespace=default&name=a", &[("Authorization", &good)]).0, 400);

    let browser = Browser::start(900, 700);
    browser.open(&format!("http://{address}/#wrong"));
    browser.until("that it has no access", "document.getElementById('live').textContent === 'no access'");
    assert_eq!(browser.run("return document.querySelectorAll('[data-pod], [data-node]').length"), 0);
}
