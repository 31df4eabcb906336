//! Explanation of a tagger's spans: the effect of each word on the probability of a span, and the features of the
//! random field that support its labels.

use super::attribution::AttributionMethod;
use super::classifier::{BATCH_WORDS, log_odds};
use super::highlighted::highlight;
use super::inner_steps::InnerSteps;
use super::required_text::empty_text_error;
use super::tagged_text::{
    AlternativeSpan, ExplainedSpan, FeatureEffect, LabelComparison, MemberSpanScore, NetworkEffect, TaggedText,
    TransitionEffect,
};
use crate::characters::CharacterOffsets;
use crate::crf::{
    FeatureDescription, ForwardBackward, MemberEmissions, TaggerBlend, Transitions, describe_features, viterbi,
    viterbi_allowed,
};
use crate::data::{Span, SpanExample, SpanUnit};
use crate::row::AsRow;
use crate::text::{TokenSequence, word_spans};
use crate::text_models::settings::not_finite_error;
use crate::text_models::tagger::{PredictedSpan, TextTagger, TextUnits, units_of_row};
use crate::{Error, Result, sorting, tr};
use chumoku_kernels::cancel::CancelFlag;
use chumoku_kernels::parallel;
use std::ops::Range;

/// A span to explain, predicted or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanQuery {
    /// Its first character, from 0.
    pub start: usize,
    /// The index after its last character.
    pub end: usize,
    /// The kind of the span. Defaults to the most probable kind.
    pub label: Option<String>,
}

/// The units of a span, and its kind.
type UnitSpan = (Range<usize>, usize);

/// Explains the spans of one text.
struct SpanExplainer<'a> {
    tagger: &'a TextTagger,
    text: &'a str,
    characters: CharacterOffsets,
    units: &'a [Range<usize>],
    /// The known features of each unit, with their indices.
    known: Vec<Vec<(u32, FeatureDescription)>>,
    members: MemberEmissions,
}

impl TextTagger {
    /// Returns the name of a tag.
    pub(super) fn tag_name(&self, tag: usize) -> String {
        let labels = self.labels();
        match tag {
            _ if self.tags().each_word => labels[tag].clone(),
            0 => "O".to_owned(),
            inside if inside.is_multiple_of(2) => format!("I-{}", labels[inside / 2 - 1]),
            begin => format!("B-{}", labels[begin / 2]),
        }
    }

