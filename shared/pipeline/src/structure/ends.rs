//! The two ends of a document: its title and the lines of a cover, its signatures and contacts.

use stemma_document::Witness;

use super::layout;
use super::lines::Sheet;
use super::skeleton::{Head, LAYOUT};
use super::{numbering, titles};

/// Heads on the first page before its first paragraph that are known by their look only.
fn front(sheet: &Sheet<'_>, heads: &[Head]) -> Vec<usize> {
    let first = sheet.on(0).find(|at| sheet.rows[*at].prose && !sheet.rows[*at].running).unwrap_or(sheet.on(0).end);
    let is_front = |head: &Head| {
        let plain = numbering::readings(&head.title).is_empty();
        head.rows.0 < first && head.witness == Witness::Layout && head.rank >= LAYOUT && plain
    };
    (0..heads.len()).filter(|at| is_front(&heads[*at])).collect()
}

/// Of what stands before the first paragraph, the title of the document and headings that look like those further on are
/// sections; the other lines of a cover are none. The title opens a level of its own only where nothing but the look of
/// headings says what a section is (an earnings release): elsewhere it would only add a root.
pub(super) fn settle_front(sheet: &Sheet<'_>, heads: &mut Vec<Head>) {
    let front = front(sheet, heads);
    let style = |head: &Head| layout::style(sheet, &sheet.rows[head.rows.0]);
    let behind = |at: usize| {
        (0..heads.len()).filter(|other| !front.contains(other) && style(&heads[*other]) == style(&heads[at])).count()
    };
    let before = |at: usize| front.iter().filter(|other| style(&heads[**other]) == style(&heads[at])).count();
    // The heading of the first paragraph looks like those further on, whatever their numbers.
    let heads_text = |at: usize| {
        let follows = sheet.rows.get(heads[at].rows.1 + 1).is_some_and(|next| next.prose);
        follows
            && heads
                .iter()
                .any(|other| other.rows.0 > heads[at].rows.0 && style(other).unnumbered() == style(&heads[at]))
    };
    let recurs: Vec<bool> = front.iter().map(|at| behind(*at) > before(*at) || heads_text(*at)).collect();
    let highest = front.iter().zip(&recurs).min_by_key(|(at, _)| heads[**at].rank);
    let title = highest.filter(|(_, recurs)| !**recurs).map(|(at, _)| *at);
    let dropped: Vec<usize> =
        front.iter().zip(&recurs).filter(|(at, recurs)| !**recurs && Some(**at) != title).map(|(at, _)| *at).collect();
    if let Some(title) = title {
        let vouched = heads.iter().any(|head| !matches!(head.witness, Witness::Layout | Witness::Window));
        let numbered = heads.iter().filter(|head| style(head).is_numbered()).count();
        let own = style(&heads[title]);
        let apart = heads.iter().enumerate().all(|(at, head)| front.contains(&at) || !style(head).is_like(&own));
        let opens = !vouched && apart && numbered * 2 < heads.len();
        heads[title].leaf = !opens;
        heads[title].rank = if opens { LAYOUT - 1 } else { heads[title].rank };
    }
    remove(heads, &dropped);
}

/// Signatures and the people to ask have no sections: names and offices set in bold are none.
pub(super) fn close_back(sheet: &Sheet<'_>, heads: &mut Vec<Head>) {
    let mut dropped = Vec::new();
    let mut end: Option<usize> = None;
    for (at, head) in heads.iter().enumerate() {
        let page = |head: &Head| sheet.rows[head.rows.0].page;
        let inside = end.is_some_and(|end| {
            let signed = is_signature(&heads[end]) && page(&heads[end]) == page(head);
            let below = head.rank > heads[end].rank;
            head.witness == Witness::Layout && (signed || (below && !is_signature(&heads[end])))
        });
        if inside {
            dropped.push(at);
        } else {
            end = Some(at).filter(|_| is_signature(head) || titles::squash(&head.title).ends_with("contacts"));
        }
    }
    remove(heads, &dropped);
}

fn is_signature(head: &Head) -> bool {
    matches!(titles::squash(&head.title).as_str(), "signature" | "signatures")
}

fn remove(heads: &mut Vec<Head>, places: &[usize]) {
    let mut at = 0;
    heads.retain(|_| {
        at += 1;
        !places.contains(&(at - 1))
    });
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Doc, FixtureLine, line};
    use super::super::{StructureSettings, outline};

    fn entries(doc: &Doc) -> Vec<(u32, u16, String)> {
        let draft = outline(&doc.source(), &StructureSettings::default()).unwrap();
        let entry = |e: &stemma_document::VerifiedEntry| {
            let entry = &e.located.entry;
            (e.located.place.order().0, entry.level, entry.title.clone())
        };
        draft.outline.entries().iter().map(entry).collect()
    }

    fn expected(entries: &[(u32, u16, &str)]) -> Vec<(u32, u16, String)> {
        entries.iter().map(|(page, level, title)| (*page, *level, (*title).to_string())).collect()
    }

    /// A headline as given, sub-headlines, and bold sections behind them.
    fn release(headline: FixtureLine) -> Doc {
        let mut doc = Doc::new(2);
        doc.add(0, line("FOR IMMEDIATE RELEASE"));
        doc.add(0, headline);
        doc.add(0, line("Sales Rise by a Tenth").size(11.0).bold().italic());
        doc.prose(0, 10.0, 8);
        for (page, title) in [(0, "Outlook"), (0, "Conference Call"), (1, "About the Company")] {
            doc.section(page, title);
        }
        doc
    }

    #[test]
    fn the_headline_of_a_release_opens_it_and_its_cover_lines_are_no_sections() {
        let doc = release(line("Company Reports Results").size(18.0).bold());
        let wanted = [
            (1, 1, "Company Reports Results"),
            (1, 2, "Outlook"),
            (1, 2, "Conference Call"),
            (2, 2, "About the Company"),
        ];
        assert_eq!(entries(&doc), expected(&wanted));
    }

    #[test]
    fn the_title_of_a_numbered_paper_stands_beside_its_sections() {
        let mut doc = Doc::new(3);
        doc.add(0, line("On the Depth of Trees").size(18.0).bold());
        doc.add(0, line("Ann Author and Ben Author").size(12.0).italic());
        doc.prose(0, 10.0, 8);
        for (page, title) in [(0, "1. Introduction"), (1, "2. Method"), (2, "3. Results")] {
            doc.section(page, title);
        }
        let shape: Vec<u16> = entries(&doc).iter().map(|entry| entry.1).collect();
        assert_eq!(shape, [1, 1, 1, 1]);
    }

    #[test]
    fn names_below_signatures_and_contacts_are_no_sections() {
        let mut doc = Doc::new(3);
        for (page, title) in [(0, "Overview"), (1, "Results"), (2, "Contacts")] {
            doc.section(page, title);
        }
        doc.add(2, line("JANE ROE").size(10.0).bold());
        doc.prose(2, 10.0, 2);
        assert_eq!(entries(&doc).last().map(|entry| entry.2.as_str()), Some("Contacts"));
    }
}
