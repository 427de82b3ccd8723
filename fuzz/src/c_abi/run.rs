//! What the target does with an input.

use arbitrary::Unstructured;

use super::{document, session};

pub fn run(data: &[u8]) {
    let _ = document::read(&mut Unstructured::new(data), data);
    let _ = session::live(&mut Unstructured::new(data));
}
