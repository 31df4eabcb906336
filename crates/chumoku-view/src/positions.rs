//! The figures of positional encoding.

use crate::figure::{ColorScale, Content, Curves, Figure, FigureAxis, Heatmap};
use chumoku::lang::Lang;
use chumoku::nn::{PositionKind, Rotary, sinusoidal, sinusoidal_halves};
use chumoku::tr_in;
use chumoku::{Error, ModelNetwork, Result, tr};
use ndarray::Array2;
use std::f64::consts::TAU;
use std::path::Path;

/// The vectors that encode positions in a model.
#[derive(Clone, Debug, PartialEq)]
pub struct PositionalEncoding {
    /// Name in English and Japanese.
    name: [String; 2],
    /// (positions, dimensions): the numbers that are added to the embeddings. For rotary positions, the cosine and the
    /// sine of each pair's angle, in the two dimensions of the pair.
    table: Array2<f32>,
    /// The wavelength of each pair of dimensions, in positions; empty for a learned encoding.
    wavelengths: Vec<f64>,
    /// True if positions rotate queries and keys instead of being added to the embeddings.
    is_rotary: bool,
    /// The dimensions to draw, if they were chosen.
    shown: Option<Vec<usize>>,
}

/// Numbers drawn between two positions of a curve that follows a formula.
const POINTS_BETWEEN: usize = 7;

/// Maximum number of positions of a curve with numbers between them.
const MAX_SMOOTH_POSITIONS: usize = 256;

impl PositionalEncoding {
    /// Creates the sinusoidal encoding (Vaswani et al. 2017, section 3.5): `sin(pos / 10000^(2i/d))` and the same with
    /// `cos`. Pair i has the wavelength `2π · 10000^(2i/d)`.
    #[must_use]
    pub fn sinusoidal(length: usize, d_model: usize) -> PositionalEncoding {
        PositionalEncoding {
            name: [
                format!("Sinusoidal encoding, d = {d_model}"),
                format!("正弦波の位置エンコーディング（d = {d_model}）"),
            ],
            table: sinusoidal::<f32>(length, d_model),
            wavelengths: wavelengths(10000.0, d_model),
            is_rotary: false,
            shown: None,
        }
    }

    /// Creates rotary positions (Su et al. 2021): pair i of queries and keys is rotated by `pos / base^(2i/d)`. The
    /// pair is dimensions i and i + d/2, as in [`Rotary`].
    ///
    /// # Errors
    /// If `dim` is odd, or `base` is not a finite number above 0.
    pub fn rotary(length: usize, dim: usize, base: Option<f64>) -> Result<PositionalEncoding> {
        let base = base.unwrap_or(Rotary::BASE);
        if dim == 0 || !dim.is_multiple_of(2) {
            return Err(Error::Setting(tr!(
                "rotary positions: expected an even number of dimensions, got {dim}",
                "回転位置エンコーディング: 次元の数は偶数のはずですが、{dim} です"
            )));
        }
        if !(base.is_finite() && base > 0.0) {
            return Err(Error::Setting(tr!(
                "rotary positions: expected a finite base above 0, got {base}",
                "回転位置エンコーディング: base は正の有限の数が必要ですが、{base} です"
            )));
        }
        let wavelengths = wavelengths(base, dim);
        let table = Array2::from_shape_fn((length, dim), |(position, column)| {
            let angle = TAU * position as f64 / wavelengths[column % (dim / 2)];
            (if column < dim / 2 { angle.cos() } else { angle.sin() }) as f32
        });
        let name = [
            format!("Rotary positions, base {base}, {dim} dimensions of a head"),
            format!("回転位置（RoPE、基数 {base}、ヘッドの次元 {dim}）"),
        ];
        Ok(PositionalEncoding { name, table, wavelengths, is_rotary: true, shown: None })
    }

