//! Heads of kernels and of device functions.

use super::declaration::{array_bytes, dimensions, shape};
use super::error::ParseError;
use super::literal::count;
use super::module::{Definition, Reader};
use super::scope::Scope;
use super::token::Kind;
use crate::ast::{Function, Param, Space};

impl<'t> Reader<'t> {
    /// A function, `.entry` or `.func` having been read.
    pub(super) fn function(&mut self, is_entry: bool) -> Result<(), ParseError> {
        self.source = (0, 0);
        if self.cursor.took_dotted("attribute") {
            if !self.cursor.at_mark(b'(') {
                return Err(self.cursor.unexpected("`(`"));
            }
            self.cursor.skip_pair(b'(', b')')?;
        }
        let mut scope = Scope::default();
        let mut returns = Vec::new();
        if !is_entry && self.cursor.at_mark(b'(') {
            returns = self.params(&mut scope)?;
        }
        let location = self.location();
        let place = self.cursor.place();
        let name = self.cursor.word("the name of a function")?;
        let mut params = Vec::new();
        if self.cursor.at_mark(b'(') {
            params = self.params(&mut scope)?;
        }
        let mut function = Function {
            name: name.to_owned(),
            is_entry,
            returns,
            params,
            max_threads: None,
            cluster: None,
            registers: Vec::new(),
            variables: Vec::new(),
            body: Vec::new(),
            location,
        };
        self.directives(&mut function)?;
        let known = self.functions.get(name).copied();
        if known == Some(Definition::Given) && self.cursor.at_mark(b'{')
            || known.is_none() && self.is_taken(name)
        {
            return Err(self.duplicate(name, place));
        }
        if self.cursor.took_mark(b';') {
            if known.is_none() {
                self.functions.insert(name, Definition::Missing);
                self.undefined.push(function);
            }
            return Ok(());
        }
        // A function may call itself, so its name is known before its body.
        self.functions.insert(name, Definition::Given);
        self.body(&mut function, scope)?;
        self.module.functions.push(function);
        Ok(())
    }

    /// `(.param .align 8 .b8 x[16], .reg .b32 %r)`
    fn params(&mut self, scope: &mut Scope<'t>) -> Result<Vec<Param>, ParseError> {
        let mut params = Vec::new();
        let mut end = 0_u64;
        self.cursor.mark(b'(', "`(`")?;
        while !self.cursor.took_mark(b')') {
            if !params.is_empty() {
                self.cursor.mark(b',', "`,` or `)`")?;
            }
            let is_register = match self.cursor.peek_dotted() {
                Some("param") => false,
                Some("reg") => true,
                Some(_) | None => return Err(self.cursor.unexpected("`.param` or `.reg`")),
            };
            self.cursor.take();
            let shape = shape(&mut self.cursor)?;
            let place = self.cursor.place();
            let name = self.cursor.word("the name of a parameter")?;
            let dimensions = dimensions(&mut self.cursor)?;
            let size = array_bytes(&self.cursor, Space::Param, shape.bytes(), &dimensions)?;
            let is_new = if is_register {
                scope.add_register(name, shape.ty)
            } else {
                scope.add_variable(name, name.to_owned())
            };
            if !is_new {
                return Err(self.duplicate(name, place));
            }
            let offset = end.next_multiple_of(shape.align);
            end = offset + size;
            params.push(Param {
                name: name.to_owned(),
                ty: shape.ty,
                align: shape.align,
                size,
                offset,
                is_register,
            });
        }
        Ok(params)
    }

    /// The directives between the head and the body.
    fn directives(&mut self, function: &mut Function) -> Result<(), ParseError> {
        while let Some(dotted) = self.cursor.peek_dotted() {
            let place = self.cursor.place();
            self.cursor.take();
            match dotted {
                "maxntid" | "reqntid" => function.max_threads = Some(self.extents()?),
                "reqnctapercluster" => function.cluster = Some(self.extents()?),
                "minnctapersm"
                | "maxnctapersm"
                | "maxnreg"
                | "maxclusterrank"
                | "abi_preserve"
                | "abi_preserve_control" => {
                    count(
                        &mut self.cursor,
                        "a number of a directive",
                        u64::from(u32::MAX),
                    )?;
                }
                // Says that the launch gives the cluster, or that `.reqnctapercluster` does.
                "noreturn" | "explicitcluster" | "blocksareclusters" => {}
                "pragma" => {
                    while self.cursor.kind() == Kind::Text || self.cursor.at_mark(b',') {
                        self.cursor.take();
                    }
                    // Within a head a `;` would end a prototype, so it belongs to the pragma only before a body or
                    // another directive.
                    if self.cursor.at_mark(b';')
                        && matches!(
                            self.cursor.kind_ahead(1),
                            Kind::Mark(b'{' | b';') | Kind::Dotted
                        )
                    {
                        self.cursor.take();
                    }
                }
                _ => {
                    self.cursor.go_to(place);
                    return Err(self
                        .cursor
                        .unexpected("a directive of a function, `{` or `;`"));
                }
            }
        }
        if self.cursor.at_mark(b'{') || self.cursor.at_mark(b';') {
            return Ok(());
        }
        Err(self
            .cursor
            .unexpected("a directive of a function, `{` or `;`"))
    }

    /// One to three numbers; those that are left out are 1.
    fn extents(&mut self) -> Result<[u32; 3], ParseError> {
        let mut extents = [1; 3];
        for (axis, extent) in extents.iter_mut().enumerate() {
            if axis != 0 && !self.cursor.took_mark(b',') {
                break;
            }
            *extent = count(&mut self.cursor, "an extent", u64::from(u32::MAX))? as u32;
        }
        Ok(extents)
    }
}
