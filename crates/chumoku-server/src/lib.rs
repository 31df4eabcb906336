//! Serves models of text over HTTP/1.1, in the conventions of Hugging Face's text-embeddings-inference.
//!
//! [`serve`] loads models, listens, and answers until shutdown. This crate does no arithmetic: predictions come from
//! `chumoku`, and the JSON of an answer from [`chumoku::answers`], like that of the command.
//!
//! A request goes through these modules: `connections` accepts the connection, `routes` checks and logs it, `request`
//! reads its body, and `handlers` submit it to a model (`service`). Each model has threads (`workers`) that take
//! requests from a bounded `queue` and batch those that can be computed together.
//!
//! A handler never computes: it queues a request and waits. Each model has a queue for short requests and one for text
//! generation, and all models share the queue of explanations. The thread of a queue calls the library and writes the
//! answer as bytes. So tokio's two threads are always free for errors, timeouts and shutdown. Text generation runs in a
//! pool of its queue. Explanations run in a pool of half as many threads with the lowest priority.
//!
//! # Contract
//!
//! * **Answers:** the bytes of an answer do not depend on the batch, and equal those of the command.
//! * **Bounds:** bodies, texts, waiting and computing have [`Limits`]. A request beyond them gets a status and
//!   `{"error": …, "error_type": …}`; nothing waits forever.
//! * **Shutdown:** after SIGTERM or Ctrl-C no connection is accepted; every accepted request is answered, within a
//!   limit. SIGHUP reloads changed folders; a folder that cannot be loaded changes nothing.
//! * The log never contains the texts of requests.
//!
//! # Files
//!
//! - `access`: API keys and host names
//! - `accounting`: counts and log lines of requests
//! - `answer_body`: answers as bytes
//! - `connections`: limits and shutdown of connections
//! - `endpoints`: the only list of endpoints
//! - `events`: events of a stream
//! - `explanation`: explanations as JSON and pages
//! - `handlers`: each endpoint, from request to reply
//! - `limits`: limits of size and time
//! - `log`: the log
//! - `memory`: free memory back to the system
//! - `memory_budget`: memory budget of requests and answers
//! - `metrics`: Prometheus metrics
//! - `model`: a model and its reloading
//! - `page`: the page at `/`
//! - `prediction`: answers of predictors and taggers
//! - `queue`: bounded queues
//! - `request`: bodies within limits
//! - `request_error`: error responses
//! - `routes`: routing, access, log
//! - `service`: models with their queues
//! - `signals`: shutdown and reload signals
//! - `stream`: server-sent events
//! - `translation_stream`: translations word by word
//! - `workers`: threads that compute answers
//! - `write_timeout`: streams of slow clients

mod access;
mod accounting;
mod answer_body;
mod connections;
mod endpoints;
mod events;
mod explanation;
mod handlers;
mod limits;
mod log;
mod memory;
mod memory_budget;
mod metrics;
mod model;
mod page;
mod prediction;
mod queue;
mod request;
mod request_error;
mod routes;
mod service;
mod signals;
mod stream;
mod translation_stream;
mod workers;
mod write_timeout;

pub use limits::Limits;
pub use log::LogFormat;

use chumoku::tr;
use log::LogWriter;
use memory_budget::MemoryBudget;
use model::LoadedModel;
use queue::Queue;
use serde_json::{Value, json};
use service::{ServedModel, Service};
use signals::{ReloadListener, ShutdownListener};
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Options of the service.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServeOptions {
    /// Host name or address to listen on.
    pub host: String,
    /// Port; 0 for any free port.
    pub port: u16,
    /// API key that clients must send.
    pub key: Option<String>,
    /// Serve other machines without a key.
    pub no_key: bool,
    /// Format of the log.
    pub log: LogFormat,
    /// Limits of requests.
    pub limits: Limits,
}

impl Default for ServeOptions {
    fn default() -> Self {
        let limits = Limits::default();
        ServeOptions { host: "127.0.0.1".into(), port: 3000, key: None, no_key: false, log: LogFormat::Text, limits }
    }
}

