//! Tests of [`super::plan_launch`]: what each error says, variant choice, parameters.

use super::*;
use crate::args::{Scalar, contiguous_strides};
use crate::dtype::DType;
use crate::samples;
use flashc_ir::artifact::{Artifact, HostBinary};

/// A launch of attention that is right, to be broken in one place.
struct Launch {
    artifact: Artifact,
    shapes: Vec<Vec<i64>>,
    strides: Vec<Vec<i64>>,
    pointers: Vec<u64>,
    dtypes: Vec<DType>,
    devices: Vec<i32>,
    scale: Scalar,
}

fn launch() -> Launch {
    let q = vec![2, 6, 300, 128];
    let k = vec![2, 3, 400, 128];
    let shapes = vec![q.clone(), k.clone(), k, q.clone(), q[..3].to_vec()];
    Launch {
        artifact: samples::attention(),
        strides: shapes.iter().map(|s| contiguous_strides(s)).collect(),
        shapes,
        pointers: (1..=5).map(|i| i << 32).collect(),
        dtypes: vec![DType::BF16, DType::BF16, DType::BF16, DType::BF16, DType::F32],
        devices: vec![0; 5],
        scale: Scalar::Float(0.125),
    }
}

impl Launch {
    fn tensor(&self, i: usize) -> TensorArg<'_> {
        TensorArg {
            pointer: self.pointers[i],
            dtype: self.dtypes[i],
            shape: &self.shapes[i],
            strides: &self.strides[i],
            device: self.devices[i],
        }
    }

    fn args(&self) -> Args<'_> {
        (0..5).fold(Args::new(), |a, i| a.tensor(self.tensor(i))).scalar(self.scale)
    }

    fn plan_with(&self, args: &Args) -> Result<Plan> {
        plan_launch(&Signature::new(self.artifact.clone())?, args, &samples::facts())
    }

    fn plan(&self) -> Result<Plan> {
        self.plan_with(&self.args())
    }

    /// Gives tensor `i` another shape.
    fn shape(&mut self, i: usize, shape: &[i64]) {
        self.shapes[i] = shape.to_vec();
        self.strides[i] = contiguous_strides(shape);
    }
}

fn rendered(edit: impl FnOnce(&mut Launch)) -> String {
    let mut l = launch();
    edit(&mut l);
    l.plan().unwrap_err().render()
}

