//! Invalid arguments are rejected with an error that names them, and nothing panics.

use chumoku_kernels::*;
use std::fmt::Debug;

/// Checks that `result` is an error about `argument`.
#[track_caller]
fn refused<T: Debug>(result: Result<T>, argument: &str) {
    let error = result.expect_err(argument);
    let (Error::Length { what, .. } | Error::Shape { what, .. } | Error::Value { what, .. }) = &error else {
        panic!("{error}: expected an error that names an argument")
    };
    assert_eq!(*what, argument, "{error}");
    assert!(error.to_string().starts_with(argument) && error.to_string().contains("expected"), "{error}");
}

/// Enough values for every view in this file.
const NUMBERS: [f32; 4096] = [0.5; 4096];

fn view(shape: [usize; 4]) -> Heads<'static, f32> {
    Heads::bhld(&NUMBERS, shape).unwrap()
}

/// Two sequences of 3 queries and 5 keys, 4 heads over 2, widths 6 and 7.
fn attention() -> Attention<'static, f32> {
    Attention::new(view([2, 4, 3, 6]), view([2, 2, 5, 6]), view([2, 2, 5, 7]))
}

/// Runs the forward pass with an output of the right shape.
fn forward(args: Attention<'_, f32>) -> Result<()> {
    args.forward(HeadsMut::bhld(&mut [0.0; 2 * 4 * 3 * 7], [2, 4, 3, 7]).unwrap())
}

/// Runs the backward pass with arguments of the right shapes.
fn backward(args: Attention<'_, f32>) -> Result<()> {
    backward_with(args, |_, _| {})
}

/// Runs the backward pass after `change` has modified its inputs or outputs.
fn backward_with(
    args: Attention<'_, f32>,
    change: impl for<'a> FnOnce(&mut BackwardInputs<'a, f32>, &mut Gradients<'a, f32>),
) -> Result<()> {
    let [mut a, mut b, mut c] = [144, 120, 140].map(|len| vec![0.0f32; len]);
    let mut saved = BackwardInputs {
        output: view([2, 4, 3, 7]),
        log_sum_exp: &NUMBERS[..24],
        d_output: view([2, 4, 3, 7]),
        d_log_sum_exp: None,
    };
    let mut gradients = Gradients {
        query: HeadsMut::bhld(&mut a, [2, 4, 3, 6]).unwrap(),
        key: HeadsMut::bhld(&mut b, [2, 2, 5, 6]).unwrap(),
        value: HeadsMut::bhld(&mut c, [2, 2, 5, 7]).unwrap(),
        mask: None,
        sinks: None,
    };
    change(&mut saved, &mut gradients);
    args.backward(saved, gradients)
}

/// Checks that both passes return an error.
#[track_caller]
fn both_refuse(args: Attention<'_, f32>, argument: &str) {
    refused(forward(args), argument);
    refused(backward(args), argument);
}

#[test]
fn valid_arguments_are_accepted() {
    forward(attention()).unwrap();
    backward(attention()).unwrap();
}

#[test]
fn shapes_of_queries_keys_and_values_must_match() {
    let make = |query, key, value| Attention::new(view(query), view(key), view(value));
    let (query, key, value) = ([2, 4, 3, 6], [2, 2, 5, 6], [2, 2, 5, 7]);
    both_refuse(make(query, [2, 2, 5, 5], value), "attention: key");
    both_refuse(make(query, [2, 3, 5, 6], [2, 3, 5, 7]), "attention: key");
    both_refuse(make(query, [2, 8, 5, 6], [2, 8, 5, 7]), "attention: key");
    both_refuse(make(query, [1, 2, 5, 6], [1, 2, 5, 7]), "attention: key");
    both_refuse(make(query, [3, 2, 5, 6], [3, 2, 5, 7]), "attention: key");
    both_refuse(make(query, key, [2, 2, 4, 7]), "attention: value");
    both_refuse(make(query, key, [2, 1, 5, 7]), "attention: value");
    both_refuse(make(query, key, [1, 2, 5, 7]), "attention: value");
    let packed = |offsets, heads, dim| Heads::packed(&NUMBERS, offsets, heads, dim, heads * dim).unwrap();
    let args = Attention::new(view(query), packed(&[0, 5], 2, 6), packed(&[0, 5], 2, 7));
    both_refuse(args, "attention: key");
    let args = Attention::new(view(query), packed(&[0, 5, 9], 2, 6), packed(&[0, 4, 9], 2, 7));
    both_refuse(args, "attention: value");
}

