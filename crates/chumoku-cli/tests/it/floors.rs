//! Checks the layering of crates, and of the modules inside each. A manifest that depends on a higher layer, or a cycle
//! of modules, fails.
//!
//! Cargo rejects cycles between crates; this test also rejects a dependency that is not in the drawing of
//! ARCHITECTURE.md. Inside a crate, the nodes are the files and folders of `src`. Imports between a node and its own
//! children are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::Visit;
use syn::{Item, UseTree};

/// Each crate, and the workspace crates that it may depend on.
const FLOORS: &[(&str, &[&str])] = &[
    ("chumoku-workspace-hack", &[]),
    ("chumoku-kernels", &[]),
    ("chumoku-nn", &["chumoku-kernels"]),
    ("chumoku-text", &["chumoku-kernels"]),
    ("chumoku-ngrams", &["chumoku-kernels", "chumoku-nn", "chumoku-text"]),
    ("chumoku-inference", &["chumoku-kernels", "chumoku-ngrams", "chumoku-nn", "chumoku-text"]),
    ("chumoku", &["chumoku-inference", "chumoku-kernels", "chumoku-ngrams", "chumoku-nn", "chumoku-text"]),
    ("chumoku-view", &["chumoku-kernels", "chumoku"]),
    ("chumoku-server", &["chumoku-kernels", "chumoku", "chumoku-view"]),
    ("chumoku-trace", &["chumoku-kernels", "chumoku", "chumoku-view"]),
    (
        "chumoku-cli",
        &["chumoku-kernels", "chumoku", "chumoku-server", "chumoku-trace", "chumoku-view", "chumoku-workspace-hack"],
    ),
    ("chumoku-py", &["chumoku-kernels", "chumoku", "chumoku-cli", "chumoku-trace", "chumoku-view"]),
];

/// Folders of modules with their floors, the lowest first. ARCHITECTURE.md draws those of crates, and the `mod.rs` of
/// another folder lists its own. A module imports only modules of its own floor and below.
const MODULE_FLOORS: &[(&str, &[&[&str]])] = &[
    (
        "chumoku-kernels",
        &[
            &["allocator", "cancel", "error", "number", "philox", "profile", "shared_cache", "system"],
            &["isa", "parallel", "threads"],
            &["adamw", "low_precision", "math", "memory", "sum"],
            &["activation", "dropout", "embedding", "loss", "norm", "register_tile", "roofline", "softmax"],
            &["gemm"],
            &["attention", "recurrent", "rotary"],
            &["reference"],
        ],
    ),
    (
        "chumoku-nn",
        &[
            &["error", "probability"],
            &["decoding", "params", "sampling"],
            &["layers"],
            &["attention", "models"],
            &["count", "pretrained"],
        ],
    ),
    (
        "chumoku-text",
        &[
            &["characters", "checksum", "failpoint", "memory", "metrics", "row", "signals", "sorting"],
            &["lang", "panics"],
            &["tokens"],
            &["data"],
            &["output"],
        ],
    ),
    (
        "chumoku-ngrams",
        &[
            &["calendar", "error", "hash", "packed", "sparse", "target", "vector"],
            &["feature_columns", "pairs", "tokens", "vocabulary"],
            &["column_matrix", "model"],
            &["features", "memory_estimate", "newton", "objective", "tensors"],
            &["train"],
        ],
    ),
    (
        "chumoku-inference",
        &[
            &["blend", "crf", "error", "stage_timer", "tensors"],
            &["hierarchy", "model_folder", "parallel_batches", "prediction", "pretrained", "scoring"],
            &["text_models"],
            &["answers", "explain"],
        ],
    ),
    ("chumoku", &[&["onnx"], &["train"], &["builtin", "compare", "doctor", "film"]]),
    (
        "chumoku/train",
        &[
            &["data"],
            &["training_loop"],
            &["settings"],
            &["run_folder"],
            &["continued_training"],
            &["reports"],
            &["ensemble"],
            &["tasks"],
            &["tune"],
        ],
    ),
    (
        "chumoku-view",
        &[
            &["content_hash", "width"],
            &["count_report", "phrases", "picture", "spans", "terminal"],
            &["colored_words", "figure", "marked_words"],
            &[
                "beam",
                "comparison",
                "effects",
                "errors",
                "explanation_figures",
                "learning_curves",
                "positions",
                "reconstruction",
                "saturation",
                "tagger_spans",
            ],
            &["html"],
            &["doctor", "film", "network_map"],
        ],
    ),
    ("chumoku-trace", &[&["program"], &["examples", "formulas"], &["checks", "layers"], &["traces"], &["output"]]),
    (
        "chumoku-server",
        &[
            &[
                "endpoints",
                "events",
                "limits",
                "log",
                "metrics",
                "model",
                "page",
                "queue",
                "request_error",
                "write_timeout",
            ],
            &["access", "answer_body", "explanation", "memory_budget", "prediction", "request", "translation_stream"],
            &["workers"],
            &["service"],
            &["accounting", "connections", "memory", "signals", "stream"],
            &["handlers"],
            &["routes"],
        ],
    ),
    (
        "chumoku-cli",
        &[
            &["invocation", "shell", "terminal", "usage"],
            &["output", "report", "threads"],
            &["args", "progress", "stage_profile"],
            &["data", "models", "pictures"],
            &["answers"],
            &["commands"],
            &["distributed"],
        ],
    ),
    (
        "chumoku-py",
        &[
            &["addresses", "explanations", "messages", "row"],
            &["outputs", "pool"],
            &["attention", "doctor", "rows", "tables", "training", "worker_group"],
            &["models"],
            &["microscope", "predictors"],
        ],
    ),
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates").to_path_buf()
}

