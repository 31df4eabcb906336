//! Tasks of models, and the worker threads that compute them in batches.

use crate::answer_body::AnswerBody;
use crate::events::EventSender;
use crate::explanation::{self, ExplainRequest};
use crate::limits::Limits;
use crate::metrics::{CountGuard, Metrics};
use crate::model::{LoadedModel, ServerModel};
use crate::prediction::{self, PredictRequest};
use crate::queue::{Cancellable, Queue};
use crate::request_error::{ErrorType, RequestError, Result};
use crate::translation_stream::{self, TranslationStreamRequest};
use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chumoku::answers::{self, continuation, vector};
use chumoku::row::{AsRow, RowRef, as_rows};
use chumoku::sampling::Sampling;
use chumoku::{
    ChatMessage, EmbedOptions, GeneratedPiece, StopReason, TextGenerator, TranslateOptions, Translation, failpoint, tr,
};
use chumoku_kernels::cancel;
use rayon::{ThreadPool, ThreadPoolBuilder};
use serde_json::{Value, json};
use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A task for a model.
#[derive(Debug)]
pub(crate) enum ModelTask {
    /// Predict classes, labels, numbers or spans.
    Predict(PredictRequest),
    /// Compute embeddings; `truncate` allows texts to be truncated.
    Embed { texts: Vec<String>, prompt: Option<String>, normalize: Option<bool>, truncate: bool, form: VectorFormat },
    /// Translate texts, with `n_best` translations each, with or without alignment. An autoencoder reconstructs them.
    Translate { texts: Vec<String>, options: TranslateOptions, n_best: usize, alignment: bool },
    /// Stream a translation.
    StreamTranslation(Box<TranslationStreamRequest>),
    /// Explain an answer.
    Explain(Box<ExplainRequest>),
    /// Tokenize texts.
    Tokenize { texts: Vec<String>, special: bool },
    /// Generate text.
    Generate(Box<GenerateRequest>),
}

/// Format of embeddings.
#[derive(Debug)]
pub(crate) enum VectorFormat {
    /// A list of vectors.
    Plain,
    /// The object of OpenAI's API, with the model's name and the number of tokens.
    OpenAi { is_base64: bool, model: String },
}

/// A request to generate text.
#[derive(Debug)]
pub(crate) struct GenerateRequest {
    pub(crate) prompt: String,
    pub(crate) system: Option<String>,
    pub(crate) no_chat: bool,
    pub(crate) max_tokens: usize,
    pub(crate) sampling: Sampling,
    /// Receives the pieces of a stream.
    pub(crate) events: Option<EventSender>,
}

/// The answer to a task.
#[derive(Debug)]
pub(crate) enum TaskAnswer {
    Body(AnswerBody),
    /// The last event of a stream.
    FinalEvent(Value),
}

/// The queue that a task waits in, and the threads that compute it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueKind {
    /// Requests that finish quickly.
    Short,
    /// Text generation, token by token.
    Texts,
    /// Explanations, which read a text once for each of its words.
    Explanations,
}

/// A queued task.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) loaded: Arc<LoadedModel>,
    pub(crate) task: ModelTask,
    pub(crate) came: Instant,
    /// Notified when the work starts.
    pub(crate) begun: oneshot::Sender<StartNotice>,
    pub(crate) reply: oneshot::Sender<Result<TaskAnswer>>,
}

/// Notice that the work on a task has started.
#[derive(Debug)]
pub(crate) struct StartNotice {
    pub(crate) waited: Duration,
    /// Held by all clients that wait for the current batch.
    pub(crate) interest: Arc<CancelOnDrop>,
}

/// Cancels the work on a batch when the last waiting client drops it.
#[derive(Debug)]
pub(crate) struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

impl Cancellable for Job {
    fn is_cancelled(&self) -> bool {
        self.reply.is_closed()
    }
}

