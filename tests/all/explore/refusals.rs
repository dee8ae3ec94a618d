//! Which requests are accepted, and which are refused.

use std::net::TcpStream;

use serde_json::json;

use super::{Explorer, GETS, POSTS, filled};

#[test]
fn everything_of_the_index_needs_a_key_and_a_token_gives_one_once() {
    let flow = filled(12);
    let explorer = Explorer::new(&flow.index(), &["--judge"]);
    let host = format!("Host: {}", explorer.host());
    let json = "Content-Type: application/json";
    let keys = ["", "Authorization: Bearer ", "Authorization: Bearer 0", "Authorization: Basic eDp5"];
    let token = format!("Authorization: Bearer {}", explorer.token);
    // Every path without a key, and some with a wrong one.
    let (few_gets, few_posts) = (&GETS[..2], &POSTS[..2]);
    for (place, key) in keys.into_iter().chain([&*token]).enumerate() {
        let lines: Vec<&str> = [&*host, json, key].into_iter().filter(|line| !line.is_empty()).collect();
        for path in if place == 0 { &GETS } else { few_gets } {
            assert_eq!(explorer.send("GET", path, &lines, "").refused(401), "no_key", "{path}");
        }
        let posts = if place == 0 { &POSTS } else { few_posts };
        for path in posts.iter().chain(&["/api/nothing", "/nothing"]) {
            assert_eq!(explorer.send("POST", path, &lines, "{}").refused(401), "no_key", "{path}");
        }
    }
    for wrong in ["", "0", &explorer.token[1..], &explorer.token.to_uppercase()] {
        let body = json!({ "token": wrong }).to_string();
        assert_eq!(explorer.send("POST", "/api/session", &[&host, json], &body).refused(401), "no_token");
    }
    let session = explorer.begin();
    let again = json!({ "token": explorer.token }).to_string();
    assert_eq!(explorer.send("POST", "/api/session", &[&host, json], &again).refused(401), "no_token");
    assert_eq!(session.get("/api/about").ok()["documents"], 12);
    // The page itself is the same for everybody, and contains nothing of the index.
    let page = explorer.send("GET", "/", &[&host], "");
    assert_eq!(page.status, 200);
    for answer in [page, session.get("/api/about"), session.get("/nothing")] {
        let head = answer.head.to_lowercase();
        for line in [
            "content-security-policy: default-src 'none'; script-src 'self';",
            "require-trusted-types-for 'script'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ] {
            assert!(head.contains(line), "{line} is not in {head}");
        }
        assert!(!head.contains("access-control-allow") && !head.contains("set-cookie"), "{head}");
    }
}

#[test]
fn foreign_hosts_and_foreign_origins_are_refused() {
    let flow = filled(12);
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    let key = format!("Authorization: Bearer {}", session.key);
    let (host, port) = (format!("Host: {}", explorer.host()), explorer.port);
    for foreign in [
        "Host: attacker.example".to_owned(),
        format!("Host: attacker.example:{port}"),
        format!("Host: 127.0.0.1.attacker.example:{port}"),
        "Host: 127.0.0.1".to_owned(),
        format!("Host: 127.0.0.1:{}", port.wrapping_add(1)),
        format!("Host: 0.0.0.0:{port}"),
        format!("{host}\r\nHost: attacker.example"),
        "X-Host: none".to_owned(),
    ] {
        for path in ["/", "/api/about"] {
            let answer = explorer.send("GET", path, &[&foreign, &key], "");
            assert!(
                answer.status == 400 || answer.refused(403) == "foreign_host",
                "{foreign}: {}",
                answer.head
            );
            let named = format!("127.0.0.1:{port} and localhost:{port}");
            assert!(answer.status == 400 || answer.json()["message"].as_str().unwrap().contains(&named));
        }
    }
    let own = format!("Host: localhost:{port}");
    assert_eq!(explorer.send("GET", "/api/about", &[&own, &key], "").status, 200);
    for foreign in [
        "Origin: http://attacker.example".to_owned(),
        "Origin: null".to_owned(),
        format!("Origin: https://127.0.0.1:{port}"),
        format!("Origin: http://127.0.0.1:{}", port.wrapping_add(1)),
        format!("Origin: http://127.0.0.1:{port}.attacker.example"),
        "Sec-Fetch-Site: cross-site".to_owned(),
        "Sec-Fetch-Site: same-site".to_owned(),
        format!("Origin: http://127.0.0.1:{port}\r\nOrigin: http://attacker.example"),
    ] {
        for path in ["/api/search", "/api/session"] {
            assert_eq!(
                session.with("POST", path, &[&foreign], "{}").refused(403),
                "foreign_origin",
                "{foreign}"
            );
        }
        assert_eq!(session.with("GET", "/", &[&foreign], "").refused(403), "foreign_origin");
    }
    let origin = format!("Origin: http://127.0.0.1:{port}");
    let ask = json!({ "question": "tree", "k": 1 }).to_string();
    assert_eq!(
        session.with("POST", "/api/search", &[&origin, "Sec-Fetch-Site: same-origin"], &ask).status,
        200
    );
    // Nothing listens at another address of the machine.
    assert!(TcpStream::connect(("127.0.0.2", port)).is_err());
}

