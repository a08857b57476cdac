//! Nearest names, for "did you mean".

/// The candidate closest to `name`, if it is close enough to be a slip of the pen.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = match name.chars().count() {
        0..=2 => 1,
        3..=5 => 2,
        _ => 3,
    };
    if name.len() > 64 {
        return None;
    }
    candidates
        .into_iter()
        .filter(|c| c.len() <= 64 && *c != name)
        .map(|c| (distance(&name.to_lowercase(), &c.to_lowercase()), c))
        .filter(|&(d, c)| d <= limit && d < c.chars().count().max(name.chars().count()))
        .min_by_key(|&(d, c)| (d, c.len().abs_diff(name.len())))
        .map(|(_, c)| c)
}

/// Edit distance; swapping two neighbours counts as one edit.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if swap {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_slips() {
        assert_eq!(nearest("maximun", ["minimum", "maximum"]), Some("maximum"));
        assert_eq!(nearest("ma0", ["m0", "acc"]), Some("m0"));
        assert_eq!(nearest("sacle", ["scale"]), Some("scale"));
        assert_eq!(nearest("x", ["y"]), None);
        assert_eq!(nearest("foo", ["bar"]), None);
    }
}