#[test]
fn every_error_about_tensors() {
    let huge = i64::from(i32::MAX) + 1;
    let all = [
        rendered(|l| l.dtypes[1] = DType::F16),
        rendered(|l| l.shape(0, &[2, 6, 128])),
        rendered(|l| l.strides[0].truncate(3)),
        rendered(|l| l.devices[2] = 1),
        rendered(|l| l.devices[2] = -1),
        rendered(|l| l.shape(2, &[2, 3, 401, 128])),
        rendered(|l| l.shape(4, &[2, 6, 299])),
        rendered(|l| l.shape(1, &[2, 3, 400, 64])),
        rendered(|l| l.shapes[0][2] = huge),
        rendered(|l| l.shapes[0][2] = -1),
        rendered(|l| l.strides[0][2] = -128),
        rendered(|l| l.strides[3][0] = 0),
        rendered(|l| l.strides[4] = vec![1800, 300, 6]),
        rendered(|l| l.pointers[3] = l.pointers[4]),
        rendered(|l| l.pointers[3] = l.pointers[4] - 512),
        rendered(|l| l.pointers[4] += 2),
        rendered(|l| l.pointers[0] = 0),
        rendered(|l| l.strides[0][0] = i64::MAX),
    ];
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn every_error_about_the_launch() {
    let all = [
        rendered(|l| {
            (0..4).filter(|i| *i != 1 && *i != 2).for_each(|i| l.shape(i, &[2, 7, 300, 128]));
            l.shape(4, &[2, 7, 300]);
        }),
        rendered(|l| l.scale = Scalar::Float(-1.0)),
        rendered(|l| l.scale = Scalar::Float(f64::NAN)),
        rendered(|l| l.scale = Scalar::Bool(true)),
        rendered(|l| {
            (0..4).for_each(|i| l.shape(i, &[70_000, 1, 1, 128]));
            l.shape(4, &[70_000, 1, 1]);
        }),
        rendered(|l| l.artifact.grid[0] = Expr::Int(-1)),
        rendered(|l| {
            let big = || Box::new(Expr::Int(i64::MAX));
            let product = Expr::Binary(HostBinary::Mul, big(), Box::new(Expr::Dim(3)));
            l.artifact.grid[0] = product;
        }),
        rendered(|l| {
            let product =
                Expr::Binary(HostBinary::Mul, Box::new(Expr::Int(i64::MAX)), Box::new(Expr::Dim(3)));
            l.artifact.wheres[0].holds = product;
        }),
        rendered(|l| {
            l.artifact.variants.pop();
            l.pointers[0] += 8;
        }),
    ];
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn every_error_about_names_and_numbers() {
    let l = launch();
    let four = || (0..4).fold(Args::new(), |a, i| a.tensor(l.tensor(i)));
    let all = [
        l.plan_with(&four().scalar(0.5)),
        l.plan_with(&four().tensor(l.tensor(4))),
        l.plan_with(&four().named_tensor("lsd", l.tensor(4)).scalar(0.5)),
        l.plan_with(&four().named_tensor("q", l.tensor(4)).scalar(0.5)),
        l.plan_with(&l.args().scalar(0.5)),
        l.plan_with(&four().tensor(l.tensor(4)).named_scalar("scalar", 0.5)),
    ];
    let text: Vec<String> = all.map(|r| r.unwrap_err().render()).into();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn names_and_positions_mix() {
    let l = launch();
    let by_position = l.plan().unwrap();
    let mixed = Args::new()
        .named_tensor("lse", l.tensor(4))
        .named_tensor("o", l.tensor(3))
        .tensor(l.tensor(0))
        .tensor(l.tensor(1))
        .tensor(l.tensor(2))
        .named_scalar("scale", 0.125);
    assert_eq!(l.plan_with(&mixed), Ok(by_position));
}

#[test]
fn the_first_variant_that_fits_runs() {
    let plan = launch().plan().unwrap();
    assert_eq!((plan.variant, plan.grid, plan.empty), (0, [3, 6, 2], false));
    assert_eq!(plan.dims, [2, 6, 3, 300, 400]);
    assert_eq!(plan.rejected, []);
    let word = |x: u64| ParamValue::Word(x);
    let scale = word(0.125f32.to_bits().into());
    let map = ParamValue::Map;
    assert_eq!(plan.params, [scale, word(300), word(400), word(5 << 32), map(0), map(1), map(2)]);
    assert_eq!(plan.maps.len(), 3);
    assert_eq!(plan.maps[1].dims, [128, 400, 3, 2, 0]);
}

#[test]
fn unaligned_tensors_take_the_fallback_and_say_why() {
    let mut l = launch();
    l.pointers[0] += 8;
    let plan = l.plan().unwrap();
    assert_eq!(plan.variant, 1);
    assert_eq!(plan.rejected[0].to_string(), "tma: `q`: its address is not a multiple of 16");
    assert_eq!(plan.maps, []);
    // scale, SQ, SK, lse, then a pointer and three strides a tensor.
    assert_eq!(plan.params.len(), 16);
    assert_eq!(plan.params[4], ParamValue::Word((1 << 32) + 8));
    assert_eq!(plan.params[5], ParamValue::Word(6 * 300 * 128));

    let mut l = launch();
    l.strides[1] = vec![2 * 3 * 400 * 128, 2 * 400 * 128, 256, 2];
    let plan = l.plan().unwrap();
    assert_eq!(plan.rejected[0].to_string(), "tma: `k`: its axis 3 has stride 2, not 1");
}

#[test]
fn a_bshd_view_is_as_good_and_a_broadcast_input_is_legal() {
    let mut l = launch();
    l.strides[0] = vec![300 * 6 * 128, 128, 6 * 128, 1];
    assert_eq!(l.plan().unwrap().variant, 0);
    // One key head for all: stride 0 on an axis longer than 1 is for the fallback.
    l.strides[1][1] = 0;
    let plan = l.plan().unwrap();
    assert_eq!(plan.variant, 1);
    assert!(plan.rejected[0].reason.contains("not a positive multiple of 16"));
}

#[test]
fn empty_things() {
    // No queries: nothing to do.
    let mut l = launch();
    l.shape(0, &[2, 6, 0, 128]);
    l.shape(3, &[2, 6, 0, 128]);
    l.shape(4, &[2, 6, 0]);
    (l.pointers[0], l.pointers[3], l.pointers[4]) = (0, 0, 0);
    let plan = l.plan().unwrap();
    assert!(plan.empty);
    assert_eq!(plan.grid, [0, 6, 2]);
    // No keys: the outputs are still written.
    let mut l = launch();
    for i in [1, 2] {
        l.shape(i, &[2, 3, 0, 128]);
        l.pointers[i] = 0;
    }
    let plan = l.plan().unwrap();
    // A bulk load has nothing to read from there.
    assert_eq!((plan.empty, plan.variant), (false, 1));
    assert_eq!(plan.rejected[0].reason, "`k`: it has no elements");
}

#[test]
fn outputs_and_inputs_may_share_memory() {
    let mut l = launch();
    l.pointers[3] = l.pointers[0];
    assert_eq!(l.plan().unwrap().notes, [], "the very same tensor: in place");
    l.pointers[3] += 256;
    let notes: Vec<String> = l.plan().unwrap().notes.iter().map(ToString::to_string).collect();
    assert_eq!(notes, ["the output `o` shares memory with the input `q`: reads may see new values"]);
}

#[test]
fn every_code_is_explained_once() {
    let codes: Vec<&str> = crate::codes().iter().map(|c| c.code).collect();
    assert!(codes.is_sorted_by(|a, b| a < b), "ascending and unique");
    let source = include_str!("error.rs");
    let used: std::collections::BTreeSet<&str> = source
        .split('"')
        .filter(|w| w.len() == 5 && w.starts_with("L0") && w[1..].bytes().all(|b| b.is_ascii_digit()))
        .collect();
    assert_eq!(codes, used.into_iter().collect::<Vec<_>>());
}
