//! Bodies of functions: scopes, labels and instructions.

use super::declaration::{shape, space_named};
use super::error::{ParseError, ParseFault};
use super::literal::count;
use super::module::{Linkage, Reader};
use super::operand::Role;
use super::scope::{Found, Pending, Scope, Target, Use};
use super::token::Kind;
use crate::ast::{Function, Instruction, Operand, Register, RegisterId, Space, Type};

/// Most braces within braces.
const MAX_DEPTH: usize = 64;

/// Most registers of one declaration.
const MAX_RANGE: u64 = 1 << 20;

/// Most branch targets of all `brx.idx` of a module, each of which holds a list of its own.
const MAX_TARGETS: usize = 1 << 20;

/// The body that is being read.
pub(super) struct Body<'t> {
    /// Scopes that are open, the parameters first.
    scopes: Vec<Scope<'t>>,
    registers: Vec<Register>,
    instructions: Vec<Instruction>,
    /// Lists of `.branchtargets`.
    lists: Vec<Vec<u32>>,
    /// Instructions and operands that hold such a list.
    holders: Vec<(usize, usize, usize)>,
    /// Uses of a label as a list, or of a list as a label.
    misused: Vec<Pending<'t>>,
}

impl<'t> Body<'t> {
    /// What a name stands for, from the innermost scope outwards.
    pub(super) fn find(&mut self, name: &'t str) -> Option<Found> {
        let registers = &mut self.registers;
        let mut scopes = self.scopes.iter_mut().rev();
        scopes.find_map(|scope| scope.find(name, registers))
    }

    pub(super) fn pending(&mut self, pending: Pending<'t>) {
        let all = &mut self.innermost().pending;
        all.entry(pending.name).or_default().push(pending);
    }

    fn innermost(&mut self) -> &mut Scope<'t> {
        self.scopes
            .last_mut()
            .expect("a body is read within its scopes")
    }

    /// Gives the targets of the scope that ends to those who wait for them; the others wait on in the scope around it.
    fn end_scope(&mut self) {
        let mut scope = self.scopes.pop().expect("the brace was opened");
        for (name, target) in &scope.targets {
            for pending in scope.pending.remove(name).unwrap_or_default() {
                match (pending.needed, *target) {
                    (
                        Use::Operand {
                            instruction,
                            operand,
                        },
                        Target::Label(label),
                    ) => {
                        self.instructions[instruction].operands[operand] = Operand::Label(label);
                    }
                    (Use::Target { list, place }, Target::Label(label)) => {
                        self.lists[list][place] = label;
                    }
                    (
                        Use::List {
                            instruction,
                            operand,
                        },
                        Target::List(list),
                    ) => {
                        self.holders.push((instruction, operand, list));
                    }
                    (Use::Operand { .. } | Use::Target { .. }, Target::List(_))
                    | (Use::List { .. }, Target::Label(_)) => self.misused.push(pending),
                }
            }
        }
        if let Some(outer) = self.scopes.last_mut() {
            outer.inherit(scope.pending);
        }
    }

    /// The first use of a target that there is not.
    fn unresolved(&self) -> Option<&Pending<'t>> {
        let missing = self.scopes[0].pending.values().flatten();
        missing.chain(&self.misused).min_by_key(|it| it.place)
    }
}

impl<'t> Reader<'t> {
    /// Reads a body into `function`; `params` holds the names of its head.
    pub(super) fn body(
        &mut self,
        function: &mut Function,
        params: Scope<'t>,
    ) -> Result<(), ParseError> {
        let mut body = Body {
            scopes: vec![params],
            registers: Vec::new(),
            instructions: Vec::new(),
            lists: Vec::new(),
            holders: Vec::new(),
            misused: Vec::new(),
        };
        for param in function.returns.iter().chain(&function.params) {
            if param.is_register {
                // Numbered before any other, so that a caller can find them.
                let (name, ty) = (param.name.clone(), param.ty);
                body.scopes[0].set_register(&name, RegisterId(body.registers.len() as u32));
                body.registers.push(Register { name, ty });
            }
        }
        self.cursor.mark(b'{', "`{`")?;
        body.scopes.push(Scope::default());
        let mut last = self.location();
        while 1 < body.scopes.len() {
            last = self.location();
            self.statement(function, &mut body)?;
        }
        if let Some(pending) = body.unresolved() {
            let what = match pending.needed {
                Use::Operand { .. } | Use::Target { .. } => "label",
                Use::List { .. } => "list of branch targets",
            };
            let name = pending.name.to_owned();
            let fault = ParseFault::Unknown { what, name };
            return Err(self.cursor.fault_at(pending.place, fault));
        }
        for (instruction, operand, list) in body.holders {
            let labels = body.lists[list].clone();
            self.n_targets += labels.len();
            if MAX_TARGETS < self.n_targets {
                let fault = ParseFault::TooLarge {
                    what: "the branch targets of all `brx.idx`",
                    limit: MAX_TARGETS as u64,
                    found: self.n_targets.to_string(),
                };
                return Err(self.cursor.fault(fault));
            }
            body.instructions[instruction].operands[operand] = Operand::Labels(labels);
        }
        if body.instructions.is_empty() {
            // An empty body returns; without an instruction it would pass for a declaration.
            body.instructions.push(Instruction {
                guard: None,
                opcode: "ret".to_owned(),
                modifiers: Vec::new(),
                operands: Vec::new(),
                location: last,
            });
        }
        function.registers = body.registers;
        function.body = body.instructions;
        Ok(())
    }

