//! An MLIR context with the dialects that the compiler uses, and a trap for diagnostics.
#![allow(unsafe_code)]

use crate::{Failure, Module};
use flashc_ir::{Func, Type};
use melior::diagnostic::{Diagnostic, DiagnosticSeverity};
use melior::dialect::{DialectHandle, DialectRegistry};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

unsafe extern "C" {
    fn mlirGetDialectHandle__tile__() -> mlir_sys::MlirDialectHandle;
    fn mlirGetDialectHandle__sm90__() -> mlir_sys::MlirDialectHandle;
    fn flashcRegisterTranslations(registry: mlir_sys::MlirDialectRegistry);
}

/// Owns everything that its modules consist of. Not `Send`; about 2 ms to make.
pub struct Context {
    pub(crate) raw: melior::Context,
    diagnostics: Rc<RefCell<Vec<String>>>,
    /// Types read so far, by MLIR's unique pointer.
    pub(crate) types: RefCell<HashMap<usize, Type>>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

impl Default for Context {
    fn default() -> Self {
        Context::new()
    }
}

impl Context {
    /// A context with the dialects arith, cf, func, index, llvm, math, nvvm, scf, ub, vector, tile and sm90.
    pub fn new() -> Context {
        let registry = DialectRegistry::new();
        // SAFETY: a dialect handle is a pointer to a constant table; these functions only return it.
        let handles = unsafe {
            [
                mlir_sys::mlirGetDialectHandle__arith__(),
                mlir_sys::mlirGetDialectHandle__cf__(),
                mlir_sys::mlirGetDialectHandle__func__(),
                mlir_sys::mlirGetDialectHandle__index__(),
                mlir_sys::mlirGetDialectHandle__llvm__(),
                mlir_sys::mlirGetDialectHandle__math__(),
                mlir_sys::mlirGetDialectHandle__nvvm__(),
                mlir_sys::mlirGetDialectHandle__scf__(),
                mlir_sys::mlirGetDialectHandle__ub__(),
                mlir_sys::mlirGetDialectHandle__vector__(),
                mlirGetDialectHandle__tile__(),
                mlirGetDialectHandle__sm90__(),
            ]
        };
        for handle in handles {
            // SAFETY: the handle comes from MLIR and lives as long as the process.
            unsafe { DialectHandle::from_raw(handle) }.insert_dialect(&registry);
        }
        // SAFETY: the registry is alive; the function adds entries to it.
        unsafe { flashcRegisterTranslations(registry.to_raw()) };

        let raw = melior::Context::new_with_registry(&registry, false);
        raw.load_all_available_dialects();
        let diagnostics = Rc::new(RefCell::new(vec![]));
        let sink = Rc::clone(&diagnostics);
        raw.attach_diagnostic_handler(move |d| {
            sink.borrow_mut().push(render(&d, ""));
            true
        });
        Context { raw, diagnostics, types: RefCell::default() }
    }

    /// Writes a function as a module and verifies it.
    pub fn write(&self, func: &Func) -> Result<Module<'_>, Failure> {
        self.parse(&flashc_ir::text::print_module(func))
    }

    /// Parses and verifies a module.
    pub fn parse(&self, text: &str) -> Result<Module<'_>, Failure> {
        if text.contains('\0') {
            return Err(Failure::new("parse", "the text contains a NUL byte"));
        }
        let raw =
            self.capture("parse", "the module is malformed", || melior::ir::Module::parse(&self.raw, text))?;
        Ok(Module { raw, context: self })
    }

    /// Runs something that says why it fails through MLIR's diagnostics.
    pub(crate) fn capture<T>(
        &self,
        stage: &'static str,
        message: &str,
        action: impl FnOnce() -> Option<T>,
    ) -> Result<T, Failure> {
        self.diagnostics.borrow_mut().clear();
        let result = action();
        let said = std::mem::take(&mut *self.diagnostics.borrow_mut());
        result.ok_or_else(|| Failure::new(stage, message).with(said))
    }
}

fn render(d: &Diagnostic<'_>, indent: &str) -> String {
    let severity = match d.severity() {
        DiagnosticSeverity::Error => "error",
        DiagnosticSeverity::Warning => "warning",
        DiagnosticSeverity::Note => "note",
        DiagnosticSeverity::Remark => "remark",
    };
    let location = d.location().to_string();
    let location = location.strip_prefix("loc(").and_then(|l| l.strip_suffix(')')).unwrap_or(&location);
    let mut text = format!("{indent}{location}: {severity}: {d}");
    for note in (0..d.note_count()).filter_map(|i| d.note(i).ok()) {
        text.push('\n');
        text.push_str(&render(&note, "  "));
    }
    text
}
