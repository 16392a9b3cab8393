//! The content-addressed artifact store: one file per entry in one directory.
//!
//! Processes may read, write, list and clear one store at the same time without a lock between them: entries appear and
//! vanish whole, by rename and unlink. A process killed at any moment leaves at most a temporary, which nobody reads.

mod format;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

pub use format::{Entry, MAX_ENTRY_BYTES, MissReason};

use super::replace::{DiskIo, StoreIo, is_orphan, replace};
use super::{Key, KeyBuilder};

/// A directory of entries, each found by its [`Key`].
///
/// # Example
/// ```
/// use maskwright::cache::{Entry, KeyBuilder, Store};
/// # let dir = tempfile::tempdir()?;
/// # let root = dir.path().join("cache");
///
/// let store = Store::open(root)?;
/// let key = KeyBuilder::new().field("rule", "kv <= q").finish();
/// assert_eq!(store.get(&key), None);
///
/// let entry = Entry { sections: vec![("rule".into(), b"kv <= q".to_vec())] };
/// store.put(&key, &entry)?;
/// assert_eq!(store.get(&key), Some(entry));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
    io: Arc<dyn StoreIo>,
}

/// What a key found, and why it found nothing.
#[derive(Debug)]
pub enum Lookup {
    /// The entry, whole and as it was written.
    Hit(Entry),
    /// Nothing that can be used.
    Miss(MissReason),
}

/// An entry as the directory shows it; its content was not looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The entry's key, from its file name.
    pub key: Key,
    /// The file.
    pub path: PathBuf,
    /// The file's length.
    pub bytes: u64,
    /// When it was written, where the file system knows.
    pub modified: Option<SystemTime>,
}

/// What [`Store::check`] found, ordered by key.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Every entry with its verdict.
    pub entries: Vec<Checked>,
}

/// One entry and whether it can be used.
#[derive(Debug)]
pub struct Checked {
    /// The entry as listed.
    pub listed: Listed,
    /// `None` for an intact entry, else what is wrong with it.
    pub fault: Option<MissReason>,
}

/// What [`Store::clear`] removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleared {
    /// Entries removed, whether or not they were intact.
    pub entries: usize,
    /// Leftovers of killed processes removed.
    pub temporaries: usize,
    /// The bytes that all of these had.
    pub bytes: u64,
}

/// What a store holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreSize {
    /// Entries.
    pub entries: usize,
    /// Their bytes.
    pub entry_bytes: u64,
    /// Files being written now, and leftovers of killed processes.
    pub temporaries: usize,
    /// Their bytes.
    pub temporary_bytes: u64,
}

