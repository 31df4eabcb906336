//! Models of text as a service over HTTP/1.1, in the conventions of Hugging Face's text-embeddings-inference.
//!
//! [`serve`] reads models, listens, and answers until the process is told to end. There is no arithmetic here: what a model
//! says comes from `chumoku`, and an answer's JSON from [`chumoku::answers`], as the command's does.
//!
//! A request goes through these modules: `connections` takes the connection, `front` lets it in and tells of it, `request`
//! reads its body, `replies` asks the model (`service`), whose threads (`work`) take it out of a bounded `queue`, together with
//! others that can be computed with it.
//!
//! A handler never computes: it queues a request and waits. Each model has a queue for short requests and one for texts, and all
//! models share the queue of explanations. The thread of a queue calls the library and writes the answer as bytes, so that the
//! two threads of tokio are always free to refuse, to time out and to end. Texts run in a pool of their queue. Explanations
//! run in a pool of half as many threads with the lowest priority.
//!
//! # Contract
//!
//! * **Answers:** the bytes of an answer do not depend on what was computed with it, and equal those of the command.
//! * **Bounds:** bodies, texts, waiting and computing have [`Limits`]. A request beyond them is refused with a status and
//!   `{"error": …, "error_type": …}`; nothing waits without end.
//! * **The end:** after SIGTERM or Ctrl-C no connection is taken; every request that was taken is answered, within a limit.
//!   SIGHUP reads changed folders again; a folder that cannot be used changes nothing.
//! * The log never holds the texts of requests.
//!
//! # Files
//!
//! - `access`: API keys and host names
//! - `account`: counts and log lines of requests
//! - `connections`: limits and shutdown of connections
//! - `explained`: explanations as JSON and pages
//! - `front`: routing, access, log
//! - `growing`: translations word by word
//! - `held`: memory budget of requests and answers
//! - `limits`: limits of size and time
//! - `log`: the log
//! - `memory`: free memory back to the system
//! - `metrics`: Prometheus metrics
//! - `model`: a model and its reloading
//! - `paced`: streams of slow clients
//! - `page`: the page at `/`
//! - `pieces`: events of a stream
//! - `places`: the only list of endpoints
//! - `predicted`: answers of predictors and taggers
//! - `queue`: bounded queues
//! - `refusal`: error responses
//! - `replies`: each endpoint, from request to reply
//! - `request`: bodies within limits
//! - `service`: models with their queues
//! - `signals`: shutdown and reload signals
//! - `stream`: server-sent events
//! - `work`: threads that compute answers
//! - `written`: answers as bytes

mod access;
mod account;
mod connections;
mod explained;
mod front;
mod growing;
mod held;
mod limits;
mod log;
mod memory;
mod metrics;
mod model;
mod paced;
mod page;
mod pieces;
mod places;
mod predicted;
mod queue;
mod refusal;
mod replies;
mod request;
mod service;
mod signals;
mod stream;
mod work;
mod written;

pub use limits::Limits;
pub use log::Log;

use chumoku::tr;
use held::Held;
use log::Journal;
use model::Loaded;
use queue::Queue;
use serde_json::{Value, json};
use service::{Served, Service};
use signals::{Again, End};
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// How to serve.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Where to listen: a name or an address.
    pub host: String,
    /// The port; 0 for any that is free.
    pub port: u16,
    /// What clients must know.
    pub key: Option<String>,
    /// Whether to serve other machines without a key.
    pub no_key: bool,
    /// The form of the log.
    pub log: Log,
    /// What may be asked for.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        let limits = Limits::default();
        Options { host: "127.0.0.1".into(), port: 3000, key: None, no_key: false, log: Log::Text, limits }
    }
}

