//! All files of a project together: global numbers for their definitions and variables, and tables of the names
//! in every scope, module and type. It knows declarations and imports, and no flow of values.

mod imports;
mod lookup;
mod names;
mod structure;
mod types;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::facts::{DefinitionKind, FileFacts, Name};
use crate::fast_hash::{FastHasher, FastMap, short_hash};
use crate::imported::ImportedFile;
use crate::language::Family;
use crate::project::Project;

pub(crate) use lookup::Search;
pub(crate) use names::{Names, Symbol};
pub(crate) use structure::{Structure, StructureChange, StructureParts};

/// The number of a definition in the whole project.
pub(crate) type GlobalDefinition = u32;
/// The number of a variable in the whole project.
pub(crate) type GlobalVariable = u32;
/// The number of a module: a set of scopes with a name.
pub(crate) type ModuleId = u32;
/// The number of a file in the order of the paths.
pub(crate) type FileId = u32;

/// The number of a path outside of the project.
pub(crate) type ExternalId = u32;

/// Paths of things outside of the project.
#[derive(Debug, Default)]
struct Externals {
    paths: Vec<Arc<str>>,
    numbers: FastMap<Arc<str>, ExternalId>,
}

/// A file with its facts.
#[derive(Debug, Clone)]
pub(crate) struct SourceFile {
    /// Path from the root of the project, with slashes.
    pub(crate) path: Arc<str>,
    /// Facts.
    pub(crate) facts: Arc<FileFacts>,
    /// Symbols of its names.
    pub(crate) symbols: Arc<[Symbol]>,
}

/// A file with its place among the global numbers.
pub(crate) struct WorldFile {
    /// Path.
    pub(crate) path: Arc<str>,
    /// Facts.
    pub(crate) facts: Arc<FileFacts>,
    /// Global number of its first definition.
    pub(crate) first_definition: GlobalDefinition,
    /// Global number of its first variable.
    pub(crate) first_variable: GlobalVariable,
    /// Number of its first import among all.
    pub(crate) first_import: u32,
    /// Number of its first expression among all.
    pub(crate) first_expression: u32,
    /// Symbols of its names.
    pub(crate) symbols: Arc<[Symbol]>,
    /// Module that its top level is.
    pub(crate) module: ModuleId,
    /// Family of its language.
    pub(crate) family: Family,
}

/// The meaning of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Entry {
    /// A definition.
    Definition(GlobalDefinition),
    /// A variable.
    Variable(GlobalVariable),
    /// A module of the project.
    Module(ModuleId),
    /// Something outside of the project, by the number of its path.
    External(ExternalId),
    /// The target of an import, by the number of the import among all.
    Import(u32),
}

/// The meanings of a name in one place. Most names have one.
type Entries = SmallVec<[Entry; 2]>;

/// A module: the parts of it that files and blocks contribute.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// Path of the module in its family.
    pub(crate) path: Box<str>,
    /// Imports of everything from elsewhere that others see through this module.
    pub(crate) all_imports: Vec<u32>,
    /// Files whose top level is part of it.
    pub(crate) files: Vec<FileId>,
}

/// All files together.
pub(crate) struct World {
    /// Files by their paths.
    pub(crate) files: Vec<WorldFile>,
    /// Manifests.
    pub(crate) project: Arc<Project>,
    names: Names,
    /// True for the symbols of names that these files have. A world must not depend on those of earlier ones.
    is_present: Vec<bool>,
    /// Paths of things outside of the project, which look-ups discover.
    externals: RefCell<Externals>,
    /// Short hashes of the names that were looked up.
    asked: RefCell<HashSet<u32, BuildHasherDefault<FastHasher>>>,
    expression_count: u32,
    /// File of each definition.
    pub(crate) file_of_definition: Vec<FileId>,
    /// File of each variable.
    pub(crate) file_of_variable: Vec<FileId>,
    /// File of each import.
    pub(crate) file_of_import: Vec<FileId>,
    paths: FastMap<Arc<str>, FileId>,
    /// Files by the last part of their paths.
    file_names: FastMap<Box<str>, Vec<FileId>>,
    pub(crate) modules: Vec<Module>,
    module_numbers: FastMap<(Family, Box<str>), ModuleId>,
    /// Names in scopes.
    scopes: FastMap<(GlobalDefinition, Symbol), Entries>,
    /// Names in modules.
    contents: FastMap<(ModuleId, Symbol), Entries>,
    /// Imports of everything in each scope.
    all_imports: FastMap<GlobalDefinition, Vec<u32>>,
    /// Modules of definitions that are modules in files.
    module_of_definition: FastMap<GlobalDefinition, ModuleId>,
    /// The first of several definitions that are one type.
    canonical: FastMap<GlobalDefinition, GlobalDefinition>,
    /// Types of extensions and of methods outside their class.
    attached: FastMap<GlobalDefinition, GlobalDefinition>,
    /// Types that a type inherits from.
    pub(crate) bases: FastMap<GlobalDefinition, Vec<Entry>>,
    /// Types that inherit from a type.
    pub(crate) heirs: FastMap<GlobalDefinition, Vec<GlobalDefinition>>,
    /// Functions and methods by family and name, for calls of which only the name is known.
    by_name: BTreeMap<(Family, Symbol), Vec<GlobalDefinition>>,
    /// Values that flow to variables of files and types, by variable: file and expression.
    pub(crate) initial: FastMap<GlobalVariable, Vec<u32>>,
    /// Findings of compilers in files that have not changed since.
    pub(crate) imported: BTreeMap<Arc<str>, Arc<ImportedFile>>,
}