/// Why the store could not be opened, written, listed or cleared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The environment names no directory to keep a cache in.
    #[error(
        "expected a cache directory in MASKWRIGHT_CACHE, or an absolute path in XDG_CACHE_HOME or HOME, found none"
    )]
    NoDefaultRoot,
    /// The directory does not exist and cannot be made, or is none.
    #[error("cannot open the cache directory {}", root.display())]
    Open {
        /// The directory.
        root: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// An entry could not be written; none is there that was not there before.
    #[error("cannot write the cache entry {} of {bytes} bytes", path.display())]
    Write {
        /// The entry's file.
        path: PathBuf,
        /// The bytes that it needs.
        bytes: u64,
        /// The cause.
        source: io::Error,
    },
    /// The directory could not be read.
    #[error("cannot list the cache directory {}", root.display())]
    List {
        /// The directory.
        root: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file could not be removed.
    #[error("cannot remove {} from the cache", path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Two sections would share a name, so that one of them could not be found.
    #[error("expected distinct section names, found `{name}` twice")]
    DuplicateSection {
        /// The name.
        name: String,
    },
    /// The entry is larger than any that is read back.
    #[error("expected an entry of at most {MAX_ENTRY_BYTES} bytes, found {bytes}")]
    TooLarge {
        /// The bytes it would have.
        bytes: u64,
    },
}

/// The end of an entry's file name, after its key.
const ENTRY_SUFFIX: &str = ".mwentry";
/// Temporaries begin with this, so that they are never taken for entries.
const TEMPORARY_PREFIX: &str = ".writing-";
/// How often a write starts again after others removed what it stood on.
const WRITE_ATTEMPTS: usize = 32;

impl Store {
    /// Opens the store in a directory, which is made if it is missing.
    ///
    /// # Errors
    /// [`StoreError::Open`] if it cannot be made or is no directory.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Self::with_io(root, Arc::new(DiskIo))
    }

    /// Opens a store that writes through `io`.
    ///
    /// # Errors
    /// As for [`Store::open`].
    pub fn with_io(root: impl Into<PathBuf>, io: Arc<dyn StoreIo>) -> Result<Self, StoreError> {
        let root = root.into();
        match io.create_dir(&root) {
            Ok(()) => Ok(Self { root, io }),
            // A directory that is there can be read, whatever else may not be done with it.
            Err(_) if root.is_dir() => Ok(Self { root, io }),
            Err(source) => Err(StoreError::Open { root, source }),
        }
    }

    /// The directory that is used unless another is named.
    ///
    /// `MASKWRIGHT_CACHE`, else `maskwright` in `XDG_CACHE_HOME`, else `.cache/maskwright` in `HOME`. An empty variable
    /// counts as unset, and a relative path in the last two as well.
    ///
    /// # Errors
    /// [`StoreError::NoDefaultRoot`] if none of them is set.
    pub fn default_root() -> Result<PathBuf, StoreError> {
        default_root_from(|name| std::env::var_os(name))
    }

    /// The directory of this store.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the entry of a key lies, or would lie.
    pub fn entry_path(&self, key: &Key) -> PathBuf {
        self.root.join(format!("{key}{ENTRY_SUFFIX}"))
    }

    /// The entry of a key, if there is one that is whole and as it was written.
    ///
    /// There is no error: whatever is wrong with an entry makes it a miss. [`Store::get_explained`] says what it was.
    pub fn get(&self, key: &Key) -> Option<Entry> {
        match self.get_explained(key) {
            Lookup::Hit(entry) => Some(entry),
            Lookup::Miss(_) => None,
        }
    }

    /// The entry of a key, or the reason why there is none.
    pub fn get_explained(&self, key: &Key) -> Lookup {
        match read_entry(key, &self.entry_path(key)) {
            Ok(entry) => Lookup::Hit(entry),
            Err(reason) => Lookup::Miss(reason),
        }
    }

    /// Writes an entry; one that is there under this key is replaced.
    ///
    /// When this returns without an error the entry survives a loss of power.
    ///
    /// # Errors
    /// [`StoreError::Write`] with the path, the bytes needed and the cause, a full disk for instance. What was stored
    /// before is untouched. [`StoreError::DuplicateSection`] and [`StoreError::TooLarge`] for entries that are refused.
    pub fn put(&self, key: &Key, entry: &Entry) -> Result<(), StoreError> {
        let frame = format::encode(key, entry)?;
        let path = self.entry_path(key);
        let mut parts = vec![frame.front.as_slice()];
        parts.extend(entry.sections.iter().map(|(_, data)| data.as_slice()));
        parts.push(&frame.digest);

        let mut attempt = 1;
        loop {
            match replace(&*self.io, &self.temporary_path(), &path, &parts) {
                Ok(()) => return Ok(()),
                // Somebody removed the directory, or swept the temporary before its lock was taken.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound && attempt < WRITE_ATTEMPTS =>
                {
                    attempt += 1;
                    // If this fails, so does the next attempt, and says so.
                    let _ = self.io.create_dir(&self.root);
                }
                Err(source) => {
                    return Err(StoreError::Write {
                        path,
                        bytes: frame.total_bytes,
                        source,
                    });
                }
            }
        }
    }

    /// The entries that are there, ordered by key; their content is not looked at.
    ///
    /// # Errors
    /// [`StoreError::List`] if the directory cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, StoreError> {
        Ok(self.scan()?.entries)
    }

    /// Reads every entry and says of each whether it can be used.
    ///
    /// # Errors
    /// [`StoreError::List`] if the directory cannot be read.
    pub fn check(&self) -> Result<CheckReport, StoreError> {
        let mut entries = Vec::new();
        for listed in self.list()? {
            let fault = match read_entry(&listed.key, &listed.path) {
                // Removed since it was listed.
                Err(MissReason::Absent) => continue,
                result => result.err(),
            };
            entries.push(Checked { listed, fault });
        }
        Ok(CheckReport { entries })
    }

    /// Removes the entry of a key, intact or not, and says whether there was one.
    ///
    /// # Errors
    /// [`StoreError::Remove`] if it is there and stays.
    pub fn remove(&self, key: &Key) -> Result<bool, StoreError> {
        remove_file(&self.entry_path(key))
    }

    /// Removes all entries and what killed processes left behind; other files are left alone.
    ///
    /// Entries written meanwhile may stay.
    ///
    /// # Errors
    /// [`StoreError::List`] if the directory cannot be read; [`StoreError::Remove`] for the first file that could not
    /// be removed, after all others were.
    pub fn clear(&self) -> Result<Cleared, StoreError> {
        let scan = self.scan()?;
        let mut cleared = Cleared::default();
        let mut first_error = None;
        for entry in scan.entries {
            match remove_file(&entry.path) {
                Ok(true) => {
                    cleared.entries += 1;
                    cleared.bytes += entry.bytes;
                }
                Ok(false) => {}
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        for (path, bytes) in scan.temporaries {
            if !is_orphan(&path) {
                continue;
            }
            match remove_file(&path) {
                Ok(true) => {
                    cleared.temporaries += 1;
                    cleared.bytes += bytes;
                }
                Ok(false) => {}
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        first_error.map_or(Ok(cleared), Err)
    }

    /// How much the store holds.
    ///
    /// # Errors
    /// [`StoreError::List`] if the directory cannot be read.
    pub fn size(&self) -> Result<StoreSize, StoreError> {
        let scan = self.scan()?;
        Ok(StoreSize {
            entries: scan.entries.len(),
            entry_bytes: scan.entries.iter().map(|entry| entry.bytes).sum(),
            temporaries: scan.temporaries.len(),
            temporary_bytes: scan.temporaries.iter().map(|(_, bytes)| bytes).sum(),
        })
    }

    /// A name that no other write uses, in whatever process, container or machine it runs.
    fn temporary_path(&self) -> PathBuf {
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let nanos = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        let unique = KeyBuilder::new()
            .field("process", std::process::id().to_le_bytes())
            .field(
                "write",
                WRITES.fetch_add(1, Ordering::Relaxed).to_le_bytes(),
            )
            .field("nanos", nanos.to_le_bytes())
            // The address differs between processes that share all of the above.
            .field("address", (&raw const *self).addr().to_le_bytes())
            .finish();
        self.root.join(format!("{TEMPORARY_PREFIX}{unique}"))
    }

    fn scan(&self) -> Result<Scan, StoreError> {
        let error = |source| StoreError::List {
            root: self.root.clone(),
            source,
        };
        let mut scan = Scan::default();
        let files = match fs::read_dir(&self.root) {
            Ok(files) => files,
            // Somebody removed the directory; the next write makes it again.
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(scan),
            Err(source) => return Err(error(source)),
        };
        for file in files {
            let file = file.map_err(error)?;
            let name = file.file_name();
            let Some(kind) = name.to_str().and_then(FileKind::of) else {
                continue;
            };
            let metadata = match file.metadata() {
                Ok(metadata) => metadata,
                Err(source) if source.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(error(source)),
            };
            match kind {
                FileKind::Entry(key) => scan.entries.push(Listed {
                    key,
                    path: file.path(),
                    bytes: metadata.len(),
                    modified: metadata.modified().ok(),
                }),
                FileKind::Temporary if metadata.is_file() => {
                    scan.temporaries.push((file.path(), metadata.len()));
                }
                FileKind::Temporary => {}
            }
        }
        scan.entries.sort_by_key(|entry| entry.key);
        scan.temporaries.sort();
        Ok(scan)
    }
}

impl CheckReport {
    /// The entries that cannot be used.
    pub fn faulty(&self) -> impl Iterator<Item = &Checked> {
        self.entries.iter().filter(|entry| entry.fault.is_some())
    }
}

#[derive(Default)]
struct Scan {
    entries: Vec<Listed>,
    temporaries: Vec<(PathBuf, u64)>,
}

enum FileKind {
    Entry(Key),
    Temporary,
}

impl FileKind {
    /// What a file of this name is, if it is the store's at all.
    fn of(name: &str) -> Option<Self> {
        if let Some(key) = name.strip_suffix(ENTRY_SUFFIX) {
            return key.parse().ok().map(Self::Entry);
        }
        let unique = name.strip_prefix(TEMPORARY_PREFIX)?;
        unique.parse::<Key>().ok().map(|_| Self::Temporary)
    }
}

fn read_entry(key: &Key, path: &Path) -> Result<Entry, MissReason> {
    // Looked at before it is opened: opening a pipe would wait for its other end.
    let kind = fs::symlink_metadata(path).map_err(unreadable)?.file_type();
    if !kind.is_file() {
        let found = match (kind.is_dir(), kind.is_symlink()) {
            (true, _) => "a directory",
            (_, true) => "a symbolic link",
            (false, false) => "a device, pipe or socket",
        };
        return Err(MissReason::NotAFile { found });
    }
    let mut file = File::open(path).map_err(unreadable)?;
    let file_bytes = file.metadata().map_err(unreadable)?.len();
    if MAX_ENTRY_BYTES < file_bytes {
        return Err(MissReason::TooLarge { found: file_bytes });
    }
    let mut bytes = Vec::new();
    // The head first, so that a large file that is no entry is not read, nor memory taken for it.
    Read::by_ref(&mut file)
        .take(format::HEAD_BYTES as u64)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    format::check_head(key, &bytes, file_bytes)?;
    // One byte more, so that a file that grew meanwhile is noticed.
    file.take(file_bytes - bytes.len() as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    format::decode(key, &bytes)
}

fn unreadable(error: io::Error) -> MissReason {
    match error.kind() {
        io::ErrorKind::NotFound => MissReason::Absent,
        _ => MissReason::Unreadable(error),
    }
}

/// Removes a file, or an empty directory in its place, and says whether there was one.
fn remove_file(path: &Path) -> Result<bool, StoreError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(StoreError::Remove {
            path: path.to_owned(),
            source,
        }),
    }
}

fn default_root_from(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, StoreError> {
    let directory = |name| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let absolute = |name| directory(name).filter(|path| path.is_absolute());
    directory("MASKWRIGHT_CACHE")
        .or_else(|| absolute("XDG_CACHE_HOME").map(|cache| cache.join("maskwright")))
        .or_else(|| absolute("HOME").map(|home| home.join(".cache/maskwright")))
        .ok_or(StoreError::NoDefaultRoot)
}
