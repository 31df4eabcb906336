//! Distributed runs produce the same bytes as local ones, with any number of workers.

use chumoku::data::{DataFiles, DocumentSplit};
use chumoku::data::{LabelOptions, PairSplit, ReadOptions, load_multi_label, load_pairs, load_scores};
use chumoku::train::{
    BatchPosition, Coordinator, GradientTerms, Rows, StepOutput, TrainEvent, TrainMicroBatch, Training, TrainingData,
    Worker, WorkerGroup, combine_gradients, pretrain, train, train_labels, train_language_model, train_number,
    train_translator,
};
use chumoku::{Error, Result, builtin};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use testkit::exhaustive;

/// State of a distributed run: the coordinator's request and the workers' results.
#[derive(Debug, Default)]
struct SharedRun {
    weights: Arc<Vec<f32>>,
    at: Option<BatchPosition>,
    to_do: Vec<usize>,
    found: BTreeMap<usize, (StepOutput, Vec<f32>)>,
    terms: Vec<GradientTerms>,
    /// Number of workers that crash before any other computes.
    to_die: usize,
    is_over: bool,
}

/// The shared state of coordinator and workers in one process.
#[derive(Debug, Default)]
struct RunBoard {
    asked: Mutex<SharedRun>,
    changed: Condvar,
}

#[derive(Debug)]
struct TestCoordinator(Arc<RunBoard>);

impl Coordinator for TestCoordinator {
    fn start(&self, terms: &GradientTerms) -> Result<()> {
        self.0.asked.lock().unwrap().terms.push(terms.clone());
        Ok(())
    }

    fn train_step(
        &self,
        params: &[f32],
        at: BatchPosition,
        micro_batches: usize,
        grads: &mut [f32],
    ) -> Result<StepOutput> {
        let mut shared = self.0.asked.lock().unwrap();
        shared.weights = Arc::new(params.to_vec());
        shared.at = Some(at);
        shared.to_do = (0..micro_batches).collect();
        shared.found.clear();
        self.0.changed.notify_all();
        while shared.found.len() < micro_batches {
            shared = self.0.changed.wait(shared).unwrap();
        }
        let learnt: Vec<StepOutput> = shared.found.values().map(|(learnt, _)| *learnt).collect();
        let found: Vec<&[f32]> = shared.found.values().map(|(_, grads)| &grads[..]).collect();
        // In two parts, as two owners of parameters add them.
        let middle = grads.len() / 3;
        let (first, second) = grads.split_at_mut(middle);
        combine_gradients(&learnt, &found.iter().map(|grads| &grads[..middle]).collect::<Vec<_>>(), first)?;
        combine_gradients(&learnt, &found.iter().map(|grads| &grads[middle..]).collect::<Vec<_>>(), second)
    }
}

#[derive(Debug)]
struct TestWorker {
    board: Arc<RunBoard>,
    /// True if it crashes during its first micro-batch.
    dies: bool,
}

impl Worker for TestWorker {
    fn run(&self, terms: &GradientTerms, learn: &mut TrainMicroBatch<'_>) -> Result<()> {
        let mut shared = self.board.asked.lock().unwrap();
        shared.terms.push(terms.clone());
        loop {
            while !shared.is_over && (shared.to_do.is_empty() || shared.to_die > 0 && !self.dies) {
                shared = self.board.changed.wait(shared).unwrap();
            }
            if shared.is_over {
                return Ok(());
            }
            // The last micro-batch first, so that results arrive out of order.
            let part = shared.to_do.pop().unwrap();
            if self.dies {
                shared.to_do.push(part);
                shared.to_die -= 1;
                self.board.changed.notify_all();
                return Err(Error::Setting("killed".into()));
            }
            let (weights, at) = (Arc::clone(&shared.weights), shared.at.unwrap());
            drop(shared);
            let mut grads = vec![f32::NAN; weights.len()];
            let learnt = learn(&weights, at, part, &mut grads)?;
            shared = self.board.asked.lock().unwrap();
            shared.found.insert(part, (learnt, grads));
            self.board.changed.notify_all();
        }
    }
}

