//! Damage, full disks and odd files, against stores in temporary directories.

use std::error::Error as _;
use std::sync::Mutex;

use tempfile::TempDir;

use super::format::{DIGEST_BYTES, HEAD_BYTES, VERSION, decode};
use super::*;
use crate::cache::StoreFile;

fn store() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("a/b")).unwrap();
    (dir, store)
}

fn key(name: &str) -> Key {
    KeyBuilder::new().field("name", name).finish()
}

fn entry(sections: &[(&str, &[u8])]) -> Entry {
    Entry {
        sections: sections
            .iter()
            .map(|(name, data)| ((*name).to_owned(), data.to_vec()))
            .collect(),
    }
}

fn small() -> Entry {
    entry(&[("rule", b"kv <= q"), ("mask", &[0, 255, 7]), ("empty", b"")])
}

fn reason(store: &Store, key: &Key) -> MissReason {
    assert_eq!(store.get(key), None);
    match store.get_explained(key) {
        Lookup::Hit(entry) => panic!("expected a miss, found {entry:?}"),
        Lookup::Miss(reason) => reason,
    }
}

fn bytes_of(key: &Key, entry: &Entry) -> Vec<u8> {
    let (_dir, store) = store();
    store.put(key, entry).unwrap();
    fs::read(store.entry_path(key)).unwrap()
}

/// Gives altered bytes a checksum that holds, to reach the checks behind it.
fn seal(bytes: &mut [u8]) {
    use sha2::Digest;
    let (body, digest) = bytes.split_last_chunk_mut::<DIGEST_BYTES>().unwrap();
    *digest = sha2::Sha256::digest(body).into();
}

fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn entries_come_back_as_they_were_put() {
    let (_dir, store) = store();
    let big = vec![42; 300_000];
    let entries = [
        entry(&[]),
        entry(&[("", b"")]),
        small(),
        entry(&[("größe", &big)]),
    ];
    for (i, entry) in entries.iter().enumerate() {
        let key = key(&i.to_string());
        assert!(matches!(reason(&store, &key), MissReason::Absent));
        store.put(&key, entry).unwrap();
        assert_eq!(store.get(&key).as_ref(), Some(entry));
    }
    assert_eq!(small().section("mask"), Some(&[0, 255, 7][..]));
    assert_eq!(small().section("other"), None);

    let reopened = Store::open(store.root()).unwrap();
    assert_eq!(reopened.get(&key("2")), Some(small()));
    reopened.put(&key("2"), &entry(&[("new", b"x")])).unwrap();
    assert_eq!(store.get(&key("2")), Some(entry(&[("new", b"x")])));
}

#[test]
fn listing_checking_removing_and_clearing_see_entries_only() {
    let (_dir, store) = store();
    for name in ["a", "b", "c"] {
        store.put(&key(name), &small()).unwrap();
    }
    let orphan = store.temporary_path();
    fs::write(&orphan, b"half").unwrap();
    let foreign = ["notes.txt", "x.mwentry", ".writing-x"];
    for name in foreign {
        fs::write(store.root().join(name), b"mine").unwrap();
    }

    let each = bytes_of(&key("a"), &small()).len() as u64;
    let listed = store.list().unwrap();
    let mut keys = [key("a"), key("b"), key("c")];
    keys.sort();
    assert_eq!(
        listed.iter().map(|entry| entry.key).collect::<Vec<_>>(),
        keys
    );
    assert!(
        listed
            .iter()
            .all(|entry| entry.bytes == each && entry.modified.is_some())
    );
    let size = StoreSize {
        entries: 3,
        entry_bytes: 3 * each,
        temporaries: 1,
        temporary_bytes: 4,
    };
    assert_eq!(store.size().unwrap(), size);
    assert_eq!(store.check().unwrap().faulty().count(), 0);

    fs::write(store.entry_path(&key("b")), b"damaged").unwrap();
    let report = store.check().unwrap();
    assert_eq!(report.entries.len(), 3);
    let faulty: Vec<_> = report.faulty().collect();
    assert_eq!(faulty.len(), 1);
    assert_eq!(faulty[0].listed.key, key("b"));

    assert!(store.remove(&key("a")).unwrap());
    assert!(!store.remove(&key("a")).unwrap());
    let cleared = Cleared {
        entries: 2,
        temporaries: 1,
        bytes: each + 7 + 4,
    };
    assert_eq!(store.clear().unwrap(), cleared);
    assert_eq!(store.clear().unwrap(), Cleared::default());
    assert_eq!(
        names_in(store.root()),
        [".writing-x", "notes.txt", "x.mwentry"]
    );
}

