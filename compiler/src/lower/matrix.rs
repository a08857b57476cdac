//! Tiles of 16-bit elements in an accumulator's layout, stored to swizzled shared memory four 8 × 8 matrices
//! at a time (`stmatrix`).
//!
//! A lane gives the address of one row of one matrix: lanes 0 to 15 of the rows of two matrices one below the
//! other, lanes 16 to 31 of the two to their right. What it holds itself goes where the accumulator has it. The
//! swizzle inverts bits of an address by bits of its row, so one address serves all columns: those of another
//! pair of matrices differ in bits that an exclusive or can set, and other slabs and blocks of rows lie a
//! constant further.

use super::emit::V;
use super::{Failure, Lower, Place};
use flashc_ir::layout::{Layout, acc_cols, acc_rows};
use flashc_ir::{BufferType, Distribution, TileType};

/// Rows, and bytes of a row, of a matrix.
const SIDE: i64 = 8;
const ROW: i64 = 16;
/// Rows that the warps of a warpgroup hold.
const BLOCK: i64 = 64;

/// Where the matrices of a warp lie.
#[derive(Debug, PartialEq)]
struct Matrices {
    /// Bytes of a row of a slab, and from slab to slab.
    pitch: i64,
    slab_bytes: i64,
    /// Matrices side by side that a warp holds, and blocks of rows.
    wide: i64,
    blocks: i64,
    /// The swizzle's mask.
    mask: i64,
}

impl Matrices {
    /// If the tile is made of whole matrices that a warp can store.
    fn new(t: &TileType, d: &Distribution, b: &BufferType) -> Option<Matrices> {
        let (Some(Layout::Acc { wgm, wgn }), &[m, n]) = (&t.layout, &t.shape[..]) else { return None };
        let (rows, cols) = (acc_rows(m, *wgm), acc_cols(n, *wgn));
        let slab = b.layout.slab_cols(b.shape[1], b.elem);
        let fits = t.elem.bytes() == 2
            && b.layout.swizzle != 0
            && b.shape.len() == 2
            && !d.has_holes()
            && (*wgn == 1 || cols % slab == 0);
        fits.then(|| Matrices {
            pitch: b.layout.swizzle,
            slab_bytes: b.layout.slab_bytes(&b.shape, b.elem),
            wide: cols / SIDE,
            blocks: rows / BLOCK,
            mask: b.layout.mask(),
        })
    }

    /// Columns of a slab.
    fn slab_cols(&self) -> i64 {
        self.pitch / 2
    }

    /// For a block of rows and a matrix at an even place: what an exclusive or sets in the lane's address, and
    /// what is added.
    fn place(&self, block: i64, column: i64) -> (i64, i64) {
        let bytes = column * ROW;
        (bytes % self.pitch, bytes / self.pitch * self.slab_bytes + block * BLOCK * self.pitch)
    }
}

/// The lane's part of a row's coordinates: rows of two matrices, and which of two columns of them.
fn rows(d: &Distribution) -> Distribution {
    let lanes = [vec![1, 0], vec![2, 0], vec![4, 0], vec![8, 0], vec![0, SIDE]];
    Distribution { lanes, ..d.clone() }
}

