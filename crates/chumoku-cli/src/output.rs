//! The output files of a command line.
//!
//! The value of a flag of type [`OutputPath`] is written. All other file flags ([`PathBuf`]) are read. So the parser
//! knows the inputs of a command, and no command can open an output without checking against them.

use crate::UsageError;
use chumoku::data::{DataError, standard_input};
use chumoku::output::{AtomicOutput, InputFiles, check_folder_writable};
use chumoku::tr;
use clap::ArgMatches;
use clap::builder::{PathBufValueParser, TryMapValueParser, TypedValueParser, ValueParserFactory};
use std::path::{Display, Path, PathBuf};
use std::sync::OnceLock;

/// The files that the command line names as inputs. A process runs one command.
static INPUTS: OnceLock<InputFiles> = OnceLock::new();

/// Returns the inputs of the running command: the files named on the command line, and other files that it has read.
pub(crate) fn inputs() -> InputFiles {
    INPUTS.get_or_init(InputFiles::empty).clone().with_recorded()
}

/// Registers an input that no flag names, such as the training file of a model.
pub(crate) fn add_input(path: &Path) -> Result<(), UsageError> {
    InputFiles::record_read(path);
    check_standard_output(&InputFiles::from_paths([path]))
}

/// Registers standard input as an input. Call it before reading rows from it.
pub(crate) fn add_standard_input() -> Result<(), UsageError> {
    // Standard input may be a file that the shell opened.
    if cfg!(unix) { add_input(Path::new(STANDARD_INPUT)) } else { Ok(()) }
}

/// Refuses a command that prints into one of its inputs.
fn check_standard_output(inputs: &InputFiles) -> Result<(), UsageError> {
    let Some(path) = inputs.opened_as_stdout() else { return Ok(()) };
    let name = if path == Path::new(STANDARD_INPUT) { Path::new(standard_input()) } else { path };
    Err(UsageError(tr!(
        "{}: the input file is also the output file; redirect standard output to another file",
        "{}: 入力ファイルが標準出力の出力先になっています。別のファイルに出力してください",
        name.display()
    )))
}

/// A file to write, or a folder of such files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputPath(PathBuf);

impl From<PathBuf> for OutputPath {
    fn from(path: PathBuf) -> OutputPath {
        OutputPath(path)
    }
}

/// Parses an [`OutputPath`].
type OutputPathParser = TryMapValueParser<PathBufValueParser, fn(PathBuf) -> Result<OutputPath, String>>;

impl ValueParserFactory for OutputPath {
    type Parser = OutputPathParser;

    /// Accepts a file name, and refuses `-`.
    fn value_parser() -> OutputPathParser {
        PathBufValueParser::new().try_map(|path| match path.as_os_str() == "-" {
            true => Err(tr!(
                "expected the name of a file, not standard output; ./- is a file of that name",
                "標準出力は指定できません。ファイルの名前が必要です（その名前のファイルは ./-）"
            )),
            false => Ok(OutputPath(path)),
        })
    }
}

/// Accepts a file name, or `-` for standard output.
pub(crate) fn file_or_standard_output() -> impl TypedValueParser<Value = OutputPath> {
    PathBufValueParser::new().map(OutputPath)
}

