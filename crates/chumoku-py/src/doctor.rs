//! Problems in labeled texts: `chumoku doctor`.

use crate::explanations::parse_language;
use crate::messages::to_py_err;
use crate::pool;
use chumoku::data::{Format, ReadOptions};
use chumoku::doctor::{DoctorInput, DoctorOptions, DoctorReport, DoctorTexts, examine as examined};
use chumoku::{Error, Lang};
use chumoku_view::doctor_to_html;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;

/// The findings, and the rows that they refer to.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct DoctorResult {
    given: DoctorInput,
    checkup: DoctorReport,
}

#[pymethods]
impl DoctorResult {
    /// The output of `chumoku doctor --json`.
    fn json(&self) -> String {
        self.checkup.to_json(&self.given).to_string()
    }

    /// The HTML report, in English ("en") or Japanese ("ja").
    fn html(&self, lang: &str) -> PyResult<String> {
        Ok(doctor_to_html(&self.given, &self.checkup, parse_language(lang)?))
    }

    /// The CSV table of findings.
    fn csv<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        // Python counts rows from 0, also where a reason refers to a row.
        let mut given = self.given.clone();
        given.dataset.layout.format = Format::Json;
        let texts = [&mut given.test, &mut given.unlabeled].into_iter().flatten().map(|texts| &mut texts.rows);
        let all = texts.chain([&mut given.dataset.examples, &mut given.incomplete]);
        all.flatten().for_each(|row| row.line = row.line.saturating_sub(1));
        let findings = self.checkup.findings(&given, Lang::En);
        let table = given.to_csv(&findings, false).map_err(|failed| to_py_err(&failed))?;
        // Only the name of the column still says "line".
        let table = [&b"file,row,"[..], table.strip_prefix(b"file,line,").unwrap_or(&table)].concat();
        Ok(PyBytes::new(py, &table))
    }
}

/// Examines rows in JSON Lines files (`text`, or `text_1` and `text_2`, and `label`). `test` and `unlabelled` are files
/// of test rows and of texts without labels.
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
) -> PyResult<DoctorResult> {
    let work = || -> Result<DoctorResult, Error> {
        let mut read = ReadOptions::default();
        read.text = Some(if pairs { "text_1,text_2" } else { "text" }.into());
        (read.missing, read.merge_labels) = (missing, merge_labels.then(Vec::new));
        let labelled = || {
            let mut read = read.clone();
            read.label = Some("label".into());
            read
        };
        let mut given = DoctorInput::read(&file, &labelled())?;
        given.test = test.map(|path| DoctorTexts::read(&path, &labelled())).transpose()?;
        given.unlabeled = unlabelled.map(|path| DoctorTexts::read(&path, &read)).transpose()?;
        // The files are temporary; messages must not name them.
        given.dataset.path = "rows".into();
        given.test.iter_mut().for_each(|texts| texts.path = "test".into());
        given.unlabeled.iter_mut().for_each(|texts| texts.path = "unlabelled".into());
        let mut options = DoctorOptions::default();
        (options.folds, options.seed) = (folds, seed);
        let checkup = examined(&given, &options, &|_| {})?;
        Ok(DoctorResult { given, checkup })
    };
    pool::run_long(py, work)?.map_err(|failed| to_py_err(&failed))
}
