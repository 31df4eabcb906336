//! Implements `chumoku join`: joins shards into one output.

use crate::answers::shard::ShardFile;
use crate::args::{JoinArgs, Shard};
use crate::progress::{pluralize, print_status};
use crate::{ExitCode, UsageError, output};
use chumoku::data::DataError;
use chumoku::lang::wording::join_names;
use chumoku::{sorting, tr};
use std::io::{BufWriter, Write, stdout};

pub(crate) fn run(args: &JoinArgs) -> anyhow::Result<ExitCode> {
    let mut shards = args.shards.iter().map(|path| ShardFile::open(path)).collect::<anyhow::Result<Vec<_>>>()?;
    sorting::sort_by_key(&mut shards, |shard| shard.header.shard.index);
    check_complete(&shards)?;
    check_same_run(&shards)?;
    let (n, rows) = (shards.len(), shards[0].footer.rows);
    match output::output_file(&args.out) {
        Some(path) => {
            let mut out = path.open()?;
            write_rows(shards, &mut out)?;
            out.commit()?;
        }
        None => {
            let mut out = BufWriter::new(stdout().lock());
            write_rows(shards, &mut out)?;
            out.flush().map_err(|source| DataError::Write { source })?;
        }
    }
    let (shards, counted) = (pluralize(n, "shard"), pluralize(rows as usize, "row"));
    print_status(["joined", "結合"], &tr!("{shards}, {counted}", "{n} 個の分割、{rows} 行"));
    Ok(ExitCode::SUCCESS)
}

/// Writes the header, then a row of each shard in turn.
fn write_rows(mut shards: Vec<ShardFile>, out: &mut impl Write) -> anyhow::Result<()> {
    let (rows, n) = (shards[0].footer.rows, shards.len() as u64);
    out.write_all(shards[0].header.head.as_bytes()).map_err(|source| DataError::Write { source })?;
    for row in 0..rows {
        shards[(row % n) as usize].copy_row(out)?;
    }
    shards.into_iter().try_for_each(ShardFile::check_rows)
}

/// Checks that every shard is present exactly once.
fn check_complete(shards: &[ShardFile]) -> anyhow::Result<()> {
    let of = shards[0].header.shard.count;
    if let Some(other) = shards.iter().find(|other| other.header.shard.count != of) {
        refuse!(
            "{} is shard {}, {} is shard {}: expected shards of one run, which have the same N",
            "{} は分割 {}、{} は分割 {} です。1 回の実行の分割は、全体の個数が同じでなければなりません",
            shards[0].path.display(),
            shards[0].header.shard,
            other.path.display(),
            other.header.shard
        );
    }
    let mut problems = Vec::new();
    let missing = (1..=of).map(|at| Shard { index: at, count: of });
    let missing = missing.filter(|number| shards.iter().all(|shard| shard.header.shard != *number));
    let missing: Vec<String> = missing.map(|shard| shard.to_string()).collect();
    if let [first, ..] = missing.as_slice() {
        // A few names are enough.
        let named = join_names(&missing[..missing.len().min(12)]);
        let more = missing.len().saturating_sub(12);
        problems.push(match more {
            0 => tr!(
                "missing: {named}; run `chumoku predict … --shard {first}` and add its output",
                "足りない分割: {named}。`chumoku predict … --shard {first}` を実行し、その出力を加えてください"
            ),
            _ => tr!(
                "missing: {named} and {more} more; run `chumoku predict … --shard {first}` and add its output",
                "足りない分割: {named} ほか {more} 個。`chumoku predict … --shard {first}` を実行し、その出力を加えてください"
            ),
        });
    }
    for two in shards.windows(2).filter(|two| two[0].header.shard == two[1].header.shard) {
        let (shard, first, second) = (two[0].header.shard, two[0].path.display(), two[1].path.display());
        problems.push(tr!(
            "duplicate: {shard}, in {first} and {second}; leave one of them out",
            "重複した分割: {shard}（{first} と {second}）。どちらかを外してください"
        ));
    }
    match problems.is_empty() {
        true => Ok(()),
        false => {
            let message = problems.join("; ");
            Err(UsageError(tr!(
                "expected each of the {of} shards once: {message}",
                "{of} 個の分割が 1 つずつ必要です: {message}"
            ))
            .into())
        }
    }
}

/// Checks that all shards belong to one run.
fn check_same_run(shards: &[ShardFile]) -> anyhow::Result<()> {
    let first = &shards[0];
    for other in &shards[1..] {
        let (a, b) = (&first.header.run, &other.header.run);
        let flags = |flags: &str| match flags.is_empty() {
            true => tr!("none", "なし"),
            false => flags.to_owned(),
        };
        let differs = [
            (a.version != b.version, tr!("version {} and {}", "版が {} と {}", a.version, b.version)),
            (a.model != b.model, tr!("the model folders differ", "モデルのフォルダが異なります")),
            (a.flags != b.flags, tr!("flags: {} and {}", "オプションが {} と {}", flags(&a.flags), flags(&b.flags))),
            (a.lang != b.lang, tr!("language {} and {}", "言語が {} と {}", a.lang, b.lang)),
            (
                first.footer.rows != other.footer.rows,
                tr!("they read {} and {} rows", "読んだ行数が {} と {}", first.footer.rows, other.footer.rows),
            ),
            (
                first.footer.input_hash != other.footer.input_hash || first.header.head != other.header.head,
                tr!("their input rows differ", "読んだ行の内容が異なります"),
            ),
        ];
        if let Some((_, how)) = differs.into_iter().find(|(differs, _)| *differs) {
            let (first, other, shard) = (first.path.display(), other.path.display(), other.header.shard);
            refuse!(
                "{first} and {other} are from different runs: {how}; run `--shard {shard}` again with the same model, data and flags",
                "{first} と {other} は同じ実行のものではありません: {how}。同じモデル、データ、オプションで `--shard {shard}` をもう一度実行してください"
            );
        }
    }
    Ok(())
}
