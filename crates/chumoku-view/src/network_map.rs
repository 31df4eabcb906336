//! The map of a network from its counted steps, each with its formula and the paper that introduced it.

use crate::count_report::step_label;
use crate::figure::{BlockRole, Content, Figure, MapBlock, NetworkMap, PageWidget, figures_page};
use crate::{CountReport, Lang};
use chumoku::count::StepCost;
use chumoku::nn::NormOrder;

/// The steps by name, one a line: name, role, formula and source. A name may follow that of a network with a step of its
/// own.
const STEPS: &str = include_str!("network_map.tsv");

/// Leads from a block to its row in the table.
const SCRIPT: &str = include_str!("network_map.js");

/// Returns role, formula and source of the step with this name.
fn find_step(name: &str) -> Option<[&'static str; 3]> {
    STEPS.lines().find_map(|line| {
        let mut cells = line.split('\t');
        (cells.next() == Some(name)).then(|| [(); 3].map(|()| cells.next().unwrap_or_default()))
    })
}

fn block(network: &str, step: &StepCost, lang: Lang) -> MapBlock {
    let known = find_step(&format!("{network}: {}", step.name)).or_else(|| find_step(step.name));
    let [role, formula, source] = known.unwrap_or_default();
    let role = match role {
        "projection" => BlockRole::Projection,
        "scores" => BlockRole::Scores,
        "attention" => BlockRole::Attention,
        "feed-forward" => BlockRole::FeedForward,
        "norm" => BlockRole::Norm,
        "residual" => BlockRole::Residual,
        _ => BlockRole::Ends,
    };
    MapBlock {
        part: step.part,
        name: step_label(step.name, lang).to_owned(),
        // Without the batch.
        shape: step.shape.iter().skip(1).copied().collect(),
        times: step.times,
        parameters: step.parameters,
        parameters_formula: step.parameters_formula.clone(),
        multiply_adds: step.multiply_adds,
        formula,
        source,
        role,
    }
}

impl CountReport {
    /// Draws the network as a map: every step with its shape and parameters.
    #[must_use]
    pub fn map(&self, lang: Lang) -> Figure {
        let blocks: Vec<MapBlock> = self.count.steps.iter().map(|step| block(self.count.network, step, lang)).collect();
        let parameters = chumoku::data::format_thousands_wide(self.count.parameters);
        let name = self.model.as_ref().map_or(self.count.network, |(name, _)| name);
        let subtitle = tr_in!("{parameters} parameters", "パラメータ {parameters} 個", lang);
        let note = lang.pick(
            "Below each name: the shape of the result for one sequence, and the parameters of one occurrence. A frame is a \
             stack of layers.",
            "名前の下は、1 系列の結果の形と、1 回分のパラメータの数です。枠は層の積み重ねを表します。",
        );
        Figure {
            title: tr_in!("Map of the network: {name}", "ネットワークの地図：{name}", lang),
            subtitle,
            notes: vec![note.to_owned()],
            content: Content::NetworkMap(NetworkMap { blocks, is_pre_norm: self.config.norm_order == NormOrder::Pre }),
            lang,
        }
    }