/// The workspace crates in the `[dependencies]` of a manifest.
fn dependencies(manifest: &str) -> BTreeSet<&str> {
    let (_, rest) = manifest.split_once("[dependencies]").unwrap_or_default();
    let section = rest.split("\n[").next().unwrap_or_default();
    let names = section.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| *name == "chumoku" || name.starts_with("chumoku-")).collect()
}

#[test]
fn crates_depend_only_on_lower_layers() {
    for (name, allowed) in FLOORS {
        let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).expect("a manifest");
        let found = dependencies(&manifest);
        assert_eq!(found, allowed.iter().copied().collect(), "{name}: draw it in ARCHITECTURE.md first");
    }
    let folders = fs::read_dir(crates()).expect("crates").map(|entry| entry.expect("an entry").file_name());
    let known =
        |name: &str| FLOORS.iter().any(|(floor, _)| *floor == name) || ["testkit", "mutate", "manual"].contains(&name);
    folders.for_each(|name| assert!(known(&name.to_string_lossy()), "{}: on which floor?", name.display()));
}

/// The names of a path: modules, then possibly an item.
type ModulePath = Vec<String>;

/// The paths in a source file outside tests, and the names that its `use` lines import.
#[derive(Default)]
struct ModuleImports {
    /// Inline modules around the current position.
    submodules: ModulePath,
    /// Each path, with the inline modules around it.
    paths: Vec<(ModulePath, ModulePath)>,
    /// Names imported by `use`, each with its path.
    imported_names: BTreeMap<String, ModulePath>,
}

/// Returns `true` for an item that exists only in tests.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    let cfg_test = |attribute: &syn::Attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    };
    attributes.iter().any(cfg_test)
}

/// The paths of an import tree, each with its local name.
fn imports(tree: &UseTree, before: &[String], found: &mut Vec<(ModulePath, String)>) {
    let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(path) => imports(&path.tree, &with(&path.ident), found),
        UseTree::Name(name) if name.ident == "self" => {
            found.push((before.to_vec(), before.last().cloned().unwrap_or_default()));
        }
        UseTree::Name(name) => found.push((with(&name.ident), name.ident.to_string())),
        UseTree::Rename(name) => found.push((with(&name.ident), name.rename.to_string())),
        UseTree::Group(group) => group.items.iter().for_each(|tree| imports(tree, before, found)),
        UseTree::Glob(_) => found.push((before.to_vec(), "*".to_owned())),
    }
}