impl Lower<'_> {
    /// Stores the tile if it is made of matrices; false if it is not.
    pub(super) fn put_matrices(
        &mut self,
        t: &TileType,
        d: &Distribution,
        regs: &[V],
        b: &BufferType,
        at: Place,
    ) -> Result<bool, Failure> {
        let Some(m) = Matrices::new(t, d, b) else { return Ok(false) };
        let by_row = rows(d);
        let (row, col) =
            (self.threads.base(&mut self.e, &by_row, 0), self.threads.base(&mut self.e, &by_row, 1));
        // Columns of other warpgroups begin at slabs.
        let (per, seven, four, mask) =
            (self.e.i32(m.slab_cols()), self.e.i32(7), self.e.i32(4), self.e.i32(m.mask));
        let (slab, within) = (self.e.bin("divui", col, per), self.e.bin("remui", col, per));
        let (slab, within, down) =
            (self.e.mul(slab, m.slab_bytes), self.e.mul(within, 2), self.e.mul(row, m.pitch));
        let flips = self.e.bin("shrui", down, seven);
        let flips = self.e.bin("andi", flips, mask);
        let flips = self.e.bin("shli", flips, four);
        let within = self.e.bin("xori", within, flips);
        let base = self.smem_address(at);
        let lane = self.e.bin("addi", base, slab);
        let lane = self.e.bin("addi", lane, down);
        let lane = self.e.bin("addi", lane, within);
        let mut words = vec![];
        for pair in regs.chunks(2) {
            let pair: Vec<V> = pair.iter().map(|v| self.whole_bits(*v)).collect();
            words.extend(self.words(&pair));
        }
        for block in 0..m.blocks {
            for column in (0..m.wide).step_by(2) {
                let (flip, plus) = m.place(block, column);
                let address = if flip == 0 {
                    lane
                } else {
                    let flip = self.e.i32(flip);
                    self.e.bin("xori", lane, flip)
                };
                let n = if column + 1 < m.wide { 4 } else { 2 };
                let first = 2 * (block * m.wide + column) as usize;
                let mut operands = vec![address];
                operands.extend(&words[first..first + n]);
                let names: Vec<_> = (1..=n).map(|i| format!("${i}")).collect();
                let text = format!(
                    "stmatrix.sync.aligned.m8n8.x{n}.shared.b16 [$0+{plus}], {{{}}};",
                    names.join(", ")
                );
                let constraints = format!("{}~{{memory}}", "r,".repeat(n + 1));
                self.e.asm(&text, &constraints, &operands, &[], true);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashc_ir::{Elem, Shared};

    /// The address that a lane gives, as the emitted instructions compute it, is where the row of the matrix lies
    /// whose element the accumulator's layout puts into the registers that are stored with it.
    #[test]
    fn every_row_of_every_matrix() {
        for (shape, wgm, wgn) in
            [([64, 64], 1, 1), ([128, 256], 2, 1), ([64, 40], 1, 1), ([64, 256], 1, 2), ([192, 24], 1, 1)]
        {
            for swizzle in [128, 64, 32] {
                let cols = (shape[1] * 2 + swizzle - 1) / swizzle * swizzle / 2;
                let b =
                    BufferType { shape: vec![shape[0], cols], elem: Elem::BF16, layout: Shared { swizzle } };
                let t = TileType::new(&shape, Elem::BF16).with_layout(Layout::Acc { wgm, wgn });
                let d = Layout::Acc { wgm, wgn }.distribution(&shape);
                let m = Matrices::new(&t, &d, &b).expect("whole matrices");
                let by_row = rows(&d);
                for (warp, _) in d.warps.iter().enumerate() {
                    for lane in 0..32usize {
                        let at = |d: &Distribution, axis: usize| {
                            d.warps[warp][axis]
                                + (0..5).filter(|i| lane >> i & 1 == 1).map(|i| d.lanes[i][axis]).sum::<i64>()
                        };
                        let (row, col) = (at(&by_row, 0), at(&by_row, 1));
                        let down = row * m.pitch;
                        let within = (col % m.slab_cols() * 2) ^ ((down >> 7 & m.mask) << 4);
                        let base = col / m.slab_cols() * m.slab_bytes + down + within;
                        for block in 0..m.blocks {
                            for column in (0..m.wide).step_by(2) {
                                let (flip, plus) = m.place(block, column);
                                let right = lane as i64 / 16;
                                if column + right >= m.wide {
                                    continue;
                                }
                                let have = (base ^ flip) + plus;
                                let (row, col) = (row + block * BLOCK, col + column * SIDE);
                                assert_eq!(
                                    have,
                                    b.layout.offset(&b.shape, b.elem, row, col),
                                    "{shape:?} {swizzle}"
                                );
                                // The lane's address is for matrix lane / 8; its first row and column are those
                                // of lane 0's register.
                                let i = lane / 8;
                                let reg = 4 * (block * m.wide + column) as usize + 2 * i;
                                let first = d.coords(warp, 0, reg).expect("no hole");
                                assert_eq!(first, [row - lane as i64 % 8, col]);
                            }
                        }
                    }
                }
            }
        }
    }
}
