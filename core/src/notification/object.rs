//! Reads the few members of an object that are of interest, whatever their order, and skips the others.

use crate::error::{ParseError, ParseErrorKind};
use crate::json::{Quoted, Scanner};

/// A member's value: where it starts, and its text if it is a string.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) at: usize,
    pub(super) text: Option<Quoted>,
}

impl Member {
    /// Whether the value is an object or an array that starts with this bracket.
    pub(super) fn starts_with(self, text: &str, bracket: u8) -> bool {
        text.as_bytes().get(self.at) == Some(&bracket)
    }
}

/// Reads the object that starts here. Returns the members with these names, in the order of the names; `None` for one
/// that is absent or `null`.
///
/// # Errors
/// [`ParseError`] if the object is not JSON, or repeats one of these members.
pub(super) fn read<const N: usize>(
    scanner: &mut Scanner<'_>,
    names: &[&str; N],
) -> Result<[Option<Member>; N], ParseError> {
    let mut members = [None; N];
    read_into(scanner, names, &mut members)?;
    Ok(members)
}

#[inline(never)] // Once for all numbers of names.
fn read_into(
    scanner: &mut Scanner<'_>,
    names: &[&str],
    members: &mut [Option<Member>],
) -> Result<(), ParseError> {
    // One bit for each name: there are at most eight.
    let mut seen: u32 = 0;
    let mut first = true;
    scanner.open_object()?;
    while let Some((name_offset, name)) = scanner.next_member(&mut first)? {
        let at = scanner.offset();
        let mut text = None;
        match scanner.peek() {
            Some(b'"') => text = Some(scanner.string_here()?),
            _ => drop(scanner.value()?),
        }
        let mut bit: u32 = 1;
        for (known, member) in names.iter().zip(&mut *members) {
            if name == **known {
                if seen & bit != 0 {
                    return Err(ParseError::new(ParseErrorKind::RepeatedMember, name_offset));
                }
                seen |= bit;
                if !scanner.since(at).starts_with('n') {
                    *member = Some(Member { at, text });
                }
            }
            bit = bit.wrapping_shl(1);
        }
    }
    Ok(())
}
