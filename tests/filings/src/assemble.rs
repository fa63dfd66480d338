//! Builds a filing from a manuscript: cover, contents, body, running heads and feet, edits; then bytes and
//! truth.

use std::collections::BTreeMap;

use crate::contents::{ContentsEntry, contents_pages};
use crate::fonts::{self, Face, Family};
use crate::manuscript::{Manuscript, Numbering, PageFooter, Typography};
use crate::pdf::{self, PdfOptions};
use crate::random::Rng;
use crate::typeset::{
    SetLine, SetLineRole, SetLink, SetPage, TextSpan, TypesetPages, compose, wrap,
};
use crate::{ContentsMode, Edit, Filing, Spec, Truth, words};

/// Typesets a manuscript. Kind and pages of `spec` are ignored.
pub fn typeset(manuscript: &Manuscript, spec: &Spec) -> Filing {
    let look = &manuscript.typography;
    let mut done = lay_out(manuscript, spec);
    for (n, edit) in spec.edits.iter().enumerate() {
        apply_edit(
            edit,
            &mut done,
            look,
            &mut Rng::new(spec.seed.wrapping_add(n as u64), "edit"),
        );
    }
    if let Some(page) = spec
        .scanned_page
        .and_then(|page| done.pages.get_mut((page as usize).wrapping_sub(1)))
    {
        page.lines.clear();
        page.scanned = true;
    }
    let options = PdfOptions {
        title: &manuscript.title,
        page_size: look.page,
        outline: spec.contents == ContentsMode::Outline,
        labels: spec.labels,
        encryption: spec.encryption.as_ref(),
        seed: spec.seed,
        chinese: look.family == Family::Song,
    };
    let pdf = pdf::write(&done.pages, &done.nodes, &options);
    finish(done, pdf, manuscript)
}

// Cover, contents and body as one sequence of pages with running heads and feet.
fn lay_out(manuscript: &Manuscript, spec: &Spec) -> TypesetPages {
    let look = &manuscript.typography;
    let cover = compose(&manuscript.cover, look, Numbering::None);
    let mut done = compose(&manuscript.body, look, Numbering::Arabic(1));
    place_references(&mut done);
    insert_inner_contents(&mut done, look, spec);
    let title = look
        .contents_title
        .filter(|_| spec.contents != ContentsMode::Nothing);
    let mut contents = Vec::new();
    let mut count = 0;
    if let Some(title) = title {
        count = contents_pages(&entries(&done, look, 0), look, spec.contents, title).len();
        let entries = entries(&done, look, cover.pages.len() + count);
        contents = contents_pages(&entries, look, spec.contents, title);
    }
    let first = cover.pages.len() + contents.len();
    let back = (look.back_link && !contents.is_empty()).then_some(cover.pages.len());
    for page in &mut done.pages {
        add_furniture(page, look, back, manuscript.facts.issuer.as_deref());
    }
    contents
        .iter_mut()
        .for_each(|page| add_furniture(page, look, None, None));
    let mut pages = cover.pages;
    pages.append(&mut contents);
    pages.append(&mut done.pages);
    done.pages = pages;
    shift(&mut done, first as u32);
    if let Some(title) = title {
        add_node(&mut done, 0, title, 1, first - count);
    }
    done
}

