//! Which bytes of a memory were written.

/// A bit for each byte of a memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    words: Vec<u64>,
    len: usize,
}

impl Written {
    /// A memory of `len` bytes, none of them written.
    pub fn new(len: usize) -> Self {
        Self {
            words: vec![0; len.div_ceil(64)],
            len,
        }
    }

    /// Number of bytes of the memory.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the memory has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes `start..start + len` are written; those past the end are left out.
    #[inline]
    pub fn set(&mut self, start: usize, len: usize) {
        self.each(start, len, |word, mask| *word |= mask);
    }

    /// Bytes `start..start + len` count as never written.
    pub fn forget(&mut self, start: usize, len: usize) {
        self.each(start, len, |word, mask| *word &= !mask);
    }

    /// Whether bytes `start..start + len` were all written; those past the end were not.
    #[inline]
    pub fn all(&self, start: usize, len: usize) -> bool {
        let (word, bit) = (start / 64, start % 64);
        if bit + len <= 64 && len != 0 {
            // The common case: an access of at most 16 aligned bytes lies in one word.
            let mask = (u64::MAX >> (64 - len)) << bit;
            return self.words.get(word).is_some_and(|w| w & mask == mask);
        }
        self.first_missing(start, len).is_none()
    }

    /// The first byte of `start..start + len` that was not written.
    pub fn first_missing(&self, start: usize, len: usize) -> Option<usize> {
        (start..start + len).find(|&i| i >= self.len || self.words[i / 64] >> (i % 64) & 1 == 0)
    }

    /// Nothing is written any more.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    #[inline]
    fn each(&mut self, start: usize, len: usize, f: impl Fn(&mut u64, u64)) {
        let end = (start + len).min(self.len);
        let mut at = start;
        while at < end {
            let n = (64 - at % 64).min(end - at);
            f(
                &mut self.words[at / 64],
                (u64::MAX >> (64 - n)) << (at % 64),
            );
            at += n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_written_and_nothing_else() {
        let mut written = Written::new(200);
        written.set(60, 10);
        assert!(written.all(60, 10));
        assert!(written.all(62, 2));
        assert!(!written.all(59, 2));
        assert!(!written.all(69, 2));
        assert_eq!(written.first_missing(60, 20), Some(70));
        written.set(0, 1000);
        assert!(written.all(0, 200));
        assert_eq!(written.first_missing(190, 20), Some(200));
        written.forget(64, 1);
        assert_eq!(written.first_missing(0, 200), Some(64));
        assert!(written.all(64, 0));
        written.clear();
        assert_eq!(written.first_missing(0, 200), Some(0));
        assert_eq!((written.len(), written.is_empty()), (200, false));
    }
}