    fn statement(
        &mut self,
        function: &mut Function,
        body: &mut Body<'t>,
    ) -> Result<(), ParseError> {
        match self.cursor.kind() {
            Kind::Mark(b'{') => {
                if body.scopes.len() == MAX_DEPTH {
                    return Err(self.cursor.fault(ParseFault::TooLarge {
                        what: "the depth of nested braces",
                        limit: MAX_DEPTH as u64,
                        found: "more".to_owned(),
                    }));
                }
                self.cursor.take();
                body.scopes.push(Scope::default());
                Ok(())
            }
            Kind::Mark(b'}') => {
                self.cursor.take();
                body.end_scope();
                Ok(())
            }
            Kind::Mark(b';') => {
                self.cursor.take();
                Ok(())
            }
            Kind::Dotted => self.body_directive(function, body),
            Kind::Word if self.cursor.kind_ahead(1) == Kind::Mark(b':') => self.label(body),
            Kind::Word | Kind::Mark(b'@') => self.instruction(body),
            _ => Err(self.cursor.unexpected("an instruction, a label or `}`")),
        }
    }

    fn body_directive(
        &mut self,
        function: &mut Function,
        body: &mut Body<'t>,
    ) -> Result<(), ParseError> {
        let dotted = self.cursor.peek_dotted().unwrap_or_default();
        match dotted {
            "loc" => return self.loc(),
            "pragma" => return self.cursor.skip_statement(),
            "reg" => {
                self.cursor.take();
                return self.registers(body);
            }
            _ => {}
        }
        let linkage = if self.cursor.took_dotted("extern") {
            Linkage::Extern
        } else {
            Linkage::Own
        };
        let Some(space) = self.cursor.peek_dotted().and_then(space_named) else {
            return Err(self.cursor.unexpected("a declaration, `.loc` or `.pragma`"));
        };
        self.cursor.take();
        for (name, place, mut variable) in self.variables_of(space, linkage)? {
            // Only names of the outermost braces are kept, and only if nothing else has them.
            let is_outermost = body.scopes.len() == 2;
            let is_free = !body.scopes[0].holds(name) && self.global(name).is_none();
            variable.name = if is_outermost && is_free {
                self.unique(name)
            } else {
                self.renamed(name)
            };
            if !body.innermost().add_variable(name, variable.name.clone()) {
                return Err(self.duplicate(name, place));
            }
            match space {
                Space::Local | Space::Param => function.variables.push(variable),
                _ => self.module.variables.push(variable),
            }
        }
        Ok(())
    }

    /// `.b32 %r<12>, %x;`, `.reg` having been read.
    fn registers(&mut self, body: &mut Body<'t>) -> Result<(), ParseError> {
        let place = self.cursor.place();
        let shape = shape(&mut self.cursor)?;
        if shape.lanes != 1 {
            let what = "vector registers";
            return Err(self
                .cursor
                .fault_at(place, ParseFault::Unsupported { what }));
        }
        loop {
            let place = self.cursor.place();
            let name = self.cursor.word("the name of a register")?;
            let is_new = if self.cursor.took_mark(b'<') {
                let number = count(&mut self.cursor, "the number of registers", MAX_RANGE)?;
                self.cursor.mark(b'>', "`>`")?;
                body.innermost().add_range(name, shape.ty, number)
            } else {
                body.innermost().add_register(name, shape.ty)
            };
            if !is_new {
                return Err(self.duplicate(name, place));
            }
            if !self.cursor.took_mark(b',') {
                return self.cursor.end_of_statement();
            }
        }
    }