#[test]
fn a_temporary_of_a_living_writer_is_not_swept() {
    let (_dir, store) = store();
    let temporary = store.temporary_path();
    let file = DiskIo.create(&temporary).unwrap();
    assert_eq!(store.clear().unwrap(), Cleared::default());
    assert!(temporary.exists());
    drop(file);
    assert_eq!(store.clear().unwrap().temporaries, 1);
}

#[test]
fn a_file_cut_at_any_length_or_grown_is_a_miss() {
    let (_dir, store) = store();
    let key = key("cut");
    let bytes = bytes_of(&key, &small());
    let path = store.entry_path(&key);
    for len in 0..bytes.len() {
        fs::write(&path, &bytes[..len]).unwrap();
        let reason = reason(&store, &key);
        let MissReason::WrongLength { expected, found } = reason else {
            panic!("at {len}: {reason}");
        };
        assert!(
            found == len as u64 && found < expected,
            "at {len}: {reason}"
        );
    }
    fs::write(&path, [&bytes[..], b"x"].concat()).unwrap();
    assert!(matches!(
        reason(&store, &key),
        MissReason::WrongLength { .. }
    ));
    fs::write(&path, &bytes).unwrap();
    assert_eq!(store.get(&key), Some(small()));
}

#[test]
fn a_file_with_any_bit_flipped_is_a_miss() {
    let (_dir, store) = store();
    let key = key("flip");
    let bytes = bytes_of(&key, &small());
    for at in 0..bytes.len() {
        for mask in [1, 2, 4, 8, 16, 32, 64, 128, 255] {
            let mut bad = bytes.clone();
            bad[at] ^= mask;
            fs::write(store.entry_path(&key), &bad).unwrap();
            let reason = reason(&store, &key);
            let right = match at {
                0..8 => matches!(reason, MissReason::WrongMagic),
                8..12 => matches!(
                    reason,
                    MissReason::WrongVersion {
                        expected: VERSION,
                        ..
                    }
                ),
                12..44 => matches!(reason, MissReason::WrongKey { .. }),
                44..52 => matches!(reason, MissReason::WrongLength { .. }),
                _ => matches!(reason, MissReason::Altered),
            };
            assert!(right, "byte {at}, mask {mask}: {reason}");
        }
    }
}

#[test]
fn an_entry_under_another_name_is_a_miss() {
    let (_dir, store) = store();
    store.put(&key("a"), &small()).unwrap();
    fs::copy(store.entry_path(&key("a")), store.entry_path(&key("b"))).unwrap();
    let reason = reason(&store, &key("b"));
    let MissReason::WrongKey { expected, found } = reason else {
        panic!("{reason}");
    };
    assert_eq!((expected, found), (key("b"), key("a")));
}