    /// Returns a page with the map, in which a block leads to its numbers.
    #[must_use]
    pub fn map_to_html(&self, lang: Lang) -> String {
        let both = [[self.map(Lang::En), self.map(Lang::Ja)]];
        let widget = PageWidget { script: SCRIPT, ..PageWidget::default() };
        figures_page(&self.map(lang).title, &both, widget, lang)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku::RecurrentCell;
    use chumoku::count::{CountConfig, NetworkKind};

    /// Returns the ends of a line that connects blocks, or of its head.
    fn connection(item: &crate::SceneItem) -> Option<[f64; 4]> {
        match item {
            crate::SceneItem::Line { ends, stroke: crate::picture::Paint::SecondaryText, .. } => Some(*ends),
            _ => None,
        }
    }

    /// Returns true if two lines cross between their ends. Lines that branch or overlap do not.
    fn cross(a: [f64; 4], b: [f64; 4]) -> bool {
        let side = |[x1, y1, x2, y2]: [f64; 4], [x, y]: [f64; 2]| (x2 - x1) * (y - y1) - (y2 - y1) * (x - x1);
        let separates = |line: [f64; 4], [x1, y1, x2, y2]: [f64; 4]| {
            let [from, to] = [side(line, [x1, y1]), side(line, [x2, y2])];
            from * to < 0.0 && from.abs().min(to.abs()) > 1e-6
        };
        separates(a, b) && separates(b, a)
    }

    #[test]
    fn every_step_of_every_network_has_a_formula_and_its_parameters() {
        let mut networks = vec![
            NetworkKind::Attention,
            NetworkKind::AdditiveAttention,
            NetworkKind::Transformer,
            NetworkKind::Decoder,
            NetworkKind::EncoderDecoder,
        ];
        networks.extend(RecurrentCell::ALL.map(NetworkKind::Recurrent));
        for network in networks {
            for norm_order in [NormOrder::Pre, NormOrder::Post] {
                let config = CountConfig {
                    network,
                    norm_order,
                    vocab_size: 100,
                    num_classes: if matches!(network, NetworkKind::Decoder | NetworkKind::EncoderDecoder) {
                        0
                    } else {
                        3
                    },
                    learned_positions: 64,
                    num_layers: if matches!(network, NetworkKind::Attention | NetworkKind::AdditiveAttention) {
                        1
                    } else {
                        3
                    },
                    ..CountConfig::default()
                };
                let report = CountReport::new(config, None).unwrap();
                let figure = report.map(Lang::En);
                let Content::NetworkMap(map) = &figure.content else { panic!("a map") };
                let sum: u128 = map.blocks.iter().map(|block| block.parameters * block.times as u128).sum();
                assert_eq!(sum, report.count.parameters, "{network:?}");
                for (block, step) in map.blocks.iter().zip(&report.count.steps) {
                    assert!(!block.formula.is_empty(), "{network:?}: {}", step.name);
                }
                // Every block is in the picture with its sentence, and inside it.
                let scene = figure.scene();
                let svg = scene.to_svg();
                for (i, block) in map.blocks.iter().enumerate() {
                    assert!(svg.contains(&format!("{} · {}: ", i + 1, block.name)), "{network:?}: {}", block.name);
                }
                let lines: Vec<[f64; 4]> = scene.items.iter().filter_map(connection).collect();
                for (i, a) in lines.iter().enumerate() {
                    let crossing = lines[..i].iter().find(|b| cross(*a, **b));
                    assert!(crossing.is_none(), "{network:?}, {norm_order:?}: {a:?} crosses {crossing:?}");
                }
                for item in &scene.items {
                    if let crate::SceneItem::Rect { area: [x, y, width, height], .. } = item {
                        assert!(*x >= 0.0 && *y >= 0.0 && x + width <= scene.width && y + height <= scene.height);
                    }
                }
                assert_eq!(figure.tables()[0].rows.len(), map.blocks.len());
            }
        }
    }

    #[test]
    fn additive_attention_has_its_own_formulas() {
        let config = CountConfig { network: NetworkKind::AdditiveAttention, num_layers: 1, ..CountConfig::default() };
        let figure = CountReport::new(config, None).unwrap().map(Lang::En);
        let Content::NetworkMap(map) = &figure.content else { panic!("a map") };
        for block in &map.blocks {
            assert_eq!(block.source, "Bahdanau, Cho and Bengio 2015", "{}", block.name);
        }
        let scores = map.blocks.iter().find(|block| block.name == "scores").unwrap();
        assert_eq!((scores.formula, scores.role), ("e = vᵀ tanh(W_Q q + W_K k)", BlockRole::Scores));
    }
}
