//! Attention to one text during training: what `train` recorded, and the figures of it.

use crate::figure::{
    ColorScale, Content, Curves, Figure, FigureAxis, Heatmap, HeatmapGrid, MAX_CELLS_PER_SIDE, PageWidget,
    PooledHeatmap, figures_page, max_pooled, pooling_note,
};
use crate::html::{escape_script_json, f32_bytes};
use crate::phrases;
use base64::prelude::{BASE64_STANDARD, Engine};
use chumoku::Result;
use chumoku::explain::{AttentionFrame, load_frames};
use chumoku::lang::Lang;
use chumoku::tr_in;
use std::fmt::Write as _;
use std::path::Path;

/// The attention to one text during training.
#[derive(Clone, Debug, PartialEq)]
pub struct Film {
    /// Name of the model's folder, without its path.
    pub model: String,
    /// The frames in the order of training steps.
    pub frames: Vec<AttentionFrame>,
}

/// Maximum number of frames in a strip; more are sampled evenly.
const STRIP_FRAMES: usize = 16;

impl Film {
    /// Reads the recording from a model's folder. `model` is its name in pictures.
    ///
    /// # Errors
    /// If the log cannot be read or holds no recording.
    pub fn load(folder: &Path, model: &str) -> Result<Film> {
        Ok(Film { model: model.into(), frames: load_frames(folder)? })
    }

    /// Returns the numbers of layers and heads.
    #[must_use]
    pub fn layers_and_heads(&self) -> [usize; 2] {
        self.frames.first().map_or([0; 2], |frame| [frame.layers, frame.heads])
    }

    fn text(&self) -> String {
        let Some(frame) = self.frames.first() else { return String::new() };
        match frame.words[0] == frame.words[1] {
            true => frame.words[0].join(" "),
            false => format!("{} → {}", frame.words[1].join(" "), frame.words[0].join(" ")),
        }
    }

    /// Returns the head of a layer that changed most in training: by the sum of absolute differences between the first
    /// and the last frame.
    ///
    /// # Panics
    /// If there is no such layer.
    #[must_use]
    pub fn most_changed(&self, layer: usize) -> usize {
        let [first, last] = [self.frames.first(), self.frames.last()].map(|frame| frame.expect("a film has frames"));
        let change = |head: usize| -> f32 {
            first.head_weights(layer, head).iter().zip(last.head_weights(layer, head)).map(|(a, b)| (a - b).abs()).sum()
        };
        (0..first.heads).fold(0, |best, head| if change(head) > change(best) { head } else { best })
    }

    /// Returns at most `most` frame indices, evenly spaced, including the first and the last.
    fn sample_frames(&self, most: usize) -> impl Iterator<Item = usize> {
        let last = self.frames.len() - 1;
        let shown = self.frames.len().min(most);
        (0..shown).map(move |i| if shown > 1 { i * last / (shown - 1) } else { 0 })
    }

    /// Returns the color scale of a head, the same in every frame.
    fn head_color_scale(&self, layer: usize, head: usize) -> ColorScale {
        let all = self.frames.iter().flat_map(|frame| frame.head_weights(layer, head));
        ColorScale::for_shares(self.frames.first().map_or(0, |frame| frame.words[1].len()), all)
    }

    /// The heatmap of a head in one frame.
    fn frame_heatmap(&self, index: usize, [layer, head]: [usize; 2], scale: ColorScale, lang: Lang) -> Heatmap {
        let frame = &self.frames[index];
        let caption = tr_in!("epoch {}, step {}", "エポック {}、ステップ {}", lang, frame.epoch, frame.step);
        let columns = frame.words[1].len();
        let weights = frame.head_weights(layer, head).iter().enumerate();
        let values = weights.map(|(at, &x)| (!frame.causal || at % columns <= at / columns).then_some(x));
        let [rows, columns] = [("queries", "クエリ", 0), ("keys", "キー", 1)].map(|(en, ja, side)| FigureAxis {
            name: lang.pick(en, ja).into(),
            labels: frame.words[side].clone(),
            is_numbered: true,
        });
        Heatmap { caption, rows, columns, values: values.collect(), scale }
    }

