//! A filing in two consecutive years: a generated document, its later version, and the changes of each
//! section.

use crate::kinds::manuscript;
use crate::manuscript::{Block, Manuscript, ManuscriptHeading, Paragraph};
use crate::random::Rng;
use crate::words::{self, UniqueTitles};
use crate::{Filing, HeadingTruth, Spec, typeset};

/// Two years of one filing.
#[derive(Debug, Clone)]
pub struct YearPair {
    pub before: Filing,
    pub after: Filing,
    /// The changes of all sections, in the order of the later year; removed ones last.
    pub sections: Vec<YearChange>,
}

/// The change of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YearChange {
    /// Its node in the truth of the earlier year; `None` if it is new.
    pub before: Option<usize>,
    /// Its node in the truth of the later year; `None` if it was removed.
    pub after: Option<usize>,
    /// Whether its own text, up to its first sub-section, has the same words.
    pub same_text: bool,
    pub renamed: bool,
    /// Whether it moved; `None` if two sections were swapped, because either may count as moved.
    pub moved: Option<bool>,
}

// A section of a manuscript: its heading and the blocks before the next one.
#[derive(Debug, Clone)]
struct YearSection {
    blocks: Vec<Block>,
    // Its index in the earlier year.
    from: Option<usize>,
    same_text: bool,
    renamed: bool,
    moved: Option<bool>,
}

impl YearSection {
    fn heading(&self) -> Option<&ManuscriptHeading> {
        self.blocks.iter().find_map(|block| {
            if let Block::Heading(heading) = block {
                Some(heading)
            } else {
                None
            }
        })
    }

    fn level(&self) -> u16 {
        self.heading().map_or(0, |heading| heading.level)
    }
}

/// Makes two years of a filing. `seed` selects the changes: sentences and figures are reworded, and short
/// sections without a number are renamed, inserted, removed, swapped or moved below another section.
pub fn year_pair(spec: &Spec, seed: u64) -> YearPair {
    let before = manuscript(spec);
    let mut rng = Rng::new(seed, "years");
    let (front, mut parts) = parts(&before);
    (0..parts.len()).for_each(|at| rewrite(&mut parts[at], &mut rng));
    let mut titles = UniqueTitles::default();
    rename(&mut parts, &mut rng, &mut titles);
    move_section(&mut parts, &mut rng);
    remove(&mut parts, &mut rng);
    insert(&mut parts, &mut rng, &mut titles);
    let body = front
        .into_iter()
        .chain(parts.iter().flat_map(|part| part.blocks.clone()))
        .collect();
    let after = Manuscript {
        body,
        ..before.clone()
    };
    let before = typeset(&before, spec);
    let after = typeset(&after, spec);
    let sections = section_changes(&parts, &before.truth.nodes, &after.truth.nodes);
    YearPair {
        before,
        after,
        sections,
    }
}

// The blocks before the first heading, and the sections.
fn parts(manuscript: &Manuscript) -> (Vec<Block>, Vec<YearSection>) {
    let mut front: Vec<Block> = Vec::new();
    let mut parts: Vec<YearSection> = Vec::new();
    for block in &manuscript.body {
        match (block, parts.last_mut()) {
            (Block::Heading(_), _) => parts.push(YearSection {
                blocks: vec![block.clone()],
                from: Some(parts.len()),
                same_text: true,
                renamed: false,
                moved: Some(false),
            }),
            (_, Some(part)) => part.blocks.push(block.clone()),
            (_, None) => front.push(block.clone()),
        }
    }
    (front, parts)
}

