//! Which part of a command's output is reported: its beginning at once, and its last part when it ends.

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::limits::OUTPUT_PART_MAX;

/// The lines of one command, of which not all are reported.
#[derive(Default)]
pub(super) struct Excerpt(RefCell<Parts>);

#[derive(Default)]
struct Parts {
    reported: usize,
    last: VecDeque<String>,
    /// The bytes of the last part.
    kept: usize,
    /// The bytes that are left out between the two parts.
    left_out: u64,
}

/// The bytes that a line counts for, so that empty ones count, too.
fn size(line: &str) -> usize {
    line.len() + 1
}

impl Excerpt {
    /// Reports a line, or keeps it for the end.
    pub(super) fn add(&self, line: String, report: impl Fn(String)) {
        let mut parts = self.0.borrow_mut();
        if parts.reported + size(&line) <= OUTPUT_PART_MAX {
            parts.reported += size(&line);
            drop(parts);
            return report(line);
        }
        // What is shorter comes after it, too.
        parts.reported = OUTPUT_PART_MAX;
        parts.kept += size(&line);
        parts.last.push_back(line);
        while parts.kept > OUTPUT_PART_MAX
            && let Some(first) = parts.last.pop_front()
        {
            parts.kept -= size(&first);
            parts.left_out += size(&first) as u64;
        }
    }

    /// Reports the last part.
    pub(super) fn end(&self, report: impl Fn(String)) {
        let parts = self.0.take();
        if parts.left_out > 0 {
            report(format!(
                "({} bytes of output are left out here)",
                parts.left_out
            ));
        }
        parts.last.into_iter().for_each(report);
        self.0.borrow_mut().reported = parts.reported;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is reported of lines of 1,023 bytes with these numbers.
    fn reported(numbers: std::ops::Range<usize>) -> Vec<String> {
        let (excerpt, lines) = (Excerpt::default(), RefCell::new(Vec::new()));
        let report = |line: String| lines.borrow_mut().push(line.trim_start().to_owned());
        for number in numbers {
            excerpt.add(format!("{number:>1023}"), report);
        }
        excerpt.end(report);
        lines.into_inner()
    }

    #[test]
    fn the_first_and_the_last_part_of_an_output_are_reported_and_the_size_of_what_is_left_out() {
        let all = |numbers: std::ops::Range<usize>| numbers.map(|number| number.to_string());
        assert_eq!(reported(0..128), all(0..128).collect::<Vec<_>>());
        let left_out = "(2048 bytes of output are left out here)".to_owned();
        let expected: Vec<_> = all(0..64).chain([left_out]).chain(all(66..130)).collect();
        assert_eq!(reported(0..130), expected);
    }

    /// What it left running prints on.
    #[test]
    fn after_the_end_the_last_part_is_reported_again_and_nothing_in_between() {
        let (excerpt, lines) = (Excerpt::default(), RefCell::new(0));
        let report = |_| *lines.borrow_mut() += 1;
        for _ in 0..3 {
            for _ in 0..1000 {
                excerpt.add("x".repeat(1023), report);
            }
            excerpt.end(report);
        }
        assert_eq!(lines.into_inner(), 64 + 3 * 65);
    }
}
