//! Excel workbooks (`.xlsx`, `.xlsm`): reads the rows of one sheet with `calamine`, with values as Excel displays them.
//!
//! A workbook is a zip archive of XML. Its parts are first inflated and measured (`excel/parts.rs`), because `calamine`
//! trusts the sizes in an archive. A thread then reads the sheet while its rows are used. For a large sheet, only a few
//! rows and the shared strings are in memory.

mod cells;
mod parts;

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{BufReader, Seek};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use calamine::{Dimensions, Reader as _, SheetType, SheetVisible, Xlsx, XlsxError};

use super::error::{DataError, SourceLocation};
use super::format::ReadOptions;
use super::limits::{MAX_COLUMNS, MAX_ROW_BYTES};
use super::record::Record;
use crate::lang::lang;
use crate::lang::wording::{did_you_mean, list_names, quote};
use crate::{panics, sorting, tr};

/// Rows that the reading thread may be ahead.
const ROWS_AHEAD: usize = 8;

type Workbook = Xlsx<BufReader<File>>;

/// The sheet to read.
struct ChosenSheet {
    name: String,
    /// The number of other sheets.
    others: usize,
    /// True if sheets before it were skipped as covers.
    follows_cover: bool,
}

/// Reads the rows of a sheet.
pub(crate) struct ExcelReader {
    path: PathBuf,
    rows: Option<Receiver<Result<Record, DataError>>>,
    sheet: ChosenSheet,
    /// The columns with values in the first rows, once known.
    columns: Option<Vec<usize>>,
}

impl ExcelReader {
    /// Opens a workbook at the sheet named in the options, else at the first visible sheet with a table.
    pub(crate) fn open(path: &Path, mut file: File, options: &ReadOptions) -> Result<Self, DataError> {
        let large = parts::check_archive(path, &file)?;
        let io = |source| DataError::Io { path: path.to_owned(), doing: "reading the data", source };
        file.rewind().map_err(io)?;
        let mut book: Workbook = catch_panics(path, || Xlsx::new(BufReader::new(file)))?;
        let sheet = choose_sheet(path, &mut book, options)?;
        // The merged cells are stored after the cells, so this reads the whole sheet.
        let merged = match large {
            true => Vec::new(),
            false => catch_panics(path, || book.merge_cells_by_sheet_name(&sheet.name))?,
        };
        let (sender, rows) = sync_channel(ROWS_AHEAD);
        let (of, from) = (path.to_owned(), sheet.name.clone());
        // The thread ends with the sheet, when the receiver is dropped, or with the program.
        thread::spawn(move || {
            let ended = catch_panics(&of, || send_rows(&of, &mut book, &from, merged, &sender));
            if let Err(error) = ended {
                // The receiver may be gone.
                let _ = sender.send(Err(error));
            }
        });
        Ok(ExcelReader { path: path.to_owned(), rows: Some(rows), sheet, columns: None })
    }

    pub(crate) fn location(&self, row: u64) -> SourceLocation {
        SourceLocation::row(&self.path, row)
    }

    /// Describes the sheet for the description of the file: `, sheet “Data” (one of 3; choose another with --sheet
    /// NAME)`.
    pub(crate) fn describe_sheet(&self) -> String {
        let (name, others) = (quote(&self.sheet.name), self.sheet.others);
        match others {
            _ if self.sheet.follows_cover => {
                let n = others + 1;
                tr!(
                    ", sheet {name} (one of {n}, the first that holds a table; choose another with --sheet NAME)",
                    "、シート{name}（全 {n} シートのうち表のある最初のシート。--sheet 名前 で選べます）"
                )
            }
            0 => tr!(", sheet {name}", "、シート{name}"),
            _ => {
                let n = others + 1;
                tr!(
                    ", sheet {name} (one of {n}; choose another with --sheet NAME)",
                    "、シート{name}（全 {n} シート。--sheet 名前 で選べます）"
                )
            }
        }
    }

    /// Drops the columns that are empty in all of the first rows, from these rows and all later ones.
    pub(crate) fn drop_empty_columns(&mut self, first: &mut VecDeque<Record>) {
        let filled = |row: &Record| {
            let fields = row.fields.iter().enumerate();
            fields.filter(|(_, value)| !value.trim().is_empty()).map(|(column, _)| column).collect::<Vec<_>>()
        };
        let columns: BTreeSet<usize> = first.iter().flat_map(filled).collect();
        let columns: Vec<usize> = columns.into_iter().collect();
        for row in first.iter_mut() {
            row.fields = select_fields(&mut row.fields, &columns);
        }
        self.columns = Some(columns);
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        let Some(rows) = &self.rows else { return Ok(None) };
        let Ok(row) = rows.recv() else {
            self.rows = None;
            return Ok(None);
        };
        let mut row = row?;
        if let Some(columns) = &self.columns {
            let is_stray =
                |(column, value): &(usize, &String)| !value.trim().is_empty() && columns.binary_search(column).is_err();
            if let Some((column, _)) = row.fields.iter().enumerate().find(is_stray) {
                let cell = format!("{}{}", cells::column_letters(column), row.line);
                let columns = columns.iter().map(|&column| cells::column_letters(column)).collect::<Vec<_>>();
                return Err(DataError::StrayCell {
                    place: self.location(row.line),
                    cell,
                    columns: columns[..columns.len().min(8)].join(", "),
                });
            }
            row.fields = select_fields(&mut row.fields, columns);
        }
        Ok(Some(row))
    }
}

