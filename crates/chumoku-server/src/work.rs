//! What a model is asked, and the threads that answer: each takes what waits, and computes together what can be.

use crate::explained::{self, Explain};
use crate::growing::{self, Grow};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::model::{Loaded, Model};
use crate::queue::{Awaited, Queue};
use crate::refusal::{Kind, Refusal, Result};
use axum::http::StatusCode;
use chumoku::answers::{self, continuation};
use chumoku::sampling::Sampling;
use chumoku::{
    ChatMessage, EmbedOptions, FoundSpan, Prediction, Stop, TextGenerator, TranslateOptions, Translation, WrittenPiece,
    failpoint, tr,
};
use chumoku_kernels::halt;
use rayon::{ThreadPool, ThreadPoolBuilder};
use serde_json::{Value, json};
use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

/// What a model is asked.
#[derive(Debug)]
pub(crate) enum Task {
    /// Classes, labels, numbers or spans of texts.
    Predict(Vec<String>),
    /// Vectors of texts; whether what is too long may lose its end, and whether tokens are counted.
    Embed { texts: Vec<String>, prompt: Option<String>, normalize: Option<bool>, truncate: bool, counts: bool },
    /// Translations, `n_best` of each text, with or without their alignment.
    Translate { texts: Vec<String>, options: TranslateOptions, n_best: usize, alignment: bool },
    /// A translation, told while it grows.
    Grow(Box<Grow>),
    /// Why a text got its answer.
    Explain(Box<Explain>),
    /// The tokens of texts.
    Tokenize { texts: Vec<String>, special: bool },
    /// A text that goes on.
    Generate(Box<Generate>),
}

/// How a text is to go on.
#[derive(Debug)]
pub(crate) struct Generate {
    pub(crate) prompt: String,
    pub(crate) system: Option<String>,
    pub(crate) no_chat: bool,
    pub(crate) max_tokens: usize,
    pub(crate) sampling: Sampling,
    /// Who is handed each piece, if anybody.
    pub(crate) pieces: Option<UnboundedSender<Value>>,
}

/// What it answers.
#[derive(Debug)]
pub(crate) enum Answer {
    Predictions(Vec<Prediction>),
    Spans(Vec<Vec<FoundSpan>>),
    /// The vectors, as JSON has them or as they are, and how many tokens were read.
    Vectors(Vec<Vec<f32>>, usize),
    Json(Value),
    /// A page in HTML.
    Page(String),
}

/// A question on its way.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) task: Task,
    pub(crate) came: Instant,
    /// Told when the work on it begins.
    pub(crate) begun: oneshot::Sender<Begun>,
    pub(crate) reply: oneshot::Sender<Result<Answer>>,
}

/// What a client is told when the work on its question begins.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) waited: Duration,
    /// Kept by everybody who waits for what is computed now.
    pub(crate) interest: Arc<Interest>,
}

/// Ends some work when the last one who waits for it lets this go.
#[derive(Debug)]
pub(crate) struct Interest(Arc<AtomicBool>);

impl Drop for Interest {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

impl Awaited for Job {
    fn is_given_up(&self) -> bool {
        self.reply.is_closed()
    }
}

impl Task {
    fn texts(&self) -> &[String] {
        match self {
            Task::Predict(texts)
            | Task::Embed { texts, .. }
            | Task::Translate { texts, .. }
            | Task::Tokenize { texts, .. } => texts,
            Task::Explain(explain) => std::slice::from_ref(&explain.text),
            Task::Grow(grow) => std::slice::from_ref(&grow.text),
            Task::Generate(generate) => std::slice::from_ref(&generate.prompt),
        }
    }

    fn characters(&self) -> usize {
        self.texts().iter().map(String::len).sum()
    }

    /// Whether it may take as long as thousands of others: the effect of each word, or a text token by token.
    pub(crate) fn is_long(&self) -> bool {
        matches!(self, Task::Explain(_) | Task::Grow(_) | Task::Generate(_))
    }

