//! The task of training a classifier's network, for all targets: tokenized rows, samples of long rows, evaluation, and
//! estimates of time and memory.

use super::classifier_network::ClassifierNetwork;
use super::logistic::LogisticRegression;
use super::target::ClassifierTarget;
use crate::lang::lang;
use crate::lang::wording::{format_count, format_thousands};
use crate::models::Classifier;
use crate::ngram::NgramTarget;
use crate::parallel_batches::{self, InputTemplate};
use crate::params::{ParamLayout, Params};
use crate::pretrained::FineTuningBase;
use crate::row::AsRow;
use crate::scoring::{Rows, select_weights};
use crate::text::TextTokenizer;
use crate::text_models::classifier::TextClassifier;
use crate::train::continued_training::combined_rows::params_from_outputs;
use crate::train::data::training_data::TrainingData;
use crate::train::reports::card::reported_rows;
use crate::train::reports::display_names::{network_name, network_sizes};
use crate::train::run_folder::run_identity::sha256_of_numbers;
use crate::train::settings::plan::{DataShape, Plan};
use crate::train::training_loop::batches::batches;
use crate::train::training_loop::memory::{FORWARD_SHARE, MemoryEstimate, bytes_of};
use crate::train::training_loop::micro_batches::StepOutput;
use crate::train::training_loop::random_streams;
use crate::train::training_loop::train_event::{TrainEvent, topic_label};
use crate::train::training_loop::train_settings::TrainSettings;
use crate::train::training_loop::trainable::{Evaluation, StepContext, Trainable};
use crate::{Result, tr};
use chumoku_kernels::Philox;
use ndarray::Array2;
use std::sync::Arc;
use std::time::Duration;

/// Estimates the memory of the data and the n-gram model. `base` is the memory in use, and `training` the peak of
/// fitting the model, both in bytes.
pub(super) fn ngram_memory_estimate<A: NgramTarget>(
    data: &TrainingData<A>,
    training: usize,
    base: usize,
) -> MemoryEstimate {
    let bytes = |rows: &Rows<A>| rows.texts.iter().map(|row| row.as_row().joined_len()).sum::<usize>();
    let scored = reported_rows(data).0.len() * (40 * data.labels.len() + 400);
    let base = if base > 0 { base } else { 3 * (bytes(&data.train) + bytes(&data.valid)) };
    MemoryEstimate { base, resident: 0, temporary: training + scored }
}

/// Returns the initial weights: those of the base model, including the outputs of known classes in the last layer.
fn initial_params<A: ClassifierTarget>(
    before: &TextClassifier,
    layout: &Arc<ParamLayout>,
    data: &TrainingData<A>,
    seed: u64,
) -> Params<f32> {
    let kept = A::inherited_outputs((before.labels(), &before.config.target), data);
    let bias = A::initial_bias(&data.class_rows(), data.train.len());
    params_from_outputs(&before.params, layout, &kept, bias.as_deref(), seed)
}

/// A classifier with its data, as the training loop runs it.
pub(crate) struct ClassifierTask<'a, A = u32> {
    data: &'a TrainingData<A>,
    plan: &'a Plan,
    model: &'a Classifier,
    tokenizer: &'a TextTokenizer,
    /// The pretrained encoder, if any.
    encoder: Option<&'a FineTuningBase>,
    /// The base model, in continued training.
    base: Option<&'a TextClassifier>,
    /// The regression that replaces a trained head, if any.
    head: Option<&'a LogisticRegression>,
    rows: &'a [Vec<u32>],
    valid_rows: Vec<Vec<u32>>,
    /// Training rows to evaluate if there are no validation rows. All training rows if absent.
    evaluation_rows: Option<(Vec<Vec<u32>>, &'a Rows<A>)>,
    /// The tokenizer's file.
    vocabulary: String,
    /// Memory besides that of the tokens.
    pub(crate) memory_estimate: MemoryEstimate,
    /// The time needed after the steps, in seconds. The n-gram model is fitted once more, with one penalty instead of
    /// several.
    pub(super) seconds_after_steps: f64,
}