/// Returns the fields of these columns. Empty if the row is shorter.
fn select_fields(fields: &mut [String], columns: &[usize]) -> Vec<String> {
    columns.iter().map(|&column| fields.get_mut(column).map(std::mem::take).unwrap_or_default()).collect()
}

/// Fewest rows of a table: two classes with two rows each.
const MIN_TABLE_ROWS: usize = 4;
/// Rows that are counted to tell a table from a cover.
const MAX_COUNTED_ROWS: usize = 200;
/// Names of cover sheets, which describe a workbook.
const COVER_NAMES: [&str; 23] = [
    "cover",
    "coverpage",
    "title",
    "readme",
    "about",
    "info",
    "information",
    "instructions",
    "notes",
    "contents",
    "index",
    "overview",
    "summary",
    "legend",
    "deckblatt",
    "übersicht",
    "hinweise",
    "portada",
    "couverture",
    "表紙",
    "概要",
    "目次",
    "説明",
];

/// Returns the sheet that the options name, else the first visible one with a table.
fn choose_sheet(path: &Path, book: &mut Workbook, options: &ReadOptions) -> Result<ChosenSheet, DataError> {
    let tables = book.sheets_metadata().iter().filter(|sheet| sheet.typ == SheetType::WorkSheet);
    let names: Vec<String> = tables.clone().map(|sheet| sheet.name.clone()).collect();
    let visible: Vec<String> =
        tables.filter(|sheet| sheet.visible == SheetVisible::Visible).map(|sheet| sheet.name.clone()).collect();
    let same = |name: &str, requested: &str| name.trim().to_lowercase() == requested.trim().to_lowercase();
    // The sheet of the training file, if this workbook has one with that name.
    let remembered = options.training_options().and_then(|options| options.sheet.as_ref());
    let remembered = remembered.filter(|requested| names.iter().any(|name| same(name, requested)));
    let Some(requested) = options.sheet.as_ref().or(remembered) else {
        let Some(first) = visible.first().or(names.first()) else {
            let detail = tr!("no sheet with cells", "セルのあるシートがありません");
            return Err(DataError::Excel { path: path.to_owned(), detail });
        };
        let later = sheet_after_cover(path, book, &visible);
        let name = later.unwrap_or(first).clone();
        return Ok(ChosenSheet { name, others: names.len() - 1, follows_cover: later.is_some() });
    };
    match names.iter().find(|name| *name == requested).or_else(|| names.iter().find(|name| same(name, requested))) {
        Some(name) => Ok(ChosenSheet { name: name.clone(), others: names.len() - 1, follows_cover: false }),
        None => Err(DataError::NoSuchSheet {
            path: path.to_owned(),
            requested: requested.clone(),
            sheets: list_names(&names),
            hint: did_you_mean(requested, names.iter().map(String::as_str)),
        }),
    }
}

/// Returns the first sheet with a table if the first sheet is a cover. A cover has the name of one, or few rows with
/// several values.
fn sheet_after_cover<'a>(path: &Path, book: &mut Workbook, visible: &'a [String]) -> Option<&'a String> {
    let (first, others) = visible.split_first().filter(|(_, others)| !others.is_empty())?;
    // Errors in a sheet are reported when it is read.
    let mut rows = |sheet: &str| catch_panics(path, || count_table_rows(book, sheet)).unwrap_or_default();
    let of_first = rows(first);
    let is_cover = COVER_NAMES.contains(&first.to_lowercase().replace(' ', "").as_str());
    if of_first >= MAX_COUNTED_ROWS && !is_cover {
        return None;
    }
    others.iter().find(|sheet| {
        let found = rows(sheet);
        found >= MIN_TABLE_ROWS
            && (of_first < MIN_TABLE_ROWS || is_cover && found > of_first / 2 || found > 3 * of_first)
    })
}

/// Counts the rows with values in two or more cells, up to a limit.
fn count_table_rows(book: &mut Workbook, sheet: &str) -> Result<usize, XlsxError> {
    let mut cells = book.worksheet_cells_reader(sheet)?;
    let (mut rows, mut row, mut filled) = (0, 0, 0);
    while let Some(cell) = cells.next_cell()? {
        let (at, _) = cell.get_position();
        if at != row {
            (row, filled) = (at, 0);
        }
        if !cells::cell_text(cell.get_value()).trim().is_empty() {
            filled += 1;
            rows += usize::from(filled == 2);
        }
        if rows >= MAX_COUNTED_ROWS {
            break;
        }
    }
    Ok(rows)
}

