//! Compares the estimated work of a run with the multiply–adds that the kernels count. The counter is global to the
//! process, so the check runs in its own.

use chumoku::nn::{BackboneKind, PositionKind};
use chumoku::row::AsRow;
use chumoku::train::{Rows, TrainEvent, Training, TrainingData, train};
use chumoku::{RecurrentCell, builtin};

/// Built-in reviews, each repeated `copies` times. Without test rows there is no cross-validation, so there is one run.
fn reviews(rows: usize, copies: usize) -> TrainingData {
    let data = builtin::reviews();
    let part = |part: &Rows, rows: usize| {
        let texts = part.texts.iter().map(|row| format!("{} ", row.as_row().text()).repeat(copies).into());
        Rows {
            texts: texts.take(rows).collect(),
            labels: part.labels.iter().copied().take(rows).collect(),
            weights: None,
        }
    };
    TrainingData { train: part(&data.train, rows), valid: part(&data.valid, 20), test: Rows::default(), ..data }
}

#[test]
fn the_work_of_a_run_is_estimated() {
    testkit::in_own_process("estimate::the_work_of_a_run_is_estimated", check_runs);
}

fn check_runs() {
    for (name, data, network) in [
        ("short rows", reviews(300, 1), BackboneKind::Transformer),
        ("rows of many windows", reviews(20, 120), BackboneKind::Transformer),
        ("recurrent", reviews(200, 1), BackboneKind::Recurrent(RecurrentCell::Gru)),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let position = if network == BackboneKind::Transformer { PositionKind::Sinusoidal } else { PositionKind::None };
        let (mut foretold, before) = (None, chumoku_kernels::multiply_adds());
        let mut observe = |event: TrainEvent<'_>| {
            if let TrainEvent::Estimated { multiply_adds, .. } = event {
                assert!(foretold.is_none(), "reported twice");
                foretold = multiply_adds;
            }
        };
        let mut training = Training::new(folder.path());
        training.options.epochs = Some(2);
        training.options.network = network;
        training.options.position = position;
        training.observe = Box::new(&mut observe);
        train(&data, training).unwrap();
        let counted = (chumoku_kernels::multiply_adds() - before) as f64;
        let ratio = foretold.expect("the work is estimated") as f64 / counted;
        assert!((1.0 / 1.5..1.5).contains(&ratio), "{name}: the estimate is {ratio:.2} of the counted work");
    }
}
