//! Prefixes of hashes, many in one value: enough to find candidates, which the whole hash then
//! confirms.
//!
//! Somebody can construct two contents whose hashes begin alike, so a key alone never proves that a
//! content exists.

use store_api::Hash;

/// First bytes of a hash; keys are sorted in byte order.
pub(crate) type Key = [u8; 8];

pub(crate) fn key(hash: &Hash) -> Key {
    let (keys, _) = hash.as_bytes().as_chunks();
    keys.first().copied().unwrap_or_default()
}

/// Returns the keys in a value of the database. An incomplete key at the end of a damaged value is
/// ignored.
pub(crate) fn keys(value: &[u8]) -> &[Key] {
    value.as_chunks().0
}

/// Returns the keys of the hashes, sorted and without duplicates.
pub(crate) fn sorted<'a>(hashes: impl IntoIterator<Item = &'a Hash>) -> Vec<Key> {
    let mut keys: Vec<Key> = hashes.into_iter().map(key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Iterates over the keys in both sorted lists, in about the time of the shorter list.
pub(crate) fn in_both<'a>(mut one: &'a [Key], mut other: &'a [Key]) -> impl Iterator<Item = Key> + 'a {
    std::iter::from_fn(move || {
        loop {
            let (first, second) = (*one.first()?, *other.first()?);
            match first.cmp(&second) {
                std::cmp::Ordering::Less => one = from(one, second),
                std::cmp::Ordering::Greater => other = from(other, first),
                std::cmp::Ordering::Equal => {
                    (one, other) = (&one[1..], &other[1..]);
                    return Some(first);
                }
            }
        }
    })
}

/// Returns the keys from `key` on. The search doubles its steps, because the key usually is near.
fn from(keys: &[Key], key: Key) -> &[Key] {
    let mut step = 1;
    while keys.get(step).is_some_and(|found| *found < key) {
        step *= 2;
    }
    let near = &keys[step / 2..keys.len().min(step + 1)];
    &keys[step / 2 + near.partition_point(|found| *found < key)..]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_in_both_is_what_sets_share(
            one in proptest::collection::btree_set(0..400_u64, 0..80),
            other in proptest::collection::btree_set(0..400_u64, 0..300),
        ) {
            let list = |set: &BTreeSet<u64>| set.iter().map(|number| number.to_be_bytes()).collect::<Vec<Key>>();
            let expected: Vec<Key> = one.intersection(&other).map(|number| number.to_be_bytes()).collect();
            prop_assert_eq!(in_both(&list(&one), &list(&other)).collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(in_both(&list(&other), &list(&one)).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn keys_are_in_the_order_of_their_hashes() {
        let mut hashes: Vec<Hash> = (0..50_u8).map(|number| Hash::of(&[number])).collect();
        let keys = sorted(&hashes);
        hashes.sort_unstable();
        assert_eq!(keys, hashes.iter().map(key).collect::<Vec<_>>());
    }
}