    /// How long its answer may come after the time for computing: a text that goes on ends by itself then, and is handed over.
    pub(crate) fn grace(&self) -> Duration {
        match self {
            Task::Generate(_) => Duration::from_secs(5),
            _ => Duration::ZERO,
        }
    }

    /// Whether both can be computed in one call.
    fn goes_with(&self, other: &Task) -> bool {
        match (self, other) {
            (Task::Predict(_), Task::Predict(_)) => true,
            (Task::Embed { prompt: a, normalize: b, .. }, Task::Embed { prompt: c, normalize: d, .. }) => {
                a == c && b == d
            }
            (Task::Translate { options: a, .. }, Task::Translate { options: b, .. }) => a == b,
            _ => false,
        }
    }
}

/// A question that was taken out of the queue, and whose client still waits.
struct Taken {
    task: Task,
    reply: oneshot::Sender<Result<Answer>>,
}

/// Where a thread of a model computes.
pub(crate) enum Pool {
    /// In the pool that the process has.
    Shared,
    /// In a pool of its own, made when there is something to compute: what takes long would keep others from the threads of the
    /// shared one.
    Own(OnceCell<Option<ThreadPool>>),
}

impl Pool {
    /// Runs work until it ends or its flag is set; a panic is a refusal.
    fn run<R: Send>(&self, flag: &Arc<AtomicBool>, work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
        let name = match self {
            Pool::Shared => "short-work",
            Pool::Own(_) => "long-work",
        };
        let work = || {
            failpoint::hit(name);
            work()
        };
        let work = || match halt::until(flag, work) {
            Ok(found) => found,
            // Nobody waits for this.
            Err(halt::Halted) => Err(late()),
        };
        let own = match self {
            Pool::Shared => None,
            Pool::Own(own) => own.get_or_init(own_pool).as_ref(),
        };
        caught(|| match own {
            Some(pool) => pool.install(work),
            // On a thread of the pool, so that operations on one thread see the flag too.
            None => rayon::scope(|_| work()),
        })
    }
}

/// A pool with as many threads as the shared one; nothing if the system has no more threads.
fn own_pool() -> Option<ThreadPool> {
    ThreadPoolBuilder::new().num_threads(rayon::current_num_threads()).build().ok()
}

/// A thread of a model, until its queue is closed and empty; `arriving` counts the requests that are being read.
pub(crate) fn work(queue: &Queue<Job>, pool: &Pool, arriving: &AtomicU64, limits: &Limits, metrics: &Metrics) {
    while let Some(first) = queue.pop() {
        let (mut texts, mut characters) = (first.task.texts().len(), first.task.characters());
        let loaded = first.loaded.clone();
        let mut batch = vec![first];
        let until = Instant::now() + limits.gather;
        // What comes next and fits is computed with it.
        while batch[0].task.goes_with(&batch[0].task)
            && texts < limits.batch_texts
            && characters < limits.batch_characters
        {
            let fits = |job: &Job| {
                Arc::ptr_eq(&job.loaded, &loaded)
                    && job.task.goes_with(&batch[0].task)
                    && texts + job.task.texts().len() <= limits.batch_texts
                    && characters + job.task.characters() <= limits.batch_characters
            };
            let Some(job) = queue.pop_if(fits, || arriving.load(Relaxed) > 0, until) else { break };
            texts += job.task.texts().len();
            characters += job.task.characters();
            batch.push(job);
        }
        let flag = Arc::new(AtomicBool::new(false));
        let interest = Arc::new(Interest(flag.clone()));
        let begin = |job: Job| {
            let waited = job.came.elapsed();
            // A client that has gone, or has been told that it waited too long, is passed over.
            job.begun.send(Begun { waited, interest: interest.clone() }).ok()?;
            metrics.waited.add(waited.as_secs_f64());
            Some(Taken { task: job.task, reply: job.reply })
        };
        let taken: Vec<Taken> = batch.into_iter().filter_map(begin).collect();
        drop(interest);
        if taken.is_empty() {
            continue;
        }
        metrics.batch_texts.add(taken.iter().map(|taken| taken.task.texts().len()).sum::<usize>() as f64);
        let started = Instant::now();
        answer(&loaded, taken, limits, (pool, &flag));
        metrics.computed.add(started.elapsed().as_secs_f64());
    }
}

/// Answers a batch: together, or one by one where that fails, so that no text is refused for another's sake.
fn answer(loaded: &Loaded, batch: Vec<Taken>, limits: &Limits, (pool, flag): (&Pool, &Arc<AtomicBool>)) {
    let tasks: Vec<&Task> = batch.iter().map(|taken| &taken.task).collect();
    let found = match tasks.len() {
        1 => None,
        _ => pool.run(flag, || together(loaded, &tasks)).ok().filter(|found| found.len() == tasks.len()),
    };
    match found {
        Some(found) => {
            for (taken, answer) in batch.into_iter().zip(found) {
                let _ = taken.reply.send(Ok(answer));
            }
        }
        None => {
            for Taken { task, reply } in batch {
                if !reply.is_closed() {
                    let answer = match &task {
                        // Nothing is shared among threads, so none has to be waited for.
                        Task::Tokenize { .. } => caught(|| alone(loaded, &task, &reply, limits)),
                        _ => pool.run(flag, || alone(loaded, &task, &reply, limits)),
                    };
                    let _ = reply.send(answer);
                }
            }
        }
    }
}

/// What work gives; a panic is a refusal.
fn caught<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(Refusal::broken()))
}

