//! Reductions: within a thread, then over the lanes of a warp, then over warps through scratch.

use super::emit::{Ty, V};
use super::{Failure, Lower, Value};
use flashc_ir::ops::ReduceOp;
use flashc_ir::{Elem, Op, Type};

impl Lower<'_> {
    pub(super) fn reduce(&mut self, op: &Op, how: ReduceOp, axis: usize) -> Result<Value, Failure> {
        let t = self.tile_type(op.operands[0])?;
        let d = self.distribution(&t)?;
        let regs = self.tile(op.operands[0])?;
        // 16-bit floats are combined in f32 and rounded once.
        let wide = if matches!(t.elem, Elem::F16 | Elem::BF16) { Elem::F32 } else { t.elem };
        let holes = d.extent(axis) > t.shape[axis];

        // Registers that differ only along the axis belong together.
        let mut groups: Vec<(Vec<i64>, Vec<V>)> = vec![];
        for (r, v) in d.regs.iter().zip(&regs) {
            let mut key = r.clone();
            let along = key.remove(axis);
            let mut v = if wide == t.elem { *v } else { self.e.op("arith.extf", "", &[*v], Ty::Num(wide)) };
            if holes {
                let base = self.threads.base(&mut self.e, &d, axis);
                let at = self.e.add(base, along);
                let len = self.e.i32(t.shape[axis]);
                let real = self.e.icmp(6, at, len);
                let neutral = self.neutral(how, wide);
                v = self.e.select(real, v, neutral);
            }
            match groups.iter_mut().find(|g| g.0 == key) {
                Some(g) => g.1.push(v),
                None => groups.push((key, vec![v])),
            }
        }
        let mut parts = vec![];
        for (key, values) in groups {
            let mut v = self.tree(how, wide, values);
            for (bit, offset) in d.lanes.iter().enumerate() {
                if offset[axis] != 0 {
                    let other = self.shuffle(v, 1 << bit);
                    v = self.combine(how, wide, v, other);
                }
            }
            parts.push((key, v));
        }
        let mut all = self.across_warps(op, &d, axis, &parts, &mut |s, a, b| s.combine(how, wide, a, b))?;
        if wide != t.elem {
            all = all.into_iter().map(|v| self.e.op("arith.truncf", "", &[v], Ty::Num(t.elem))).collect();
        }
        Ok(match self.func.ty(op.result()) {
            Type::Tile(_) => Value::Tile(all),
            _ => Value::Scalar(all[0]),
        })
    }

    /// Columns 8 apart combine within the thread.
    pub(super) fn fold(&mut self, op: &Op, how: ReduceOp) -> Result<Vec<V>, Failure> {
        let (from, to) = (self.tile_type(op.operands[0])?, self.tile_type(op.result())?);
        let (a, b) = (self.distribution(&from)?, self.distribution(&to)?);
        let regs = self.tile(op.operands[0])?;
        let mut out = vec![];
        for r in &b.regs {
            let same = |x: &Vec<i64>| x[0] == r[0] && x[1] % 8 == r[1];
            let values = a.regs.iter().zip(&regs).filter(|x| same(x.0)).map(|x| *x.1).collect();
            out.push(self.tree(how, from.elem, values));
        }
        Ok(out)
    }

    /// Combines pairwise, so that the chain is short.
    fn tree(&mut self, how: ReduceOp, elem: Elem, mut values: Vec<V>) -> V {
        while values.len() > 1 {
            let pairs: Vec<Vec<V>> = values.chunks(2).map(<[V]>::to_vec).collect();
            values = pairs
                .into_iter()
                .map(|p| if p.len() == 2 { self.combine(how, elem, p[0], p[1]) } else { p[0] })
                .collect();
        }
        values[0]
    }

    fn combine(&mut self, how: ReduceOp, elem: Elem, a: V, b: V) -> V {
        let name = match (how, elem.is_float()) {
            (ReduceOp::Sum, true) => "addf",
            (ReduceOp::Max, true) => "maxnumf",
            (ReduceOp::Min, true) => "minnumf",
            (ReduceOp::Sum, false) => "addi",
            // A bool counts as 0 or 1.
            (ReduceOp::Max, false) if elem == Elem::I1 => "ori",
            (ReduceOp::Min, false) if elem == Elem::I1 => "andi",
            (ReduceOp::Max, false) => "maxsi",
            (ReduceOp::Min, false) => "minsi",
        };
        self.e.bin(name, a, b)
    }

    /// The value that changes nothing.
    fn neutral(&mut self, how: ReduceOp, elem: Elem) -> V {
        let ty = Ty::Num(elem);
        let bits = (elem.bytes() * 8) as u32;
        match (how, elem.is_float()) {
            (ReduceOp::Sum, true) => self.e.float(0.0, ty),
            (ReduceOp::Max, true) => self.e.float(f64::NEG_INFINITY, ty),
            (ReduceOp::Min, true) => self.e.float(f64::INFINITY, ty),
            (ReduceOp::Sum, false) => self.e.int(0, ty),
            (ReduceOp::Max, false) if elem == Elem::I1 => self.e.int(0, ty),
            (ReduceOp::Min, false) if elem == Elem::I1 => self.e.int(1, ty),
            (ReduceOp::Max, false) => self.e.int(i64::MIN >> (64 - bits), ty),
            (ReduceOp::Min, false) => self.e.int(i64::MAX >> (64 - bits), ty),
        }
    }

    /// Another lane's value; 64-bit and narrow types travel as 32-bit words.
    fn shuffle(&mut self, v: V, mask: i64) -> V {
        use super::emit::{I32, I64};
        match v.ty {
            Ty::Num(Elem::F32 | Elem::I32) => self.e.shuffle_xor(v, mask),
            Ty::Num(Elem::I64 | Elem::F64) => {
                let bits = self.e.bitcast(v, I64);
                let (low, shift) = (self.e.op("arith.trunci", "", &[bits], I32), self.e.int(32, I64));
                let high = self.e.bin("shrui", bits, shift);
                let high = self.e.op("arith.trunci", "", &[high], I32);
                let (low, high) = (self.e.shuffle_xor(low, mask), self.e.shuffle_xor(high, mask));
                let low = self.e.op("arith.extui", "", &[low], I64);
                let high = self.e.op("arith.extui", "", &[high], I64);
                let high = self.e.bin("shli", high, shift);
                let both = self.e.bin("ori", low, high);
                self.e.bitcast(both, v.ty)
            }
            ty => {
                let word = self.e.op("arith.extsi", "", &[v], I32);
                let other = self.e.shuffle_xor(word, mask);
                self.e.op("arith.trunci", "", &[other], ty)
            }
        }
    }
}
