//! The parsers for C and C++. The code that reads with them is C and C++, too, in the folder `c`.

use std::hint::black_box;

use super::{Competitor, Reader};

unsafe extern "C" {
    fn read_yyjson(data: *const u8, length: usize) -> u64;
    fn read_yyjson_pool(data: *const u8, length: usize, memory: *mut u8, size: usize) -> u64;
    fn yyjson_memory(length: usize) -> usize;
    #[cfg(have_cjson)]
    fn read_cjson(data: *const u8, length: usize) -> u64;
    fn read_simdjson(data: *const u8, length: usize, capacity: usize) -> u64;
}

/// Adds those that were built in, and how to install the one that was not.
pub fn list(competitors: &mut Vec<Competitor>, absent: &mut Vec<&'static str>) {
    competitors.push(Competitor {
        name: "yyjson",
        version: env!("VERSION_yyjson"),
        note: "its own tree, allocated each time; repeated members found by this bench, repeated EventIds not",
        prepare: |body, _, _| {
            let body = body.to_vec();
            // SAFETY: the reader gets the bytes of a slice, and keeps no pointer to them.
            reader(move || unsafe { read_yyjson(black_box(body.as_ptr()), body.len()) })
        },
    });
    competitors.push(Competitor {
        name: "yyjson pool",
        version: env!("VERSION_yyjson"),
        note: "as yyjson, with its tree in memory that it keeps from one document to the next",
        prepare: |body, _, _| {
            let body = body.to_vec();
            // SAFETY: it takes a number and no pointer.
            let mut memory = vec![0_u8; unsafe { yyjson_memory(body.len()) }];
            reader(move || {
                // SAFETY: the reader gets the bytes of two slices, and keeps no pointer to them.
                unsafe {
                    read_yyjson_pool(
                        black_box(body.as_ptr()),
                        body.len(),
                        memory.as_mut_ptr(),
                        memory.len(),
                    )
                }
            })
        },
    });
    competitors.push(Competitor {
        name: "simdjson",
        version: env!("VERSION_simdjson"),
        note: "on demand, compiled with -march=native, which no other is; needs 64 bytes after the text, added \
               outside the time; does not check what is not read; repeated members found by this bench, repeated EventIds not",
        prepare: |body, _, _| padded(body),
    });
    #[cfg(have_cjson)]
    competitors.push(Competitor {
        name: "cJSON",
        version: env!("VERSION_cjson"),
        note: "not strict: see what it accepts; repeated members found by this bench",
        prepare: |body, _, _| {
            let body = body.to_vec();
            // SAFETY: the reader gets the bytes of a slice, and keeps no pointer to them.
            reader(move || unsafe { read_cjson(black_box(body.as_ptr()), body.len()) })
        },
    });
    #[cfg(not(have_cjson))]
    absent.push("cJSON: libcjson-dev is not installed; tests/setup bench installs it");
    let _ = absent;
}

fn padded(body: &[u8]) -> Option<Reader> {
    const PADDING: usize = 64;
    let length = body.len();
    let mut body = body.to_vec();
    body.resize(length + PADDING, 0);
    // SAFETY: the reader gets the bytes of a slice and how many it may read, and keeps no pointer to them.
    reader(move || unsafe { read_simdjson(black_box(body.as_ptr()), length, length + PADDING) })
}

#[allow(clippy::unnecessary_wraps)] // The signature that Competitor requires.
fn reader(mut read: impl FnMut() -> u64 + 'static) -> Option<Reader> {
    Some(Box::new(move || match read() {
        0 => None,
        sum => Some(sum),
    }))
}
