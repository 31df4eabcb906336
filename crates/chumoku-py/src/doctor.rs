//! What is wrong with labelled texts: `chumoku doctor`.

use crate::pages::language;
use crate::pool;
use crate::wording::error;
use chumoku::data::{Format, ReadOptions};
use chumoku::doctor::{Checkup, Given, Options, Texts, examine as examined};
use chumoku::{Error, Lang};
use chumoku_view::doctor_to_html;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;

/// What was found, with the rows that it was found in.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct Examined {
    given: Given,
    checkup: Checkup,
}

#[pymethods]
impl Examined {
    /// What `chumoku doctor --json` writes.
    fn json(&self) -> String {
        self.checkup.to_json(&self.given).to_string()
    }

    /// The page that it writes, in English ("en") or Japanese ("ja").
    fn html(&self, lang: &str) -> PyResult<String> {
        Ok(doctor_to_html(&self.given, &self.checkup, language(lang)?))
    }

    /// The table that it writes.
    fn csv<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        // Rows that are counted from 0, as Python counts them, also where a reason names them.
        let mut given = self.given.clone();
        given.dataset.layout.format = Format::Json;
        let texts = [&mut given.test, &mut given.unlabelled].into_iter().flatten().map(|texts| &mut texts.rows);
        let all = texts.chain([&mut given.dataset.examples, &mut given.gaps]);
        all.flatten().for_each(|row| row.line = row.line.saturating_sub(1));
        let findings = self.checkup.findings(&given, Lang::En);
        let table = given.to_csv(&findings, false).map_err(|failed| error(&failed))?;
        // The name of the column is all that is left of lines.
        let table = [&b"file,row,"[..], table.strip_prefix(b"file,line,").unwrap_or(&table)].concat();
        Ok(PyBytes::new(py, &table))
    }
}

/// Examines rows as JSON lines (`text`, or `text_1` and `text_2`, and `label`), with files of test rows and of texts without labels.
#[pyfunction]
#[pyo3(signature = (file, test, unlabelled, pairs, folds, seed, missing, merge_labels))]
#[allow(clippy::too_many_arguments, reason = "the arguments of the function in Python")]
pub(crate) fn examine(
    py: Python<'_>,
    file: PathBuf,
    test: Option<PathBuf>,
    unlabelled: Option<PathBuf>,
    pairs: bool,
    folds: usize,
    seed: u64,
    missing: Option<Vec<String>>,
    merge_labels: bool,
) -> PyResult<Examined> {
    let work = || -> Result<Examined, Error> {
        let mut read = ReadOptions::default();
        read.text = Some(if pairs { "text_1,text_2" } else { "text" }.into());
        (read.missing, read.merge_labels) = (missing, merge_labels.then(Vec::new));
        let labelled = || {
            let mut read = read.clone();
            read.label = Some("label".into());
            read
        };
        let mut given = Given::read(&file, &labelled())?;
        given.test = test.map(|path| Texts::read(&path, &labelled())).transpose()?;
        given.unlabelled = unlabelled.map(|path| Texts::read(&path, &read)).transpose()?;
        // The files are ours, and gone when somebody reads of them.
        given.dataset.path = "rows".into();
        given.test.iter_mut().for_each(|texts| texts.path = "test".into());
        given.unlabelled.iter_mut().for_each(|texts| texts.path = "unlabelled".into());
        let mut options = Options::default();
        (options.folds, options.seed) = (folds, seed);
        let checkup = examined(&given, &options, &|_| {})?;
        Ok(Examined { given, checkup })
    };
    pool::run_long(py, work)?.map_err(|failed| error(&failed))
}