/// Tasks of one kind in one call.
fn together(loaded: &Loaded, tasks: &[&Task]) -> Result<Vec<Answer>> {
    let texts: Vec<&str> = tasks.iter().flat_map(|task| task.texts()).map(String::as_str).collect();
    let counts = tasks.iter().map(|task| task.texts().len());
    match (&loaded.model, tasks[0]) {
        (Model::Tagger(model), Task::Predict(_)) => {
            let mut found = model.predict(&texts)?.into_iter();
            Ok(counts.map(|n| Answer::Spans(found.by_ref().take(n).collect())).collect())
        }
        (model, Task::Predict(_)) => {
            let predictor = model.predictor().ok_or_else(Refusal::broken)?;
            let mut found = predictor.predict(&texts)?.into_iter();
            Ok(counts.map(|n| Answer::Predictions(found.by_ref().take(n).collect())).collect())
        }
        (Model::Embedder(model), Task::Embed { prompt, normalize, .. }) => {
            let mut options = EmbedOptions::default();
            (options.prompt, options.normalize) = (prompt.as_deref(), *normalize);
            let found = model.embed(&texts, options)?;
            let may_be_cut = tasks.iter().all(|task| matches!(task, Task::Embed { truncate: true, .. }));
            if found.cut > 0 && !may_be_cut {
                let limit = model.limit();
                // Of several requests each is asked alone then.
                if matches!(tasks[0], Task::Embed { counts: true, .. }) {
                    return Err(Refusal::too_large(tr!(
                        "input: a text is longer than the {limit} tokens that the model reads; send it in shorter parts",
                        "input: モデルが読む {limit} トークンより長いテキストがあります。短く分けて送ってください"
                    )));
                }
                return Err(Refusal::too_large(tr!(
                    "inputs: a text is longer than the {limit} tokens that the model reads; send \"truncate\": true to leave out the rest",
                    "inputs: モデルが読む {limit} トークンより長いテキストがあります。残りを読まなくてよければ \"truncate\": true を付けてください"
                )));
            }
            let mut rows = found.vectors.rows().into_iter().map(|row| row.to_vec());
            let of = |task: &&Task| {
                let vectors = rows.by_ref().take(task.texts().len()).collect();
                let mut tokens = 0;
                if let (Task::Embed { counts: true, .. }, Some(tokenized)) = (task, loaded.model.tokenized()) {
                    for text in task.texts() {
                        tokens += tokenized.count(text)?;
                    }
                }
                Ok(Answer::Vectors(vectors, tokens))
            };
            tasks.iter().map(of).collect()
        }
        (Model::Translator(model), Task::Translate { options, .. }) => {
            let mut found = model.translate(&texts, options)?.into_iter();
            let of = |task: &&Task| {
                let Task::Translate { texts, n_best, alignment, .. } = task else { return Err(Refusal::broken()) };
                let translations: Vec<Translation> = found.by_ref().take(texts.len()).collect();
                let each = texts.iter().zip(&translations);
                let object = |(text, translation): (&String, &Translation)| {
                    answers::translation(text, translation, model, *n_best, *alignment).map(Value::from)
                };
                Ok(Answer::Json(each.map(object).collect::<chumoku::Result<Value>>()?))
            };
            tasks.iter().map(of).collect()
        }
        _ => Err(Refusal::broken()),
    }
}

