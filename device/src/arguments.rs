//! The command line: a command, its places, and flags with values.

use std::collections::{BTreeMap, VecDeque};

use maskwright::Backend;
use maskwright::cuda::{EmulatorOptions, Machine};

use crate::error::RunError;

/// Flags that take no value.
const SWITCHES: [&str; 1] = ["--quick"];

/// What was written, to be taken word by word; what is left at the end is refused.
#[derive(Debug)]
pub(crate) struct Arguments {
    command: Option<String>,
    places: VecDeque<String>,
    flags: BTreeMap<String, String>,
}

impl Arguments {
    /// Splits the words.
    pub(crate) fn read(words: impl Iterator<Item = String>) -> Result<Self, RunError> {
        let mut words = words;
        let mut arguments = Self {
            command: words.next(),
            places: VecDeque::new(),
            flags: BTreeMap::new(),
        };
        while let Some(word) = words.next() {
            if !word.starts_with("--") {
                arguments.places.push_back(word);
                continue;
            }
            let value = if SWITCHES.contains(&word.as_str()) {
                String::new()
            } else {
                let missing = || RunError::Usage(format!("{word} needs a value"));
                words.next().ok_or_else(missing)?
            };
            arguments.flags.insert(word, value);
        }
        Ok(arguments)
    }

    /// The command.
    pub(crate) fn command(&self) -> Option<&str> {
        self.command.as_deref()
    }

    /// The next place.
    pub(crate) fn place(&mut self, name: &str) -> Result<String, RunError> {
        let missing = || RunError::Usage(format!("{name} is missing"));
        self.places.pop_front().ok_or_else(missing)
    }

    /// The value of a flag; a switch that was given has an empty one.
    pub(crate) fn flag(&mut self, name: &str) -> Option<String> {
        self.flags.remove(name)
    }

    /// A flag that is a number.
    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u64>, RunError> {
        let Some(found) = self.flag(name) else {
            return Ok(None);
        };
        match found.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(RunError::Usage(format!(
                "{name}: expected a number, found {found}"
            ))),
        }
    }

    /// What `--backend` names: a GPU unless it is the emulator.
    pub(crate) fn machine(&mut self) -> Result<Machine, RunError> {
        let name = self
            .flag("--backend")
            .unwrap_or_else(|| Backend::Cuda.name().to_owned());
        match Backend::from_name(&name) {
            Some(Backend::Cuda) => Ok(Machine::device(0)?),
            Some(Backend::Emulator) => Ok(Machine::emulator(EmulatorOptions::default())),
            Some(Backend::Auto | Backend::Reference | Backend::Cpu) | None => Err(RunError::Usage(
                format!("--backend: expected cuda or emulator, found {name}"),
            )),
        }
    }

    /// Refuses what no one has asked for.
    pub(crate) fn finish(&self) -> Result<(), RunError> {
        match self.places.iter().chain(self.flags.keys()).next() {
            None => Ok(()),
            Some(word) => Err(RunError::Usage(format!("{word} is one too many"))),
        }
    }
}