#[test]
fn options_must_be_in_range() {
    for scale in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        both_refuse(attention().scale(scale), "attention: scale");
    }
    for cap in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        both_refuse(attention().softcap(cap), "attention: softcap");
    }
    for rate in [-0.1, 1.0, 1.5, f32::NAN] {
        let random = Philox::new(1, 2);
        both_refuse(attention().dropout(AttentionDropout { rate, random }), "attention: dropout rate");
    }
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        both_refuse(attention().alibi(&[0.5, 0.5, bad, 0.5]), "attention: alibi");
        both_refuse(attention().sinks(&[0.5, 0.5, 0.5, bad]), "attention: sinks");
    }
}

#[test]
fn slopes_sinks_and_lengths_must_match_heads_and_sequences() {
    for len in [0, 2, 3, 5] {
        both_refuse(attention().alibi(&NUMBERS[..len]), "attention: alibi");
        both_refuse(attention().sinks(&NUMBERS[..len]), "attention: sinks");
    }
    for lengths in [&[][..], &[5], &[5, 5, 5], &[5, 6], &[usize::MAX, 1]] {
        both_refuse(attention().key_lengths(lengths), "attention: key_lengths");
    }
}

#[test]
fn masks_must_broadcast() {
    let allowed = [true; 4096];
    for shape in [
        &[4][..],
        &[6],
        &[0],
        &[2, 5],
        &[4, 5],
        &[5, 3],
        &[2, 3, 5],
        &[8, 3, 5],
        &[3, 4, 3, 5],
        &[2, 2, 3, 5],
        &[2, 4, 3, 10],
    ] {
        let size = shape.iter().product();
        let mask = MaskView::new(&allowed[..size], shape).unwrap();
        both_refuse(attention().mask(Mask::Boolean(mask)), "attention: mask");
        let mask = MaskView::new(&NUMBERS[..size], shape).unwrap();
        both_refuse(attention().mask(Mask::Additive(mask)), "attention: mask");
    }
    for shape in [&[][..], &[5], &[3, 1], &[4, 3, 5], &[1, 4, 3, 5], &[2, 1, 1, 5], &[2, 4, 3, 5]] {
        let size = shape.iter().product();
        forward(attention().mask(Mask::Boolean(MaskView::new(&allowed[..size], shape).unwrap()))).unwrap();
    }
    // Views without sequences still have lengths.
    let none = Attention::new(view([0, 4, 3, 6]), view([0, 2, 5, 6]), view([0, 2, 5, 7]));
    for (shape, fits) in [
        (&[0, 4, 3, 5][..], true),
        (&[1, 4, 3, 5], true),
        (&[3, 5], true),
        (&[5], true),
        (&[3, 6], false),
        (&[0, 5], false),
        (&[0, 4, 0, 0], false),
    ] {
        let mask = MaskView::new(&NUMBERS[..shape.iter().product()], shape).unwrap();
        let args = none.mask(Mask::Additive(mask));
        let result = args.forward(HeadsMut::bhld(&mut [], [0, 4, 3, 7]).unwrap());
        if fits { result.unwrap() } else { refused(result, "attention: mask") }
    }
    // Packed sequences read a corner of a mask, which must cover the longest.
    let packed = |offsets, heads, dim| Heads::packed(&NUMBERS, offsets, heads, dim, heads * dim).unwrap();
    let args = Attention::new(packed(&[0, 2, 5], 1, 4), packed(&[0, 6, 7], 1, 4), packed(&[0, 6, 7], 1, 4));
    for (shape, fits) in [([3, 6], true), ([9, 9], true), ([2, 6], false), ([3, 5], false)] {
        let mask = Mask::Boolean(MaskView::new(&allowed[..shape[0] * shape[1]], &shape).unwrap());
        let mut output = [0.0; 20];
        let result = args.mask(mask).forward(HeadsMut::packed(&mut output, &[0, 2, 5], 1, 4, 4).unwrap());
        if fits { result.unwrap() } else { refused(result, "attention: mask") }
    }
}