    /// The frames of a head side by side.
    ///
    /// # Panics
    /// If there is no such layer or head, or no frame.
    #[must_use]
    pub fn strip_figure(&self, layer: usize, head: usize, lang: Lang) -> Figure {
        let last = self.frames.len() - 1;
        let shown = self.frames.len().min(STRIP_FRAMES);
        let scale = self.head_color_scale(layer, head);
        let maps: Vec<Heatmap> = self
            .sample_frames(STRIP_FRAMES)
            .map(|index| self.frame_heatmap(index, [layer, head], scale, lang))
            .collect();
        let mut note = tr_in!("{shown} of {} recorded frames", "記録された {} コマのうち {shown} コマ", lang, last + 1);
        // A continued run may have been recorded from its start only.
        note += match self.frames[0].step {
            0 => lang.pick("; the first is the model before training.", "。最初は学習前のモデルです。"),
            _ => lang.pick(".", "。"),
        };
        let notes = [note].into_iter().chain(pooling_note(&maps, lang)).collect();
        Figure {
            title: format!("{}: {}", self.model, phrases::head_name(lang, layer, head)),
            subtitle: self.text(),
            notes,
            content: Content::HeatmapGrid(HeatmapGrid { maps, columns: 4 }),
            lang,
        }
    }

    /// The change of a head in training: the weights of the last frame minus those of the first.
    ///
    /// # Panics
    /// If there is no such layer or head.
    #[must_use]
    pub fn difference_figure(&self, layer: usize, head: usize, lang: Lang) -> Figure {
        let strip = self.strip_figure(layer, head, lang);
        let Content::HeatmapGrid(HeatmapGrid { mut maps, .. }) = strip.content else {
            unreachable!("a strip is a sheet")
        };
        let mut last = maps.pop().expect("a film has frames");
        let first = maps.first().unwrap_or(&last).clone();
        let pairs = last.values.iter_mut().zip(&first.values);
        pairs.for_each(|(now, before)| *now = now.zip(*before).map(|(now, before)| now - before));
        let most = last.values.iter().flatten().fold(0.0f32, |most, x| most.max(x.abs()));
        let notes = vec![
            lang.pick(
                "The last minus the first: blue is more, orange less.",
                "最後から最初を引いた差です。青は増加、橙は減少。",
            )
            .to_owned(),
        ];
        let content =
            Content::Heatmap(Heatmap { scale: ColorScale::Signed(most), caption: String::new(), ..last.clone() });
        let subtitle = format!("{} − {}", last.caption, first.caption);
        Figure { subtitle, notes, content, ..strip }
    }

    /// The concentration of each head of a layer during training: the mean entropy of its rows, where 1 is evenly
    /// spread.
    ///
    /// # Panics
    /// If there is no such layer.
    #[must_use]
    pub fn entropy_figure(&self, layer: usize, lang: Lang) -> Figure {
        let heads = self.layers_and_heads()[1];
        let series = (0..heads).map(|head| {
            let name = tr_in!("head {}", "ヘッド {}", lang, head + 1);
            (name, self.frames.iter().map(|frame| frame.entropy(layer, head)).collect())
        });
        let curves = Curves {
            x: FigureAxis {
                name: lang.pick("steps", "ステップ").into(),
                labels: self.frames.iter().map(|frame| frame.step.to_string()).collect(),
                is_numbered: false,
            },
            y: lang.pick("entropy of the weights, 1 is spread evenly", "重みのエントロピー（1 は均等）").into(),
            series: series.collect(),
            is_logarithmic: false,
            spread: Vec::new(),
            between: Vec::new(),
        };
        let title = tr_in!("{}: heads of layer {}", "{}: 第 {} 層のヘッド", lang, self.model, layer + 1);
        Figure { title, subtitle: self.text(), notes: Vec::new(), content: Content::Curves(curves), lang }
    }
}

