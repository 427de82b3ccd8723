//! A serde serializer for records: compact JSON, safe to print, into any [`fmt::Write`].
//!
//! The output is that of serde_json, followed by `PrintableJson` of core. serde-json-core cannot be used here: its index and
//! overflow checks survive optimisation, and a library in which a panic is reachable contains the standard library's panic
//! handler, which takes 290 KB and needs malloc. This writer has no panic, so that the library imports no malloc, which a
//! test checks. It supports the types of which records consist and fails on all others.

use core::fmt::{self, Display, Error, Write};

use scheduled_events_core::record::PrintableJson;
use serde::ser::{Impossible, Serialize, SerializeSeq, SerializeStruct, Serializer};

use crate::abi::pointers::Buffer;
use crate::boundary;
use crate::status::schedev_status::SCHEDEV_ERROR_INTERNAL;

/// Writes a record as JSON into the caller's buffer.
pub(crate) fn fill_json(buffer: Buffer<'_>, record: &impl Serialize) -> boundary::Result {
    fill_with(buffer, |output| write_json(output, record))
}

/// Writes what `write` writes into the caller's buffer. It is called twice, first to count the bytes.
pub(crate) fn fill_with(
    buffer: Buffer<'_>,
    write: impl Fn(&mut dyn Write) -> fmt::Result,
) -> boundary::Result {
    let mut counter = Counter(0);
    write(&mut counter).map_err(|_| SCHEDEV_ERROR_INTERNAL)?;
    buffer.fill_text(counter.0, |target| {
        let mut writer = BufferWriter { rest: target };
        write(&mut writer).map_err(|_| SCHEDEV_ERROR_INTERNAL)?;
        Ok(counter.0)
    })
}

/// Counts the bytes that are written to it.
struct Counter(usize);

impl Write for Counter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.saturating_add(text.len());
        Ok(())
    }
}

/// Writes to a slice; an error if it is too short.
struct BufferWriter<'a> {
    rest: &'a mut [u8],
}

impl Write for BufferWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let (target, rest) = core::mem::take(&mut self.rest)
            .split_at_mut_checked(text.len())
            .ok_or(fmt::Error)?;
        target.copy_from_slice(text.as_bytes());
        self.rest = rest;
        Ok(())
    }
}

/// Writes a record as JSON.
fn write_json(output: &mut dyn Write, record: &impl Serialize) -> fmt::Result {
    record.serialize(Json(output))
}

/// The serializer of one value.
struct Json<'a>(&'a mut dyn Write);

/// An array or an object that was begun.
struct Items<'a> {
    output: &'a mut dyn Write,
    is_first: bool,
}

impl Items<'_> {
    fn separate(&mut self) -> fmt::Result {
        if core::mem::take(&mut self.is_first) {
            Ok(())
        } else {
            self.output.write_char(',')
        }
    }
}

impl SerializeSeq for Items<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> fmt::Result {
        self.separate()?;
        value.serialize(Json(self.output))
    }

    fn end(self) -> fmt::Result {
        self.output.write_char(']')
    }
}

impl SerializeStruct for Items<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> fmt::Result {
        self.separate()?;
        Json(self.output).serialize_str(name)?;
        self.output.write_char(':')?;
        value.serialize(Json(self.output))
    }

    fn end(self) -> fmt::Result {
        self.output.write_char('}')
    }
}

/// Escapes what is written into a JSON string.
struct Escaped<'a>(&'a mut dyn Write);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|char| match char {
            '"' => self.0.write_str("\\\""),
            '\\' => self.0.write_str("\\\\"),
            '\u{8}' => self.0.write_str("\\b"),
            '\t' => self.0.write_str("\\t"),
            '\n' => self.0.write_str("\\n"),
            '\u{c}' => self.0.write_str("\\f"),
            '\r' => self.0.write_str("\\r"),
            char => write!(self.0, "{}", PrintableJson(char.encode_utf8(&mut [0; 4]))),
        })
    }
}

/// Defines methods that fail: records have no value of these types.
macro_rules! unsupported {
    ($($name:ident($($type:ty),*);)+) => {
        $(fn $name(self, $(_: $type),*) -> fmt::Result {
            Err(Error)
        })+
    };
}

impl<'a> Serializer for Json<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Items<'a>;
    type SerializeStruct = Items<'a>;
    type SerializeTuple = Impossible<(), Error>;
    type SerializeTupleStruct = Impossible<(), Error>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = Impossible<(), Error>;
    type SerializeStructVariant = Impossible<(), Error>;

    fn serialize_bool(self, value: bool) -> fmt::Result {
        self.0.write_str(if value { "true" } else { "false" })
    }

    fn serialize_u16(self, value: u16) -> fmt::Result {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> fmt::Result {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> fmt::Result {
        write!(self.0, "{value}")
    }

    fn serialize_str(self, value: &str) -> fmt::Result {
        self.0.write_char('"')?;
        Escaped(self.0).write_str(value)?;
        self.0.write_char('"')
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> fmt::Result {
        self.0.write_char('"')?;
        write!(Escaped(self.0), "{value}")?;
        self.0.write_char('"')
    }

    fn serialize_none(self) -> fmt::Result {
        self.0.write_str("null")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> fmt::Result {
        value.serialize(self)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> fmt::Result {
        self.serialize_str(variant)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Items<'a>, Error> {
        self.0.write_char('[')?;
        Ok(Items {
            output: self.0,
            is_first: true,
        })
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Items<'a>, Error> {
        self.0.write_char('{')?;
        Ok(Items {
            output: self.0,
            is_first: true,
        })
    }

    unsupported! {
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_u8(u8);
        serialize_f32(f32);
        serialize_f64(f64);
        serialize_char(char);
        serialize_bytes(&[u8]);
        serialize_unit();
        serialize_unit_struct(&'static str);
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> fmt::Result {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> fmt::Result {
        Err(Error)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Error> {
        Err(Error)
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, Error> {
        Err(Error)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Error> {
        Err(Error)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Error> {
        Err(Error)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Error> {
        Err(Error)
    }
}

#[cfg(test)]
mod tests {
    use std::string::String;

    use scheduled_events_core::UnixSeconds;
    use scheduled_events_core::record::{EXAMPLES, Record};

    use super::*;

    #[track_caller]
    fn assert_same(record: &impl Serialize) {
        let mut json = String::new();
        write_json(&mut json, record).unwrap();
        let expected = serde_json::to_string(record).unwrap();
        assert_eq!(json, PrintableJson(&expected).to_string());
    }

    #[test]
    fn records_equal_those_of_other_serializers() {
        for record in EXAMPLES {
            assert_same(record);
            let mut json = String::new();
            write_json(&mut json, record).unwrap();
            let mut buffer = vec![0; json.len()];
            assert_eq!(
                serde_json_core::to_slice(record, &mut buffer),
                Ok(json.len())
            );
            assert_eq!(json.as_bytes(), buffer);
            assert_same(&record.at(UnixSeconds(1_649_716_018)));
        }
    }

    #[test]
    fn every_character_is_escaped_as_in_the_command() {
        for start in (0..0x11_0000).step_by(64) {
            let name: String = (start..start + 64).filter_map(char::from_u32).collect();
            assert_same(&Record::Approval {
                event_ids: &[&name],
                status: None,
                events: &[],
            });
        }
    }
}
