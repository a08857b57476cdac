//! Matrix descriptors as the hardware reads them (PTX ISA, "Matrix descriptor", "Strides",
//! "Swizzling modes"): from the 64 bits to the address of each element of an operand.

/// Address bits with this mask, shifted down by 7, flip the bits of the 16-byte chunk.
fn swizzle_mask(swizzle: i64) -> i64 {
    match swizzle {
        128 => 0b111,
        64 => 0b11,
        32 => 0b1,
        _ => 0,
    }
}

/// Where the hardware puts what software addresses linearly.
pub(super) fn swizzled(address: i64, swizzle: i64) -> i64 {
    address ^ ((address >> 7) & swizzle_mask(swizzle)) << 4
}

/// The fields of a matrix descriptor, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodedDescriptor {
    /// Start address.
    pub address: i64,
    /// Leading-dimension byte offset.
    pub lbo: i64,
    /// Stride-dimension byte offset.
    pub sbo: i64,
    /// Base offset of the swizzle pattern; 0 for aligned buffers.
    pub base_offset: i64,
    /// Swizzle width: 0, 32, 64 or 128.
    pub swizzle: i64,
}

/// Reads the 64 bits.
pub fn decode(bits: u64) -> DecodedDescriptor {
    let field = |at: u32| ((bits >> at & 0x3fff) << 4) as i64;
    DecodedDescriptor {
        address: field(0),
        lbo: field(16),
        sbo: field(32),
        base_offset: (bits >> 49 & 7) as i64,
        swizzle: [0, 128, 64, 32][(bits >> 62) as usize],
    }
}

impl DecodedDescriptor {
    /// Byte address of element (`mn`, `k`) of the instruction's operand, which is MN × 32 bytes of K.
    ///
    /// Swizzled and K-major, rows are one swizzle width apart and groups of eight are `sbo` apart.
    /// Swizzled and MN-major, an atom is one swizzle width of MN by eight k; atoms are `lbo` apart along
    /// MN and `sbo` along K. Without swizzle, core matrices of eight rows of 16 bytes lie `sbo` apart
    /// along MN and `lbo` along K.
    pub fn element(&self, k_major: bool, mn: i64, k: i64, elem_bytes: i64) -> i64 {
        let chunk = 16 / elem_bytes;
        let linear = match (self.swizzle, k_major) {
            (0, true) => mn / 8 * self.sbo + k / chunk * self.lbo + mn % 8 * 16 + k % chunk * elem_bytes,
            (0, false) => mn / chunk * self.sbo + k / 8 * self.lbo + k % 8 * 16 + mn % chunk * elem_bytes,
            (w, true) => mn / 8 * self.sbo + mn % 8 * w + k * elem_bytes,
            (w, false) => {
                let atom = w / elem_bytes;
                mn / atom * self.lbo + k / 8 * self.sbo + k % 8 * w + mn % atom * elem_bytes
            }
        };
        swizzled(self.address + linear, self.swizzle)
    }
}