#[test]
fn a_link_on_another_page_leads_to_the_page_and_to_nothing_else() {
    let flow = filled(12);
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    let visit = |site, mode, dest| {
        [("Site", site), ("Mode", mode), ("Dest", dest)]
            .map(|(name, value)| format!("Sec-Fetch-{name}: {value}"))
    };
    let send = |method: &str, path: &str, lines: &[String]| {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        session.with(method, path, &lines, "")
    };
    let origin = |origin: String| {
        let mut lines = visit("cross-site", "navigate", "document").to_vec();
        lines.push(format!("Origin: {origin}"));
        lines
    };
    for site in ["cross-site", "same-site"] {
        let link = visit(site, "navigate", "document");
        assert_eq!(send("GET", "/", &link).status, 200, "{site}");
        for path in ["/main.js", "/style.css", "/api/about", "/nothing"] {
            assert_eq!(send("GET", path, &link).refused(403), "foreign_origin", "{site} {path}");
        }
        assert_eq!(send("POST", "/", &link).refused(403), "foreign_origin", "{site}");
        for (mode, dest) in [
            ("navigate", "iframe"),
            ("navigate", "frame"),
            ("navigate", "embed"),
            ("no-cors", "document"),
            ("no-cors", "script"),
            ("cors", "empty"),
        ] {
            let other = visit(site, mode, dest);
            assert_eq!(send("GET", "/", &other).refused(403), "foreign_origin", "{site} {mode} {dest}");
        }
    }
    for foreign in ["http://attacker.example".to_owned(), "null".to_owned()] {
        assert_eq!(send("GET", "/", &origin(foreign)).refused(403), "foreign_origin");
    }
    let mut twice = visit("cross-site", "navigate", "document").to_vec();
    twice.push("Sec-Fetch-Dest: iframe".to_owned());
    assert_eq!(send("GET", "/", &twice).refused(403), "foreign_origin");
}

#[test]
fn other_methods_paths_sizes_and_forms_are_refused() {
    let flow = filled(12);
    let explorer = Explorer::new(&flow.index(), &["--judge"]);
    let session = explorer.begin();
    for path in POSTS.into_iter().filter(|path| !GETS.contains(path)) {
        assert_eq!(session.get(path).refused(405), "other_method", "{path}");
    }
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
        assert_eq!(session.with(method, "/api/about", &[], "").refused(405), "other_method");
    }
    for path in [
        "/nothing",
        "/../Cargo.toml",
        "/..%2f..%2fetc%2fpasswd",
        "//etc/passwd",
        "/style.css/../../etc/passwd",
        "/index/CURRENT",
        "/api/../style.css",
        "/./",
        "/STYLE.CSS",
        "/%2e%2e/",
    ] {
        assert_eq!(session.get(path).refused(404), "no_such_path", "{path}");
    }
    for outside in ["../../etc/passwd", "/etc/passwd", "CURRENT", "doc-0001/../doc-0002"] {
        assert_eq!(session.post("/api/document", &json!({ "id": outside })).refused(404), "no_document");
    }
    assert_eq!(session.get("/api/about?x=1").refused(400), "bad_request");
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-8"] {
        let own = [
            format!("Host: {}", explorer.host()),
            format!("Authorization: Bearer {}", session.key),
            format!("Content-Type: {kind}"),
        ];
        let lines: Vec<&str> = own.iter().map(String::as_str).collect();
        assert_eq!(explorer.send("POST", "/api/search", &lines, "{}").refused(415), "not_json");
    }
    for body in
        ["", "{", "[]", "null", r#"{"question": 1, "k": 1}"#, r#"{"question": "x", "k": 1, "other": 1}"#]
    {
        assert_eq!(session.with("POST", "/api/search", &[], body).refused(400), "bad_request", "{body}");
    }
    let long = "x ".repeat(40 << 10);
    assert_eq!(session.search(&long).refused(413), "too_large");
    let line = format!("X-Long: {}", "x".repeat(20 << 10));
    assert_eq!(session.with("GET", "/api/about", &[&line], "").status, 431);
    let many: Vec<String> = (0..100).map(|number| format!("X-{number}: x")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(session.with("GET", "/api/about", &many, "").status, 431);
    assert_eq!(session.with("GET", "/api/about", &[], "").status, 200, "it is none the worse for it");
}
