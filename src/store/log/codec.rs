//! Encoding of a commit.

use std::sync::Arc;

use half::f16;

use crate::{
    ids::LeafId,
    passages::Span,
    store::batch::{CheckedBatch, CheckedPut, PutRow},
};

/// Numbers are little-endian u32; a field of bytes is its length followed by the bytes.
///
/// Number of puts, then for each: id, payload, metadata, leaf, number of elements and the elements; number of
/// deletes, then their ids. If documents have `passages`, the number of rows follows the metadata, and the
/// first byte and end of the passage precede the leaf of each row.
pub(in crate::store) fn encode(batch: &CheckedBatch, passages: bool) -> Vec<u8> {
    let puts = batch.puts.iter().map(|put| put.bytes()).sum::<usize>();
    let deletes = batch.deletes.iter().map(|id| id.len() + 4).sum::<usize>();
    let mut bytes = Vec::with_capacity(puts + deletes + 8);
    number(&mut bytes, batch.puts.len());
    for put in &batch.puts {
        for field in [put.id.as_bytes(), &put.payload, &put.metadata] {
            number(&mut bytes, field.len());
            bytes.extend_from_slice(field);
        }
        if passages {
            number(&mut bytes, put.rows.len());
        }
        for PutRow { embedding, leaf, span } in &put.rows {
            if passages {
                [span.start, span.end].iter().for_each(|at| bytes.extend_from_slice(&at.to_le_bytes()));
            }
            bytes.extend_from_slice(&leaf.0.to_le_bytes());
            number(&mut bytes, embedding.len());
            bytes.extend_from_slice(bytemuck::cast_slice(embedding));
        }
    }
    number(&mut bytes, batch.deletes.len());
    for id in &batch.deletes {
        number(&mut bytes, id.len());
        bytes.extend_from_slice(id.as_bytes());
    }
    bytes
}

/// Number of puts of a commit, without decoding it.
pub(in crate::store) fn puts_in(mut bytes: &[u8]) -> u32 {
    take_number(&mut bytes).unwrap_or(0)
}

fn number(bytes: &mut Vec<u8>, number: usize) {
    // Limits of ids, payloads, dimensions and batches are all far below u32::MAX.
    bytes.extend_from_slice(&(number as u32).to_le_bytes());
}

/// Inverse of [`encode`]; `None` for bytes that it cannot produce.
pub(in crate::store) fn decode(bytes: &[u8], passages: bool) -> Option<CheckedBatch> {
    let mut rest = bytes;
    let puts = (0..take_number(&mut rest)?)
        .map(|_| take_put(&mut rest, passages).map(Arc::new))
        .collect::<Option<_>>()?;
    let deletes = (0..take_number(&mut rest)?).map(|_| take_text(&mut rest)).collect::<Option<_>>()?;
    rest.is_empty().then_some(CheckedBatch { puts, deletes })
}

fn take_put(rest: &mut &[u8], passages: bool) -> Option<CheckedPut> {
    let id = take_text(rest)?;
    let payload = take_bytes(rest)?.to_vec();
    let metadata = take_bytes(rest)?.to_vec();
    let rows = if passages { take_number(rest)? } else { 1 };
    let rows = (0..rows).map(|_| take_row(rest, passages)).collect::<Option<_>>()?;
    Some(CheckedPut::new(id, payload, metadata, rows, None))
}

fn take_row(rest: &mut &[u8], passages: bool) -> Option<PutRow> {
    let span = match passages {
        true => Span { start: take_number(rest)?, end: take_number(rest)? },
        false => Span::default(),
    };
    let leaf = LeafId(take_number(rest)?);
    let elements = take_number(rest)? as usize;
    let embedding = take(rest, elements.checked_mul(2)?)?;
    let element = |bytes: &[u8; 2]| f16::from_le_bytes(*bytes);
    let embedding = embedding.as_chunks::<2>().0.iter().map(element).collect();
    Some(PutRow { embedding, leaf, span })
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    String::from_utf8(take_bytes(rest)?.to_vec()).ok()
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take_number(rest)? as usize;
    take(rest, len)
}

fn take_number(rest: &mut &[u8]) -> Option<u32> {
    let (number, others) = rest.split_first_chunk::<4>()?;
    *rest = others;
    Some(u32::from_le_bytes(*number))
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (bytes, others) = rest.split_at_checked(len)?;
    *rest = others;
    Some(bytes)
}
