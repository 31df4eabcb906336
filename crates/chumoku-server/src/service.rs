//! The models with their queues: who answers what, and how a request waits for it.

use crate::held::Held;
use crate::limits::Limits;
use crate::log::Journal;
use crate::metrics::{Metrics, Waiting};
use crate::model::{Loaded, Model, stamp};
use crate::predicted::Predict;
use crate::queue::{Queue, Turned};
use crate::refusal::{Kind, Refusal, Result};
use crate::request::Object;
use crate::work::{Answer, Interest, Job, Lane, Pool, Task, late, work};
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

/// A model with a name and a folder, and what waits for it.
#[derive(Debug)]
pub(crate) struct Served {
    folder: PathBuf,
    current: RwLock<Arc<Loaded>>,
    /// Requests that are soon done.
    short: Arc<Queue<Job>>,
    /// Texts that it writes token by token: neither waits for the other.
    texts: Arc<Queue<Job>>,
}

impl Served {
    pub(crate) fn new(folder: PathBuf, loaded: Loaded, limits: &Limits) -> Served {
        let queue = || Arc::new(Queue::new(limits.queue));
        Served { folder, current: RwLock::new(Arc::new(loaded)), short: queue(), texts: queue() }
    }

    /// The model as it is now.
    pub(crate) fn loaded(&self) -> Arc<Loaded> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Everything that requests share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) models: Vec<Served>,
    pub(crate) limits: Limits,
    pub(crate) key: Option<String>,
    /// The name it listens under, where only this machine may ask.
    pub(crate) own_host: Option<String>,
    pub(crate) log: Journal,
    pub(crate) metrics: Metrics,
    /// Whether it is about to end.
    pub(crate) is_ending: AtomicBool,
    /// Requests that are being read.
    pub(crate) arriving: Arc<AtomicU64>,
    /// Explanations by all models: one at a time, on threads of their own, so that they take no more than their share.
    pub(crate) explanations: Arc<Queue<Job>>,
    /// Bytes of requests that are being read and of answers that are being sent.
    pub(crate) held: Held,
}

/// What an endpoint needs of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Predict,
    Embed,
    Translate,
    Generate,
    Tokenize,
}

impl Need {
    fn is_met_by(self, model: &Model) -> bool {
        match self {
            Need::Predict => matches!(model, Model::Classifier(_) | Model::Ngrams(_) | Model::Tagger(_)),
            Need::Embed => matches!(model, Model::Embedder(_)),
            Need::Translate => matches!(model, Model::Translator(_)),
            Need::Generate => matches!(model, Model::Generator(_)),
            Need::Tokenize => model.tokenized().is_some(),
        }
    }

    /// That a model is not for this.
    fn refuse(self, name: &str, kind: &str) -> Refusal {
        Refusal::wrong_model(match self {
            Need::Predict => tr!(
                "{name}: predicts nothing; it is of the kind {kind}",
                "{name}: 予測するモデルではありません（種類: {kind}）"
            ),
            Need::Embed => tr!(
                "{name}: gives no vectors; it is of the kind {kind}, and those of the kind encoder do",
                "{name}: ベクトルを出すモデルではありません（種類: {kind}。出せるのは encoder です）"
            ),
            Need::Translate => {
                tr!(
                    "{name}: does not translate; it is of the kind {kind}",
                    "{name}: 翻訳モデルではありません（種類: {kind}）"
                )
            }
            Need::Generate => {
                tr!(
                    "{name}: writes no texts; it is of the kind {kind}",
                    "{name}: 文章を書くモデルではありません（種類: {kind}）"
                )
            }
            Need::Tokenize => {
                tr!(
                    "{name}: has no tokens; it is of the kind {kind}",
                    "{name}: トークンのないモデルです（種類: {kind}）"
                )
            }
        })
    }

    fn refuse_all(self) -> Refusal {
        Refusal::wrong_model(match self {
            Need::Predict => tr!("none of the models predicts", "予測するモデルがありません"),
            Need::Embed => tr!("none of the models gives vectors", "ベクトルを出すモデルがありません"),
            Need::Translate => tr!("none of the models translates", "翻訳モデルがありません"),
            Need::Generate => tr!("none of the models writes texts", "文章を書くモデルがありません"),
            Need::Tokenize => tr!("none of the models has tokens", "トークンのあるモデルがありません"),
        })
    }
}

