//! The file format of block masks: versioned, checksummed, and read without trusting a byte of it.
//!
//! A file is the magic, a version, the length of the payload, the payload, and the SHA-256 of all before it. Numbers
//! are little-endian. The payload is the geometry, the stored axes, exactness and authority, what the mask was built from, which plane each entry
//! uses, and per plane the number of runs, the row starts and the runs, two words each.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{Authority, BlockMask, BlockMaskError, BlockSize, Exactness, Geometry, Plane, Run};
use crate::bucket::{Bucket, Relation};
use crate::fingerprint::Fingerprint;

const MAGIC: &[u8; 8] = b"MWBMASK\n";
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 20;
const CHECKSUM_BYTES: usize = 32;

impl BlockMask {
    /// Writes the mask as a file holds it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + self.size_bytes() + 256);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&0_u64.to_le_bytes());
        self.write_payload(&mut out);
        let payload = (out.len() - HEADER_BYTES) as u64;
        out[HEADER_BYTES - 8..HEADER_BYTES].copy_from_slice(&payload.to_le_bytes());
        let checksum = Sha256::digest(&out);
        out.extend_from_slice(&checksum);
        out
    }

    /// Reads a mask as a file holds it.
    ///
    /// Nothing is allocated before the bytes for it are known to be there.
    ///
    /// # Errors
    /// The `File…` variants of [`BlockMaskError`], and those of a geometry that cannot be.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BlockMaskError> {
        let found = bytes.len() as u64;
        let least = (HEADER_BYTES + CHECKSUM_BYTES) as u64;
        if !bytes.starts_with(MAGIC) {
            return Err(BlockMaskError::FileMagic {
                found: bytes.iter().take(MAGIC.len()).copied().collect(),
            });
        }
        let mut header = Reader {
            rest: &bytes[MAGIC.len()..],
            total: found,
        };
        let version = header.u32()?;
        if version != VERSION {
            return Err(BlockMaskError::FileVersion {
                expected: VERSION,
                found: version,
            });
        }
        let expected = header.u64()?.saturating_add(least);
        if expected != found {
            return Err(BlockMaskError::FileLength { expected, found });
        }
        let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
        if Sha256::digest(content)[..] != *checksum {
            return Err(BlockMaskError::FileChecksum);
        }
        let mut payload = Reader {
            rest: &content[HEADER_BYTES..],
            total: found,
        };
        let mask = payload.mask()?;
        if payload.rest.is_empty() {
            Ok(mask)
        } else {
            Err(BlockMaskError::FileLength {
                expected: found - payload.rest.len() as u64,
                found,
            })
        }
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        let geometry = self.geometry();
        let bucket = geometry.bucket();
        let mut u32s =
            |values: &[u32]| out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        u32s(&[geometry.batch(), geometry.heads()]);
        u32s(&[geometry.batch_offset(), geometry.head_offset()]);
        u32s(&[geometry.block().q, geometry.block().kv]);
        u32s(&[self.stored_batch(), self.stored_heads()]);
        for range in [&bucket.q_len, &bucket.kv_len] {
            out.extend_from_slice(&range.start().to_le_bytes());
            out.extend_from_slice(&range.end().to_le_bytes());
        }
        for value in [
            *bucket.q_offset.start(),
            *bucket.q_offset.end(),
            geometry.kv_offset(),
        ] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.push(match bucket.relation {
            Relation::Equal => 0,
            Relation::AtMost => 1,
            Relation::Free => 2,
        });
        out.push(match self.exactness() {
            Exactness::Exact => 0,
            Exactness::Coarse => 1,
        });
        out.push(match self.authority() {
            Authority::Rule => 0,
            Authority::Lists => 1,
        });
        out.push(u8::from(self.source().is_some()));
        for word in self.source().map_or([0, 0], Fingerprint::to_words) {
            out.extend_from_slice(&word.to_le_bytes());
        }
        let mut u32s =
            |values: &[u32]| out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        u32s(&[self.distinct_planes().len() as u32]);
        u32s(self.plane_of());
        for plane in self.distinct_planes() {
            u32s(&[plane.runs().len() as u32]);
            u32s(plane.row_ptr());
            for run in plane.runs() {
                let (first, packed) = run.words();
                u32s(&[first, packed]);
            }
        }
    }
}

