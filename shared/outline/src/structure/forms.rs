//! Forms whose Items are known, and how a filing shows its form: by its cover, else by its Items. The Items are data
//! (`shared/reading/data/en/items.txt`), and so are the sections that forms prescribe without a number, which are Items with
//! a name (`sections.txt`).

use std::sync::LazyLock;

use stemma_reading::section_names::{TitlePattern, title_key, unlabeled};
use stemma_reading::vocabulary::{
    ANNUAL_ITEMS, CANADIAN_SECTIONS, COVER_FORMS, CURRENT_ITEMS, FOREIGN_ITEMS, FUND_FORMS,
    FUND_REPORT_ITEMS, FUND_SECTIONS, OWNER_ITEMS, PASSIVE_OWNER_ITEMS, PLAN_SECTIONS,
    PROSPECTUS_FORMS, PROSPECTUS_SECTIONS, PROXY_SECTIONS, QUARTERLY_ITEMS, SCHEDULE_FORMS,
    WordList,
};

use super::item_grammar::{self, ItemHeading};
use super::titles::{self, TitleKeys};
use super::weights::RIGHT_TITLE;

// Bounds the work on hostile texts; a filing has some hundred lines that name Items.
const MAX_HEADS: usize = 20_000;

/// A form, or a family of forms, that prescribes Items or sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecForm {
    /// 10-K.
    Annual,
    /// 10-Q.
    Quarterly,
    /// 8-K: Items are numbered `n.nn`; no PARTs.
    Current,
    /// 20-F, the annual report of a foreign private issuer.
    Foreign,
    /// Schedule 13D.
    Owner,
    /// Schedule 13G.
    PassiveOwner,
    /// N-CSR, the report of a fund.
    FundReport,
    /// Registration statements and prospectuses: S-1, F-1, 424B and their kind. Sections have names.
    Prospectus,
    /// Schedules 14A and 14C. Sections have names.
    Proxy,
    /// N-1A, the registration statement of a fund. Sections have names.
    FundProspectus,
    /// 40-F, the annual report of a Canadian issuer. Sections have names.
    Canadian,
    /// 11-K, the annual report of a plan. Sections have names.
    Plan,
}

/// The number of an Item: `7A` is (7, 1), `5.02` of Form 8-K is (5, 2).
pub(crate) type ItemNumber = (u16, u16);

#[derive(Debug)]
pub(crate) struct FormItem {
    /// Its index in the list of the form.
    pub(crate) key: usize,
    /// 1 for PART I; 0 where a form has none.
    pub(crate) part: u8,
    /// `7A`, `5.02`, `4.A` of Form 20-F, or the name of a section; empty for a PART.
    pub(crate) number: &'static str,
    /// `None`: the PART itself, or a section with a name.
    pub(crate) tag: Option<ItemNumber>,
    /// Its titles, the current one first.
    pub(crate) titles: Vec<&'static str>,
    /// The same, normalized.
    patterns: Vec<TitlePattern>,
    /// Whether a complete filing has the section.
    pub(crate) is_required: bool,
}

static ITEMS: LazyLock<[Vec<FormItem>; 12]> = LazyLock::new(|| {
    let lists: [&WordList; 12] = [
        &ANNUAL_ITEMS,
        &QUARTERLY_ITEMS,
        &CURRENT_ITEMS,
        &FOREIGN_ITEMS,
        &OWNER_ITEMS,
        &PASSIVE_OWNER_ITEMS,
        &FUND_REPORT_ITEMS,
        &PROSPECTUS_SECTIONS,
        &PROXY_SECTIONS,
        &FUND_SECTIONS,
        &CANADIAN_SECTIONS,
        &PLAN_SECTIONS,
    ];
    lists.map(|lines| {
        (0..)
            .zip(lines.iter())
            .filter_map(|(key, line)| FormItem::parse(key, line))
            .collect()
    })
});

impl FormItem {
    fn parse(key: usize, line: &'static str) -> Option<Self> {
        let mut fields = line.split(" | ");
        let place = fields.next()?;
        let (part, number) = place.split_once(' ').unwrap_or((place, ""));
        let titles: Vec<&str> = fields.collect();
        let tag = Self::parse_tag(number);
        Some(Self {
            key,
            part: part.parse().ok()?,
            number: number.trim_end_matches('!'),
            is_required: tag.is_some() || number.ends_with('!'),
            tag,
            patterns: titles
                .iter()
                .map(|title| TitlePattern::new(title))
                .collect(),
            titles,
        })
    }

