//! A browser, driven over the WebDriver protocol: a dozen requests of JSON over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::PATIENCE;

/// Returns why tests in a browser cannot run here.
pub(crate) fn missing() -> Option<String> {
    let is_there = |program: &str| Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let gone = ["chromium", "chromedriver"].into_iter().find(|program| !is_there(program).is_ok_and(|status| status.success()));
    gone.map(|program| format!("{program} is not installed"))
}

/// A browser with one window.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _folder: TempDir,
}

/// Element ids have this name in the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

impl Browser {
    /// Starts a browser with a window of this size.
    pub(crate) fn start(width: u32, height: u32) -> Browser {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // The driver and its browser keep their files in the folder of the test.
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .env("TMPDIR", folder.path())
            .env("HOME", folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        let port = port_of(&mut driver);
        let mut browser = Browser { driver, port, session: String::new(), _folder: folder };
        let size = format!("--window-size={width},{height}");
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--hide-scrollbars",
            "--enable-precise-memory-info",
            &size,
        ];
        let options = json!({"args": arguments, "binary": "/usr/bin/chromium"});
        let wanted = json!({"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}});
        let session = browser.request("POST", "/session", &wanted);
        browser.session = session["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {session}")).to_owned();
        browser
    }

    /// Opens an address.
    pub(crate) fn open(&self, url: &str) {
        self.call("POST", "/url", &json!({"url": url}));
    }

    /// Changes the size of the window.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        // A window cannot be as narrow as a phone; the device that it stands for can.
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": if width < 500 { 2.0 } else { 1.5 }, "mobile": width < 500});
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Calls the browser by its own protocol.
    pub(crate) fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.call("POST", "/goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// Runs a script in the page and returns what it returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.call("POST", "/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until an expression of the page is true, and returns its value.
    pub(crate) fn until(&self, what: &str, expression: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let value = self.run(&format!("return {expression}"));
            if !matches!(value, Value::Null | Value::Bool(false)) {
                return value;
            }
            if Instant::now() > deadline {
                let text = self.run("return document.body.innerText");
                panic!("never on the page: {what}\n{}", text.as_str().unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Types keys as a user does.
    pub(crate) fn keys(&self, text: &str) {
        let focused = self.call("GET", "/element/active", &Value::Null);
        let id = focused[ELEMENT].as_str().expect("something has the focus");
        self.call("POST", &format!("/element/{id}/value"), &json!({"text": text}));
    }

    /// Returns a picture of the window: PNG in base64.
    pub(crate) fn picture(&self) -> String {
        self.call("GET", "/screenshot", &Value::Null).as_str().expect("a picture").to_owned()
    }

    /// Returns the ids of the processes of the browser.
    pub(crate) fn driver_pid(&self) -> u32 {
        self.driver.id()
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        self.request(method, &format!("/session/{}{path}", self.session), body)
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = http(self.port, method, path, &[], body).expect("the driver answers");
        let value: Value = serde_json::from_str(&answer.1).unwrap_or_default();
        assert_eq!(answer.0, 200, "{method} {path} {body}: {value:#}");
        value["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = http(self.port, "DELETE", &format!("/session/{}", self.session), &[], &Value::Null);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Reads on which port the driver listens.
fn port_of(driver: &mut Child) -> u16 {
    let stdout = driver.stdout.take().expect("stdout is piped");
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    loop {
        let line = lines.recv_timeout(PATIENCE).expect("the driver says where it listens");
        let port = line.split("started successfully on port ").nth(1).and_then(|rest| rest.trim_end_matches('.').parse().ok());
        if let Some(port) = port {
            return port;
        }
    }
}

/// Sends a request to a server of this machine; returns status and body.
pub(crate) fn http(
    port: u16,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> std::io::Result<(u16, String)> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| *name == "Host") {
        head.push_str(&format!("Host: 127.0.0.1:{port}\r\n"));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let mut length = None;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse::<u64>().ok();
        }
    }
    let mut text = String::new();
    match length {
        Some(length) => reader.take(length).read_to_string(&mut text)?,
        // A stream never ends: its first bytes are enough.
        None => {
            let mut first = [0; 512];
            let read = reader.read(&mut first)?;
            text.push_str(&String::from_utf8_lossy(&first[..read]));
            read
        }
    };
    Ok((status, text))
}