/// Why nothing is served.
#[derive(Debug)]
pub enum Error {
    /// What was asked for cannot be.
    Usage(String),
    /// A model cannot be read.
    Model(chumoku::Error),
    /// The work failed.
    Failed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(problem) | Error::Failed(problem) => f.write_str(problem),
            Error::Model(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

/// Serves models, each with its name and folder, until the process is told to end. It prints on standard error alone, computes in
/// rayon's current pool, and takes SIGTERM, SIGINT and SIGHUP, or what Windows has of these.
///
/// # Errors
/// If a model cannot be read, if other machines would be served without a key, or if the address cannot be listened on.
pub fn serve(models: Vec<(String, PathBuf)>, options: Options) -> Result<(), Error> {
    let (host, port, limits) = (&options.host, options.port, options.limits);
    let addresses = addresses(host, port)?;
    let is_open = addresses.iter().any(|address| !is_loopback(address.ip()));
    if is_open && options.key.is_none() && !options.no_key {
        return Err(Error::Usage(tr!(
            "--host {host}: other machines could ask without a key: set CHUMOKU_API_KEY, or say --no-key",
            "--host {host}: 他のマシンからキーなしで使えてしまいます。CHUMOKU_API_KEY を設定するか、--no-key を指定してください"
        )));
    }
    let failed = |error: std::io::Error| Error::Failed(chumoku::lang::system(&error));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(failed)?;
    // Before models are read, which may take a while.
    let again = {
        let _within = runtime.enter();
        signals::Again::new().map_err(failed)?
    };
    let mut served = Vec::new();
    for (name, folder) in models {
        if served.iter().any(|other: &Served| other.loaded().name == name) {
            return Err(Error::Usage(tr!(
                "two models are called {name}: give one another name, as OTHER=FOLDER",
                "{name} という名前のモデルが 2 つあります。別の名前=フォルダ のように、片方の名前を変えてください"
            )));
        }
        let loaded = Loaded::read(&name, &folder).map_err(Error::Model)?;
        served.push(Served::new(folder, loaded, &limits));
    }
    let log = Journal::start(options.log).map_err(failed)?;
    let service = Arc::new(Service {
        models: served,
        limits,
        key: options.key.clone(),
        own_host: (!is_open).then(|| host.clone()),
        log: log.clone(),
        metrics: metrics::Metrics::default(),
        is_ending: AtomicBool::new(false),
        arriving: Arc::default(),
        explanations: Arc::new(Queue::new(limits.queue)),
        held: Held::new(limits.held),
    });
    say_panics_without_texts(log.clone());
    let ended = runtime.block_on(run(&service, &addresses, &options, again));
    log.flush(signals::LAST_LINES);
    // What is still computed is for nobody.
    runtime.shutdown_timeout(Duration::from_millis(100));
    ended
}

/// A panic's own words may hold what was worked on; the log has its place alone.
fn say_panics_without_texts(log: Journal) {
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
        let said = tr!("error     a fault in the program, at {place}", "エラー    プログラムの不具合です（{place}）");
        log.event("panic", [("place", place.as_str().into())], &said);
    }));
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let found: Vec<SocketAddr> = (bare, port).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    if found.is_empty() {
        return Err(Error::Usage(tr!(
            "--host {host}: no address has this name",
            "--host {host}: この名前のアドレスが見つかりません"
        )));
    }
    Ok(found)
}

async fn run(service: &Arc<Service>, addresses: &[SocketAddr], options: &Options, again: Again) -> Result<(), Error> {
    let listener = TcpListener::bind(addresses).await.map_err(|error| {
        let (host, port, system) = (&options.host, options.port, chumoku::lang::system(&error));
        Error::Usage(tr!(
            "listening on {host}, port {port}: {system}; choose another with --host or --port",
            "{host} のポート {port} で待ち受けられません: {system}。--host か --port で別のものを指定してください"
        ))
    })?;
    let failed = |error: std::io::Error| Error::Failed(chumoku::lang::system(&error));
    let address = listener.local_addr().map_err(failed)?;
    let end_signals = End::new().map_err(failed)?;
    service.start_workers().map_err(failed)?;
    tell_of_start(service, address, options.no_key);
    signals::tell_of_reloading(service);
    tokio::spawn(memory::trim(service.clone()));
    let (end, ending) = watch::channel(false);
    let serving = tokio::spawn(connections::serve(listener, front::router(service.clone()), service.clone(), ending));
    signals::until_the_end(service, again, end_signals).await;
    service.is_ending.store(true, Relaxed);
    signals::tell_of_end(service);
    let _ = end.send(true);
    let all_answered = serving.await.unwrap_or(false);
    service.close_queues();
    match all_answered {
        true => Ok(()),
        false => {
            let seconds = service.limits.drain.as_secs_f64();
            Err(Error::Failed(tr!(
                "ending: some requests were not answered within {seconds} s (--drain-timeout)",
                "終了: {seconds} 秒（--drain-timeout）以内に答えられなかったリクエストがあります"
            )))
        }
    }
}

/// The address, and the models; what `--no-key` means where it was given.
fn tell_of_start(service: &Service, address: SocketAddr, no_key: bool) {
    let models: Vec<Arc<Loaded>> = service.models.iter().map(Served::loaded).collect();
    let all: Value = models.iter().map(|loaded| json!({ "name": loaded.name, "kind": loaded.model.kind() })).collect();
    let url = format!("http://{address}");
    let said = tr!("serving   {url}  (GET /docs lists what can be asked)", "待受      {url}（GET /docs に一覧）");
    service.log.event("listening", [("url", url.as_str().into()), ("models", all)], &said);
    if service.log.form() != Log::Json {
        for loaded in &models {
            let (name, kind) = (&loaded.name, loaded.model.kind());
            let said = tr!("model     {name}: {kind}", "モデル    {name}: {kind}");
            service.log.event("model", [], &said);
        }
    }
    if no_key && service.key.is_some() {
        let said = tr!(
            "warning   --no-key changes nothing: CHUMOKU_API_KEY is set, and its key is asked for; unset it to serve without a key",
            "警告      --no-key は効果がありません。CHUMOKU_API_KEY が設定されているため、キーを求めます。キーなしで使うには設定を外してください"
        );
        service.log.event("key", [], &said);
    } else if no_key && service.own_host.is_none() {
        let said = tr!(
            "warning   anybody who reaches this address may ask: there is no key (--no-key)",
            "警告      このアドレスに届く人は誰でも使えます。キーがありません（--no-key）"
        );
        service.log.event("no_key", [], &said);
    }
}