/// Bytes that are still to be read.
struct Reader<'a> {
    rest: &'a [u8],
    /// Length of the whole file, for errors.
    total: u64,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: u64) -> Result<&'a [u8], BlockMaskError> {
        let (Ok(len), left) = (usize::try_from(n), self.rest.len() as u64) else {
            return Err(self.short(n));
        };
        if left < n {
            return Err(self.short(n));
        }
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(taken)
    }

    fn short(&self, wanted: u64) -> BlockMaskError {
        BlockMaskError::FileLength {
            expected: self
                .total
                .saturating_add(wanted.saturating_sub(self.rest.len() as u64)),
            found: self.total,
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BlockMaskError> {
        let bytes = self.take(N as u64)?;
        Ok(bytes.try_into().expect("as many bytes were taken"))
    }

    fn u32(&mut self) -> Result<u32, BlockMaskError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, BlockMaskError> {
        self.array().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Result<i64, BlockMaskError> {
        self.array().map(i64::from_le_bytes)
    }

    /// A byte that stands for one of several things.
    fn choice<T: Copy>(
        &mut self,
        field: &'static str,
        expected: &'static str,
        choices: &[T],
    ) -> Result<T, BlockMaskError> {
        let [byte] = self.array()?;
        choices
            .get(byte as usize)
            .copied()
            .ok_or(BlockMaskError::FileField {
                field,
                found: u64::from(byte),
                expected,
            })
    }

    fn u32s(&mut self, n: u64) -> Result<Vec<u32>, BlockMaskError> {
        let bytes = self.take(n.saturating_mul(4))?;
        let words = bytes.as_chunks::<4>().0.iter();
        Ok(words.map(|&word| u32::from_le_bytes(word)).collect())
    }

    fn mask(&mut self) -> Result<BlockMask, BlockMaskError> {
        let (batch, heads) = (self.u32()?, self.u32()?);
        let (batch_offset, head_offset) = (self.u32()?, self.u32()?);
        let block = BlockSize {
            q: self.u32()?,
            kv: self.u32()?,
        };
        let (stored_batch, stored_heads) = (self.u32()?, self.u32()?);
        let q_len = self.u64()?..=self.u64()?;
        let kv_len = self.u64()?..=self.u64()?;
        let q_offset = self.i64()?..=self.i64()?;
        let kv_offset = self.i64()?;
        let bucket = Bucket {
            q_len,
            kv_len,
            relation: self.choice(
                "relation",
                "0, 1 or 2",
                &[Relation::Equal, Relation::AtMost, Relation::Free],
            )?,
            q_offset,
        };
        let exactness = self.choice(
            "exactness",
            "0 or 1",
            &[Exactness::Exact, Exactness::Coarse],
        )?;
        let authority = self.choice("authority", "0 or 1", &[Authority::Rule, Authority::Lists])?;
        let is_known = self.choice("source", "0 or 1", &[false, true])?;
        let words = [self.u64()?, self.u64()?];
        let source = is_known.then_some(Fingerprint::from_words(words));
        let geometry = Geometry::new(batch, heads, &bucket, block)?
            .with_kv_offset(kv_offset)?
            .with_axis_offsets(batch_offset, head_offset)?;
        let n_planes = self.u32()?;
        let plane_of = self.u32s(u64::from(stored_batch) * u64::from(stored_heads))?;
        let mut distinct = Vec::new();
        for plane in 0..n_planes {
            distinct.push(Arc::new(self.plane(plane, &geometry)?));
        }
        let planes: Option<Vec<Arc<Plane>>> = plane_of
            .iter()
            .map(|&at| distinct.get(at as usize).cloned())
            .collect();
        let planes = planes.ok_or(BlockMaskError::FileField {
            field: "a plane index",
            found: plane_of.iter().max().map_or(0, |&at| u64::from(at)),
            expected: "an index below the number of planes",
        })?;
        let mask = BlockMask::from_shared(geometry, stored_batch, stored_heads, planes, exactness)?;
        if mask.plane_of() != plane_of || mask.distinct_planes().len() != distinct.len() {
            return Err(BlockMaskError::FileField {
                field: "the number of planes",
                found: u64::from(n_planes),
                expected: "each plane once, in order of first use",
            });
        }
        Ok(mask.with_authority(authority).with_source(source))
    }

    fn plane(&mut self, index: u32, geometry: &Geometry) -> Result<Plane, BlockMaskError> {
        let n_runs = self.u32()?;
        let row_ptr = self.u32s(u64::from(geometry.rows()) + 1)?;
        let words = self.take(u64::from(n_runs) * 8)?.as_chunks::<8>().0.iter();
        let word = |run: &[u8; 8], at: usize| {
            u32::from_le_bytes([run[at], run[at + 1], run[at + 2], run[at + 3]])
        };
        let runs: Option<Vec<Run>> = words
            .map(|run| Run::from_words(word(run, 0), word(run, 4)))
            .collect();
        runs.and_then(|runs| Plane::checked(geometry.cols(), row_ptr, runs))
            .ok_or(BlockMaskError::FilePlane { plane: index })
    }
}

#[cfg(test)]
mod tests;
