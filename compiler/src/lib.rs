//! flashc-compiler: from the text of a typed tile program to an artifact.
//!
//! ```text
//! source -> flashc_front: tokens, syntax tree, typed program
//!        -> import:       one specialization as a tile function
//!        -> pipeline:     passes, once for each variant
//!        -> lower:        MLIR's llvm and nvvm
//!        -> flashc_mlir:  LLVM IR, PTX
//!        -> Artifact
//! ```
//! [`compile`] does all of it. There is no IO, no environment and no clock here: an [`Observer`] sees the
//! phases go by.

pub mod import;
pub mod lower;
pub mod passes;
pub mod pipeline;
pub mod reference;
pub mod run_header;

use flashc_front::codes::Code;
use flashc_front::diagnostic::{Diagnostic, render};
use flashc_front::hir::{Kernel, SpecValue, Specialization};
use flashc_front::source::{Source, Span};
use flashc_ir::artifact::{Artifact, FORMAT, Variant};
use flashc_ir::target::Target;
use flashc_ir::{Func, Loc};
use flashc_mlir::{CodegenOptions, Context};
pub use pipeline::{Observer, Quiet};

/// What to compile, and how.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// Which kernel of the file; the only one if absent.
    pub kernel: Option<String>,
    /// Values of generics, by name: `("D", "128")`.
    pub set: Vec<(String, String)>,
    /// Target name.
    pub target: String,
    /// Source lines in the PTX.
    pub line_info: bool,
    /// What passes leave open.
    pub choices: passes::Choices,
    /// Keep the LLVM IR.
    pub keep_llvm: bool,
    /// Colour in rendered diagnostics.
    pub color: bool,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            kernel: None,
            set: vec![],
            target: "sm_90a".into(),
            line_info: false,
            choices: passes::Choices::default(),
            keep_llvm: false,
            color: false,
        }
    }
}

/// The result of a compilation.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// What a runtime loads.
    pub artifact: Artifact,
    /// The function as imported: what the interpreter runs as the meaning of the program.
    pub imported: Func,
    /// By variant, the function after the last pass.
    pub sm90: Vec<(String, Func)>,
    /// By variant, LLVM IR, if kept.
    pub llvm: Vec<(String, String)>,
    /// Warnings, rendered.
    pub warnings: String,
}

/// Why there is no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// The program is wrong, or asks for what cannot be done.
    #[error("{rendered}")]
    User {
        /// For a person.
        rendered: String,
        /// The same as data.
        diagnostics: Vec<Diagnostic>,
    },
    /// We are wrong.
    #[error("a bug in flashc, in {pass}: {message}")]
    Bug {
        /// The pass or step.
        pass: String,
        /// What went wrong.
        message: String,
        /// The IR before it, as far as it is known.
        before: String,
    },
}

/// From the text of a program to an artifact for one specialization of one kernel.
pub fn compile(
    name: &str,
    source: &[u8],
    options: &CompileOptions,
    observer: &mut dyn Observer,
) -> Result<Compiled, Failure> {
    let front = front(name, source, options, observer)?;
    let (source, imported) = (front.source, front.imported);
    let Some(target) = Target::by_name(&options.target) else {
        let known: Vec<_> = Target::all().into_iter().map(|t| t.name).collect();
        let d =
            Diagnostic::new(Code::UnknownTarget, Span::default(), format!("no target `{}`", options.target))
                .help(format!("known: {}", known.join(", ")));
        return Err(user(vec![d], &source, options));
    };
    observer.phase("mlir context", "");
    let bug =
        |pass: &str, message: String| Failure::Bug { pass: pass.into(), message, before: String::new() };
    let cx = Context::new();
    let mut compiled = Compiled {
        artifact: Artifact {
            format: FORMAT,
            kernel: imported.func.name.clone(),
            doc: imported.doc,
            target: target.name.clone(),
            capability: target.capability,
            specialization: imported.specialization,
            scalars: imported.scalars,
            dims: imported.dims,
            tensors: imported.tensors,
            wheres: imported.wheres,
            grid: imported.grid,
            variants: vec![],
        },
        imported: imported.func,
        sm90: vec![],
        llvm: vec![],
        warnings: front.warnings,
    };
    let settings = passes::Settings { target: target.clone(), choices: options.choices };
    for variant in pipeline::VARIANTS {
        let failed = |pass: &str, before: String, f: passes::Failure| match f {
            passes::Failure::User(problems) => {
                user(problems.into_iter().map(|p| diagnostic(p, &source)).collect(), &source, options)
            }
            passes::Failure::Bug(message) => Failure::Bug { pass: pass.into(), message, before },
        };
        let func = pipeline::run(&cx, &compiled.imported, variant, &settings, observer)
            .map_err(|s| failed(&s.pass, s.before, s.failure))?;
        observer.phase("lower", variant.name);
        let (scalars, dims) = (compiled.artifact.scalars.len(), compiled.artifact.dims.len());
        let lowered = pipeline::lower(&func, variant, scalars, dims, options.line_info)
            .map_err(|f| failed("lower", flashc_ir::text::print_module(&func), f))?;
        observer.phase("llvm and ptx", variant.name);
        let codegen = CodegenOptions {
            cpu: target.name.clone(),
            ptx_feature: target.ptx,
            line_info: options.line_info,
            keep_llvm: options.keep_llvm,
        };
        let ptx = flashc_mlir::compile_to_ptx(&cx, &lowered.text, &codegen).map_err(|e| Failure::Bug {
            pass: "llvm and ptx".into(),
            message: e.to_string(),
            before: lowered.text.clone(),
        })?;
        for (name, took) in &ptx.timings {
            observer.part(name, *took);
        }
        let name = if lowered.tensor_maps.is_empty() { variant.name } else { "tma" };
        compiled.llvm.extend(ptx.llvm.map(|t| (name.to_string(), t)));
        compiled.sm90.push((name.to_string(), func.clone()));
        let unconditional = lowered.requires.is_empty();
        compiled.artifact.variants.push(Variant {
            name: name.into(),
            requires: lowered.requires,
            ptx: ptx.text,
            entry: compiled.artifact.kernel.clone(),
            threads: lowered.threads,
            persistent: lowered.persistent,
            shared_bytes: func.shared_bytes.unwrap_or(0) as u32,
            registers: None,
            params: lowered.params,
            tensor_maps: lowered.tensor_maps,
        });
        if unconditional {
            break;
        }
    }
    if compiled.artifact.variants.last().is_none_or(|v| !v.requires.is_empty()) {
        return Err(bug("pipeline", "no variant runs on every tensor".into()));
    }
    Ok(compiled)
}

