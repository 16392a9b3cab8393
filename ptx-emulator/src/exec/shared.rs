//! Shared memory of a block.

/// What it holds before anything is written, and while a copy is under way: NaN in every float format.
const POISON: u32 = u32::MAX;

/// Words of shared memory.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    words: Vec<u32>,
    len: u32,
}

impl Shared {
    pub(super) fn new(len: u32) -> Self {
        Self {
            words: vec![POISON; len.div_ceil(4) as usize],
            len,
        }
    }

    pub(super) fn clear(&mut self) {
        self.words.fill(POISON);
    }

    /// Whether bytes lie inside.
    #[inline]
    pub(super) fn holds(&self, address: u64, bytes: u32) -> bool {
        address
            .checked_add(u64::from(bytes))
            .is_some_and(|end| end <= u64::from(self.len))
    }

    #[inline]
    pub(super) fn load(&self, address: u32, bytes: u32, mut put: impl FnMut(usize, u32)) {
        if bytes < 4 {
            put(0, self.words[address as usize / 4] >> (8 * (address % 4)));
            return;
        }
        for (i, word) in self.words[address as usize / 4..][..bytes as usize / 4]
            .iter()
            .enumerate()
        {
            put(i, *word);
        }
    }

    #[inline]
    pub(super) fn store(&mut self, address: u32, bytes: u32, get: impl Fn(usize) -> u32) {
        if bytes < 4 {
            let mask = ((1u32 << (8 * bytes)) - 1) << (8 * (address % 4));
            let word = &mut self.words[address as usize / 4];
            *word = (*word & !mask) | ((get(0) << (8 * (address % 4))) & mask);
        } else {
            for (i, word) in self.words[address as usize / 4..][..bytes as usize / 4]
                .iter_mut()
                .enumerate()
            {
                *word = get(i);
            }
        }
    }

    /// 16 bytes at a multiple of 16 that lies inside.
    #[inline]
    pub(super) fn row(&self, address: u32) -> [u8; 16] {
        let mut out = [0; 16];
        for (bytes, word) in out
            .chunks_exact_mut(4)
            .zip(&self.words[address as usize / 4..][..4])
        {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    pub(super) fn set_byte(&mut self, address: u32, byte: u8) {
        self.store(address, 1, |_| u32::from(byte));
    }

    pub(super) fn byte(&self, address: u32) -> u8 {
        (self.words[address as usize / 4] >> (8 * (address % 4))) as u8
    }
}