impl<'a, A: ClassifierTarget> ClassifierTask<'a, A> {
    pub(crate) fn new(
        data: &'a TrainingData<A>,
        network: &'a ClassifierNetwork,
        model: &'a Classifier,
    ) -> Result<Self> {
        Ok(ClassifierTask {
            data,
            plan: &network.plan,
            model,
            tokenizer: &network.tokenizer,
            encoder: network.encoder.as_ref(),
            base: network.base.as_ref(),
            head: network.head.as_ref(),
            rows: &network.rows,
            valid_rows: network.tokenizer.encode_all(&data.valid.texts())?,
            evaluation_rows: None,
            vocabulary: network.tokenizer.to_json()?,
            memory_estimate: MemoryEstimate::default(),
            seconds_after_steps: 0.0,
        })
    }

    /// Evaluates these training rows after each epoch, for data without validation rows.
    pub(super) fn evaluate_on(&mut self, rows: &'a Rows<A>) -> Result<()> {
        self.evaluation_rows = Some((self.tokenizer.encode_all(&rows.texts())?, rows));
        Ok(())
    }

    /// Returns the rows to evaluate after each epoch, tokenized and raw.
    fn rows_to_evaluate(&self) -> (&[Vec<u32>], &Rows<A>) {
        match (&self.evaluation_rows, self.valid_rows.is_empty()) {
            (_, false) => (&self.valid_rows, &self.data.valid),
            (Some((tokens, rows)), true) if !rows.is_empty() => (tokens, rows),
            (_, true) => (self.rows, &self.data.train),
        }
    }

    /// Returns the logits of the validation rows.
    pub(super) fn held_out_logits(&self, params: &Params<f32>) -> Result<Array2<f32>> {
        parallel_batches::logits(self.model, params, self.input_template(), &self.valid_rows)
    }

