//! An artifact, checked once so that each launch need not: names resolved, types read, indices in range.

use crate::dtype::DType;
use crate::error::{Error, Result};
use flashc_ir::artifact::{Artifact, Expr, Param, Requirement};
use flashc_ir::types::Dim;

/// The length of a tensor axis, resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    /// The dimension of this index.
    Sym(usize),
    /// A constant.
    Const(i64),
}

/// A checked [`Artifact`].
#[derive(Clone, Debug)]
pub struct Signature {
    pub(crate) artifact: Artifact,
    pub(crate) tensor_types: Vec<DType>,
    pub(crate) scalar_types: Vec<DType>,
    pub(crate) axes: Vec<Vec<Axis>>,
    /// Is the scalar read by a condition or the grid?
    pub(crate) host_read: Vec<bool>,
}

impl Signature {
    /// Checks an artifact.
    pub fn new(artifact: Artifact) -> Result<Signature> {
        Checker { a: &artifact }
            .check()
            .map_err(|problem| Error::BadArtifact { kernel: artifact.kernel.clone(), problem })?;
        let bad = |problem| Error::BadArtifact { kernel: artifact.kernel.clone(), problem };
        let types = |it: &mut dyn Iterator<Item = &String>| -> Result<Vec<DType>> {
            it.map(|t| t.parse().map_err(bad)).collect()
        };
        let tensor_types = types(&mut artifact.tensors.iter().map(|t| &t.dtype))?;
        let scalar_types = types(&mut artifact.scalars.iter().map(|s| &s.dtype))?;
        let axis = |d: &Dim| match d {
            Dim::Const(c) => Axis::Const(*c),
            Dim::Sym(s) => Axis::Sym(artifact.dims.iter().position(|d| d == s).unwrap_or(usize::MAX)),
        };
        let axes = artifact.tensors.iter().map(|t| t.dims.iter().map(axis).collect()).collect();
        let mut host_read = vec![false; artifact.scalars.len()];
        let exprs = artifact.wheres.iter().map(|w| &w.holds).chain(&artifact.grid);
        exprs.for_each(|e| {
            visit(e, &mut |leaf| {
                if let Expr::Scalar(i) = leaf {
                    host_read[*i] = true
                }
            })
        });
        Ok(Signature { tensor_types, scalar_types, axes, host_read, artifact })
    }

    /// The artifact.
    pub fn artifact(&self) -> &Artifact {
        &self.artifact
    }

    pub(crate) fn tensor_name(&self, t: usize) -> String {
        self.artifact.tensors[t].name.clone()
    }
}

/// Calls `f` on every node.
pub(crate) fn visit(e: &Expr, f: &mut impl FnMut(&Expr)) {
    f(e);
    match e {
        Expr::Int(_) | Expr::Float(_) | Expr::Bool(_) | Expr::Dim(_) | Expr::Scalar(_) => {}
        Expr::Unary(_, a) => visit(a, f),
        Expr::Binary(_, a, b) => {
            visit(a, f);
            visit(b, f);
        }
        Expr::Select(c, a, b) => {
            visit(c, f);
            visit(a, f);
            visit(b, f);
        }
    }
}

struct Checker<'a> {
    a: &'a Artifact,
}

