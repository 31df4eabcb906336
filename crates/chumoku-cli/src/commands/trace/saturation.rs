//! Implements `chumoku trace --saturation`: softmax with and without the scale 1/√d_k.

use super::write_figure;
use crate::ExitCode;
use crate::args::{TraceArgs, TraceFormat};
use chumoku_view::{SATURATION_WIDTHS, Saturation, SoftmaxState};
use serde_json::json;

/// The seed of the queries and keys.
const SEED: u64 = 1;

pub(super) fn run(args: &TraceArgs) -> anyhow::Result<ExitCode> {
    refuse_if!(
        !matches!(args.format(), TraceFormat::Text | TraceFormat::Html | TraceFormat::Json),
        "--format: expected text, html or json for the saturation of softmax; --svg also draws it",
        "--format: softmax の飽和の形式は text、html、json です。図は --svg で書き出せます"
    );
    let found = Saturation::measure(SEED);
    let json = || {
        let state =
            |SoftmaxState { largest, jacobian }: SoftmaxState| json!({ "largest": largest, "jacobian": jacobian });
        let widths = SATURATION_WIDTHS.iter().zip(&found.states);
        let rows = widths
            .map(|(d_k, [plain, scaled])| json!({ "d_k": d_k, "plain": state(*plain), "scaled": state(*scaled) }));
        anyhow::Ok(json!({ "widths": rows.collect::<Vec<_>>() }))
    };
    write_figure(args, |lang| found.figure(lang), json)
}
