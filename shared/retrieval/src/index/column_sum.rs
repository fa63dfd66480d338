//! Collects the sum of a column over matching entries.

use tantivy::collector::{Collector, SegmentCollector};
use tantivy::columnar::Column;
use tantivy::{DocId, Score, SegmentOrdinal, SegmentReader};

// The sum of the column with this name.
pub(super) struct ColumnSum(pub(super) &'static str);

pub(super) struct SegmentSum {
    column: Column<u64>,
    sum: u64,
}

impl Collector for ColumnSum {
    type Fruit = u64;
    type Child = SegmentSum;

    fn for_segment(
        &self,
        _: SegmentOrdinal,
        segment: &SegmentReader,
    ) -> tantivy::Result<SegmentSum> {
        Ok(SegmentSum {
            column: segment.fast_fields().u64(self.0)?,
            sum: 0,
        })
    }

    fn requires_scoring(&self) -> bool {
        false
    }

    fn merge_fruits(&self, sums: Vec<u64>) -> tantivy::Result<u64> {
        Ok(sums.into_iter().sum())
    }
}

impl SegmentCollector for SegmentSum {
    type Fruit = u64;

    fn collect(&mut self, doc: DocId, _: Score) {
        self.sum += self.column.first(doc).unwrap_or(0);
    }

    fn harvest(self) -> u64 {
        self.sum
    }
}
