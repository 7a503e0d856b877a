//! How the page is used: by keys, on a phone; and the pictures of the documents.

use serde_json::json;

use crate::driver::Browser;
use crate::{PODS, SERVICES, Site, keep, server, service};

const ENTER: &str = "\u{e007}";
const DOWN: &str = "\u{e015}";
const ESCAPE: &str = "\u{e00c}";

pub(crate) fn keys_filter_move_open_and_close() {
    let site = Site::start();
    for name in ["alpha", "beta-1", "beta-2"] {
        site.create(PODS, &server(name, name, &[]));
    }
    let browser = Browser::start(1200, 900);
    browser.open(&site.url());
    browser.until("the pods", "document.querySelectorAll('[data-pod][data-state=ready]').length === 3");
    browser.keys("/");
    browser.keys("beta");
    browser.until("two pods", "document.querySelectorAll('[data-pod]').length === 2");
    browser.keys(DOWN);
    browser.until("the first", "document.activeElement.dataset.pod === 'default/beta-1'");
    browser.keys(DOWN);
    browser.until("the second", "document.activeElement.dataset.pod === 'default/beta-2'");
    browser.keys(ENTER);
    browser.until("its details", "document.querySelector('#detail[open] header .name')?.textContent === 'beta-2'");
    browser.keys(ESCAPE);
    browser.until("no details", "!document.getElementById('detail').open");
    let theme = "document.documentElement.dataset.theme ?? 'auto'";
    browser.keys("t");
    browser.until("dark", &format!("({theme}) === 'dark'"));
    browser.keys("t");
    browser.until("light", &format!("({theme}) === 'light'"));
    assert_eq!(browser.run("return document.querySelectorAll('button:not([aria-label])').length > 0 && [...document.querySelectorAll('button')].every((button) => (button.getAttribute('aria-label') ?? button.textContent).trim() !== '')"), true);
}

pub(crate) fn a_phone_shows_one_section_at_a_time() {
    let site = Site::start();
    site.create(SERVICES, &service("web", "web"));
    site.create(PODS, &server("a-pod-with-a-very-long-name-that-must-not-make-the-page-wider-than-it-is", "web", &[]));
    let browser = Browser::start(1200, 900);
    browser.resize(390, 844);
    browser.open(&site.url());
    browser.until("the pod", "document.querySelector('[data-pod][data-state=ready]') !== null");
    for section in ["pods", "services", "nodes", "events"] {
        browser.run(&format!("document.querySelector('[data-tab={section}]').click()"));
        let shown = "[...document.querySelectorAll('main .card')].filter((card) => card.offsetParent !== null).map((card) => card.id).join()";
        browser.until(section, &format!("{shown} === '{section}'"));
        let wide = browser.run("return [document.documentElement.scrollWidth, innerWidth]");
        assert_eq!(wide[0], wide[1], "{section}: nothing is wider than the window");
    }
    browser.run("document.querySelector('[data-tab=pods]').click()");
    browser.run("document.querySelector('[data-pod]').click()");
    browser.until("the answer", "document.querySelector('#detail .answer b') !== null");
    let wide =
        browser.run("const box = document.getElementById('detail'); return [box.scrollWidth, box.clientWidth, innerWidth]");
    assert_eq!(wide, json!([wide[2], wide[2], wide[2]]), "the details are as wide as the window");
}

/// The pictures of docs/ui.md: `LIFESIGN_PICTURES=docs/images`, as an absolute path.
pub(crate) fn pictures_for_the_documents() {
    let site = Site::start();
    let shop = |name: &str, app: &str, arguments: &[&str]| site.create(PODS, &server(name, app, arguments));
    site.create(SERVICES, &service("cart", "cart"));
    site.create(SERVICES, &service("payments", "payments"));
    site.create(SERVICES, &service("search", "search"));
    for n in 1..=4 {
        shop(&format!("cart-{n}"), "cart", &["--listen-after", "300ms", "--drain", "30s"]);
    }
    shop("payments-1", "payments", &[]);
    shop("payments-2", "payments", &["--fail-after", "9s"]);
    shop("search-1", "search", &["--listen-after", "900ms"]);
    shop("search-2", "search", &["--status", "503"]);
    let mut broken = server("import", "import", &[]);
    broken["spec"]["containers"][0]["command"] = json!(["sh", "-c", "exit 3"]);
    site.create(PODS, &broken);
    let browser = Browser::start(1440, 900);
    browser.resize(1440, 900);
    browser.open(&site.url());
    browser.until("a failing pod", "document.querySelector('[data-pod=\"default/payments-2\"][data-state=notReady]') !== null");
    browser.until("attempts", "[...document.querySelectorAll('.strip svg')].some((strip) => Number(strip.ariaLabel?.match(/(\\d+) attempts/)?.[1]) > 20)");
    site.call("DELETE", &format!("{PODS}/cart-4"), &serde_json::Value::Null);
    browser.until("a draining endpoint", "document.querySelector('.cell.draining') !== null");
    let theme = |name: &str| browser.run(&format!("document.documentElement.dataset.theme = '{name}'"));
    theme("light");
    keep(&browser, "ui-light.png");
    theme("dark");
    keep(&browser, "ui-dark.png");
    browser.run("document.querySelector('[data-pod=\"default/payments-2\"]').click()");
    browser.until("the answer", "document.querySelector('#detail .answer b') !== null");
    keep(&browser, "ui-detail.png");
    browser.keys(ESCAPE);
    theme("light");
    browser.resize(390, 844);
    browser.until("a narrow page", "innerWidth === 390");
    keep(&browser, "ui-narrow.png");
}