/// Checks that local and distributed runs produce the same weights. There are one, two or three workers, and one of
/// them crashes.
fn check_same_weights(name: &str, work: impl Fn(Training<'_>) -> Result<()> + Sync) {
    let folder = tempfile::tempdir().unwrap();
    let run = |out: &Path, crew: Option<WorkerGroup>| {
        let mut training = Training::new(out);
        training.options.epochs = Some(2);
        training.options.micro_batches = Some(4);
        training.options.worker_group = crew;
        work(training)
    };
    let bytes = |out: &str| std::fs::read(folder.path().join(out).join("model.safetensors")).unwrap();
    run(&folder.path().join("alone"), None).unwrap();
    let crews: &[usize] = if exhaustive("chumoku") { &[1, 2, 3] } else { &[1, 3] };
    for &helpers in crews {
        let board = Arc::new(RunBoard::default());
        board.asked.lock().unwrap().to_die = usize::from(helpers == 3);
        let out = format!("of {helpers}");
        std::thread::scope(|scope| {
            let helping: Vec<_> = (0..helpers)
                .map(|number| {
                    let helper = TestWorker { board: Arc::clone(&board), dies: number == 2 };
                    let out = folder.path().join(format!("{out}, helper {number}"));
                    let run = &run;
                    scope.spawn(move || run(&out, Some(WorkerGroup::Worker(Arc::new(helper)))))
                })
                .collect();
            run(
                &folder.path().join(&out),
                Some(WorkerGroup::Coordinator(Arc::new(TestCoordinator(Arc::clone(&board))))),
            )
            .unwrap();
            board.asked.lock().unwrap().is_over = true;
            board.changed.notify_all();
            for (number, helper) in helping.into_iter().enumerate() {
                let ended = helper.join().unwrap();
                match number {
                    2 => assert!(matches!(ended, Err(Error::Setting(_))), "{name}: {ended:?}"),
                    _ => assert!(matches!(ended, Err(Error::WorkerFinished)), "{name}: {ended:?}"),
                }
            }
        });
        let shared = board.asked.lock().unwrap();
        assert_eq!(shared.terms.len(), helpers + 1);
        assert!(shared.terms.iter().all(|terms| *terms == shared.terms[0]), "{name}: {:?}", shared.terms);
        assert!(bytes(&out) == bytes("alone"), "{name}: different weights with {helpers} workers");
    }
}

#[test]
fn a_classifier_trains_the_same_with_workers() {
    let mut data = builtin::reviews();
    let shorten = |rows: &mut Rows, count: usize| {
        rows.texts.truncate(count);
        rows.labels.truncate(count);
    };
    shorten(&mut data.train, 200);
    shorten(&mut data.valid, 40);
    let few = data.clone();
    // Without test rows, validation rows must stay separate, so there is no cross-validation.
    shorten(&mut data.test, 0);
    check_same_weights("classes", |training| train(&data, training).map(drop));
    leader_trains_alone(&few);
}

/// With few rows the coordinator trains alone, says so, and produces the same bytes. A worker ends at once.
fn leader_trains_alone(data: &TrainingData) {
    let folder = tempfile::tempdir().unwrap();
    let board = Arc::new(RunBoard::default());
    let mut messages = Vec::new();
    let mut run = |out: &str, crew: Option<WorkerGroup>| {
        let out = folder.path().join(out);
        let mut training = Training::new(&out);
        (training.options.epochs, training.options.worker_group) = (Some(1), crew);
        training.observe = Box::new(|event: TrainEvent<'_>| {
            if let TrainEvent::Message(_, text) = event {
                messages.push(text);
            }
        });
        train(data, training).map(drop)
    };
    run("alone", None).unwrap();
    run("leader", Some(WorkerGroup::Coordinator(Arc::new(TestCoordinator(Arc::clone(&board)))))).unwrap();
    let helper = TestWorker { board: Arc::clone(&board), dies: false };
    assert!(matches!(run("helper", Some(WorkerGroup::Worker(Arc::new(helper)))), Err(Error::WorkerFinished)));
    assert!(board.asked.lock().unwrap().terms.is_empty());
    assert_eq!(messages.iter().filter(|text| text.contains("this process trains alone")).count(), 1, "{messages:?}");
    let bytes = |out: &str| std::fs::read(folder.path().join(out).join("model.safetensors")).unwrap();
    assert!(bytes("leader") == bytes("alone"));
}