impl World {
    /// Creates the tables of files. Their order does not matter.
    pub(crate) fn new(files: &[SourceFile], project: Arc<Project>, names: Names) -> Self {
        let mut sorted: Vec<&SourceFile> = files.iter().collect();
        sorted.sort_by(|one, other| one.path.cmp(&other.path));
        let mut world = Self {
            files: Vec::with_capacity(sorted.len()),
            project,
            is_present: vec![false; names.len()],
            names,
            externals: RefCell::default(),
            asked: RefCell::default(),
            expression_count: 0,
            file_of_definition: Vec::new(),
            file_of_variable: Vec::new(),
            file_of_import: Vec::new(),
            paths: FastMap::default(),
            file_names: FastMap::default(),
            modules: Vec::new(),
            module_numbers: FastMap::default(),
            scopes: FastMap::default(),
            contents: FastMap::default(),
            all_imports: FastMap::default(),
            module_of_definition: FastMap::default(),
            canonical: FastMap::default(),
            attached: FastMap::default(),
            bases: FastMap::default(),
            heirs: FastMap::default(),
            by_name: BTreeMap::new(),
            initial: FastMap::default(),
            imported: BTreeMap::new(),
        };
        world.symbol("");
        for file in sorted {
            world.add_file(file);
        }
        // Most definitions and imports are one name in one scope.
        world.scopes.reserve(world.file_of_definition.len() + world.file_of_import.len());
        for file in 0..crate::builder::count(world.files.len()) {
            world.add_names(file);
        }
        world.link_types();
        world
    }

    /// Returns the symbol of a name.
    fn symbol(&mut self, name: &str) -> Symbol {
        let symbol = self.names.number(name);
        self.mark(symbol);
        symbol
    }

    fn mark(&mut self, symbol: Symbol) {
        let at = symbol as usize;
        if self.is_present.len() <= at {
            self.is_present.resize(at + 1, false);
        }
        if let Some(place) = self.is_present.get_mut(at) {
            *place = true;
        }
    }

    /// Returns the symbol of a name that the project has.
    pub(crate) fn known_symbol(&self, name: &str) -> Option<Symbol> {
        self.asked.borrow_mut().insert(short_hash(name));
        let symbol = self.names.known(name)?;
        self.is_present.get(symbol as usize).copied().unwrap_or(false).then_some(symbol)
    }

    /// Returns the name of a symbol.
    pub(crate) fn name(&self, symbol: Symbol) -> &str {
        self.names.name(symbol)
    }

    /// Notes that a name is looked up.
    fn ask(&self, symbol: Symbol) {
        self.asked.borrow_mut().insert(self.names.hash(symbol));
    }

    /// Returns the short hashes of the names that were looked up since the last call, in ascending order.
    pub(crate) fn take_asked(&self) -> Arc<[u32]> {
        let mut asked: Vec<u32> = self.asked.take().into_iter().collect();
        asked.sort_unstable();
        asked.into()
    }

