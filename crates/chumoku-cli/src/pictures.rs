//! Figures in files and on the terminal.

use crate::ExitCode;
use crate::args::PictureArgs;
use crate::output::OutputPath;
use crate::terminal::terminal_options;
use chumoku_view::{Figure, Fonts, Scene};
use serde_json::Value;
use std::io::{Write, stdout};

impl PictureArgs {
    /// Returns true if any picture was requested.
    pub(crate) fn is_any_given(&self) -> bool {
        self.svg.is_some() || self.png.is_some() || self.pdf.is_some()
    }

    /// Loads the fonts, which takes longer than drawing a picture.
    pub(crate) fn fonts(&self) -> anyhow::Result<Fonts> {
        Ok(match &self.font {
            Some(path) => Fonts::from_file(path)?,
            None => Fonts::installed()?,
        })
    }

    /// Writes the requested files independently of each other. `place` maps a path named by the user to the file.
    pub(crate) fn draw(
        &self,
        fonts: &Fonts,
        scene: &Scene,
        outcome: &mut OutputFiles,
        place: impl Fn(&OutputPath, &str) -> OutputPath,
    ) {
        let mut one = |path: &Option<OutputPath>, form: &str, bytes: &dyn Fn() -> chumoku::Result<Vec<u8>>| {
            if let Some(path) = path {
                outcome.write(&place(path, form), || Ok(bytes()?));
            }
        };
        one(&self.svg, "svg", &|| fonts.svg(scene).map(String::into_bytes));
        // Two pixels per point: sharp on high-resolution screens and in print.
        one(&self.png, "png", &|| fonts.png(scene, 2.0));
        one(&self.pdf, "pdf", &|| fonts.pdf(scene));
    }

    /// Writes the requested files.
    pub(crate) fn write(&self, figure: &Figure, outcome: &mut OutputFiles) {
        if self.is_any_given() {
            match self.fonts() {
                Ok(fonts) => self.draw(&fonts, &figure.scene(), outcome, |path, _| path.clone()),
                Err(error) => outcome.add_problem(error),
            }
        }
    }
}

/// The files of a command. If one of them cannot be written, the others still are.
#[derive(Default)]
pub(crate) struct OutputFiles {
    pub(crate) written: Vec<OutputPath>,
    problems: Vec<anyhow::Error>,
}

impl OutputFiles {
    /// Writes a file completely or not at all.
    pub(crate) fn write<B: AsRef<[u8]>>(&mut self, path: &OutputPath, bytes: impl FnOnce() -> anyhow::Result<B>) {
        match bytes().and_then(|bytes| Ok(path.write(bytes)?)) {
            Ok(()) => self.written.push(path.clone()),
            Err(error) => self.add_problem(error),
        }
    }

    /// Keeps an error, once if several files have the same.
    fn add_problem(&mut self, problem: anyhow::Error) {
        if !self.problems.iter().any(|other| format!("{other:#}") == format!("{problem:#}")) {
            self.problems.push(problem);
        }
    }

    /// Reports the files that were written.
    pub(crate) fn report(&self) {
        for path in &self.written {
            say!("{}", chumoku::tr!("wrote {}", "{} を書き出しました", path.display()));
        }
    }

    /// Returns the first error, if there is one, after printing the others.
    pub(crate) fn result(self) -> anyhow::Result<()> {
        let mut problems = self.problems.into_iter();
        let Some(first) = problems.next() else { return Ok(()) };
        for other in problems {
            say!(
                "{}",
                chumoku::tr!(
                    "also not written: {}",
                    "こちらも書き出せませんでした: {}",
                    crate::usage::one_line(&other)
                )
            );
        }
        Err(first)
    }
}

/// The outputs of a command in addition to its pictures.
pub(crate) struct FigureOutputs<'a> {
    pub(crate) html: Option<&'a OutputPath>,
    pub(crate) json: Option<&'a OutputPath>,
    /// Text for the terminal; the figure by default.
    pub(crate) text: Option<String>,
}

impl FigureOutputs<'_> {
    /// Writes the page, the pictures and the JSON if requested, and the text unless the JSON goes to standard output.
    /// Writes as much as possible before it returns an error.
    pub(crate) fn write_all(
        self,
        pictures: &PictureArgs,
        figure: &Figure,
        page: impl FnOnce() -> anyhow::Result<String>,
        json: impl Fn() -> Value,
    ) -> anyhow::Result<ExitCode> {
        let mut outcome = OutputFiles::default();
        pictures.write(figure, &mut outcome);
        if let Some(path) = self.html {
            outcome.write(path, page);
        }
        let is_dash = self.json.is_some_and(OutputPath::is_standard_output);
        if let Some(path) = self.json.filter(|_| !is_dash) {
            outcome.write(path, || Ok(format!("{}\n", json())));
        }
        if !is_dash && outcome.written.is_empty() && !outcome.problems.is_empty() {
            // None of the requested files could be written: return the error alone.
            outcome.result()?;
            return Ok(ExitCode::SUCCESS);
        }
        outcome.report();
        if is_dash {
            writeln!(stdout(), "{}", json())?;
        } else {
            let text = self.text.unwrap_or_else(|| figure.to_text(&terminal_options(figure.lang)));
            write!(stdout(), "{text}")?;
        }
        outcome.result()?;
        Ok(ExitCode::SUCCESS)
    }
}
