//! Groups glyphs into rows of segments: one baseline, cut at wide gaps.

use std::cell::OnceCell;

use unicode_normalization::char::is_combining_mark;

use super::glyph::Glyph;

// In ems. Wider than a stretched space of justified prose, narrower than the gutter between columns.
const SEGMENT_GAP: f32 = 0.9;
// In ems. A wider gap separates words even without a space character.
pub(super) const WORD_GAP: f32 = 0.17;
// In ems.
const SAME_BASELINE: f32 = 0.22;
// The most height of a superscript or subscript, in ems of its line.
pub(super) const SCRIPT_SIZE: f32 = 0.85;
// In ems.
const SAME_PLACE: f32 = 0.12;

// Glyphs that one glyph may cover; more are not text.
const MAX_UNDER: usize = 8;
const SURE_OVERPRINT: u32 = 2;
// Attaching superscripts compares neighbors, so it is skipped on larger pages, which are not text pages.
const MAX_RUNS: usize = 20_000;

/// A glyph relative to its line: `u` along the line, `v` across it, downwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineGlyph {
    pub(super) text: char,
    pub(super) u: f32,
    pub(super) v: f32,
    pub(super) advance: f32,
    pub(super) size: f32,
    pub(super) bold: bool,
    pub(super) italic: bool,
}

impl LineGlyph {
    pub(super) fn from_glyph(glyph: &Glyph) -> Self {
        let (u, v) = glyph.writing.to_line(glyph.x, glyph.y);
        let Glyph {
            text,
            advance,
            size,
            bold,
            italic,
            ..
        } = *glyph;
        Self {
            text,
            u,
            v,
            advance,
            size,
            bold,
            italic,
        }
    }

    pub(super) fn end(&self) -> f32 {
        self.u + self.advance
    }

    pub(super) fn is_space(&self) -> bool {
        self.text == ' '
    }

    pub(super) fn has_style_of(&self, other: &Self) -> bool {
        (self.size, self.bold, self.italic) == (other.size, other.bold, other.italic)
    }
}

#[derive(Debug, Clone)]
pub(super) struct TextSegment {
    /// From left to right, without leading and trailing spaces.
    pub(super) glyphs: Vec<LineGlyph>,
    pub(super) u0: f32,
    pub(super) u1: f32,
    /// The baseline of the largest glyph.
    pub(super) v: f32,
    /// The largest font size.
    pub(super) size: f32,
    // Position in drawing order.
    order: usize,
    stats: OnceCell<SegmentStats>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SegmentStats {
    pub(super) letters: usize,
    pub(super) digits: usize,
    pub(super) spaces: usize,
}

impl TextSegment {
    fn new(marks: &[LineGlyph], order: usize) -> Option<Self> {
        let first = marks.iter().position(|mark| !mark.is_space())?;
        let last = marks.iter().rposition(|mark| !mark.is_space())?;
        let marks = marks.get(first..=last)?.to_vec();
        let ink = marks.iter().filter(|mark| !mark.is_space());
        let u0 = ink.clone().map(|mark| mark.u).fold(f32::INFINITY, f32::min);
        let u1 = ink
            .clone()
            .map(LineGlyph::end)
            .fold(f32::NEG_INFINITY, f32::max);
        let tallest = ink.max_by(|a, b| a.size.total_cmp(&b.size))?;
        let v = tallest.v;
        let size = tallest.size;
        Some(Self {
            u0,
            u1,
            v,
            size,
            glyphs: marks,
            order,
            stats: OnceCell::new(),
        })
    }

    pub(super) fn stats(&self) -> SegmentStats {
        *self.stats.get_or_init(|| SegmentStats {
            letters: self
                .glyphs
                .iter()
                .filter(|mark| mark.text.is_alphabetic())
                .count(),
            digits: self
                .glyphs
                .iter()
                .filter(|mark| mark.text.is_numeric())
                .count(),
            spaces: self
                .glyphs
                .windows(2)
                .filter(|pair| {
                    pair[0].is_space() || pair[1].u - pair[0].end() > WORD_GAP * pair[1].size
                })
                .count(),
        })
    }

