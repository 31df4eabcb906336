//! The settings to try, in order: first the changes that help most often, one at a time, then random changes of the
//! best settings. The order depends on the seed, the data and the trials kept so far, never on the clock.

use crate::ngram::NgramConfig;
use crate::row::AsRow;
use crate::text::unspaced_fraction;
use crate::train::data::training_data::TrainingData;
use crate::train::settings::options::TrainOptions;
use crate::train::settings::plan::Plan;
use crate::train::settings::setting_overrides::{Setting, SettingOverrides};
use crate::train::training_loop::random_streams;
use chumoku_kernels::Philox;
use std::collections::HashSet;

/// A change of the best settings so far.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SettingChange {
    To(Setting, f64),
    Choose(Setting, &'static str),
    Times(Setting, f64),
}

use SettingChange::{Choose, Times, To};

/// Changes of the n-gram model for scripts with spaces.
const SPACED_NGRAMS: &[SettingChange] = &[
    To(Setting::InsideWords, 25.0),
    To(Setting::Relevance, 1.0),
    To(Setting::InsideWords, 26.0),
    To(Setting::Words, 2.0),
    Times(Setting::C, 0.5),
    Times(Setting::C, 2.0),
    To(Setting::MinTexts, 1.0),
    To(Setting::Relevance, 0.25),
    To(Setting::InsideWords, 0.0),
    To(Setting::MinTexts, 3.0),
    To(Setting::Relevance, 0.0),
];

/// Changes of the n-gram model for scripts without spaces.
const UNSPACED_NGRAMS: &[SettingChange] = &[
    To(Setting::Characters, 5.0),
    To(Setting::Relevance, 1.0),
    To(Setting::Characters, 6.0),
    To(Setting::Characters, 3.0),
    Times(Setting::C, 0.5),
    Times(Setting::C, 2.0),
    To(Setting::MinTexts, 1.0),
    To(Setting::Relevance, 0.25),
    To(Setting::MinTexts, 3.0),
    To(Setting::Relevance, 0.0),
];

/// Changes of a network trained from scratch.
const FROM_SCRATCH: &[SettingChange] = &[
    To(Setting::Layers, 1.0),
    Choose(Setting::Pooling, "max"),
    To(Setting::TokenDropout, 0.2),
    To(Setting::Width, 64.0),
    Choose(Setting::Positions, "rotary"),
    Times(Setting::LearningRate, 2.0),
    To(Setting::Dropout, 0.4),
    To(Setting::LabelSmoothing, 0.0),
    To(Setting::MinCount, 1.0),
    Times(Setting::LearningRate, 0.5),
    Choose(Setting::Positions, "none"),
    To(Setting::Dropout, 0.2),
    To(Setting::Width, 256.0),
    To(Setting::TokenDropout, 0.0),
    To(Setting::Layers, 3.0),
    Choose(Setting::Tokens, "subwords"),
    Times(Setting::BatchTokens, 0.5),
    To(Setting::WeightDecay, 0.3),
    Times(Setting::Epochs, 2.0),
];

/// Changes of a recurrent network.
const RECURRENT: &[SettingChange] = &[
    Choose(Setting::Pooling, "max"),
    To(Setting::TokenDropout, 0.2),
    Times(Setting::LearningRate, 2.0),
    To(Setting::Dropout, 0.4),
    To(Setting::LabelSmoothing, 0.0),
    To(Setting::Width, 64.0),
    Times(Setting::LearningRate, 0.5),
    To(Setting::MinCount, 1.0),
    To(Setting::Dropout, 0.2),
    To(Setting::WeightDecay, 0.3),
];

/// Changes of a pretrained network.
const PRETRAINED: &[SettingChange] = &[
    Times(Setting::LearningRate, 2.0),
    Times(Setting::LearningRate, 0.5),
    Times(Setting::Epochs, 0.6),
    To(Setting::TokenDropout, 0.1),
    To(Setting::LabelSmoothing, 0.0),
    Times(Setting::Epochs, 1.6),
    Times(Setting::BatchTokens, 0.5),
    To(Setting::WeightDecay, 0.1),
    Times(Setting::BatchTokens, 2.0),
];

/// The number of draws without new settings after which the search ends.
const MAX_DRAWS: u64 = 64;