    fn parse_tag(number: &str) -> Option<ItemNumber> {
        // `4.A` is written `4A` in headings.
        let lettered = number.ends_with(char::is_alphabetic);
        let written = if lettered {
            number.replace('.', "")
        } else {
            number.to_owned()
        };
        item_grammar::parse_item_number(&written).map(|(tag, _)| tag)
    }

    pub(crate) fn is_part(&self) -> bool {
        self.number.is_empty()
    }

    /// Whether it is a section with a name.
    pub(crate) fn is_named(&self) -> bool {
        !self.is_part() && self.tag.is_none()
    }

    /// Whether it has the title with this key, which [`SecForm::title_key`] makes.
    pub(super) fn is_titled(&self, key: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.fits(key))
    }

    pub(crate) fn title(&self) -> &'static str {
        self.titles.first().copied().unwrap_or_default()
    }

    /// Similarity (0–1) of a title to its titles.
    pub(super) fn title_match(&self, title: &TitleKeys) -> f32 {
        self.titles
            .iter()
            .map(|variant| titles::title_similarity(&TitleKeys::new(variant), title))
            .fold(0.0, f32::max)
    }
}

impl SecForm {
    /// PARTs and Items in the order of the form.
    pub(crate) fn items(self) -> &'static [FormItem] {
        &ITEMS[self as usize]
    }

    /// Its name in the ids of its Items.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SecForm::Annual => "10-K",
            SecForm::Quarterly => "10-Q",
            SecForm::Current => "8-K",
            SecForm::Foreign => "20-F",
            SecForm::Owner => "SC 13D",
            SecForm::PassiveOwner => "SC 13G",
            SecForm::FundReport => "N-CSR",
            SecForm::Prospectus => "S-1",
            SecForm::Proxy => "DEF 14A",
            SecForm::FundProspectus => "N-1A",
            SecForm::Canadian => "40-F",
            SecForm::Plan => "11-K",
        }
    }

    /// The form by its name; amendments and variants have the Items of the plain form.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name.split('/').next().unwrap_or(name) {
            "10-K" | "10-KT" | "10-K405" => Some(SecForm::Annual),
            "10-Q" | "10-QT" => Some(SecForm::Quarterly),
            "8-K" | "8-K12B" => Some(SecForm::Current),
            "20-F" => Some(SecForm::Foreign),
            "SC 13D" | "SCHEDULE 13D" => Some(SecForm::Owner),
            "SC 13G" | "SCHEDULE 13G" => Some(SecForm::PassiveOwner),
            "N-CSR" | "N-CSRS" => Some(SecForm::FundReport),
            "40-F" => Some(SecForm::Canadian),
            "11-K" => Some(SecForm::Plan),
            name if PROSPECTUS_FORMS.contains(name) => Some(SecForm::Prospectus),
            name if FUND_FORMS.contains(name) => Some(SecForm::FundProspectus),
            name if name.ends_with("14A") || name.ends_with("14C") => Some(SecForm::Proxy),
            _ => None,
        }
    }

    /// The form that a normalized line of a cover names, amended or not: `form10ka`, `schedule13d`. Forms whose sections have
    /// names show these as other documents show theirs.
    pub(super) fn from_cover(key: &str) -> Option<Self> {
        let (names, name) = key
            .strip_prefix("form")
            .map(|name| (&COVER_FORMS, name))
            .or_else(|| Some((&SCHEDULE_FORMS, key.strip_prefix("schedule")?)))?;
        let form = Self::from_name(names.get(name.strip_suffix('a').unwrap_or(name))?)?;
        (!form.has_names()).then_some(form)
    }

    /// A title normalized as the form counts its sections. Those with names may have the number of a proposal before it.
    pub(super) fn title_key(self, title: &str) -> String {
        if self.has_names() {
            title_key(unlabeled(title))
        } else {
            titles::normalize_key(title)
        }
    }

    /// Whether its sections have names in place of numbers.
    pub(crate) fn has_names(self) -> bool {
        self.items().iter().any(FormItem::is_named)
    }

    /// The form that one of the lines of a cover names, else the one whose Items the other lines name.
    pub(super) fn detect<'l>(
        cover: impl Iterator<Item = &'l str>,
        lines: impl Iterator<Item = &'l str>,
    ) -> Option<Self> {
        let mut keys = cover
            .filter(|line| {
                let mut letters = line.chars().filter(|c| c.is_alphanumeric());
                matches!(letters.next(), Some('F' | 'f' | 'S' | 's'))
            })
            .map(titles::normalize_key);
        keys.find_map(|key| Self::from_cover(&key))
            .or_else(|| Self::from_headings(lines.filter_map(item_grammar::parse_heading)))
    }

    // Without a cover, the Items tell the form, by number and title together: numbers alone recur on all forms. One `5.02`
    // is enough for a current report, since no other form has such numbers; annual and quarterly reports need four matches,
    // as other documents quote single Items.
    fn from_headings<'a>(heads: impl Iterator<Item = ItemHeading<'a>>) -> Option<Self> {
        let mut current = 0;
        let mut counts = [
            (SecForm::Annual, 0),
            (SecForm::Quarterly, 0),
            (SecForm::Foreign, 0),
        ];
        for head in heads.take(MAX_HEADS).filter(|head| !head.tags.is_empty()) {
            current += usize::from(head.current);
            let title = TitleKeys::new(head.rest);
            for (form, count) in counts.iter_mut().filter(|_| !head.current) {
                let fits = form.items().iter().any(|item| {
                    item.tag == Some(head.tags[0]) && item.title_match(&title) > RIGHT_TITLE
                });
                *count += usize::from(fits);
            }
        }
        let [annual, quarterly, foreign] = counts.map(|(_, count)| count);
        match (current, annual, quarterly) {
            (c, a, q) if c >= 1 && c > a && c > q => Some(SecForm::Current),
            (_, a, q) if foreign >= 4 && foreign > a && foreign > q => Some(SecForm::Foreign),
            (_, a, q) if a >= 4 && a >= q => Some(SecForm::Annual),
            (_, _, q) if q >= 4 => Some(SecForm::Quarterly),
            _ => None,
        }
    }

    /// The form by the Item numbers in titles of sections, if there are enough of them.
    pub(crate) fn from_titles<'a>(titles: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut current = 0;
        let mut annual = 0;
        let mut quarterly = 0;
        let mut has_report_items = false;
        for head in titles.filter_map(item_grammar::parse_heading) {
            let Some((number, _)) = head.tags.first() else {
                continue;
            };
            current += u32::from(head.current);
            // A registration statement has Items from 13 on in its Part II.
            has_report_items |= !head.current && *number < 13;
            // Only an annual report has Items above 6.
            annual += u32::from(!head.current && *number >= 7);
            quarterly += u32::from(!head.current && *number < 7);
        }
        match (current, annual, quarterly) {
            (current, 0, 0) if current > 0 => Some(SecForm::Current),
            (_, annual, _) if annual >= 4 && has_report_items => Some(SecForm::Annual),
            (_, 0, quarterly) if quarterly >= 4 => Some(SecForm::Quarterly),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_forms_are_read() {
        let counts = ITEMS.each_ref().map(Vec::len);
        assert_eq!(counts[..7], [28, 13, 33, 34, 7, 10, 19]);
        let tags = |form: SecForm, number: &str| {
            let mut named = form.items().iter().filter(|item| item.number == number);
            named.next().and_then(|item| item.tag)
        };
        assert_eq!(tags(SecForm::Annual, "1A"), Some((1, 1)));
        assert_eq!(tags(SecForm::Current, "5.02"), Some((5, 2)));
        assert_eq!(tags(SecForm::Foreign, "16.K"), Some((16, 11)));
    }

    #[test]
    fn covers_name_forms() {
        for (key, form) in [
            ("form10k", Some(SecForm::Annual)),
            ("form10qa", Some(SecForm::Quarterly)),
            ("form8k12b", Some(SecForm::Current)),
            ("form20f", Some(SecForm::Foreign)),
            ("schedule13d", Some(SecForm::Owner)),
            ("schedule13ga", Some(SecForm::PassiveOwner)),
            ("formncsr", Some(SecForm::FundReport)),
            ("forms1", None),
            ("forms8", None),
            ("10k", None),
        ] {
            assert_eq!(SecForm::from_cover(key), form, "{key}");
        }
        assert!(SecForm::from_name("S-8").is_none());
    }

    #[test]
    fn form_is_recognized_by_items() {
        let form =
            |titles: &[&str]| SecForm::from_titles(titles.iter().copied()).map(SecForm::name);
        assert_eq!(form(&["Item 5.02 Departure of Directors"]), Some("8-K"));
        assert_eq!(
            form(&["Item 7. A", "Item 8. B", "Item 9. C", "Item 10. D"]),
            Some("10-K")
        );
        assert_eq!(form(&["Item 1. Business"]), None);
        // Part II of a registration statement.
        let statement = ["Item 13. A", "Item 14. B", "Item 15. C", "Item 16. D"];
        assert_eq!(form(&statement), None);
    }
}
