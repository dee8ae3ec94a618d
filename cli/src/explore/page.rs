//! The files of the page. They are compiled into the program, so a path cannot reach any other file.

/// A file of the page: path, content type and text.
pub type PageFile = (&'static str, &'static str, &'static str);

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

macro_rules! files {
    ($($path:literal $kind:ident $file:literal;)*) => {
        pub const FILES: &[PageFile] = &[$(($path, $kind, include_str!(concat!("page/", $file))),)*];
    };
}

files! {
    "/" HTML "index.html";
    "/style.css" STYLE "style.css";
    "/icon.svg" PICTURE "icon.svg";
    "/main.js" SCRIPT "main.js";
    "/ask.js" SCRIPT "ask.js";
    "/dom.js" SCRIPT "dom.js";
    "/controls.js" SCRIPT "controls.js";
    "/search.js" SCRIPT "search.js";
    "/hit.js" SCRIPT "hit.js";
    "/reader.js" SCRIPT "reader.js";
    "/treemap.js" SCRIPT "treemap.js";
    "/why.js" SCRIPT "why.js";
    "/leaves.js" SCRIPT "leaves.js";
    "/state.js" SCRIPT "state.js";
    "/report.js" SCRIPT "report.js";
    "/teach.js" SCRIPT "teach.js";
}

/// The file at a path.
pub fn file(path: &str) -> Option<&'static PageFile> {
    FILES.iter().find(|(own, ..)| *own == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size limit of the page.
    const MOST_BYTES: usize = 200 << 10;

    #[test]
    fn the_page_is_light_and_asks_for_nothing_from_elsewhere() {
        let bytes: usize = FILES.iter().map(|(_, _, text)| text.len()).sum();
        assert!(bytes < MOST_BYTES, "{bytes} bytes");
        for (path, _, text) in FILES {
            // The name of a namespace is not fetched.
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for way in [
                "http://",
                "https://",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "eval(",
                "document.write",
            ] {
                assert!(!text.contains(way), "{path} has {way}");
            }
        }
        assert!(file("/../Cargo.toml").is_none() && file("").is_none());
    }
}