/// Returns a film as a page: a player for every head of a layer, which starts with `head`. Below it are the strip of
/// each head, the change of this head, and the entropy of all heads over time.
///
/// The page is in English and Japanese and starts in `lang`. Like [`figures_to_html`](super::figures_to_html), it sends
/// no request.
///
/// A link may end in `#head=2&frame=5`, counted from 1. With `play=1` the film plays, unless the reader prefers reduced
/// motion. For long texts, a cell of the player is the maximum of several weights; very long films are sampled evenly.
///
/// # Panics
/// If there is no such layer or head, or no frame.
#[must_use]
pub fn film_to_html(film: &Film, layer: usize, head: usize, lang: Lang) -> String {
    let heads = film.layers_and_heads()[1];
    let both = |figure: &dyn Fn(Lang) -> Figure| [Lang::En, Lang::Ja].map(figure);
    let others = (0..heads).filter(|&other| other != head);
    let strips = [head].into_iter().chain(others).map(|head| both(&|lang| film.strip_figure(layer, head, lang)));
    let last =
        [both(&|lang| film.difference_figure(layer, head, lang)), both(&|lang| film.entropy_figure(layer, lang))];
    let figures: Vec<[Figure; 2]> = strips.chain(last).collect();
    let title = tr_in!("{}: attention during training", "{}: 学習中のアテンションの変化", lang, film.model);
    let player = PageWidget {
        element: &film.player_html(layer, head),
        script: include_str!("figure/film.js"),
        style: include_str!("figure/film.css"),
    };
    figures_page(&title, &figures, player, lang)
}

