//! Prometheus' text format: families of samples that are counted, set or observed, and written with their labels escaped.
//!
//! The crate `prometheus-client` does the same and much more, and makes the command 51 KB larger than this does.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write as _};

/// What a family's samples are.
///
/// ```
/// use scheduled_events::metrics::exposition::{Family, FamilyKind};
///
/// let mut family = Family::new("wait_seconds", "How long requests waited", FamilyKind::Histogram(&[0.1, 1.0]));
/// family.observe(&[], 0.5);
/// let mut text = String::new();
/// family.write("queue_", &mut text);
/// assert!(text.contains("\nqueue_wait_seconds_bucket{le=\"0.1\"} 0\nqueue_wait_seconds_bucket{le=\"1\"} 1\n"));
/// ```
#[derive(Clone, Copy, Debug)]
pub enum FamilyKind {
    /// A number that only grows, until the process ends.
    Counter,
    /// A number that can become less.
    Gauge,
    /// With the upper bounds of its buckets, in order and without infinity.
    Histogram(&'static [f64]),
}

/// A metric, with one sample for each set of labels. Its name is written after a prefix.
///
/// ```
/// use scheduled_events::metrics::exposition::{Family, FamilyKind};
///
/// let mut family = Family::new("requests_total", "Requests, by path", FamilyKind::Counter);
/// assert!(family.is_empty());
/// family.add(&[("path", "/a\"b")], 1.0);
/// family.add(&[("path", "/a\"b")], 2.0);
/// let mut text = String::new();
/// family.write("server_", &mut text);
/// assert_eq!(
///     text,
///     "# HELP server_requests_total Requests, by path\n# TYPE server_requests_total counter\n\
///      server_requests_total{path=\"/a\\\"b\"} 3\n"
/// );
/// assert!(family.set(&[("path", "/a\"b")], 0.0));
/// family.observe(&[("path", "/a")], 1.0); // only a histogram has observations
/// family.clear();
/// assert!(family.is_empty());
/// ```
#[derive(Debug)]
pub struct Family {
    name: &'static str,
    help: &'static str,
    kind: FamilyKind,
    /// By their labels, as the text has them.
    samples: BTreeMap<String, Sample>,
}

#[derive(Debug, Default)]
struct Sample {
    /// A histogram's is the sum of what was observed.
    value: f64,
    /// The numbers of observations that are at most as large as each bound, and of all.
    buckets: Vec<u64>,
}

impl Family {
    /// A family without samples.
    pub const fn new(name: &'static str, help: &'static str, kind: FamilyKind) -> Self {
        Self {
            name,
            help,
            kind,
            samples: BTreeMap::new(),
        }
    }

    /// The sample with these labels, made at 0 if there is none.
    fn sample(&mut self, labels: &[(&str, &str)]) -> &mut Sample {
        let mut key = String::new();
        for (name, value) in labels {
            let separator = if key.is_empty() { "" } else { "," };
            // Writing to a string does not fail.
            let _ = write!(key, "{separator}{name}=\"{}\"", Escaped(value));
        }
        let buckets = if let FamilyKind::Histogram(bounds) = self.kind {
            bounds.len() + 1
        } else {
            0
        };
        self.samples.entry(key).or_insert_with(|| Sample {
            value: 0.0,
            buckets: vec![0; buckets],
        })
    }

    /// Adds to a counter.
    pub fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        self.sample(labels).value += value;
    }

    /// Sets a gauge, or a counter that is counted elsewhere. Returns whether that changed it.
    pub fn set(&mut self, labels: &[(&str, &str)], value: f64) -> bool {
        let before = std::mem::replace(&mut self.sample(labels).value, value);
        before.to_bits() != value.to_bits()
    }

    /// Adds an observation to a histogram.
    pub fn observe(&mut self, labels: &[(&str, &str)], value: f64) {
        let FamilyKind::Histogram(bounds) = self.kind else {
            return;
        };
        let sample = self.sample(labels);
        sample.value += value;
        let bounds = bounds.iter().chain([&f64::INFINITY]);
        for (bucket, _) in sample
            .buckets
            .iter_mut()
            .zip(bounds)
            .filter(|(_, bound)| value <= **bound)
        {
            *bucket += 1;
        }
    }

    /// Forgets all samples.
    pub fn clear(&mut self) {
        self.samples.clear();
    }

    /// Whether it has no samples.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Writes its help, its type and its samples. Names begin with this prefix.
    pub fn write(&self, prefix: &str, text: &mut String) {
        // Writing to a string does not fail.
        let _ = self.try_write(prefix, text);
    }

    fn try_write(&self, prefix: &str, text: &mut String) -> fmt::Result {
        let (name, help) = (self.name, self.help);
        let kind = match self.kind {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge => "gauge",
            FamilyKind::Histogram(_) => "histogram",
        };
        writeln!(
            text,
            "# HELP {prefix}{name} {help}\n# TYPE {prefix}{name} {kind}"
        )?;
        for (labels, sample) in &self.samples {
            let (open, close) = if labels.is_empty() {
                ("", "")
            } else {
                ("{", "}")
            };
            let FamilyKind::Histogram(bounds) = self.kind else {
                writeln!(text, "{prefix}{name}{open}{labels}{close} {}", sample.value)?;
                continue;
            };
            let separator = if labels.is_empty() { "" } else { "," };
            for (bound, count) in bounds.iter().zip(&sample.buckets) {
                writeln!(
                    text,
                    "{prefix}{name}_bucket{{{labels}{separator}le=\"{bound}\"}} {count}"
                )?;
            }
            let count = sample.buckets.last().unwrap_or(&0);
            writeln!(
                text,
                "{prefix}{name}_bucket{{{labels}{separator}le=\"+Inf\"}} {count}"
            )?;
            writeln!(
                text,
                "{prefix}{name}_sum{open}{labels}{close} {}",
                sample.value
            )?;
            writeln!(text, "{prefix}{name}_count{open}{labels}{close} {count}")?;
        }
        Ok(())
    }
}

/// A count as a sample. It is exact up to 2^53.
///
/// ```
/// assert_eq!(scheduled_events::metrics::exposition::number(3_u32).to_string(), "3");
/// ```
#[allow(clippy::cast_precision_loss)]
pub fn number(count: impl TryInto<u64>) -> f64 {
    count.try_into().map_or(f64::MAX, |count| count as f64)
}

/// A label's value as the format has it.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '\\' => f.write_str(r"\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str(r"\n"),
            other => f.write_char(other),
        })
    }
}
