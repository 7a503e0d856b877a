//! Figures of docs/ui.md: the time to the first paint, and what an open page costs.

use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde_json::{Value, json};

use crate::driver::Browser;
use crate::{PODS, Site, keep, server, wait};

pub(crate) fn the_first_paint_is_quick() {
    let site = Site::start();
    site.create(PODS, &server("one", "one", &[]));
    let browser = Browser::start(1200, 900);
    browser.open(&site.url());
    browser.until("the pod", "document.querySelector('[data-pod]') !== null");
    let paint = browser.until("a paint", "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null");
    let bytes =
        browser.run("return performance.getEntriesByType('resource').reduce((sum, file) => sum + file.decodedBodySize, 0)");
    println!("first paint after {:.0} ms, files of {bytes} bytes", paint.as_f64().unwrap());
    // A busy machine may be slower than the 300 ms that a quiet one keeps.
    assert!(paint.as_f64().unwrap() < 2000.0, "{paint}");
}

/// How often the memory of the page is looked at.
const SAMPLES: u32 = 10;

/// Returns the CPU time of processes so far.
fn cpu(pids: &[i32]) -> Duration {
    let ticks = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<u64> =
            stat.rsplit(") ").next().unwrap_or_default().split(' ').map(|f| f.parse().unwrap_or(0)).collect();
        fields.get(11).copied().unwrap_or(0) + fields.get(12).copied().unwrap_or(0)
    };
    // Linux counts hundredths of a second here, whatever the kernel is built with.
    Duration::from_millis(10 * pids.iter().map(ticks).sum::<u64>())
}

/// Returns a process and everything below it.
fn family(root: i32) -> Vec<i32> {
    let mut all = vec![root];
    let mut next = 0;
    while next < all.len() {
        // Each thread has its own children.
        let threads = std::fs::read_dir(format!("/proc/{}/task", all[next])).into_iter().flatten().filter_map(Result::ok);
        let children = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")).unwrap_or_default());
        let children: String = children.collect::<Vec<_>>().join(" ");
        all.extend(children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        next += 1;
    }
    all
}

/// Measures for `LIFESIGN_MEASURE_SECONDS` with and without an open page; otherwise shortly, with fewer pods. The memory of the page is then
/// followed for `LIFESIGN_MEMORY_SECONDS`, or as long.
pub(crate) fn two_hundred_pods_cost_little() {
    let seconds = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok()).map(Duration::from_secs);
    let (pods, span) = seconds("LIFESIGN_MEASURE_SECONDS").map_or((20, Duration::from_secs(2)), |span| (200, span));
    let followed = seconds("LIFESIGN_MEMORY_SECONDS").unwrap_or(span);
    let site = Site::start();
    for n in 0..pods {
        site.create(PODS, &server(&format!("web-{n:03}"), "web", &[]));
    }
    let is_ready = |pod: &Value| crate::condition(pod, "Ready") == "True";
    let all_ready = |list: &Value| list["items"].as_array().is_some_and(|items| items.iter().all(is_ready));
    site.wait_for(PODS, "all ready", all_ready);
    let plane = [Pid::as_raw(Some(site.plane.pid()))];
    let share = |pids: &[i32]| {
        let (began, before) = (Instant::now(), cpu(pids));
        std::thread::sleep(span);
        100.0 * (cpu(pids) - before).as_secs_f64() / began.elapsed().as_secs_f64()
    };
    let without = share(&plane);
    let browser = Browser::start(1440, 900);
    browser.open(&site.url());
    browser.until("all pods", &format!("document.querySelectorAll('[data-pod][data-state=ready]').length === {pods}"));
    browser.until("attempts", "document.querySelectorAll('.strip svg path.good[d^=M]').length > 5");
    keep(&browser, "ui-many.png");
    let heap = || {
        browser.devtools("HeapProfiler.collectGarbage", &json!({}));
        format!("{:.1}", browser.run("return performance.memory.usedJSHeapSize").as_f64().unwrap() / 1e6)
    };
    let page: Vec<i32> = family(i32::try_from(browser.driver_pid()).unwrap());
    let (began, before) = (Instant::now(), (cpu(&plane), cpu(&page)));
    std::thread::sleep(span);
    let part = |now: Duration, then: Duration| 100.0 * (now - then).as_secs_f64() / began.elapsed().as_secs_f64();
    let (with, shown) = (part(cpu(&plane), before.0), part(cpu(&page), before.1));
    let mut memory = vec![heap()];
    for _ in 0..SAMPLES {
        std::thread::sleep(followed / SAMPLES);
        memory.push(heap());
    }
    println!(
        "{pods} pods, {span:?}: plane {without:.1} % of a core without a page, {with:.1} % with one, browser {shown:.1} %; \
         page memory over {followed:?}: {} MB",
        memory.join(", ")
    );
    wait("strips that go on", || browser.run("return document.getElementById('live').textContent") == "live");
}
