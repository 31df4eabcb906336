//! Opens pages from disk in a real browser.
//!
//! Needs Chromium or Chrome on the path. Without one, each test prints a notice and passes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Only one browser runs at a time: browsers are large, and the machine may be small.
static TURN: Mutex<()> = Mutex::new(());

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    // The first has no windows and starts in half the time.
    let names = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
    let found =
        std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name))).find(|file| file.is_file());
    if found.is_none() {
        eprintln!("\nSKIPPED: no chromium (looked for {names:?} on the path)\n");
    }
    found
}

/// The result of opening a page.
pub(crate) struct Visit {
    /// Standard output: the DOM with `--dump-dom`.
    pub(crate) out: String,
    /// Messages of the page's console, including violations of its security policy.
    pub(crate) said: String,
    /// Network addresses that the page requested.
    pub(crate) requests: Vec<String>,
}

/// Opens a page from disk. Returns `None` without a browser.
pub(crate) fn visit(page: &str, hash: &str, arguments: &[String]) -> Option<Visit> {
    let browser = browser()?;
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("page.html");
    fs::write(&file, page).expect("the page is written");
    let [out, err, net] = ["out", "err", "net"].map(|name| folder.path().join(name));
    let create = |path: &Path| Stdio::from(File::create(path).expect("a file for output"));
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--hide-scrollbars", "--virtual-time-budget=5000", "--enable-logging=stderr"])
        .arg(format!("--log-net-log={}", net.display()))
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .args(arguments)
        .arg(format!("file://{}#{hash}", file.display()))
        .stdin(Stdio::null())
        .stdout(create(&out))
        .stderr(create(&err))
        .spawn()
        .expect("the browser starts");
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("the browser can be waited for") {
            break status;
        }
        if start.elapsed() > Duration::from_secs(120) {
            child.kill().expect("the browser can be ended");
            child.wait().expect("the browser ends");
            panic!("the browser took more than two minutes");
        }
        sleep(Duration::from_millis(50));
    };
    let err = String::from_utf8_lossy(&fs::read(err).unwrap_or_default()).into_owned();
    assert!(status.success(), "{err}");
    let messages: Vec<&str> = err.lines().filter(|line| line.contains("CONSOLE")).collect();
    let net = String::from_utf8_lossy(&fs::read(net).expect("a log of the network")).into_owned();
    Some(Visit {
        out: fs::read_to_string(out).expect("the output is text"),
        said: messages.join("\n"),
        requests: requests(&net),
    })
}

/// Returns the addresses that a page requested, from a network log. The browser's own requests have another traffic
/// annotation.
fn requests(log: &str) -> Vec<String> {
    // The annotation of Chromium's resource loader for pages, `blink_resource_loader`.
    const OF_PAGES: &str = "\"traffic_annotation\":101845102,\"url\":\"";
    log.split(OF_PAGES).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

/// Opens a page from disk and returns the browser's output: the DOM, unless `arguments` ask for a picture. Returns
/// `None` without a browser.
pub(crate) fn open(page: &str, hash: &str, arguments: &[String]) -> Option<String> {
    visit(page, hash, arguments).map(|visit| visit.out)
}

pub(crate) fn dom(page: &str, hash: &str) -> Option<String> {
    open(page, hash, &["--dump-dom".to_owned(), "--window-size=1240,1850".to_owned()])
}

/// Returns the text between two markers.
pub(crate) fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("no {from} in the page"));
    rest.split_once(to).unwrap_or_else(|| panic!("no {to} after {from}")).0
}

/// Returns the page without its content security policy, so that a test can add a script.
pub(crate) fn without_policy(page: &str) -> String {
    let policy = between(page, "<meta http-equiv", ">");
    page.replace(&format!("<meta http-equiv{policy}>"), "")
}

/// Opens all pages in one run of the browser, each in a frame of this width, and runs its script when it has loaded.
/// Returns the texts that the scripts push to `log`; `$` and `all` find elements. Returns `None` without a browser.
pub(crate) fn run_in_frames(pages: &[(String, String)], width: usize) -> Option<Vec<Vec<String>>> {
    let frames: Vec<String> = pages
        .iter()
        .map(|(page, script)| {
            let script = format!(
                "<script>addEventListener('load', async () => {{ const log = []; const $ = q => document.querySelector(q);\n\
                 const all = q => [...document.querySelectorAll(q)]; try {{ {script}\n }} catch (e) {{ log.push(`failed: ${{e.stack}}`); }}\n\
                 parent.finished(log.map(String)); }});</script></body>"
            );
            without_policy(page).replace("</body>", &script)
        })
        .collect();
    let frames = serde_json::to_string(&frames).expect("texts").replace('<', "\\u003c");
    let page = format!(
        "<!doctype html><html><head><meta charset=\"utf-8\"></head><body><script type=\"application/json\" \
         id=\"frames\">{frames}</script><script>\n\
         const logs = [], frames = JSON.parse(document.getElementById('frames').textContent);\n\
         const next = () => {{ document.querySelector('iframe')?.remove();\n\
           if (logs.length === frames.length) {{ document.getElementById('frames').remove(); const out = document.createElement('pre'); out.id = \
           'log'; out.textContent = JSON.stringify(logs); document.body.append(out); return; }}\n\
           const frame = document.createElement('iframe'); frame.width = {width}; frame.height = 800; frame.srcdoc = frames[logs.length];\n\
           document.body.append(frame); }};\n\
         globalThis.finished = log => {{ logs.push(log); setTimeout(next, 0); }}; next();</script></body></html>"
    );
    let dom = open(&page, "", &["--dump-dom".to_owned(), "--window-size=1400,900".to_owned()])?;
    let log = between(&dom, "<pre id=\"log\">", "</pre>");
    let log = log.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}").replace("&amp;", "&");
    Some(serde_json::from_str(&log).expect("lists of texts"))
}
