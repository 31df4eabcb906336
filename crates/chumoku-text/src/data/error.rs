//! The error type for reading and writing data files, with source locations.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use super::io_errors::{is_disk_full, is_unwritable_path};
use crate::lang::wording::{format_count, format_size, quote};
use crate::lang::{Lang, action as doing_of, lang, system_message};
use crate::tr;

/// The environment variable that names the folder for temporary files.
const TEMP_VARIABLE: &str = if cfg!(windows) { "TMP" } else { "TMPDIR" };

/// A location in a file: `train.csv:17:4`, or `train.parquet, row 17`.
///
/// Lines and columns count from 1. A column counts characters, as in editors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLocation {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// The line, or the row if the format has no lines.
    pub line: u64,
    /// The character within the line, if known.
    pub column: Option<u64>,
    /// True if `line` counts rows, as in Parquet, Excel and JSON arrays.
    pub(crate) is_row: bool,
}

impl SourceLocation {
    /// Creates the location of a line in a text file.
    pub fn line(path: &Path, line: u64) -> Self {
        SourceLocation { path: path.to_owned(), line, column: None, is_row: false }
    }

    /// Creates the location of a row in a file without lines.
    pub fn row(path: &Path, row: u64) -> Self {
        SourceLocation { is_row: true, ..SourceLocation::line(path, row) }
    }

    /// Adds the character within the line.
    pub(crate) fn at_column(self, column: u64) -> Self {
        SourceLocation { column: Some(column), ..self }
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match (self.is_row, self.column) {
            (true, _) => f.write_str(&tr!("{path}, row {}", "{path} の {} 行目", self.line)),
            (false, Some(column)) => write!(f, "{path}:{}:{column}", self.line),
            (false, None) => write!(f, "{path}:{}", self.line),
        }
    }
}

/// Returns the message of a row error without its advice. The advice follows the last semicolon. In Japanese it is the
/// sentence before the one about `--skip-bad-rows`.
pub(crate) fn without_advice(message: &str) -> &str {
    let reason = match lang() {
        Lang::En => message.rsplit_once("; "),
        Lang::Ja => message.split_once("。--skip-bad-rows").and_then(|(before, _)| before.rsplit_once('。')),
    };
    reason.map_or(message, |(reason, _)| reason)
}

/// The role of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnRole {
    /// The text to classify.
    Text,
    /// The class it belongs to.
    Label,
    /// The text to translate.
    Source,
    /// Its translation.
    Target,
    /// A feature besides the text.
    Feature,
}

impl ColumnRole {
    /// The command line flag that names the column.
    pub(crate) fn flag(self) -> &'static str {
        match self {
            ColumnRole::Text | ColumnRole::Source => "--text",
            ColumnRole::Label | ColumnRole::Target => "--label",
            ColumnRole::Feature => "--columns",
        }
    }
}

impl fmt::Display for ColumnRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ColumnRole::Text => lang().pick("text", "テキスト"),
            ColumnRole::Label => lang().pick("label", "ラベル"),
            ColumnRole::Source => lang().pick("source", "原文"),
            ColumnRole::Target => lang().pick("target", "訳文"),
            ColumnRole::Feature => lang().pick("feature", "テキスト以外"),
        })
    }
}

