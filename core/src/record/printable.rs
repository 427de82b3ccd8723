//! Characters that must not reach a terminal or a log as they are.

use core::fmt::{self, Write};

/// Whether a character can act on a terminal, or hide or reorder the text around it.
///
/// Text in an event comes from outside the machine. Escape these characters before they reach a terminal or a log line.
/// The set has:
///
/// * control characters (general category `Cc`): terminals obey them, and a line feed forges a log line;
/// * line and paragraph separators (`Zl`, `Zp`);
/// * all of Unicode's `Bidi_Control`, which reorders the text that follows;
/// * all of Unicode's `Default_Ignorable_Code_Point`: zero-width characters, fillers, variation selectors, tags;
/// * the other format characters (`Cf`) that have no glyph.
///
/// ```
/// use scheduled_events_core::record::is_unsafe_to_print;
///
/// assert!("\u{1b}\n\u{202e}\u{200b}".chars().all(is_unsafe_to_print));
/// assert!(!"Zoë 😀".chars().any(is_unsafe_to_print));
/// ```
pub const fn is_unsafe_to_print(char: char) -> bool {
    matches!(
        char,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Displays text with each unsafe character as `\u{…}`, for people. See [`is_unsafe_to_print`].
///
/// ```
/// use scheduled_events_core::record::Printable;
///
/// assert_eq!(Printable("a\u{1b}[2J").to_string(), r"a\u{1b}[2J");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            char if is_unsafe_to_print(char) => write!(f, "{}", char.escape_unicode()),
            char => f.write_char(char),
        })
    }
}

/// Displays compact JSON with each unsafe character as `\uXXXX`: the same value, safe to print. See
/// [`is_unsafe_to_print`].
///
/// Compact JSON has unsafe characters inside strings only, and JSON can escape any character of a string.
///
/// ```
/// use scheduled_events_core::record::PrintableJson;
///
/// assert_eq!(PrintableJson("[\"a\u{202e}\"]").to_string(), r#"["a\u202e"]"#);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PrintableJson<'a>(pub &'a str);

impl fmt::Display for PrintableJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            char if is_unsafe_to_print(char) => char
                .encode_utf16(&mut [0; 2])
                .iter()
                .try_for_each(|unit| write!(f, "\\u{unit:04x}")),
            char => f.write_char(char),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::string::{String, ToString};

    use super::*;

    /// Unicode 16, `PropList.txt`: `Bidi_Control`.
    const BIDI_CONTROL: &str = "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}";

    /// Unicode 16, `DerivedCoreProperties.txt`: `Default_Ignorable_Code_Point`.
    const DEFAULT_IGNORABLE: [(u32, u32); 17] = [
        (0xad, 0xad),
        (0x34f, 0x34f),
        (0x61c, 0x61c),
        (0x115f, 0x1160),
        (0x17b4, 0x17b5),
        (0x180b, 0x180f),
        (0x200b, 0x200f),
        (0x202a, 0x202e),
        (0x2060, 0x206f),
        (0x3164, 0x3164),
        (0xfe00, 0xfe0f),
        (0xfeff, 0xfeff),
        (0xffa0, 0xffa0),
        (0xfff0, 0xfff8),
        (0x1bca0, 0x1bca3),
        (0x1d173, 0x1d17a),
        (0xe0000, 0xe0fff),
    ];

    /// The other format characters (`Cf`) without a glyph: interlinear annotations and Egyptian joiners.
    const OTHER_FORMAT: [(u32, u32); 2] = [(0xfff9, 0xfffb), (0x13430, 0x1343f)];

    #[test]
    fn the_unsafe_characters_are_those_of_the_documentation() {
        let in_ranges = |ranges: &[(u32, u32)], char: char| {
            ranges
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&u32::from(char)))
        };
        for char in (0..=char::MAX as u32).filter_map(char::from_u32) {
            let expected = char.is_control()
                || matches!(char, '\u{2028}' | '\u{2029}')
                || BIDI_CONTROL.contains(char)
                || in_ranges(&DEFAULT_IGNORABLE, char)
                || in_ranges(&OTHER_FORMAT, char);
            assert_eq!(is_unsafe_to_print(char), expected, "{char:?}");
        }
    }

    /// Invisible format characters, one or more of each block that has any.
    const INVISIBLE: &str = "\u{ad}\u{34f}\u{115f}\u{180e}\u{200b}\u{200c}\u{200d}\u{2060}\u{2064}\u{206a}\u{3164}\
        \u{fe0f}\u{feff}\u{ffa0}\u{fff9}\u{13430}\u{1bca0}\u{1d173}\u{e0001}\u{e0020}\u{e007f}\u{e01ef}";

    #[test]
    fn control_bidirectional_and_invisible_characters_are_unsafe() {
        for char in (0..=char::MAX as u32)
            .filter_map(char::from_u32)
            .filter(|char| char.is_control())
        {
            assert!(is_unsafe_to_print(char), "{char:?}");
        }
        for char in BIDI_CONTROL
            .chars()
            .chain(INVISIBLE.chars())
            .chain("\u{2028}\u{2029}".chars())
        {
            assert!(is_unsafe_to_print(char), "{char:?}");
        }
    }

    #[test]
    fn visible_text_and_spaces_are_safe() {
        let visible = " ~\u{a0}\u{ac}\u{ae}Zoëß\u{2009}\u{2010}\u{2027}\u{202f}\u{2205}日本語عربيעברית한국어😀\u{e000}";
        for char in visible.chars() {
            assert!(!is_unsafe_to_print(char), "{char:?}");
        }
    }

    #[test]
    fn escaped_json_has_the_same_value_and_no_unsafe_character() {
        let text: String = BIDI_CONTROL
            .chars()
            .chain(INVISIBLE.chars())
            .chain("\0\n\u{7f}\u{9b}Zoë😀\\u\"".chars())
            .collect();
        let json = serde_json::to_string(&text).unwrap();
        let printable = PrintableJson(&json).to_string();
        assert!(!printable.chars().any(is_unsafe_to_print), "{printable:?}");
        assert_eq!(serde_json::from_str::<String>(&printable).unwrap(), text);
        assert!(
            printable.contains(r"\udb40\udc01"),
            "an astral character takes a surrogate pair: {printable}"
        );
        let shown = Printable(&text).to_string();
        assert!(
            !shown.chars().any(is_unsafe_to_print) && shown.contains(r"\u{e0001}"),
            "{shown:?}"
        );
    }
}