impl ModelTask {
    fn rows(&self) -> Vec<RowRef<'_>> {
        match self {
            ModelTask::Predict(PredictRequest { rows, .. }) => as_rows(rows),
            ModelTask::Embed { texts, .. } | ModelTask::Translate { texts, .. } | ModelTask::Tokenize { texts, .. } => {
                as_rows(texts)
            }
            ModelTask::Explain(explain) => vec![explain.row.as_row()],
            ModelTask::StreamTranslation(grow) => vec![grow.text.as_row()],
            ModelTask::Generate(generate) => vec![generate.prompt.as_row()],
        }
    }

    fn characters(&self) -> usize {
        self.rows().into_iter().map(RowRef::joined_len).sum()
    }

    pub(crate) fn queue_kind(&self) -> QueueKind {
        match self {
            ModelTask::Explain(_) => QueueKind::Explanations,
            ModelTask::StreamTranslation(_) | ModelTask::Generate(_) => QueueKind::Texts,
            ModelTask::Predict(_)
            | ModelTask::Embed { .. }
            | ModelTask::Translate { .. }
            | ModelTask::Tokenize { .. } => QueueKind::Short,
        }
    }

    /// Returns how long an answer may take beyond the compute limit: text generation stops at the limit, and its text
    /// is still sent.
    pub(crate) fn grace(&self) -> Duration {
        match self {
            ModelTask::Generate(_) => Duration::from_secs(5),
            _ => Duration::ZERO,
        }
    }

    /// Returns true if the task may share a call with others like it.
    fn is_batchable(&self) -> bool {
        matches!(self, ModelTask::Predict(_) | ModelTask::Embed { .. } | ModelTask::Translate { .. })
    }

    /// Returns true if both tasks can be computed in one call.
    fn can_batch_with(&self, other: &ModelTask) -> bool {
        match (self, other) {
            (ModelTask::Predict(_), ModelTask::Predict(_)) => true,
            (ModelTask::Embed { prompt: a, normalize: b, .. }, ModelTask::Embed { prompt: c, normalize: d, .. }) => {
                a == c && b == d
            }
            (ModelTask::Translate { options: a, .. }, ModelTask::Translate { options: b, .. }) => a == b,
            _ => false,
        }
    }
}

/// A task taken from the queue whose client still waits.
struct StartedJob {
    task: ModelTask,
    reply: oneshot::Sender<Result<TaskAnswer>>,
}

/// The thread pool of a worker thread.
pub(crate) enum WorkerPool {
    /// The global pool.
    Shared,
    /// A separate pool, created on first use: long work would keep other requests from the threads of the global pool.
    Texts(OnceCell<Option<ThreadPool>>),
    /// A separate pool of half as many threads with the lowest priority, for explanations.
    Explanations(OnceCell<Option<ThreadPool>>),
}

impl WorkerPool {
    /// Runs work until it ends or is cancelled; a panic becomes an error response.
    fn run<R: Send>(&self, limit: &BatchCancellation<'_>, work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
        let name = match self {
            WorkerPool::Shared => "short-work",
            WorkerPool::Texts(_) | WorkerPool::Explanations(_) => "long-work",
        };
        let work = || {
            failpoint::hit(name);
            work()
        };
        let work = || limit.run(work);
        let own = match self {
            WorkerPool::Shared => None,
            WorkerPool::Texts(own) => own.get_or_init(|| thread_pool(rayon::current_num_threads())).as_ref(),
            WorkerPool::Explanations(own) => own.get_or_init(explanation_pool).as_ref(),
        };
        catch_panic(|| match own {
            Some(pool) => pool.install(work),
            // On a thread of the pool, so that single-threaded operations see the cancellation flag too.
            None => rayon::scope(|_| work()),
        })
    }
}

/// Cancellation of a batch: the flag is set when no client waits for it any more.
struct BatchCancellation<'a> {
    flag: Arc<AtomicBool>,
    metrics: &'a Metrics,
}

impl BatchCancellation<'_> {
    fn run<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        cancel::run_cancelable(&self.flag, work).unwrap_or_else(|cancel::Cancellation| {
            self.metrics.stopped.fetch_add(1, Relaxed);
            // No client receives this.
            Err(compute_timeout())
        })
    }
}

/// Starts a pool with this number of threads. `None` if the system has no more.
fn thread_pool(threads: usize) -> Option<ThreadPool> {
    ThreadPoolBuilder::new().num_threads(threads).build().ok()
}

/// Starts the pool of explanations, with half of the threads (at least one).
fn explanation_pool() -> Option<ThreadPool> {
    let threads = (rayon::current_num_threads() / 2).max(1);
    let builder = ThreadPoolBuilder::new().num_threads(threads).thread_name(|number| format!("explain {number}"));
    builder.start_handler(|_| chumoku_kernels::lower_thread_priority()).build().ok()
}

