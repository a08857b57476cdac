//! Artifacts for the tests of this crate.

use crate::device::DeviceFacts;
use flashc_ir::artifact::{
    Artifact, Expr, FORMAT, HostBinary, Param, Persistent, Requirement, ScalarParam, TensorMapSpec,
    TensorParam, Variant, Where,
};
use flashc_ir::types::{Dim, Elem};

pub(crate) fn facts() -> DeviceFacts {
    DeviceFacts {
        ordinal: 0,
        name: "NVIDIA H200".into(),
        capability: (9, 0),
        driver: (13, 0),
        shared_limit: 227 << 10,
        multiprocessors: 132,
    }
}

fn binary(op: HostBinary, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

fn tensor(name: &str, elem: Elem, dims: &[&str], out: bool) -> TensorParam {
    let dim = |d: &&str| d.parse().map_or_else(|_| Dim::Sym((*d).into()), Dim::Const);
    TensorParam {
        name: name.into(),
        dtype: elem.mlir().into(),
        elem,
        dims: dims.iter().map(dim).collect(),
        out,
    }
}

/// The signature of attention with D = 128: a TMA variant and a fallback, without real code.
pub(crate) fn attention() -> Artifact {
    let dims: Vec<String> = ["B", "HQ", "HK", "SQ", "SK"].map(String::from).into();
    let requires = (0..3).map(|tensor| Requirement::Aligned16 { tensor, contiguous: 3 }).collect();
    let map = |tensor| TensorMapSpec {
        tensor,
        axes: vec![3, 2, 1, 0],
        box_dims: vec![64, 128, 1, 1],
        swizzle: 128,
    };
    let variant = |name: &str, requires, maps: Vec<TensorMapSpec>, params| Variant {
        name: name.into(),
        requires,
        ptx: ".version 9.0\n.target sm_90a\n".into(),
        entry: "attention_fwd".into(),
        persistent: Persistent::No,
        threads: 384,
        shared_bytes: 200 << 10,
        registers: None,
        params,
        tensor_maps: maps,
    };
    let common = || vec![Param::Scalar(0), Param::Dim(3), Param::Dim(4), Param::Pointer(4)];
    let mut tma = common();
    tma.extend((0..3).map(Param::TensorMap));
    let mut fallback = common();
    for tensor in 0..3 {
        fallback.push(Param::Pointer(tensor));
        fallback.extend((0..3).map(|axis| Param::Stride { tensor, axis }));
    }
    Artifact {
        format: FORMAT,
        kernel: "attention_fwd".into(),
        doc: String::new(),
        target: "sm_90a".into(),
        capability: (9, 0),
        specialization: vec![("T".into(), "bf16".into()), ("D".into(), "128".into())],
        scalars: vec![ScalarParam { name: "scale".into(), dtype: "f32".into(), elem: Elem::F32 }],
        dims,
        tensors: vec![
            tensor("q", Elem::BF16, &["B", "HQ", "SQ", "128"], false),
            tensor("k", Elem::BF16, &["B", "HK", "SK", "128"], false),
            tensor("v", Elem::BF16, &["B", "HK", "SK", "128"], false),
            tensor("o", Elem::BF16, &["B", "HQ", "SQ", "128"], true),
            tensor("lse", Elem::F32, &["B", "HQ", "SQ"], true),
        ],
        wheres: vec![
            Where {
                holds: binary(
                    HostBinary::Eq,
                    binary(HostBinary::Rem, Expr::Dim(1), Expr::Dim(2)),
                    Expr::Int(0),
                ),
                text: "HQ % HK == 0".into(),
                line: 7,
            },
            Where {
                holds: binary(HostBinary::Gt, Expr::Scalar(0), Expr::Float(0.0)),
                text: "scale > 0.0".into(),
                line: 7,
            },
        ],
        grid: vec![binary(HostBinary::CeilDiv, Expr::Dim(3), Expr::Int(128)), Expr::Dim(1), Expr::Dim(0)],
        variants: vec![
            variant("tma", requires, (0..3).map(map).collect(), tma),
            variant("fallback", Vec::new(), Vec::new(), fallback),
        ],
    }
}

/// `y[i] = a * x[i]`, a thread an element.
pub(crate) const SCALE_PTX: &str = include_str!("../testdata/scale.ptx");
