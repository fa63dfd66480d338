//! Sorts more records than memory should hold: full buffers are sorted and written to temporary files, which are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use stemma_store::{PortError, PortResult};

// Memory of the buffer, whatever the number of records. The files of ten million documents are merged with 64 KB each.
const BUFFER_BYTES: usize = 32 << 20;
const READ_BYTES: usize = 64 << 10;

/// Takes records in any order.
pub(super) struct RecordSorter<const N: usize> {
    buffer: Vec<[u8; N]>,
    max_records: usize,
    files: Vec<File>,
}

/// The records in order, each once.
pub(super) struct SortedRecords<const N: usize> {
    sources: Vec<Source<N>>,
    // The next record of each source, and the source.
    heads: BinaryHeap<Reverse<([u8; N], usize)>>,
}

enum Source<const N: usize> {
    Memory(std::vec::IntoIter<[u8; N]>),
    File(BufReader<File>),
}

impl<const N: usize> RecordSorter<N> {
    pub(super) fn new() -> Self {
        Self::with_buffer(BUFFER_BYTES)
    }

    fn with_buffer(bytes: usize) -> Self {
        Self {
            buffer: Vec::new(),
            max_records: (bytes / N).max(1),
            files: Vec::new(),
        }
    }

    /// # Errors
    /// [`PortError`] when the folder of temporary files is full.
    pub(super) fn push(&mut self, record: [u8; N]) -> PortResult<()> {
        self.buffer.push(record);
        if self.buffer.len() < self.max_records {
            return Ok(());
        }
        self.spill().map_err(|error| disk_error(&error))
    }

    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        let mut file = BufWriter::new(tempfile::tempfile()?);
        for record in self.buffer.drain(..) {
            file.write_all(&record)?;
        }
        let mut file = file.into_inner()?;
        file.rewind()?;
        self.files.push(file);
        Ok(())
    }

    fn sort(&mut self) {
        self.buffer.sort_unstable();
        self.buffer.dedup();
    }

    pub(super) fn finish(mut self) -> PortResult<SortedRecords<N>> {
        self.sort();
        let files = self
            .files
            .into_iter()
            .map(|file| Source::File(BufReader::with_capacity(READ_BYTES, file)));
        let mut sorted = SortedRecords {
            sources: files
                .chain([Source::Memory(self.buffer.into_iter())])
                .collect(),
            heads: BinaryHeap::new(),
        };
        for source in 0..sorted.sources.len() {
            sorted.advance(source)?;
        }
        Ok(sorted)
    }
}

impl<const N: usize> SortedRecords<N> {
    /// The next record, which stays.
    pub(super) fn peek(&self) -> Option<&[u8; N]> {
        self.heads.peek().map(|Reverse((record, _))| record)
    }

    pub(super) fn next(&mut self) -> PortResult<Option<[u8; N]>> {
        let Some(Reverse((record, source))) = self.heads.pop() else {
            return Ok(None);
        };
        self.advance(source)?;
        while self.peek() == Some(&record) {
            if let Some(Reverse((_, source))) = self.heads.pop() {
                self.advance(source)?;
            }
        }
        Ok(Some(record))
    }

    fn advance(&mut self, source: usize) -> PortResult<()> {
        let next = self.sources[source].next();
        let next = next.map_err(|error| disk_error(&error))?;
        self.heads
            .extend(next.map(|record| Reverse((record, source))));
        Ok(())
    }
}

impl<const N: usize> Source<N> {
    fn next(&mut self) -> io::Result<Option<[u8; N]>> {
        match self {
            Self::Memory(records) => Ok(records.next()),
            Self::File(file) => {
                let mut record = [0; N];
                match file.read_exact(&mut record) {
                    Ok(()) => Ok(Some(record)),
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
                    Err(error) => Err(error),
                }
            }
        }
    }
}

fn disk_error(error: &io::Error) -> PortError {
    let folder = std::env::temp_dir();
    PortError::refused(
        "disk.sort",
        format!("temporary files in {}: {error}", folder.display()),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_come_in_order_and_once_whatever_fits_in_memory(
            records in prop::collection::vec(any::<[u8; 3]>(), 0..200),
            buffer in 1_usize..90,
        ) {
            let mut sorter = RecordSorter::with_buffer(buffer);
            for record in &records {
                sorter.push(*record).unwrap();
                prop_assert!(sorter.buffer.len() <= (buffer / 3).max(1));
            }
            let mut sorted = sorter.finish().unwrap();
            let mut found = Vec::new();
            while let Some(record) = sorted.next().unwrap() {
                found.push(record);
            }
            let expected: BTreeSet<_> = records.into_iter().collect();
            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