/// Sends the non-empty rows of a sheet until the receiver is dropped.
fn send_rows(
    path: &Path,
    book: &mut Workbook,
    sheet: &str,
    mut merged: Vec<Dimensions>,
    sender: &SyncSender<Result<Record, DataError>>,
) -> Result<(), XlsxError> {
    // Only regions that span several rows affect later rows.
    merged.retain(|region| region.start.0 < region.end.0);
    sorting::sort_by_key(&mut merged, |region| std::cmp::Reverse(region.start));
    let mut repeated = MergedCells { waiting: merged, open: Vec::new() };
    let mut cells = book.worksheet_cells_reader(sheet)?;
    let mut row = ExcelRow::default();
    while let Some(cell) = cells.next_cell()? {
        let (at, column) = cell.get_position();
        if row.number != at {
            let done = std::mem::replace(&mut row, ExcelRow { number: at, ..ExcelRow::default() });
            if !done.send(path, &mut repeated, sender) {
                return Ok(());
            }
        }
        row.set(column as usize, cells::cell_text(cell.get_value()));
    }
    row.send(path, &mut repeated, sender);
    Ok(())
}

/// The row being read.
#[derive(Default)]
struct ExcelRow {
    /// The row number from 0.
    number: u32,
    fields: Vec<String>,
    bytes: u64,
    /// True if a cell is further to the right than a table may reach.
    is_too_wide: bool,
}

impl ExcelRow {
    fn set(&mut self, column: usize, value: String) {
        if value.is_empty() {
            return;
        }
        if column >= MAX_COLUMNS {
            self.is_too_wide = true;
            return;
        }
        self.bytes += value.len() as u64;
        if self.fields.len() <= column {
            self.fields.resize(column + 1, String::new());
        }
        // For a row that is too long, the error reports the length alone.
        self.fields[column] = if self.bytes > MAX_ROW_BYTES { String::new() } else { value };
    }

    /// Sends the row unless it is empty. Returns whether the receiver still exists.
    fn send(mut self, path: &Path, repeated: &mut MergedCells, sender: &SyncSender<Result<Record, DataError>>) -> bool {
        let line = u64::from(self.number) + 1;
        let place = SourceLocation::row(path, line);
        if self.is_too_wide {
            let found = MAX_COLUMNS + 1;
            return sender.send(Err(DataError::TooManyColumns { place, limit: MAX_COLUMNS, found })).is_ok();
        }
        if self.bytes > MAX_ROW_BYTES {
            let what = lang().pick("a row", "行");
            let error = DataError::TooLong { place, what, limit: MAX_ROW_BYTES, bytes: self.bytes };
            return sender.send(Err(error)).is_ok();
        }
        if self.fields.iter().all(|value| value.trim().is_empty()) {
            return true;
        }
        repeated.fill(self.number, &mut self.fields);
        sender.send(Ok(Record::from_fields(line, self.fields))).is_ok()
    }
}

/// Cells that are merged over several rows. Only the first row stores the value. It is repeated in the others.
struct MergedCells {
    /// Regions further down, the next one last.
    waiting: Vec<Dimensions>,
    /// Regions that reach into the current row, with their values.
    open: Vec<(Dimensions, String)>,
}

impl MergedCells {
    fn fill(&mut self, row: u32, fields: &mut Vec<String>) {
        self.open.retain(|(region, _)| region.end.0 >= row);
        while self.waiting.last().is_some_and(|region| region.start.0 <= row) {
            let Some(region) = self.waiting.pop() else { break };
            let value = fields.get(region.start.1 as usize).filter(|_| region.start.0 == row);
            // Values may be as long as rows, so their number is limited.
            if let Some(value) = value.filter(|value| !value.is_empty() && self.open.len() < MAX_COLUMNS) {
                self.open.push((region, value.clone()));
            }
        }
        for (region, value) in &self.open {
            let column = region.start.1 as usize;
            if column >= MAX_COLUMNS || region.start.0 == row {
                continue;
            }
            if fields.len() <= column {
                fields.resize(column + 1, String::new());
            }
            if fields[column].is_empty() {
                fields[column].clone_from(value);
            }
        }
    }
}

/// Runs a step of `calamine` and converts its errors and panics.
fn catch_panics<T>(path: &Path, work: impl FnOnce() -> Result<T, XlsxError>) -> Result<T, DataError> {
    let detail = match panics::catch_silently(work) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(XlsxError::Password)) => return Err(locked_workbook(path)),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => panic,
    };
    // Keeps the message on one line.
    let detail = detail.split_whitespace().collect::<Vec<_>>().join(" ");
    Err(DataError::Excel { path: path.to_owned(), detail })
}

/// The error for a password-protected workbook.
fn locked_workbook(path: &Path) -> DataError {
    let (found, advice) = super::detect::LOCKED_WORKBOOK;
    let pick = |(english, japanese)| lang().pick(english, japanese);
    DataError::UnsupportedFormat { path: path.to_owned(), found: pick(found), advice: pick(advice) }
}
