//! The figure of a beam search.

use crate::figure::{Content, Figure, NodeOutcome, SearchTree, TreeNode};
use chumoku::decoding::CandidateFate;
use chumoku::explain::BeamTree;
use chumoku::lang::{Lang, show_controls_in_text};
use chumoku::tr_in;

/// The search tree of a beam search: one column a step, from left to right.
#[must_use]
pub fn beam_figure(tree: &BeamTree, lang: Lang) -> Figure {
    let best = tree.found.first().map(|found| found.node);
    let node = |(i, node): (usize, &chumoku::explain::BeamNode)| TreeNode {
        parent: node.parent,
        step: node.step - 1,
        name: node.token.clone(),
        probability: node.probability,
        log_probability: node.log_probability,
        score: node.score,
        outcome: match node.fate {
            _ if best == Some(i) => NodeOutcome::Best,
            CandidateFate::Ended | CandidateFate::Cut => NodeOutcome::Finished,
            CandidateFate::Followed => NodeOutcome::Expanded,
            CandidateFate::Dropped => NodeOutcome::Dropped,
        },
    };
    let (beam, penalty, model) = (tree.beam, tree.length_penalty, show_controls_in_text(&tree.model));
    let title = tr_in!("{model}: beam search with {beam} hypotheses", "{model}: ビーム幅 {beam} のビームサーチ", lang);
    let mut notes: Vec<String> = tree
        .found
        .iter()
        .enumerate()
        .map(|(place, found)| format!("{}. {}  ({:.2})", place + 1, show_controls_in_text(&found.text), found.score))
        .collect();
    notes.push(tr_in!("Each step shows the {} continuations with the highest ln p and keeps the {beam} best. Results are ranked by the score in \
             brackets: ln p / ((5 + n) / 6)^{penalty} for n tokens, including the end.", "各ステップで ln p の高い候補を {} 個まで示し、上位 {beam} 個を残します。括弧内は、結果の順位を決めるスコア \
             ln p / ((5 + n) / 6)^{penalty} です（n は終端を含むトークン数）。", lang, 2 * beam));
    let nodes = tree.nodes.iter().enumerate().map(node).collect();
    Figure {
        title,
        subtitle: show_controls_in_text(&tree.text),
        notes,
        content: Content::SearchTree(SearchTree { nodes }),
        lang,
    }
}