    /// Creates a learned encoding from a table of (positions, d_model).
    #[must_use]
    pub(crate) fn learned(name: &str, table: Array2<f32>) -> PositionalEncoding {
        PositionalEncoding {
            name: [format!("{name}: learned positions"), format!("{name}: 学習された位置埋め込み")],
            table,
            wavelengths: Vec::new(),
            is_rotary: false,
            shown: None,
        }
    }

    /// Reads the encoding of a model's folder, for a translator that of its encoder. `name` is the name of the model in
    /// pictures.
    ///
    /// A learned encoding has at most as many positions as the model reads.
    ///
    /// # Errors
    /// If the folder cannot be read, or the model has another kind of positions or none.
    pub fn from_model(folder: &Path, length: usize, name: &str) -> Result<PositionalEncoding> {
        let network = ModelNetwork::load(folder)?;
        let d_model = network.d_model;
        match network.position {
            PositionKind::Sinusoidal => Ok(PositionalEncoding::sinusoidal(length, d_model)),
            PositionKind::SinusoidalHalves => Ok(PositionalEncoding {
                table: sinusoidal_halves(length, d_model),
                ..PositionalEncoding::sinusoidal(length, d_model)
            }),
            PositionKind::Rotary => {
                PositionalEncoding::rotary(length, d_model / network.num_heads.max(1), network.rotary_base)
            }
            kind => network.learned_positions(length).map(|table| PositionalEncoding::learned(name, table)).ok_or_else(|| {
                let kind = serde_json::to_value(kind).ok().and_then(|kind| kind.as_str().map(String::from));
                Error::Setting(tr!(
                    "{}: the model's positions are \"{}\"; expected sinusoidal, rotary or learned ones, which have vectors",
                    "{}: このモデルの位置は \"{}\" です。ベクトルのある sinusoidal、rotary、learned のいずれかが必要です",
                    folder.display(),
                    kind.unwrap_or_default()
                ))
            }),
        }
    }

    /// Returns the numbers: (positions, dimensions).
    #[must_use]
    pub fn table(&self) -> &Array2<f32> {
        &self.table
    }

    /// Chooses the dimensions that the heatmap and the curves draw, from 0.
    ///
    /// # Errors
    /// If a dimension does not exist, or none is given.
    pub fn show_dimensions(&mut self, dimensions: &[usize]) -> Result<()> {
        let last = self.table.ncols().saturating_sub(1);
        if let Some(wrong) = dimensions.iter().find(|&&dimension| dimension > last) {
            return Err(Error::Setting(tr!(
                "dimensions: expected numbers from 0 to {last}, found {wrong}",
                "次元: 0〜{last} の番号が必要ですが、{wrong} です"
            )));
        }
        self.shown = (!dimensions.is_empty()).then(|| dimensions.to_vec());
        Ok(())
    }

    /// Returns the numbers of a dimension between its positions, if it follows a sine or cosine of a known wavelength.
    fn numbers_between(&self, column: usize) -> Vec<f32> {
        let n = self.table.nrows();
        if n > MAX_SMOOTH_POSITIONS {
            return Vec::new();
        }
        let both: [fn(f64) -> f64; 2] = [f64::sin, f64::cos];
        let waves = self.wavelengths.iter().flat_map(|&wave| both.map(|of| (wave, of)));
        let is_same = |(wave, of): &(f64, fn(f64) -> f64)| {
            (0..n).all(|i| (of(TAU * i as f64 / wave) - f64::from(self.table[[i, column]])).abs() < 1e-3)
        };
        let Some((wave, of)) = waves.into_iter().find(is_same) else { return Vec::new() };
        let steps = POINTS_BETWEEN + 1;
        let between =
            (0..n.saturating_sub(1)).flat_map(|i| (1..steps).map(move |j| i as f64 + j as f64 / steps as f64));
        between.map(|position| of(TAU * position / wave) as f32).collect()
    }

    /// Returns the dimensions of pair i. The second is out of range if the first has no partner.
    fn pair_dimensions(&self, i: usize) -> [usize; 2] {
        if self.is_rotary { [i, i + self.table.ncols() / 2] } else { [2 * i, 2 * i + 1] }
    }