#[test]
fn masks_must_be_in_bounds() {
    let huge = usize::MAX;
    refused(MaskView::new(&NUMBERS, &[1, 1, 1, 1, 4096]), "attention: mask");
    refused(MaskView::new(&NUMBERS[..14], &[3, 5]), "attention: mask");
    refused(MaskView::new(&NUMBERS[..16], &[3, 5]), "attention: mask");
    refused(MaskView::new(&NUMBERS[..0], &[]), "attention: mask");
    refused(MaskView::new(&NUMBERS, &[huge, huge]), "attention: mask");
    refused(MaskView::new(&NUMBERS[..0], &[huge, 2, huge, 2]), "attention: mask");
    refused(MaskView::strided(&NUMBERS, &[3, 5], &[5]), "attention: mask");
    refused(MaskView::strided(&NUMBERS, &[1; 5], &[0; 5]), "attention: mask");
    refused(MaskView::strided(&NUMBERS[..14], &[3, 5], &[5, 1]), "attention: mask");
    refused(MaskView::strided(&NUMBERS[..14], &[3, 5], &[0, 4]), "attention: mask");
    refused(MaskView::strided(&NUMBERS, &[3, 5], &[huge, 1]), "attention: mask");
    refused(MaskView::strided(&NUMBERS, &[3, 5], &[huge / 2, huge / 4]), "attention: mask");
    MaskView::strided(&NUMBERS[..13], &[3, 5], &[0, 3]).unwrap();
    MaskView::strided(&NUMBERS[..0], &[3, 0], &[huge, huge]).unwrap();
}

#[test]
fn views_must_be_in_bounds() {
    let (read, written, huge) = ("attention: view", "attention: view to write", usize::MAX);
    for (len, shape, strides) in [
        (119, [2, 3, 4, 5], [60, 20, 5]),
        (4096, [2, 0, 4, 5], [60, 20, 5]),
        (4096, [2, 3, 4, 0], [60, 20, 5]),
        (4096, [huge, 3, 4, 5], [60, 20, 5]),
        (4096, [2, huge, 4, 5], [60, 20, 5]),
        (4096, [2, 3, huge, 5], [60, 20, 5]),
        (4096, [1, 1, 1, huge], [60, 20, 5]),
        (4096, [2, 3, 4, 5], [huge, 20, 5]),
        (4096, [2, 3, 4, 5], [60, huge / 2 + 1, 5]),
        (4096, [2, 3, 4, 5], [60, 20, huge / 3]),
        (4096, [2, 2, 2, 5], [huge / 3, huge / 3, huge / 3]),
        (0, [1, 1, 1, 1], [1, 1, 1]),
    ] {
        let mut numbers = NUMBERS;
        refused(Heads::strided(&NUMBERS[..len], shape, strides), read);
        refused(HeadsMut::strided(&mut numbers[..len], shape, strides), written);
    }
    for shape in [[huge, huge, huge, huge], [huge, 1, 2, 1], [1, huge, 2, 2], [1, 2, huge, 2], [2, 2, 2, huge]] {
        let mut numbers = NUMBERS;
        refused(Heads::bhld(&NUMBERS, shape), read);
        refused(Heads::blhd(&NUMBERS, shape), read);
        refused(HeadsMut::bhld(&mut numbers, shape), written);
        refused(HeadsMut::blhd(&mut numbers, shape), written);
    }
    for (len, offsets, heads, dim, stride) in [
        (4096, &[][..], 2, 3, 6),
        (4096, &[1, 4], 2, 3, 6),
        (4096, &[0, 4, 3], 2, 3, 6),
        (23, &[0, 1, 4], 2, 3, 6),
        (4096, &[0, 4], 0, 3, 6),
        (4096, &[0, 4], 2, 0, 6),
        (4096, &[0, huge], 2, 3, 6),
        (4096, &[0, 4], 2, 3, huge),
        (4096, &[0, 4], huge, 3, 6),
    ] {
        let mut numbers = NUMBERS;
        refused(Heads::packed(&NUMBERS[..len], offsets, heads, dim, stride), read);
        refused(HeadsMut::packed(&mut numbers[..len], offsets, heads, dim, stride), written);
    }
    // No gap needs to follow the last row.
    Heads::strided(&NUMBERS[..6 * 20 + 3 * 7 + 5], [2, 2, 4, 5], [6 * 20 - 40, 40, 7]).unwrap();
}

