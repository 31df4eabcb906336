//! Bounds the cost of a regular expression from another's tokenizer before it runs.
//!
//! Expressions without look-around run in linear time. All others backtrack. They are accepted if there are few ways to
//! match at one position. The number may also grow with the square of the length of a run of similar characters. Common
//! expressions (GPT-2 and its successors, byte-level tokenizers) stay well within these limits.

use crate::tr;
use fancy_regex::{Expr, Regex};

/// Most single characters in an expression with every `{n}` expanded. Each may be a class with hundreds of states.
const MAX_LEAVES: f64 = 2000.0;
/// Most ways to match at one position, apart from those that grow with the text.
const MAX_WAYS: f64 = 10_000.0;
/// The largest power of the text length with which the ways may grow.
const MAX_DEGREE: f64 = 2.0;

/// The cost of part of an expression.
#[derive(Clone, Copy)]
struct PatternCost {
    /// The least number of characters that it matches.
    min_length: f64,
    /// Number of single characters with every `{n}` expanded.
    leaves: f64,
    /// Ways to match at one position, apart from those that grow with the text.
    ways: f64,
    /// Number of consecutive unbounded repetitions. The ways grow with this power of the text length.
    degree: f64,
    /// True if it needs backtracking.
    needs_backtracking: bool,
    /// True if an unbounded repetition contains something that can match in several ways.
    is_exponential: bool,
}

impl PatternCost {
    fn leaf(characters: f64) -> PatternCost {
        PatternCost {
            min_length: characters,
            leaves: characters,
            ways: 1.0,
            degree: 0.0,
            needs_backtracking: false,
            is_exponential: false,
        }
    }

    /// The cost of this part followed by another.
    fn concat(self, next: PatternCost) -> PatternCost {
        PatternCost {
            min_length: self.min_length + next.min_length,
            leaves: self.leaves + next.leaves,
            ways: self.ways * next.ways,
            degree: self.degree + next.degree,
            needs_backtracking: self.needs_backtracking || next.needs_backtracking,
            is_exponential: self.is_exponential || next.is_exponential,
        }
    }

    /// The cost of this part or another.
    fn alternate(self, other: PatternCost) -> PatternCost {
        PatternCost {
            min_length: self.min_length.min(other.min_length),
            leaves: self.leaves + other.leaves,
            ways: self.ways + other.ways,
            degree: self.degree.max(other.degree),
            needs_backtracking: self.needs_backtracking || other.needs_backtracking,
            is_exponential: self.is_exponential || other.is_exponential,
        }
    }

    fn repeat(self, lo: usize, hi: usize) -> PatternCost {
        let least = self.min_length * lo as f64;
        if hi == usize::MAX {
            let has_choice = self.ways > 1.0 || self.degree > 0.0 || self.min_length == 0.0;
            let leaves = self.leaves * lo.max(1) as f64;
            return PatternCost {
                min_length: least,
                leaves,
                ways: 1.0,
                degree: 1.0,
                is_exponential: self.is_exponential || has_choice,
                ..self
            };
        }
        let times = hi as f64;
        let ways = (1.0 + times - lo as f64) * self.ways.powf(times);
        PatternCost { min_length: least, leaves: self.leaves * times, ways, degree: self.degree * times, ..self }
    }
}

fn pattern_cost(expression: &Expr) -> Option<PatternCost> {
    let nothing = PatternCost::leaf(0.0);
    Some(match expression {
        Expr::Empty | Expr::Assertion(_) => nothing,
        Expr::Any { .. } => PatternCost::leaf(1.0),
        Expr::Literal { val, .. } => PatternCost::leaf(val.chars().count() as f64),
        Expr::Delegate { size, .. } => PatternCost { min_length: *size as f64, ..PatternCost::leaf(1.0) },
        Expr::Concat(parts) => parts.iter().try_fold(nothing, |all, part| Some(all.concat(pattern_cost(part)?)))?,
        Expr::Alt(parts) => {
            let mut judged = parts.iter().map(pattern_cost);
            let first = judged.next()??;
            judged.try_fold(first, |all, part| Some(all.alternate(part?)))?
        }
        Expr::Group(child) => pattern_cost(child)?,
        Expr::AtomicGroup(child) => PatternCost { needs_backtracking: true, ..pattern_cost(child)? },
        Expr::LookAround(child, _) => PatternCost { min_length: 0.0, needs_backtracking: true, ..pattern_cost(child)? },
        Expr::Repeat { child, lo, hi, .. } => pattern_cost(child)?.repeat(*lo, *hi),
        // References, conditions and calls: tokenizers do not need them, and their cost is unknown.
        _ => return None,
    })
}

/// Checks a pattern and returns the least number of characters that it matches. `is_known` skips the cost limits for
/// built-in patterns.
///
/// # Errors
/// If it is not a regular expression, or could run forever.
pub(super) fn check_pattern(pattern: &str, is_known: bool) -> Result<usize, String> {
    let no_regex =
        |error: fancy_regex::Error| tr!("not a regular expression: {error}", "正規表現として読めません: {error}");
    let tree = Expr::parse_tree(pattern).map_err(no_regex)?;
    let Some(judged) = pattern_cost(&tree.expr) else {
        return Err(tr!(
            "expected a regular expression without references, conditions and calls of groups",
            "後方参照・条件・グループの呼び出しを含まない正規表現が必要です"
        ));
    };
    let is_large = judged.leaves > MAX_LEAVES;
    let is_slow =
        judged.needs_backtracking && (judged.is_exponential || judged.ways > MAX_WAYS || judged.degree > MAX_DEGREE);
    if !is_known && (is_large || is_slow) {
        return Err(tr!(
            "expected a regular expression that is fast on every text; this one may match in too many ways",
            "どの文章でも速く終わる正規表現が必要です。この式は照合の仕方が多すぎるおそれがあります"
        ));
    }
    if !is_known {
        // A pattern that parses may still be invalid, such as a range that ends before it begins.
        Regex::new(pattern).map_err(no_regex)?;
    }
    Ok(judged.min_length as usize)
}

#[cfg(test)]
mod tests {
    use super::check_pattern;

    #[test]
    fn common_patterns_pass() {
        let patterns = [
            (r"\s+", 1),
            (r"[\s\S]", 1),
            (" {2,}", 2),
            (r"", 0),
            (r"(?=x)", 0),
            (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", 1),
            (
                r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
                1,
            ),
            (
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
                1,
            ),
            // Nested repetitions without look-around run in linear time.
            (r"(a+)+b", 2),
        ];
        for (pattern, least) in patterns {
            assert_eq!(check_pattern(pattern, false), Ok(least), "{pattern}");
        }
    }

    #[test]
    fn exponential_patterns_are_refused() {
        for pattern in [
            "(((",
            "[z-",
            r"(a+)+(?!b)",
            r"(?:a|a)*(?=b)",
            r"(?:(?=x)|a)*",
            r"(?:(?=x)x|x|x){19}b|x",
            r"(a)\1",
            r"(?:a*){9}(?!b)",
            r"a*a*a*a*(?!b)",
            r"(?:a?){30}(?=b)",
            r"(?:(?:\p{L}{1000}){1000}){1000}",
            r"\p{L}{100000}",
            r"(?<x>a\g<x>?b)",
            r"(a)?(?(1)b|c)",
        ] {
            assert!(check_pattern(pattern, false).is_err(), "{pattern}");
        }
        assert!(check_pattern(&"(".repeat(3000), false).is_err());
    }
}