// Inserts the contents pages of bound documents, last first, so that earlier positions stay valid.
fn insert_inner_contents(done: &mut TypesetPages, look: &Typography, spec: &Spec) {
    const TITLE: &str = "TABLE OF CONTENTS";
    let inner = std::mem::take(&mut done.inner);
    let mut end = done.nodes.len();
    for place in inner
        .into_iter()
        .rev()
        .filter(|_| spec.contents != ContentsMode::Nothing)
    {
        let (high, deep) = place.levels;
        let list = |done: &TypesetPages, before: usize| -> Vec<ContentsEntry> {
            (place.node..end)
                .filter(|n: &usize| (high..=deep).contains(&done.nodes[*n].level))
                .map(|n: usize| {
                    let node = &done.nodes[n];
                    let label = done.pages[node.page as usize].numbering.printed();
                    let target = (
                        node.page as usize + before,
                        node.baseline as f32 / 100.0 - look.size * 1.5,
                    );
                    ContentsEntry {
                        text: done.contents_titles[n].clone(),
                        level: node.level + 1 - high,
                        label,
                        target,
                    }
                })
                .collect()
        };
        let count = contents_pages(&list(done, 0), look, spec.contents, TITLE).len();
        let mut pages = contents_pages(&list(done, count), look, spec.contents, TITLE);
        pages
            .iter_mut()
            .for_each(|page| page.numbering = Numbering::None);
        let behind = |page: usize| page >= place.page;
        let by = count as u32;
        done.pages
            .iter_mut()
            .flat_map(|page| &mut page.links)
            .filter(|link| behind(link.page))
            .for_each(|link| link.page += count);
        done.nodes
            .iter_mut()
            .filter(|node| behind(node.page as usize))
            .for_each(|node| node.page += by);
        done.references
            .iter_mut()
            .filter(|(r, _)| behind(r.page as usize))
            .for_each(|(r, _)| r.page += by);
        done.answers
            .iter_mut()
            .filter(|answer| behind(answer.page as usize))
            .for_each(|answer| answer.page += by);
        done.pages.splice(place.page..place.page, pages);
        end = place.node;
        add_node(done, place.node, TITLE, high, place.page);
    }
}

// The heading of a contents page is a heading like any other.
fn add_node(done: &mut TypesetPages, at: usize, title: &str, level: u16, page: usize) {
    let line = done.pages.get(page).and_then(|page| {
        page.lines
            .iter()
            .find(|line: &&SetLine| line.text() == title)
    });
    let baseline = line.map_or(0, |line| (line.y * 100.0).round() as u32);
    done.nodes.insert(
        at,
        crate::HeadingTruth {
            title: title.to_owned(),
            level,
            page: page as u32,
            starts_page: true,
            baseline,
        },
    );
    done.keys.insert(at, None);
    done.contents_titles.insert(at, title.to_owned());
    let later = done
        .answers
        .iter_mut()
        .filter_map(|answer| answer.node.as_mut())
        .filter(|node| **node >= at);
    later.for_each(|node| *node += 1);
}

// Replaces cells such as `@key` by the printed pages of that section: a number or a range.
fn place_references(done: &mut TypesetPages) {
    let mut pages: BTreeMap<&str, String> = BTreeMap::new();
    for (n, key) in done.keys.iter().enumerate() {
        let Some(key) = key else { continue };
        let first = done.nodes[n].page as usize;
        let level = done.nodes[n].level;
        let next = done.nodes[n + 1..].iter().find(|node| node.level <= level);
        let last = next.map_or(done.pages.len() - 1, |next| {
            next.page as usize - usize::from(next.starts_page && next.page as usize > first)
        });
        let printed = |page: usize| done.pages[page].numbering.printed();
        if let (Some(from), Some(to)) = (printed(first), printed(last)) {
            pages.insert(
                key,
                if from == to {
                    from
                } else {
                    format!("{from}\u{2013}{to}")
                },
            );
        }
    }
    let pages: BTreeMap<String, String> = pages
        .into_iter()
        .map(|(key, pages)| (key.to_owned(), pages))
        .collect();
    let spans = done
        .pages
        .iter_mut()
        .flat_map(|page| &mut page.lines)
        .flat_map(|line| &mut line.spans);
    for span in spans.filter(|span| span.text.starts_with('@')) {
        let keys = span
            .text
            .split(", ")
            .filter_map(|key| pages.get(key.trim_start_matches('@')));
        span.text = keys.cloned().collect::<Vec<_>>().join(", ");
    }
}

