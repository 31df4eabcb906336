//! Scores of models that write texts.

use super::fit;
use chumoku::data::format_thousands;
use chumoku::tr;
use chumoku::train::{LanguageScores, TranslationScores};

/// Formats scores, one per line.
pub(crate) fn format_language_scores(scores: &LanguageScores) -> String {
    let mut text = tr!(
        "loss                    {:>9.4} nats per token\n",
        "損失                                {:>9.4} nat/トークン\n",
        scores.loss
    );
    for (name, value) in scores.perplexities() {
        // Huge perplexities need no decimals.
        let value = if value < 1e6 { format!("{value:.3}") } else { format!("{value:.1e}") };
        let japanese = fit(&format!("パープレキシティ（{name}あたり）"), 36);
        text += &tr!("perplexity per {name:<9}{value:>9}\n", "{japanese}{value:>9}\n");
    }
    if scores.unknown > 0 {
        let share = 100.0 * scores.unknown as f64 / scores.tokens.max(1) as f64;
        text += &tr!(
            "unknown words           {share:>9.1} %   (the perplexities treat them as one word)\n",
            "未知語                              {share:>9.1} %（すべて同じ 1 語として計算）\n"
        );
    }
    text
}

/// Formats the scores of an autoencoder, one per line.
pub(crate) fn format_reconstruction_scores(scores: &TranslationScores) -> String {
    let right = (scores.exact * scores.pairs as f64).round() as usize;
    let (right, all) = (format_thousands(right), format_thousands(scores.pairs));
    let [exact, characters] = [scores.exact, scores.character_accuracy.unwrap_or(f64::NAN)].map(|share| 100.0 * share);
    tr!(
        "exact       {exact:>6.1} %   ({right} of {all} texts)\ncharacters  {characters:>6.1} %\n",
        "完全一致    {exact:>6.1} %（{all} 個中 {right} 個）\n文字        {characters:>6.1} %\n"
    )
}

/// Formats scores, one per line.
pub(crate) fn format_translation_scores(scores: &TranslationScores) -> String {
    let TranslationScores { bleu, bleu_signature, chrf, chrf_signature, .. } = scores;
    let exact = 100.0 * scores.exact;
    // The signatures have separate lines, because they would not fit after the longer Japanese names.
    tr!(
        "BLEU    {bleu:>6.1}   {bleu_signature}\nchrF2   {chrf:>6.1}   {chrf_signature}\nexact   {exact:>6.1} %\n",
        "BLEU      {bleu:>6.1}\nchrF2     {chrf:>6.1}\n完全一致  {exact:>6.1} %\n\n算出方法  {bleu_signature}\n          \
         {chrf_signature}\n"
    )
}