    /// `name:`, or one of the lists that are written like a label.
    fn label(&mut self, body: &mut Body<'t>) -> Result<(), ParseError> {
        let place = self.cursor.place();
        let name = self.cursor.take();
        self.cursor.mark(b':', "`:`")?;
        let target = match self.cursor.peek_dotted() {
            Some("callprototype" | "calltargets") => return self.cursor.skip_statement(),
            Some("branchtargets") => {
                self.cursor.take();
                Target::List(self.branch_targets(body)?)
            }
            Some(_) | None => Target::Label(body.instructions.len() as u32),
        };
        match body.innermost().targets.insert(name, target) {
            None => Ok(()),
            Some(_) => Err(self.duplicate(name, place)),
        }
    }

    /// `one, two;`, `.branchtargets` having been read.
    fn branch_targets(&mut self, body: &mut Body<'t>) -> Result<usize, ParseError> {
        let list = body.lists.len();
        let mut labels = Vec::new();
        loop {
            let place = self.cursor.place();
            let name = self.cursor.word("a label")?;
            let needed = Use::Target {
                list,
                place: labels.len(),
            };
            body.pending(Pending {
                name,
                place,
                needed,
            });
            labels.push(u32::MAX);
            if !self.cursor.took_mark(b',') {
                break;
            }
        }
        self.cursor.end_of_statement()?;
        body.lists.push(labels);
        Ok(list)
    }

    fn instruction(&mut self, body: &mut Body<'t>) -> Result<(), ParseError> {
        let location = self.location();
        let mut guard = None;
        if self.cursor.took_mark(b'@') {
            let is_negated = self.cursor.took_mark(b'!');
            let place = self.cursor.place();
            let register = self.register(body)?;
            if body.registers[register.0 as usize].ty != Type::Pred {
                self.cursor.go_to(place);
                return Err(self.cursor.unexpected("a predicate"));
            }
            guard = Some((register, is_negated));
        }
        if self.cursor.peek().starts_with(['%', '$', '_']) {
            return Err(self.cursor.unexpected("an instruction"));
        }
        let opcode = self.cursor.word("an instruction")?;
        let mut modifiers = Vec::new();
        while let Some(modifier) = self.cursor.peek_dotted() {
            self.cursor.take();
            modifiers.push(modifier.to_owned());
        }
        let operands = match opcode {
            "call" => self.call(body)?,
            _ => self.operands(body, opcode)?,
        };
        self.cursor.end_of_statement()?;
        body.instructions.push(Instruction {
            guard,
            opcode: opcode.to_owned(),
            modifiers,
            operands,
            location,
        });
        Ok(())
    }

    fn operands(&mut self, body: &mut Body<'t>, opcode: &str) -> Result<Vec<Operand>, ParseError> {
        let mut operands = Vec::new();
        if self.cursor.at_mark(b';') {
            return Ok(operands);
        }
        let instruction = body.instructions.len();
        loop {
            let operand = operands.len();
            let role = match (opcode, operand) {
                ("bra", 0) => Role::Jump(Use::Operand {
                    instruction,
                    operand,
                }),
                ("brx", 1) => Role::Jump(Use::List {
                    instruction,
                    operand,
                }),
                _ => Role::Value,
            };
            operands.push(self.operand(body, role)?);
            if !self.cursor.took_mark(b',') {
                return Ok(operands);
            }
        }
    }

    /// `(returns), callee, (arguments), prototype`, all but the callee optional.
    fn call(&mut self, body: &mut Body<'t>) -> Result<Vec<Operand>, ParseError> {
        let mut returns = Vec::new();
        if self.cursor.at_mark(b'(') {
            returns = self.list(body)?;
            self.cursor.mark(b',', "`,`")?;
        }
        if self.cursor.kind() != Kind::Word {
            return Err(self.cursor.unexpected("a function or a register"));
        }
        let callee = self.element(body)?;
        let mut arguments = Vec::new();
        let mut has_more = self.cursor.took_mark(b',');
        if has_more && self.cursor.at_mark(b'(') {
            arguments = self.list(body)?;
            has_more = self.cursor.took_mark(b',');
        }
        let mut operands = vec![Operand::List(returns), callee, Operand::List(arguments)];
        if has_more {
            let prototype = self.cursor.word("the name of a prototype")?;
            operands.push(Operand::Prototype(prototype.to_owned()));
        }
        Ok(operands)
    }

    /// `(a, b)`, also empty.
    fn list(&mut self, body: &mut Body<'t>) -> Result<Vec<Operand>, ParseError> {
        let mut elements = Vec::new();
        self.cursor.mark(b'(', "`(`")?;
        while !self.cursor.took_mark(b')') {
            if !elements.is_empty() {
                self.cursor.mark(b',', "`,` or `)`")?;
            }
            elements.push(self.element(body)?);
        }
        Ok(elements)
    }
}
