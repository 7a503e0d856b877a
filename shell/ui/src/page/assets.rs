//! The files of the page, as they are in this repository.

/// Path, type and content of a file.
pub(super) type Asset = (&'static str, &'static str, &'static str);

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Every file.
pub(super) const ASSETS: &[Asset] = &[
    ("/", "text/html; charset=utf-8", include_str!("../../assets/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("../../assets/style.css")),
    ("/icon.svg", "image/svg+xml", include_str!("../../assets/icon.svg")),
    ("/app.js", SCRIPT, include_str!("../../assets/app.js")),
    ("/cards.js", SCRIPT, include_str!("../../assets/cards.js")),
    ("/charts.js", SCRIPT, include_str!("../../assets/charts.js")),
    ("/detail.js", SCRIPT, include_str!("../../assets/detail.js")),
    ("/dom.js", SCRIPT, include_str!("../../assets/dom.js")),
    ("/pods.js", SCRIPT, include_str!("../../assets/pods.js")),
    ("/state.js", SCRIPT, include_str!("../../assets/state.js")),
    ("/stream.js", SCRIPT, include_str!("../../assets/stream.js")),
];

#[cfg(test)]
mod tests {
    use super::ASSETS;

    #[test]
    fn the_page_is_small_and_asks_nobody_else() {
        assert!(ASSETS.iter().map(|(_, _, text)| text.len()).sum::<usize>() < 150 * 1024);
        for (path, _, text) in ASSETS {
            // The one address in it is the name of SVG.
            let foreign = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!foreign.contains("://"), "{path} names another address");
        }
    }

    #[test]
    fn texts_never_become_markup() {
        for (path, _, text) in ASSETS {
            let name = |words: [&str; 2]| words.concat();
            for way in [["inner", "HTML"], ["outer", "HTML"], ["insertAdjacent", "HTML"], ["document.", "write"], ["ev", "al("]]
            {
                assert!(!text.contains(&name(way)), "{path}: {}", name(way));
            }
        }
    }
}
