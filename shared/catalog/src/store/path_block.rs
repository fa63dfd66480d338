//! The paths of 256 documents, joined: a word in a path is looked for in a block at once.
//!
//! Paths are in lower case and in the order of the numbers. An empty one means a document that is not listed.

use std::ops::Range;

use memchr::memmem::Finder;
use memchr::{memchr, memchr_iter};

const NUMBERS: u32 = 256;
// Ends each path. No text has this byte.
const END: u8 = 0xff;

pub(super) fn block_of(number: u32) -> u32 {
    number / NUMBERS
}

pub(super) fn numbers_of(block: u32) -> Range<u32> {
    let first = block.saturating_mul(NUMBERS);
    first..first.saturating_add(NUMBERS)
}

/// A block in which some documents have other paths.
pub(super) fn changed(block: &[u8], changes: &[(u32, Option<String>)]) -> Vec<u8> {
    let known = block.strip_suffix(&[END]).unwrap_or(block);
    let mut paths: Vec<Vec<u8>> = known
        .split(|byte| *byte == END)
        .map(<[u8]>::to_vec)
        .collect();
    for (number, path) in changes {
        let at = (number % NUMBERS) as usize;
        if paths.len() <= at {
            paths.resize(at + 1, Vec::new());
        }
        let path = path.as_deref().unwrap_or_default();
        paths[at] = path.to_lowercase().into_bytes();
    }
    let mut bytes = Vec::with_capacity(block.len());
    for path in paths {
        bytes.extend(path);
        bytes.push(END);
    }
    bytes
}

/// Calls `found` with the number of each document of a block whose path has a word.
pub(super) fn find(block: u32, bytes: &[u8], word: &Finder<'_>, mut found: impl FnMut(u32)) {
    let mut from = 0;
    let mut number = numbers_of(block).start;
    while let Some(at) = word.find(&bytes[from..]) {
        let at = from + at;
        number += u32::try_from(memchr_iter(END, &bytes[from..at]).count()).unwrap_or(NUMBERS);
        found(number);
        // On with the next path.
        let Some(end) = memchr(END, &bytes[at..]) else {
            return;
        };
        from = at + end + 1;
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(block: u32, bytes: &[u8], word: &str) -> Vec<u32> {
        let mut numbers = Vec::new();
        find(block, bytes, &Finder::new(word), |number| {
            numbers.push(number);
        });
        numbers
    }

    #[test]
    fn words_are_found_in_paths_and_not_across_two() {
        let path = |number: u32, path: &str| (number, Some(path.to_owned()));
        let bytes = changed(
            &[],
            &[
                path(256, "A/b.pdf"),
                path(258, "ÄÖ/B b.pdf"),
                path(260, "c.md"),
            ],
        );
        assert_eq!(found(1, &bytes, "b"), [256, 258]);
        assert_eq!(found(1, &bytes, "äö/b"), [258]);
        assert_eq!(found(1, &bytes, "c.md"), [260]);
        assert_eq!(found(1, &bytes, "pdfc"), [] as [u32; 0]);
        let bytes = changed(&bytes, &[(258, None), path(511, "b"), path(256, "x")]);
        assert_eq!(found(1, &bytes, "b"), [511]);
        assert_eq!(found(1, &bytes, "x"), [256]);
        assert_eq!(changed(&[], &[(3, None)]), [END; 4]);
    }
}