    fn figure(&self, lang: Lang, what: [&str; 2], notes: Vec<String>, content: Content) -> Figure {
        let title = match lang {
            Lang::En => self.name[0].clone(),
            Lang::Ja => self.name[1].clone(),
        };
        Figure { title, subtitle: lang.pick(what[0], what[1]).to_owned(), notes, content, lang }
    }

    fn axis(&self, lang: Lang, en: &str, ja: &str, count: usize) -> FigureAxis {
        FigureAxis {
            name: lang.pick(en, ja).into(),
            labels: (0..count).map(|i| i.to_string()).collect(),
            is_numbered: false,
        }
    }

    /// Positions by dimensions.
    #[must_use]
    pub fn heatmap(&self, lang: Lang) -> Figure {
        let most = self.table.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let all: Vec<usize> = (0..self.table.ncols()).collect();
        let columns = self.shown.as_ref().unwrap_or(&all);
        let values = self.table.outer_iter().flat_map(|row| columns.iter().map(move |&column| Some(row[column])));
        let map = Heatmap {
            caption: String::new(),
            rows: self.axis(lang, "position", "位置", self.table.nrows()),
            values: values.collect(),
            columns: FigureAxis {
                labels: columns.iter().map(usize::to_string).collect(),
                ..self.axis(lang, "dimension", "次元", 0)
            },
            scale: ColorScale::Signed(most),
        };
        let half = self.table.ncols() / 2;
        let notes = vec![match (self.is_rotary, lang) {
            (true, Lang::En) => format!(
                "Dimensions i and i + {half} are a pair: the first half shows the cosine of each pair's angle, the second half its sine."
            ),
            (true, Lang::Ja) => {
                format!("次元 i と i + {half} が対になります。前半は各対の角度の余弦、後半は正弦です。")
            }
            (false, Lang::En) => "Each row is added to the embedding of the token at that position.".into(),
            (false, Lang::Ja) => "各行が、その位置のトークンの埋め込みに加算されます。".into(),
        }];
        self.figure(lang, ["Positions by dimensions", "位置と次元"], notes, Content::Heatmap(map))
    }

    /// The values of the chosen dimensions along the positions. By default, these are both of the first pair, and the first
    /// of the pairs at a quarter, half and three quarters.
    #[must_use]
    pub fn curves(&self, lang: Lang) -> Figure {
        let d = self.table.ncols();
        let others = [d / 8, d / 4, d / 8 * 3].map(|i| self.pair_dimensions(i)[0]);
        let mut columns: Vec<usize> = self.pair_dimensions(0).into_iter().chain(others).filter(|&c| c < d).collect();
        columns.sort_unstable();
        columns.dedup();
        if let Some(shown) = &self.shown {
            columns.clone_from(shown);
        }
        let between: Vec<Vec<f32>> = columns.iter().map(|&column| self.numbers_between(column)).collect();
        let series = columns.into_iter().map(|column| {
            let name = tr_in!("dimension {column}", "次元 {column}", lang);
            (name, self.table.column(column).to_vec())
        });
        let curves = Curves {
            x: self.axis(lang, "position", "位置", self.table.nrows()),
            y: lang.pick("value", "値").into(),
            series: series.collect(),
            is_logarithmic: false,
            spread: Vec::new(),
            between,
        };
        self.figure(
            lang,
            ["Some dimensions along the positions", "いくつかの次元の値"],
            Vec::new(),
            Content::Curves(curves),
        )
    }

