#![allow(missing_docs)]
use super::solver::{Outcome, Problem, Stop, negative_log_likelihood};
use super::sparse::Sparse;
use super::tokens::NgramScheme;
use super::vocabulary::{CountedTexts, Vocabulary};
use std::time::Instant;

pub struct Knobs {
    pub scheme: NgramScheme,
    pub min_df: u32,
    pub nb: u32,
    pub nb_power: f32,
    pub grid: Vec<f32>,
    pub tolerance: f64,
}

pub struct Eval {
    pub c: f32,
    pub valid: (f64, f64),
    pub test: (f64, f64),
    pub out: Outcome,
    pub seconds: f64,
}

pub fn experiment(train: (&[&str], &[u32]), valid: (&[&str], &[u32]), test: (&[&str], &[u32]), classes: usize, k: &Knobs) -> (usize, f64, Vec<Eval>) {
    let t0 = Instant::now();
    let counted = CountedTexts::read(train.0, &k.scheme, &|| false);
    let df = counted.document_frequencies(k.min_df);
    let n = train.0.len() as f64;
    let idf: Vec<f32> = df.iter().map(|d| if k.nb == 3 { 1.0 } else { (((1.0 + n) / (1.0 + d.1 as f64)).ln() + 1.0) as f32 }).collect();
    let mut vocab = Vocabulary::new(df.iter().map(|d| d.0).collect(), idf);
    let mut x = counted.rows(&vocab);
    let mut xt = x.transposed();
    let mut post: Option<Vec<f32>> = None;
    if k.nb > 0 {
        let mut totals = vec![0.0f64; classes];
        let mut counts = vec![0.0f64; classes * vocab.len()];
        for j in 0..vocab.len() {
            for &r in xt.row(j).0 {
                counts[j * classes + train.1[r as usize] as usize] += 1.0;
            }
            for c in 0..classes { totals[c] += counts[j * classes + c] + 1.0; }
        }
        let all: f64 = totals.iter().sum();
        let s: Vec<f32> = (0..vocab.len()).map(|j| {
            let row = &counts[j * classes..][..classes];
            let sum: f64 = row.iter().map(|x| x + 1.0).sum();
            (0..classes).map(|c| {
                let p = (row[c] + 1.0) / totals[c];
                let q = (sum - row[c] - 1.0) / (all - totals[c]);
                (p / q).ln().abs()
            }).fold(0.0, f64::max).powf(k.nb_power as f64) as f32
        }).map(|s| s.max(1e-3)).collect();
        if k.nb == 2 {
            post = Some(s);
        } else {
            let idf = vocab.idf().iter().zip(&s).map(|(a, b)| a * b).collect();
            vocab = Vocabulary::new(vocab.hashes().to_vec(), idf);
            x = counted.rows(&vocab);
            xt = x.transposed();
        }
    }
    drop(counted);
    let mut xv = CountedTexts::read(valid.0, &k.scheme, &|| false).rows(&vocab);
    let mut xs = CountedTexts::read(test.0, &k.scheme, &|| false).rows(&vocab);
    if let Some(s) = post {
        for m in [&mut x, &mut xv, &mut xs] {
            for (v, &j) in m.values.iter_mut().zip(&m.indices) { *v *= s[j as usize]; }
        }
        xt = x.transposed();
    }
    let outputs = if classes == 2 { 1 } else { classes };
    let mut share = vec![0.5f32; classes];
    for &l in train.1 { share[l as usize] += 1.0; }
    let total: f32 = share.iter().sum();
    let prior: Vec<f32> = if classes == 2 { vec![(share[1] / share[0]).ln()] } else { share.iter().map(|s| (s / total).ln()).collect() };
    let p = Problem { x: &x, xt: &xt, labels: train.1, row_weights: &vec![1.0; train.1.len()], outputs, prior: &prior };
    let mut w = p.start();
    let feat = t0.elapsed().as_secs_f64();
    let mut evals = vec![];
    for &c in &k.grid {
        let t = Instant::now();
        let out = p.fit(&mut w, c, &Stop { tolerance: k.tolerance, newton_steps: 100, is_cancelled: &|| false });
        let score = |x: &Sparse, y: &[u32]| {
            let mut s = vec![0.0; x.rows() * outputs];
            let (wt, b) = w.split_at(x.columns * outputs);
            s.chunks_exact_mut(outputs).for_each(|r| r.copy_from_slice(b));
            x.multiply_add(wt, outputs, &mut s);
            let mut ok = 0.0; let mut ll = 0.0;
            for (r, &l) in s.chunks_exact(outputs).zip(y) {
                ll += negative_log_likelihood(r, l);
                let pred = if outputs == 1 { (r[0] > 0.0) as usize } else { (0..outputs).fold(0, |b, i| if r[i] > r[b] { i } else { b }) };
                if pred == l as usize { ok += 1.0; }
            }
            (ok / y.len() as f64 * 100.0, ll / y.len() as f64)
        };
        let seconds = t.elapsed().as_secs_f64();
        evals.push(Eval { c, valid: score(&xv, valid.1), test: score(&xs, test.1), out, seconds });
    }
    (vocab.len(), feat, evals)
}