#[test]
fn a_table_that_lies_under_a_checksum_that_holds_is_a_miss() {
    let key = key("table");
    let bytes = bytes_of(&key, &small());
    let mut accepted = 0;
    for at in HEAD_BYTES - 4..bytes.len() - DIGEST_BYTES {
        for value in [0, 1, 2, 4, 5, 127, 128, 255] {
            let mut bad = bytes.clone();
            bad[at] = value;
            seal(&mut bad);
            // Some of these are entries of other content; none may panic or take memory by a length.
            match decode(&key, &bad) {
                Ok(_) => accepted += 1,
                Err(reason) => assert!(matches!(reason, MissReason::Malformed { .. }), "{reason}"),
            }
        }
    }
    assert!(0 < accepted);

    let check = |at: usize, new: &[u8], fault: &str| {
        let mut bad = bytes.clone();
        bad[at..at + new.len()].copy_from_slice(new);
        seal(&mut bad);
        let reason = decode(&key, &bad).unwrap_err().to_string();
        assert_eq!(reason, format!("the section table is malformed: {fault}"));
    };
    check(HEAD_BYTES - 4, &[255; 4], "it ends within a section's name");
    check(HEAD_BYTES, &[255; 4], "it ends within a section's name");
    check(HEAD_BYTES + 4, &[255; 4], "a name is not UTF-8");
    check(
        HEAD_BYTES + 8,
        &[255; 8],
        "a section is longer than the file",
    );
    check(
        HEAD_BYTES + 8,
        &[1],
        "bytes are left after the last section",
    );
    check(HEAD_BYTES + 20, b"rule", "two sections have one name");
}

#[test]
fn random_bytes_are_a_miss() {
    let (_dir, store) = store();
    let key = key("random");
    let bytes = bytes_of(&key, &small());
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for round in 0..400 {
        let mut noise: Vec<u8> = (0..round)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect();
        fs::write(store.entry_path(&key), &noise).unwrap();
        reason(&store, &key);
        // Behind a true head and under a true checksum the noise reaches the table.
        noise.splice(0..0, bytes[..HEAD_BYTES - 4].iter().copied());
        noise.extend([0; 4 + DIGEST_BYTES]);
        let len = noise.len() as u64;
        noise[44..52].copy_from_slice(&len.to_le_bytes());
        seal(&mut noise);
        fs::write(store.entry_path(&key), &noise).unwrap();
        match store.get_explained(&key) {
            // A count of 0 and nothing after it is the empty entry.
            Lookup::Hit(found) => assert_eq!((round, found), (0, entry(&[]))),
            Lookup::Miss(reason) => assert!(matches!(reason, MissReason::Malformed { .. })),
        }
    }
}

#[test]
fn a_huge_file_is_refused_without_reading_it() {
    let (_dir, store) = store();
    let key = key("huge");
    let head = bytes_of(&key, &small());
    for len in [MAX_ENTRY_BYTES, MAX_ENTRY_BYTES + 1, 1 << 42] {
        fs::write(store.entry_path(&key), &head).unwrap();
        // Sparse: it takes no space.
        let file = File::options()
            .write(true)
            .open(store.entry_path(&key))
            .unwrap();
        if file.set_len(len).is_err() {
            eprintln!("skipped {len}: the file system has no such file");
            continue;
        }
        match reason(&store, &key) {
            MissReason::WrongLength { found, .. } | MissReason::TooLarge { found } => {
                assert_eq!(found, len);
            }
            reason => panic!("{reason}"),
        }
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_a_miss_and_can_be_cleared() {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    let (dir, store) = store();
    let keys = ["true link", "dangling link", "dir", "full dir", "socket"].map(key);
    let path = |i: usize| store.entry_path(&keys[i]);
    let outside = dir.path().join("outside");
    fs::write(&outside, bytes_of(&keys[0], &small())).unwrap();
    symlink(&outside, path(0)).unwrap();
    symlink(dir.path().join("nothing"), path(1)).unwrap();
    fs::create_dir(path(2)).unwrap();
    fs::create_dir_all(path(3).join("kept")).unwrap();
    // A socket's path must be short, so it is bound elsewhere and moved here.
    let socket = dir.path().join("s");
    let _listener = UnixListener::bind(&socket).unwrap();
    fs::rename(&socket, path(4)).unwrap();

    let found = keys.map(|key| reason(&store, &key).to_string());
    let expected = |what| format!("expected a regular file, found {what}");
    assert_eq!(found[0], expected("a symbolic link"));
    assert_eq!(found[1], expected("a symbolic link"));
    assert_eq!(found[2], expected("a directory"));
    assert_eq!(found[3], expected("a directory"));
    assert_eq!(found[4], expected("a device, pipe or socket"));
    assert_eq!(store.check().unwrap().faulty().count(), 5);

    // A link is replaced, never written through.
    store.put(&keys[0], &entry(&[])).unwrap();
    assert_eq!(store.get(&keys[0]), Some(entry(&[])));
    assert_eq!(fs::read(&outside).unwrap(), bytes_of(&keys[0], &small()));
    assert!(matches!(
        store.put(&keys[3], &small()),
        Err(StoreError::Write { .. })
    ));

    // What has files of others in it stays, and is told, after all else is gone.
    let error = store.clear().unwrap_err();
    assert!(error.to_string().contains(&keys[3].to_string()), "{error}");
    assert_eq!(names_in(store.root()), [format!("{}.mwentry", keys[3])]);
    assert!(path(3).join("kept").exists());
    assert!(outside.exists());
}

#[test]
fn refused_entries_say_why() {
    let (_dir, store) = store();
    let error = store
        .put(&key("x"), &entry(&[("a", b"1"), ("a", b"2")]))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected distinct section names, found `a` twice"
    );
    let zeros = Entry {
        sections: vec![("big".to_owned(), vec![0; MAX_ENTRY_BYTES as usize])],
    };
    let error = store.put(&key("x"), &zeros).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected an entry of at most 1073741824 bytes, found 1073741927"
    );
    assert_eq!(names_in(store.root()), [""; 0]);
}

