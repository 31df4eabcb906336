//! A running service, and a minimal client over a plain socket.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "shared by tests")]

pub use super::common::TIMEOUT;
use super::common::{HoldPoint, TestDir, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A service on its own port; killed on drop.
pub struct Server {
    child: Child,
    pub address: String,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

/// The reply to a request.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Server {
    pub fn start(place: &TestDir, args: &[&str]) -> Server {
        Server::start_with_environment(place, args, &[])
    }

    pub fn start_with_environment(place: &TestDir, args: &[&str], environment: &[(&str, &str)]) -> Server {
        // Timeouts are long enough for a busy machine unless a test sets them.
        let usual = [
            ("--threads", "1"),
            ("--port", "0"),
            ("--read-timeout", "1h"),
            ("--wait-timeout", "1h"),
            ("--compute-timeout", "1h"),
            ("--drain-timeout", "1h"),
        ];
        let usual = usual.into_iter().filter(|(flag, _)| !args.contains(flag));
        let usual: Vec<&str> = usual.flat_map(|(flag, value)| [flag, value]).collect();
        let args = [&["serve"], &usual[..], args].concat();
        let mut command = place.command(&args);
        command.env_remove("CHUMOKU_API_KEY").envs(environment.iter().copied());
        Server::spawn(&mut command)
    }

    /// Starts a service that is held at a failpoint.
    pub fn start_held(place: &TestDir, args: &[&str], hold: &HoldPoint) -> Server {
        let (name, value) = hold.environment();
        Server::start_with_environment(place, args, &[(name, &value)])
    }

    /// Starts the service of a command, on any port.
    pub fn spawn(command: &mut Command) -> Server {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let output: Arc<Mutex<Vec<String>>> = Arc::default();
        let (lines, kept) = (BufReader::new(child.stderr.take().unwrap()).lines(), output.clone());
        let reader =
            std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| kept.lock().unwrap().push(line)));
        let mut server = Server { child, address: String::new(), lines: output, reader: Some(reader) };
        let line = server.wait_for_line("http://");
        let (_, rest) = line.split_once("http://").unwrap();
        server.address = rest.split(|c: char| c.is_whitespace() || c == '"' || c == '（').next().unwrap().to_owned();
        server
    }

    /// Waits for the first log line that contains a word, and returns it.
    #[track_caller]
    pub fn wait_for_line(&self, word: &str) -> String {
        let until = Instant::now() + TIMEOUT;
        loop {
            if let Some(line) = self.output_lines().into_iter().find(|line| line.contains(word)) {
                return line;
            }
            assert!(Instant::now() < until, "nobody says {word}: {:#?}", self.output_lines());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn output_lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Resident memory in bytes, if the system reports it.
    pub fn resident_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
    }

    /// Peak resident memory in bytes.
    pub fn peak_resident_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
    }

    /// Its threads with their names and nice values, if the system reports them.
    pub fn threads(&self) -> Vec<(String, i64)> {
        let all = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        let of = |stat: String| {
            let (front, rest) = stat.rsplit_once(')')?;
            let nice = rest.split_whitespace().nth(16)?.parse().ok()?;
            Some((front.split_once('(')?.1.to_owned(), nice))
        };
        all.filter_map(|task| of(std::fs::read_to_string(task.path().join("stat")).ok()?)).collect()
    }

    /// The value on the `/metrics` line with this prefix; 0 if there is none.
    #[track_caller]
    pub fn metric(&self, line: &str) -> u64 {
        let metrics = self.get("/metrics").body;
        let rest = metrics.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
        rest.map_or(0, |number| number.parse().unwrap())
    }

    /// Waits until `/metrics` reaches a value.
    #[track_caller]
    pub fn wait_for_metric(&self, line: &str, number: u64) {
        wait_until(&format!("{line} {number}"), || self.metric(line) == number);
    }

    pub fn send_signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// Waits for the exit code.
    #[track_caller]
    pub fn wait_for_exit(&mut self) -> i32 {
        let mut status = None;
        wait_until("the end of the service", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        self.reader.take().into_iter().for_each(|reader| reader.join().unwrap());
        status.unwrap().code().unwrap_or(-1)
    }

    /// Opens a connection. The service accepts connections in the order of these calls.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// Sends these bytes on a new connection and returns the reply.
    #[track_caller]
    pub fn send(&self, bytes: &[u8]) -> Reply {
        let mut stream = self.connect();
        // A server that refuses may not read everything.
        let _ = stream.write_all(bytes);
        read_reply(&mut stream)
            .unwrap_or_else(|| panic!("no answer to {}", String::from_utf8_lossy(&bytes[..bytes.len().min(200)])))
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Reply {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
    }

    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.send(&request(path, body.to_string().as_bytes()))
    }

    /// Waits until a request is accepted, after the limit on connections was exceeded.
    #[track_caller]
    pub fn wait_until_free(&self) {
        wait_until("room for a request", || self.get("/health").status == 200);
    }

    /// Sends a request except for its last three bytes, and returns when the server reads the body.
    #[track_caller]
    pub fn begin_request(&self, bytes: &[u8]) -> TcpStream {
        let at = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let mut stream = self.connect();
        // The server sends 100 Continue when it starts to read the body.
        stream.write_all(&[&bytes[..at], b"\r\nExpect: 100-continue\r\n\r\n"].concat()).unwrap();
        let mut reply = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(&bytes[at + 4..bytes.len() - 3]).unwrap();
        stream
    }

    /// Posts JSON and returns the JSON of the reply, which must be a success.
    #[track_caller]
    pub fn post_json(&self, path: &str, body: &Value) -> Value {
        let reply = self.post(path, body);
        assert_eq!(reply.status, 200, "{path} {body}: {reply:?}");
        reply.json()
    }

    /// Asserts that a request is rejected with this status and kind.
    #[track_caller]
    pub fn post_rejected(&self, path: &str, body: &Value, status: u16, kind: &str) -> Reply {
        self.post(path, body).assert_error(status, kind)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The bytes of a request.
pub fn request(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Reads one reply from a connection that may be kept alive; `None` if it is closed first.
pub fn read_reply(stream: &mut TcpStream) -> Option<Reply> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
            let lower = head.to_lowercase();
            let length =
                lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse::<usize>().ok());
            let is_chunked = lower.contains("transfer-encoding: chunked");
            let whole = match length {
                Some(length) => bytes.len() >= at + 4 + length,
                None => is_chunked && bytes.ends_with(b"\r\n0\r\n\r\n"),
            };
            if whole {
                let status = head.split(' ').nth(1).unwrap().parse().unwrap();
                let body = &bytes[at + 4..length.map_or(bytes.len(), |length| at + 4 + length)];
                let body = if is_chunked { decode_chunked(body) } else { body.to_vec() };
                return Some(Reply { status, head, body: String::from_utf8(body).unwrap() });
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend(&buffer[..n]),
        }
    }
}

/// Returns `true` if nothing has been received yet.
pub fn is_silent(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let found = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    found.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

fn decode_chunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let at = bytes.windows(2).position(|two| two == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&bytes[..at]).unwrap(), 16).unwrap();
        out.extend(&bytes[at + 2..at + 2 + length]);
        bytes = &bytes[at + 4 + length..];
        if length == 0 {
            return out;
        }
    }
}

impl Reply {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub fn assert_error(self, status: u16, kind: &str) -> Reply {
        assert_eq!(self.status, status, "{self:?}");
        let body = self.json();
        assert_eq!(body["error_type"], kind, "{self:?}");
        let message = body["error"].as_str().or(body["message"].as_str());
        assert!(message.is_some_and(|message| message.len() > 10), "{self:?}");
        self
    }
}