/// How an answer came about, for the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) model: String,
    pub(crate) texts: usize,
    pub(crate) waited: Duration,
    pub(crate) computed: Duration,
    /// Whether its client went away meanwhile.
    pub(crate) is_aborted: bool,
}

/// A question whose model has begun. Whoever drops this no longer waits for the answer, and the work ends.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) told: Told,
    answer: oneshot::Receiver<Result<Answer>>,
    interest: Arc<Interest>,
    most: Duration,
}

impl Running {
    /// The answer, as long as the limits allow.
    pub(crate) async fn end(self) -> Result<(Answer, Told)> {
        let Running { mut told, answer, interest, most } = self;
        let started = Instant::now();
        let found = timeout(most, answer).await;
        // Without an answer there is nobody left who waits for it.
        drop(interest);
        told.computed = started.elapsed();
        Ok((found.map_err(|_| late())?.map_err(|_| Refusal::broken())??, told))
    }
}

impl Service {
    /// The model of this name, or the first that is for what is needed.
    pub(crate) fn model(&self, name: Option<&str>, need: Need) -> Result<(&Served, Arc<Loaded>)> {
        let all = || self.models.iter().map(|served| (served, served.loaded()));
        let Some(name) = name else {
            let mut fitting = all().filter(|(_, loaded)| need.is_met_by(&loaded.model));
            return fitting.next().ok_or_else(|| match self.models.as_slice() {
                [only] => need.refuse(&only.loaded().name, only.loaded().model.kind()),
                _ => need.refuse_all(),
            });
        };
        let (served, loaded) = self.named(name)?;
        match need.is_met_by(&loaded.model) {
            true => Ok((served, loaded)),
            false => Err(need.refuse(&loaded.name, loaded.model.kind())),
        }
    }

    /// The model of this name, or the first.
    pub(crate) fn any(&self, name: Option<&str>) -> Result<(&Served, Arc<Loaded>)> {
        match (name, self.models.first()) {
            (None, Some(first)) => Ok((first, first.loaded())),
            (name, _) => self.named(name.unwrap_or_default()),
        }
    }

    /// How many of the models give vectors.
    pub(crate) fn encoders(&self) -> usize {
        self.models.iter().filter(|served| Need::Embed.is_met_by(&served.loaded().model)).count()
    }

    /// The model of this name.
    pub(crate) fn named(&self, name: &str) -> Result<(&Served, Arc<Loaded>)> {
        let mut all = self.models.iter().map(|served| (served, served.loaded()));
        all.find(|(_, loaded)| loaded.name == name).ok_or_else(|| {
            Refusal::not_found(tr!(
                "there is no model of this name; GET /info lists the models",
                "その名前のモデルはありません。GET /info で一覧を確かめられます"
            ))
        })
    }

    /// Asks a model, and waits for the answer as long as the limits allow.
    pub(crate) async fn ask(
        &self,
        served: &Served,
        loaded: Arc<Loaded>,
        task: Task,
        asked: Object,
    ) -> Result<(Answer, Told)> {
        self.begin(served, loaded, task, asked).await?.end().await
    }

    /// Asks a model, and waits until it begins, as long as the limits allow. What was asked is let go before anything is waited
    /// for, and not before the task is in its queue: until then it counts as arriving.
    pub(crate) async fn begin(
        &self,
        served: &Served,
        loaded: Arc<Loaded>,
        task: Task,
        asked: Object,
    ) -> Result<Running> {
        let (begun, mut begins) = oneshot::channel();
        let (reply, answer) = oneshot::channel();
        let mut told = Told { model: loaded.name.clone(), ..Told::default() };
        told.texts = match &task {
            Task::Predict(Predict { texts, .. })
            | Task::Embed { texts, .. }
            | Task::Translate { texts, .. }
            | Task::Tokenize { texts, .. } => texts.len(),
            Task::Explain(_) | Task::Grow(_) | Task::Generate(_) => 1,
        };
        let queue = match task.lane() {
            Lane::Short => &served.short,
            Lane::Texts => &served.texts,
            Lane::Explanations => &self.explanations,
        };
        let grace = task.grace();
        queue.push(Job { loaded, task, came: Instant::now(), begun, reply }).map_err(|turned| match turned {
            Turned::Full => Refusal::overloaded(tr!(
                "as many requests wait for the model as may wait (--queue); send the request again a little later",
                "モデルの順番を待つリクエストが上限（--queue）に達しています。しばらくしてから送り直してください"
            )),
            Turned::Closed => ending(),
        })?;
        drop(asked);
        let begun = match timeout(self.limits.wait, &mut begins).await {
            Ok(begun) => begun.map_err(|_| Refusal::broken())?,
            Err(_) => {
                // From here on the worker passes it over, unless it has begun at this very moment.
                begins.close();
                begins.try_recv().map_err(|_| {
                    Refusal::overloaded(tr!(
                        "the request has waited for its model as long as it may (--wait-timeout); send it again a little later",
                        "モデルの順番を待つ時間が上限（--wait-timeout）に達しました。しばらくしてから送り直してください"
                    ))
                })?
            }
        };
        told.waited = begun.waited;
        let most = self.limits.compute + grace;
        Ok(Running { told, answer, interest: begun.interest, most })
    }

