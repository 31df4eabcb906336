//! The map of a network from its counted steps, each with its formula and the paper that introduced it.

use crate::colored_words::bilingual_html;
use crate::count_report::step_label;
use crate::figure::{BlockRole, Content, Figure, MapBlock, NetworkMap, PageWidget, figures_page};
use crate::html::escape_script_json;
use crate::{CountReport, Lang};
use chumoku::WeightSample;
use chumoku::count::StepCost;
use chumoku::nn::NormOrder;
use chumoku::tr_in;
use serde_json::{Value, json};

/// The steps by name, one a line: name, role, formula and source. A name may follow that of a network with a step of its
/// own.
const STEPS: &str = include_str!("network_map.tsv");

/// Leads from a block to its weights, or to its row in the table.
const SCRIPT: &str = include_str!("network_map.js");

/// The style of the panel of weights.
const STYLE: &str = include_str!("network_map.css");

/// Rounds a number to four digits.
fn rounded(x: f64) -> Value {
    format!("{x:.3e}").parse::<f64>().map_or(Value::Null, Value::from)
}

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
            content: Content::NetworkMap(NetworkMap {
                blocks,
                is_pre_norm: self.config.norm_order == NormOrder::Pre,
                letters: self.letters(lang),
            }),
            lang,
        }
    }

    /// Returns the values of the letters in formulas, and the batch that the multiply–adds are of.
    fn letters(&self, lang: Lang) -> String {
        let config = &self.config;
        let heads = config.num_heads;
        // A decoder may have a value of its own.
        let has_one = |own: Option<usize>, of_encoder: usize| own.is_none_or(|own| own == of_encoder);
        let same_heads = has_one(config.decoder_num_heads, heads);
        let letters = [
            ("V", config.vocab_size, has_one(config.target_vocab_size, config.vocab_size)),
            ("d", config.d_model, true),
            ("h", heads, same_heads),
            ("h_kv", config.num_key_heads.unwrap_or(heads), same_heads),
            ("k", config.head_dim(), same_heads),
            ("f", config.d_ff, has_one(config.decoder_d_ff, config.d_ff)),
            ("s", config.hidden_size.unwrap_or(config.d_model), true),
        ];
        // Only those that occur.
        let formulas: Vec<&str> = self.count.steps.iter().map(|step| &step.parameters_formula[..]).collect();
        let occurs = |letter: &str| {
            let is_sign = |c: char| !c.is_alphanumeric() && c != '_';
            formulas.iter().any(|formula| formula.split(is_sign).any(|part| part == letter))
        };
        let values = letters.iter().filter(|(letter, _, is_known)| *is_known && occurs(letter));
        let values: Vec<String> = values.map(|(letter, value, _)| format!("{letter} = {value}")).collect();
        let batch =
            tr_in!("multiply–adds of a batch of {} sequences", "積和演算は {} 系列のバッチの数", lang, config.batch);
        values.into_iter().chain([batch]).collect::<Vec<_>>().join(lang.pick(", ", "、"))
    }

    /// Returns a page with the map, in which a block leads to its numbers: its weights, or its row in the table. `weights`
    /// are those of the model; `None` if there is no model or it is too large.
    #[must_use]
    pub fn map_to_html(&self, weights: Option<&[WeightSample]>, lang: Lang) -> String {
        let both = [[self.map(Lang::En), self.map(Lang::Ja)]];
        let hint = bilingual_html(lang, &|lang| {
            let hint = match weights {
                Some(_) => lang.pick(
                    "Click a block, or press Enter on it, to see its weights; blocks without weights lead to the table.",
                    "ブロックをクリックするか Enter を押すと、その重みを表示します。重みのないブロックは表の行に移ります。",
                ),
                None => lang.pick(
                    "Click a block, or press Enter on it, to see its formula and numbers in the table.",
                    "ブロックをクリックするか Enter を押すと、その式と数値を表で示します。",
                ),
            };
            hint.to_owned()
        });
        let panel = weights.map_or_else(String::new, |weights| self.weights_element(weights, lang));
        let element = format!("<p id=\"map-hint\">{hint}</p>\n{panel}");
        let widget = PageWidget { element: &element, script: SCRIPT, style: STYLE };
        figures_page(&self.map(lang).title, &both, widget, lang)
    }

    /// Returns the panel of weights, which the script fills, and its data.
    fn weights_element(&self, weights: &[WeightSample], lang: Lang) -> String {
        let say = |en: &'static str, ja: &'static str| bilingual_html(lang, &|lang| lang.pick(en, ja).to_owned());
        let (layer, name) = (say("Layer", "層"), say("Parameter", "パラメータ"));
        let back = say("Back to the map", "地図に戻る");
        let data: Vec<Value> = weights.iter().filter_map(|sample| self.weight_data(sample)).collect();
        let data = escape_script_json(&Value::from(data).to_string());
        format!(
            "<section id=\"weights\" hidden><h2></h2><p class=\"choice\"><label>{layer} <select id=\"weights-layer\"></select></label>\
             <label>{name} <select id=\"weights-name\"></select></label><button type=\"button\" id=\"weights-back\">{back}</button></p>\
             <p id=\"weights-figures\"></p><div class=\"wide\" tabindex=\"0\"><table></table></div><p id=\"weights-note\"></p></section>\n\
             <script type=\"application/json\" id=\"weights-data\">{data}</script>\n"
        )
    }

    /// Returns a sample as JSON, with the number of its block from 1.
    fn weight_data(&self, sample: &WeightSample) -> Option<Value> {
        let (part, step, layer) = (sample.step.part, sample.step.step, sample.step.layer);
        let mut blocks = self.count.steps.iter().enumerate().filter(|(_, of)| of.part == part && of.name == step);
        let first = blocks.next()?;
        // A recurrent network has a block for its first layer, and one for all others.
        let (block, _) = blocks.next().filter(|_| layer.is_some_and(|layer| layer > 0)).unwrap_or(first);
        let rows = sample.first.iter().map(|row| row.iter().map(|&x| rounded(f64::from(x))).collect::<Value>());
        Some(json!({
            "block": block + 1,
            "layer": layer,
            "name": sample.name,
            "shape": sample.shape,
            "statistics": sample.statistics.map(rounded),
            "first": rows.collect::<Value>(),
        }))
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
            for (norm_order, bottleneck) in [(NormOrder::Pre, Some(4)), (NormOrder::Post, None)] {
                let config = CountConfig {
                    network,
                    norm_order,
                    bottleneck,
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
                let table = &figure.tables()[0];
                assert_eq!(table.rows.len(), map.blocks.len());
                assert!(table.caption.contains("d = 256") && table.caption.ends_with("batch of 32 sequences"));
            }
        }
    }

    fn drawn_texts(figure: &Figure) -> Vec<String> {
        let scene = figure.scene();
        let texts = scene.items.iter().filter_map(|item| match item {
            crate::SceneItem::Text(text) => Some(text.text.clone()),
            _ => None,
        });
        texts.collect()
    }

    #[test]
    fn the_map_explains_its_colors_and_has_its_title_once() {
        let config = CountConfig { num_classes: 2, ..CountConfig::default() };
        let report = CountReport::new(config, None).unwrap();
        let meanings = [
            (Lang::En, ["attention", "feed-forward network", "normalization", "residual connection"]),
            (Lang::Ja, ["アテンション", "フィードフォワード層", "正規化", "残差接続"]),
        ];
        for (lang, meanings) in meanings {
            let texts = drawn_texts(&report.map(lang));
            for meaning in meanings {
                assert!(texts.iter().any(|text| text == meaning), "{meaning}: {texts:?}");
            }
            // W_Q is a letter with a subscript.
            assert!(texts.iter().all(|text| !text.contains('_')) && texts.iter().any(|text| text == "Q"), "{texts:?}");
        }
        let recurrent = CountConfig {
            network: NetworkKind::Recurrent(RecurrentCell::Lstm),
            vocab_size: 100,
            num_classes: 3,
            ..CountConfig::default()
        };
        let texts = drawn_texts(&CountReport::new(recurrent, None).unwrap().map(Lang::En));
        assert!(texts.iter().any(|text| text == "recurrent network"), "{texts:?}");
        assert!(!texts.iter().any(|text| text == "attention"), "{texts:?}");

        let page = report.map_to_html(None, Lang::En);
        let title = report.map(Lang::En).title;
        // The name of the file, the heading, and the description of the picture; no text of the picture.
        assert_eq!(page.matches(&title).count(), 3);
        assert!(!page.contains(&format!(">{title}</text>")) && report.map(Lang::En).scene().to_svg().contains(&title));
        assert!(page.contains("<td>Q = x W<sub>Q</sub> + b<sub>Q</sub></td>"));
        let table = page.split("<table>").nth(1).unwrap().split("</table>").next().unwrap();
        assert!(!table.contains('_'), "{table}");
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
