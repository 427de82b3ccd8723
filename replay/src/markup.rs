//! Writes XML and HTML, for reports and pictures: elements with attributes and text. Text from
//! outside is escaped.

use std::fmt::Display;

use scheduled_events_core::record::Printable;

/// A document under construction.
///
/// ```
/// use scheduled_events_replay::markup::Markup;
///
/// let mut page = Markup::new("<!doctype html>\n");
/// page.open("p", &[("class", &"note"), ("id", &7)]);
/// page.text(&"a < b");
/// page.raw("&nbsp;");
/// page.empty("br", &[]);
/// page.line(&"c");
/// page.close("p");
/// page.element("b", &[], &"d");
/// assert_eq!(
///     page.finish(),
///     "<!doctype html>\n<p class=\"note\" id=\"7\">a &lt; b&nbsp;<br/>\nc\n</p>\n<b>d</b>\n"
/// );
/// ```
#[derive(Debug, Default)]
pub struct Markup(String);

/// The attributes of an element.
pub type Attributes<'a> = &'a [(&'a str, &'a dyn Display)];

impl Markup {
    /// A document that begins with this text, which is not escaped.
    pub fn new(head: &str) -> Self {
        Self(head.to_owned())
    }

    /// The start of an element.
    pub fn open(&mut self, tag: &str, attributes: Attributes<'_>) {
        self.tag(tag, attributes, ">");
    }

    /// The end of an element.
    pub fn close(&mut self, tag: &str) {
        self.0 += "</";
        self.0 += tag;
        self.0 += ">\n";
    }

    /// An element without content.
    pub fn empty(&mut self, tag: &str, attributes: Attributes<'_>) {
        self.tag(tag, attributes, "/>\n");
    }

    /// An element that has only text.
    pub fn element(&mut self, tag: &str, attributes: Attributes<'_>, text: &dyn Display) {
        self.open(tag, attributes);
        self.text(text);
        self.close(tag);
    }

    /// Text, in which characters with a meaning in markup are escaped.
    pub fn text(&mut self, text: &dyn Display) {
        // Characters that are unsafe to print, which include those that XML does not allow, become
        // escape sequences.
        for c in Printable(&text.to_string()).to_string().chars() {
            match c {
                '&' => self.0 += "&amp;",
                '<' => self.0 += "&lt;",
                '>' => self.0 += "&gt;",
                '"' => self.0 += "&quot;",
                '\'' => self.0 += "&#39;",
                '\u{fffe}' | '\u{ffff}' => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
        }
    }

    /// Text that is written unchanged.
    pub fn raw(&mut self, text: &str) {
        self.0 += text;
    }

    /// Text, escaped, and the end of a line.
    pub fn line(&mut self, text: &dyn Display) {
        self.text(text);
        self.0.push('\n');
    }

    /// The document.
    pub fn finish(self) -> String {
        self.0
    }

    fn tag(&mut self, tag: &str, attributes: Attributes<'_>, end: &str) {
        self.0.push('<');
        self.0 += tag;
        for (name, value) in attributes {
            self.0.push(' ');
            self.0 += name;
            self.0 += "=\"";
            self.text(value);
            self.0.push('"');
        }
        self.0 += end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_is_escaped() {
        let mut markup = Markup::new("<!doctype html>\n");
        markup.open("p", &[("title", &"\"><script>'\u{7}\u{202e}"), ("x", &1)]);
        markup.text(&"a < b & c\u{0}\u{fffe}");
        markup.empty("br", &[]);
        markup.close("p");
        let expected = "<!doctype html>\n<p title=\"&quot;&gt;&lt;script&gt;&#39;\\u{7}\\u{202e}\" x=\"1\">a &lt; b &amp; \
                        c\\u{0}\u{fffd}<br/>\n</p>\n";
        assert_eq!(markup.finish(), expected);
    }
}
