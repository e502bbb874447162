//! Sweeps over a file system in memory, whose clock has coarse ticks.

use std::collections::BTreeMap;

use codegraph::{Due, Freshness, Stamp, Sweep};
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;

/// Files with their stamps and contents, and the time.
#[derive(Debug, Default)]
struct Disk {
    files: BTreeMap<String, (Stamp, u32)>,
    now: i64,
}

impl Disk {
    /// Writes a file: its size and inode stay, and its time is that of the tick.
    fn write(&mut self, path: &str, content: u32) {
        let stamp = Stamp { size: 4, modified: self.now / SECOND * SECOND, inode: 7 };
        self.files.insert(path.to_owned(), (stamp, content));
    }

    /// Sweeps, and reads what is due.
    fn sweep(&self, sweep: &mut Sweep, index: &mut BTreeMap<String, u32>) -> usize {
        let listing = self.files.iter().map(|(path, (stamp, _))| (path.clone(), *stamp));
        let due = sweep.look(listing, self.now);
        for one in &due {
            match one {
                Due::Read(path) => {
                    index.insert(path.clone(), self.files[path].1);
                    sweep.note(path);
                }
                Due::Gone(path) => {
                    index.remove(path);
                    sweep.note(path);
                }
            }
        }
        due.len()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Write(u8, u32),
    Remove(u8),
    Wait(i64),
    Sweep,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0_u8..4, any::<u32>()).prop_map(|(file, content)| Step::Write(file, content)),
        (0_u8..4).prop_map(Step::Remove),
        (0..SECOND).prop_map(Step::Wait),
        Just(Step::Sweep),
    ];
    prop::collection::vec(step, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sweeps_miss_no_change_and_come_to_rest(steps in steps()) {
        let (mut disk, mut sweep, mut index) = (Disk::default(), Sweep::default(), BTreeMap::new());
        for step in steps {
            match step {
                Step::Write(file, content) => disk.write(&format!("f{file}"), content),
                Step::Remove(file) => drop(disk.files.remove(&format!("f{file}"))),
                Step::Wait(time) => disk.now += time,
                Step::Sweep => drop(disk.sweep(&mut sweep, &mut index)),
            }
        }
        disk.now += 10 * SECOND;
        disk.sweep(&mut sweep, &mut index);
        let contents: BTreeMap<String, u32> =
            disk.files.iter().map(|(path, (_, content))| (path.clone(), *content)).collect();
        prop_assert_eq!(&index, &contents);
        prop_assert_eq!(disk.sweep(&mut sweep, &mut index), 0);
        prop_assert_eq!(sweep.freshness().pending, 0);
    }
}

#[test]
fn freshness_counts_what_is_read_and_what_is_not() {
    let stamp = |size| Stamp { size, modified: 0, inode: 1 };
    let mut sweep = Sweep::default();
    let listing = |sizes: &[(&str, u64)]| {
        sizes.iter().map(|(path, size)| ((*path).to_owned(), stamp(*size))).collect::<Vec<_>>()
    };
    let due = sweep.look(listing(&[("b", 1), ("a", 1)]), 100 * SECOND);
    assert_eq!(due, [Due::Read("a".to_owned()), Due::Read("b".to_owned())]);
    sweep.note("a");
    assert_eq!(sweep.freshness(), Freshness { indexed: 1, pending: 1, generation: 1 });
    sweep.note("b");
    assert_eq!(sweep.look(listing(&[("b", 1), ("a", 1)]), 100 * SECOND), []);
    assert_eq!(sweep.freshness(), Freshness { indexed: 2, pending: 0, generation: 1 });
    let due = sweep.look(listing(&[("b", 2)]), 100 * SECOND);
    assert_eq!(due, [Due::Gone("a".to_owned()), Due::Read("b".to_owned())]);
    assert_eq!(sweep.freshness(), Freshness { indexed: 2, pending: 2, generation: 2 });
    sweep.note("a");
    sweep.note("b");
    sweep.forget("b");
    assert_eq!(sweep.look(listing(&[("b", 2)]), 100 * SECOND), [Due::Read("b".to_owned())]);
    sweep.note("no such file");
}