/// The queue of settings to try.
pub(super) struct Candidates {
    /// The listed changes, in order.
    moves: Vec<SettingChange>,
    next: usize,
    random: Philox,
    drawn: u64,
    tried: HashSet<String>,
    /// Settings from the caller, which stay.
    caller_settings: SettingOverrides,
    /// True if the rows are pairs of texts.
    are_pairs: bool,
    /// The plan of the first trial.
    plan: Option<Plan>,
}

impl Candidates {
    /// Lists the candidates for this data, starting from the settings of the options, which stay. `plan` is that of the
    /// network, if there is one.
    pub(super) fn new(data: &TrainingData, options: &TrainOptions, plan: Option<Plan>) -> Candidates {
        const SOME: f64 = 0.1;
        const MOST: f64 = 0.5;
        let unspaced = unspaced_fraction(data.train.texts.iter().flat_map(|row| row.as_row().joined()));
        let are_pairs = data.reads_pairs();
        // The default for single texts, which suits some pairs.
        let mut moves: Vec<SettingChange> = if are_pairs { vec![To(Setting::Relevance, 0.5)] } else { Vec::new() };
        if unspaced > SOME {
            moves.extend(UNSPACED_NGRAMS);
        }
        if unspaced < MOST {
            let new: Vec<SettingChange> = SPACED_NGRAMS.iter().filter(|new| !moves.contains(new)).copied().collect();
            moves.extend(new);
        }
        moves.extend(plan.as_ref().map_or(&[][..], |plan| {
            match (&plan.fine_tuning, plan.model.backbone.transformer()) {
                (Some(_), _) => PRETRAINED,
                (None, Some(_)) => FROM_SCRATCH,
                (None, None) => RECURRENT,
            }
        }));
        let setting = |change: &SettingChange| match *change {
            To(setting, _) | Choose(setting, _) | Times(setting, _) => setting,
        };
        let is_given = |setting: Setting| match setting {
            Setting::Tokens if options.tokens.is_some() => true,
            Setting::Epochs if options.epochs.is_some() => true,
            other => options.overrides.get(other).is_some(),
        };
        moves.retain(|change| !is_given(setting(change)));
        if unspaced > SOME {
            // Sub-words are already the default in these scripts.
            for change in moves.iter_mut().filter(|change| setting(change) == Setting::Tokens) {
                *change = Choose(Setting::Tokens, "characters");
            }
        }
        let random = Philox::new(options.seed, random_streams::TUNING);
        let given = options.overrides.clone();
        Candidates { moves, next: 0, random, drawn: 0, tried: HashSet::new(), caller_settings: given, are_pairs, plan }
    }

    /// Returns the next settings, given the best so far and the C of their n-gram model, and whether they are random.
    /// `None` if nothing is left to try.
    pub(super) fn next(&mut self, best: &SettingOverrides, c: f64) -> Option<(SettingOverrides, bool)> {
        while let Some(&change) = self.moves.get(self.next) {
            self.next += 1;
            if let Some(found) = self.apply_if_new(best, &[change], c) {
                return Some((found, false));
            }
        }
        for _ in 0..MAX_DRAWS {
            let [many, first, second, _] = self.random.block(self.drawn);
            self.drawn += 1;
            let pick =
                |word: u32| self.moves.get(((u64::from(word) * self.moves.len() as u64) >> 32) as usize).copied();
            let count = 1 + (u64::from(many) >> 31) as usize;
            let changes: Vec<SettingChange> = [first, second].into_iter().take(count).filter_map(pick).collect();
            if let Some(found) = self.apply_if_new(best, &changes, c) {
                return Some((found, true));
            }
        }
        None
    }

    /// Applies changes to the best settings. `None` if the result was tried before.
    fn apply_if_new(&mut self, best: &SettingOverrides, changes: &[SettingChange], c: f64) -> Option<SettingOverrides> {
        let mut found = best.clone();
        for &change in changes {
            let (setting, value) = match change {
                To(setting, value) => (setting, value),
                Choose(setting, name) => (setting, setting.parse(name).expect("a name that --settings takes")),
                Times(setting, factor) => {
                    let before = found.get(setting).or_else(|| self.default_of(setting, c))?;
                    let value = before * factor;
                    let is_whole = matches!(setting, Setting::Epochs | Setting::BatchTokens);
                    (setting, if is_whole { value.round().max(1.0) } else { value })
                }
            };
            // Defaults are left out, so that equal settings have the same text.
            found = match self.default_of(setting, c) == Some(value) && self.caller_settings.get(setting).is_none() {
                true => found.without(setting),
                false => found.with(setting, value),
            };
        }
        let is_new = found != *best && found != self.caller_settings && self.tried.insert(found.to_string());
        is_new.then_some(found)
    }

