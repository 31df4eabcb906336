use chumoku::data::*;
use chumoku::train::*;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
fn main() {
    let name = std::env::args().nth(1).unwrap();
    let seed: u64 = std::env::args().nth(2).map_or(1, |s| s.parse().unwrap());
    let d = Path::new("/work/shared/data").join(&name);
    let f = |n: &str| {
        let p = d.join(n);
        p.exists().then(|| load_labelled(&p, &ReadOptions { require_label: true, ..Default::default() }).unwrap())
    };
    let pick = |stem: &str| ["tsv", "csv", "txt", "jsonl.gz"].iter().find_map(|e| f(&format!("{stem}.{e}")));
    let (tr, dev, te) = (pick("train").unwrap(), pick("dev"), pick("test"));
    let data = TrainingData::new(&tr, dev.as_ref(), te.as_ref()).unwrap();
    rayon::ThreadPoolBuilder::new()
        .num_threads(std::env::var("T").map_or(2, |t| t.parse().unwrap()))
        .build_global()
        .unwrap();
    let out = tempfile::tempdir().unwrap();
    let t = Instant::now();
    let verbose = std::env::var("V").is_ok();
    let mut tps = 0.0;
    let o =
        train(
            &data,
            &TrainOptions { seed, ..Default::default() },
            out.path(),
            &AtomicBool::new(false),
            &mut |e| match e {
                Event::Step { tokens_per_second, .. } => tps = tokens_per_second,
                Event::Ready { parameters, steps, tokens, expected, plan, .. } if verbose => println!(
                    "params {parameters} steps {steps} tokens {tokens:?} expected {expected:?} batch {} epochs {}",
                    plan.batch_tokens, plan.epochs
                ),
                Event::Evaluated { epoch, loss, accuracy, macro_f1, is_best } if verbose => println!(
                    "  epoch {epoch} loss {loss:.4} acc {:.2} f1 {:.2} {}  {:.0}s",
                    100. * accuracy,
                    100. * macro_f1,
                    if is_best { "*" } else { "" },
                    t.elapsed().as_secs_f64()
                ),
                Event::Note(n) => println!("{n}"),
                Event::Baseline { seconds, features, valid } if verbose => {
                    println!("ngrams {seconds:.1}s {features} {valid:?}")
                }
                _ => {}
            },
        )
        .unwrap();
    println!(
        "{name} seed {seed} [{}]: TEST whole {:.2} attention {:.2} ngrams {:.2} majority {:.2} | f1 {:.2} att {:.2} ng {:.2} | best epoch {:?} blend {:?} | {:.0} s, {:.0} tok/s",
        std::env::var("TRIAL").unwrap_or_default(),
        100. * o.test.accuracy,
        100. * o.parts[0].accuracy,
        100. * o.parts[1].accuracy,
        100. * o.parts[2].accuracy,
        100. * o.test.macro_f1,
        100. * o.parts[0].macro_f1,
        100. * o.parts[1].macro_f1,
        o.best.map(|b| (b.epoch, b.macro_f1)),
        o.model.config().blend,
        t.elapsed().as_secs_f64(),
        tps
    );
}
