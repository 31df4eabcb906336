//! What a classifier's run of steps works on, whatever it tells of a text: rows as tokens, what of a row is learnt from in an epoch,
//! evaluations, and how much time and memory all of it takes.

use super::card::report_rows;
use super::memory::{FORWARD, Footing, bytes_of};
use super::names::{label, network_name, network_sizes};
use super::network::Network;
use super::parts::Learnt;
use super::run::sha256_of_numbers;
use super::target::Target;
use super::trainable::{Evaluation, Place, Trainable};
use super::{Event, Plan, Rows, Settings, Shape, TrainingData, batches};
use crate::inference::{self, Framed};
use crate::lang::lang;
use crate::lang::wording::{count, thousands};
use crate::logistic::Regression;
use crate::models::Classifier;
use crate::ngram::Answer;
use crate::params::{Layout, Params};
use crate::pretrained::Start;
use crate::scoring::picked;
use crate::text::TextTokenizer;
use crate::text_classifier::TextClassifier;
use crate::{Result, tr};
use chumoku_kernels::Philox;
use ndarray::Array2;
use std::sync::Arc;
use std::time::Duration;

/// The memory that the data and the n-gram model take: of `base` bytes that the process holds, and those that training the
/// model takes at the most.
pub(super) fn ngram_footing<A: Answer>(data: &TrainingData<A>, training: usize, base: usize) -> Footing {
    let bytes = |rows: &Rows<A>| rows.texts.iter().map(|text| text.len()).sum::<usize>();
    let scored = report_rows(data).0.len() * (40 * data.labels.len() + 400);
    let base = if base > 0 { base } else { 3 * (bytes(&data.train) + bytes(&data.valid)) };
    Footing { base, kept: 0, later: training + scored }
}

/// A classifier's task.
pub(super) struct Classify<'a, A = u32> {
    data: &'a TrainingData<A>,
    plan: &'a Plan,
    model: &'a Classifier,
    tokenizer: &'a TextTokenizer,
    /// The pretrained encoder, if there is one.
    start: Option<&'a Start>,
    /// The model that is trained further, if one is.
    before: Option<&'a TextClassifier>,
    /// The last layer, where it was solved.
    head: Option<&'a Regression>,
    rows: &'a [Vec<u32>],
    valid_rows: Vec<Vec<u32>>,
    /// Rows among the training rows that are evaluated where there are no validation rows; all of them if absent.
    watched: Option<(Vec<Vec<u32>>, &'a Rows<A>)>,
    /// The tokenizer's file.
    vocabulary: String,
    /// Memory without that of the tokens.
    pub(super) footing: Footing,
    /// Time that is needed after the steps: the n-gram model is trained once more, with one penalty in place of some.
    pub(super) seconds_afterwards: f64,
}

/// Streams of the run's random numbers; see also [`batches`].
const WINDOW: u64 = 1 << 60;
const TOKENS: u64 = WINDOW + (1 << 56);

impl<'a, A: Target> Classify<'a, A> {
    pub(super) fn new(data: &'a TrainingData<A>, network: &'a Network, model: &'a Classifier) -> Result<Self> {
        Ok(Classify {
            data,
            plan: &network.plan,
            model,
            tokenizer: &network.tokenizer,
            start: network.start.as_ref(),
            before: network.before.as_ref(),
            head: network.head.as_ref(),
            rows: &network.rows,
            valid_rows: network.tokenizer.encode_all(&data.valid.texts())?,
            watched: None,
            vocabulary: network.tokenizer.to_json()?,
            footing: Footing::default(),
            seconds_afterwards: 0.0,
        })
    }

    /// Evaluates these of the training rows after each epoch, as there are no validation rows.
    pub(super) fn watch(&mut self, rows: &'a Rows<A>) -> Result<()> {
        self.watched = Some((self.tokenizer.encode_all(&rows.texts())?, rows));
        Ok(())
    }

    /// The rows that are evaluated after each epoch, as tokens and as they are.
    fn evaluated_rows(&self) -> (&[Vec<u32>], &Rows<A>) {
        match (&self.watched, self.valid_rows.is_empty()) {
            (_, false) => (&self.valid_rows, &self.data.valid),
            (Some((tokens, rows)), true) if !rows.is_empty() => (tokens, rows),
            (_, true) => (self.rows, &self.data.train),
        }
    }

    /// The logits of the validation rows.
    pub(super) fn held_out_logits(&self, params: &Params<f32>) -> Result<Array2<f32>> {
        inference::logits(self.model, params, self.framed(), &self.valid_rows)
    }

