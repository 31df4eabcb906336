//! The models with their queues: which model answers a request, and how the request waits for it.

use crate::limits::Limits;
use crate::log::LogWriter;
use crate::memory_budget::MemoryBudget;
use crate::metrics::{Gauges, Metrics};
use crate::model::{LoadedModel, ServerModel, folder_stamp};
use crate::prediction::PredictRequest;
use crate::queue::{Queue, QueueError};
use crate::request::RequestFields;
use crate::request_error::{ErrorType, RequestError, Result};
use crate::workers::{CancelOnDrop, Job, ModelTask, QueueKind, TaskAnswer, WorkerPool, compute_timeout, run_worker};
use axum::http::StatusCode;
use chumoku::tr;
use serde_json::Value;
use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// A model with its folder and its queues.
#[derive(Debug)]
pub(crate) struct ServedModel {
    folder: PathBuf,
    current: RwLock<Arc<LoadedModel>>,
    /// Short requests.
    short_queue: Arc<Queue<Job>>,
    /// Text generation, token by token. Separate queues, so that neither waits for the other.
    text_queue: Arc<Queue<Job>>,
}

impl ServedModel {
    pub(crate) fn new(folder: PathBuf, loaded: LoadedModel, limits: &Limits) -> ServedModel {
        let queue = || Arc::new(Queue::new(limits.queue));
        ServedModel { folder, current: RwLock::new(Arc::new(loaded)), short_queue: queue(), text_queue: queue() }
    }

    /// Returns the current model.
    pub(crate) fn loaded(&self) -> Arc<LoadedModel> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// State shared by all requests.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) models: Vec<ServedModel>,
    pub(crate) limits: Limits,
    pub(crate) key: Option<String>,
    /// The host name to accept, if only this machine is served.
    pub(crate) own_host: Option<String>,
    pub(crate) log: LogWriter,
    pub(crate) metrics: Metrics,
    /// True during shutdown.
    pub(crate) is_shutting_down: AtomicBool,
    /// Number of requests that are being read.
    pub(crate) arriving: Arc<AtomicU64>,
    /// Explanations of all models, one at a time, on separate threads that limit their share of the processor.
    pub(crate) explanations: Arc<Queue<Job>>,
    /// Memory of requests being read and answers being sent.
    pub(crate) memory_budget: MemoryBudget,
}

/// A capability that an endpoint needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capability {
    Predict,
    Embed,
    Translate,
    Reconstruct,
    Generate,
    Tokenize,
}

impl Capability {
    fn is_supported_by(self, model: &ServerModel) -> bool {
        match self {
            Capability::Predict => {
                matches!(model, ServerModel::Classifier(_) | ServerModel::Ngrams(_) | ServerModel::Tagger(_))
            }
            Capability::Embed => matches!(model, ServerModel::Embedder(_) | ServerModel::Autoencoder(_)),
            Capability::Translate => matches!(model, ServerModel::Translator(_)),
            Capability::Reconstruct => matches!(model, ServerModel::Autoencoder(_)),
            Capability::Generate => matches!(model, ServerModel::Generator(_)),
            Capability::Tokenize => model.tokenized().is_some(),
        }
    }

    /// The error for a model without the capability.
    fn unsupported(self, name: &str, kind: &str) -> RequestError {
        RequestError::wrong_model(match self {
            _ if kind == "autoencoder" => tr!(
                "{name}: an autoencoder answers /reconstruct, /embed and /tokenize",
                "{name}: オートエンコーダーで使えるのは /reconstruct、/embed、/tokenize です"
            ),
            Capability::Predict => tr!(
                "{name}: the model does not predict classes, labels or spans; its kind is {kind}",
                "{name}: 予測するモデルではありません（種類: {kind}）"
            ),
            Capability::Embed => tr!(
                "{name}: the model computes no embeddings, as encoders do; its kind is {kind}",
                "{name}: ベクトルを出すモデルではありません（種類: {kind}。出せるのは encoder です）"
            ),
            Capability::Translate => {
                tr!(
                    "{name}: the model does not translate; its kind is {kind}",
                    "{name}: 翻訳モデルではありません（種類: {kind}）"
                )
            }
            Capability::Reconstruct => {
                tr!(
                    "{name}: the model reconstructs no texts, as autoencoders do; its kind is {kind}",
                    "{name}: テキストを復元するオートエンコーダーではありません（種類: {kind}）"
                )
            }
            Capability::Generate => {
                tr!(
                    "{name}: the model does not generate text; its kind is {kind}",
                    "{name}: 文章を書くモデルではありません（種類: {kind}）"
                )
            }
            Capability::Tokenize => {
                tr!(
                    "{name}: the model has no tokenizer; its kind is {kind}",
                    "{name}: トークンのないモデルです（種類: {kind}）"
                )
            }
        })
    }