// Rewords sentences and figures in two of five sections.
fn rewrite(part: &mut YearSection, rng: &mut Rng) {
    let is_selected = rng.chance(40);
    let topic = part
        .heading()
        .map(|heading| heading.title.clone())
        .unwrap_or_default();
    for block in &mut part.blocks {
        match block {
            Block::Prose(prose) if is_selected => {
                let text = reworded(&prose.text, &topic, rng);
                part.same_text &= text == prose.text;
                // Reworded text may no longer contain its mentions or its answer.
                *prose = if text == prose.text {
                    prose.clone()
                } else {
                    Paragraph::from(text)
                };
            }
            Block::Table(table) if is_selected => {
                for (_, cells) in &mut table.rows {
                    cells.iter_mut().for_each(|cell| *cell = words::figure(rng));
                }
                part.same_text &= table.rows.iter().all(|(_, cells)| cells.is_empty());
            }
            _ => {}
        }
    }
}

// Replaces one sentence in four.
fn reworded(text: &str, topic: &str, rng: &mut Rng) -> String {
    let sentences: Vec<&str> = text.split_inclusive(". ").collect();
    let anew = |sentence: &str, rng: &mut Rng| match (sentence.len() > 40, sentence.ends_with(' '))
    {
        (true, true) if rng.chance(25) => words::sentence(rng, topic) + " ",
        (true, false) if rng.chance(25) => words::sentence(rng, topic),
        _ => sentence.to_owned(),
    };
    sentences
        .into_iter()
        .map(|sentence| anew(sentence, rng))
        .collect()
}

// Indices of sections without sub-sections, number and key.
fn movable_sections(parts: &[YearSection]) -> Vec<usize> {
    (0..parts.len())
        .filter(|at: &usize| {
            let leaf = parts
                .get(at + 1)
                .is_none_or(|next| next.level() <= parts[*at].level());
            leaf && parts[*at]
                .heading()
                .is_some_and(|heading: &ManuscriptHeading| {
                    let numbered = heading.title.contains(|c: char| c.is_ascii_digit())
                        || heading.title.starts_with("Item");
                    heading.key.is_none()
                        && heading.runs_on.is_none()
                        && !heading.new_page
                        && heading.level >= 2
                        && !numbered
                })
                && parts[*at].blocks.len() > 1
                && parts[*at].blocks.iter().all(is_movable)
        })
        .collect()
}

// Whether a block may be anywhere.
fn is_movable(block: &Block) -> bool {
    matches!(
        block,
        Block::Heading(_) | Block::Prose(_) | Block::Bullets(_) | Block::Gap(_)
    )
}

fn rename(parts: &mut [YearSection], rng: &mut Rng, titles: &mut UniqueTitles) {
    for at in movable_sections(parts) {
        if rng.chance(12) {
            let part = &mut parts[at];
            part.renamed = true;
            for block in &mut part.blocks {
                if let Block::Heading(heading) = block {
                    *heading = ManuscriptHeading {
                        title: titles.short(rng),
                        printed: None,
                        contents_title: None,
                        tab: None,
                        ..heading.clone()
                    };
                }
            }
        }
    }
}

// Swaps two neighbors, or moves a section to the end of another sub-section.
fn move_section(parts: &mut Vec<YearSection>, rng: &mut Rng) {
    for at in movable_sections(parts) {
        let next = at + 1;
        if rng.chance(8)
            && movable_sections(parts).contains(&next)
            && parts[next].level() == parts[at].level()
        {
            parts.swap(at, next);
            (parts[at].moved, parts[next].moved) = (None, None);
        }
    }
    let all = movable_sections(parts);
    if all.len() < 8 {
        return;
    }
    for _ in 0..all.len() / 12 {
        let now = movable_sections(parts);
        let from = now[rng.below(now.len())];
        let to = now[rng.below(now.len())];
        // After a section of the same level with another parent.
        if parts[from].level() == parts[to].level()
            && parent(parts, from) != parent(parts, to)
            && parts[from].moved == Some(false)
        {
            let mut part = parts.remove(from);
            part.moved = Some(true);
            let to = if from < to { to } else { to + 1 };
            parts.insert(to, part);
        }
    }
}