    fn framed(&self) -> Framed<'_> {
        Framed { frame: self.tokenizer.frame(), most: self.plan.max_tokens() }
    }

    fn window(&self) -> usize {
        self.framed().window()
    }

    /// Tokens of a row as it is learnt from, with those around it.
    fn length(&self, row: usize) -> usize {
        self.rows[row].len().min(self.window()) + self.tokenizer.frame().len()
    }

    /// The work of reading rows once, whole, as a share of that of an epoch's learning.
    fn reading_share(&self, rows: &[Vec<u32>]) -> f64 {
        let limit = self.window();
        // Long rows are read in windows of nearly equal size.
        let of_row = |row: &Vec<u32>| {
            let windows = row.len().div_ceil(limit).max(1) as f64;
            windows * self.plan.model.multiply_adds(self.tokenizer.frame().len() as f64 + row.len() as f64 / windows)
        };
        let learning: f64 = (0..self.rows.len()).filter_map(|row| self.work(&[row])).map(|work| work as f64).sum();
        rows.iter().map(of_row).sum::<f64>() / learning.max(1.0)
    }

    /// The work of training the transformer from scratch that is reported beside a fine-tuned one, as a share of that of an
    /// epoch's learning: about, since its tokens are others.
    fn share_of_scratch(&self) -> f64 {
        let lengths: Vec<usize> = self.rows.iter().map(Vec::len).collect();
        let (class_rows, vocab_size) = (self.data.class_rows(), self.plan.model.vocab_size);
        let plan = Plan::new(&Shape { lengths: &lengths, class_rows: &class_rows, vocab_size });
        let of_row = |&length: &usize| plan.model.multiply_adds(1.0 + length.min(plan.model.max_length) as f64);
        let all = plan.settings.epochs as f64 * lengths.iter().map(of_row).sum::<f64>() / FORWARD;
        let learning: f64 = (0..self.rows.len()).filter_map(|row| self.work(&[row])).map(|work| work as f64).sum();
        // Narrow layers take longer for the same work.
        2.0 * all / learning.max(1.0)
    }

    /// Says what the tokens, the model and the rows are like; `is_ours` if the weights of classes follow from the data.
    pub(super) fn describe(&self, is_ours: bool, observe: &mut dyn FnMut(Event<'_>)) {
        let mut lengths: Vec<usize> = self.rows.iter().map(Vec::len).collect();
        lengths.sort_unstable();
        let (median, longest) = (lengths.get(lengths.len() / 2).unwrap_or(&0), lengths.last().unwrap_or(&0));
        let model = &self.plan.model;
        let kind = match self.start {
            None => format!("{}: ", self.tokenizer.unit().noun_in(lang())),
            Some(_) => String::new(),
        };
        let mut say = |what, text| observe(Event::Said(what, text));
        say(
            label("tokens"),
            tr!(
                "{kind}{} in the training rows (median {median}, longest {longest}), vocabulary {}",
                "{kind}学習データに {}（中央値 {median}、最長 {longest}）、語彙 {}",
                thousands(lengths.iter().sum()),
                thousands(model.vocab_size)
            ),
        );
        say(
            label("model"),
            tr!(
                "{}{}, {}: {} parameters",
                "{}{}、{}、パラメータ {}",
                self.plan.fine_tuning.as_ref().map(|from| format!("{}, ", from.model_type)).unwrap_or_default(),
                network_name(model.body.network()),
                network_sizes(&model.body, lang()),
                thousands(self.model.layout().len())
            ),
        );
        let window = self.window();
        let long_rows = lengths.iter().filter(|&&length| length > window).count();
        if long_rows > 0 {
            let rows = count(long_rows as u64, "row");
            say(
                label("long"),
                tr!(
                    "{rows} of more than {window} tokens: nothing is cut; training reads a window of them at a random \
                     place each epoch, evaluation reads all windows and averages",
                    "{window} トークンを超える行が {long_rows} 行。切り捨てはせず、学習ではエポックごとに無作為な位置の窓を、\
                     評価ではすべての窓を読んで平均します"
                ),
            );
        }
        if self.plan.class_weights.is_some() && is_ours {
            let text = tr!(
                "classes are unbalanced: rare ones count more (by the root of their rarity)",
                "クラスの行数に偏りがあるため、少ないクラスを重く扱います（少なさの平方根に比例）"
            );
            say(label("weights"), text);
        }
    }

    /// What is read of a training row in an epoch: all of it or, of a long one, a window at a random place; with a
    /// random share of its tokens left out.
    fn sample(&self, row: usize, Place { seed, epoch, .. }: Place) -> Vec<u32> {
        let ids = &self.rows[row];
        let mut start = 0;
        if ids.len() > self.window() {
            let random = Philox::new(seed, WINDOW + epoch).uniform(row as u64);
            start = (f64::from(random) * (ids.len() - self.window() + 1) as f64) as usize;
        }
        let ids = &ids[start..ids.len().min(start + self.window())];
        let random = Philox::new(seed, TOKENS + epoch);
        let kept = (0..ids.len().div_ceil(4)).flat_map(|block| random.block((row as u64) << 20 | block as u64));
        let threshold = (f64::from(self.plan.token_dropout) * f64::from(u32::MAX)) as u32;
        ids.iter().zip(kept).filter(|(_, word)| *word >= threshold).map(|(&id, _)| id).collect()
    }
}