/// Writes a file into a temporary folder.
fn write_file(name: &str, text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

/// Sentences of a few words, each with the number of good words.
fn sentences() -> impl Iterator<Item = (String, usize)> {
    const WORDS: [&str; 7] = ["good", "slow", "kind", "cold", "fresh", "loud", "clean"];
    (0..120usize).map(|i| {
        let words = [i % 7, i / 7 % 7, i / 49, (i * i + 3) % 7].map(|at| WORDS[at]);
        let good = words.iter().filter(|word| ["good", "kind", "fresh", "clean"].contains(word)).count();
        (words.join(" "), good)
    })
}

#[test]
fn multi_label_and_regression_models_train_the_same_with_workers() {
    let rows: String =
        sentences().map(|(text, good)| format!("{{\"text\":\"{text}\",\"number\":{good}.5}}\n")).collect();
    let (_folder, path) = write_file("rows.jsonl", &rows);
    let mut read = ReadOptions::default();
    read.label = Some("number".into());
    let scores = load_scores(&path, &read).unwrap();
    let data = TrainingData::from_scores(&scores, None, None).unwrap();
    check_same_weights("numbers", |training| train_number(&data, training).map(drop));

    let labels = |text: &str| ["good", "cold"].into_iter().filter(|word| text.contains(word)).collect::<Vec<_>>();
    let rows: String =
        sentences().map(|(text, _)| format!("{{\"text\":\"{text}\",\"labels\":{:?}}}\n", labels(&text))).collect();
    let (_folder, path) = write_file("rows.jsonl", &rows);
    read.label = Some("labels".into());
    let sets = load_multi_label(&path, &read, &LabelOptions::default()).unwrap();
    let data = TrainingData::from_label_sets(&sets, None, None).unwrap();
    check_same_weights("labels", |training| train_labels(&data, training).map(drop));
}

#[test]
fn a_translator_trains_the_same_with_workers() {
    let rows: String = sentences()
        .map(|(text, _)| {
            let turned = text.split(' ').rev().collect::<Vec<_>>().join(" ");
            format!("{text}\t{turned}\n")
        })
        .collect();
    let (_folder, path) = write_file("pairs.tsv", &rows);
    let pairs = load_pairs(&DataFiles::One(path), &ReadOptions::default()).unwrap();
    let parts = PairSplit::new(&pairs, None, None).unwrap();
    check_same_weights("translation", |training| train_translator(&parts, pairs.names.clone(), training).map(drop));
}

#[test]
fn language_models_and_encoders_train_the_same_with_workers() {
    let texts: Vec<String> = sentences().map(|(text, good)| format!("{good} of these are good: {text}.")).collect();
    let mut parts = DocumentSplit::default();
    (parts.train, parts.valid) = (texts[..50].to_vec(), texts[110..].to_vec());
    check_same_weights("language", |training| train_language_model(&parts, training).map(drop));
    check_same_weights("masked", |training| pretrain(&parts, training).map(drop));
}

#[test]
fn terms_contain_everything_that_workers_must_agree_on() {
    let terms = |change: &dyn Fn(&mut Training<'_>)| {
        let folder = tempfile::tempdir().unwrap();
        let board = Arc::new(RunBoard::default());
        board.asked.lock().unwrap().is_over = true;
        let helper = TestWorker { board: Arc::clone(&board), dies: false };
        let mut training = Training::new(folder.path());
        training.options.worker_group = Some(WorkerGroup::Worker(Arc::new(helper)));
        change(&mut training);
        assert!(matches!(train(&builtin::reviews(), training), Err(Error::WorkerFinished)));
        board.asked.lock().unwrap().terms.remove(0)
    };
    let first = terms(&|_| {});
    assert_eq!(first, terms(&|_| {}));
    assert_ne!(first.fingerprint, terms(&|training| training.options.seed = 7).fingerprint);
    assert_ne!(first.fingerprint, terms(&|training| training.options.micro_batches = Some(8)).fingerprint);
    assert_ne!(first.precision, terms(&|training| training.options.precision = chumoku::Precision::Highest).precision);
}