/// Error of [`serve`].
#[derive(Debug)]
pub enum ServeError {
    /// The options are invalid.
    Usage(String),
    /// A model cannot be loaded.
    Model(chumoku::Error),
    /// The service failed.
    Failed(String),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Usage(problem) | ServeError::Failed(problem) => f.write_str(problem),
            ServeError::Model(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServeError {}

/// Serves models, each with its name and folder, until shutdown. Prints only on standard error, computes in rayon's
/// current pool, and handles SIGTERM, SIGINT and SIGHUP, or their counterparts on Windows.
///
/// # Errors
/// If a model cannot be loaded, if other machines could send requests without a key, or if the address cannot be used.
pub fn serve(models: Vec<(String, PathBuf)>, options: ServeOptions) -> Result<(), ServeError> {
    let (host, port, limits) = (&options.host, options.port, options.limits);
    let addresses = addresses(host, port)?;
    let is_open = addresses.iter().any(|address| !is_loopback(address.ip()));
    if is_open && options.key.is_none() && !options.no_key {
        return Err(ServeError::Usage(tr!(
            "--host {host}: other machines could send requests without a key: set CHUMOKU_API_KEY, or pass --no-key",
            "--host {host}: 他のマシンからキーなしで使えてしまいます。CHUMOKU_API_KEY を設定するか、--no-key を指定してください"
        )));
    }
    let failed = |error: std::io::Error| ServeError::Failed(chumoku::lang::system_message(&error));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(failed)?;
    // Before loading models, which may take a while.
    let again = {
        let _within = runtime.enter();
        signals::ReloadListener::new().map_err(failed)?
    };
    let mut served = Vec::new();
    for (name, folder) in models {
        if served.iter().any(|other: &ServedModel| other.loaded().name == name) {
            return Err(ServeError::Usage(tr!(
                "two models are named {name}: rename one with OTHER=FOLDER",
                "{name} という名前のモデルが 2 つあります。別の名前=フォルダ のように、片方の名前を変えてください"
            )));
        }
        let loaded = LoadedModel::read(&name, &folder).map_err(ServeError::Model)?;
        served.push(ServedModel::new(folder, loaded, &limits));
    }
    let log = LogWriter::start(options.log).map_err(failed)?;
    let service = Arc::new(Service {
        models: served,
        limits,
        key: options.key.clone(),
        own_host: (!is_open).then(|| host.clone()),
        log: log.clone(),
        metrics: metrics::Metrics::default(),
        is_shutting_down: AtomicBool::new(false),
        arriving: Arc::default(),
        explanations: Arc::new(Queue::new(limits.queue)),
        memory_budget: MemoryBudget::new(limits.held),
    });
    log_panics(log.clone());
    let ended = runtime.block_on(run(&service, &addresses, &options, again));
    log.flush(signals::LOG_FLUSH_TIMEOUT);
    // No client waits for the remaining computations.
    runtime.shutdown_timeout(Duration::from_millis(100));
    ended
}

/// Logs only the location of a panic, because its message may contain text of a request.
fn log_panics(log: LogWriter) {
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
        let message = tr!("error     internal error at {place}", "エラー    内部エラー（{place}）");
        log.event("panic", [("place", place.as_str().into())], &message);
    }));
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, ServeError> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let found: Vec<SocketAddr> = (bare, port).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    if found.is_empty() {
        return Err(ServeError::Usage(tr!(
            "--host {host}: the name has no address",
            "--host {host}: この名前のアドレスが見つかりません"
        )));
    }
    Ok(found)
}

async fn run(
    service: &Arc<Service>,
    addresses: &[SocketAddr],
    options: &ServeOptions,
    again: ReloadListener,
) -> Result<(), ServeError> {
    let listener = TcpListener::bind(addresses).await.map_err(|error| {
        let (host, port, system) = (&options.host, options.port, chumoku::lang::system_message(&error));
        ServeError::Usage(tr!(
            "listening on {host}, port {port}: {system}; choose another with --host or --port",
            "{host} のポート {port} で待ち受けられません: {system}。--host か --port で別のものを指定してください"
        ))
    })?;
    let failed = |error: std::io::Error| ServeError::Failed(chumoku::lang::system_message(&error));
    let address = listener.local_addr().map_err(failed)?;
    let end_signals = ShutdownListener::new().map_err(failed)?;
    service.start_workers().map_err(failed)?;
    report_start(service, address, options.no_key);
    signals::report_no_reload(service);
    tokio::spawn(memory::trim(service.clone()));
    let (end, ending) = watch::channel(false);
    let serving = tokio::spawn(connections::serve(listener, routes::router(service.clone()), service.clone(), ending));
    signals::wait_for_shutdown(service, again, end_signals).await;
    service.is_shutting_down.store(true, Relaxed);
    signals::report_shutdown(service);
    let _ = end.send(true);
    let all_answered = serving.await.unwrap_or(false);
    service.close_queues();
    match all_answered {
        true => Ok(()),
        false => {
            let seconds = service.limits.drain.as_secs_f64();
            Err(ServeError::Failed(tr!(
                "shutdown: some requests were not answered within {seconds} s (--drain-timeout)",
                "終了: {seconds} 秒（--drain-timeout）以内に答えられなかったリクエストがあります"
            )))
        }
    }
}

/// Logs the address and the models, and what `--no-key` means.
fn report_start(service: &Service, address: SocketAddr, no_key: bool) {
    let models: Vec<Arc<LoadedModel>> = service.models.iter().map(ServedModel::loaded).collect();
    let all: Value = models.iter().map(|loaded| json!({ "name": loaded.name, "kind": loaded.model.kind() })).collect();
    let url = format!("http://{address}");
    let message = tr!("serving   {url}  (GET /docs lists the endpoints)", "待受      {url}（GET /docs に一覧）");
    service.log.event("listening", [("url", url.as_str().into()), ("models", all)], &message);
    if service.log.format() != LogFormat::Json {
        for loaded in &models {
            let (name, kind) = (&loaded.name, loaded.model.kind());
            let message = tr!("model     {name}: {kind}", "モデル    {name}: {kind}");
            service.log.event("model", [], &message);
        }
    }
    if no_key && service.key.is_some() {
        let message = tr!(
            "warning   --no-key has no effect: CHUMOKU_API_KEY is set, and its key is required; unset it to serve without a key",
            "警告      --no-key は効果がありません。CHUMOKU_API_KEY が設定されているため、キーを求めます。キーなしで使うには設定を外してください"
        );
        service.log.event("key", [], &message);
    } else if no_key && service.own_host.is_none() {
        let message = tr!(
            "warning   all machines that can reach this address can send requests without a key (--no-key)",
            "警告      このアドレスに届く人は誰でも使えます。キーがありません（--no-key）"
        );
        service.log.event("no_key", [], &message);
    }
}
