//! Placeholders in a scenario's resource names.
//!
//! | Placeholder | Meaning, for the VM under test `WestNO_4` |
//! |---|---|
//! | `{vm}` | the VM under test: `WestNO_4` |
//! | `{peer:N}` | the N-th neighbour: `{peer:1}` is `WestNO_5`, `{peer:0}` is the VM itself |
//! | `{peer:index}` | the neighbour with this copy's number, for events with a `count` |
//! | `{index}` | this copy's number, from 0 |

/// Replaces the placeholders in `template`. Other text stays as it is.
pub(crate) fn expand(template: &str, vm_name: &str, index: u32) -> String {
    let mut out = String::with_capacity(template.len() + vm_name.len());
    for piece in pieces(template) {
        match piece {
            NamePiece::Text(text) | NamePiece::Unknown(text) => out.push_str(text),
            NamePiece::Vm => out.push_str(vm_name),
            NamePiece::Peer(number) => out.push_str(&peer(vm_name, number)),
            NamePiece::PeerIndex => out.push_str(&peer(vm_name, index)),
            NamePiece::Index => out.push_str(&index.to_string()),
        }
    }
    out
}

/// The template for one copy of an event: without the placeholders that depend on the copy's
/// number.
pub(crate) fn of_copy(template: &str, index: u32) -> String {
    template
        .replace("{peer:index}", &format!("{{peer:{index}}}"))
        .replace("{index}", &index.to_string())
}

/// The first unknown placeholder in `template`.
pub(crate) fn unknown_placeholder(template: &str) -> Option<&str> {
    pieces(template).find_map(|piece| match piece {
        NamePiece::Unknown(text) => Some(text),
        _ => None,
    })
}

/// Whether `template` gives each copy of an event a different name.
pub(crate) fn depends_on_index(template: &str) -> bool {
    pieces(template).any(|piece| matches!(piece, NamePiece::Index | NamePiece::PeerIndex))
}

/// The `number`-th neighbour of a VM: its instance number is increased; a name without one gets a
/// suffix.
///
/// Uniform scale sets name their resources `{scale-set}_{instance-id}`, so only digits after the
/// last underscore are a number. Leading zeros keep their width.
pub(crate) fn peer(vm_name: &str, number: u32) -> String {
    if number == 0 {
        return vm_name.to_owned();
    }
    if let Some((base, digits)) = vm_name.rsplit_once('_')
        && !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
        && let Ok(own) = digits.parse::<u64>()
        && let Some(theirs) = own.checked_add(u64::from(number))
    {
        return format!("{base}_{theirs:0width$}", width = digits.len());
    }
    format!("{vm_name}_{number}")
}

enum NamePiece<'a> {
    Text(&'a str),
    Vm,
    Peer(u32),
    PeerIndex,
    Index,
    Unknown(&'a str),
}

fn pieces(template: &str) -> impl Iterator<Item = NamePiece<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(open) = rest.find('{') else {
            return Some(NamePiece::Text(std::mem::take(&mut rest)));
        };
        if open > 0 {
            let (text, tail) = rest.split_at(open);
            rest = tail;
            return Some(NamePiece::Text(text));
        }
        let Some(close) = rest.find('}') else {
            return Some(NamePiece::Unknown(std::mem::take(&mut rest)));
        };
        let (placeholder, tail) = rest.split_at(close + 1);
        rest = tail;
        Some(match placeholder {
            "{vm}" => NamePiece::Vm,
            "{index}" => NamePiece::Index,
            "{peer:index}" => NamePiece::PeerIndex,
            _ => placeholder
                .strip_prefix("{peer:")
                .and_then(|number| number.strip_suffix('}'))
                .and_then(|number| number.parse().ok())
                .map_or(NamePiece::Unknown(placeholder), NamePiece::Peer),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_increase_the_instance_number() {
        assert_eq!(peer("WestNO_0", 1), "WestNO_1");
        assert_eq!(peer("WestNO_9", 2), "WestNO_11");
        assert_eq!(peer("pool_007", 1), "pool_008");
        assert_eq!(peer("a_b_3", 4), "a_b_7");
        assert_eq!(peer("WestNO_0", 0), "WestNO_0");
    }

    #[test]
    fn peers_of_names_without_a_number_get_a_suffix() {
        assert_eq!(peer("db-node", 1), "db-node_1");
        assert_eq!(peer("flex_a1b2c3d4", 2), "flex_a1b2c3d4_2");
        assert_eq!(peer("empty_", 1), "empty__1");
        assert_eq!(
            peer("big_18446744073709551615", 1),
            "big_18446744073709551615_1"
        );
        assert_eq!(peer("", 1), "_1");
    }

    #[test]
    fn placeholders_are_replaced() {
        assert_eq!(expand("{vm}", "WestNO_4", 0), "WestNO_4");
        assert_eq!(
            expand("x-{peer:1}-{index}-y", "WestNO_4", 7),
            "x-WestNO_5-7-y"
        );
        assert_eq!(expand("{peer:index}", "WestNO_4", 3), "WestNO_7");
        assert_eq!(expand("plain", "WestNO_4", 3), "plain");
        assert_eq!(
            expand(&of_copy("{peer:index}-{index}", 3), "WestNO_4", 0),
            "WestNO_7-3"
        );
        assert_eq!(expand("{what}{", "WestNO_4", 3), "{what}{");
    }

    #[test]
    fn unknown_placeholders_are_found() {
        assert_eq!(unknown_placeholder("{vm}-{peer:2}"), None);
        assert_eq!(unknown_placeholder("a{VM}b"), Some("{VM}"));
        assert_eq!(unknown_placeholder("{peer:-1}"), Some("{peer:-1}"));
        assert_eq!(unknown_placeholder("{vm"), Some("{vm"));
        assert!(depends_on_index("{peer:index}") && !depends_on_index("{peer:3}"));
    }
}