#[test]
fn writable_rows_must_not_overlap() {
    let written = "attention: view to write";
    let mut numbers = NUMBERS;
    for (shape, strides) in [
        ([1, 1, 4, 5], [0, 0, 4]),
        ([1, 2, 4, 5], [0, 19, 5]),
        ([2, 1, 4, 5], [0, 0, 5]),
        ([2, 2, 4, 5], [40, 5, 9]),
        ([2, 3, 4, 5], [59, 20, 5]),
    ] {
        Heads::strided(&NUMBERS, shape, strides).unwrap();
        refused(HeadsMut::strided(&mut numbers, shape, strides), written);
    }
    refused(HeadsMut::packed(&mut numbers, &[0, 3], 2, 3, 5), written);
    // Heads between the rows, and rows between the heads.
    HeadsMut::strided(&mut numbers, [2, 2, 4, 5], [40, 5, 10]).unwrap();
    HeadsMut::strided(&mut numbers, [2, 2, 4, 5], [40, 20, 5]).unwrap();
}

#[test]
fn result_buffers_must_match() {
    let mut numbers = NUMBERS;
    for shape in [[1, 4, 3, 7], [2, 2, 3, 7], [2, 4, 4, 7], [2, 4, 3, 6]] {
        refused(attention().forward(HeadsMut::bhld(&mut numbers, shape).unwrap()), "attention: output");
        let saved = |output: bool| {
            backward_with(attention(), |saved, _| {
                *(if output { &mut saved.output } else { &mut saved.d_output }) = view(shape);
            })
        };
        refused(saved(true), "attention: output");
        refused(saved(false), "attention: d_output");
    }
    for len in [0, 23, 25] {
        let output = HeadsMut::bhld(&mut numbers, [2, 4, 3, 7]).unwrap();
        refused(attention().forward_with_log_sum_exp(output, &mut vec![0.0; len]), "attention: log_sum_exp");
        let wrong = &NUMBERS[..len];
        refused(backward_with(attention(), |saved, _| saved.log_sum_exp = wrong), "attention: log_sum_exp");
        refused(backward_with(attention(), |saved, _| saved.d_log_sum_exp = Some(wrong)), "attention: d_log_sum_exp");
    }
    assert_eq!(attention().rows(), 24);
    fn leaked(shape: [usize; 4]) -> HeadsMut<'static, f32> {
        HeadsMut::bhld(Vec::leak(vec![0.0; 4096]), shape).unwrap()
    }
    for shape in [[1, 4, 3, 6], [2, 2, 3, 6], [2, 4, 5, 6], [2, 4, 3, 7]] {
        refused(backward_with(attention(), |_, d| d.query = leaked(shape)), "attention: d_query");
    }
    for shape in [[1, 2, 5, 6], [2, 4, 5, 6], [2, 2, 3, 6], [2, 2, 5, 7]] {
        refused(backward_with(attention(), |_, d| d.key = leaked(shape)), "attention: d_key");
    }
    for shape in [[1, 2, 5, 7], [2, 4, 5, 7], [2, 2, 3, 7], [2, 2, 5, 6]] {
        refused(backward_with(attention(), |_, d| d.value = leaked(shape)), "attention: d_value");
    }
}

