//! The files that a command line names to be written.
//!
//! A flag of type [`OutputPath`] is written to. Every other flag that names a file ([`PathBuf`]) is read. So the parser tells
//! what a command reads, and no command can open an output without it.

use crate::Usage;
use chumoku::data::DataError;
use chumoku::output::{AtomicOutput, Inputs, check_folder};
use chumoku::tr;
use clap::ArgMatches;
use clap::builder::{PathBufValueParser, TryMapValueParser, TypedValueParser, ValueParserFactory};
use std::path::{Display, Path, PathBuf};
use std::sync::OnceLock;

/// The files that the command line names to be read. A process runs one command.
static INPUTS: OnceLock<Inputs> = OnceLock::new();

/// The inputs of the command that runs.
pub(crate) fn inputs() -> &'static Inputs {
    INPUTS.get_or_init(Inputs::none)
}

/// A file that is written, or a folder of such files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputPath(PathBuf);

impl From<PathBuf> for OutputPath {
    fn from(path: PathBuf) -> OutputPath {
        OutputPath(path)
    }
}

/// Reads an [`OutputPath`].
type Parser = TryMapValueParser<PathBufValueParser, fn(PathBuf) -> Result<OutputPath, String>>;

impl ValueParserFactory for OutputPath {
    type Parser = Parser;

    /// Takes the name of a file, and refuses `-`.
    fn value_parser() -> Parser {
        PathBufValueParser::new().try_map(|path| match path.as_os_str() == "-" {
            true => Err(tr!(
                "expected the name of a file, not standard output; ./- is a file of that name",
                "標準出力は指定できません。ファイルの名前が必要です（その名前のファイルは ./-）"
            )),
            false => Ok(OutputPath(path)),
        })
    }
}

/// Takes the name of a file, or `-` for standard output.
pub(crate) fn file_or_standard_output() -> impl TypedValueParser<Value = OutputPath> {
    PathBufValueParser::new().map(OutputPath)
}

impl OutputPath {
    /// The path, for names and endings.
    pub(crate) fn as_path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn display(&self) -> Display<'_> {
        self.0.display()
    }

    /// Whether it is standard output.
    pub(crate) fn is_standard_output(&self) -> bool {
        self.0.as_os_str() == "-"
    }

    /// A file in this folder.
    pub(crate) fn join(&self, name: impl AsRef<Path>) -> OutputPath {
        OutputPath(self.0.join(name))
    }

    /// Opens the file, which appears when it is committed.
    pub(crate) fn open(&self) -> Result<AtomicOutput, DataError> {
        AtomicOutput::create(&self.0, inputs())
    }

    /// Writes the whole file, or nothing.
    pub(crate) fn write(&self, bytes: impl AsRef<[u8]>) -> Result<(), DataError> {
        self.open()?.commit_with(bytes.as_ref())
    }

    /// Checks that [`OutputPath::open`] would open the file.
    pub(crate) fn check(&self) -> Result<(), DataError> {
        AtomicOutput::check(&self.0, inputs())
    }

    /// The file that it is or is going to be; none for devices and pipes. Windows and macOS take names that differ in
    /// case alone for one.
    fn place(&self) -> Option<PathBuf> {
        let place = match self.0.canonicalize() {
            Ok(path) => path.is_file().then_some(path)?,
            Err(_) => {
                let parent = self.0.parent().filter(|parent| !parent.as_os_str().is_empty());
                let parent = parent.unwrap_or(Path::new(".")).canonicalize().ok()?;
                parent.join(self.0.file_name()?)
            }
        };
        let ignores_case = cfg!(any(windows, target_os = "macos"));
        Some(if ignores_case { place.to_string_lossy().to_lowercase().into() } else { place })
    }
}

/// The file of a flag that was given, if it is not standard output.
pub(crate) fn file(out: &Option<OutputPath>) -> Option<&OutputPath> {
    out.as_ref().filter(|out| !out.is_standard_output())
}