impl OutputPath {
    /// Returns the path, for names and extensions.
    pub(crate) fn as_path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn display(&self) -> Display<'_> {
        self.0.display()
    }

    /// Returns the extension in lower case.
    pub(crate) fn extension(&self) -> Option<String> {
        self.0.extension().map(|extension| extension.to_string_lossy().to_lowercase())
    }

    /// Refuses a name whose extension is none of `known`; a name without one is accepted. `formats` lists the extensions
    /// of the command for the message.
    pub(crate) fn check_extension(&self, known: &[&str], formats: &[&str]) -> Result<(), UsageError> {
        let formats = formats.join(", ");
        match self.extension() {
            Some(extension) if !known.contains(&extension.as_str()) => Err(UsageError(tr!(
                "--out {}: expected a name that ends in one of {formats}; or choose the format with --format",
                "--out {}: {formats} のいずれかで終わる名前が必要です。--format で形式を指定することもできます",
                self.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Returns true if the path is `-`, standard output.
    pub(crate) fn is_standard_output(&self) -> bool {
        self.0.as_os_str() == "-"
    }

    /// Returns a file in this folder.
    pub(crate) fn join(&self, name: impl AsRef<Path>) -> OutputPath {
        OutputPath(self.0.join(name))
    }

    /// Opens the file, which appears once it is committed.
    pub(crate) fn open(&self) -> Result<AtomicOutput, DataError> {
        AtomicOutput::create(&self.0, &inputs())
    }

    /// Writes the file completely or not at all.
    pub(crate) fn write(&self, bytes: impl AsRef<[u8]>) -> Result<(), DataError> {
        self.open()?.commit_with(bytes.as_ref())
    }

    /// Checks that [`OutputPath::open`] would open the file.
    pub(crate) fn check(&self) -> Result<(), DataError> {
        AtomicOutput::check(&self.0, &inputs())
    }

    /// Returns the resolved path of the file; `None` for devices and pipes. Windows and macOS ignore letter case in
    /// names.
    fn resolved(&self) -> Option<PathBuf> {
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

/// Returns the file of a flag, unless it is standard output.
pub(crate) fn output_file(out: &Option<OutputPath>) -> Option<&OutputPath> {
    out.as_ref().filter(|out| !out.is_standard_output())
}

/// The name that opens standard input on Unix.
const STANDARD_INPUT: &str = "/dev/stdin";

/// Returns true if the help of a flag says that it takes a file.
fn takes_file(argument: &clap::Arg) -> bool {
    // Flags without a value have a name too: PROFILE contains FILE, but is no file.
    let is_file = |name: &str| name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word.starts_with("FILE"));
    argument.get_value_names().is_some_and(|names| names.iter().any(|name| is_file(name)))
}

/// The files that a command line names.
#[derive(Debug, Default)]
pub(crate) struct NamedFiles {
    inputs: InputFiles,
    /// Outputs with their flags.
    outputs: Vec<(String, OutputPath)>,
}

/// Kind of a command's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputKind {
    Files,
    Folders,
    /// A model folder, which has its own checks.
    ModelFolder,
}

impl NamedFiles {
    /// Collects the files of a parsed command line.
    pub(crate) fn from_matches(command: &clap::Command, matches: &ArgMatches) -> NamedFiles {
        let mut files = NamedFiles::default();
        files.collect(command, matches);
        files
    }

    fn collect(&mut self, command: &clap::Command, matches: &ArgMatches) {
        for argument in command.get_arguments() {
            let id = argument.get_id().as_str();
            if let Ok(Some(paths)) = matches.try_get_many::<PathBuf>(id) {
                let named = |path: &PathBuf| if path.as_os_str() == "-" { STANDARD_INPUT.into() } else { path.clone() };
                paths.map(named).for_each(|path| self.inputs.add(&path));
            }
            // A value that may be a file name, such as SEPARATOR|FILE.
            if let Ok(Some(words)) = matches.try_get_many::<String>(id)
                && takes_file(argument)
            {
                words.map(Path::new).filter(|word| word.is_file()).for_each(|word| self.inputs.add(word));
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

    /// Checks before the work that every output can be written and overwrites no input.
    pub(crate) fn check(self, kind: OutputKind) -> anyhow::Result<()> {
        let inputs = INPUTS.get_or_init(|| self.inputs);
        check_standard_output(inputs)?;
        let mut places = Vec::new();
        for (flag, output) in self.outputs.iter().filter(|(_, output)| !output.is_standard_output()) {
            refuse_if!(
                inputs.contains(&output.0),
                "{flag} {}: this is an input file; choose another output",
                "{flag} {}: 入力ファイルです。別の出力先を指定してください",
                output.display()
            );
            match kind {
                OutputKind::ModelFolder => {}
                OutputKind::Folders => check_folder_writable(&output.0)?,
                OutputKind::Files => {
                    output.check()?;
                    let place = output.resolved();
                    refuse_if!(
                        place.is_some() && places.contains(&place),
                        "{flag} {}: the name of two output files; give each its own name",
                        "{flag} {}: 2 つのファイルに同じ名前が指定されています。別々の名前にしてください",
                        output.display()
                    );
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
    use crate::args::{Cli, ReadArgs};
    use clap::builder::ValueParser;
    use clap::{Args as _, CommandFactory};

    /// Collects every flag that takes a file, as `command --flag`, and whether it is an output.
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

    /// Visits all commands with their paths.
    fn commands(command: &clap::Command, path: &str, visit: &mut impl FnMut(&str, &clap::Command)) {
        visit(path, command);
        command.get_subcommands().for_each(|sub| commands(sub, &format!("{path} {}", sub.get_name()), visit));
    }

    #[test]
    fn flags_that_take_a_file_have_a_file_type() {
        let mut found = Vec::new();
        files(&Cli::command(), "chumoku", &mut found);
        let mut named = Vec::new();
        commands(&Cli::command(), "chumoku", &mut |path: &str, command: &clap::Command| {
            let of_files = command.get_arguments().filter(|argument| takes_file(argument));
            named.extend(of_files.map(|argument| format!("{path} {}", argument.get_id())));
        });
        let unknown = named.iter().filter(|flag| !found.iter().any(|(known, _)| known == *flag));
        assert_eq!(unknown.collect::<Vec<_>>(), ["chumoku train hierarchy"]);
        let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let matches = Cli::command().get_matches_from(["chumoku", "train", "a.csv", "--hierarchy", tree]);
        assert!(NamedFiles::from_matches(&Cli::command(), &matches).inputs.contains(Path::new(tree)));
    }

    #[test]
    fn commands_that_read_tables_have_the_same_reading_flags() {
        // Models, tensors, worked examples, shards, fonts and numbers are not tables.
        let no_table = |flag: &str| {
            let (path, id) = flag.rsplit_once(' ').unwrap();
            let name = path.rsplit(' ').next().unwrap();
            ["model", "models", "compare_model", "font", "from", "lengths"].contains(&id)
                || ["attend", "check", "trace", "join"].contains(&name)
        };
        let mut reading = Vec::new();
        let mut found = Vec::new();
        files(&Cli::command(), "chumoku", &mut found);
        let own = |command: &clap::Command| {
            let name = |argument: &clap::Arg| argument.get_long().unwrap_or_default().to_owned();
            command.get_arguments().map(name).collect::<Vec<_>>()
        };
        let expected = own(&ReadArgs::augment_args(clap::Command::new("reading")));
        assert!(expected.len() == 10 && expected.contains(&"missing".to_owned()), "{expected:?}");
        commands(&Cli::command(), "chumoku", &mut |path: &str, command: &clap::Command| {
            let inputs = found.iter().filter(|(_, is_output)| !is_output).map(|(flag, _)| flag);
            let mut of_command = inputs.filter(|flag| flag.rsplit_once(' ').unwrap().0 == path);
            if of_command.any(|flag| !no_table(flag)) {
                let flags = own(command);
                // For `embed`, `--format` is the format of the embeddings.
                let lacks = |flag: &&String| match (path, flag.as_str()) {
                    ("chumoku embed", "format") => !flags.contains(&"input-format".to_owned()),
                    _ => !flags.contains(flag),
                };
                assert_eq!(expected.iter().filter(lacks).collect::<Vec<_>>(), [""; 0], "{path}");
                reading.push(path.rsplit(' ').next().unwrap().to_owned());
            }
        });
        let all = ["train", "eval", "predict", "doctor", "embed", "nearest", "translate", "explain", "compare"];
        assert_eq!(reading, all);
    }

    #[test]
    fn flags_that_sound_like_outputs_are_outputs() {
        let mut found = Vec::new();
        files(&Cli::command(), "chumoku", &mut found);
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