#[test]
fn mask_and_sink_gradients_require_masks_and_sinks() {
    let leaked = |len: usize| Some(Vec::leak(vec![0.0f32; len]));
    let mask = |args, len| backward_with(args, |_, d| d.mask = leaked(len));
    let sinks = |args, len| backward_with(args, |_, d| d.sinks = leaked(len));
    refused(mask(attention(), 15), "attention: d_mask");
    let boolean = Mask::Boolean(MaskView::new(&[true; 15], &[3, 5]).unwrap());
    refused(mask(attention().mask(boolean), 15), "attention: d_mask");
    let additive = attention().mask(Mask::Additive(MaskView::new(&NUMBERS[..15], &[3, 5]).unwrap()));
    refused(mask(additive, 14), "attention: d_mask");
    mask(additive, 15).unwrap();
    // Without sequences the gradient of a mask is 0, for any lengths of the views.
    let many = usize::MAX / 2;
    for (rows, keys, strides) in [(3, 5, [0, 0, 5, 1]), (many, 0, [0, 0, 1, 1])] {
        let views = [[0, 1, rows, 6], [0, 1, keys, 6], [0, 1, keys, 7], [0, 1, rows, 7]];
        let [query, key, value, output] = views.map(|shape| Heads::strided(&NUMBERS, shape, [0; 3]).unwrap());
        let entries = MaskView::strided(&NUMBERS, &[1, 1, rows, keys], &strides).unwrap();
        let mut d_mask = vec![f32::NAN; rows * keys];
        let empty = |shape: [usize; 4]| HeadsMut::strided(&mut [], shape, [0; 3]).unwrap();
        let gradients = Gradients {
            query: empty([0, 1, rows, 6]),
            key: empty([0, 1, keys, 6]),
            value: empty([0, 1, keys, 7]),
            mask: Some(&mut d_mask),
            sinks: None,
        };
        let saved = BackwardInputs { output, log_sum_exp: &[], d_output: output, d_log_sum_exp: None };
        Attention::new(query, key, value).mask(Mask::Additive(entries)).backward(saved, gradients).unwrap();
        assert_eq!(d_mask, vec![0.0; rows * keys]);
    }
    refused(sinks(attention(), 4), "attention: d_sinks");
    refused(sinks(attention().sinks(&[0.0; 4]), 3), "attention: d_sinks");
    sinks(attention().sinks(&[0.0; 4]), 4).unwrap();
}

#[test]
fn overflowing_sizes_are_rejected() {
    // One row of values viewed as more rows than fit in usize.
    let many = |shape| Heads::strided(&NUMBERS, shape, [0, 0, 0]).unwrap();
    let half = usize::MAX / 2;
    let args = Attention::new(many([half, 4, 2, 6]), many([half, 2, 5, 6]), many([half, 2, 5, 7]));
    refused(forward(args), "attention: query");
    let args = Attention::new(many([1, 4, half, 6]), many([1, 2, 5, 6]), many([1, 2, 5, 7]));
    refused(forward(args), "attention: query");
    refused(args.weights(0, 0), "attention: query");
}

#[test]
fn weights_require_an_existing_sequence_and_head() {
    attention().weights(1, 3).unwrap();
    refused(attention().weights(2, 0), "attention: sequence and head");
    refused(attention().weights(0, 4), "attention: sequence and head");
    refused(attention().scale(f64::NAN).weights(0, 0), "attention: scale");
}
