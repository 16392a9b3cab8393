//! What stands outside of functions.

use std::collections::{HashMap, HashSet};

use super::cursor::{Cursor, Place};
use super::declaration::{array_bytes, dimensions, shape, space_named};
use super::error::{ParseError, ParseFault};
use super::initialiser::initialiser;
use super::literal::{count, literal};
use super::token::Kind;
use crate::ast::{Function, Location, Module, Space, Variable};

/// Reads the tokens of a whole file.
pub(super) fn module(cursor: Cursor<'_>) -> Result<Module, ParseError> {
    let mut reader = Reader {
        cursor,
        module: Module::default(),
        file_numbers: HashMap::new(),
        source: (0, 0),
        functions: HashMap::new(),
        undefined: Vec::new(),
        variables: HashMap::new(),
        taken: HashSet::new(),
        n_renamed: 0,
        n_targets: 0,
        init_bytes: 0,
    };
    reader.files()?;
    reader.header()?;
    while !reader.cursor.is_end() {
        reader.item()?;
    }
    Ok(reader.finish())
}

/// Whether and where a name of module scope is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Definition {
    /// Only declared so far.
    Missing,
    /// Defined.
    Given,
}

/// A variable of module scope.
struct Global {
    unique: String,
    definition: Definition,
}

/// How the name of a declaration is to be linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linkage {
    /// Defined elsewhere.
    Extern,
    /// Everything else.
    Own,
}

/// The state of reading a file.
pub(super) struct Reader<'t> {
    pub(super) cursor: Cursor<'t>,
    pub(super) module: Module,
    /// The number of a `.file`, and its index plus 1.
    file_numbers: HashMap<u64, u32>,
    /// What the last `.loc` said: file and line.
    pub(super) source: (u32, u32),
    pub(super) functions: HashMap<&'t str, Definition>,
    pub(super) undefined: Vec<Function>,
    variables: HashMap<&'t str, Global>,
    /// Names of all variables in memory, which are unique in the module.
    taken: HashSet<String>,
    n_renamed: u64,
    /// Branch targets of all `brx.idx` so far.
    pub(super) n_targets: usize,
    init_bytes: u64,
}

impl<'t> Reader<'t> {
    /// Numbers the files first, since `.loc` may come before `.file`.
    fn files(&mut self) -> Result<(), ParseError> {
        let start = self.cursor.place();
        while !self.cursor.is_end() {
            if self.cursor.took_dotted("file") {
                self.file()?;
            } else {
                self.cursor.take();
            }
        }
        self.cursor.go_to(start);
        Ok(())
    }

    /// `1 "kernel.cu", 1700000000, 4096`
    fn file(&mut self) -> Result<(), ParseError> {
        let number = count(
            &mut self.cursor,
            "the number of a file",
            u64::from(u32::MAX),
        )?;
        let name = self.cursor.string()?;
        if !self.file_numbers.contains_key(&number) {
            self.module.files.push(name.to_owned());
            let index = self.module.files.len() as u32;
            self.file_numbers.insert(number, index);
        }
        while self.cursor.took_mark(b',') {
            literal(&mut self.cursor)?;
        }
        Ok(())
    }

    fn header(&mut self) -> Result<(), ParseError> {
        let cursor = &mut self.cursor;
        if !cursor.took_dotted("version") {
            return Err(cursor.unexpected("`.version`"));
        }
        let version = cursor.peek().split_once('.');
        let version =
            version.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        self.module.version = version.ok_or_else(|| cursor.unexpected("a version like `8.0`"))?;
        cursor.take();
        if !cursor.took_dotted("target") {
            return Err(cursor.unexpected("`.target`"));
        }
        cursor
            .word("a target like `sm_80`")?
            .clone_into(&mut self.module.target);
        while cursor.took_mark(b',') {
            cursor.word("an option of the target")?;
        }
        Ok(())
    }

    fn item(&mut self) -> Result<(), ParseError> {
        let mut linkage = Linkage::Own;
        let Some(mut dotted) = self.cursor.peek_dotted() else {
            return Err(self
                .cursor
                .unexpected("a directive, a variable or a function"));
        };
        while matches!(
            dotted,
            "extern" | "visible" | "weak" | "common" | "hidden" | "internal"
        ) {
            if dotted == "extern" {
                linkage = Linkage::Extern;
            }
            self.cursor.take();
            dotted = match self.cursor.peek_dotted() {
                Some(dotted) => dotted,
                None => return Err(self.cursor.unexpected("a variable or a function")),
            };
        }
        match dotted {
            "entry" | "func" => {
                self.cursor.take();
                self.function(dotted == "entry")
            }
            "global" | "shared" | "const" => {
                let space = space_named(dotted).expect("these three are names of spaces");
                self.cursor.take();
                self.globals(space, linkage)
            }
            "file" => {
                self.cursor.take();
                self.file()
            }
            "loc" => self.loc(),
            "pragma" => self.cursor.skip_statement(),
            "address_size" => {
                self.cursor.take();
                let place = self.cursor.place();
                if count(&mut self.cursor, "bits of an address", 64)? == 64 {
                    return Ok(());
                }
                let what = "addresses of other than 64 bits";
                Err(self
                    .cursor
                    .fault_at(place, ParseFault::Unsupported { what }))
            }
            "section" => {
                self.cursor.take();
                if matches!(self.cursor.kind(), Kind::Dotted | Kind::Word) {
                    self.cursor.take();
                }
                if !self.cursor.at_mark(b'{') {
                    return Err(self.cursor.unexpected("`{`"));
                }
                self.cursor.skip_pair(b'{', b'}')
            }
            "alias" => {
                let what = "aliases";
                Err(self.cursor.fault(ParseFault::Unsupported { what }))
            }
            _ => Err(self
                .cursor
                .unexpected("a directive, a variable or a function")),
        }
    }