    /// Returns the functions and methods of a name.
    pub(crate) fn named(&self, family: Family, name: Symbol) -> &[GlobalDefinition] {
        self.ask(name);
        self.by_name.get(&(family, name)).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the names for the next world.
    pub(crate) fn into_names(self) -> Names {
        self.names
    }

    /// Returns the number of a path outside of the project.
    pub(crate) fn external(&self, path: &str) -> ExternalId {
        let mut externals = self.externals.borrow_mut();
        if let Some(number) = externals.numbers.get(path) {
            return *number;
        }
        let number = crate::builder::count(externals.paths.len());
        let path: Arc<str> = path.into();
        externals.paths.push(path.clone());
        externals.numbers.insert(path, number);
        number
    }

    /// Returns a path outside of the project.
    pub(crate) fn external_path(&self, external: ExternalId) -> Arc<str> {
        self.externals.borrow().paths.get(external as usize).cloned().unwrap_or_default()
    }

    /// Returns the file and the number in it of an expression by its number among all.
    pub(crate) fn local_expression(&self, expression: u32) -> Option<(FileId, u32)> {
        let at = self.files.partition_point(|file| file.first_expression <= expression).checked_sub(1)?;
        let file = self.files.get(at)?;
        Some((crate::builder::count(at), expression - file.first_expression))
    }

    /// Returns a file.
    pub(crate) fn file(&self, file: FileId) -> Option<&WorldFile> {
        self.files.get(file as usize)
    }

    /// Returns a file by its path.
    pub(crate) fn file_at(&self, path: &str) -> Option<FileId> {
        self.paths.get(path).copied()
    }

    /// Returns the files whose path ends with a name.
    pub(crate) fn files_named(&self, name: &str) -> &[FileId] {
        self.file_names.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the file of a definition, and its number there.
    pub(crate) fn local(&self, definition: GlobalDefinition) -> Option<(FileId, &WorldFile, u32)> {
        let file = *self.file_of_definition.get(definition as usize)?;
        let found = self.files.get(file as usize)?;
        Some((file, found, definition - found.first_definition))
    }

    /// Returns a definition.
    pub(crate) fn definition(&self, definition: GlobalDefinition) -> Option<&crate::facts::Definition> {
        let (_, file, local) = self.local(definition)?;
        file.facts.definitions.get(local as usize)
    }

    /// Returns the kind of a definition.
    pub(crate) fn kind(&self, definition: GlobalDefinition) -> DefinitionKind {
        self.definition(definition).map_or(DefinitionKind::Module, |definition| definition.kind)
    }

    /// Returns the file of a variable, and its number there.
    pub(crate) fn local_variable(&self, variable: GlobalVariable) -> Option<(FileId, &WorldFile, u32)> {
        let file = *self.file_of_variable.get(variable as usize)?;
        let found = self.files.get(file as usize)?;
        Some((file, found, variable - found.first_variable))
    }

    /// Returns the module of a path, and creates it if it is new.
    fn module(&mut self, family: Family, path: &str) -> ModuleId {
        if let Some(module) = self.module_numbers.get(&(family, path.into())) {
            return *module;
        }
        let module = crate::builder::count(self.modules.len());
        self.modules.push(Module { path: path.into(), ..Module::default() });
        self.module_numbers.insert((family, path.into()), module);
        self.enter_in_parent(family, path, module);
        module
    }

    /// Makes a module a member of the module around it.
    fn enter_in_parent(&mut self, family: Family, path: &str, module: ModuleId) {
        let Some((parent, name)) = parent_module(family, path) else { return };
        let parent = self.module(family, &parent);
        let symbol = self.symbol(name);
        self.contents.entry((parent, symbol)).or_default().push(Entry::Module(module));
    }

    /// Returns the module of a path, if there is one.
    pub(crate) fn module_at(&self, family: Family, path: &str) -> Option<ModuleId> {
        self.module_numbers.get(&(family, path.into())).copied()
    }

    /// Returns true if the root of a library is beside the root of a program. Files are added in the order of their
    /// paths, so it is there already.
    fn has_library(&self, program: &str) -> bool {
        let folder = crate::project::folder_of(program);
        crate::project::joined(folder, "lib.rs").is_some_and(|path| self.paths.contains_key(path.as_str()))
    }

    fn add_file(&mut self, source: &SourceFile) {
        let id = crate::builder::count(self.files.len());
        let facts = &source.facts;
        let symbols = source.symbols.clone();
        symbols.iter().for_each(|symbol| self.mark(*symbol));
        let family = facts.language.family();
        let mut path = self.project.module_of(family, &source.path, &facts.package);
        if family == Family::Rust
            && let Some(folder) = path.strip_suffix("#main")
            && !self.has_library(&source.path)
        {
            // Without a library, the files beside it are modules of the program.
            path = format!("{folder}#lib");
        }
        let module = self.module(family, &path);
        if let Some(module) = self.modules.get_mut(module as usize) {
            module.files.push(id);
        }
        let file = WorldFile {
            path: source.path.clone(),
            facts: facts.clone(),
            first_definition: crate::builder::count(self.file_of_definition.len()),
            first_variable: crate::builder::count(self.file_of_variable.len()),
            first_import: crate::builder::count(self.file_of_import.len()),
            first_expression: self.expression_count,
            symbols,
            module,
            family,
        };
        self.file_of_definition.extend(facts.definitions.iter().map(|_| id));
        self.file_of_variable.extend(facts.variables.iter().map(|_| id));
        self.file_of_import.extend(facts.imports.iter().map(|_| id));
        self.expression_count =
            self.expression_count.saturating_add(crate::builder::count(facts.expressions.len()));
        self.paths.insert(source.path.clone(), id);
        let name = crate::project::name_of(&source.path);
        self.file_names.entry(name.into()).or_default().push(id);
        self.files.push(file);
    }
}

impl WorldFile {
    /// Returns the symbol of one of its names.
    pub(crate) fn symbol(&self, name: Name) -> Symbol {
        self.symbols.get(name as usize).copied().unwrap_or(0)
    }
}

/// Returns the path of the module around a module, and the name in it.
fn parent_module(family: Family, path: &str) -> Option<(String, &str)> {
    match family {
        Family::Rust => path.rsplit_once("::").map(|(parent, name)| (parent.to_owned(), name)),
        Family::Python | Family::Java | Family::CSharp | Family::Php | Family::C | Family::Ruby => {
            if path.is_empty() {
                return None;
            }
            Some(
                path.rsplit_once('.')
                    .map_or((String::new(), path), |(parent, name)| (parent.to_owned(), name)),
            )
        }
        Family::Go | Family::JavaScript | Family::Bash => None,
    }
}
