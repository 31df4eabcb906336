//! Implements `chumoku export`: a classifier's network as an ONNX file.

use crate::ExitCode;
use crate::args::ExportArgs;
use crate::models::load;
use chumoku::onnx::{EXPORT_INPUTS, EXPORT_OUTPUTS, OPSET, export_classifier};
use chumoku::{ModelKind, tr};
use serde_json::json;
use std::io::{Write, stdout};

pub(crate) fn run(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    if ModelKind::from_folder(&args.model)? == ModelKind::Ngrams {
        let folder = args.model.display();
        refuse!(
            "{folder}: expected a classifier with a network, found an n-gram model, which ONNX operators cannot compute from text; \
             train one with --model transformer",
            "{folder}: ネットワークのある分類モデルが必要ですが、n-gram だけのモデルです（テキストからの計算は ONNX の演算子では\
             できません）。--model transformer で学習してください"
        );
    }
    let model = load::classifier(&args.model, None)?;
    let exported = export_classifier(model)?;
    args.out.write(&exported.bytes)?;
    let (out, classes) = (args.out.display(), model.labels().len());
    let megabytes = exported.bytes.len() as f64 / 1e6;
    say!(
        "{}",
        tr!(
            "wrote     {out}: {megabytes:.1} MB, ONNX with operators of version {OPSET}",
            "書き出し  {out}: {megabytes:.1} MB、ONNX（演算子のバージョン {OPSET}）"
        )
    );
    let (inputs, outputs) = (EXPORT_INPUTS.join(", "), EXPORT_OUTPUTS.join(", "));
    say!(
        "{}",
        tr!(
            "network   {inputs} (batch, sequence) → {outputs} (batch, {classes}); tokens are those of tokenizer.json",
            "ネット    {inputs}（バッチ, 系列）→ {outputs}（バッチ, {classes}）。トークンは tokenizer.json のもの"
        )
    );
    if exported.lacks_ngrams {
        say!(
            "{}",
            tr!(
                "left out  the n-gram model, which ONNX operators cannot compute from text: the file has the network alone, \
                 and its probabilities are not those of `chumoku predict`",
                "対象外    n-gram モデル（テキストからの計算は ONNX の演算子ではできません）。ファイルにあるのはネットワークだけで、\
                 確率は `chumoku predict` と異なります"
            )
        );
    }
    if !model.config().columns().is_empty() {
        say!(
            "{}",
            tr!(
                "left out  the feature columns, which the n-gram model reads",
                "対象外    テキスト以外の列（n-gram モデルが読むもの）"
            )
        );
    }
    if args.json {
        let metadata: serde_json::Map<String, serde_json::Value> =
            exported.metadata.into_iter().map(|(key, value)| (key, value.into())).collect();
        let about = json!({
            "file": args.out.as_path(), "bytes": exported.bytes.len(), "opset": OPSET, "inputs": EXPORT_INPUTS,
            "outputs": EXPORT_OUTPUTS, "lacks_ngrams": exported.lacks_ngrams, "metadata": metadata,
        });
        writeln!(stdout(), "{about}")?;
    }
    Ok(ExitCode::SUCCESS)
}
