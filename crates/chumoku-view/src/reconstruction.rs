//! The share of texts that autoencoders reconstruct, by the width of their bottleneck.

use crate::figure::{Content, Curves, Figure, FigureAxis};
use chumoku::lang::Lang;
use chumoku::tr_in;
use chumoku::{Error, ModelKind, Result, model_file, tr};
use serde_json::Value;
use std::path::Path;

/// The scores of an autoencoder.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reconstruction {
    /// Width of the bottleneck.
    width: u64,
    /// Share of the texts that are reconstructed exactly.
    exact: f64,
    /// Share of the characters that are right.
    characters: f64,
    /// Number of texts scored.
    texts: u64,
}

/// The scores of several autoencoders, by the width of their bottleneck.
#[derive(Clone, Debug, PartialEq)]
pub struct ReconstructionCurves(Vec<Reconstruction>);

impl ReconstructionCurves {
    /// Reads the scores that training wrote into the folders of some autoencoders.
    ///
    /// # Errors
    /// If a folder holds no autoencoder, or its metrics are missing or damaged.
    pub fn load<'a>(folders: impl IntoIterator<Item = &'a Path>) -> Result<ReconstructionCurves> {
        let mut found = folders.into_iter().map(read).collect::<Result<Vec<_>>>()?;
        found.sort_unstable_by_key(|one| one.width);
        Ok(ReconstructionCurves(found))
    }

    /// The figure: exact texts and right characters by the width of the bottleneck.
    #[must_use]
    pub fn figure(&self, lang: Lang) -> Figure {
        let series = |name: (&str, &str), share: fn(&Reconstruction) -> f64| {
            let shares = self.0.iter().map(|one| (100.0 * share(one)) as f32).collect();
            (lang.pick(name.0, name.1).to_owned(), shares)
        };
        let curves = Curves {
            x: FigureAxis {
                name: lang.pick("numbers in the bottleneck", "ボトルネックの数の個数").into(),
                labels: self.0.iter().map(|one| one.width.to_string()).collect(),
                is_numbered: false,
            },
            y: lang.pick("percent", "%").into(),
            series: vec![
                series(("texts reconstructed exactly", "完全に復元したテキスト"), |one| one.exact),
                series(("characters right", "正しい文字"), |one| one.characters),
            ],
            between: Vec::new(),
            is_logarithmic: false,
            spread: Vec::new(),
        };
        let texts = self.0.iter().map(|one| one.texts).max().unwrap_or(0);
        Figure {
            title: lang.pick("Reconstruction by the width of the bottleneck", "ボトルネックの幅と復元").into(),
            subtitle: tr_in!("{texts} texts", "テキスト {texts} 個", lang),
            notes: Vec::new(),
            content: Content::Curves(curves),
            lang,
        }
    }
}

fn read(folder: &Path) -> Result<Reconstruction> {
    let path = model_file(folder, "metrics.json");
    let kind = ModelKind::from_folder(folder)?;
    let fault = |problem: String| Err(Error::Model { path: path.clone(), problem });
    if kind != ModelKind::Autoencoder {
        return fault(tr!(
            "expected autoencoders, to draw reconstruction by the width of the bottleneck, found {}",
            "ボトルネックの幅と復元の図にはオートエンコーダーが必要ですが、{}です",
            kind.describe()
        ));
    }
    let bytes = std::fs::read(&path).map_err(Error::io("reading", &path))?;
    let metrics: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let share = |key: &str| metrics["scores"][key].as_f64().filter(|share| (0.0..=1.0).contains(share));
    let (width, texts) = (metrics["plan"]["model"]["bottleneck"].as_u64(), metrics["scores"]["pairs"].as_u64());
    match (width, texts, share("exact"), share("character_accuracy")) {
        (Some(width), Some(texts), Some(exact), Some(characters)) => {
            Ok(Reconstruction { width, exact, characters, texts })
        }
        _ => fault(tr!(
            "expected the metrics of an autoencoder: the file is damaged",
            "オートエンコーダーの評価値のファイルのはずですが、壊れています"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A model's folder with the keys that the figure reads.
    fn folder(model_type: &str, width: u64, exact: f64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, value: Value| std::fs::write(folder.path().join(name), value.to_string()).unwrap();
        write("config.json", json!({ "model_type": model_type }));
        let scores = json!({ "pairs": 60, "exact": exact, "character_accuracy": 0.75 });
        write("metrics.json", json!({ "plan": { "model": { "bottleneck": width } }, "scores": scores }));
        folder
    }

    #[test]
    fn shares_are_ordered_by_width() {
        let folders = [folder("chumoku_autoencoder", 16, 0.5), folder("chumoku_autoencoder", 2, 0.25)];
        let curves = ReconstructionCurves::load(folders.iter().map(tempfile::TempDir::path)).unwrap();
        let figure = curves.figure(Lang::En);
        let Content::Curves(shown) = &figure.content else { panic!("curves") };
        assert_eq!(shown.x.labels, ["2", "16"]);
        assert_eq!(shown.series[0].1, [25.0, 50.0]);
        assert_eq!(shown.series[1].1, [75.0, 75.0]);
        assert!(figure.subtitle == "60 texts" && curves.figure(Lang::Ja).subtitle == "テキスト 60 個");
        assert!(figure.scene().to_svg().contains("Reconstruction by the width"));
    }

    #[test]
    fn other_models_and_damaged_metrics_are_refused() {
        let fault = |folder: &tempfile::TempDir| ReconstructionCurves::load([folder.path()]).unwrap_err().to_string();
        assert!(fault(&folder("chumoku_translator", 2, 0.5)).contains("expected autoencoders"));
        assert!(fault(&folder("chumoku_autoencoder", 2, 1.5)).contains("damaged"));
    }
}