/// Problems with a data file.
///
/// Each message is one line: the location, the action, what was expected, what was found, and what to do. Nearly all of
/// them are usage errors or unreadable input, so a command ends with status 2. A failure while writing is a runtime
/// error ([`DataError::is_usage`]).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what each variant and field is")]
pub enum DataError {
    // The file as a whole.
    #[error("{}", tr!("{}: opening the data: expected a file, found nothing of that name{hint}", "{}: データを開けません。その名前のファイルがありません{hint}", path.display()))]
    FileNotFound { path: PathBuf, hint: String },
    #[error("{}", tr!("{}: opening the data: expected a file, found an address on the web; download it first, for example with curl -LO, and give the file", "{}: データを開けません。ファイルではなく Web のアドレスです。curl -LO などで先にダウンロードして、そのファイルを指定してください", path.display()))]
    WebAddress { path: PathBuf },
    #[error("{}", tr!("{}: opening the data: expected a file, found a folder; name a file inside it{hint}", "{}: データを開けません。ファイルではなくフォルダです。中のファイルを指定してください{hint}", path.display()))]
    IsFolder { path: PathBuf, hint: String },
    #[error("{}", tr!("{}: {}: {}; check the path, its permissions and the disk", "{}: {}に失敗しました: {}。パス、アクセス権、ディスクを確認してください", path.display(), doing_of(doing), system_message(source)))]
    Io { path: PathBuf, doing: &'static str, source: io::Error },
    #[error("{}", tr!("{}: copying the data to a temporary file, to read it twice: {source}; free some space, set another folder in {TEMP_VARIABLE}, or pass a file", "{}: データを 2 回読むための一時ファイルに書き込めません: {source}。空き容量を増やすか、{TEMP_VARIABLE} で別のフォルダを指定するか、ファイルで渡してください", path.display()))]
    Copy { path: PathBuf, source: io::Error },
    #[error("{}", tr!("{}: reading the data: expected rows, found an empty file; check that it was written or downloaded whole", "{}: データを読めません。ファイルが空です。最後まで書き込まれたか、ダウンロードが完了したかを確認してください", path.display()))]
    Empty { path: PathBuf },
    #[error("{}", tr!("{}: reading the data: expected rows below the header ({columns}), found none; check that the file was written whole", "{}: データを読めません。見出し行（{columns}）の下に行がありません。ファイルが最後まで書き込まれたかを確認してください", path.display()))]
    OnlyHeader { path: PathBuf, columns: String },
    #[error("{}", tr!("{}: detecting the format: expected CSV, TSV, JSON, JSONL, Parquet, Excel, fastText or plain text, found {found}; {advice}", "{}: 形式を判別できません。CSV・TSV・JSON・JSONL・Parquet・Excel・fastText・プレーンテキストのいずれかが必要ですが、{found}です。{advice}", path.display()))]
    UnsupportedFormat { path: PathBuf, found: &'static str, advice: &'static str },
    #[error("{}", tr!("{}: decompressing gzip: expected the end of the stream, found {found}{after}; download or compress the file again", "{}: gzip を展開できません。{found}{after}。もう一度ダウンロードするか、圧縮し直してください", path.display()))]
    Gzip { path: PathBuf, found: String, after: String },
    #[error("{}", tr!("{}: reading Parquet: expected a whole, undamaged file, found: {detail}; write or download the file again", "{}: Parquet を読めません。ファイルが途中で切れているか壊れています（{detail}）。書き出すかダウンロードし直してください", path.display()))]
    Parquet { path: PathBuf, detail: String },
    #[error("{}", tr!("{}: reading Parquet: this program was built without it (feature `parquet`); write the file as CSV or JSONL", "{}: このプログラムは Parquet なしでビルドされています（feature `parquet`）。CSV か JSONL に書き出してください", path.display()))]
    NoParquet { path: PathBuf },
    #[error("{}", tr!("{}: reading Parquet: expected a column of strings, found {columns}; write the texts as a string column", "{}: Parquet を読めません。文字列の列が必要ですが、{columns}。テキストを文字列の列として書き出してください", path.display()))]
    NoStringColumns { path: PathBuf, columns: String },
    #[error("{}", tr!("{}: reading Excel: expected a whole, undamaged workbook (.xlsx), found: {detail}; open it and save it again, or save the sheet as CSV (UTF-8)", "{}: Excel を読めません。ブック（.xlsx）が途中で切れているか壊れています（{detail}）。開いて保存し直すか、シートを CSV（UTF-8）で保存してください", path.display()))]
    Excel { path: PathBuf, detail: String },
    #[error("{}", tr!("{}: reading Excel: this program was built without it (feature `excel`); save the sheet as CSV (UTF-8)", "{}: このプログラムは Excel なしでビルドされています（feature `excel`）。シートを CSV（UTF-8）で保存してください", path.display()))]
    NoExcel { path: PathBuf },
    #[error("{}", tr!("{}: choosing the sheet: expected {}, found no such sheet among {sheets}{hint}", "{}: シートを選べません。{}というシートは {sheets} の中にありません{hint}", path.display(), quote(requested)))]
    NoSuchSheet { path: PathBuf, requested: String, sheets: String, hint: String },
    #[error("{}", tr!("{}: reading Parquet: expected Snappy, gzip, zstd, LZ4, Brotli or no compression, found {codec}; write the file again with one of these", "{}: Parquet を読めません。圧縮は Snappy・gzip・zstd・LZ4・Brotli・無圧縮のいずれかが必要ですが、{codec} です。いずれかで書き出し直してください", path.display()))]
    ParquetCodec { path: PathBuf, codec: &'static str },

    // Characters.
    #[error("{}", tr!("--encoding {label}: expected the name of an encoding (such as shift_jis, euc-jp, windows-1252, utf-16le), found {}{hint}", "--encoding {label}: 文字コードの名前（shift_jis、euc-jp、windows-1252、utf-16le など）が必要ですが、{}です{hint}", quote(label)))]
    UnknownEncoding { label: String, hint: String },
    #[error("{}", tr!("--encoding {label}: expected an encoding that can be read, found {}; the nearest that can is {nearest}, or convert the file: iconv -f {label} -t utf-8", "--encoding {label}: {}は読めない文字コードです。最も近いのは {nearest} です。または iconv -f {label} -t utf-8 で変換してください", quote(label)))]
    UnsupportedEncoding { label: String, nearest: &'static str },
    #[error("{}", tr!("{place}: reading text: expected UTF-8, found other bytes at byte {offset} of the file; name its encoding, such as --encoding {guess}", "{place}: テキストを読めません。ファイルの {offset} バイト目に UTF-8 でないバイトがあります。--encoding {guess} のように文字コードを指定してください"))]
    NotUtf8 { place: SourceLocation, offset: u64, guess: &'static str },
    #[error("{}", tr!("{place}: reading text: expected {encoding}, found invalid bytes at byte {offset} of the file; try another --encoding", "{place}: テキストを読めません。ファイルの {offset} バイト目に {encoding} として不正なバイトがあります。--encoding に別の文字コードを指定してください"))]
    NotInEncoding { place: SourceLocation, offset: u64, encoding: &'static str },
    #[error("{}", tr!("{}: reading text: expected {encoding}, found UTF-8, which would be read as other characters; leave --encoding out, or give --encoding utf-8", "{}: テキストを読めません。{encoding} のはずが UTF-8 で書かれており、文字化けします。--encoding を外すか、--encoding utf-8 を指定してください", path.display()))]
    IsUtf8 { path: PathBuf, encoding: &'static str },
    #[error("{}", tr!("{place}: reading text: expected characters, found a NUL byte; is it a binary file, or UTF-16 (--encoding utf-16le)?", "{place}: テキストを読めません。NUL バイトがあります。バイナリファイルか、UTF-16（--encoding utf-16le）ではありませんか"))]
    NulByte { place: SourceLocation },

    // Rows.
    #[error("{}", ragged_row(place, format, [*expected, *found, *model], advice))]
    Ragged { place: SourceLocation, format: &'static str, expected: u64, found: u64, model: u64, advice: &'static str },
    #[error("{}", tr!("{place}: reading a CSV field: expected a closing quote (\") for the one that opens here, found {found}; close it, write a quote inside quotes twice (\"\"), or leave such rows out with --skip-bad-rows", "{place}: CSV のフィールドを読めません。ここで開いた引用符（\"）が閉じられないまま{found}になりました。閉じるか、引用符の中の引用符を 2 つ重ねて（\"\"）書いてください。--skip-bad-rows を付けると、このような行を除いて続けます"))]
    UnclosedQuote { place: SourceLocation, found: String },
    #[error("{}", tr!("{place}: reading a CSV field: expected {expected} after its closing quote, found {} at {found_at}; write a quote inside quotes twice (\"\"), or leave such rows out with --skip-bad-rows", "{place}: CSV のフィールドを読めません。閉じの引用符の後には{expected}が必要ですが、{found_at} に{}があります。引用符の中の引用符は 2 つ重ねて（\"\"）書いてください。--skip-bad-rows を付けると、このような行を除いて続けます", quote(found)))]
    StrayQuote { place: SourceLocation, found_at: String, expected: &'static str, found: String },
    #[error("{}", tr!("{place}: reading an Excel row: expected values in the columns that the first rows have ({columns}), found one in cell {cell}; clear the cell or give its column a header, or leave such rows out with --skip-bad-rows", "{place}: Excel の行を読めません。値は先頭の行にある列（{columns}）にあるはずですが、セル {cell} にもあります。セルを空にするか、その列に見出しを付けてください。--skip-bad-rows を付けると、このような行を除いて続けます"))]
    StrayCell { place: SourceLocation, cell: String, columns: String },
    #[error("{}", tr!("{place}: reading a header: expected at most {limit} columns, found {found}; is it a table with one text per row?", "{place}: 見出し行を読めません。列は {limit} 以下のはずが {found} 列あります。1 行に 1 つのテキストがある表ですか"))]
    TooManyColumns { place: SourceLocation, limit: usize, found: usize },
    #[error("{}", tr!("{place}: reading JSON: expected one object on the line, found: {detail}; correct the line, or leave such rows out with --skip-bad-rows", "{place}: JSON を読めません。1 行に 1 つのオブジェクトが必要です（{detail}）。行を直してください。--skip-bad-rows を付けると、このような行を除いて続けます"))]
    BadJson { place: SourceLocation, detail: String },
    #[error("{}", tr!("{place}: reading JSON: expected an object ({{…}}) on each line, found {found}; {advice}", "{place}: JSON を読めません。各行にオブジェクト（{{…}}）が必要ですが、{found}です。{advice}"))]
    NotAnObject { place: SourceLocation, found: &'static str, advice: &'static str },
    #[error("{}", tr!("{place}: reading JSON: expected a valid element (number {element} of the array), found: {detail}; correct it, or leave such rows out with --skip-bad-rows", "{place}: JSON を読めません。配列の {element} 番目の要素が正しくありません（{detail}）。直してください。--skip-bad-rows を付けると、このような行を除いて続けます"))]
    BadElement { place: SourceLocation, element: u64, detail: String },
    #[error("{}", tr!("{place}: reading JSON: expected {expected}, found {found}; write all elements of the array in the same way, or leave such rows out with --skip-bad-rows", "{place}: JSON を読めません。{expected}が必要ですが、{found}です。配列の要素はすべて同じ形で書いてください。--skip-bad-rows を付けると、このような行を除いて続けます"))]
    MixedElements { place: SourceLocation, expected: &'static str, found: &'static str },
    #[error("{}", tr!("{place}: reading a JSON array: expected {expected}, found {found} (elements before it: {after}); check that the file was written whole", "{place}: JSON 配列を読めません。{expected}が必要ですが、{found}があります（その前の要素: {after}）。ファイルが最後まで書き込まれたかを確認してください"))]
    BrokenArray { place: SourceLocation, after: u64, expected: &'static str, found: String },
    #[error("{}", tr!("{}: reading JSON: expected one array of rows, found an object with {keys}; write one of its arrays to a file of its own, as with jq {first} FILE > rows.json", "{}: JSON を読めません。行の配列が 1 つ必要ですが、{keys} を持つオブジェクトです。jq {first} ファイル > rows.json のように、配列の 1 つを別のファイルに書き出してください", path.display()))]
    SeveralArrays { path: PathBuf, keys: String, first: String },
    #[error("{}", tr!("{place}: reading the {role}: expected a string, number or true/false in {}, found {found}; {advice}", "{place}: {role}を読めません。{}には文字列・数値・真偽値が必要ですが、{found}です。{advice}", quote(column)))]
    NestedValue { place: SourceLocation, role: ColumnRole, column: Box<str>, found: &'static str, advice: Box<str> },
    #[error("{}", tr!("{place}: reading the text: expected some characters, found {found}; fill it in, or leave such rows out with --skip-bad-rows", "{place}: テキストを読めません。文字が必要ですが、{found}です。値を入れてください。--skip-bad-rows を付けると、このような行を除いて続けます"))]
    EmptyText { place: SourceLocation, found: Box<str> },
    #[error("{}", tr!("{place}: reading the label: expected a class name, found {found}; fill it in, or leave such rows out with --skip-bad-rows", "{place}: ラベルを読めません。クラス名が必要ですが、{found}です。値を入れてください。--skip-bad-rows を付けると、このような行を除いて続けます"))]
    EmptyLabel { place: SourceLocation, found: Box<str> },
    #[error("{}", tr!("{place}: reading pairs: expected a source and its target, found {found}; fill it in, or leave such rows out with --skip-bad-rows", "{place}: 対訳を読めません。原文と訳文の両方が必要ですが、{found}です。値を入れてください。--skip-bad-rows を付けると、このような行を除いて続けます"))]
    EmptySide { place: SourceLocation, found: Box<str> },
    #[error("{}", {
 let (other, count) = (other.display(), format_count(*lines, "line"));
 tr!("{place}: reading pairs: expected a partner for each line, found the end of {other} after {count}; this is the first line without one: check that both files are complete and aligned", "{place}: 対訳を読めません。各行に相手の行が必要ですが、{other} は {lines} 行で終わっています。相手のない最初の行はここです。両方のファイルが最後まで書き込まれ、行が対応しているかを確認してください")})]
    Unpaired { place: SourceLocation, other: PathBuf, lines: u64 },
    #[error("{}", tr!("{place}: reading the label: expected one label, found {found} ({labels}); train with --task labels to predict several, keep one for each text, or leave such rows out with --skip-bad-rows", "{place}: ラベルを読めません。1 つのはずが {found} 個あります（{labels}）。複数のラベルを予測するには --task labels で学習してください。またはテキストごとに 1 つにするか、--skip-bad-rows を付けると、このような行を除いて続けます"))]
    SeveralLabels { place: SourceLocation, found: usize, labels: String },
    #[error("{}", tr!("{place}: reading the labels: expected {expected}, found {found}; correct it, or leave such rows out with --skip-bad-rows", "{place}: ラベルを読めません。{expected}が必要ですが、{found} です。直すか、--skip-bad-rows を付けてこのような行を除いてください"))]
    BadLabels { place: SourceLocation, expected: &'static str, found: String },
    #[error("{}", tr!("{}: looking for several labels per text: expected a list column, columns of 0 and 1, or fastText lines, found {columns}; give the separator of the labels with --separator, or the label columns with --labels a,b,c", "{}: テキストごとの複数のラベルが見つかりません。リストの列、0 と 1 の列、fastText 形式の行のいずれかが必要ですが、{columns} でした。--separator で区切り文字を、または --labels a,b,c でラベルの列を指定してください", path.display()))]
    NoMultipleLabels { path: PathBuf, columns: String },
    #[error("{}", tr!("{place}: reading {what}: expected at most {}, found {}; cut it into shorter texts, or leave such rows out with --skip-bad-rows", "{place}: {what}を読めません。{} 以下のはずが {} あります。短いテキストに分けてください。--skip-bad-rows を付けると、このような行を除いて続けます", format_size(*limit), format_size(*bytes)))]
    TooLong { place: SourceLocation, what: &'static str, limit: u64, bytes: u64 },
    #[error("{}", tr!("{place}: reading a line: expected its end, found none within {}; is it a text file?", "{place}: 行を読めません。{} 以内に行の終わりがありません。テキストファイルですか", format_size(*bytes)))]
    EndlessLine { place: SourceLocation, bytes: u64 },
    #[error("{}", tr!("{}: reading the data: expected the end of the stream within {}, as much as memory is free, found none; pass a part of it, as with `head -n 100000`", "{}: データを読めません。空きメモリと同じ {} を読んでもストリームが終わりません。`head -n 100000` などで一部だけを渡してください", path.display(), format_size(*bytes)))]
    EndlessStream { path: PathBuf, bytes: u64 },

    // Columns.
    #[error("{}", tr!("{}: choosing the {role} column: expected {}, found no such column among {columns}{hint}", "{}: {role}の列を選べません。{} という列は {columns} の中にありません{hint}", path.display(), quote(requested)))]
    NoSuchColumn { path: PathBuf, role: ColumnRole, requested: String, columns: String, hint: String },
    #[error("{}", tr!("{}: choosing the feature columns: expected columns with names ({names}), found {found}, which has none; write a CSV file with a header, or JSONL", "{}: テキスト以外の列を選べません。名前のある列（{names}）が必要ですが、{found}には列名がありません。見出し行のある CSV か JSONL にしてください", path.display()))]
    UnnamedFeatures { path: PathBuf, names: String, found: String },
    #[error("{}", tr!("{}: choosing the feature columns: expected columns other than the text and the label, each once, found {}; leave it out of --columns, name it once, or name the text and the label with --text and --label", "{}: テキスト以外の列を選べません。テキストやラベルではない列を 1 回ずつ指定してください（{}）。--columns から外すか、1 回だけ指定するか、テキストとラベルの列を --text と --label で指定してください", path.display(), quote(column)))]
    ColumnInUse { path: PathBuf, column: String },
    #[error("{}", tr!("{}: choosing the {role} column: expected one clear candidate, found {candidates}; {advice}", "{}: {role}の列を 1 つに決められません（{candidates}）。{advice}", path.display()))]
    AmbiguousColumn { path: PathBuf, role: ColumnRole, candidates: String, advice: Box<str> },
    #[error("{}", tr!("{}: choosing what to predict: expected one clear reading, found several that are about equally likely: {readings}; choose one with the flags in brackets", "{}: 予測するものを 1 つに決められません。同じくらい確からしい読み方があります（{readings}）。かっこの中のオプションで指定してください", path.display()))]
    AmbiguousLabel { path: PathBuf, readings: Box<str> },
    #[error("{}", tr!("{}: reading the first row: expected column names or a row of data, found {first}, which may be either; choose with --header yes or --header no", "{}: 1 行目が見出しかデータか決められません（{first}）。--header yes か --header no で指定してください", path.display()))]
    AmbiguousHeader { path: PathBuf, first: Box<str> },
    #[error("{}", tr!("{}: choosing the {role} column: expected {expected}, found only {columns}; {advice}", "{}: {role}の列を選べません。{expected}が必要ですが、{columns} しかありません。{advice}", path.display()))]
    NoColumn { path: PathBuf, role: ColumnRole, expected: &'static str, columns: String, advice: &'static str },
    #[error("{}", tr!("{}: choosing the task: expected a label, or two columns whose names make a pair (such as source and target, or ja and en), found text in {pair} and also {others}; choose the task: --task translate (one is the translation of the other), --task classify with --label NAME, or --task lm with --text NAME", "{}: タスクを選べません。ラベルの列か、対訳と分かる名前の 2 列（source と target、ja と en など）が必要ですが、テキストの列{pair}のほかに{others}があります。--task translate（一方が他方の訳文）、--task classify と --label 列名、--task lm と --text 列名 のいずれかを指定してください", path.display()))]
    NoTask { path: PathBuf, pair: Box<str>, others: Box<str> },
    #[error("{}", tr!("{}: choosing the columns: expected the {} and the {} in two columns, found {} named for both; change --text or --label", "{}: 列を選べません。{}と{}は別の列のはずですが、両方に{}が指定されています。--text か --label を変えてください", path.display(), roles[0], roles[1], quote(column)))]
    SameColumn { path: PathBuf, roles: [ColumnRole; 2], column: String },
    #[error("{}", tr!("{}: reading several training files: expected the columns of {} ({expected}), found {found}; use the same column names in all files, or train on one file", "{}: 複数の学習ファイルを読めません。{}と同じ列（{expected}）が必要ですが、{found} です。すべてのファイルで列名をそろえるか、1 つのファイルで学習してください", path.display(), first.display()))]
    ColumnsDiffer { path: PathBuf, first: PathBuf, expected: Box<str>, found: Box<str> },
    #[error("{}", tr!("{}: reading the numbers: expected the same format as in {}, such as {expected}, found {found}; write the numbers of both files in the same way", "{}: 数値を読めません。{} と同じ書き方（{expected} など）が必要ですが、{found}があります。両方のファイルで数値の書き方をそろえてください", path.display(), first.display()))]
    NumbersDiffer { path: PathBuf, first: PathBuf, expected: Box<str>, found: Box<str> },
    #[error("{}", tr!("{}: reading one of two parallel files: expected lines of text, found {found}; name it alone, or write each side as a text file", "{}: 対訳の片側を読めません。テキストの行が必要ですが、{found} です。単独で指定するか、両側をテキストファイルとして書き出してください", path.display()))]
    NotParallel { path: PathBuf, found: &'static str },

    // The data set as a whole.
    #[error("{}", tr!("{}: reading labeled texts: expected rows, found none that can be used ({skipped}); correct the file or choose other columns with --text and --label", "{}: ラベル付きテキストを読めません。使える行がありません（{skipped}）。ファイルを直すか、--text と --label で別の列を選んでください", path.display()))]
    NoUsableRows { path: PathBuf, skipped: String },
    #[error("{}", tr!("{}: reading pairs: expected rows, found none that can be used ({skipped}); correct the data or choose other columns with --text and --label", "{}: 対訳を読めません。使える行がありません（{skipped}）。データを直すか、--text と --label で別の列を選んでください", path.display()))]
    NoUsablePairs { path: PathBuf, skipped: String },
    #[error("{}", too_few_rows(path, *rows, *least))]
    TooFewRows { path: PathBuf, rows: u64, least: u64 },
    #[error("{}", too_few_numbers(path, *found))]
    TooFewNumbers { path: PathBuf, found: usize },
    #[error("{}", tr!("{}: checking the data: expected labeled spans, found none in {rows} texts; does --label name the key or column that holds them?", "{}: データを使えません。{rows} 件のテキストに、ラベルの付いたスパンが 1 つもありません。スパンのキーまたは列を --label で指定してください", path.display()))]
    NoSpans { path: PathBuf, rows: String },
    #[error("{}", tr!("{}: checking the data: expected at most {limit} kinds of spans, found {found}; is it a column of words? Name the one that holds the tags with --label", "{}: データを使えません。スパンの種類は {limit} 以下のはずですが、{found} 種類あります。単語の列ではありませんか。タグの列を --label で指定してください", path.display()))]
    TooManyKinds { path: PathBuf, limit: usize, found: usize },
    #[error("{}", one_class(path, label, *rows, column))]
    OneClass { path: PathBuf, label: String, rows: u64, column: String },
    #[error("{}", tr!("{}: checking the data: expected a label column of few, repeated values, found {} different values in {} rows of {column}, such as {examples}; it looks like {looks_like}; {advice}", "{}: データを使えません。ラベル列には少数の繰り返す値が必要ですが、{2} 行の{column}に {1} 種類の値があります（{examples} など）。{looks_like}のようです。{advice}", path.display(), found[0], found[1]))]
    NoClasses {
        path: PathBuf,
        column: String,
        found: [u64; 2],
        examples: Box<str>,
        looks_like: Box<str>,
        advice: Box<str>,
    },
    #[error("{}", tr!("{place}: reading the label: expected at most {limit} classes, found more in {column}; is it an identifier? Name another column with --label", "{place}: ラベルを読めません。クラスは {limit} 以下のはずですが、{column}にはもっとあります。識別子ではありませんか。--label で別の列を指定してください"))]
    TooManyClasses { place: SourceLocation, limit: usize, column: String },
    #[error("{}", tr!("{place}: checking the labels: expected a class of the training data ({known}), found {}{hint}; correct it, or add such rows to the training data", "{place}: ラベルを確認できません。学習データのクラス（{known}）のいずれかが必要ですが、{}です{hint}。直すか、そのような行を学習データに加えてください", quote(label)))]
    UnknownLabel { place: SourceLocation, label: String, known: Box<str>, hint: Box<str> },

    // Output.
    #[error("{}", tr!("{}: this is an input file; choose another output", "{}: 入力ファイルです。別の出力先を指定してください", path.display()))]
    OverwritesInput { path: PathBuf },
    #[error("{}", tr!("{}: {}: {}; check the path, its permissions and the disk", "{}: {}に失敗しました: {}。パス、アクセス権、ディスクを確認してください", path.display(), doing_of(doing), system_message(source)))]
    Output { path: PathBuf, doing: &'static str, source: io::Error },
    #[error("{}", tr!("writing the output: {}; check the disk and the program that reads the output", "出力を書き込めません: {}。ディスクと、出力を読んでいるプログラムを確認してください", system_message(source)))]
    Write { source: io::Error },
    #[error("{}", tr!("writing row {row}: expected fields that a TSV file can hold, found a line break that would be read back wrongly; write JSON instead (--json)", "{row} 行目を書き込めません。TSV に書けない改行が値に含まれています。JSON で書き出してください（--json）"))]
    UnwritableRow { row: u64 },
}

fn ragged_row(place: &SourceLocation, format: &str, [expected, found, model]: [u64; 3], advice: &str) -> String {
    let columns = format_count(expected, "column");
    let model = match place.is_row {
        true => tr!("row {model}", "{model} 行目"),
        false => tr!("line {model}", "{model} 行目"),
    };
    tr!(
        "{place}: reading a {format} row: expected {columns}, as in {model}, found {found}; {advice}, or leave such rows out with --skip-bad-rows",
        "{place}: {format} の行を読めません。{model}と同じ {expected} 列のはずが {found} 列です。{advice}。--skip-bad-rows を付けると、このような行を除いて続けます"
    )
}

fn too_few_rows(path: &Path, rows: u64, least: u64) -> String {
    let path = path.display();
    match lang() {
        Lang::En => format!(
            "{path}: checking the data: expected at least {}, found {}; add more examples",
            format_count(least, "row"),
            format_count(rows, "row")
        ),
        Lang::Ja => {
            format!("{path}: データを使えません。{least} 行以上が必要ですが、{rows} 行です。例を増やしてください")
        }
    }
}

fn too_few_numbers(path: &Path, found: usize) -> String {
    let path = path.display();
    match found {
        2 => tr!(
            "{path}: checking the data: expected at least 3 different numbers, found 2, which are two classes: train with --task classify",
            "{path}: データを使えません。3 種類以上の数値が必要ですが、2 種類です。2 種類なら 2 つのクラスです。--task classify で学習してください"
        ),
        _ => tr!(
            "{path}: checking the data: expected at least 3 different numbers, found the same number in every row, so there is nothing to learn; name another column with --label",
            "{path}: データを使えません。3 種類以上の数値が必要ですが、すべての行が同じ値で、学ぶことがありません。--label で別の列を指定して\
             ください"
        ),
    }
}

fn one_class(path: &Path, label: &str, rows: u64, column: &str) -> String {
    let (path, label, counted) = (path.display(), quote(label), format_count(rows, "row"));
    tr!(
        "{path}: checking the data: expected two or more classes, found only {label} in all {counted}; is {column} the label? Name another with --label",
        "{path}: データを使えません。2 つ以上のクラスが必要ですが、全 {rows} 行が{label}です。{column}はラベルですか。--label で別の列を指定してください"
    )
}

impl DataError {
    /// Returns whether only one row is lost, so reading can continue if bad rows are skipped.
    pub(crate) fn is_row_error(&self) -> bool {
        self.skippable_row().is_some()
    }

    /// Returns the line of the row to skip, if the error concerns a single row.
    pub(crate) fn skippable_row(&self) -> Option<u64> {
        match self {
            DataError::BadElement { element, .. } => Some(*element),
            DataError::Ragged { place, .. }
            | DataError::UnclosedQuote { place, .. }
            | DataError::StrayQuote { place, .. }
            | DataError::StrayCell { place, .. }
            | DataError::BadJson { place, .. }
            | DataError::NotAnObject { place, .. }
            | DataError::MixedElements { place, .. }
            | DataError::NestedValue { place, .. }
            | DataError::EmptyText { place, .. }
            | DataError::EmptyLabel { place, .. }
            | DataError::EmptySide { place, .. }
            | DataError::SeveralLabels { place, .. }
            | DataError::BadLabels { place, .. }
            | DataError::TooLong { place, .. } => Some(place.line),
            _ => None,
        }
    }

    /// Returns the message without the advice to skip rows, for a row that is reported without stopping.
    #[must_use]
    pub fn reason(&self) -> String {
        without_advice(&self.to_string()).to_owned()
    }

    /// Returns whether the reader of the output has closed the pipe. Such a pipeline ends silently (`chumoku predict …
    /// | head`).
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, DataError::Write { source } if source.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Returns the system error, if there is one.
    pub fn system_error(&self) -> Option<&io::Error> {
        match self {
            DataError::Io { source, .. } | DataError::Output { source, .. } | DataError::Write { source } => {
                Some(source)
            }
            _ => None,
        }
    }

    /// Returns whether the input or the usage is at fault: exit status 2 of the command, else 1.
    pub fn is_usage(&self) -> bool {
        match self {
            DataError::Io { source, .. } => !is_disk_full(source.kind()),
            DataError::Output { source, .. } => is_unwritable_path(source.kind()),
            DataError::Write { .. } => false,
            _ => true,
        }
    }
}