impl Film {
    /// Returns the element of the player: words and frames as JSON, and the weights of each head as base64 of f32,
    /// frame by frame.
    fn player_html(&self, layer: usize, head: usize) -> String {
        /// Maximum number of weights on a page, about 20 MB.
        const MOST: usize = 1 << 22;
        let heads = self.layers_and_heads()[1];
        let map =
            |index: usize, head: usize| self.frame_heatmap(index, [layer, head], ColorScale::Share(1.0), Lang::En);
        let first = map(0, head);
        let PooledHeatmap { rows, columns, .. } = max_pooled(&first, MAX_CELLS_PER_SIDE);
        let frames: Vec<usize> = self.sample_frames((MOST / (rows * columns * heads).max(1)).max(2)).collect();
        // A pooled row or column is named after its first word.
        let names = |axis: &FigureAxis, count: usize| {
            let words = axis.labels.len();
            let name = |i: usize| {
                let more = if count < words { "…" } else { "" };
                // The index of the first word in a pool, as `max_pooled` assigns words.
                format!("{}{more}", axis.labels[(i * words).div_ceil(count)])
            };
            (0..count).map(name).collect::<Vec<String>>()
        };
        let tops: Vec<f32> = (0..heads)
            .map(|head| match self.head_color_scale(layer, head) {
                ColorScale::Share(top) => top,
                ColorScale::Signed(_) => unreachable!("weights are shares"),
            })
            .collect();
        let data = serde_json::json!({
            "layer": layer,
            "head": head,
            "tops": tops,
            "rows": names(&first.rows, rows),
            "columns": names(&first.columns, columns),
            "pooled": rows < first.rows.labels.len() || columns < first.columns.labels.len(),
            "recorded": self.frames.len(),
            "frames": frames.iter().map(|&i| [self.frames[i].epoch, self.frames[i].step]).collect::<Vec<_>>(),
        });
        let mut element = format!(
            "<section id=\"film\" hidden></section>\n<script type=\"application/json\" id=\"film-data\">{}</script>\n",
            escape_script_json(&data.to_string())
        );
        for head in 0..heads {
            let weights = frames.iter().flat_map(|&index| max_pooled(&map(index, head), MAX_CELLS_PER_SIDE).values);
            let weights: Vec<f32> = weights.map(|x| x.unwrap_or(f32::NAN)).collect();
            let base64 = BASE64_STANDARD.encode(f32_bytes(&weights));
            let _ = writeln!(
                element,
                "<script type=\"text/plain\" class=\"film-head\" data-head=\"{head}\">{base64}</script>"
            );
        }
        element
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(step: u64, attention: [f32; 8]) -> AttentionFrame {
        let words = ["a", "b"].map(String::from).to_vec();
        AttentionFrame {
            step,
            epoch: step / 10,
            words: [words.clone(), words],
            layers: 1,
            heads: 2,
            causal: false,
            attention: attention.to_vec(),
        }
    }

    fn film() -> Film {
        let first = frame(0, [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]);
        let last = frame(10, [0.6, 0.4, 0.5, 0.5, 1.0, 0.0, 0.0, 1.0]);
        Film { model: "m".into(), frames: vec![first, last] }
    }

    #[test]
    fn recordings_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = String::from("{\"step\":1,\"loss\":2.0}\n");
        for frame in film().frames {
            let line = serde_json::json!({ "step": frame.step, "watched": frame });
            writeln!(log, "{line}").unwrap();
        }
        std::fs::write(folder.path().join("log.jsonl"), &log).unwrap();
        assert_eq!(Film::load(folder.path(), "m").unwrap(), film());
        let fails = |text: &str, expected: &str| {
            std::fs::write(folder.path().join("log.jsonl"), text).unwrap();
            let problem = Film::load(folder.path(), "m").unwrap_err().to_string();
            assert!(problem.contains(expected), "{problem}");
        };
        fails("{\"step\":1}\n", "--watch TEXT");
        fails(&log.replace("\"heads\":2", "\"heads\":3"), "line 2");
        fails("{\"watched\": 3}\n", "line 1");
        fails("watched", "line 1");
        for other in ["\"watched\"", "[\"watched\"]", "{\"text\": \"watched\"}"] {
            fails(&format!("{other}\n"), "line 1: not the attention");
        }
        fails(&log.replace("\"a\"", "\"x\"").replacen("\"x\"", "\"a\"", 2), "train again");
        std::fs::remove_file(folder.path().join("log.jsonl")).unwrap();
        assert!(Film::load(folder.path(), "m").unwrap_err().to_string().contains("log.jsonl"));
    }

    #[test]
    fn most_changed_head_is_found_and_its_entropy_falls() {
        assert_eq!(film().most_changed(0), 1);
        let Content::Curves(curves) = film().entropy_figure(0, Lang::En).content else { panic!("curves") };
        assert_eq!(curves.series[1].1, [1.0, 0.0]);
        let expected = 0.5 * (1.0 - (0.6f32 * 0.6f32.ln() + 0.4 * 0.4f32.ln()) / 2f32.ln());
        assert!((curves.series[0].1[1] - expected).abs() < 1e-6);
    }

    #[test]
    fn headings_are_whole_in_a_narrow_terminal() {
        let frames: Vec<AttentionFrame> = (0..12).map(|i| frame(120_000 + 999 * i, [0.5; 8])).collect();
        let model = "a-model-with-a-name-that-is-longer-than-a-line-of-a-narrow-terminal-and-goes-on".to_owned();
        let film = Film { model: model.clone(), frames };
        for lang in [Lang::En, Lang::Ja] {
            let options = crate::TerminalOptions { lang, ..crate::TerminalOptions::default() };
            let figure = film.strip_figure(0, 1, lang);
            let text = figure.to_text(&options);
            assert!(!text.contains('…') && text.lines().all(|line| crate::display_width(line) <= 80), "{text}");
            let Content::HeatmapGrid(HeatmapGrid { maps, .. }) = figure.content else { panic!("a grid") };
            assert!(maps.iter().all(|map| text.contains(&map.caption)), "{text}");
            assert!(text.replace('\n', "").contains(&model), "{text}");
        }
    }