impl<A: Target> Trainable for Classify<'_, A> {
    fn layout(&self) -> &Arc<Layout> {
        self.model.layout()
    }

    fn start(&self, seed: u64) -> Result<(Params<f32>, String)> {
        if let Some(before) = self.before {
            let params = super::further::params(before, self.layout(), self.data, seed);
            let sha256 = sha256_of_numbers(params.values());
            let frozen = self.plan.fine_tuning.as_ref().map(|fine_tuning| fine_tuning.freeze.apply(&params, seed));
            return Ok((frozen.unwrap_or(params), sha256));
        }
        let begin = |mut params: Params<f32>| {
            let place = self.layout().iter().find(|(name, ..)| *name == "head.bias").map(|(_, _, range)| range);
            if let Some((range, bias)) = place.zip(A::bias(&self.data.class_rows(), self.data.train.len())) {
                params.values_mut()[range].copy_from_slice(&bias);
            }
            params
        };
        let (Some(start), Some(fine_tuning)) = (self.start, &self.plan.fine_tuning) else {
            return Ok((begin(Params::init(self.layout(), seed)), String::new()));
        };
        let mut params = begin(start.params(self.layout(), seed)?);
        if let Some(head) = self.head {
            for (name, _, range) in self.layout().iter() {
                let to = &mut params.values_mut()[range];
                match name {
                    "head.weight" => to.iter_mut().zip(&head.weight).for_each(|(to, &w)| *to = w as f32),
                    "head.bias" => to.iter_mut().zip(&head.bias).for_each(|(to, &b)| *to = b as f32),
                    _ => {}
                }
            }
        }
        let sha256 = sha256_of_numbers(params.values());
        Ok((fine_tuning.freeze.apply(&params, seed), sha256))
    }

    fn settings(&self) -> &Settings {
        &self.plan.settings
    }

    fn fingerprint(&self) -> [String; 3] {
        let plan = serde_json::to_string(self.plan).expect("a plan is plain data");
        [self.data.fingerprint_of_run(), plan, self.vocabulary.clone()]
    }

    fn batches(&self, epoch: u64, seed: u64) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = (0..self.rows.len()).map(|row| self.length(row)).collect();
        batches(&lengths, self.plan.settings.batch_tokens, seed, epoch)
    }

    fn learn(&self, params: &Params<f32>, rows: &[usize], at: Place, grads: &mut Params<f32>) -> Result<Learnt> {
        let samples: Vec<Vec<u32>> = rows.iter().map(|&row| self.sample(row, at)).collect();
        let (ids, offsets) = self.framed().pack(samples.iter().map(Vec::as_slice));
        let answers: Vec<A> = rows.iter().map(|&row| self.data.train.labels[row].clone()).collect();
        let weights = picked(self.data.train.weights.as_deref(), rows);
        let answers = (&answers[..], weights.as_deref());
        A::learn(self.model, params, (&ids, &offsets), answers, self.plan, at.mode(), grads)
    }

    fn evaluate(&self, params: &Params<f32>) -> Result<Evaluation> {
        // Without validation rows training rows have to do.
        let (tokens, rows) = self.evaluated_rows();
        let logits = inference::logits(self.model, params, self.framed(), tokens)?;
        Ok(A::evaluate(&logits, rows, self.data, !self.valid_rows.is_empty()))
    }

    fn work(&self, batch: &[usize]) -> Option<u64> {
        // Twice as much backward as forward; some tokens are left out.
        let kept = 1.0 - f64::from(self.plan.token_dropout);
        let frame = self.tokenizer.frame().len() as f64;
        let of_row =
            |&row: &usize| self.plan.model.multiply_adds(frame + kept * self.rows[row].len().min(self.window()) as f64);
        Some((batch.iter().map(of_row).sum::<f64>() / FORWARD) as u64)
    }

    fn evaluation_share(&self) -> f64 {
        self.reading_share(self.evaluated_rows().0)
    }

    fn scoring_share(&self) -> f64 {
        // Validation rows once more, for the blend; then the rows that are reported on, which are not tokens as yet.
        let bytes = |rows: &Rows<A>| rows.texts.iter().map(|text| text.len()).sum::<usize>() as f64;
        let (known, tokens, blended) = match self.valid_rows.is_empty() {
            true => (&self.data.train, self.rows, 0.0),
            false => (&self.data.valid, &self.valid_rows[..], 1.0),
        };
        let of_scratch = if self.start.is_some() && !A::IS_SET { self.share_of_scratch() } else { 0.0 };
        self.reading_share(tokens) * (blended + bytes(report_rows(self.data).0) / bytes(known).max(1.0)) + of_scratch
    }

    fn footing(&self) -> Footing {
        Footing { kept: self.footing.kept + bytes_of(self.rows) + bytes_of(&self.valid_rows), ..self.footing }
    }

    fn afterwards(&self) -> Duration {
        Duration::from_secs_f64(self.seconds_afterwards)
    }

    fn activations(&self) -> usize {
        let body = &self.plan.model.body;
        let per_token = body.numbers_per_token() + 6 * body.d_model();
        self.plan.settings.batch_tokens * per_token
    }
}