#[test]
fn a_store_that_vanishes_is_empty_and_comes_back() {
    let (_dir, store) = store();
    store.put(&key("a"), &small()).unwrap();
    fs::remove_dir_all(store.root()).unwrap();
    assert_eq!(store.get(&key("a")), None);
    assert_eq!(store.list().unwrap(), []);
    assert_eq!(store.clear().unwrap(), Cleared::default());
    store.put(&key("a"), &small()).unwrap();
    assert_eq!(store.get(&key("a")), Some(small()));
}

#[test]
fn a_root_that_is_no_directory_is_an_error_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    for root in [file.clone(), file.join("below")] {
        let error = Store::open(&root).unwrap_err();
        let expected = format!("cannot open the cache directory {}", root.display());
        assert_eq!(error.to_string(), expected);
        assert!(error.source().is_some());
    }
}

#[test]
fn the_default_root_follows_the_environment() {
    let check = |variables: &[(&str, &str)], expected: Option<&str>| {
        let found = default_root_from(|name| {
            let variable = variables.iter().find(|(known, _)| *known == name);
            variable.map(|(_, value)| OsString::from(value))
        });
        assert_eq!(found.ok(), expected.map(PathBuf::from), "{variables:?}");
    };
    let all = [
        ("MASKWRIGHT_CACHE", "mine"),
        ("XDG_CACHE_HOME", "/xdg"),
        ("HOME", "/home/u"),
    ];
    check(&all, Some("mine"));
    check(&all[1..], Some("/xdg/maskwright"));
    check(&all[2..], Some("/home/u/.cache/maskwright"));
    check(&[], None);
    let unusable = [
        ("MASKWRIGHT_CACHE", ""),
        ("XDG_CACHE_HOME", "relative"),
        ("HOME", "/home/u"),
    ];
    check(&unusable, Some("/home/u/.cache/maskwright"));
    check(&[("HOME", "")], None);
}

/// A disk that fails at one step with one error; all before it is done for real.
#[derive(Debug)]
struct FailingIo {
    step: Mutex<Option<Step>>,
    error: i32,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    CreateDir,
    Create,
    /// After so many bytes.
    Write(usize),
    Sync,
    Rename,
    SyncDir,
}

const ENOSPC: i32 = 28;
const EROFS: i32 = 30;

impl FailingIo {
    fn new(error: i32) -> Arc<Self> {
        Arc::new(Self {
            step: Mutex::new(None),
            error,
        })
    }

    fn fail_at(&self, step: Option<Step>) {
        *self.step.lock().unwrap() = step;
    }

    fn at(&self, fails: impl Fn(Step) -> bool) -> io::Result<()> {
        match *self.step.lock().unwrap() {
            Some(step) if fails(step) => Err(io::Error::from_raw_os_error(self.error)),
            _ => Ok(()),
        }
    }
}