    fn input_template(&self) -> InputTemplate<'_> {
        InputTemplate { special_tokens: self.tokenizer.special_tokens(), max_tokens: self.plan.max_tokens() }
    }

    fn window(&self) -> usize {
        self.input_template().window_size()
    }

    /// Returns the tokens of a row in a training step, including special tokens.
    fn length(&self, row: usize) -> usize {
        self.rows[row].len().min(self.window()) + self.tokenizer.special_tokens().len()
    }

    /// The cost of reading rows once in full, relative to that of a training epoch.
    fn reading_share(&self, rows: &[Vec<u32>]) -> f64 {
        let limit = self.window();
        // Long rows are divided into windows of nearly equal size.
        let of_row = |row: &Vec<u32>| {
            let windows = row.len().div_ceil(limit).max(1) as f64;
            windows
                * self
                    .plan
                    .model
                    .multiply_adds(self.tokenizer.special_tokens().len() as f64 + row.len() as f64 / windows)
        };
        let learning: f64 =
            (0..self.rows.len()).filter_map(|row| self.multiply_adds(&[row])).map(|work| work as f64).sum();
        rows.iter().map(of_row).sum::<f64>() / learning.max(1.0)
    }

    /// The cost of the transformer from scratch that a fine-tuned one is compared with, relative to that of a training
    /// epoch. It is an estimate, since that transformer has other tokens.
    fn scratch_cost_share(&self) -> f64 {
        let lengths: Vec<usize> = self.rows.iter().map(Vec::len).collect();
        let (class_rows, vocab_size) = (self.data.class_rows(), self.plan.model.vocab_size);
        let plan = Plan::new(&DataShape { lengths: &lengths, class_rows: &class_rows, vocab_size });
        let of_row = |&length: &usize| plan.model.multiply_adds(1.0 + length.min(plan.model.max_length) as f64);
        let all = plan.settings.epochs as f64 * lengths.iter().map(of_row).sum::<f64>() / FORWARD_SHARE;
        let learning: f64 =
            (0..self.rows.len()).filter_map(|row| self.multiply_adds(&[row])).map(|work| work as f64).sum();
        // Narrow layers take longer for the same number of operations.
        2.0 * all / learning.max(1.0)
    }

    /// Reports tokens, model and long rows. `weights_from_data` is true if the class weights are chosen from the data.
    pub(crate) fn describe(&self, weights_from_data: bool, observe: &mut dyn FnMut(TrainEvent<'_>)) {
        let mut lengths: Vec<usize> = self.rows.iter().map(Vec::len).collect();
        lengths.sort_unstable();
        let (median, longest) = (lengths.get(lengths.len() / 2).unwrap_or(&0), lengths.last().unwrap_or(&0));
        let model = &self.plan.model;
        let kind = match self.encoder {
            None => format!("{}: ", self.tokenizer.unit().noun_in(lang())),
            Some(_) => String::new(),
        };
        let mut say = |what, text| observe(TrainEvent::Message(what, text));
        say(
            topic_label("tokens"),
            tr!(
                "{kind}{} in the training rows (median {median}, longest {longest}), vocabulary {}",
                "{kind}学習データに {}（中央値 {median}、最長 {longest}）、語彙 {}",
                format_thousands(lengths.iter().sum()),
                format_thousands(model.vocab_size)
            ),
        );
        say(
            topic_label("model"),
            tr!(
                "{}{}, {}: {} parameters",
                "{}{}、{}、パラメータ {}",
                self.plan.fine_tuning.as_ref().map(|from| format!("{}, ", from.model_type)).unwrap_or_default(),
                network_name(model.backbone.kind()),
                network_sizes(&model.backbone, lang()),
                format_thousands(self.model.layout().len())
            ),
        );
        let window = self.window();
        let long_rows = lengths.iter().filter(|&&length| length > window).count();
        if long_rows > 0 {
            let rows = format_count(long_rows as u64, "row");
            say(
                topic_label("long"),
                tr!(
                    "{rows} of more than {window} tokens: no text is truncated; each epoch trains on one random \
                     window of each, evaluation averages all windows",
                    "{window} トークンを超える行が {long_rows} 行。切り捨てはせず、学習ではエポックごとに無作為な位置の窓を、\
                     評価ではすべての窓を読んで平均します"
                ),
            );
        }
        if self.plan.class_weights.is_some() && weights_from_data {
            let text = tr!(
                "classes are unbalanced: rare classes weigh more (square root of the inverse frequency)",
                "クラスの行数に偏りがあるため、少ないクラスの重みを大きくします（頻度の逆数の平方根）"
            );
            say(topic_label("weights"), text);
        }
    }

    /// Returns the tokens of a training row for an epoch: a random window if the row is long, with random tokens
    /// dropped.
    fn sample(&self, row: usize, StepContext { seed, epoch, .. }: StepContext) -> Vec<u32> {
        let ids = &self.rows[row];
        let mut start = 0;
        if ids.len() > self.window() {
            let random = Philox::new(seed, random_streams::WINDOWS + epoch).uniform(row as u64);
            start = (f64::from(random) * (ids.len() - self.window() + 1) as f64) as usize;
        }
        let ids = &ids[start..ids.len().min(start + self.window())];
        let random = Philox::new(seed, random_streams::TOKEN_DROPOUT + epoch);
        let kept = (0..ids.len().div_ceil(4)).flat_map(|block| random.block((row as u64) << 20 | block as u64));
        let threshold = (f64::from(self.plan.token_dropout) * f64::from(u32::MAX)) as u32;
        ids.iter().zip(kept).filter(|(_, word)| *word >= threshold).map(|(&id, _)| id).collect()
    }
}