    /// Starts the threads of each model, one for each of its queues, and the one of explanations.
    pub(crate) fn start_workers(self: &Arc<Self>) -> std::io::Result<()> {
        let start = |name: String, queue: &Arc<Queue<Job>>, pool: fn() -> Pool| {
            let (service, queue) = (self.clone(), queue.clone());
            let run = move || work(&queue, &pool(), &service.arriving, &service.limits, &service.metrics);
            std::thread::Builder::new().name(name).spawn(run).map(drop)
        };
        for (number, served) in self.models.iter().enumerate() {
            start(format!("model {}", number + 1), &served.short, || Pool::Shared)?;
            start(format!("texts {}", number + 1), &served.texts, || Pool::Texts(OnceCell::new()))?;
        }
        start("explanations".into(), &self.explanations, || Pool::Explanations(OnceCell::new()))
    }

    fn all_queues(&self) -> impl Iterator<Item = &Arc<Queue<Job>>> {
        self.models.iter().flat_map(|served| [&served.short, &served.texts]).chain([&self.explanations])
    }

    /// No more is taken.
    pub(crate) fn close_queues(&self) {
        self.all_queues().for_each(|queue| queue.close());
    }

    /// Returns the gauges of queues and held bytes.
    pub(crate) fn waiting(&self) -> Waiting {
        let of_model = |served: &Served| (served.loaded().name.clone(), served.short.len() + served.texts.len());
        let by_model = self.models.iter().map(of_model).collect();
        Waiting { by_model, explanations: self.explanations.len(), held: self.held.bytes() }
    }

    /// Returns whether any request is being read, queued, computed or answered.
    pub(crate) fn is_busy(&self) -> bool {
        let counts = [&self.arriving, &self.metrics.computing];
        counts.iter().any(|count| count.load(Relaxed) > 0)
            || self.held.bytes() > 0
            || self.all_queues().any(|queue| queue.len() > 0)
    }

    /// Reads models again whose folders have changed. What waits is answered by the model that it was asked of.
    pub(crate) fn reload(&self) {
        for served in &self.models {
            let old = served.loaded();
            let name = &old.name;
            if old.is_of(&stamp(&served.folder)) {
                let said = tr!("reload    {name}: unchanged", "再読込    {name}: 変更なし");
                self.log.event("unchanged", [("model", name.as_str().into())], &said);
                continue;
            }
            let read = std::panic::catch_unwind(|| Loaded::read(name, &served.folder));
            let is_new = matches!(read, Ok(Ok(_)));
            self.metrics.reloads[usize::from(is_new)].fetch_add(1, Relaxed);
            let problem = match read {
                Ok(Ok(loaded)) => {
                    let kind = loaded.model.kind();
                    *served.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
                    let said = tr!("reload    {name}: new model ({kind})", "再読込    {name}: 新しいモデル（{kind}）");
                    self.log.event("reloaded", [("model", name.as_str().into())], &said);
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => tr!("the folder cannot be read", "フォルダを読み込めません"),
            };
            let said = tr!(
                "reload    {name}: the old model is kept, because the new one cannot be used: {problem}",
                "再読込    {name}: 新しいモデルが使えないため、元のモデルを使い続けます: {problem}"
            );
            let fields: [(&str, Value); 2] = [("model", name.as_str().into()), ("error", problem.as_str().into())];
            self.log.event("reload_failed", fields, &said);
        }
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Relaxed)
    }
}

/// That the service ends.
pub(crate) fn ending() -> Refusal {
    let message = tr!("the service is about to end", "サービスは終了するところです");
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, Kind::Unhealthy, message)
}