impl<'a> Visit<'a> for ModuleImports {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            _ => return syn::visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        self.submodules.push(item.ident.to_string());
        syn::visit::visit_item_mod(self, item);
        self.submodules.pop();
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        let mut found = Vec::new();
        imports(&item.tree, &[], &mut found);
        for (path, name) in found {
            self.paths.push((self.submodules.clone(), path.clone()));
            if self.submodules.is_empty() {
                self.imported_names.insert(name, path);
            }
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let names: ModulePath = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if names.len() > 1 {
            self.paths.push((self.submodules.clone(), names));
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, of: &'a syn::Macro) {
        // Macro arguments are tokens: `crate::name` inside them also counts.
        let text = of.tokens.to_string();
        for rest in text.split("crate :: ").skip(1) {
            let end =
                rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':' || c == ' ')).unwrap_or(rest.len());
            let names = rest[..end].split(" :: ").filter_map(|name| name.split_whitespace().next()).map(str::to_owned);
            self.paths.push((self.submodules.clone(), std::iter::once("crate".to_owned()).chain(names).collect()));
        }
        syn::visit::visit_macro(self, of);
    }
}

/// The module files of a crate with their imports. The root is the empty path.
struct ModuleGraph(BTreeMap<ModulePath, ModuleImports>);

impl ModuleGraph {
    fn from_sources(src: &Path) -> ModuleGraph {
        let mut modules = BTreeMap::new();
        Self::read(src, &mut Vec::new(), &mut modules);
        ModuleGraph(modules)
    }

    fn read(folder: &Path, at: &mut ModulePath, modules: &mut BTreeMap<ModulePath, ModuleImports>) {
        for entry in fs::read_dir(folder).expect("sources") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            // A program beside a library is a crate of its own.
            if name == "tests" || name == "main" && folder.join("lib.rs").exists() {
                continue;
            }
            if path.is_dir() {
                at.push(name);
                Self::read(&path, at, modules);
                at.pop();
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let source = fs::read_to_string(&path).expect("a source file");
                let parsed = syn::parse_file(&source).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                let mut arrows = ModuleImports::default();
                arrows.visit_file(&parsed);
                let is_folder = ["lib", "main", "mod"].contains(&name.as_str());
                let module = if is_folder { at.clone() } else { [&at[..], &[name]].concat() };
                modules.insert(module, arrows);
            }
        }
    }

    /// Resolves a path from the module `at` to a module of this crate; `None` if it leads elsewhere.
    fn resolve(&self, at: &[String], path: &[String], depth: usize) -> Option<ModulePath> {
        let mut here: ModulePath = at.to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (here, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    here.pop();
                    rest = &rest[1..];
                }
            }
            first if self.0.contains_key(&[at, &[first.to_owned()]].concat()) => {}
            _ => return None,
        }
        // An inline module belongs to its file.
        while !self.0.contains_key(&here) {
            here.pop();
        }
        for (n, name) in rest.iter().enumerate() {
            let below = [&here[..], std::slice::from_ref(name)].concat();
            if self.0.contains_key(&below) {
                here = below;
            } else {
                // Follows a re-export to the module that contains it.
                let handed_on = self.0[&here].imported_names.get(name).filter(|path| depth < 8 && *path != &rest[n..]);
                return handed_on.and_then(|path| self.resolve(&here, path, depth + 1)).or(Some(here));
            }
        }
        Some(here)
    }

    /// The folders with their nodes, and the nodes that each one imports. Imports between a node and its children are
    /// ignored.
    fn folder_graphs(&self) -> BTreeMap<ModulePath, BTreeMap<String, BTreeSet<String>>> {
        let mut folders: BTreeMap<ModulePath, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for module in self.0.keys() {
            if let Some((room, folder)) = module.split_last() {
                folders.entry(folder.to_vec()).or_default().entry(room.clone()).or_default();
            }
        }
        for (module, arrows) in &self.0 {
            for (inside, path) in &arrows.paths {
                let Some(reached) = self.resolve(&[&module[..], inside].concat(), path, 0) else { continue };
                let shared = module.iter().zip(&reached).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (module.get(shared), reached.get(shared)) {
                    let rooms = folders.get_mut(&module[..shared]).expect("a folder of modules");
                    rooms.get_mut(from).expect("a room").insert(to.clone());
                }
            }
        }
        folders
    }
}