    /// Splits the segment before the glyphs at these indices.
    pub(super) fn split_at(&self, starts: &[usize]) -> Vec<TextSegment> {
        let from = std::iter::once(0).chain(starts.iter().copied());
        let to = starts
            .iter()
            .copied()
            .chain(std::iter::once(self.glyphs.len()));
        let pieces = from
            .zip(to)
            .filter_map(|(from, to)| self.glyphs.get(from..to));
        pieces
            .filter_map(|marks| TextSegment::new(marks, self.order))
            .collect()
    }

    fn merge(&mut self, other: TextSegment) {
        let overlaps = other.u0 < self.u1 - 0.01;
        self.u0 = self.u0.min(other.u0);
        self.u1 = self.u1.max(other.u1);
        if other.size > self.size * 1.05 {
            self.size = other.size;
            self.v = other.v;
        }
        self.glyphs.extend(other.glyphs);
        if overlaps {
            // Stable, so that marks at one place stay in drawing order.
            self.glyphs.sort_by(|a, b| a.u.total_cmp(&b.u));
        }
    }
}

/// Whether two marks are at one place, such as a character drawn twice to simulate bold.
pub(super) fn is_same_place(a: &LineGlyph, b: &LineGlyph) -> bool {
    let slack = SAME_PLACE * a.size;
    (a.u - b.u).abs() <= slack && (a.v - b.v).abs() <= slack
}

/// The segments of one baseline, from left to right.
#[derive(Debug, Clone)]
pub(super) struct GlyphRow {
    pub(super) segments: Vec<TextSegment>,
    pub(super) v: f32,
    pub(super) size: f32,
}

/// Builds rows from top to bottom.
pub(super) fn build_rows(marks: &[LineGlyph]) -> Vec<GlyphRow> {
    let mut runs = split_runs(marks);
    let count = runs.len();
    runs.sort_by(|a, b| {
        a.v.total_cmp(&b.v)
            .then(a.u0.total_cmp(&b.u0))
            .then(a.order.cmp(&b.order))
    });
    let mut rows = group_by_baseline(runs);
    if count <= MAX_RUNS {
        attach_scripts(&mut rows);
    }
    rows.retain(|row| !row.segments.is_empty());
    for row in &mut rows {
        join_segments(row);
    }
    rows
}

// Splits glyphs into runs drawn from left to right on one baseline without a wide gap.
fn split_runs(marks: &[LineGlyph]) -> Vec<TextSegment> {
    let mut runs = Vec::new();
    let mut start = 0;
    for index in 1..=marks.len() {
        let goes_on = match (marks.get(index - 1), marks.get(index)) {
            (Some(before), Some(mark)) => continues(before, mark),
            _ => false,
        };
        if !goes_on {
            runs.extend(
                marks
                    .get(start..index)
                    .and_then(|part| TextSegment::new(part, start)),
            );
            start = index;
        }
    }
    runs
}

fn continues(before: &LineGlyph, mark: &LineGlyph) -> bool {
    let size = before.size.max(mark.size);
    let gap = mark.u - before.end();
    (mark.v - before.v).abs() <= 0.02 * size
        && gap < SEGMENT_GAP * size
        && mark.u > before.u - 0.3 * size
        && mark.size < before.size * 1.4
        && before.size < mark.size * 1.4
}

fn group_by_baseline(runs: Vec<TextSegment>) -> Vec<GlyphRow> {
    let mut rows: Vec<GlyphRow> = Vec::new();
    for run in runs {
        // Runs come by baseline, so only the last few rows can be near enough.
        let near = rows.iter_mut().rev().take(3).find(|row| {
            let size = row.size.min(run.size).max(0.6 * row.size.max(run.size));
            (run.v - row.v).abs() <= SAME_BASELINE * size
        });
        match near {
            Some(row) => {
                if run.size > row.size {
                    row.size = run.size;
                }
                row.segments.push(run);
            }
            None => rows.push(GlyphRow {
                v: run.v,
                size: run.size,
                segments: vec![run],
            }),
        }
    }
    for row in &mut rows {
        row.segments
            .sort_by(|a, b| a.u0.total_cmp(&b.u0).then(a.order.cmp(&b.order)));
    }
    rows
}

// Moves superscripts and subscripts into the rows of their hosts.
fn attach_scripts(rows: &mut [GlyphRow]) {
    for index in 0..rows.len() {
        let mut remaining = Vec::new();
        for segment in std::mem::take(&mut rows[index].segments) {
            match find_host(&segment, index, rows) {
                Some(host) => insert(&mut rows[host], segment),
                None => remaining.push(segment),
            }
        }
        // Nothing can have been attached to this row in the meantime: hosts are larger than their scripts.
        rows[index].segments = remaining;
    }
}

fn find_host(segment: &TextSegment, index: usize, rows: &[GlyphRow]) -> Option<usize> {
    let after = (index + 1..rows.len()).take(4);
    let before = (0..index).rev().take(4);
    after.chain(before).find(|other| {
        rows.get(*other)
            .is_some_and(|row| row.segments.iter().any(|host| is_script(segment, host)))
    })
}

fn is_script(script: &TextSegment, host: &TextSegment) -> bool {
    let raised = host.v - script.v;
    let gap = (script.u0 - host.u1).max(host.u0 - script.u1);
    script.size <= SCRIPT_SIZE * host.size
        && raised <= 0.7 * host.size
        && raised >= -0.35 * host.size
        && gap <= 0.35 * host.size
        && script.glyphs.len() <= 24
        && (gap >= -0.2 * host.size || touches_a_gap(script, host))
}

// Whether the script does not overlap the letters of its host.
fn touches_a_gap(script: &TextSegment, host: &TextSegment) -> bool {
    let crossed = host.glyphs.iter().filter(|mark| {
        !mark.is_space()
            && mark.end().min(script.u1) - mark.u.max(script.u0)
                > 0.5 * mark.advance.min(script.u1 - script.u0)
    });
    crossed.count() == 0
}

fn insert(row: &mut GlyphRow, segment: TextSegment) {
    let at = row.segments.partition_point(|other| other.u0 <= segment.u0);
    row.segments.insert(at, segment);
}

fn join_segments(row: &mut GlyphRow) {
    let mut joined: Vec<TextSegment> = Vec::new();
    for segment in std::mem::take(&mut row.segments) {
        // Only overprints leave more than one candidate.
        let host = joined.iter_mut().rev().take(3).find(|host| {
            segment.u0 - host.u1 < SEGMENT_GAP * host.size.max(segment.size)
                && !is_overprint(host, &segment)
        });
        match host {
            Some(host) => host.merge(segment),
            None => joined.push(segment),
        }
    }
    row.segments = joined;
}

// Whether another text was drawn over the host. Sorted by position, the letters of both would mix.
fn is_overprint(host: &TextSegment, segment: &TextSegment) -> bool {
    if segment.u0 >= host.u1 || segment.glyphs.len() < 2 {
        return false;
    }
    let mut hits = 0;
    let mut copies = 0;
    let mut near = host.glyphs.as_slice();
    for mark in segment.glyphs.iter().filter(|mark| !mark.is_space()) {
        // Glyphs are sorted by position as far as it matters here.
        let passed = near.partition_point(|other| other.end() <= mark.u);
        near = near.get(passed..).unwrap_or_default();
        let under = near
            .iter()
            .take_while(|other| other.u < mark.end())
            .take(MAX_UNDER)
            .filter(|other| covers(mark, other));
        let mut weight = 0;
        let mut is_copy = false;
        for other in under {
            is_copy |= other.text == mark.text && is_same_place(other, mark);
            weight = weight.max(overprint_weight(mark, other));
        }
        hits += if is_copy { 0 } else { weight };
        copies += if is_copy { SURE_OVERPRINT } else { 0 };
    }
    hits >= SURE_OVERPRINT && hits > copies
}

// A letter may reach below a superscript without being drawn over it, but not two.
fn overprint_weight(mark: &LineGlyph, other: &LineGlyph) -> u32 {
    let same_baseline = (other.v - mark.v).abs() <= SAME_BASELINE * mark.size.min(other.size);
    if same_baseline { SURE_OVERPRINT } else { 1 }
}

// Accents are drawn over their letters.
fn is_accent(character: char) -> bool {
    matches!(
        character,
        '^' | '`' | '~' | '¨' | '¯' | '´' | '¸' | '\u{2c6}'..='\u{2dd}'
    ) || is_combining_mark(character)
}

// Whether two letters cover each other by more than half of the narrower one.
fn covers(mark: &LineGlyph, other: &LineGlyph) -> bool {
    let shared = other.end().min(mark.end()) - other.u.max(mark.u);
    shared > 0.5 * other.advance.min(mark.advance)
        && !other.is_space()
        && !is_accent(other.text)
        && !is_accent(mark.text)
}