impl Checker<'_> {
    fn check(&self) -> std::result::Result<(), String> {
        let a = self.a;
        let mut bound = vec![false; a.dims.len()];
        for t in &a.tensors {
            let ty: DType = t.dtype.parse()?;
            if ty.elem() != t.elem {
                return Err(format!("tensor {} is {} and {:?} at once", t.name, t.dtype, t.elem));
            }
            for d in &t.dims {
                if let Dim::Sym(s) = d {
                    let i = a.dims.iter().position(|n| n == s);
                    bound[i.ok_or_else(|| format!("tensor {} has an unknown dimension {s}", t.name))?] = true;
                }
            }
        }
        if let Some(i) = bound.iter().position(|b| !b) {
            return Err(format!("no tensor gives the length of dimension {}", a.dims[i]));
        }
        for s in &a.scalars {
            let ty: DType = s.dtype.parse()?;
            if ty.elem() != s.elem {
                return Err(format!("scalar {} is {} and {:?} at once", s.name, s.dtype, s.elem));
            }
        }
        if a.grid.is_empty() || a.grid.len() > 3 {
            return Err(format!("a grid of {} axes", a.grid.len()));
        }
        for e in a.wheres.iter().map(|w| &w.holds).chain(&a.grid) {
            self.expr(e)?;
        }
        if a.variants.is_empty() {
            return Err("no code".into());
        }
        a.variants.iter().try_for_each(|v| self.variant(v).map_err(|e| format!("variant {}: {e}", v.name)))
    }

    fn expr(&self, e: &Expr) -> std::result::Result<(), String> {
        let mut bad = None;
        visit(e, &mut |leaf| match leaf {
            Expr::Dim(i) if *i >= self.a.dims.len() => bad = Some(format!("no dimension {i}")),
            Expr::Scalar(i) if *i >= self.a.scalars.len() => bad = Some(format!("no scalar {i}")),
            _ => {}
        });
        bad.map_or(Ok(()), Err)
    }

    fn axis(&self, tensor: usize, axis: usize) -> std::result::Result<(), String> {
        let t = self.a.tensors.get(tensor).ok_or_else(|| format!("no tensor {tensor}"))?;
        if axis < t.dims.len() { Ok(()) } else { Err(format!("tensor {} has no axis {axis}", t.name)) }
    }

    fn variant(&self, v: &flashc_ir::artifact::Variant) -> std::result::Result<(), String> {
        for r in &v.requires {
            let (Requirement::Aligned16 { tensor, contiguous: axis } | Requirement::Whole16 { tensor, axis }) =
                r;
            self.axis(*tensor, *axis)?;
        }
        for p in &v.params {
            let missing = match p {
                Param::Scalar(i) => *i >= self.a.scalars.len(),
                Param::Dim(i) => *i >= self.a.dims.len(),
                Param::Pointer(i) => *i >= self.a.tensors.len(),
                Param::TensorMap(i) => *i >= v.tensor_maps.len(),
                Param::Grid(axis) => *axis >= 3,
                Param::Stride { tensor, axis } => self.axis(*tensor, *axis).is_err(),
            };
            if missing {
                return Err(format!("parameter {p:?} refers to nothing"));
            }
        }
        for m in &v.tensor_maps {
            if m.axes.is_empty() || m.axes.len() > 5 || m.axes.len() != m.box_dims.len() {
                return Err(format!(
                    "a tensor map of {} axes and {} box lengths",
                    m.axes.len(),
                    m.box_dims.len()
                ));
            }
            if ![0, 32, 64, 128].contains(&m.swizzle) {
                return Err(format!("a swizzle of {} bytes", m.swizzle));
            }
            if let Some(b) = m.box_dims.iter().find(|b| !(1..=256).contains(*b)) {
                return Err(format!("a box length of {b}"));
            }
            for (i, axis) in m.axes.iter().enumerate() {
                self.axis(m.tensor, *axis)?;
                if m.axes[..i].contains(axis) {
                    return Err(format!("a tensor map with axis {axis} twice"));
                }
            }
            let row = m.box_dims[0] as i64 * self.a.tensors[m.tensor].elem.bytes();
            if row % 16 != 0 || (m.swizzle > 0 && row > m.swizzle as i64) {
                return Err(format!("a box row of {row} bytes with a swizzle of {} bytes", m.swizzle));
            }
        }
        if v.threads == 0 || v.threads > 1024 {
            return Err(format!("{} threads", v.threads));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn problem(edit: impl FnOnce(&mut Artifact)) -> String {
        let mut a = samples::attention();
        edit(&mut a);
        Signature::new(a).unwrap_err().to_string()
    }

    #[test]
    fn inconsistent_artifacts_are_refused() {
        let all = [
            problem(|a| a.dims.push("Z".into())),
            problem(|a| a.tensors[0].dims[1] = Dim::Sym("NOPE".into())),
            problem(|a| a.tensors[0].dtype = "q8".into()),
            problem(|a| a.tensors[0].dtype = "f16".into()),
            problem(|a| a.grid.clear()),
            problem(|a| a.grid[0] = Expr::Dim(17)),
            problem(|a| a.variants.clear()),
            problem(|a| a.variants[0].params.push(Param::Stride { tensor: 0, axis: 4 })),
            problem(|a| a.variants[0].params.push(Param::TensorMap(9))),
            problem(|a| a.variants[0].tensor_maps[0].swizzle = 48),
            problem(|a| a.variants[0].tensor_maps[0].box_dims[0] = 128),
            problem(|a| a.variants[0].tensor_maps[0].axes[1] = 3),
            problem(|a| a.variants[0].threads = 2048),
        ];
        insta::assert_snapshot!(all.join("\n"));
    }
}
