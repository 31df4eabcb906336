//! Implements `chumoku doctor`: finds faults in a labeled file, and texts to label next.
//!
//! # Files
//!
//! - `summary`: findings in a terminal

mod summary;

use crate::args::DoctorArgs;
use crate::data::read_options;
use crate::output::OutputPath;
use crate::progress::print_status;
use crate::{ExitCode, threads};
use chumoku::Error;
use chumoku::data::{SkippedRows, looks_multi_label};
use chumoku::doctor::{DoctorInput, DoctorOptions, DoctorTexts, examine};
use chumoku::lang::lang;
use chumoku_view::doctor_to_html;
use std::cell::Cell;
use std::io::{Write, stdout};
use std::time::{Duration, Instant};

/// File name of the table in the folder of `--out`.
const TABLE: &str = "doctor.csv";
/// File name of the page.
const PAGE: &str = "doctor.html";

pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    threads::start_pool(args.threads)?;
    let args = &mut args.clone();
    args.reading.buffer_pipe(&mut args.data)?;
    for data in [&mut args.test, &mut args.unlabelled].into_iter().flatten() {
        args.reading.buffer_pipe(data)?;
    }
    // Refuses an existing folder before the work.
    let out = args.out.as_ref().map(|folder| output_paths(folder, args.force)).transpose()?;
    let given = read_data(args)?;
    let mut options = DoctorOptions::default();
    (options.folds, options.seed) = (args.folds, args.seed);
    let checkup = examine(&given, &options, &report_slow_stages())?;
    let findings = checkup.findings(&given, lang());
    if let (Some([table, page]), Some(folder)) = (&out, &args.out) {
        let folder = folder.as_path();
        std::fs::create_dir_all(folder).map_err(Error::write("creating the folder", folder))?;
        table.write(given.to_csv(&findings, args.bom)?)?;
        page.write(doctor_to_html(&given, &checkup, lang()))?;
    }
    let mut standard = stdout().lock();
    match args.json {
        true => writeln!(standard, "{}", checkup.to_json(&given))?,
        false => write!(standard, "{}", summary::summary(&given, &checkup, &findings))?,
    }
    for path in out.iter().flatten() {
        print_status(["wrote", "書き出し"], &path.display().to_string());
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a callback that reports stages, at most one every two seconds.
fn report_slow_stages() -> impl Fn(&str) {
    let last_report = Cell::new(Instant::now());
    move |what| {
        if last_report.get().elapsed() > Duration::from_secs(2) {
            print_status(["look", "検査"], what);
            last_report.set(Instant::now());
        }
    }
}

/// Returns the paths of the table and the page.
fn output_paths(folder: &OutputPath, force: bool) -> anyhow::Result<[OutputPath; 2]> {
    let places = [TABLE, PAGE].map(|name| folder.join(name));
    if let Some(there) = places.iter().find(|place| place.as_path().exists()).filter(|_| !force) {
        // The user may have edited the file.
        refuse!(
            "{}: already exists; name another folder with --out, or replace it with --force",
            "{}: すでにあります。--out で別のフォルダを指定するか、--force で置き換えてください",
            there.display()
        );
    }
    if folder.as_path().is_dir() {
        places.iter().try_for_each(OutputPath::check)?;
    }
    Ok(places)
}

fn read_data(args: &DoctorArgs) -> anyhow::Result<DoctorInput> {
    let options = read_options(&args.reading, true)?;
    if let Some(why) = looks_multi_label(&args.data, &options)?.filter(|_| args.reading.label.is_none()) {
        let path = args.data.display();
        refuse!(
            "{path}: the texts have several labels each ({why}), but doctor needs one class per text; name the column of \
             the class with --label",
            "{path}: 1 つのテキストに複数のラベルがあります（{why}）。doctor が調べるのは 1 テキスト 1 クラスのデータです。クラスの列を \
             --label で指定してください"
        );
    }
    let mut given = DoctorInput::read(&args.data, &options)?;
    report_data(&given.dataset.description, &given.dataset.skipped);
    for (path, texts) in [(&args.test, &mut given.test), (&args.unlabelled, &mut given.unlabeled)] {
        let Some(path) = path else { continue };
        let mut options = read_options(&args.reading, false)?;
        // The named label column and sheet belong to the labeled file.
        (options.label, options.sheet) = (None, None);
        let found = DoctorTexts::read(path, &options)?;
        report_data(&found.description, &found.skipped);
        *texts = Some(found);
    }
    Ok(given)
}

/// Reports how a file was read.
fn report_data(description: &str, skipped: &SkippedRows) {
    print_status(["data", "データ"], description);
    if skipped.count > 0 {
        print_status(["skipped", "除外"], &skipped.to_string());
    }
}
