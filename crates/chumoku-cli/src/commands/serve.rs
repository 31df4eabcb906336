//! Implements `chumoku serve`: models as a service over HTTP.

use crate::args::ServeArgs;
use crate::models::model_name;
use crate::{ExitCode, UsageError, threads};
use chumoku::tr;
use chumoku_server::{Limits, ServeError, ServeOptions, serve};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Environment variable of the API key. It is not a flag, because other users of the machine can see flags.
const KEY_VARIABLE: &str = "CHUMOKU_API_KEY";

pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    threads::start_pool(args.threads)?;
    let mut limits = Limits::default();
    limits.body = args.max_body;
    limits.texts = args.max_texts;
    limits.characters = args.max_chars;
    limits.new_tokens = args.max_new_tokens;
    limits.answer = args.max_answer;
    limits.held = args.max_held;
    limits.explain = args.max_explain as u64;
    limits.connections = args.max_connections;
    limits.queue = args.queue;
    limits.batch_texts = args.batch_texts;
    limits.gather = Duration::from_millis(args.gather);
    limits.read = args.read_timeout;
    limits.wait = args.wait_timeout;
    limits.compute = args.compute_timeout;
    limits.drain = args.drain_timeout;
    let mut options = ServeOptions::default();
    options.host.clone_from(&args.host);
    options.port = args.port;
    options.key = api_key()?;
    options.no_key = args.no_key;
    options.log = args.log.into();
    options.limits = limits;
    match serve(args.models.iter().map(|given| name_and_folder(given)).collect(), options) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(ServeError::Usage(problem)) => Err(UsageError(problem).into()),
        Err(ServeError::Model(error)) => Err(error.into()),
        Err(error) => Err(error.into()),
    }
}

fn api_key() -> anyhow::Result<Option<String>> {
    let Some(key) = std::env::var_os(KEY_VARIABLE) else { return Ok(None) };
    match key.into_string() {
        Ok(key) if !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Some(key)),
        _ => {
            let problem = tr!(
                "{KEY_VARIABLE}: expected a key of printable ASCII characters without spaces; unset it to serve without one",
                "{KEY_VARIABLE}: 空白以外の印字可能な ASCII 文字のキーが必要です。キーを使わない場合は設定を外してください"
            );
            Err(UsageError(problem).into())
        }
    }
}

/// Splits NAME=FOLDER, or names a model after its folder.
fn name_and_folder(given: &Path) -> (String, PathBuf) {
    if let (Some((name, folder)), false) = (given.to_str().and_then(|text| text.split_once('=')), given.exists())
        && !name.is_empty()
        && !name.contains(std::path::is_separator)
    {
        return (name.to_owned(), folder.into());
    }
    (model_name(given), given.to_owned())
}