fn parent(parts: &[YearSection], at: usize) -> Option<usize> {
    (0..at)
        .rev()
        .find(|above| parts[*above].level() < parts[at].level())
}

fn remove(parts: &mut Vec<YearSection>, rng: &mut Rng) {
    for at in movable_sections(parts).into_iter().rev() {
        if rng.chance(8) {
            parts.remove(at);
        }
    }
}

fn insert(parts: &mut Vec<YearSection>, rng: &mut Rng, titles: &mut UniqueTitles) {
    for at in movable_sections(parts).into_iter().rev() {
        if rng.chance(8) {
            let Some(model) = parts[at].heading() else {
                continue;
            };
            let title = titles.short(rng);
            let prose = (0..rng.between(1, 3))
                .map(|_| Block::Prose(Paragraph::from(words::paragraph(rng, &title))));
            let prose: Vec<Block> = prose.collect();
            let heading = ManuscriptHeading {
                title,
                printed: None,
                contents_title: None,
                tab: None,
                ..model.clone()
            };
            let blocks = [Block::Heading(heading)].into_iter().chain(prose).collect();
            let part = YearSection {
                blocks,
                from: None,
                same_text: false,
                renamed: false,
                moved: Some(false),
            };
            parts.insert(at + 1, part);
        }
    }
}

// Headings in the truth follow the order of the body, after those of the cover.
fn section_changes(
    parts: &[YearSection],
    before: &[HeadingTruth],
    after: &[HeadingTruth],
) -> Vec<YearChange> {
    let first = after.len() - parts.len();
    let mut sections: Vec<YearChange> = parts
        .iter()
        .enumerate()
        .map(|(at, part)| YearChange {
            before: part.from.map(|from| from + first),
            after: Some(at + first),
            same_text: part.same_text,
            renamed: part.renamed,
            moved: part.moved,
        })
        .collect();
    let continued: std::collections::BTreeSet<usize> = sections
        .iter()
        .filter_map(|section| section.before)
        .collect();
    let gone = (first..before.len()).filter(|at| !continued.contains(at));
    sections.extend(gone.map(|at| YearChange {
        before: Some(at),
        after: None,
        same_text: false,
        renamed: false,
        moved: Some(false),
    }));
    sections
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FilingKind;

    #[test]
    fn labels_match_the_changes_made() {
        let mut renamed = 0;
        let mut moved = 0;
        let mut new = 0;
        let mut gone = 0;
        let mut same = 0;
        let mut all = 0;
        for (seed, kind) in (0..12).zip(
            [
                FilingKind::TenK,
                FilingKind::TenQ,
                FilingKind::EarningsRelease,
            ]
            .into_iter()
            .cycle(),
        ) {
            let years = year_pair(
                &Spec {
                    pages: 24,
                    ..Spec::new(kind, seed)
                },
                seed,
            );
            let before = &years.before.truth.nodes;
            let after = &years.after.truth.nodes;
            for section in &years.sections {
                all += 1;
                match (section.before, section.after) {
                    (Some(one), Some(other)) => {
                        assert_eq!(
                            before[one].title != after[other].title,
                            section.renamed,
                            "{section:?}"
                        );
                        assert_eq!(before[one].level, after[other].level, "{section:?}");
                        same += usize::from(section.same_text);
                    }
                    (one, _) => {
                        (new, gone) = (
                            new + usize::from(one.is_none()),
                            gone + usize::from(one.is_some()),
                        );
                    }
                }
                renamed += usize::from(section.renamed);
                moved += usize::from(section.moved == Some(true));
            }
            let changes = years
                .sections
                .iter()
                .filter(|section| section.after.is_some())
                .count();
            assert!(
                (0..=2).contains(&(after.len() - changes)),
                "{changes} of {}",
                after.len()
            );
        }
        assert!(
            renamed > 5 && moved > 3 && new > 5 && gone > 5 && same > all / 3,
            "{renamed} {moved} {new} {gone} {same} {all}"
        );
    }
}