// The contents entries if `before` pages precede the body.
fn entries(body: &TypesetPages, look: &Typography, before: usize) -> Vec<ContentsEntry> {
    let mut entries = Vec::new();
    for (n, node) in body
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| node.level <= look.contents_levels)
    {
        let page = node.page as usize;
        let followed = body
            .nodes
            .get(n + 1)
            .is_some_and(|next| next.level > 1 && next.page == node.page);
        let bare = look.bare_parts && node.level == 1 && followed;
        entries.push(ContentsEntry {
            text: body.contents_titles[n].clone(),
            level: node.level,
            label: body.pages[page].numbering.printed().filter(|_| !bare),
            target: (
                page + before,
                node.baseline as f32 / 100.0 - look.size * 1.5,
            ),
        });
    }
    entries
}

// Moves every position back by `by` pages.
fn shift(done: &mut TypesetPages, by: u32) {
    done.nodes.iter_mut().for_each(|node| node.page += by);
    done.references
        .iter_mut()
        .for_each(|(reference, _)| reference.page += by);
    done.answers.iter_mut().for_each(|answer| answer.page += by);
}

// Adds running head, back-link and page number.
fn add_furniture(page: &mut SetPage, look: &Typography, back: Option<usize>, issuer: Option<&str>) {
    let size = look.size - 1.0;
    let font = fonts::index(look.family, Face::Regular);
    let y = look.margin * 0.55;
    let mut top = Vec::new();
    if let Some(target) = back {
        let text = "Table of Contents".to_owned();
        let right = look.margin + fonts::width(&text, font, size);
        page.links.insert(
            0,
            SetLink {
                rect: [look.margin, y - size, right, y + 2.0],
                page: target,
                y: 0.0,
            },
        );
        top.push(TextSpan {
            x: look.margin,
            text,
            font,
            size,
        });
    }
    if look.running_head && !page.head.is_empty() {
        let x = look.page.0 - look.margin - fonts::width(&page.head, font, size);
        top.push(TextSpan {
            x,
            text: page.head.clone(),
            font,
            size,
        });
    }
    if !top.is_empty() {
        page.lines.insert(
            0,
            SetLine {
                y,
                role: SetLineRole::Fixed,
                spans: top,
            },
        );
    }
    if let Some(label) = page.numbering.printed() {
        page.lines.push(foot(&label, page.numbering, look, issuer));
    }
}

fn foot(label: &str, numbering: Numbering, look: &Typography, issuer: Option<&str>) -> SetLine {
    let size = look.size - 1.0;
    let font = fonts::index(look.family, Face::Regular);
    let text = match (look.foot, issuer) {
        (PageFooter::Page, _) => format!("Page {label}"),
        (PageFooter::Dashes, _) => format!("- {label} -"),
        (PageFooter::WithRegistrant, Some(issuer)) => format!("{label} | {issuer}"),
        _ => label.to_owned(),
    };
    let slack = look.page.0 - fonts::width(&text, font, size);
    let right = matches!(numbering, Numbering::Arabic(n) | Numbering::Prefixed(_, n) if n % 2 == 1);
    let x = match look.foot {
        PageFooter::Outer if right => slack - look.margin,
        PageFooter::Outer => look.margin,
        _ => slack / 2.0,
    };
    let y = look.page.1 - look.margin * 0.45;
    SetLine {
        y,
        role: SetLineRole::Fixed,
        spans: vec![TextSpan {
            x,
            text,
            font,
            size,
        }],
    }
}

