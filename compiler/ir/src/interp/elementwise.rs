//! Operations that treat every cell alike: they know neither shapes nor threads.

use super::cells::{Cells, Data, either, narrow};
use super::number::*;
use super::{Mode, Res, malformed};
use crate::ops::{BinaryOp, CastOp, Predicate, UnaryOp};
use crate::types::Elem;

fn same(a: &Cells, b: &Cells) -> Res<()> {
    if a.elem == b.elem && a.len() == b.len() {
        return Ok(());
    }
    malformed(format!("operands differ: {} cells of {} and {} of {}", a.len(), a.elem, b.len(), b.elem))
}

fn zip<T: Copy>(a: &[T], b: &[T], f: impl Fn(T, T) -> T) -> Vec<T> {
    a.iter().zip(b).map(|(a, b)| f(*a, *b)).collect()
}

fn rounded(mut v: Vec<f32>, elem: Elem) -> Data {
    if elem != Elem::F32 {
        v.iter_mut().for_each(|x| *x = round32(*x, elem));
    }
    Data::F32(v)
}

/// Two operands of one type.
pub(super) fn binary(op: BinaryOp, a: &Cells, b: &Cells) -> Res<Cells> {
    same(a, b)?;
    use BinaryOp::*;
    let data = match (&a.data, &b.data) {
        (Data::Int(x), Data::Int(y)) => {
            let r: Option<Vec<i64>> = x.iter().zip(y).map(|(x, y)| int_binary(op, *x, *y, a.elem)).collect();
            match r {
                Some(r) => Data::Int(r),
                None => return malformed(format!("{op} on integers")),
            }
        }
        (Data::F32(x), Data::F32(y)) => rounded(
            match op {
                AddF => zip(x, y, |a, b| a + b),
                SubF => zip(x, y, |a, b| a - b),
                MulF => zip(x, y, |a, b| a * b),
                DivF => zip(x, y, |a, b| a / b),
                MinNumF => zip(x, y, min32),
                MaxNumF => zip(x, y, max32),
                _ => return malformed(format!("{op} on floats")),
            },
            a.elem,
        ),
        (Data::F64(x), Data::F64(y)) => Data::F64(match op {
            AddF => zip(x, y, |a, b| a + b),
            SubF => zip(x, y, |a, b| a - b),
            MulF => zip(x, y, |a, b| a * b),
            DivF => zip(x, y, |a, b| a / b),
            MinNumF => zip(x, y, min64),
            MaxNumF => zip(x, y, max64),
            _ => return malformed(format!("{op} on floats")),
        }),
        _ => return malformed(format!("{op} on operands of different kinds")),
    };
    Ok(Cells { elem: a.elem, data, poison: either(&a.poison, &b.poison) })
}

/// One operand.
pub(super) fn unary(op: UnaryOp, a: &Cells) -> Res<Cells> {
    let data = match &a.data {
        Data::Int(v) if op == UnaryOp::AbsI => {
            Data::Int(v.iter().map(|x| wrap(signed(*x, a.elem).wrapping_abs(), a.elem)).collect())
        }
        Data::F32(v) if op != UnaryOp::AbsI => {
            let f = |x: &f32| round(float_unary(op, *x as f64).unwrap_or(f64::NAN), a.elem) as f32;
            Data::F32(v.iter().map(f).collect())
        }
        Data::F64(v) if op != UnaryOp::AbsI => {
            Data::F64(v.iter().map(|x| float_unary(op, *x).unwrap_or(f64::NAN)).collect())
        }
        _ => return malformed(format!("{op} on {}", a.elem)),
    };
    Ok(Cells { elem: a.elem, data, poison: a.poison.clone() })
}

/// `a * b + c`, rounded once.
pub(super) fn fma(a: &Cells, b: &Cells, c: &Cells) -> Res<Cells> {
    same(a, b)?;
    same(a, c)?;
    let n = a.len();
    let data = match (&a.data, &b.data, &c.data) {
        (Data::F32(x), Data::F32(y), Data::F32(z)) if a.elem == Elem::F32 => {
            Data::F32((0..n).map(|i| x[i].mul_add(y[i], z[i])).collect())
        }
        (Data::F32(x), Data::F32(y), Data::F32(z)) => {
            let one = |i| round(fma_narrow(x[i] as f64, y[i] as f64, z[i] as f64), a.elem) as f32;
            Data::F32((0..n).map(one).collect())
        }
        (Data::F64(x), Data::F64(y), Data::F64(z)) => {
            Data::F64((0..n).map(|i| x[i].mul_add(y[i], z[i])).collect())
        }
        _ => return malformed("fma on integers"),
    };
    Ok(Cells { elem: a.elem, data, poison: either(&either(&a.poison, &b.poison), &c.poison) })
}

/// A bool for each pair.
pub(super) fn compare(p: Predicate, a: &Cells, b: &Cells) -> Res<Cells> {
    same(a, b)?;
    let r: Option<Vec<i64>> = match (&a.data, &b.data) {
        (Data::Int(x), Data::Int(y)) => {
            x.iter().zip(y).map(|(x, y)| Some(int_compare(p, *x, *y, a.elem)? as i64)).collect()
        }
        (Data::F32(x), Data::F32(y)) => {
            x.iter().zip(y).map(|(x, y)| Some(float_compare(p, *x as f64, *y as f64)? as i64)).collect()
        }
        (Data::F64(x), Data::F64(y)) => {
            x.iter().zip(y).map(|(x, y)| Some(float_compare(p, *x, *y)? as i64)).collect()
        }
        _ => None,
    };
    match r {
        Some(r) => Ok(Cells { elem: Elem::I1, data: Data::Int(r), poison: either(&a.poison, &b.poison) }),
        None => malformed(format!("comparison {p} of {}", a.elem)),
    }
}