/// The files that a command line names.
#[derive(Debug, Default)]
pub(crate) struct NamedFiles {
    inputs: Inputs,
    /// Each with its flag.
    outputs: Vec<(String, OutputPath)>,
}

/// Which outputs of a command are folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputKind {
    Files,
    Folders,
    /// The folder of a model, which has checks of its own.
    ModelFolder,
}

impl NamedFiles {
    /// Collects the files of a parsed command line.
    pub(crate) fn of(command: &clap::Command, matches: &ArgMatches) -> NamedFiles {
        let mut files = NamedFiles::default();
        files.collect(command, matches);
        // A file that the shell opened.
        #[cfg(unix)]
        files.inputs.add(Path::new("/dev/stdin"));
        files
    }

    fn collect(&mut self, command: &clap::Command, matches: &ArgMatches) {
        for argument in command.get_arguments() {
            let id = argument.get_id().as_str();
            if let Ok(Some(paths)) = matches.try_get_many::<PathBuf>(id) {
                paths.for_each(|path| self.inputs.add(path));
            }
            if let Ok(Some(paths)) = matches.try_get_many::<OutputPath>(id) {
                let flag = argument.get_long().map_or_else(|| id.to_owned(), |name| format!("--{name}"));
                self.outputs.extend(paths.map(|path| (flag.clone(), path.clone())));
            }
        }
        if let Some((name, matches)) = matches.subcommand()
            && let Some(command) = command.find_subcommand(name)
        {
            self.collect(command, matches);
        }
    }

    /// Checks before any work that every output can be written and replaces nothing that is read.
    pub(crate) fn check(self, kind: OutputKind) -> anyhow::Result<()> {
        let inputs = INPUTS.get_or_init(|| self.inputs);
        let mut places = Vec::new();
        for (flag, output) in self.outputs.iter().filter(|(_, output)| !output.is_standard_output()) {
            if inputs.contains(&output.0) {
                let problem = tr!(
                    "{flag} {}: that is a file that is read; name another",
                    "{flag} {}: 読み込むファイルです。別の名前にしてください",
                    output.display()
                );
                return Err(Usage(problem).into());
            }
            match kind {
                OutputKind::ModelFolder => {}
                OutputKind::Folders => check_folder(&output.0)?,
                OutputKind::Files => {
                    output.check()?;
                    let place = output.place();
                    if place.is_some() && places.contains(&place) {
                        let problem = tr!(
                            "{flag} {}: named for two files; give each a name of its own",
                            "{flag} {}: 2 つのファイルに同じ名前が指定されています。別々の名前にしてください",
                            output.display()
                        );
                        return Err(Usage(problem).into());
                    }
                    places.push(place);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use clap::CommandFactory;
    use clap::builder::ValueParser;

    /// Every flag that takes a file, as `command --flag`, with its type.
    fn files(command: &clap::Command, path: &str, found: &mut Vec<(String, bool)>) {
        for argument in command.get_arguments() {
            let parsed = argument.get_value_parser().type_id();
            let is_output = parsed == ValueParser::new(OutputPath::value_parser()).type_id();
            if is_output || parsed == ValueParser::path_buf().type_id() {
                found.push((format!("{path} {}", argument.get_id()), is_output));
            }
        }
        command.get_subcommands().for_each(|sub| files(sub, &format!("{path} {}", sub.get_name()), found));
    }

    #[test]
    fn flags_that_sound_like_outputs_are_outputs() {
        let mut found = Vec::new();
        files(&Args::command(), "chumoku", &mut found);
        let names = ["html", "svg", "png", "pdf", "out", "output"];
        let sounds = |flag: &str| names.contains(&flag.rsplit(' ').next().unwrap_or_default());
        assert!(found.iter().filter(|(_, is_output)| *is_output).count() > 20, "{found:?}");
        for (flag, is_output) in &found {
            let is_known =
                ["chumoku eval errors", "chumoku explain json", "chumoku position json", "chumoku film json"];
            assert_eq!(*is_output, sounds(flag) || is_known.contains(&flag.as_str()), "{flag}");
        }
    }
}