fn apply_edit(edit: &Edit, done: &mut TypesetPages, look: &Typography, rng: &mut Rng) {
    match edit {
        Edit::InsertFront => insert_front(done, look),
        Edit::ChangePage { page, revision } => {
            for _ in 0..*revision {
                rng.next_u64();
            }
            if let Some(page) = done.pages.get_mut((*page as usize).wrapping_sub(1)) {
                change(page, look, *revision, rng);
            }
        }
        Edit::RotatePage { page, degrees } => {
            if let Some(page) = done.pages.get_mut((*page as usize).wrapping_sub(1)) {
                page.rotation = *degrees;
            }
        }
        Edit::AddMarginNote { page, text } => {
            if let Some(page) = done.pages.get_mut((*page as usize).wrapping_sub(1)) {
                page.margin_note = Some(TextSpan {
                    x: look.margin / 2.0,
                    text: (*text).to_owned(),
                    font: fonts::index(look.family, Face::Bold),
                    size: look.size * 1.4,
                });
            }
        }
    }
}

fn insert_front(done: &mut TypesetPages, look: &Typography) {
    let note = if look.family == Family::Song {
        "本页为更正说明，其余内容不变。"
    } else {
        "Explanatory note: this copy was furnished again with a transmittal page."
    };
    let blocks = [crate::Block::Prose(note.to_owned().into())];
    let front = compose(&blocks, look, Numbering::None).pages;
    let by = front.len();
    done.pages
        .iter_mut()
        .flat_map(|page| &mut page.links)
        .for_each(|link| link.page += by);
    done.pages.splice(0..0, front);
    shift(done, by as u32);
}

// Rewords the longest line of prose on a page. Without prose, adds a line below the text.
fn change(page: &mut SetPage, look: &Typography, revision: u32, rng: &mut Rng) {
    let font = fonts::index(look.family, Face::Regular);
    let (mut words, blank) = match look.family {
        Family::Song => (words::chinese_sentence(rng, "修订"), ""),
        _ => (
            format!(
                "As revised ({revision}), {}",
                words::sentence(rng, "the matters above")
            ),
            " ",
        ),
    };
    let longest = page
        .lines
        .iter_mut()
        .filter(|line| line.role == SetLineRole::Prose)
        .max_by_key(|line| line.text().len());
    match longest.and_then(|line| line.spans.first_mut()) {
        Some(span) => {
            let room = fonts::width(&span.text, span.font, span.size).max(90.0);
            words.push_str(blank);
            let end = wrap(&words, span.font, span.size, room)
                .first()
                .map_or(0, |range| range.1);
            span.text = words[..end].to_owned();
        }
        None => {
            let span = TextSpan {
                x: look.margin,
                text: format!("Revision {revision}"),
                font,
                size: look.size,
            };
            let line = SetLine {
                y: look.page.1 - look.margin * 0.8,
                role: SetLineRole::Fixed,
                spans: vec![span],
            };
            page.lines.push(line);
        }
    }
}

fn finish(done: TypesetPages, pdf: Vec<u8>, manuscript: &Manuscript) -> Filing {
    let by_key: BTreeMap<&str, usize> = done
        .keys
        .iter()
        .enumerate()
        .filter_map(|(n, key)| key.as_deref().map(|key| (key, n)))
        .collect();
    // Layout counts pages from 0.
    let references = done
        .references
        .iter()
        .map(|(reference, key)| crate::ReferenceTruth {
            page: reference.page + 1,
            target: by_key.get(key.as_str()).copied(),
            ..reference.clone()
        })
        .collect();
    let answers = done.answers.into_iter().map(|mut answer| {
        answer.page += 1;
        answer
    });
    let truth = Truth {
        pages: done.pages.len() as u32,
        printed: done
            .pages
            .iter()
            .map(|page| page.numbering.printed())
            .collect(),
        references,
        nodes: done
            .nodes
            .into_iter()
            .map(|mut node: crate::HeadingTruth| {
                node.page += 1;
                node
            })
            .collect(),
    };
    Filing {
        pdf,
        truth,
        facts: manuscript.facts.clone(),
        answers: answers.collect(),
        page_texts: done
            .pages
            .iter()
            .map(|page: &SetPage| {
                page.lines
                    .iter()
                    .map(SetLine::text)
                    .collect::<Vec<_>>()
                    .join("\n")
            })
            .collect(),
    }
}