/// Finds a cycle: each node imports the next, and the last imports the first.
fn find_cycle(graph: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    // Removes nodes without imports until none is left or the rest form cycles.
    let mut left = graph.clone();
    while let Some(room) = left.iter().find(|(_, arrows)| arrows.is_empty()).map(|(room, _)| room.clone()) {
        left.remove(&room);
        left.values_mut().for_each(|arrows| {
            arrows.remove(&room);
        });
    }
    let (first, _) = left.first_key_value()?;
    let mut way = vec![first.clone()];
    loop {
        let next = left[way.last().expect("a start")].first().expect("an arrow").clone();
        if let Some(at) = way.iter().position(|room| *room == next) {
            return Some(way.split_off(at));
        }
        way.push(next);
    }
}

/// The crates that have modules, with their graphs.
fn module_graphs() -> impl Iterator<Item = (&'static str, ModuleGraph)> {
    let names = FLOORS.iter().map(|(name, _)| *name).filter(|name| *name != "chumoku-workspace-hack");
    names.map(|name| (name, ModuleGraph::from_sources(&crates().join(name).join("src"))))
}

#[test]
fn modules_form_no_cycle() {
    let mut circles = Vec::new();
    for (name, graph) in module_graphs() {
        let folders = graph.folder_graphs();
        assert!(folders[&[][..]].len() > 1, "{name}: where have its modules gone?");
        for (folder, rooms) in folders {
            if let Some(circle) = find_cycle(&rooms) {
                circles.push(format!("{name}/src/{}: {}", folder.join("/"), circle.join(" → ")));
            }
        }
    }
    assert!(circles.is_empty(), "in a circle:\n{}", circles.join("\n"));
}

/// Finds the imports that run up: from a module to one on a higher floor, or on none.
fn find_upward_imports(rooms: &BTreeMap<String, BTreeSet<String>>, floors: &[&[&str]]) -> Vec<String> {
    let floor = |room: &str| floors.iter().position(|floor| floor.contains(&room));
    let runs_up = |from: &str, to: &str| floor(from).is_none() || floor(to).is_none_or(|to| Some(to) > floor(from));
    let arrows = rooms.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    arrows.filter(|(from, to)| runs_up(from, to)).map(|(from, to)| format!("{from} → {to}")).collect()
}

#[test]
fn no_import_runs_up() {
    let mut problems = Vec::new();
    for (name, graph) in module_graphs() {
        let folders = graph.folder_graphs();
        for (folder, floors) in MODULE_FLOORS.iter().filter(|(folder, _)| folder.split('/').next() == Some(name)) {
            let folder: ModulePath = folder.split('/').skip(1).map(str::to_owned).collect();
            let rooms = &folders[&folder];
            let known: BTreeSet<&str> = floors.iter().flat_map(|floor| floor.iter().copied()).collect();
            let all: BTreeSet<&str> = rooms.keys().map(String::as_str).collect();
            let unknown: Vec<_> = all.symmetric_difference(&known).collect();
            assert!(unknown.is_empty(), "{name}/{}: on which floor? {unknown:?}", folder.join("/"));
            problems.extend(find_upward_imports(rooms, floors).iter().map(|arrow| format!("{name}: {arrow}")));
        }
    }
    assert!(problems.is_empty(), "these run up:\n{}", problems.join("\n"));
}

/// The drawing of ARCHITECTURE.md names some modules of each floor of a crate.
#[test]
fn the_drawing_shows_the_floors() {
    let page = fs::read_to_string(crates().parent().expect("the workspace").join("ARCHITECTURE.md")).expect("the page");
    for (name, floors) in MODULE_FLOORS.iter().filter(|(folder, _)| !folder.contains('/')) {
        let drawn = page.lines().find(|line| line.split_whitespace().take(2).any(|word| word == *name));
        let drawn = drawn.unwrap_or_else(|| panic!("{name} is not drawn"));
        let (_, modules) = drawn.rsplit_once("  ").expect("columns");
        assert_eq!(modules.split(" · ").count(), floors.len(), "{name}: draw every floor");
        for (modules, floor) in modules.split(" · ").zip(*floors) {
            for module in modules.split(", ") {
                assert!(floor.contains(&module), "{name}: {module} is drawn on another floor");
            }
        }
    }
}