/// Runs a worker thread until its queue is closed and empty; `arriving` counts the requests that are being read.
pub(crate) fn run_worker(
    queue: &Queue<Job>,
    pool: &WorkerPool,
    arriving: &AtomicU64,
    limits: &Limits,
    metrics: &Metrics,
) {
    while let Some(first) = queue.pop() {
        let (mut texts, mut characters) = (first.task.rows().len(), first.task.characters());
        let loaded = first.loaded.clone();
        let mut batch = vec![first];
        let until = Instant::now() + limits.gather;
        // Adds following jobs that fit to the batch.
        while batch[0].task.is_batchable() && texts < limits.batch_texts && characters < limits.batch_characters {
            let fits = |job: &Job| {
                Arc::ptr_eq(&job.loaded, &loaded)
                    && job.task.can_batch_with(&batch[0].task)
                    && texts + job.task.rows().len() <= limits.batch_texts
                    && characters + job.task.characters() <= limits.batch_characters
            };
            let Some(job) = queue.pop_if(fits, || arriving.load(Relaxed) > 0, until) else { break };
            texts += job.task.rows().len();
            characters += job.task.characters();
            batch.push(job);
        }
        let limit = BatchCancellation { flag: Arc::default(), metrics };
        let interest = Arc::new(CancelOnDrop(limit.flag.clone()));
        let begin = |job: Job| {
            let waited = job.came.elapsed();
            // Skips clients that have disconnected or got a timeout.
            job.begun.send(StartNotice { waited, interest: interest.clone() }).ok()?;
            metrics.waited.add(waited.as_secs_f64());
            Some(StartedJob { task: job.task, reply: job.reply })
        };
        let taken: Vec<StartedJob> = batch.into_iter().filter_map(begin).collect();
        drop(interest);
        if taken.is_empty() {
            continue;
        }
        metrics.batch_texts.add(taken.iter().map(|taken| taken.task.rows().len()).sum::<usize>() as f64);
        let (started, _computing) = (Instant::now(), CountGuard::new(&metrics.computing));
        answer_batch(&loaded, taken, limits, (pool, &limit));
        metrics.computed.add(started.elapsed().as_secs_f64());
    }
}

/// Answers a batch in one call. If that fails, answers tasks one by one, so that no text is refused because of another.
fn answer_batch(
    loaded: &LoadedModel,
    batch: Vec<StartedJob>,
    limits: &Limits,
    (pool, limit): (&WorkerPool, &BatchCancellation<'_>),
) {
    let tasks: Vec<&ModelTask> = batch.iter().map(|taken| &taken.task).collect();
    let found = match tasks.len() {
        1 => None,
        _ => {
            pool.run(limit, || compute_together(loaded, &tasks, limits)).ok().filter(|found| found.len() == tasks.len())
        }
    };
    match found {
        Some(found) => {
            for (taken, answer) in batch.into_iter().zip(found) {
                let _ = taken.reply.send(answer);
            }
        }
        None => {
            for StartedJob { task, reply } in batch {
                if !reply.is_closed() {
                    let answer = match &task {
                        // Runs on this thread, because tokenizing uses no pool.
                        ModelTask::Tokenize { .. } => {
                            catch_panic(|| limit.run(|| compute_alone(loaded, &task, &reply, limits)))
                        }
                        _ => pool.run(limit, || compute_alone(loaded, &task, &reply, limits)),
                    };
                    let _ = reply.send(answer);
                }
            }
        }
    }
}

/// Runs work; a panic becomes an error response.
fn catch_panic<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(RequestError::model_failed()))
}

