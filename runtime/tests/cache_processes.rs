//! The store under several processes and threads at once, some of them killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use maskwright::cache::{Entry, Key, KeyBuilder, Lookup, MissReason, Store};

const N_KEYS: u64 = 6;
const CHILD_ROOT: &str = "MASKWRIGHT_TEST_STORE";
const CHILD_CLEARS: &str = "MASKWRIGHT_TEST_CLEARS";

/// A generator that is good enough to spread times and sizes.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

fn key(index: u64) -> Key {
    KeyBuilder::new()
        .field("index", index.to_le_bytes())
        .finish()
}

/// An entry whose content follows from its key and a seed that it holds.
fn entry(index: u64, seed: u64) -> Entry {
    let mut random = Random(seed << 8 | index << 1 | 1);
    let len = random.below(60_000);
    let body = (0..len).map(|_| random.below(256) as u8).collect();
    Entry {
        sections: vec![
            ("seed".to_owned(), seed.to_le_bytes().to_vec()),
            ("body".to_owned(), body),
        ],
    }
}

/// Every key is absent or holds exactly what some writer put.
#[track_caller]
fn assert_intact(store: &Store) -> usize {
    let mut hits = 0;
    for index in 0..N_KEYS {
        match store.get_explained(&key(index)) {
            Lookup::Hit(found) => {
                let seed = found.section("seed").unwrap().try_into().unwrap();
                assert_eq!(found, entry(index, u64::from_le_bytes(seed)));
                hits += 1;
            }
            Lookup::Miss(MissReason::Absent) => {}
            Lookup::Miss(reason) => panic!("key {index}: {reason}"),
        }
    }
    hits
}

/// Writes, reads and, if it is told to, clears, until it is killed.
fn work(store: &Store, seed: u64, clears: bool, running: &AtomicBool) -> u64 {
    let mut random = Random(seed | 1);
    let mut writes = 0;
    while running.load(Ordering::Relaxed) {
        let index = random.below(N_KEYS);
        store
            .put(&key(index), &entry(index, random.below(1 << 40)))
            .unwrap();
        writes += 1;
        match random.below(8) {
            0 if clears => drop(store.clear().unwrap()),
            1 => drop(store.remove(&key(random.below(N_KEYS))).unwrap()),
            2 => drop(store.list().unwrap()),
            3 => assert_eq!(store.check().unwrap().faulty().count(), 0),
            _ => drop(assert_intact(store)),
        }
    }
    writes
}

/// The body of the child processes: passes at once where it is run as a test.
#[test]
fn child_process() {
    let Some(root) = env::var_os(CHILD_ROOT) else {
        return;
    };
    let store = Store::open(root).unwrap();
    let clears = env::var_os(CHILD_CLEARS).is_some();
    let seed = u64::from(std::process::id()) << 20;
    work(&store, seed, clears, &AtomicBool::new(true));
}

/// A child process that is killed with its owner, so that a failing test leaves none behind.
struct Worker(Child);

impl Worker {
    fn spawn(root: &Path, clears: bool) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "child_process", "--nocapture"]);
        command.env(CHILD_ROOT, root).stdout(Stdio::null());
        if clears {
            command.env(CHILD_CLEARS, "");
        }
        Self(command.spawn().unwrap())
    }

    fn kill(mut self) {
        // A child that ended by itself has failed an assertion.
        let ended = self.0.try_wait().unwrap();
        assert!(ended.is_none(), "a child stopped before it was killed");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already; there is nothing to do then.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn writers_killed_at_any_moment_leave_each_entry_absent_or_intact() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut random = Random(0xC0FF_EE11);
    let (mut hits, mut leftovers) = (0, 0);
    for round in 0..60 {
        let child = Worker::spawn(dir.path(), false);
        // Not before it writes, so that the kill falls among its writes.
        let deadline = Instant::now() + Duration::from_mins(1);
        while round == 0 && store.size().unwrap().entries == 0 {
            assert!(Instant::now() < deadline, "the child wrote nothing");
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_micros(5_000 + random.below(30_000)));
        child.kill();
        hits += assert_intact(&store);
        leftovers += store.size().unwrap().temporaries;
        if round % 10 == 9 {
            store.clear().unwrap();
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }
    assert!(0 < hits);
    assert!(0 < leftovers, "no child was killed while it wrote");
}

#[test]
fn processes_write_read_and_clear_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("made/by/all")).unwrap();
    let mut children: Vec<_> = [false, false, true]
        .map(|clears| Worker::spawn(store.root(), clears))
        .into();
    let mut random = Random(0xBEEF);
    let end = Instant::now() + Duration::from_secs(3);
    let mut hits = 0;
    while Instant::now() < end {
        hits += assert_intact(&store);
        // One is killed and replaced while the others go on.
        let victim = random.below(children.len() as u64) as usize;
        let clears = random.below(3) == 0;
        thread::sleep(Duration::from_millis(random.below(60)));
        let successor = Worker::spawn(store.root(), clears);
        std::mem::replace(&mut children[victim], successor).kill();
    }
    children.into_iter().for_each(Worker::kill);
    assert_intact(&store);
    assert!(0 < hits);
    store.clear().unwrap();
    assert_eq!(fs::read_dir(store.root()).unwrap().count(), 0);
}

#[test]
fn threads_write_while_the_directory_itself_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("store")).unwrap();
    let running = AtomicBool::new(true);
    let writes: u64 = thread::scope(|scope| {
        let workers: Vec<_> = (1..=3)
            .map(|seed| {
                let (store, running) = (&store, &running);
                scope.spawn(move || work(store, seed << 30, seed == 1, running))
            })
            .collect();
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(25));
            // Files may come while it is being emptied, and then it stays: either way the workers go on.
            let _ = fs::remove_dir_all(store.root());
        }
        running.store(false, Ordering::Relaxed);
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .sum()
    });
    assert!(0 < writes);
    assert_intact(&store);
}
