//! One order of several.

use std::collections::HashMap;

/// What the ranks of the first few have in common, so that one way alone decides little (Cormack, Clarke and Büttcher 2009).
const RANK_CONSTANT: f64 = 60.0;

/// One order of several: by reciprocal ranks.
pub fn fused(lists: &[Vec<i64>]) -> Vec<i64> {
    let mut scores: HashMap<i64, f64> = HashMap::new();
    for list in lists {
        let mut rank = RANK_CONSTANT;
        for id in list {
            rank += 1.0;
            *scores.entry(*id).or_default() += 1.0 / rank;
        }
    }
    let mut all: Vec<(i64, f64)> = scores.into_iter().collect();
    all.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    all.into_iter().map(|(id, _)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_ways_find_comes_before_what_one_finds_first() {
        assert_eq!(fused(&[vec![1, 2, 3], vec![4, 2, 5]]), [2, 1, 4, 3, 5]);
        assert_eq!(fused(&[vec![7, 8], vec![]]), [7, 8]);
        assert_eq!(fused(&[]), Vec::<i64>::new());
    }
}
