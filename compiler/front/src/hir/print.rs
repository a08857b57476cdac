//! The typed program as readable text.

use super::Kernel;
use crate::constexpr::{Atom, ConstExpr};

impl Kernel {
    /// A constant expression with the kernel's names.
    pub fn const_text(&self, e: &ConstExpr) -> String {
        e.display(&|a| match a {
            Atom::Const(id) => self.generic(*id).name.clone(),
            Atom::Dim(id) => self.dim(*id).name.clone(),
            Atom::Op(..) => String::new(),
        })
    }
}