/// Computes tasks of one kind in one call. Answers that are too large fail individually.
fn compute_together(loaded: &LoadedModel, tasks: &[&ModelTask], limits: &Limits) -> Result<Vec<Result<TaskAnswer>>> {
    let rows: Vec<RowRef<'_>> = tasks.iter().flat_map(|task| task.rows()).collect();
    let texts: Vec<&str> = rows.iter().map(|row| row.text()).collect();
    match (&loaded.model, tasks[0]) {
        (_, ModelTask::Predict(_)) => {
            let mut found = prediction::predict_batch(loaded, &rows)?;
            let of = |task: &&ModelTask| {
                let ModelTask::Predict(request) = task else { return Err(RequestError::model_failed()) };
                request.write(loaded, found.split_first(request.rows.len()), limits).map(TaskAnswer::Body)
            };
            Ok(tasks.iter().map(of).collect())
        }
        (model, ModelTask::Embed { prompt, normalize, .. }) => {
            let mut options = EmbedOptions::default();
            (options.prompt, options.normalize) = (prompt.as_deref(), *normalize);
            let found = model.embed(&texts, options).ok_or_else(RequestError::model_failed)??;
            let may_be_cut = tasks.iter().all(|task| matches!(task, ModelTask::Embed { truncate: true, .. }));
            if found.truncated > 0 && !may_be_cut {
                let limit = model.max_tokens().unwrap_or_default();
                // If there are several tasks, each is retried alone.
                if matches!(tasks[0], ModelTask::Embed { form: VectorFormat::OpenAi { .. }, .. }) {
                    return Err(RequestError::too_large(tr!(
                        "input: a text is longer than the model's maximum of {limit} tokens; send it in shorter parts",
                        "input: モデルが読む {limit} トークンより長いテキストがあります。短く分けて送ってください"
                    )));
                }
                return Err(RequestError::too_large(tr!(
                    "inputs: a text is longer than the model's maximum of {limit} tokens; send \"truncate\": true to truncate it",
                    "inputs: モデルが読む {limit} トークンより長いテキストがあります。切り詰めてよければ \"truncate\": true を付けてください"
                )));
            }
            let mut rows = found.vectors.rows().into_iter();
            let mut of = |task: &&ModelTask| {
                let ModelTask::Embed { texts, form, .. } = task else { return Err(RequestError::model_failed()) };
                // Taken at once, so that an answer refused half-way leaves the next task its own rows.
                let rows = rows.by_ref().take(texts.len()).collect::<Vec<_>>().into_iter();
                let VectorFormat::OpenAi { is_base64, model } = form else {
                    return AnswerBody::list(rows.map(|row| Ok(vector(row.iter()))), false, limits.answer);
                };
                let data = rows.enumerate().map(|(index, row)| {
                    let embedding = match is_base64 {
                        true => STANDARD.encode(row.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>()).into(),
                        false => vector(row.iter()),
                    };
                    json!({ "object": "embedding", "index": index, "embedding": embedding })
                });
                let data: Value = data.collect();
                let tokenized = loaded.model.tokenized().ok_or_else(RequestError::model_failed)?;
                let counts = texts.iter().map(|text| tokenized.count(text));
                let tokens = counts.sum::<chumoku::Result<usize>>()?;
                let usage = json!({ "prompt_tokens": tokens, "total_tokens": tokens });
                let reply = json!({ "object": "list", "data": data, "model": model, "usage": usage });
                AnswerBody::json(&reply, limits.answer)
            };
            Ok(tasks.iter().map(|task| of(task).map(TaskAnswer::Body)).collect())
        }
        (ServerModel::Translator(model), ModelTask::Translate { options, .. }) => {
            let mut found = model.translate(&texts, options)?.into_iter();
            let mut of = |task: &&ModelTask| {
                let ModelTask::Translate { texts, n_best, alignment, .. } = task else {
                    return Err(RequestError::model_failed());
                };
                let each = texts.iter().zip(found.by_ref().take(texts.len()).collect::<Vec<_>>());
                let object = |(text, translation): (&String, Translation)| {
                    Ok(Value::from(answers::translation(text, &translation, model, *n_best, *alignment)?))
                };
                AnswerBody::list(each.map(object), false, limits.answer)
            };
            Ok(tasks.iter().map(|task| of(task).map(TaskAnswer::Body)).collect())
        }
        (ServerModel::Autoencoder(model), ModelTask::Translate { options, .. }) => {
            let mut found = model.reconstruct(&texts, options)?.into_iter();
            let mut of = |task: &&ModelTask| {
                let texts = task.rows();
                let each = texts.iter().zip(found.by_ref().take(texts.len()).collect::<Vec<_>>());
                let object = |(row, found): (&RowRef<'_>, Translation)| {
                    Ok(Value::from(answers::reconstruction(row.text(), &found)))
                };
                AnswerBody::list(each.map(object), false, limits.answer)
            };
            Ok(tasks.iter().map(|task| of(task).map(TaskAnswer::Body)).collect())
        }
        _ => Err(RequestError::model_failed()),
    }
}

