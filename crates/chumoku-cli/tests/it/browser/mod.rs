//! Chromium, controlled by keyboard: what a tab shows, what it reports, and what it requests from the network.
//!
//! The browser receives commands through a pipe (the DevTools protocol over file descriptors 3 and 4), so it opens no
//! port.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "shared by tests")]

use crate::common::TIMEOUT;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Allows one browser at a time: a browser needs much memory, and the machine may be small.
static BROWSER_LOCK: Mutex<()> = Mutex::new(());

/// A browser with one tab; closed on drop.
pub struct Browser {
    child: Child,
    commands: File,
    messages: Receiver<Value>,
    session: String,
    last_id: u64,
    /// All unsolicited messages of the tab.
    pub events: Vec<Value>,
    pub folder: tempfile::TempDir,
    _lock: MutexGuard<'static, ()>,
}

fn find_browser() -> Option<PathBuf> {
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

impl Browser {
    /// Starts a browser in this language with an empty tab. Returns `None` if no browser is installed.
    pub fn start(language: &str) -> Option<Browser> {
        let program = find_browser()?;
        let turn = BROWSER_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let [orders, told] = ["orders", "told"].map(|name| folder.path().join(name));
        assert!(Command::new("mkfifo").args([&orders, &told]).status().unwrap().success());
        let child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<\"$ORDERS\" 4>\"$TOLD\"", "sh"])
            .arg(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--hide-scrollbars",
            ])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--remote-debugging-pipe", &format!("--lang={language}")])
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .env("ORDERS", &orders)
            .env("TOLD", &told)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let orders = OpenOptions::new().write(true).open(orders).unwrap();
        let reader = File::open(told).unwrap();
        let (send, told) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(reader).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("the browser speaks JSON");
                if send.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser = Browser {
            child,
            commands: orders,
            messages: told,
            session: String::new(),
            last_id: 0,
            events: Vec::new(),
            folder,
            _lock: turn,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        let frames = json!({ "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true });
        browser.call("Target.setAutoAttach", frames);
        let agent = browser.eval("navigator.userAgent");
        browser.call("Network.setUserAgentOverride", json!({ "userAgent": agent, "acceptLanguage": language }));
        browser.set_viewport(1200, 900, "light");
        Some(browser)
    }

    /// Sends a command and waits for its result.
    #[track_caller]
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut order = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            order["sessionId"] = self.session.as_str().into();
        }
        let mut bytes = order.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).unwrap();
        loop {
            match self.messages.recv_timeout(TIMEOUT) {
                Ok(message) if message["id"] == id => {
                    assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                    return message["result"].clone();
                }
                Ok(message) => self.handle_event(message),
                Err(RecvTimeoutError::Timeout) => panic!("{method}: the browser does not answer"),
                Err(RecvTimeoutError::Disconnected) => panic!("{method}: the browser has ended"),
            }
        }
    }

    /// Stores an event. Resumes frames that run in a separate process after enabling their events.
    fn handle_event(&mut self, message: Value) {
        if message["method"] == "Target.attachedToTarget" {
            let session = &message["params"]["sessionId"];
            for method in ["Network.enable", "Runtime.enable", "Runtime.runIfWaitingForDebugger"] {
                self.last_id += 1;
                let order = json!({ "id": self.last_id, "method": method, "params": {}, "sessionId": session });
                self.commands.write_all((order.to_string() + "\0").as_bytes()).unwrap();
            }
        }
        self.events.push(message);
    }

    /// Evaluates an expression in the newest frame of the page.
    #[track_caller]
    pub fn eval_in_frame(&mut self, expression: &str) -> Value {
        let session = |event: &Value| event["params"]["sessionId"].as_str().unwrap_or_default().to_owned();
        let of = |method: &str| {
            let found = self.events.iter().filter(|event| event["method"] == method);
            found.map(session).collect::<Vec<String>>()
        };
        let is_frame = |event: &&Value| {
            event["method"] == "Target.attachedToTarget" && event["params"]["targetInfo"]["type"] == "iframe"
        };
        let gone = of("Target.detachedFromTarget");
        let attached = self.events.iter().filter(is_frame).map(session).rfind(|session| !gone.contains(session));
        let parameters = json!({ "expression": expression, "returnByValue": true });
        let found = match attached {
            Some(session) => {
                let own = std::mem::replace(&mut self.session, session);
                let found = self.call("Runtime.evaluate", parameters);
                self.session = own;
                found
            }
            // A frame in the page's own process.
            None => {
                let frames = self.call("Page.getFrameTree", json!({}));
                let frame = frames["frameTree"]["childFrames"].as_array().and_then(|all| all.last());
                let id = frame.expect("a frame")["frame"]["id"].clone();
                let world = self.call("Page.createIsolatedWorld", json!({ "frameId": id }));
                let mut parameters = parameters;
                parameters["contextId"] = world["executionContextId"].clone();
                self.call("Runtime.evaluate", parameters)
            }
        };
        assert!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        found["result"]["value"].clone()
    }

    /// Opens an address.
    #[track_caller]
    pub fn open(&mut self, address: &str) {
        self.call("Page.navigate", json!({ "url": address }));
        self.wait_until_true("document.readyState === 'complete'");
    }

    /// Evaluates an expression in the page, and waits for a promise.
    #[track_caller]
    pub fn eval(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let found = self.call("Runtime.evaluate", parameters);
        assert!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        found["result"]["value"].clone()
    }

    #[track_caller]
    pub fn text(&mut self, expression: &str) -> String {
        match self.eval(expression) {
            Value::String(text) => text,
            other => panic!("{expression}: {other}"),
        }
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn wait_until_true(&mut self, expression: &str) {
        let until = Instant::now() + TIMEOUT;
        // While a page is loading, there may be nothing to evaluate.
        let looked = format!("(() => {{ try {{ return !!({expression}); }} catch {{ return false; }} }})()");
        while self.eval(&looked) != true {
            if Instant::now() > until {
                let seen = self.eval("document.body.innerText");
                panic!(
                    "never true: {expression}\nroot: {}\nseen: {seen}",
                    self.eval("JSON.stringify({...document.documentElement.dataset})")
                );
            }
            std::thread::sleep(Duration::from_millis(40));
        }
    }

    /// Waits until all animations have finished and the result is drawn.
    #[track_caller]
    pub fn wait_until_idle(&mut self) {
        self.eval(
            "Promise.all(document.getAnimations().filter(a => a.effect.getComputedTiming().endTime < Infinity).map(a => a.finished\
             .catch(() => null))).then(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1)))))",
        );
    }

    /// Presses a key, such as `Tab`, `Shift+Tab`, `Ctrl+Enter` or `ArrowRight`.
    #[track_caller]
    pub fn press(&mut self, name: &str) {
        let (held, key) = name.rsplit_once('+').unwrap_or(("", name));
        let modifiers = match held {
            "" => 0,
            "Ctrl" => 2,
            "Shift" => 8,
            other => panic!("{other}: no such key is held"),
        };
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            " " => 32,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            "Backspace" => 8,
            "a" => 65,
            other => panic!("{other}: no such key"),
        };
        let name = if key == " " { "Space" } else { key };
        let mut down = json!({ "type": "keyDown", "key": key, "code": name, "windowsVirtualKeyCode": code, "modifiers": modifiers });
        if modifiers == 0 && (key == "Enter" || key == " ") {
            down["text"] = (if key == "Enter" { "\r" } else { " " }).into();
        }
        if name == "a" {
            down["commands"] = json!(["selectAll"]);
        }
        self.call("Input.dispatchKeyEvent", down);
        self.call(
            "Input.dispatchKeyEvent",
            json!({ "type": "keyUp", "key": key, "code": name, "windowsVirtualKeyCode": code, "modifiers": modifiers }),
        );
    }

    /// Types a text at the focus.
    #[track_caller]
    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Pastes a long text at the focus, as a paste event.
    #[track_caller]
    pub fn paste_text(&mut self, text: &str) {
        self.eval(&format!(
            "(() => {{ const clipboardData = new DataTransfer(); clipboardData.setData('text/plain', {}); document.activeElement\
             .dispatchEvent(new ClipboardEvent('paste', {{ clipboardData, bubbles: true, cancelable: true }})); }})()",
            json!(text)
        ));
    }

    /// Replaces the content of the focused field.
    #[track_caller]
    pub fn replace_text(&mut self, text: &str) {
        self.press("Ctrl+a");
        match text.is_empty() {
            true => self.press("Backspace"),
            false => self.type_text(text),
        }
    }

    /// Moves the focus to the beginning of the page.
    #[track_caller]
    pub fn focus_first_button(&mut self) {
        self.eval("document.querySelector('button').focus()");
    }

    /// Presses Tab until an element has the focus. Panics if Tab does not reach it.
    #[track_caller]
    pub fn tab_to(&mut self, id: &str) {
        let mut seen = Vec::new();
        for _ in 0..60 {
            let now = self.text("document.activeElement?.id || document.activeElement?.tagName || ''");
            if now == id {
                let outline = self.text("getComputedStyle(document.activeElement).outlineStyle");
                assert_ne!(outline, "none", "#{id}: the focus cannot be seen");
                return;
            }
            seen.push(now);
            self.press("Tab");
        }
        panic!("Tab does not lead to #{id}, but to {seen:?}");
    }

    /// Presses Tab until the focused element has this text.
    #[track_caller]
    pub fn tab_to_text(&mut self, text: &str) {
        for _ in 0..60 {
            if self.text("document.activeElement?.textContent ?? ''") == text {
                return;
            }
            self.press("Tab");
        }
        panic!("Tab does not lead to {text:?}");
    }

    /// Sets the size of the window and the color scheme of the system.
    pub fn set_viewport(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] }),
        );
    }

    /// Takes a screenshot of the whole page. The window gets the page's height, since frames are only drawn when
    /// visible.
    pub fn screenshot(&mut self, file: &Path) {
        let size = self.eval("[innerWidth, Math.max(innerHeight, document.documentElement.scrollHeight)]");
        let (width, height) = (size[0].as_u64().unwrap(), size[1].as_u64().unwrap());
        let mut metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", metrics.clone());
        self.wait_until_idle();
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png", "captureBeyondViewport": true }));
        std::fs::write(file, decode_base64(shot["data"].as_str().unwrap())).unwrap();
        metrics["height"] = 900.into();
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// The requested addresses.
    pub fn requests(&self) -> Vec<String> {
        let request = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        request.map(|event| event["params"]["request"]["url"].as_str().unwrap().to_owned()).collect()
    }

    /// Exceptions of the page and errors on its console.
    pub fn console_errors(&self) -> Vec<String> {
        let is_complaint = |event: &&Value| {
            event["method"] == "Runtime.exceptionThrown"
                || event["method"] == "Log.entryAdded" && event["params"]["entry"]["source"] != "network"
        };
        self.events.iter().filter(is_complaint).map(Value::to_string).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Decodes base64.
fn decode_base64(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for letter in text.bytes().filter(|&letter| letter != b'=') {
        bits = bits << 6 | LETTERS.iter().position(|&other| other == letter).unwrap() as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}
