//! Tensors: loads and stores by ordinary instructions.
//!
//! An element outside the tensor reads as 0 and is not written. Adjacent registers that are adjacent in
//! memory are one access of up to 16 bytes where the tensor may be assumed aligned.

use super::emit::{I32, I64, Ty, V};
use super::{Failure, Lower};
use flashc_ir::{Distribution, Elem, Op, TileType};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// Bytes of the widest access.
const RUN_BYTES: i64 = 16;

/// Where a tile's elements are in a tensor.
struct Access {
    tensor: usize,
    /// Byte address of the slice's origin; the tile's axes are added to it.
    origin: V,
    /// Is every index of a dropped axis in range? `None`: yes.
    inside: Option<V>,
    /// For each axis of the tile: the tensor's axis and the first index.
    axes: Vec<(usize, V)>,
    /// By tile axis and register offset: byte offset, and whether the index is in range.
    cache: HashMap<(usize, i64), (V, V)>,
    /// Elements of one access.
    run: usize,
}

/// A load on its way.
pub(super) struct Load {
    t: TileType,
    d: Rc<Distribution>,
    a: Access,
}

impl Lower<'_> {
    pub(super) fn load(&mut self, op: &Op, axes: &[usize]) -> Result<Vec<V>, Failure> {
        let mut load = self.begin_load(op, axes)?;
        let all = load.d.regs.len();
        self.load_registers(&mut load, 0..all)
    }

    /// Prepares a load that goes register by register.
    pub(super) fn begin_load(&mut self, op: &Op, axes: &[usize]) -> Result<Load, Failure> {
        let t = self.tile_type(op.result())?;
        let d = self.distribution(&t)?;
        let a = self.access(op, axes, &t, &d, op.operands.len() - 1)?;
        Ok(Load { t, d, a })
    }

    /// Loads some of the registers: whole accesses.
    pub(super) fn load_registers(&mut self, l: &mut Load, which: Range<usize>) -> Result<Vec<V>, Failure> {
        let Load { t, d, a } = l;
        let mut out = Vec::with_capacity(which.len());
        for at in which.step_by(a.run) {
            let (address, first) = self.element_address(a, t, d, at)?;
            if a.run == 1 {
                out.push(self.load_if(address, first, t.elem));
                continue;
            }
            let run = a.run;
            let (_, last) = self.element_address(a, t, d, at + run - 1)?;
            let whole = match (first, last) {
                (Some(x), Some(y)) => self.e.bin("andi", x, y),
                (x, y) => x.or(y).unwrap_or_else(|| self.e.int(1, super::emit::I1)),
            };
            let mut singles = vec![];
            for i in 0..run {
                singles.push(self.element_address(a, t, d, at + i)?);
            }
            // The emitter is lent to the branches, which only load.
            let mut e = std::mem::replace(&mut self.e, super::emit::Emit::new(false));
            let regs = {
                let this = std::cell::RefCell::new(&mut *self);
                e.if_else(
                    whole,
                    |e| this.borrow_mut().lend(e, |s| s.load_run(address, run, t.elem)),
                    |e| {
                        this.borrow_mut()
                            .lend(e, |s| singles.iter().map(|(p, ok)| s.load_if(*p, *ok, t.elem)).collect())
                    },
                )
            };
            self.e = e;
            out.extend(regs);
        }
        Ok(out)
    }

    /// Runs `f` with this emitter in place.
    fn lend<T>(&mut self, e: &mut super::emit::Emit, f: impl FnOnce(&mut Self) -> T) -> T {
        std::mem::swap(&mut self.e, e);
        let t = f(self);
        std::mem::swap(&mut self.e, e);
        t
    }

    pub(super) fn store(&mut self, op: &Op, axes: &[usize]) -> Result<(), Failure> {
        let value = op.operands[op.operands.len() - 1];
        let t = self.tile_type(value)?;
        let d = self.distribution(&t)?;
        let regs = self.tile(value)?;
        let mut a = self.access(op, axes, &t, &d, op.operands.len() - 2)?;
        let owner = self.threads.owner(&mut self.e, &d);
        a.inside = self.e.and(a.inside, owner);
        for at in (0..d.regs.len()).step_by(a.run) {
            let mut singles = vec![];
            for i in 0..a.run {
                singles.push(self.element_address(&mut a, &t, &d, at + i)?);
            }
            if a.run == 1 {
                self.store_if(singles[0].0, singles[0].1, regs[at]);
                continue;
            }
            // A run lies in one row, whose own conditions the branches need not repeat.
            let row = self.in_range(&a, &d, at, t.shape.len() - 1);
            let columns: Vec<V> = (0..a.run).map(|i| self.column_in_range(&a, &d, at + i)).collect();
            let whole = self.e.bin("andi", columns[0], columns[a.run - 1]);
            let all = self.e.and(row, Some(whole)).unwrap_or(whole);
            self.store_run(singles[0].0, all, &regs[at..at + a.run]);
            let one = self.e.int(1, super::emit::I1);
            let ragged = self.e.bin("xori", whole, one);
            let ragged = self.e.and(row, Some(ragged));
            let mut e = std::mem::replace(&mut self.e, super::emit::Emit::new(false));
            e.when(ragged, |e| {
                self.lend(e, |s| {
                    for ((p, _), (ok, v)) in singles.iter().zip(columns.iter().zip(&regs[at..])) {
                        s.store_if(*p, Some(*ok), *v);
                    }
                });
            });
            self.e = e;
        }
        Ok(())
    }

    /// Does a register's element exist as far as the first axes decide? Its address has been computed.
    fn in_range(&mut self, a: &Access, d: &Distribution, reg: usize, axes: usize) -> Option<V> {
        (0..axes).fold(a.inside, |ok, axis| {
            let inside = a.cache.get(&(axis, d.regs[reg][axis])).map(|x| x.1);
            self.e.and(ok, inside)
        })
    }

    /// And as far as the last axis decides?
    fn column_in_range(&mut self, a: &Access, d: &Distribution, reg: usize) -> V {
        let last = d.shape.len() - 1;
        let inside = a.cache.get(&(last, d.regs[reg][last])).map(|x| x.1);
        inside.unwrap_or_else(|| self.e.int(1, super::emit::I1))
    }

    pub(super) fn load_scalar(&mut self, op: &Op) -> Result<V, Failure> {
        let tensor = self.tensor(op.operands[0])?;
        let (address, inside) = self.scalar_address(op, tensor, op.operands.len() - 1)?;
        Ok(self.load_if(address, inside, self.tensors[tensor].elem))
    }

    pub(super) fn store_scalar(&mut self, op: &Op) -> Result<(), Failure> {
        let tensor = self.tensor(op.operands[0])?;
        let (address, inside) = self.scalar_address(op, tensor, op.operands.len() - 2)?;
        let first = self.threads.first(&mut self.e);
        let ok = self.e.and(inside, Some(first));
        let v = self.scalar(op.operands[op.operands.len() - 1])?;
        self.store_if(address, ok, v);
        Ok(())
    }

    fn scalar_address(&mut self, op: &Op, tensor: usize, axes: usize) -> Result<(V, Option<V>), Failure> {
        self.addressed.insert(tensor);
        let (mut address, mut inside) = (self.tensors[tensor].pointer, None);
        for axis in 0..axes {
            let index = self.scalar(op.operands[1 + axis])?;
            (address, inside) = self.step(tensor, axis, index, address, inside)?;
        }
        Ok((address, inside))
    }

    /// Goes to an index along an axis, and notes whether that is in range.
    fn step(
        &mut self,
        tensor: usize,
        axis: usize,
        index: V,
        p: V,
        inside: Option<V>,
    ) -> Result<(V, Option<V>), Failure> {
        let (offset, ok) = self.index(tensor, axis, index, false)?;
        Ok((self.e.offset(p, offset), self.e.and(inside, Some(ok))))
    }

    /// Byte offset of an index along an axis, and whether it is in range.
    fn index(&mut self, tensor: usize, axis: usize, index: V, adjacent: bool) -> Result<(V, V), Failure> {
        let len = self.dim(tensor, axis)?;
        let ok = self.e.icmp(6, index, len);
        let wide = self.e.extend(index);
        let stride = self.tensors[tensor].strides[axis];
        let elements = if adjacent { wide } else { self.e.bin("muli", wide, stride) };
        Ok((self.e.mul(elements, self.tensors[tensor].elem.bytes()), ok))
    }

    fn access(
        &mut self,
        op: &Op,
        axes: &[usize],
        t: &TileType,
        d: &Distribution,
        rank: usize,
    ) -> Result<Access, Failure> {
        let tensor = self.tensor(op.operands[0])?;
        self.addressed.insert(tensor);
        let (mut origin, mut inside) = (self.tensors[tensor].pointer, None);
        let mut kept = vec![];
        for axis in 0..rank {
            let start = self.scalar(op.operands[1 + axis])?;
            match axes.iter().position(|a| *a == axis) {
                Some(_) => kept.push((axis, start)),
                None => (origin, inside) = self.step(tensor, axis, start, origin, inside)?,
            }
        }
        let last = axes.last().copied();
        let run = if self.options.aligned && last == Some(rank - 1) {
            let aligned_start = last.map_or(1, |a| self.divisors.of(op.operands[1 + a]));
            self.run_length(t, d, aligned_start)
        } else {
            1
        };
        if run > 1 {
            self.aligned.insert(tensor);
        }
        Ok(Access { tensor, origin, inside, axes: kept, cache: HashMap::new(), run })
    }

    /// Elements that every thread holds in adjacent registers at adjacent, aligned places.
    fn run_length(&self, t: &TileType, d: &Distribution, start_divisor: i64) -> usize {
        let last = t.shape.len() - 1;
        let mut run = (RUN_BYTES / t.elem.bytes()).max(1);
        let fits = |run: i64| {
            let whole = d.regs.len() as i64 % run == 0;
            let others = |o: &Vec<i64>| o[last] % run == 0;
            whole
                && start_divisor % run == 0
                && d.lanes.iter().all(others)
                && d.warps.iter().all(others)
                && d.regs.chunks(run as usize).all(|c| {
                    c[0][last] % run == 0
                        && c.iter()
                            .enumerate()
                            .all(|(i, r)| r[last] == c[0][last] + i as i64 && r[..last] == c[0][..last])
                })
        };
        while run > 1 && !fits(run) {
            run /= 2;
        }
        run as usize
    }

    /// Address of a register's element, and whether it exists.
    fn element_address(
        &mut self,
        a: &mut Access,
        t: &TileType,
        d: &Distribution,
        reg: usize,
    ) -> Result<(V, Option<V>), Failure> {
        let (mut address, mut ok) = (a.origin, a.inside);
        for (axis, (tensor_axis, start)) in a.axes.clone().into_iter().enumerate() {
            let offset = d.regs[reg][axis];
            let (bytes, inside) = match a.cache.get(&(axis, offset)) {
                Some(x) => *x,
                None => {
                    let base = self.threads.base(&mut self.e, d, axis);
                    let at = self.e.add(base, offset);
                    let index = self.e.bin("addi", start, at);
                    let adjacent = a.run > 1 && axis + 1 == t.shape.len();
                    let (bytes, mut inside) = self.index(a.tensor, tensor_axis, index, adjacent)?;
                    if d.extent(axis) > t.shape[axis] {
                        let len = self.e.i32(t.shape[axis]);
                        let real = self.e.icmp(6, at, len);
                        inside = self.e.bin("andi", inside, real);
                    }
                    a.cache.insert((axis, offset), (bytes, inside));
                    (bytes, inside)
                }
            };
            address = self.e.offset(address, bytes);
            ok = self.e.and(ok, Some(inside));
        }
        Ok((address, ok))
    }

    /// Loads one element where the condition holds, else 0.
    fn load_if(&mut self, p: V, ok: Option<V>, elem: Elem) -> V {
        let (suffix, constraint, ty) = word(elem.bytes());
        let ok = ok.unwrap_or_else(|| self.e.int(1, super::emit::I1));
        let zero = if ty == I64 {
            "mov.b64 $0, 0;"
        } else if ty == I32 {
            "mov.b32 $0, 0;"
        } else {
            "mov.b16 $0, 0;"
        };
        let text = format!(
            "{{\\0A.reg .pred p;\\0Asetp.ne.b16 p, $2, 0;\\0A{zero}\\0A@p ld.global.{suffix} $0, [$1];\\0A}}"
        );
        let flag = self.e.op("arith.extui", "", &[ok], Ty::Num(Elem::I16));
        let v = self.e.asm(&text, &format!("={constraint},l,h"), &[p, flag], &[ty], true)[0];
        self.of_word(v, elem)
    }

    fn store_if(&mut self, p: V, ok: Option<V>, v: V) {
        let bytes = elem_of(v).bytes();
        let (suffix, constraint, _) = word(bytes);
        let ok = ok.unwrap_or_else(|| self.e.int(1, super::emit::I1));
        let flag = self.e.op("arith.extui", "", &[ok], Ty::Num(Elem::I16));
        let w = self.word_of(v);
        let text =
            format!("{{\\0A.reg .pred p;\\0Asetp.ne.b16 p, $2, 0;\\0A@p st.global.{suffix} [$1], $0;\\0A}}");
        self.e.asm(&text, &format!("{constraint},l,h,~{{memory}}"), &[w, p, flag], &[], true);
    }

    /// One access of several elements.
    fn load_run(&mut self, p: V, n: usize, elem: Elem) -> Vec<V> {
        let attrs = format!("alignment = {} : i64", n as i64 * elem.bytes());
        let e = if elem == Elem::I1 { Elem::I8 } else { elem };
        let v = self.e.op("llvm.load", &attrs, &[p], Ty::Vec(n as u32, e));
        (0..n)
            .map(|i| {
                let x = self.e.extract(v, i);
                if elem == Elem::I1 { self.e.op("arith.trunci", "", &[x], super::emit::I1) } else { x }
            })
            .collect()
    }

    fn store_run(&mut self, p: V, ok: V, regs: &[V]) {
        let bytes = regs.len() as i64 * elem_of(regs[0]).bytes();
        let parts: Vec<V> = regs.iter().map(|v| self.byte_of(*v)).collect();
        let v = self.e.vector(&parts);
        self.e.when(Some(ok), |e| e.op0("llvm.store", &format!("alignment = {bytes} : i64"), &[v, p]));
    }

    fn byte_of(&mut self, v: V) -> V {
        if v.ty == super::emit::I1 { self.e.op("arith.extui", "", &[v], Ty::Num(Elem::I8)) } else { v }
    }

    /// The integer that an access of this width moves, from a value.
    fn word_of(&mut self, v: V) -> V {
        match v.ty {
            Ty::Num(Elem::I1 | Elem::I8) => self.e.op("arith.extui", "", &[v], Ty::Num(Elem::I16)),
            Ty::Num(Elem::E4M3 | Elem::E5M2) => {
                let b = self.e.bitcast(v, Ty::Num(Elem::I8));
                self.e.op("arith.extui", "", &[b], Ty::Num(Elem::I16))
            }
            Ty::Num(e) if e.is_float() => self.e.bitcast(v, word(e.bytes()).2),
            _ => v,
        }
    }

    fn of_word(&mut self, v: V, elem: Elem) -> V {
        match elem {
            Elem::I1 | Elem::I8 => self.e.op("arith.trunci", "", &[v], Ty::Num(elem)),
            Elem::E4M3 | Elem::E5M2 => {
                let b = self.e.op("arith.trunci", "", &[v], Ty::Num(Elem::I8));
                self.e.bitcast(b, Ty::Num(elem))
            }
            e => self.e.bitcast(v, Ty::Num(e)),
        }
    }
}

fn elem_of(v: V) -> Elem {
    match v.ty {
        Ty::Num(e) => e,
        _ => Elem::I32,
    }
}

/// PTX type, register constraint and register type of an access of so many bytes.
fn word(bytes: i64) -> (&'static str, &'static str, Ty) {
    match bytes {
        1 => ("u8", "h", Ty::Num(Elem::I16)),
        2 => ("b16", "h", Ty::Num(Elem::I16)),
        4 => ("b32", "r", I32),
        _ => ("b64", "l", I64),
    }
}