    #[test]
    fn strips_sample_frames_evenly() {
        let frames: Vec<AttentionFrame> = (0..40).map(|i| frame(10 * i, [i as f32 / 40.0; 8])).collect();
        let Content::HeatmapGrid(sheet) = (Film { model: "m".into(), frames }).strip_figure(0, 1, Lang::En).content
        else {
            panic!()
        };
        assert_eq!(sheet.maps.len(), STRIP_FRAMES);
        assert_eq!((&*sheet.maps[0].caption, &*sheet.maps[15].caption), ("epoch 0, step 0", "epoch 39, step 390"));
        assert_eq!(sheet.maps[15].value(1, 1), Some(39.0 / 40.0));
        let figure = film().difference_figure(0, 1, Lang::En);
        assert_eq!(figure.subtitle, "epoch 1, step 10 − epoch 0, step 0");
        let Content::Heatmap(map) = figure.content else { panic!("a map") };
        assert_eq!(map.values, [0.5, -0.5, -0.5, 0.5].map(Some));
        let still = Film { frames: film().frames[..1].to_vec(), ..film() }.difference_figure(0, 0, Lang::Ja);
        let Content::Heatmap(map) = still.content else { panic!("a map") };
        assert_eq!(map.values, [Some(0.0); 4]);
    }

    #[test]
    fn note_on_untrained_model_needs_step_zero() {
        let note = |steps: [u64; 2], lang: Lang| {
            let frames = steps.map(|step| frame(step, [0.5; 8])).to_vec();
            Film { model: "m".into(), frames }.strip_figure(0, 0, lang).notes.concat()
        };
        assert!(note([0, 10], Lang::En).contains("before training") && note([0, 10], Lang::Ja).contains("学習前"));
        assert!(!note([10, 20], Lang::En).contains("before training") && !note([10, 20], Lang::Ja).contains("学習前"));
    }

    #[test]
    fn films_of_translators_and_causal_models_show_visible_words() {
        let [target, source] = [&["A", "B"][..], &["a", "b", "c"]].map(|w| w.iter().map(|w| (*w).to_owned()).collect());
        let attention = vec![0.5, 0.3, 0.2, 0.1, 0.2, 0.7];
        let mut frame = AttentionFrame { words: [target, source], heads: 1, attention, ..frame(0, [0.0; 8]) };
        let of = |frame: &AttentionFrame| Film { model: "m".into(), frames: vec![frame.clone()] };
        let figure = of(&frame).strip_figure(0, 0, Lang::En);
        assert_eq!(figure.subtitle, "a b c → A B");
        let Content::HeatmapGrid(sheet) = figure.content else { panic!("a sheet") };
        assert_eq!(
            [&sheet.maps[0].rows.labels[..], &sheet.maps[0].columns.labels],
            [&frame.words[0][..], &frame.words[1]]
        );
        assert_eq!(sheet.maps[0].value(1, 2), Some(0.7));

        frame.words[1].pop();
        (frame.attention, frame.causal) = (vec![1.0, 0.0, 0.5, 0.5], true);
        frame.words[1] = frame.words[0].clone();
        let Content::HeatmapGrid(sheet) = of(&frame).strip_figure(0, 0, Lang::En).content else { panic!("a sheet") };
        assert_eq!(sheet.maps[0].values, [Some(1.0), None, Some(0.5), Some(0.5)]);
        // The first word sees only itself; the second is evenly spread over two.
        let Content::Curves(curves) = of(&frame).entropy_figure(0, Lang::En).content else { panic!("curves") };
        assert_eq!(curves.series[0].1, [1.0]);
    }
}
