//! Figures in files and on the terminal.

use super::explain::{terminal_options, write};
use crate::args::Pictures;
use chumoku::view::{Figure, Fonts, Scene};
use serde_json::Value;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

impl Pictures {
    /// Whether any is asked for.
    pub(crate) fn any(&self) -> bool {
        self.svg.is_some() || self.png.is_some() || self.pdf.is_some()
    }

    /// The fonts to draw with; finding them takes longer than a picture.
    pub(crate) fn fonts(&self) -> anyhow::Result<Fonts> {
        Ok(match &self.font {
            Some(path) => Fonts::of_file(path)?,
            None => Fonts::installed()?,
        })
    }

    /// Writes the files that are asked for; `place` says where, given what the user named.
    pub(crate) fn draw(
        &self,
        fonts: &Fonts,
        scene: &Scene,
        place: impl Fn(&Path, &str) -> PathBuf,
    ) -> anyhow::Result<Vec<PathBuf>> {
        let mut written = Vec::new();
        if let Some(path) = &self.svg {
            written.push(place(path, "svg"));
            write(&written[written.len() - 1], fonts.svg(scene)?)?;
        }
        if let Some(path) = &self.png {
            // Twice as many pixels as points: sharp on the screens of today, and in print.
            written.push(place(path, "png"));
            write(&written[written.len() - 1], fonts.png(scene, 2.0)?)?;
        }
        if let Some(path) = &self.pdf {
            written.push(place(path, "pdf"));
            write(&written[written.len() - 1], fonts.pdf(scene)?)?;
        }
        Ok(written)
    }

    /// Writes the files that are asked for, and says so.
    pub(crate) fn write(&self, figure: &Figure) -> anyhow::Result<()> {
        if self.any() {
            for path in self.draw(&self.fonts()?, &figure.scene(), |path, _| path.to_owned())? {
                say!("wrote {}", path.display());
            }
        }
        Ok(())
    }
}

/// What is shown beside the picture itself.
pub(crate) struct Shown<'a> {
    pub(crate) html: Option<&'a Path>,
    pub(crate) json: Option<&'a Path>,
    /// What the terminal shows; the figure unless it is given.
    pub(crate) text: Option<String>,
}

impl Shown<'_> {
    /// Writes the page, the pictures and the JSON where they are asked for, and the text unless the JSON goes to standard
    /// output.
    pub(crate) fn show(
        self,
        pictures: &Pictures,
        figure: &Figure,
        page: impl FnOnce() -> anyhow::Result<String>,
        json: impl FnOnce() -> Value,
    ) -> anyhow::Result<ExitCode> {
        pictures.write(figure)?;
        if let Some(path) = self.html {
            write(path, page()?)?;
            say!("wrote {}", path.display());
        }
        match self.json {
            Some(path) if path.as_os_str() == "-" => {
                writeln!(stdout(), "{}", json())?;
                return Ok(ExitCode::SUCCESS);
            }
            Some(path) => {
                write(path, format!("{}\n", json()))?;
                say!("wrote {}", path.display());
            }
            None => {}
        }
        let text = self.text.unwrap_or_else(|| figure.to_text(&terminal_options(figure.lang)));
        write!(stdout(), "{text}")?;
        Ok(ExitCode::SUCCESS)
    }
}
