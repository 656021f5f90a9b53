//! The info key `soft` (MPI-5.0, 11.8.2): which numbers of processes will do.

use base::{Result, ensure};

/// The largest number of the set `text` that is at most `max`: a list of numbers, ranges `first:last` and ranges with a stride `first:last:stride`.
pub fn largest(text: &str, max: i32) -> Result<i32> {
    let mut best = None;
    for part in text.split(',') {
        let numbers: Option<Vec<i64>> = part.split(':').map(|number| number.trim().parse().ok()).collect();
        let found = match numbers.as_deref() {
            Some([only]) => last_below(*only, *only, 1, i64::from(max)),
            Some([first, last]) => last_below(*first, *last, 1, i64::from(max)),
            Some([first, last, stride]) => last_below(*first, *last, *stride, i64::from(max)),
            _ => Err(()),
        };
        ensure!(
            found.is_ok(),
            ERR_INFO_VALUE,
            "the info key soft is a list of numbers, first:last or first:last:stride"
        );
        best = best.max(found.ok().flatten());
    }
    ensure!(best.is_some(), ERR_SPAWN, "the info key soft has no number of processes that is possible");
    Ok(best.map_or(0, |best| best as i32))
}

/// The largest of `first`, `first + stride`, … up to `last` in `0..=max`.
fn last_below(first: i64, last: i64, stride: i64, max: i64) -> std::result::Result<Option<i64>, ()> {
    const LIMIT: i64 = 1 << 40;
    if stride == 0 || [first, last, stride].into_iter().any(|number| number.abs() > LIMIT) {
        return Err(());
    }
    if stride < 0 {
        // The same numbers, from the other end.
        let steps = (first - last).div_euclid(-stride);
        return if first < last { Ok(None) } else { last_below(first + steps * stride, first, -stride, max) };
    }
    let end = last.min(max);
    if end < first {
        return Ok(None);
    }
    let best = first + (end - first) / stride * stride;
    Ok((best >= 0).then_some(best))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Class;

    #[test]
    fn the_largest_number_that_will_do_is_taken() {
        let of = |text: &str, max| largest(text, max).map_err(|error| error.class);
        assert_eq!(of("4", 4), Ok(4));
        assert_eq!(of("0:10", 4), Ok(4));
        assert_eq!(of("1,3,9", 8), Ok(3));
        assert_eq!(of("0:100:3", 10), Ok(9));
        assert_eq!(of("9:1:-4", 7), Ok(5));
        assert_eq!(of("2:6:2, 5", 5), Ok(5));
        assert_eq!(of("0", 3), Ok(0));
        assert_eq!(of("5:9", 4), Err(Class::ERR_SPAWN));
        for wrong in ["", "x", "1:2:0", "1:2:3:4", "1,,2", "99999999999999999999"] {
            assert_eq!(of(wrong, 4), Err(Class::ERR_INFO_VALUE), "{wrong}");
        }
    }
}