    /// Returns the default value of a setting.
    fn default_of(&self, setting: Setting, c: f64) -> Option<f64> {
        let config = NgramConfig::default_for(self.are_pairs);
        let lengths = |(shortest, longest): (usize, usize)| (10 * shortest + longest) as f64;
        match setting {
            Setting::Words => Some(config.scheme.words as f64),
            Setting::Characters => Some(config.scheme.characters as f64),
            Setting::Relevance => Some(config.relevance),
            Setting::InsideWords => config.scheme.inside_words.map(lengths),
            Setting::C => (c > 0.0).then_some(c),
            other => self.plan.as_ref().and_then(|plan| SettingOverrides::value_in_plan(other, plan)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Row;
    use crate::scoring::Rows;
    use crate::train::settings::plan::DataShape;

    fn data(row: impl AsRow) -> TrainingData {
        let rows = Rows { texts: vec![row.as_row().to_row(); 4], labels: vec![0, 1, 0, 1], weights: None };
        TrainingData { train: rows, ..TrainingData::default() }
    }

    fn plan() -> Plan {
        Plan::new(&DataShape { lengths: &[10; 50], class_rows: &[25, 25], vocab_size: 100 })
    }

    fn sequence(seed: u64, keep: impl Fn(usize) -> bool) -> Vec<String> {
        let mut best: SettingOverrides = "words=2".parse().unwrap();
        let options = TrainOptions { seed, overrides: best.clone(), ..TrainOptions::default() };
        let mut candidates = Candidates::new(&data("a plain text"), &options, Some(plan()));
        let mut all = Vec::new();
        while let (Some((found, _)), true) = (candidates.next(&best, 16.0), all.len() < 60) {
            all.push(found.to_string());
            if keep(all.len()) {
                best = found;
            }
        }
        all
    }

    #[test]
    fn equal_seeds_and_outcomes_give_equal_settings_without_repeats() {
        let all = sequence(7, |n| n == 3);
        assert_eq!(all, sequence(7, |n| n == 3));
        assert_eq!(all[0], "words=2,inside-words=2-5");
        assert_eq!(all[3], "words=2,inside-words=2-6,c=8");
        assert!(all[4..].iter().all(|set| set.starts_with("words=2,") && set != "words=2"), "{all:#?}");
        let others = sequence(8, |n| n == 3);
        // Listed changes come first, whatever the seed.
        let known = SPACED_NGRAMS.len() + FROM_SCRATCH.len() - 4;
        assert_eq!(all[..known], others[..known]);
        assert_ne!(all[known + 4..], others[known + 4..]);
        let different: HashSet<&String> = all.iter().collect();
        assert!(different.len() == all.len() && all.len() == 60, "{all:#?}");
    }

    #[test]
    fn candidates_suit_the_script_and_run_out() {
        let given = SettingOverrides::default();
        let mut japanese = Candidates::new(&data("料理はおいしい"), &TrainOptions::default(), None);
        let mut all = Vec::new();
        while let Some((found, is_drawn)) = japanese.next(&given, 16.0) {
            assert_eq!(is_drawn, all.len() >= UNSPACED_NGRAMS.len(), "{found}");
            assert!(found.settings().all(Setting::is_for_ngrams), "{found}");
            all.push(found.to_string());
        }
        assert!(all[0] == "characters=5" && all.iter().all(|set| !set.contains("words")), "{all:?}");
        // There are finitely many combinations of one or two of ten changes.
        assert!((9..300).contains(&all.len()), "{}", all.len());
    }

    #[test]
    fn pairs_start_with_the_default_for_single_texts() {
        let pairs = data(Row::pair("a text", "another"));
        let mut candidates = Candidates::new(&pairs, &TrainOptions::default(), None);
        let mut next = || candidates.next(&SettingOverrides::default(), 16.0).map(|(found, _)| found.to_string());
        let all: Vec<String> = std::iter::from_fn(&mut next).collect();
        assert_eq!(all[..2], ["relevance=0.5", "inside-words=2-5"]);
        // The default for pairs is not tried again.
        assert!(all.iter().all(|set| set.split(',').all(|one| one != "relevance=0")), "{all:?}");
    }
}