    /// `.loc 1 20 3, function_name $L__info_string0, inlined_at 1 40 5`
    pub(super) fn loc(&mut self) -> Result<(), ParseError> {
        const MAX: u64 = u32::MAX as u64;
        let cursor = &mut self.cursor;
        cursor.take();
        let file = count(cursor, "the number of a file", MAX)?;
        let line = count(cursor, "a line", MAX)? as u32;
        if cursor.kind() == Kind::Number {
            count(cursor, "a column", MAX)?;
        }
        while cursor.took_mark(b',') {
            match cursor.word("`function_name` or `inlined_at`")? {
                "function_name" => {
                    cursor.word("a label")?;
                    if cursor.took_mark(b'+') {
                        literal(cursor)?;
                    }
                }
                _ => {
                    while cursor.kind() == Kind::Number {
                        cursor.take();
                    }
                }
            }
        }
        let file = self.file_numbers.get(&file).copied().unwrap_or(0);
        self.source = (file, line);
        Ok(())
    }

    pub(super) fn location(&self) -> Location {
        let (file, source_line) = self.source;
        let line = self.cursor.line();
        Location {
            line,
            file,
            source_line,
        }
    }

    fn globals(&mut self, space: Space, linkage: Linkage) -> Result<(), ParseError> {
        self.source = (0, 0);
        for (name, place, mut variable) in self.variables_of(space, linkage)? {
            if self.functions.contains_key(name) {
                return Err(self.duplicate(name, place));
            }
            let definition = match linkage {
                Linkage::Extern if space != Space::Shared => Definition::Missing,
                Linkage::Extern | Linkage::Own => Definition::Given,
            };
            match self.variables.get_mut(name) {
                Some(global) if global.definition == Definition::Missing => {
                    global.definition = definition;
                    variable.name.clone_from(&global.unique);
                }
                Some(_) if linkage == Linkage::Extern => continue,
                Some(_) => return Err(self.duplicate(name, place)),
                None => {
                    let unique = self.unique(name);
                    variable.name.clone_from(&unique);
                    self.variables.insert(name, Global { unique, definition });
                }
            }
            if definition == Definition::Given {
                self.module.variables.push(variable);
            }
        }
        Ok(())
    }

    /// The variables of a declaration whose space has been read, up to and with the `;`.
    pub(super) fn variables_of(
        &mut self,
        space: Space,
        linkage: Linkage,
    ) -> Result<Vec<(&'t str, Place, Variable)>, ParseError> {
        let shape = shape(&mut self.cursor)?;
        let mut variables = Vec::new();
        loop {
            let location = self.location();
            let place = self.cursor.place();
            let name = self.cursor.word("the name of a variable")?;
            let dimensions = dimensions(&mut self.cursor)?;
            let is_unsized = dimensions.contains(&None);
            match (linkage, space) {
                (Linkage::Extern, Space::Shared) if !is_unsized => {
                    return Err(self.cursor.unexpected("`[]` after external shared memory"));
                }
                (Linkage::Own, _) if is_unsized => {
                    return Err(self.cursor.fault_at(
                        place,
                        ParseFault::Unsupported {
                            what: "arrays without a size, other than external ones",
                        },
                    ));
                }
                _ => {}
            }
            let size = array_bytes(&self.cursor, space, shape.bytes(), &dimensions)?;
            let mut init = Vec::new();
            if matches!(space, Space::Global | Space::Const) && self.cursor.took_mark(b'=') {
                let used = &mut self.init_bytes;
                init = initialiser(&mut self.cursor, shape, &dimensions, used)?;
            }
            let variable = Variable {
                name: name.to_owned(),
                space,
                align: shape.align,
                size,
                init,
                location,
            };
            variables.push((name, place, variable));
            if !self.cursor.took_mark(b',') {
                break;
            }
        }
        self.cursor.end_of_statement()?;
        Ok(variables)
    }

    pub(super) fn global(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(|global| global.unique.clone())
    }

    pub(super) fn is_taken(&self, name: &str) -> bool {
        self.taken.contains(name) || self.variables.contains_key(name)
    }

    /// The name itself if no variable or function has it, else one that the text cannot hold.
    pub(super) fn unique(&mut self, name: &str) -> String {
        if !self.functions.contains_key(name) && self.taken.insert(name.to_owned()) {
            return name.to_owned();
        }
        self.renamed(name)
    }

    pub(super) fn renamed(&mut self, name: &str) -> String {
        self.n_renamed += 1;
        format!("{name}@{}", self.n_renamed)
    }

    pub(super) fn duplicate(&self, name: &str, place: Place) -> ParseError {
        let name = name.to_owned();
        self.cursor.fault_at(place, ParseFault::Duplicate { name })
    }

    fn finish(self) -> Module {
        let mut module = self.module;
        let is_missing = |function: &Function| {
            self.functions.get(function.name.as_str()) == Some(&Definition::Missing)
        };
        module
            .functions
            .extend(self.undefined.into_iter().filter(is_missing));
        module
    }
}