/// `a` where the condition holds, else `b`; the condition may be one scalar.
pub(super) fn select(cond: &Cells, a: &Cells, b: &Cells) -> Res<Cells> {
    same(a, b)?;
    let c = cond.as_ints()?;
    if c.len() == 1 && a.len() != 1 {
        if cond.is_poison(0) {
            return Ok(Cells { poison: Some(vec![true; a.len()].into()), ..a.clone() });
        }
        return Ok(if c[0] != 0 { a.clone() } else { b.clone() });
    }
    if c.len() != a.len() {
        return malformed("the condition has another number of cells");
    }
    fn pick<T: Copy>(c: &[i64], a: &[T], b: &[T]) -> Vec<T> {
        c.iter().zip(a.iter().zip(b)).map(|(c, (a, b))| if *c != 0 { *a } else { *b }).collect()
    }
    let data = match (&a.data, &b.data) {
        (Data::F32(x), Data::F32(y)) => Data::F32(pick(c, x, y)),
        (Data::F64(x), Data::F64(y)) => Data::F64(pick(c, x, y)),
        (Data::Int(x), Data::Int(y)) => Data::Int(pick(c, x, y)),
        _ => return malformed("select between different kinds"),
    };
    let poison = if cond.poison.is_none() && a.poison.is_none() && b.poison.is_none() {
        None
    } else {
        let one = |i| cond.is_poison(i) || if c[i] != 0 { a.is_poison(i) } else { b.is_poison(i) };
        Some((0..c.len()).map(one).collect())
    };
    Ok(Cells { elem: a.elem, data, poison })
}

/// To another element type.
pub(super) fn cast(op: CastOp, a: &Cells, to: Elem, mode: Mode) -> Res<Cells> {
    use CastOp::*;
    let from = a.elem;
    if !crate::verify::values::cast_fits(op, from, to) {
        return malformed(format!("{op} from {from} to {to}"));
    }
    let n = a.len();
    let out = match (op, &a.data) {
        (Bitcast, _) => Cells::from_bits(to, &(0..n).map(|i| a.bits(i)).collect::<Vec<_>>(), mode),
        (ExtF | TruncF, Data::F32(v)) if narrow(to, mode) => Cells::new(to, rounded(v.clone(), to)),
        (ExtF | TruncF, Data::F32(v)) => Cells::new(to, Data::F64(v.iter().map(|x| *x as f64).collect())),
        (ExtF | TruncF, Data::F64(v)) if narrow(to, mode) => {
            Cells::new(to, Data::F32(v.iter().map(|x| round(*x, to) as f32).collect()))
        }
        (ExtF | TruncF, Data::F64(v)) => Cells::new(to, Data::F64(v.clone())),
        (ExtSI, Data::Int(v)) => Cells::ints(to, v.iter().map(|x| signed(*x, from)).collect()),
        (ExtUI, Data::Int(v)) => {
            Cells::ints(to, v.iter().map(|x| wrap(unsigned(*x, from) as i64, to)).collect())
        }
        (TruncI, Data::Int(v)) => Cells::ints(to, v.iter().map(|x| wrap(*x, to)).collect()),
        (SIToFP, Data::Int(v)) => Cells::floats(
            to,
            v.iter().map(|x| int_to_float(signed(*x, from) as i128, to, mode)).collect(),
            mode,
        ),
        (UIToFP, Data::Int(v)) => Cells::floats(
            to,
            v.iter().map(|x| int_to_float(unsigned(*x, from) as i128, to, mode)).collect(),
            mode,
        ),
        (FPToSI | FPToUI, _) => {
            let one = |i| float_to_int(a.f64_at(i), to, op == FPToSI);
            Cells::ints(to, (0..n).map(one).collect())
        }
        _ => return malformed(format!("{op} from {from} to {to}")),
    };
    Ok(Cells { poison: a.poison.clone(), ..out })
}

fn int_to_float(x: i128, to: Elem, mode: Mode) -> f64 {
    // Through f64 an integer of 64 bits could round twice; sticky low bits keep the direction.
    let exact = x.unsigned_abs() < 1 << 53;
    match (mode, to) {
        (Mode::F64, _) | (_, Elem::F64) => x as f64,
        (_, Elem::F32) => x as f32 as f64,
        _ if exact => round(x as f64, to),
        _ => round(((x >> 12) << 12 | ((x & 0xfff != 0) as i128) << 12) as f64, to),
    }
}

fn float_to_int(x: f64, to: Elem, with_sign: bool) -> i64 {
    let w = width(to);
    if with_sign {
        let max = (i64::MAX >> (64 - w)) as i128;
        return wrap((x as i128).clamp(-max - 1, max) as i64, to);
    }
    let max = (u64::MAX >> (64 - w)) as i128;
    wrap((x as i128).clamp(0, max) as u64 as i64, to)
}
