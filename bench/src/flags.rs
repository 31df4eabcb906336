//! The arguments of a subcommand.

use std::fmt::Display;
use std::num::NonZero;
use std::str::FromStr;

/// The remaining arguments.
pub(crate) struct Flags(Vec<String>);

impl Flags {
    pub(crate) fn new(args: impl IntoIterator<Item = String>) -> Flags {
        Flags(args.into_iter().collect())
    }

    /// Takes the next argument, which must not be a flag. `what` names it in the error.
    pub(crate) fn positional(&mut self, what: &str) -> Result<String, String> {
        match self.0.first() {
            Some(arg) if !arg.starts_with("--") => Ok(self.0.remove(0)),
            _ => Err(format!("expected {what}")),
        }
    }

    /// Takes a flag without a value. Returns whether it was given.
    pub(crate) fn is_given(&mut self, flag: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|arg| arg != flag);
        self.0.len() < before
    }

    /// Takes a flag and its value.
    pub(crate) fn value<T: FromStr<Err: Display>>(&mut self, flag: &str) -> Result<Option<T>, String> {
        let Some(at) = self.0.iter().position(|arg| arg == flag) else { return Ok(None) };
        let text = self.0.drain(at..self.0.len().min(at + 2)).nth(1).ok_or(format!("{flag}: expected a value"))?;
        text.parse().map(Some).map_err(|error| format!("{flag} {text}: {error}"))
    }

    /// Takes a flag and its comma-separated values.
    pub(crate) fn list<T: FromStr<Err: Display>>(&mut self, flag: &str) -> Result<Option<Vec<T>>, String> {
        let Some(text) = self.value::<String>(flag)? else { return Ok(None) };
        let values = text.split(',').map(str::parse).collect::<Result<_, _>>();
        values.map(Some).map_err(|error| format!("{flag} {text}: {error}"))
    }

    /// Takes a number of at least 1.
    pub(crate) fn number(&mut self, flag: &str, default: usize) -> Result<usize, String> {
        Ok(self.value(flag)?.map_or(default, NonZero::get))
    }

    /// Takes numbers of at least 1.
    pub(crate) fn numbers(&mut self, flag: &str, default: &[usize]) -> Result<Vec<usize>, String> {
        let numbers = self.list(flag)?;
        Ok(numbers.map_or(default.to_vec(), |numbers| numbers.into_iter().map(NonZero::get).collect()))
    }

    /// Takes a flag whose value is one of several names.
    pub(crate) fn named<T>(&mut self, flag: &str, find: impl Fn(&str) -> Option<T>) -> Result<Option<T>, String> {
        let name = self.value::<String>(flag)?;
        name.map(|name| find(&name).ok_or(format!("{flag}: nothing is called {name}"))).transpose()
    }

    /// Refuses remaining arguments.
    pub(crate) fn end(self) -> Result<(), String> {
        self.0.first().map_or(Ok(()), |arg| Err(format!("unknown argument {arg}")))
    }

    /// Takes `--threads` (two by default), refuses remaining arguments, and starts that many threads.
    pub(crate) fn start_threads(mut self) -> Result<usize, String> {
        let threads = self.number("--threads", 2)?;
        self.end()?;
        let started = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
        started.map(|()| threads).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(args: &str) -> Flags {
        Flags::new(args.split(' ').map(String::from))
    }

    #[test]
    fn arguments_are_taken_once() {
        let mut given = flags("folder --threads 2,1 --fast --rounds 5");
        assert_eq!(given.positional("a folder"), Ok("folder".into()));
        assert_eq!(given.numbers("--threads", &[4]), Ok(vec![2, 1]));
        assert_eq!([given.is_given("--fast"), given.is_given("--fast")], [true, false]);
        assert_eq!([given.number("--rounds", 3), given.number("--rounds", 3)], [Ok(5), Ok(3)]);
        assert_eq!(given.end(), Ok(()));
    }

    #[test]
    fn arguments_that_cannot_be_are_named() {
        assert!(flags("--rounds 0").number("--rounds", 3).unwrap_err().contains("--rounds 0"));
        assert!(flags("--rounds").number("--rounds", 3).unwrap_err().contains("--rounds: expected a value"));
        assert!(flags("--threads 2,0").numbers("--threads", &[4]).unwrap_err().contains("--threads 2,0"));
        assert!(flags("--isa z80").named("--isa", |_| None::<()>).unwrap_err().contains("z80"));
        assert!(flags("--rounds 3").positional("a folder").unwrap_err().contains("a folder"));
        assert!(flags("--color").end().unwrap_err().contains("--color"));
    }
}