    /// Explains the predicted spans of a text, or only the one in `query`. `name` is the displayed name of the model.
    /// `progress` receives the number of masked words so far, and the total.
    ///
    /// Words are left out by masking. In the random field, every feature that depends on the word is dropped, including
    /// features of its neighbors. The network reads a mask instead of the word's tokens. The number of words stays the
    /// same, so a span can lose its own words.
    ///
    /// # Errors
    /// If the text is empty or cannot be tokenized, or the requested span does not fit the text.
    pub fn explain(
        &self,
        text: &str,
        name: &str,
        query: Option<&SpanQuery>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<TaggedText> {
        self.explain_with_steps(text, name, query, &InnerSteps::default(), progress)
    }

    /// Explains like [`TextTagger::explain`]. `steps` requests the logit lens, and patching of the tag at the start of
    /// `query`.
    ///
    /// # Errors
    /// As for [`TextTagger::explain`] and [`TextTagger::patch`].
    pub fn explain_with_steps(
        &self,
        text: &str,
        name: &str,
        query: Option<&SpanQuery>,
        steps: &InnerSteps<'_>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<TaggedText> {
        let character = query.map(|span| span.start);
        let patching = steps.patch(|other, aligned| self.patch(text, other.text(), character, aligned))?;
        let units = self.config.unit.split(text);
        let found = self.explain_units((text, units.clone()), name, query, progress)?;
        let lens = steps.has_lens.then(|| self.logit_lens(text, &units)).transpose()?.flatten();
        Ok(TaggedText { lens, patching, ..found })
    }

    /// Explains spans like [`TextTagger::explain`], for a row with given words.
    ///
    /// # Errors
    /// See [`TextTagger::explain`].
    pub fn explain_row(
        &self,
        row: &SpanExample,
        name: &str,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<TaggedText> {
        let units = units_of_row(row, self.config.unit);
        let found = self.explain_units((&row.text, units.clone()), name, None, progress)?;
        Ok(TaggedText { lens: self.logit_lens(&row.text, &units)?, ..found })
    }

    fn explain_units(
        &self,
        cut: TextUnits<'_>,
        name: &str,
        query: Option<&SpanQuery>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<TaggedText> {
        if cut.1.is_empty() {
            return Err(empty_text_error());
        }
        let members = self.member_scores(std::slice::from_ref(&cut))?.remove(0);
        let (text, units) = cut;
        let known = describe_features(text, &units, self.config.unit).into_iter().map(|features| {
            features
                .into_iter()
                .filter_map(|feature| self.crf.feature_number(feature.hash).map(|number| (number, feature)))
                .collect()
        });
        let known = known.collect();
        let subject = SpanExplainer {
            tagger: self,
            text,
            characters: CharacterOffsets::new(text),
            units: &units,
            known,
            members,
        };
        let shares = self.blend();
        let transitions = shares.transitions(&self.crf, self.tags());
        let marked = self.tags().decode(&viterbi(&shares.emissions(&subject.members), &transitions));
        let places = match query {
            None => marked.clone(),
            Some(query) => vec![subject.resolve_query(query, &transitions)?],
        };
        Ok(TaggedText {
            model: name.to_owned(),
            text: text.to_owned(),
            method: AttributionMethod::LeaveOneOut.name().to_owned(),
            unit: EFFECT_UNIT.to_owned(),
            hidden_by: self.network.as_ref().map(|network| network.mask_token().1),
            blend: self.network.as_ref().map(|network| network.config.blend),
            lens: None,
            patching: None,
            spans: subject.explain_spans(&places, &marked, progress)?,
        })
    }
}

/// The unit used in [`TaggedText::unit`].
const EFFECT_UNIT: &str = "change in the span's log-odds when the word is hidden";

impl SpanExplainer<'_> {
    /// Returns the words, as ranges of units. In texts with character units, words follow the script.
    fn words(&self) -> Vec<Range<usize>> {
        let n = self.units.len();
        if self.tagger.config.unit == SpanUnit::Words {
            return (0..n).map(|i| i..i + 1).collect();
        }
        let spans = self.units.iter().map(|unit| (unit.start, unit.end)).collect();
        let encoded =
            TokenSequence { ids: vec![0; n], spans, word_ids: (0..n as u32).collect(), ..TokenSequence::default() };
        word_spans(self.text, &encoded).into_iter().map(|word| word.tokens).filter(|word| !word.is_empty()).collect()
    }

    /// Returns the byte range of some units.
    fn bytes(&self, units: &Range<usize>) -> Range<usize> {
        self.units[units.start].start..self.units[units.end - 1].end
    }

    /// Returns the units and kind of the requested span.
    fn resolve_query(&self, query: &SpanQuery, transitions: &Transitions) -> Result<UnitSpan> {
        let (start, end) = (query.start, query.end);
        let length = self.characters.count();
        let fault = |problem: String| Err(Error::Setting(format!("{start}:{end}: {problem}")));
        if start >= end || end > length {
            return fault(tr!(
                "expected a span within the {length} characters of the text: the index of its first character, from 0, and the index after its last",
                "テキストは {length} 文字です。その中の最初の文字（0 から）と最後の次の文字を指定してください"
            ));
        }
        let bytes = self.characters.byte(start)..self.characters.byte(end);
        let covers = |unit: &Range<usize>| unit.start < bytes.end && bytes.start < unit.end;
        let Some(first) = self.units.iter().position(covers) else {
            return fault(tr!("there is no word there", "そこに語はありません"));
        };
        let range = first..self.units.iter().rposition(covers).unwrap_or(first) + 1;
        if self.bytes(&range) != bytes {
            let whole = self.bytes(&range);
            let [from, to] = [whole.start, whole.end].map(|at| self.characters.character(at));
            return fault(tr!(
                "expected word boundaries; the words there are {from}:{to}, {}",
                "語の境界を指定してください。そこにある語は {from}:{to}、{} です",
                crate::lang::lang().quoted(&self.text[whole])
            ));
        }
        let tags = self.tagger.tags();
        if tags.each_word && range.len() > 1 {
            return fault(tr!(
                "this model labels single words; ask for one word",
                "このモデルは語ごとにラベルを付けます。1 語を指定してください"
            ));
        }
        let labels = self.tagger.labels();
        let kind = match &query.label {
            Some(label) => match labels.iter().position(|other| other == label) {
                Some(kind) => kind,
                None => {
                    let known = labels.join(", ");
                    return fault(tr!("{label:?}: expected one of {known}", "{label:?}: 使えるラベル: {known}"));
                }
            },
            None => {
                let places: Vec<UnitSpan> = (0..labels.len()).map(|kind| (range.clone(), kind)).collect();
                let chances = self.span_probabilities(&self.members, self.tagger.blend(), transitions, &places)?;
                (1..chances.len()).fold(0, |best, kind| if chances[kind] > chances[best] { kind } else { best })
            }
        };
        Ok((range, kind))
    }

    /// Returns the probability of each span.
    fn span_probabilities(
        &self,
        members: &MemberEmissions,
        shares: TaggerBlend,
        transitions: &Transitions,
        places: &[UnitSpan],
    ) -> Result<Vec<f64>> {
        let tags = self.tagger.tags();
        let sums = ForwardBackward::new(&shares.emissions(members), transitions).ok_or_else(not_finite_error)?;
        let of = |(range, kind): &UnitSpan| {
            sums.probability(transitions, range.start, &tags.span_tags(*kind, range.len()), tags.inside_tag(*kind))
        };
        Ok(places.iter().map(of).collect())
    }

    /// Returns the random field's scores without the features that depend on some units.
    fn crf_scores_without(&self, hidden: &Range<usize>) -> Vec<f32> {
        let (crf, labels) = (&self.tagger.crf, self.tagger.tags().count());
        let looks = |reach: &Range<usize>| reach.start < hidden.end && hidden.start < reach.end;
        let mut scores = self.members.crf.clone();
        for (row, features) in scores.chunks_exact_mut(labels).zip(&self.known) {
            if features.iter().any(|(_, feature)| looks(&feature.units)) {
                row.fill(0.0);
                for (number, _) in features.iter().filter(|(_, feature)| !looks(&feature.units)) {
                    row.iter_mut()
                        .zip(crf.feature_weights(*number, labels))
                        .for_each(|(score, weight)| *score += weight);
                }
            }
        }
        scores
    }

    fn explain_spans(
        &self,
        places: &[UnitSpan],
        marked_places: &[UnitSpan],
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<ExplainedSpan>> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let tagger = self.tagger;
        let whole = tagger.blend();
        // The blend, followed by each member alone if there are two.
        let blends = match tagger.has_network() {
            true => vec![whole, TaggerBlend::NETWORK, TaggerBlend::CRF],
            false => vec![whole],
        };
        let blends: Vec<(TaggerBlend, Transitions)> =
            blends.into_iter().map(|shares| (shares, shares.transitions(&tagger.crf, tagger.tags()))).collect();
        let chances = |members: &MemberEmissions| -> Result<Vec<Vec<f64>>> {
            blends
                .iter()
                .map(|(shares, transitions)| self.span_probabilities(members, *shares, transitions, places))
                .collect()
        };
        let with = chances(&self.members)?;
        let words = self.words();
        let bytes: Vec<Range<usize>> = words.iter().map(|word| self.bytes(word)).collect();
        // By word, by member, by span.
        let mut without: Vec<Vec<Vec<f64>>> = Vec::with_capacity(words.len());
        let halt = CancelFlag::current();
        for (words_of_batch, parts) in words.chunks(BATCH_WORDS).zip(bytes.chunks(BATCH_WORDS)) {
            progress(without.len(), words.len());
            let network = match &tagger.network {
                Some(network) => {
                    network.log_probabilities_masked(self.text, self.units, parts, &self.members.network)?
                }
                None => vec![Vec::new(); parts.len()],
            };
            let mut members: Vec<MemberEmissions> =
                network.into_iter().map(|network| MemberEmissions { crf: Vec::new(), network }).collect();
            let found = parallel::map_chunks(&mut members, 1, |i, members| {
                halt.check();
                members[0].crf = self.crf_scores_without(&words_of_batch[i]);
                chances(&members[0])
            });
            without.extend(found.into_iter().collect::<Result<Vec<_>>>()?);
        }
        progress(words.len(), words.len());
        let span = |(at, place): (usize, &UnitSpan)| -> Result<ExplainedSpan> {
            let effects = |member: usize| -> Vec<f32> {
                let own = log_odds(with[member][at]);
                without.iter().map(|chances| (own - log_odds(chances[member][at])) as f32).collect()
            };
            let of_member = |member: usize| {
                (member < blends.len())
                    .then(|| MemberSpanScore { probability: with[member][at], effects: effects(member) })
            };
            let bytes_of_span = self.bytes(&place.0);
            let [start, end] = [bytes_of_span.start, bytes_of_span.end].map(|at| self.characters.character(at));
            let label = tagger.config.labels[place.1].clone();
            let is_found = marked_places.contains(place);
            Ok(ExplainedSpan {
                span: PredictedSpan {
                    span: Span { start, end, label },
                    text: self.text[bytes_of_span].to_owned(),
                    probability: with[0][at],
                },
                is_found,
                words: highlight(self.text.as_row(), bytes.iter().cloned().zip(effects(0))),
                network: of_member(1),
                crf: of_member(2),
                against: self.compare_labels(place, is_found, whole, &blends[0].1),
            })
        };
        places.iter().enumerate().map(span).collect()
    }

    /// Compares the most probable labels that contain a span with alternative labels. For a predicted span, the
    /// alternative is the most probable labeling in which none of its words has its kind. Otherwise it is the model's
    /// prediction.
    fn compare_labels(
        &self,
        (range, kind): &UnitSpan,
        is_found: bool,
        shares: TaggerBlend,
        transitions: &Transitions,
    ) -> Option<LabelComparison> {
        let tags = self.tagger.tags();
        let emissions = shares.emissions(&self.members);
        let (own, inside) = (tags.span_tags(*kind, range.len()), tags.inside_tag(*kind));
        let (path, score) = viterbi_allowed(&emissions, transitions, |t, label| match range.contains(&t) {
            true => own[t - range.start] == label,
            false => t != range.end || Some(label) != inside,
        })?;
        let of_kind = |label: usize| label == own[0] || Some(label) == inside;
        let (other, other_score) = match is_found {
            true => viterbi_allowed(&emissions, transitions, |t, label| !range.contains(&t) || !of_kind(label))?,
            false => viterbi_allowed(&emissions, transitions, |_, _| true)?,
        };
        Some(self.score_difference([(&path, score), (&other, other_score)], shares))
    }

    /// Splits the difference of two scores into its parts.
    fn score_difference(
        &self,
        [(path, score), (other, other_score)]: [(&[usize], f64); 2],
        shares: TaggerBlend,
    ) -> LabelComparison {
        let (tagger, tags) = (self.tagger, self.tagger.tags());
        let labels = tags.count();
        let [of_crf, of_network] = [shares.crf, shares.network].map(f64::from);
        let word = |t: usize| self.text[self.units[t].clone()].to_owned();
        let (mut features, mut transitions, mut network) = (Vec::new(), Vec::new(), Vec::new());
        let label_before = |path: &[usize], t: usize| if t == 0 { labels } else { path[t - 1] };
        for t in 0..path.len() {
            let [y, z] = [path[t], other[t]];
            let [from, other_from] = [path, other].map(|path| label_before(path, t));
            if [from, y] != [other_from, z] {
                let weight = |from: usize, to: usize| f64::from(tagger.crf.transitions[from * labels + to]);
                let named = |from: usize, to: usize| {
                    [(from < labels).then(|| self.tagger.tag_name(from)), Some(self.tagger.tag_name(to))]
                };
                transitions.push(TransitionEffect {
                    word: word(t),
                    labels: named(from, y),
                    others: named(other_from, z),
                    effect: of_crf * (weight(from, y) - weight(other_from, z)),
                });
            }
            if y == z {
                continue;
            }
            let (label, other) = (self.tagger.tag_name(y), self.tagger.tag_name(z));
            if !self.members.network.is_empty() {
                let log_p = |label: usize| f64::from(self.members.network[t * labels + label]);
                let effect = of_network * (log_p(y) - log_p(z));
                network.push(NetworkEffect { word: word(t), label: label.clone(), other: other.clone(), effect });
            }
            let start = self.characters.character(self.units[t].start);
            for (number, feature) in &self.known[t] {
                let weights = tagger.crf.feature_weights(*number, labels);
                let effect = of_crf * (f64::from(weights[y]) - f64::from(weights[z]));
                if effect != 0.0 {
                    features.push(FeatureEffect {
                        word: word(t),
                        start,
                        label: label.clone(),
                        other: other.clone(),
                        feature: feature.feature.clone(),
                        at: feature.at,
                        value: feature.value.clone(),
                        weight: weights[y],
                        other_weight: weights[z],
                        effect,
                    });
                }
            }
        }
        sorting::sort_by(&mut features, |a, b| b.effect.abs().total_cmp(&a.effect.abs()));
        let marked = tags.decode(path);
        let instead = tags.decode(other).into_iter().filter(|place| !marked.contains(place)).map(|(range, kind)| {
            let bytes = self.bytes(&range);
            let [start, end] = [bytes.start, bytes.end].map(|at| self.characters.character(at));
            let span = Span { start, end, label: tagger.config.labels[kind].clone() };
            AlternativeSpan { span, text: self.text[bytes].to_owned() }
        });
        LabelComparison {
            spans: instead.collect(),
            score,
            other_score,
            difference: score - other_score,
            from_features: features.iter().map(|feature| feature.effect).sum(),
            from_transitions: transitions.iter().map(|transition| transition.effect).sum(),
            from_network: network.iter().map(|network| network.effect).sum(),
            features,
            transitions,
            network,
        }
    }
}
