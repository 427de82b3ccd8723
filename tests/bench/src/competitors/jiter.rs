//! jiter, member by member.

use std::hint::black_box;

use jiter::{Jiter, NumberInt};

use super::{Competitor, Reader};
use crate::reading::{Member, Record, digest, fold};

pub const COMPETITOR: Competitor = Competitor {
    name: "jiter",
    version: env!("VERSION_jiter"),
    note: "pulled: no allocation; repeated members found by this bench, repeated EventIds not",
    prepare: |body, _, _| -> Option<Reader> {
        let body = body.to_vec();
        Some(Box::new(move || read(black_box(&body))))
    },
};

#[inline(never)]
fn read(body: &[u8]) -> Option<u64> {
    let mut jiter = Jiter::new(body);
    let (mut incarnation, mut sum) = (None, None);
    let mut next = document_member(jiter.next_object().ok()?);
    while let Some(member) = next {
        match member {
            DocumentMember::Incarnation if incarnation.is_none() => {
                incarnation = Some(integer(&mut jiter)? as u64);
            }
            DocumentMember::Events if sum.is_none() => sum = Some(events(&mut jiter)?),
            DocumentMember::Other => jiter.next_skip().ok()?,
            _ => return None,
        }
        next = document_member(jiter.next_key().ok()?);
    }
    jiter.finish().ok()?;
    Some(fold(sum?, incarnation.unwrap_or(0)))
}

enum DocumentMember {
    Incarnation,
    Events,
    Other,
}

fn document_member(name: Option<&str>) -> Option<DocumentMember> {
    Some(match name? {
        "DocumentIncarnation" => DocumentMember::Incarnation,
        "Events" => DocumentMember::Events,
        _ => DocumentMember::Other,
    })
}

fn events(jiter: &mut Jiter<'_>) -> Option<u64> {
    let mut sum = 0;
    let mut next = jiter.next_array().ok()?;
    while next.is_some() {
        sum = event(jiter)?.fold_into(sum);
        next = jiter.array_step().ok()?;
    }
    Some(sum)
}

fn event(jiter: &mut Jiter<'_>) -> Option<Record> {
    let mut record = Record::default();
    let mut next = jiter.next_object().ok()?.map(Member::named);
    while let Some(member) = next {
        let Some(member) = member else {
            jiter.next_skip().ok()?;
            next = jiter.next_key().ok()?.map(Member::named);
            continue;
        };
        record.first_time(member)?;
        match member {
            Member::DurationInSeconds => record.keep(member, integer(jiter)? as u64),
            Member::Resources => record.keep(member, resources(jiter)?),
            Member::NotBefore => record.keep_not_before(jiter.next_str().ok()?)?,
            _ => record.keep_text(member, jiter.next_str().ok()?),
        }
        next = jiter.next_key().ok()?.map(Member::named);
    }
    Some(record)
}

fn resources(jiter: &mut Jiter<'_>) -> Option<u64> {
    let mut sum = 0;
    let mut next = jiter.next_array().ok()?;
    while next.is_some() {
        sum = fold(sum, digest(jiter.next_str().ok()?.as_bytes()));
        next = jiter.array_step().ok()?;
    }
    Some(sum)
}

fn integer(jiter: &mut Jiter<'_>) -> Option<i64> {
    match jiter.next_int().ok()? {
        NumberInt::Int(number) => Some(number),
        #[allow(unreachable_patterns)]
        // Numbers of any size are a feature that this workspace leaves off.
        _ => None,
    }
}
