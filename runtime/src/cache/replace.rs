//! Replaces a file whole: written aside, flushed, renamed into place.

use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::time::{Duration, SystemTime};
use std::{fmt, io};

/// How the store writes to its file system.
///
/// [`DiskIo`] is the real one; another stands in for it where a full or failing disk is wanted.
pub trait StoreIo: fmt::Debug + Send + Sync {
    /// Creates a directory and those above it; one that exists is left as it is.
    ///
    /// # Errors
    /// Whatever the file system reports.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Creates a file that did not exist.
    ///
    /// # Errors
    /// Whatever the file system reports.
    fn create(&self, path: &Path) -> io::Result<Box<dyn StoreFile>>;

    /// Renames a file, replacing what stood there, in one step.
    ///
    /// # Errors
    /// Whatever the file system reports.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes the names in a directory survive a loss of power.
    ///
    /// # Errors
    /// Whatever the file system reports.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// A file being written by a [`StoreIo`].
pub trait StoreFile: io::Write + Send {
    /// Makes the written bytes survive a loss of power.
    ///
    /// # Errors
    /// Whatever the file system reports.
    fn sync(&mut self) -> io::Result<()>;
}

/// The file system itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskIo;

impl StoreIo for DiskIo {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        // Entries become code that runs, so nobody else may write them.
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StoreFile>> {
        let file = File::create_new(path)?;
        // The lock says that the owner lives; it goes with the process, however that ends. File systems without locks
        // are served by age, so a failure here changes nothing.
        let _ = file.lock();
        Ok(Box::new(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match File::open(dir).and_then(|dir| dir.sync_all()) {
            // Some file systems have no such call for directories; there is nothing more to be done on those.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
                ) =>
            {
                Ok(())
            }
            done => done,
        }
    }
}

impl StoreFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// Writes `parts` to `temporary` and renames it to `target`, which has the old content or the new one at any moment.
///
/// Both must lie in the same directory. The temporary is gone when this returns, whatever it returns.
pub(crate) fn replace(
    io: &dyn StoreIo,
    temporary: &Path,
    target: &Path,
    parts: &[&[u8]],
) -> io::Result<()> {
    let mut file = io.create(temporary)?;
    // The file stays open, and so locked, until it has its final name: a sweep never takes it for an orphan.
    let placed = write(&mut *file, parts).and_then(|()| io.rename(temporary, target));
    if let Err(error) = placed {
        drop(file);
        // The first error is the one worth telling; a temporary that stays is swept later.
        let _ = fs::remove_file(temporary);
        return Err(error);
    }
    io.sync_dir(directory_of(target))
}

fn write(file: &mut dyn StoreFile, parts: &[&[u8]]) -> io::Result<()> {
    for part in parts {
        file.write_all(part)?;
    }
    file.flush()?;
    file.sync()
}

/// The directory that a path lies in, `.` for a bare file name.
pub(crate) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

/// How old an unlocked temporary must be where locks do not tell: far longer than any write takes.
const ORPHAN_AGE: Duration = Duration::from_hours(1);

/// Whether the process that was writing this temporary has died.
///
/// A wrong *yes* costs the owner a retry: its rename then finds nothing, and never an altered file.
pub(crate) fn is_orphan(temporary: &Path) -> bool {
    let Ok(file) = File::open(temporary) else {
        return false;
    };
    match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(_)) => file
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|modified| {
                SystemTime::now()
                    .duration_since(modified)
                    .is_ok_and(|age| ORPHAN_AGE < age)
            }),
    }
}