    /// The wavelength of each pair of dimensions; `None` for a learned encoding.
    #[must_use]
    pub fn wavelength_figure(&self, lang: Lang) -> Option<Figure> {
        (!self.wavelengths.is_empty()).then(|| {
            let d = self.table.ncols();
            // The last of an odd number of dimensions has no partner.
            let label = |i: usize| match self.pair_dimensions(i) {
                [first, second] if second >= d => first.to_string(),
                // A hyphen would read as a range.
                [first, second] if self.is_rotary => format!("{first}, {second}"),
                [first, second] => format!("{first}–{second}"),
            };
            let labels = (0..self.wavelengths.len()).map(label).collect();
            let last = self.wavelengths[self.wavelengths.len() - 1];
            let curves = Curves {
                x: FigureAxis { name: lang.pick("dimensions", "次元").into(), labels, is_numbered: false },
                y: lang.pick("wavelength in positions (logarithmic)", "波長（位置の数、対数目盛）").into(),
                series: vec![(
                    lang.pick("wavelength", "波長").into(),
                    self.wavelengths.iter().map(|&x| x as f32).collect(),
                )],
                is_logarithmic: true,
                spread: Vec::new(),
                between: Vec::new(),
            };
            let notes = vec![tr_in!("Pair i, from 0, repeats after 2π · base^(2i/d) positions: the first in 6.28, the last in {last:.2}.", "i 番目（0 から）の対は 2π · 基数^(2i/d) 位置ごとに繰り返します。最初の対は 6.28、最後の対は {last:.2} です。", lang)];
            self.figure(lang, ["Wavelength of each pair of dimensions", "次元の対ごとの波長"], notes, Content::Curves(curves))
        })
    }

    /// The similarity of positions: the cosine between their vectors. For rotary positions it is the mean cosine of the
    /// angle between them, the factor of the score of an equal query and key.
    #[must_use]
    pub fn similarity(&self, lang: Lang) -> Figure {
        let n = self.table.nrows();
        let lengths: Vec<f64> = self.table.rows().into_iter().map(|row| f64::from(row.dot(&row)).sqrt()).collect();
        let value = |(i, j): (usize, usize)| {
            let product = f64::from(self.table.row(i).dot(&self.table.row(j)));
            let length = lengths[i] * lengths[j];
            Some(if length > 0.0 { (product / length) as f32 } else { 0.0 })
        };
        let map = Heatmap {
            caption: String::new(),
            rows: self.axis(lang, "position", "位置", n),
            columns: self.axis(lang, "position", "位置", n),
            values: (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).map(value).collect(),
            scale: ColorScale::Signed(1.0),
        };
        // A dimension without a partner is a single sine, and its products depend on absolute positions too.
        let notes = if self.wavelengths.is_empty() || self.table.ncols() % 2 == 1 {
            Vec::new()
        } else {
            let note = lang.pick(
                "It depends only on the distance: all numbers on a diagonal are equal.",
                "値は距離だけで決まります。どの対角線の上でも同じ値です。",
            );
            vec![note.to_owned()]
        };
        self.figure(lang, ["Cosine between positions", "位置どうしのコサイン類似度"], notes, Content::Heatmap(map))
    }

    /// Returns all figures.
    #[must_use]
    pub fn figures(&self, lang: Lang) -> Vec<Figure> {
        let first = [self.heatmap(lang), self.curves(lang)];
        first.into_iter().chain(self.wavelength_figure(lang)).chain([self.similarity(lang)]).collect()
    }
}