/// A program read, checked and imported.
#[derive(Clone, Debug)]
pub struct Front {
    /// Its text.
    pub source: Source,
    /// One specialization of one kernel.
    pub imported: import::Imported,
    /// Warnings, rendered.
    pub warnings: String,
}

/// The part of [`compile`] before MLIR.
pub fn front(
    name: &str,
    source: &[u8],
    options: &CompileOptions,
    observer: &mut dyn Observer,
) -> Result<Front, Failure> {
    observer.phase("front end", "");
    let source = match Source::from_bytes(name, source.to_vec()) {
        Ok(s) => s,
        Err(d) => return Err(user(vec![*d], &Source::new(name, ""), options)),
    };
    let analysis = flashc_front::analyze(&source);
    let (Some(program), false) = (analysis.program, has_errors(&analysis.diagnostics)) else {
        return Err(user(analysis.diagnostics, &source, options));
    };
    let warnings = render(&analysis.diagnostics, &source, options.color);
    let kernel =
        choose(&program.kernels, options.kernel.as_deref()).map_err(|d| user(vec![d], &source, options))?;
    let mut spec = Specialization::new();
    let mut bad = vec![];
    for (name, value) in &options.set {
        match SpecValue::parse(value) {
            Some(v) => spec.set(name, v),
            None => bad.push(
                Diagnostic::new(Code::BadConstant, kernel.span, format!("`{name} = {value}` is not a value"))
                    .label("for this kernel")
                    .help("a value is an integer, `true`, `false` or an element type such as `bf16`"),
            ),
        }
    }
    if !bad.is_empty() {
        return Err(user(bad, &source, options));
    }
    let bound = kernel.specialize(&spec).map_err(|ds| user(ds, &source, options))?;
    observer.phase("import", "");
    let imported = import::import(&source, kernel, &bound).map_err(|ds| user(ds, &source, options))?;
    if let Err(violations) = flashc_ir::verify::verify(&imported.func) {
        let text: Vec<_> = violations.iter().map(|v| format!("line {}: {}", v.loc.line, v.message)).collect();
        let before = flashc_ir::text::print_module(&imported.func);
        return Err(Failure::Bug { pass: "import".into(), message: text.join("; "), before });
    }
    Ok(Front { source, imported, warnings })
}

fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|d| d.severity == flashc_front::diagnostic::Severity::Error)
}

/// The kernel of this name, or the only one.
fn choose<'a>(kernels: &'a [Kernel], name: Option<&str>) -> Result<&'a Kernel, Diagnostic> {
    let names: Vec<_> = kernels.iter().map(|k| k.name.as_str()).collect();
    let span = kernels.first().map(|k| k.span).unwrap_or_default();
    match (name, kernels) {
        (Some(n), _) => kernels.iter().find(|k| k.name == n).ok_or_else(|| {
            Diagnostic::new(Code::UnknownKernel, span, format!("no kernel `{n}` in this file"))
                .label("a kernel of this file")
                .help(format!("it has: {}", names.join(", ")))
        }),
        (None, [only]) => Ok(only),
        (None, _) => {
            Err(Diagnostic::new(Code::UnknownKernel, span, "this file has several kernels: say which")
                .label("the first of them")
                .help(format!("name one of: {}", names.join(", "))))
        }
    }
}

fn user(diagnostics: Vec<Diagnostic>, source: &Source, options: &CompileOptions) -> Failure {
    Failure::User { rendered: render(&diagnostics, source, options.color), diagnostics }
}

/// A pass's problem as a diagnostic: from line and column back to a span.
fn diagnostic(p: passes::Problem, source: &Source) -> Diagnostic {
    let span = span_of(&p.loc, source);
    Diagnostic::new(p.code, span, p.message).label(p.label).help(p.help)
}

/// The word, or the bracket expression's head, at a place.
fn span_of(loc: &Loc, source: &Source) -> Span {
    let text = source.text();
    let line: usize = text.split_inclusive('\n').take(loc.line as usize - 1).map(str::len).sum();
    let rest = text.get(line..).unwrap_or("");
    let start = line + rest.char_indices().nth(loc.column as usize - 1).map_or(0, |(i, _)| i);
    let tail = text.get(start..).unwrap_or("");
    let end = tail.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(tail.len()).max(1);
    Span::new(start.min(text.len()), (start + end).min(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_has_unique_documented_names() {
        let names: Vec<_> = pipeline::PASSES.iter().map(|p| p.name).collect();
        for (i, n) in names.iter().enumerate() {
            assert!(!names[..i].contains(n), "{n} twice");
            assert!(n.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{n}");
        }
    }
}