impl StoreIo for FailingIo {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.at(|step| matches!(step, Step::CreateDir))?;
        DiskIo.create_dir(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StoreFile>> {
        self.at(|step| matches!(step, Step::Create))?;
        let step = *self.step.lock().unwrap();
        let file = DiskIo.create(path)?;
        Ok(Box::new(FailingFile {
            file,
            step,
            error: self.error,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.at(|step| matches!(step, Step::Rename))?;
        DiskIo.rename(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.at(|step| matches!(step, Step::SyncDir))?;
        DiskIo.sync_dir(dir)
    }
}

struct FailingFile {
    file: Box<dyn StoreFile>,
    step: Option<Step>,
    error: i32,
}

impl io::Write for FailingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(Step::Write(room)) = &mut self.step else {
            return self.file.write(bytes);
        };
        if *room == 0 && !bytes.is_empty() {
            return Err(io::Error::from_raw_os_error(self.error));
        }
        let taken = bytes.len().min(*room);
        *room -= taken;
        self.file.write_all(&bytes[..taken])?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl StoreFile for FailingFile {
    fn sync(&mut self) -> io::Result<()> {
        match self.step {
            Some(Step::Sync) => Err(io::Error::from_raw_os_error(self.error)),
            _ => self.file.sync(),
        }
    }
}

#[test]
fn a_full_disk_loses_nothing_and_says_what_was_needed() {
    let dir = tempfile::tempdir().unwrap();
    let io = FailingIo::new(ENOSPC);
    let store = Store::with_io(dir.path(), io.clone()).unwrap();
    let other = entry(&[("rule", b"an older value")]);
    store.put(&key("old"), &other).unwrap();
    let (before, bytes) = (names_in(dir.path()), bytes_of(&key("new"), &small()).len());

    let steps = [Step::Create, Step::Sync, Step::Rename];
    for step in (0..bytes).map(Step::Write).chain(steps) {
        io.fail_at(Some(step));
        for name in ["new", "old"] {
            let error = store.put(&key(name), &small()).unwrap_err();
            let path = store.entry_path(&key(name));
            let expected = format!(
                "cannot write the cache entry {} of {bytes} bytes",
                path.display()
            );
            assert_eq!(error.to_string(), expected, "{step:?}");
            let source = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
            assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        }
        assert_eq!(names_in(dir.path()), before, "{step:?}");
        assert!(matches!(reason(&store, &key("new")), MissReason::Absent));
        assert_eq!(store.get(&key("old")).as_ref(), Some(&other));
    }

    io.fail_at(Some(Step::Write(bytes)));
    store.put(&key("new"), &small()).unwrap();
    // Here the entry is written and only its durability is in doubt: it is whole, and the caller is told.
    io.fail_at(Some(Step::SyncDir));
    assert!(store.put(&key("old"), &small()).is_err());
    assert_eq!(store.get(&key("old")), Some(small()));
    io.fail_at(None);
    store.put(&key("old"), &other).unwrap();
    assert_eq!(store.check().unwrap().faulty().count(), 0);
}

#[test]
fn a_read_only_store_is_read_and_refuses_writes_with_the_cause() {
    let (dir, writable) = store();
    writable.put(&key("a"), &small()).unwrap();
    let io = FailingIo::new(EROFS);
    io.fail_at(Some(Step::CreateDir));
    let store = Store::with_io(writable.root(), io.clone()).unwrap();
    io.fail_at(Some(Step::Create));
    assert_eq!(store.get(&key("a")), Some(small()));
    let error = store.put(&key("b"), &small()).unwrap_err();
    let source = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
    assert_eq!(source.kind(), io::ErrorKind::ReadOnlyFilesystem);

    io.fail_at(Some(Step::CreateDir));
    let missing = dir.path().join("missing");
    let error = Store::with_io(&missing, io).unwrap_err();
    let expected = format!("cannot open the cache directory {}", missing.display());
    assert_eq!(error.to_string(), expected);
}
