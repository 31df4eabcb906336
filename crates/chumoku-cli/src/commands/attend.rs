//! Implements `chumoku attend`: ONNX's operator Attention on the tensors of a file.

use crate::ExitCode;
use crate::args::AttendArgs;
use crate::output::{OutputPath, inputs};
use crate::threads;
use anyhow::Context;
use chumoku::onnx::{Attributes, attend};
use chumoku::tensors::{TensorFile, TensorFormat};
use chumoku::tr;

pub(crate) fn run(args: &AttendArgs) -> anyhow::Result<ExitCode> {
    threads::start_pool(args.threads)?;
    // Checks the output file before the work.
    let output = args.output.as_ref().map(OutputPath::as_path);
    let format = output.map(TensorFormat::from_path).transpose().map_err(chumoku::Error::from)?;
    let mut flags = Attributes::default();
    flags.is_causal = args.is_causal;
    flags.scale = args.scale;
    flags.softcap = args.softcap;
    flags.q_num_heads = args.q_num_heads;
    flags.kv_num_heads = args.kv_num_heads;
    flags.qk_matmul_output_mode = args.qk_matmul_output_mode;
    flags.left_window_size = args.left_window_size;
    flags.right_window_size = args.right_window_size;
    flags.softmax_precision = args.softmax_precision;
    let file = TensorFile::read(&args.input).map_err(chumoku::Error::from)?;
    if let (Some(format), Some(path)) = (format, output) {
        // Y has the type of Q.
        for query in ["Q", "in.Q"].iter().filter_map(|name| file.tensors.get(*name)) {
            format.check_type(path, "Y", query).map_err(chumoku::Error::from)?;
        }
    }
    let outputs = attend(&file, &flags).with_context(|| format!("{}", args.input.display()))?;
    for (name, tensor) in &outputs.tensors {
        say!("{name:<17} {}", tensor.summary());
    }
    match output {
        Some(path) => {
            outputs.write(path, &inputs()).map_err(chumoku::Error::from)?;
            say!("{}", tr!("wrote {}", "{} を書き出しました", path.display()));
        }
        None => say!(
            "{}",
            tr!(
                "no output file: name one with -o, such as -o out.safetensors",
                "何も書き出していません。-o でファイルを指定してください（例: -o out.safetensors）"
            )
        ),
    }
    Ok(ExitCode::SUCCESS)
}
