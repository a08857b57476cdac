//! wgmma: one block of inline assembly a stage, holding the fence, every K step and the commit, with the
//! accumulators tied in and out; and a wait that threads the accumulators through, so that nothing reads
//! them early.

use super::emit::{F32, I32, Ty, V};
use super::{Failure, Lower};
use flashc_ir::layout::{Layout, OperandView, acc_cols, acc_rows};
use flashc_ir::{Elem, Op, Type, ValueId};
use std::fmt::Write;

/// K of one instruction on 16-bit operands.
const K_STEP: i64 = 16;

/// An operand in shared memory: the low word of its descriptor for this warpgroup, and where steps go.
struct Smem {
    low: V,
    high: u32,
    view: OperandView,
}

impl Lower<'_> {
    pub(super) fn wgmma(
        &mut self,
        op: &Op,
        trans_a: bool,
        trans_b: bool,
        acc: bool,
    ) -> Result<Vec<V>, Failure> {
        let t = self.tile_type(op.result())?;
        let Some(Layout::Acc { wgm, wgn }) = t.layout else {
            return Err(Failure::Bug(format!("{t} is not an accumulator")));
        };
        let (rows, cols) = (acc_rows(t.shape[0], wgm), acc_cols(t.shape[1], wgn));
        let Type::Buffer(b) = self.func.ty(op.operands[1]).clone() else {
            return Err(Failure::Bug("B is not in shared memory".into()));
        };
        let registers = matches!(self.func.ty(op.operands[0]), Type::Tile(_));
        let k = match self.func.ty(op.operands[0]) {
            Type::Tile(a) => a.shape[1],
            Type::Buffer(a) => a.shape[if trans_a { 0 } else { 1 }],
            other => return Err(Failure::Bug(format!("A has type {other}"))),
        };
        let kind = if b.elem == Elem::BF16 { "bf16" } else { "f16" };
        let b_smem = self.operand(op.operands[1], trans_b, cols, wgn, 1)?;
        let a_smem =
            if registers { None } else { Some(self.operand(op.operands[0], !trans_a, rows, wgm, wgn)?) };
        let a_regs = if registers { self.tile(op.operands[0])? } else { vec![] };
        let c_regs = if acc { self.tile(op.operands[2])? } else { vec![] };

        let per_block = (cols / 2) as usize;
        let mut out = vec![];
        for block in 0..rows / 64 {
            let first = block as usize * per_block;
            let c = if acc { &c_regs[first..first + per_block] } else { &[][..] };
            // The block's part of A: registers of its rows, in the order of K.
            let a_words = if registers {
                let per = a_regs.len() / (rows / 64) as usize;
                self.pack(&a_regs[block as usize * per..(block as usize + 1) * per])
            } else {
                vec![]
            };
            // One group for the whole product.
            let commit = block == rows / 64 - 1;
            let a = a_smem.as_ref().map(|a| (a, block * 64));
            out.extend(self.stage(kind, cols, k, c, &a_words, a, &b_smem, commit));
        }
        Ok(out)
    }

    /// Pairs of 16-bit registers as 32-bit words.
    fn pack(&mut self, regs: &[V]) -> Vec<V> {
        regs.chunks(2)
            .map(|pair| {
                let v = self.e.vector(pair);
                self.e.bitcast(v, I32)
            })
            .collect()
    }

    /// An operand's descriptor for this warpgroup. `splits` warpgroups share its rows (or columns), and the
    /// warpgroup's index along them is `warpgroup / stride % splits`.
    fn operand(
        &mut self,
        v: ValueId,
        k_major: bool,
        each: i64,
        splits: i64,
        stride: i64,
    ) -> Result<Smem, Failure> {
        let at = self.buffer(v)?;
        let Type::Buffer(b) = self.func.ty(v).clone() else {
            return Err(Failure::Bug("an operand that is no buffer".into()));
        };
        let view = OperandView::new(&b.shape, b.elem, b.layout, k_major);
        // The address field is in units of 16 bytes; everything above the low word is constant.
        let fixed = view.descriptor(0).encode();
        let base = self.smem_address(super::Place::at(at.offset));
        let (mask, four) = (self.e.i32(0x3ffff), self.e.i32(4));
        let mut low = self.e.in_prologue(|e| {
            let x = e.bin("andi", base, mask);
            e.bin("shrui", x, four)
        });
        if splits > 1 {
            let table: Vec<i64> = (0..self.func.warps.unwrap_or(4))
                .map(|w| w / 4 / stride % splits * each)
                .map(|mn| view.offset(mn, 0) >> 4)
                .collect();
            let mine = self.threads.choose(&mut self.e, &table);
            low = self.e.in_prologue(|e| e.bin("addi", low, mine));
        }
        let fixed_low = self.e.i32((fixed & 0xffff_ffff) as u32 as i32 as i64);
        let mut low = self.e.in_prologue(|e| e.bin("ori", low, fixed_low));
        if let Some((index, bytes)) = at.turn {
            let by = self.e.mul(index, bytes >> 4);
            low = self.e.bin("addi", low, by);
        }
        Ok(Smem { low, high: (fixed >> 32) as u32, view })
    }

    /// One 64-row stage: fence, every K step, and the commit after the last stage.
    #[allow(clippy::too_many_arguments)]
    fn stage(
        &mut self,
        kind: &str,
        n: i64,
        k: i64,
        c: &[V],
        a_words: &[V],
        a: Option<(&Smem, i64)>,
        b: &Smem,
        commit: bool,
    ) -> Vec<V> {
        let regs = (n / 2) as usize;
        let mut constraints = vec!["=f".to_string(); regs];
        let mut operands: Vec<V> = vec![];
        constraints.extend((0..c.len()).map(|i| i.to_string()));
        operands.extend(c);
        let a_first = regs + c.len();
        constraints.extend(a_words.iter().map(|_| "r".to_string()));
        operands.extend(a_words);
        let a_low = regs + operands.len();
        if let Some((s, _)) = a {
            constraints.push("r".into());
            operands.push(s.low);
        }
        let b_low = regs + operands.len();
        constraints.push("r".into());
        operands.push(b.low);
        constraints.push("~{memory}".into());

        let d: Vec<_> = (0..regs).map(|i| format!("${i}")).collect();
        let d = d.join(", ");
        let mut text = String::from("{\\0A.reg .b32 t, ha, hb;\\0A.reg .b64 da, db;\\0A.reg .pred p;\\0A");
        let _ = write!(text, "mov.b32 hb, 0x{:x};\\0A", b.high);
        if let Some((s, _)) = a {
            let _ = write!(text, "mov.b32 ha, 0x{:x};\\0A", s.high);
        }
        text.push_str("wgmma.fence.sync.aligned;\\0A");
        for (step, at) in (0..k).step_by(K_STEP as usize).enumerate() {
            // The first step of a stage without accumulator overwrites D.
            let scale = if step == 0 && c.is_empty() { 0 } else { 1 };
            if step < 2 {
                let _ = write!(text, "setp.ne.b32 p, {scale}, 0;\\0A");
            }
            let _ = write!(
                text,
                "add.u32 t, ${b_low}, {};\\0Amov.b64 db, {{t, hb}};\\0A",
                b.view.offset(0, at) >> 4
            );
            let a_text = match a {
                Some((s, row)) => {
                    let _ = write!(
                        text,
                        "add.u32 t, ${a_low}, {};\\0Amov.b64 da, {{t, ha}};\\0A",
                        s.view.offset(row, at) >> 4
                    );
                    "da".to_string()
                }
                None => {
                    let words: Vec<_> = (0..4).map(|i| format!("${}", a_first + 4 * step + i)).collect();
                    format!("{{{}}}", words.join(", "))
                }
            };
            let trans_b = !b.view.k_major as u32;
            let trans = match a {
                Some((s, _)) => format!("{}, {trans_b}", !s.view.k_major as u32),
                None => trans_b.to_string(),
            };
            let _ = write!(
                text,
                "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{kind}.{kind} {{{d}}}, {a_text}, db, p, 1, 1, {trans};\\0A"
            );
        }
        text.push_str(if commit { "wgmma.commit_group.sync.aligned;\\0A}" } else { "}" });
        self.e.asm(&text, &constraints.join(","), &operands, &vec![F32; regs], true)
    }

    pub(super) fn wgmma_wait(&mut self, op: &Op, pending: i64) -> Result<Vec<V>, Failure> {
        let acc = self.tile(op.operands[0])?;
        let mut constraints = vec!["=f".to_string(); acc.len()];
        constraints.extend((0..acc.len()).map(|i| i.to_string()));
        // Register operands stay untouched until here.
        let mut operands = acc.clone();
        for v in &op.operands[1..] {
            let regs = self.tile(*v)?;
            let words = self.pack(&regs);
            constraints.extend(words.iter().map(|_| "r".to_string()));
            operands.extend(words);
        }
        constraints.push("~{memory}".into());
        let types: Vec<Ty> = vec![F32; acc.len()];
        let text = format!("wgmma.wait_group.sync.aligned {pending};");
        Ok(self.e.asm(&text, &constraints.join(","), &operands, &types, true))
    }
}