    fn unsupported_by_all(self) -> RequestError {
        RequestError::wrong_model(match self {
            Capability::Predict => tr!("none of the models predicts", "予測するモデルがありません"),
            Capability::Embed => tr!("none of the models computes embeddings", "ベクトルを出すモデルがありません"),
            Capability::Translate => tr!("none of the models translates", "翻訳モデルがありません"),
            Capability::Reconstruct => {
                tr!("none of the models is an autoencoder", "オートエンコーダーがありません")
            }
            Capability::Generate => tr!("none of the models generates text", "文章を書くモデルがありません"),
            Capability::Tokenize => tr!("none of the models has a tokenizer", "トークンのあるモデルがありません"),
        })
    }
}

/// Statistics of an answer, for the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestStats {
    pub(crate) model: String,
    pub(crate) texts: usize,
    pub(crate) waited: Duration,
    pub(crate) computed: Duration,
    /// True if the client disconnected before the end.
    pub(crate) is_aborted: bool,
}

/// A request whose model has started. Dropping it cancels the work.
#[derive(Debug)]
pub(crate) struct RunningRequest {
    pub(crate) stats: RequestStats,
    answer: oneshot::Receiver<Result<TaskAnswer>>,
    interest: Arc<CancelOnDrop>,
    most: Duration,
}

impl RunningRequest {
    /// Waits for the answer within the limits.
    pub(crate) async fn finish(self) -> Result<(TaskAnswer, RequestStats)> {
        let RunningRequest { mut stats, answer, interest, most } = self;
        let started = Instant::now();
        let found = timeout(most, answer).await;
        // After a timeout no client waits for the answer.
        drop(interest);
        stats.computed = started.elapsed();
        Ok((found.map_err(|_| compute_timeout())?.map_err(|_| RequestError::model_failed())??, stats))
    }
}

impl Service {
    /// Returns the model of this name, or the first one with the capability.
    pub(crate) fn model(&self, name: Option<&str>, need: Capability) -> Result<(&ServedModel, Arc<LoadedModel>)> {
        let all = || self.models.iter().map(|served| (served, served.loaded()));
        let Some(name) = name else {
            let mut fitting = all().filter(|(_, loaded)| need.is_supported_by(&loaded.model));
            return fitting.next().ok_or_else(|| match self.models.as_slice() {
                [only] => need.unsupported(&only.loaded().name, only.loaded().model.kind()),
                _ => need.unsupported_by_all(),
            });
        };
        let (served, loaded) = self.model_named(name)?;
        match need.is_supported_by(&loaded.model) {
            true => Ok((served, loaded)),
            false => Err(need.unsupported(&loaded.name, loaded.model.kind())),
        }
    }

    /// Returns the model of this name, or the first one.
    pub(crate) fn model_or_first(&self, name: Option<&str>) -> Result<(&ServedModel, Arc<LoadedModel>)> {
        match (name, self.models.first()) {
            (None, Some(first)) => Ok((first, first.loaded())),
            (name, _) => self.model_named(name.unwrap_or_default()),
        }
    }

    /// Returns the number of models that compute vectors.
    pub(crate) fn num_encoders(&self) -> usize {
        self.models.iter().filter(|served| Capability::Embed.is_supported_by(&served.loaded().model)).count()
    }

    /// Returns the model of this name.
    pub(crate) fn model_named(&self, name: &str) -> Result<(&ServedModel, Arc<LoadedModel>)> {
        let mut all = self.models.iter().map(|served| (served, served.loaded()));
        all.find(|(_, loaded)| loaded.name == name).ok_or_else(|| {
            RequestError::not_found(tr!(
                "no model has this name; GET /info lists the models",
                "その名前のモデルはありません。GET /info で一覧を確かめられます"
            ))
        })
    }

    /// Submits a task, and waits for the answer within the limits.
    pub(crate) async fn submit_and_wait(
        &self,
        served: &ServedModel,
        loaded: Arc<LoadedModel>,
        task: ModelTask,
        request: RequestFields,
    ) -> Result<(TaskAnswer, RequestStats)> {
        self.submit(served, loaded, task, request).await?.finish().await
    }