/// A task by itself.
fn alone(loaded: &Loaded, task: &Task, reply: &oneshot::Sender<Result<Answer>>, limits: &Limits) -> Result<Answer> {
    match (&loaded.model, task) {
        (_, Task::Predict(_) | Task::Embed { .. } | Task::Translate { .. }) => {
            together(loaded, &[task])?.pop().ok_or_else(Refusal::broken)
        }
        (_, Task::Explain(asked)) => match asked.as_page {
            false => explained::as_json(loaded, asked).map(Answer::Json),
            true => explained::as_page(loaded, asked).map(Answer::Page),
        },
        (Model::Translator(model), Task::Grow(asked)) => growing::translate(model, asked).map(Answer::Json),
        (model, Task::Tokenize { texts, special }) => {
            let tokenized = model.tokenized().ok_or_else(Refusal::broken)?;
            let each = texts.iter().map(|text| tokenized.tokens(text, *special));
            Ok(Answer::Json(each.collect::<chumoku::Result<Value>>()?))
        }
        (Model::Generator(model), Task::Generate(asked)) => generate(model, asked, reply, limits).map(Answer::Json),
        _ => Err(Refusal::broken()),
    }
}

/// What `chumoku generate --json` prints, handed out piece by piece where somebody listens. It ends when nobody waits any more,
/// and when its time is over.
fn generate(
    model: &TextGenerator,
    asked: &Generate,
    reply: &oneshot::Sender<Result<Answer>>,
    limits: &Limits,
) -> Result<Value> {
    let until = Instant::now() + limits.compute;
    let (mut text, mut is_late) = (String::new(), false);
    let mut write = |piece: WrittenPiece<'_>| {
        text.push_str(piece.text);
        let is_gone = match &asked.pieces {
            Some(pieces) => {
                let probability = (piece.probability * 1e6).round() / 1e6;
                pieces.send(json!({ "text": piece.text, "probability": probability })).is_err()
            }
            None => reply.is_closed(),
        };
        failpoint::hit("piece");
        is_late = Instant::now() > until;
        if is_gone || is_late { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let Generate { prompt, max_tokens, sampling, .. } = asked;
    let is_chat = !asked.no_chat && (model.has_chat_template() || asked.system.is_some());
    let stop = match is_chat {
        false => model.generate_pieces(prompt, *max_tokens, sampling, &mut write)?,
        true => {
            let told = asked.system.iter().map(|text| ChatMessage::new("system", text));
            let messages: Vec<ChatMessage> = told.chain([ChatMessage::new("user", prompt)]).collect();
            model.reply_pieces(&messages, *max_tokens, sampling, &mut write)?
        }
    };
    if stop == Stop::Asked && is_late && asked.pieces.is_none() {
        return Err(late());
    }
    let mut answer = continuation(prompt, &text, stop);
    if stop == Stop::Asked {
        answer["stop"] = json!("time");
    }
    Ok(answer)
}

/// That computing takes too long.
pub(crate) fn late() -> Refusal {
    Refusal::new(
        StatusCode::GATEWAY_TIMEOUT,
        Kind::Timeout,
        tr!(
            "the answer takes longer than this service computes for one request (--compute-timeout); ask for less at a time",
            "計算が 1 件のリクエストの制限時間（--compute-timeout）を超えました。一度に求める量を減らしてください"
        ),
    )
}