/// Returns `2π · base^(2i/d)` for each pair of dimensions.
fn wavelengths(base: f64, dimensions: usize) -> Vec<f64> {
    (0..dimensions.div_ceil(2)).map(|i| TAU * base.powf(2.0 * i as f64 / dimensions as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TerminalOptions;
    use chumoku_kernels::{HeadsMut, RotationDirection};

    #[test]
    fn chosen_dimensions_are_drawn_as_their_formula() {
        let mut encoding = PositionalEncoding::sinusoidal(50, 512);
        encoding.show_dimensions(&[0, 1, 2, 3, 10, 20]).unwrap();
        let Content::Curves(curves) = encoding.curves(Lang::En).content else { panic!("curves") };
        let names: Vec<&str> = curves.series.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.last(), Some(&"dimension 20"));
        for (&column, between) in [0, 1, 2, 3, 10, 20].iter().zip(&curves.between) {
            assert_eq!(between.len(), 49 * POINTS_BETWEEN);
            // Halfway between positions 3 and 4.
            let angle = 3.5 / 10000f64.powf((column - column % 2) as f64 / 512.0);
            let expected = if column % 2 == 0 { angle.sin() } else { angle.cos() };
            assert!((f64::from(between[3 * POINTS_BETWEEN + 3]) - expected).abs() < 1e-6);
        }
        let Content::Heatmap(map) = encoding.heatmap(Lang::En).content else { panic!("a heatmap") };
        assert_eq!((map.columns.labels[5].as_str(), map.values.len()), ("20", 300));
        assert_eq!(map.value(7, 4), Some(encoding.table()[[7, 10]]));
        // The terminal heads the columns with the dimensions, also when they take several tables.
        let head = |encoding: &PositionalEncoding| -> Vec<String> {
            let text = encoding.heatmap(Lang::En).to_text(&TerminalOptions::default());
            text.lines().filter_map(|line| Some(line.split_once("dimension → │")?.1.to_owned())).collect()
        };
        assert_eq!(head(&encoding), ["    0    1    2    3   10   20"]);
        encoding.show_dimensions(&[7, 3, 100, 500, 6, 5, 4, 2, 1, 0, 511, 9, 8]).unwrap();
        assert_eq!(head(&encoding), ["    7    3  100  500    6    5    4", "    2    1    0  511    9    8"]);
        assert!(encoding.show_dimensions(&[512]).is_err());
        // A learned encoding is known at its positions only.
        let learned = PositionalEncoding::learned("m", encoding.table().mapv(|x| x * 0.7));
        let Content::Curves(curves) = learned.curves(Lang::En).content else { panic!("curves") };
        assert!(curves.between.iter().all(Vec::is_empty));
    }

    #[test]
    fn dimensions_repeat_after_their_wavelength() {
        // The pairs of eight dimensions have the wavelengths 2π, 2π·10, 2π·100 and 2π·1000.
        let encoding = PositionalEncoding::sinusoidal(64, 8);
        for (i, expected) in [TAU, 10.0 * TAU, 100.0 * TAU, 1000.0 * TAU].into_iter().enumerate() {
            assert!((encoding.wavelengths[i] / expected - 1.0).abs() < 1e-12);
            for position in 0..64 {
                let angle = TAU * position as f64 / encoding.wavelengths[i];
                assert!((f64::from(encoding.table()[[position, 2 * i]]) - angle.sin()).abs() < 1e-6);
                assert!((f64::from(encoding.table()[[position, 2 * i + 1]]) - angle.cos()).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn similarity_depends_only_on_distance() {
        for encoding in [PositionalEncoding::sinusoidal(20, 6), PositionalEncoding::rotary(20, 6, Some(50.0)).unwrap()]
        {
            let Content::Heatmap(map) = encoding.similarity(Lang::En).content else { panic!("a map") };
            for distance in 0..20 {
                let first = map.value(0, distance).unwrap();
                let expected: f64 = encoding.wavelengths.iter().map(|w| (TAU * distance as f64 / w).cos() / 3.0).sum();
                assert!((f64::from(first) - expected).abs() < 1e-6);
                for i in 0..20 - distance {
                    assert!((map.value(i, i + distance).unwrap() - first).abs() < 1e-6);
                }
            }
        }
    }

    #[test]
    fn odd_head_widths_and_bad_bases_are_rejected() {
        for (dim, base) in [(3, None), (0, None), (4, Some(0.0)), (4, Some(f64::NAN))] {
            let problem = PositionalEncoding::rotary(4, dim, base).unwrap_err().to_string();
            assert!(problem.contains("expected") && problem.contains("got"), "{problem}");
        }
    }

    #[test]
    fn notes_and_labels_are_correct_for_any_number_of_dimensions() {
        let even = PositionalEncoding::sinusoidal(20, 4);
        assert_eq!(even.similarity(Lang::En).notes.len(), 1);
        // The last pair of four dimensions repeats after 2π · 100, not 2π · 10000.
        assert!(even.wavelength_figure(Lang::En).unwrap().notes[0].contains("the last in 628.32"));
        let odd = PositionalEncoding::sinusoidal(20, 5);
        let Content::Curves(curves) = odd.wavelength_figure(Lang::Ja).unwrap().content else { panic!("curves") };
        assert_eq!(curves.x.labels, ["0–1", "2–3", "4"]);
        let figure = odd.similarity(Lang::Ja);
        let Content::Heatmap(map) = &figure.content else { panic!("a map") };
        assert!((map.value(0, 3).unwrap() - map.value(10, 13).unwrap()).abs() > 1e-6 && figure.notes.is_empty());
    }

    #[test]
    fn curves_show_dimensions_at_the_quarters() {
        let Content::Curves(curves) = PositionalEncoding::sinusoidal(5, 32).curves(Lang::En).content else { panic!() };
        let names: Vec<&str> = curves.series.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["dimension 0", "dimension 1", "dimension 8", "dimension 16", "dimension 24"]);
        let encoding = PositionalEncoding::rotary(5, 32, None).unwrap();
        let Content::Curves(curves) = encoding.curves(Lang::En).content else { panic!() };
        let names: Vec<&str> = curves.series.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["dimension 0", "dimension 4", "dimension 8", "dimension 12", "dimension 16"]);
    }

    #[test]
    fn rotary_pairs_match_the_layer() {
        let (length, d) = (7, 8);
        let encoding = PositionalEncoding::rotary(length, d, Some(50.0)).unwrap();
        let rotary = Rotary::new(d, 50.0);
        let Content::Curves(curves) = encoding.wavelength_figure(Lang::En).unwrap().content else { panic!("curves") };
        for (i, label) in curves.x.labels.iter().enumerate() {
            let [first, second]: [usize; 2] =
                label.split(", ").map(|d| d.parse().unwrap()).collect::<Vec<_>>().try_into().unwrap();
            // A vector along the first dimension of a pair has its cosine there and its sine in the second.
            let mut x = Array2::<f32>::zeros((length, d));
            x.column_mut(first).fill(1.0);
            let heads = HeadsMut::bhld(x.as_slice_mut().unwrap(), [1, 1, length, d]).unwrap();
            rotary.rotate(heads, None, RotationDirection::Forward).unwrap();
            for position in 0..length {
                let angle = TAU * position as f64 / encoding.wavelengths[i];
                let expected = [(first, angle.cos()), (second, angle.sin())];
                for (column, expected) in expected {
                    assert!((f64::from(x[[position, column]]) - expected).abs() < 1e-6, "{label}");
                    assert!((f64::from(encoding.table()[[position, column]]) - expected).abs() < 1e-6, "{label}");
                }
            }
        }
        assert!(encoding.heatmap(Lang::En).notes[0].contains("Dimensions i and i + 4 are a pair"));
    }

    #[test]
    fn similarity_ignores_vector_length() {
        let table = ndarray::array![[1.0, 0.0], [3.0, 3.0], [0.0, 0.0]];
        let Content::Heatmap(map) = PositionalEncoding::learned("m", table).similarity(Lang::En).content else {
            panic!()
        };
        let half = 0.5f32.sqrt();
        let expected = [1.0, half, 0.0, half, 1.0, 0.0, 0.0, 0.0, 0.0];
        assert!(map.values.iter().zip(expected).all(|(a, b)| (a.unwrap() - b).abs() < 1e-6), "{:?}", map.values);
    }

    #[test]
    fn a_learned_encoding_has_no_wavelengths() {
        let table = Array2::from_shape_fn((3, 4), |(i, j)| (i * 4 + j) as f32);
        let encoding = PositionalEncoding::learned("m", table);
        assert!(encoding.wavelength_figure(Lang::Ja).is_none());
        assert_eq!(encoding.figures(Lang::Ja).len(), 3);
    }
}