/// The file list of a folder inside a crate names its modules from the bottom up.
#[test]
fn the_file_list_of_a_folder_shows_the_floors() {
    let inside = MODULE_FLOORS.iter().filter_map(|(folder, floors)| Some((folder.split_once('/')?, floors)));
    for ((name, folder), floors) in inside {
        let path = crates().join(name).join("src").join(folder).join("mod.rs");
        let source = fs::read_to_string(path).expect("a mod.rs");
        let listed = source.lines().filter_map(|line| line.strip_prefix("//! - `")?.split('`').next());
        assert_eq!(listed.collect::<Vec<_>>(), floors.concat(), "{name}/{folder}: list modules from the bottom up");
    }
}

/// Commands share code through lower modules, and modules of the command take nothing from its root.
#[test]
fn commands_import_neither_each_other_nor_the_root() {
    let (_, graph) = module_graphs().find(|(name, _)| *name == "chumoku-cli").expect("the command");
    let commands = &graph.folder_graphs()[&["commands".to_owned()][..]];
    let shared: Vec<_> = commands.iter().filter(|(_, arrows)| !arrows.is_empty()).collect();
    assert!(shared.is_empty(), "move what they share below: {shared:?}");
    let mut upwards = Vec::new();
    for (module, arrows) in graph.0.iter().filter(|(module, _)| !module.is_empty()) {
        for (inside, path) in &arrows.paths {
            let reached = graph.resolve(&[&module[..], inside].concat(), path, 0);
            let is_up = |reached: ModulePath| reached.is_empty() || reached == ["commands"] && module.len() > 1;
            if reached.is_some_and(is_up) {
                upwards.push(format!("{} → {}", module.join("/"), path.join("::")));
            }
        }
    }
    assert!(upwards.is_empty(), "these belong to lower modules:\n{}", upwards.join("\n"));
}

#[test]
fn cycles_and_imports_are_found() {
    let rooms = |arrows: &[(&str, &[&str])]| -> BTreeMap<String, BTreeSet<String>> {
        arrows.iter().map(|(room, to)| ((*room).into(), to.iter().map(|to| (*to).into()).collect())).collect()
    };
    assert_eq!(find_cycle(&rooms(&[("a", &["b"]), ("b", &["c"]), ("c", &[])])), None);
    assert_eq!(find_cycle(&rooms(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])])).unwrap(), ["b", "c"]);
    // c is above a and b, and d is on no floor.
    let floors: &[&[&str]] = &[&["a", "b"], &["c"]];
    assert_eq!(find_upward_imports(&rooms(&[("a", &["b"]), ("b", &[]), ("c", &["a"])]), floors), [""; 0]);
    assert_eq!(find_upward_imports(&rooms(&[("a", &["c"]), ("b", &["d"])]), floors), ["a → c", "b → d"]);
    let read = |source: &str| {
        let mut arrows = ModuleImports::default();
        arrows.visit_file(&syn::parse_file(source).unwrap());
        arrows
    };
    let modules = [
        ("", "pub use two::Two; mod one; mod two;"),
        ("one", "mod a; mod b; pub use b::B;"),
        (
            "one/a",
            "use super::B; fn f() { crate::Two::new(tr!(crate::two::h())) } #[cfg(test)] mod tests { use crate::no; }",
        ),
        ("one/b", "use super::a::A; use other::one; mod inside { use super::f; }"),
        ("two", "use super::one::{a::A, b};"),
    ];
    let names = |path: &str| path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect::<ModulePath>();
    let modules = ModuleGraph(modules.iter().map(|(path, source)| (names(path), read(source))).collect());
    let folders = modules.folder_graphs();
    assert_eq!(folders[&names("")], rooms(&[("one", &["two"]), ("two", &["one"])]));
    assert_eq!(folders[&names("one")], rooms(&[("a", &["b"]), ("b", &["a"])]));
    let manifest = "[package]\nname = \"x\"\n[dependencies]\nchumoku = { workspace = true }\nchumoku-nn.workspace = \
                    true\nrayon.workspace = true\n[dev-dependencies]\nchumoku-view.workspace = true\n";
    assert_eq!(dependencies(manifest).into_iter().collect::<Vec<_>>(), ["chumoku", "chumoku-nn"]);
}