impl<A: ClassifierTarget> Trainable for ClassifierTask<'_, A> {
    fn layout(&self) -> &Arc<ParamLayout> {
        self.model.layout()
    }

    fn start(&self, seed: u64) -> Result<(Params<f32>, String)> {
        if let Some(before) = self.base {
            let params = initial_params(before, self.layout(), self.data, seed);
            let sha256 = sha256_of_numbers(params.values());
            let frozen = self.plan.fine_tuning.as_ref().map(|fine_tuning| fine_tuning.freeze.apply(&params, seed));
            return Ok((frozen.unwrap_or(params), sha256));
        }
        let begin = |mut params: Params<f32>| {
            let place = self.layout().iter().find(|param| param.name == "head.bias").map(|param| param.range);
            if let Some((range, bias)) = place.zip(A::initial_bias(&self.data.class_rows(), self.data.train.len())) {
                params.values_mut()[range].copy_from_slice(&bias);
            }
            params
        };
        let (Some(start), Some(fine_tuning)) = (self.encoder, &self.plan.fine_tuning) else {
            return Ok((begin(Params::init(self.layout(), seed)), String::new()));
        };
        let mut params = begin(start.params(self.layout(), seed)?);
        if let Some(head) = self.head {
            for param in self.layout().iter() {
                let to = &mut params.values_mut()[param.range];
                match param.name {
                    "head.weight" => to.iter_mut().zip(&head.weight).for_each(|(to, &w)| *to = w as f32),
                    "head.bias" => to.iter_mut().zip(&head.bias).for_each(|(to, &b)| *to = b as f32),
                    _ => {}
                }
            }
        }
        let sha256 = sha256_of_numbers(params.values());
        Ok((fine_tuning.freeze.apply(&params, seed), sha256))
    }

    fn settings(&self) -> &TrainSettings {
        &self.plan.settings
    }

    fn fingerprint(&self) -> [String; 3] {
        let plan = serde_json::to_string(self.plan).expect("a plan is plain data");
        [self.data.run_fingerprint(), plan, self.vocabulary.clone()]
    }

    fn batches(&self, epoch: u64, seed: u64) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = (0..self.rows.len()).map(|row| self.length(row)).collect();
        batches(&lengths, self.plan.settings.batch_tokens, seed, epoch)
    }

    fn train_step(
        &self,
        params: &Params<f32>,
        rows: &[usize],
        at: StepContext,
        grads: &mut Params<f32>,
    ) -> Result<StepOutput> {
        let samples: Vec<Vec<u32>> = rows.iter().map(|&row| self.sample(row, at)).collect();
        let (ids, offsets) = self.input_template().pack(samples.iter().map(Vec::as_slice));
        let answers: Vec<A> = rows.iter().map(|&row| self.data.train.labels[row].clone()).collect();
        let weights = select_weights(self.data.train.weights.as_deref(), rows);
        let answers = (&answers[..], weights.as_deref());
        A::train_step(self.model, params, (&ids, &offsets), answers, self.plan, at.mode(), grads)
    }

    fn evaluate(&self, params: &Params<f32>) -> Result<Evaluation> {
        // Without validation rows, training rows are evaluated.
        let (tokens, rows) = self.rows_to_evaluate();
        let logits = parallel_batches::logits(self.model, params, self.input_template(), tokens)?;
        Ok(A::evaluate(&logits, rows, self.data, !self.valid_rows.is_empty()))
    }

    fn multiply_adds(&self, batch: &[usize]) -> Option<u64> {
        // The backward pass costs twice the forward pass. Dropped tokens cost nothing.
        let kept = 1.0 - f64::from(self.plan.token_dropout);
        let frame = self.tokenizer.special_tokens().len() as f64;
        let of_row =
            |&row: &usize| self.plan.model.multiply_adds(frame + kept * self.rows[row].len().min(self.window()) as f64);
        Some((batch.iter().map(of_row).sum::<f64>() / FORWARD_SHARE) as u64)
    }

    fn evaluation_share(&self) -> f64 {
        self.reading_share(self.rows_to_evaluate().0)
    }

    fn scoring_share(&self) -> f64 {
        // The validation rows once more for the blend, then the reported rows, which are not tokenized yet.
        let bytes = |rows: &Rows<A>| rows.texts.iter().map(|row| row.as_row().joined_len()).sum::<usize>() as f64;
        let (known, tokens, blended) = match self.valid_rows.is_empty() {
            true => (&self.data.train, self.rows, 0.0),
            false => (&self.data.valid, &self.valid_rows[..], 1.0),
        };
        let of_scratch = if self.encoder.is_some() && !A::IS_SET { self.scratch_cost_share() } else { 0.0 };
        self.reading_share(tokens) * (blended + bytes(reported_rows(self.data).0) / bytes(known).max(1.0)) + of_scratch
    }

    fn memory_estimate(&self) -> MemoryEstimate {
        MemoryEstimate {
            resident: self.memory_estimate.resident + bytes_of(self.rows) + bytes_of(&self.valid_rows),
            ..self.memory_estimate
        }
    }

    fn time_after_steps(&self) -> Duration {
        Duration::from_secs_f64(self.seconds_after_steps)
    }

    fn activations(&self) -> usize {
        let body = &self.plan.model.backbone;
        let per_token = body.activations_per_token() + 6 * body.d_model();
        self.plan.settings.batch_tokens * per_token
    }
}