    /// Submits a task, and waits within the limits until the model starts. The fields are dropped once the task is
    /// queued: until then the request counts as arriving.
    pub(crate) async fn submit(
        &self,
        served: &ServedModel,
        loaded: Arc<LoadedModel>,
        task: ModelTask,
        request: RequestFields,
    ) -> Result<RunningRequest> {
        let (begun, mut begins) = oneshot::channel();
        let (reply, answer) = oneshot::channel();
        let mut stats = RequestStats { model: loaded.name.clone(), ..RequestStats::default() };
        stats.texts = match &task {
            ModelTask::Predict(PredictRequest { rows, .. }) => rows.len(),
            ModelTask::Embed { texts, .. } | ModelTask::Translate { texts, .. } | ModelTask::Tokenize { texts, .. } => {
                texts.len()
            }
            ModelTask::Explain(_) | ModelTask::StreamTranslation(_) | ModelTask::Generate(_) => 1,
        };
        let queue = match task.queue_kind() {
            QueueKind::Short => &served.short_queue,
            QueueKind::Texts => &served.text_queue,
            QueueKind::Explanations => &self.explanations,
        };
        let grace = task.grace();
        queue.push(Job { loaded, task, came: Instant::now(), begun, reply }).map_err(|turned| match turned {
            QueueError::Full => RequestError::overloaded(tr!(
                "too many requests wait for the model (--queue); send the request again later",
                "モデルの順番を待つリクエストが上限（--queue）に達しています。しばらくしてから送り直してください"
            )),
            QueueError::Closed => shutting_down(),
        })?;
        drop(request);
        let begun = match timeout(self.limits.wait, &mut begins).await {
            Ok(begun) => begun.map_err(|_| RequestError::model_failed())?,
            Err(_) => {
                // From here on workers skip the job, unless it has started at this very moment.
                begins.close();
                begins.try_recv().map_err(|_| {
                    RequestError::overloaded(tr!(
                        "the request waited too long for its model (--wait-timeout); send it again later",
                        "モデルの順番を待つ時間が上限（--wait-timeout）に達しました。しばらくしてから送り直してください"
                    ))
                })?
            }
        };
        stats.waited = begun.waited;
        let most = self.limits.compute + grace;
        Ok(RunningRequest { stats, answer, interest: begun.interest, most })
    }

    /// Starts the threads: one for each queue of a model, and one for explanations.
    pub(crate) fn start_workers(self: &Arc<Self>) -> std::io::Result<()> {
        let start = |name: String, queue: &Arc<Queue<Job>>, pool: fn() -> WorkerPool| {
            let (service, queue) = (self.clone(), queue.clone());
            let run = move || run_worker(&queue, &pool(), &service.arriving, &service.limits, &service.metrics);
            std::thread::Builder::new().name(name).spawn(run).map(drop)
        };
        for (number, served) in self.models.iter().enumerate() {
            start(format!("model {}", number + 1), &served.short_queue, || WorkerPool::Shared)?;
            start(format!("texts {}", number + 1), &served.text_queue, || WorkerPool::Texts(OnceCell::new()))?;
        }
        start("explanations".into(), &self.explanations, || WorkerPool::Explanations(OnceCell::new()))
    }

    fn all_queues(&self) -> impl Iterator<Item = &Arc<Queue<Job>>> {
        self.models.iter().flat_map(|served| [&served.short_queue, &served.text_queue]).chain([&self.explanations])
    }

    /// Closes all queues.
    pub(crate) fn close_queues(&self) {
        self.all_queues().for_each(|queue| queue.close());
    }

    /// Returns the gauges of queues and held bytes.
    pub(crate) fn gauges(&self) -> Gauges {
        let of_model =
            |served: &ServedModel| (served.loaded().name.clone(), served.short_queue.len() + served.text_queue.len());
        let by_model = self.models.iter().map(of_model).collect();
        Gauges { by_model, explanations: self.explanations.len(), held: self.memory_budget.bytes() }
    }

    /// Returns true if any request is being read, queued, computed or answered.
    pub(crate) fn is_busy(&self) -> bool {
        let counts = [&self.arriving, &self.metrics.computing];
        counts.iter().any(|count| count.load(Relaxed) > 0)
            || self.memory_budget.bytes() > 0
            || self.all_queues().any(|queue| queue.len() > 0)
    }

    /// Reloads models whose folders have changed. Queued requests are answered by the model that they were submitted
    /// to.
    pub(crate) fn reload(&self) {
        for served in &self.models {
            let old = served.loaded();
            let name = &old.name;
            if old.has_stamp(&folder_stamp(&served.folder)) {
                let message = tr!("reload    {name}: unchanged", "再読込    {name}: 変更なし");
                self.log.event("unchanged", [("model", name.as_str().into())], &message);
                continue;
            }
            let read = std::panic::catch_unwind(|| LoadedModel::read(name, &served.folder));
            let is_new = matches!(read, Ok(Ok(_)));
            self.metrics.reloads[usize::from(is_new)].fetch_add(1, Relaxed);
            let problem = match read {
                Ok(Ok(loaded)) => {
                    let kind = loaded.model.kind();
                    *served.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
                    let message =
                        tr!("reload    {name}: new model ({kind})", "再読込    {name}: 新しいモデル（{kind}）");
                    self.log.event("reloaded", [("model", name.as_str().into())], &message);
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => tr!("the folder cannot be read", "フォルダを読み込めません"),
            };
            let message = tr!(
                "reload    {name}: keeping the old model, because the new one cannot be loaded: {problem}",
                "再読込    {name}: 新しいモデルが使えないため、元のモデルを使い続けます: {problem}"
            );
            let fields: [(&str, Value); 2] = [("model", name.as_str().into()), ("error", problem.as_str().into())];
            self.log.event("reload_failed", fields, &message);
        }
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.is_shutting_down.load(Relaxed)
    }
}

/// The error during shutdown.
pub(crate) fn shutting_down() -> RequestError {
    let message = tr!("the service is shutting down", "サービスを終了しています");
    RequestError::new(StatusCode::SERVICE_UNAVAILABLE, ErrorType::Unhealthy, message)
}