/// Computes a single task.
fn compute_alone(
    loaded: &LoadedModel,
    task: &ModelTask,
    reply: &oneshot::Sender<Result<TaskAnswer>>,
    limits: &Limits,
) -> Result<TaskAnswer> {
    match (&loaded.model, task) {
        (_, ModelTask::Predict(request)) => request.answer(loaded, limits).map(TaskAnswer::Body),
        (_, ModelTask::Embed { .. } | ModelTask::Translate { .. }) => {
            compute_together(loaded, &[task], limits)?.pop().unwrap_or_else(|| Err(RequestError::model_failed()))
        }
        (_, ModelTask::Explain(request)) => explanation::write_answer(loaded, request, limits).map(TaskAnswer::Body),
        (ServerModel::Translator(model), ModelTask::StreamTranslation(request)) => {
            translation_stream::stream_translation(model, request).map(TaskAnswer::FinalEvent)
        }
        (model, ModelTask::Tokenize { texts, special }) => {
            let tokenized = model.tokenized().ok_or_else(RequestError::model_failed)?;
            let each = texts.iter().map(|text| Ok(tokenized.tokens(text, *special)?));
            AnswerBody::list(each, false, limits.answer).map(TaskAnswer::Body)
        }
        (ServerModel::Generator(model), ModelTask::Generate(request)) => generate(model, request, reply, limits),
        _ => Err(RequestError::model_failed()),
    }
}

/// Generates text, and returns the JSON of `chumoku generate --json`. Streams pieces if the client requested it. Stops
/// if the client has gone or the time is over.
fn generate(
    model: &TextGenerator,
    request: &GenerateRequest,
    reply: &oneshot::Sender<Result<TaskAnswer>>,
    limits: &Limits,
) -> Result<TaskAnswer> {
    let until = Instant::now() + limits.compute;
    let (mut text, mut is_late, mut is_behind) = (String::new(), false, false);
    let mut write = |piece: GeneratedPiece<'_>| {
        text.push_str(piece.text);
        let is_gone = match &request.events {
            Some(pieces) => {
                let probability = (piece.probability * 1e6).round() / 1e6;
                is_behind = pieces.is_behind();
                pieces.send(&json!({ "text": piece.text, "probability": probability })).is_err()
            }
            None => reply.is_closed(),
        };
        failpoint::hit("piece");
        is_late = Instant::now() > until;
        if is_gone || is_late || is_behind { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let GenerateRequest { prompt, max_tokens, sampling, .. } = request;
    let is_chat = !request.no_chat && (model.has_chat_template() || request.system.is_some());
    let stop = match is_chat {
        false => model.generate_pieces(prompt, *max_tokens, sampling, &mut write)?,
        true => {
            let system = request.system.iter().map(|text| ChatMessage::new("system", text));
            let messages: Vec<ChatMessage> = system.chain([ChatMessage::new("user", prompt)]).collect();
            model.reply_pieces(&messages, *max_tokens, sampling, &mut write)?
        }
    };
    if stop == StopReason::Caller && is_behind {
        return Err(RequestError::new(
            StatusCode::REQUEST_TIMEOUT,
            ErrorType::Timeout,
            tr!(
                "the client reads the stream more slowly than the text is generated; read the stream as it arrives",
                "ストリームの読み出しが、文章を書く速さに追いついていません。届いた順に読んでください"
            ),
        ));
    }
    if stop == StopReason::Caller && is_late && request.events.is_none() {
        return Err(compute_timeout());
    }
    let mut answer = continuation(prompt, &text, stop);
    if stop == StopReason::Caller {
        answer["stop"] = json!("time");
    }
    match request.events {
        Some(_) => Ok(TaskAnswer::FinalEvent(answer)),
        None => AnswerBody::json(&answer, limits.answer).map(TaskAnswer::Body),
    }
}

/// The error for a computation that takes too long.
pub(crate) fn compute_timeout() -> RequestError {
    RequestError::new(
        StatusCode::GATEWAY_TIMEOUT,
        ErrorType::Timeout,
        tr!(
            "the answer takes too long to compute (--compute-timeout); request less at a time",
            "計算が 1 件のリクエストの制限時間（--compute-timeout）を超えました。一度に求める量を減らしてください"
        ),
    )
}
