//! SEC forms as data: their Items with order, PART and titles.
//!
//! Source: the General Instructions of Forms 10-K, 10-Q, 8-K and 20-F, with older and shorter titles that filers still use.

/// A periodic or current report whose Items are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecForm {
    /// 10-K.
    Annual,
    /// 10-Q.
    Quarterly,
    /// 8-K: Items are numbered `n.nn`; no PARTs.
    Current,
    /// 20-F, the annual report of a foreign private issuer.
    Foreign,
}

/// The number of an Item: `7A` is (7, 1), `5.02` of Form 8-K is (5, 2).
pub(super) type ItemNumber = (u16, u16);

/// A PART or an Item of a form.
#[derive(Debug)]
pub(super) struct FormItem {
    /// 1 for PART I; 0 where a form has none.
    pub(super) part: u8,
    /// `None`: the PART itself.
    pub(super) tag: Option<ItemNumber>,
    /// Its titles, the current one first.
    pub(super) titles: &'static [&'static str],
}

const fn part(part: u8, titles: &'static [&'static str]) -> FormItem {
    FormItem {
        part,
        tag: None,
        titles,
    }
}

const fn item(part: u8, number: u16, letter: u16, titles: &'static [&'static str]) -> FormItem {
    FormItem {
        part,
        tag: Some((number, letter)),
        titles,
    }
}

const DISAGREEMENTS: &str =
    "Changes in and Disagreements with Accountants on Accounting and Financial Disclosure";
const MDA: &str =
    "Management's Discussion and Analysis of Financial Condition and Results of Operations";
const MARKET_RISK: &str = "Quantitative and Qualitative Disclosures About Market Risk";
const MARKET: &str = "Market for Registrant's Common Equity, Related Stockholder Matters and Issuer Purchases of Equity Securities";
const OWNERSHIP: &str = "Security Ownership of Certain Beneficial Owners and Management and Related Stockholder Matters";
const RELATED: &str = "Certain Relationships and Related Transactions, and Director Independence";

static ANNUAL: [FormItem; 28] = [
    part(1, &[]),
    item(
        1,
        1,
        0,
        &["Business", "Description of Business", "Our Business"],
    ),
    item(1, 1, 1, &["Risk Factors"]),
    item(1, 1, 2, &["Unresolved Staff Comments"]),
    item(1, 1, 3, &["Cybersecurity"]),
    item(1, 2, 0, &["Properties", "Description of Property"]),
    item(1, 3, 0, &["Legal Proceedings"]),
    item(
        1,
        4,
        0,
        &[
            "Mine Safety Disclosures",
            "Submission of Matters to a Vote of Security Holders",
            "Reserved",
        ],
    ),
    // Executive officers, which the form lets filers state in Part I without a number. Many give them this one. Without a
    // title here, only the number makes a heading an Item.
    item(1, 4, 1, &[]),
    part(2, &[]),
    item(
        2,
        5,
        0,
        &[
            MARKET,
            "Market for the Registrant's Common Stock and Related Security Holder Matters",
        ],
    ),
    item(
        2,
        6,
        0,
        &[
            "Reserved",
            "Selected Financial Data",
            "Selected Consolidated Financial Data",
        ],
    ),
    item(2, 7, 0, &[MDA]),
    item(2, 7, 1, &[MARKET_RISK]),
    item(
        2,
        8,
        0,
        &[
            "Financial Statements and Supplementary Data",
            "Consolidated Financial Statements",
        ],
    ),
    item(2, 9, 0, &[DISAGREEMENTS]),
    item(2, 9, 1, &["Controls and Procedures"]),
    item(2, 9, 2, &["Other Information"]),
    item(
        2,
        9,
        3,
        &["Disclosure Regarding Foreign Jurisdictions that Prevent Inspections"],
    ),
    part(3, &[]),
    item(
        3,
        10,
        0,
        &[
            "Directors, Executive Officers and Corporate Governance",
            "Directors and Executive Officers of the Registrant",
        ],
    ),
    item(3, 11, 0, &["Executive Compensation"]),
    item(3, 12, 0, &[OWNERSHIP]),
    item(
        3,
        13,
        0,
        &[RELATED, "Certain Relationships and Related Transactions"],
    ),
    item(
        3,
        14,
        0,
        &[
            "Principal Accountant Fees and Services",
            "Principal Accounting Fees and Services",
        ],
    ),
    part(4, &[]),
    item(
        4,
        15,
        0,
        &[
            "Exhibits and Financial Statement Schedules",
            "Exhibits, Financial Statement Schedules",
            "Exhibits",
        ],
    ),
    item(4, 16, 0, &["Form 10-K Summary"]),
];

static QUARTERLY: [FormItem; 13] = [
    part(1, &["Financial Information"]),
    item(
        1,
        1,
        0,
        &[
            "Financial Statements",
            "Consolidated Financial Statements",
            "Condensed Consolidated Financial Statements",
            "Unaudited Financial Statements",
        ],
    ),
    item(1, 2, 0, &[MDA]),
    item(1, 3, 0, &[MARKET_RISK]),
    item(1, 4, 0, &["Controls and Procedures"]),
    part(2, &["Other Information"]),
    item(2, 1, 0, &["Legal Proceedings"]),
    item(2, 1, 1, &["Risk Factors"]),
    item(
        2,
        2,
        0,
        &[
            "Unregistered Sales of Equity Securities and Use of Proceeds",
            "Unregistered Sales of Equity Securities, Use of Proceeds and Issuer Purchases of Equity Securities",
            "Issuer Purchases of Equity Securities",
        ],
    ),
    item(2, 3, 0, &["Defaults Upon Senior Securities"]),
    item(
        2,
        4,
        0,
        &[
            "Mine Safety Disclosures",
            "Submission of Matters to a Vote of Security Holders",
        ],
    ),
    item(2, 5, 0, &["Other Information"]),
    item(2, 6, 0, &["Exhibits", "Exhibits and Reports on Form 8-K"]),
];

static CURRENT: [FormItem; 33] = [
    item(0, 1, 1, &["Entry into a Material Definitive Agreement"]),
    item(0, 1, 2, &["Termination of a Material Definitive Agreement"]),
    item(0, 1, 3, &["Bankruptcy or Receivership"]),
    item(
        0,
        1,
        4,
        &["Mine Safety - Reporting of Shutdowns and Patterns of Violations"],
    ),
    item(0, 1, 5, &["Material Cybersecurity Incidents"]),
    item(
        0,
        2,
        1,
        &["Completion of Acquisition or Disposition of Assets"],
    ),
    item(0, 2, 2, &["Results of Operations and Financial Condition"]),
    item(
        0,
        2,
        3,
        &[
            "Creation of a Direct Financial Obligation or an Obligation under an Off-Balance Sheet Arrangement of a Registrant",
        ],
    ),
    item(
        0,
        2,
        4,
        &["Triggering Events That Accelerate or Increase a Direct Financial Obligation"],
    ),
    item(
        0,
        2,
        5,
        &["Costs Associated with Exit or Disposal Activities"],
    ),
    item(0, 2, 6, &["Material Impairments"]),
    item(
        0,
        3,
        1,
        &[
            "Notice of Delisting or Failure to Satisfy a Continued Listing Rule or Standard; Transfer of Listing",
        ],
    ),
    item(0, 3, 2, &["Unregistered Sales of Equity Securities"]),
    item(
        0,
        3,
        3,
        &["Material Modification to Rights of Security Holders"],
    ),
    item(0, 4, 1, &["Changes in Registrant's Certifying Accountant"]),
    item(
        0,
        4,
        2,
        &["Non-Reliance on Previously Issued Financial Statements or a Related Audit Report"],
    ),
    item(0, 5, 1, &["Changes in Control of Registrant"]),
    item(
        0,
        5,
        2,
        &[
            "Departure of Directors or Certain Officers; Election of Directors; Appointment of Certain Officers; Compensatory Arrangements of Certain Officers",
        ],
    ),
    item(
        0,
        5,
        3,
        &["Amendments to Articles of Incorporation or Bylaws; Change in Fiscal Year"],
    ),
    item(
        0,
        5,
        4,
        &["Temporary Suspension of Trading Under Registrant's Employee Benefit Plans"],
    ),
    item(
        0,
        5,
        5,
        &[
            "Amendments to the Registrant's Code of Ethics, or Waiver of a Provision of the Code of Ethics",
        ],
    ),
    item(0, 5, 6, &["Change in Shell Company Status"]),
    item(
        0,
        5,
        7,
        &["Submission of Matters to a Vote of Security Holders"],
    ),
    item(0, 5, 8, &["Shareholder Director Nominations"]),
    item(0, 6, 1, &["ABS Informational and Computational Material"]),
    item(0, 6, 2, &["Change of Servicer or Trustee"]),
    item(
        0,
        6,
        3,
        &["Change in Credit Enhancement or Other External Support"],
    ),
    item(0, 6, 4, &["Failure to Make a Required Distribution"]),
    item(0, 6, 5, &["Securities Act Updating Disclosure"]),
    item(0, 6, 6, &["Static Pool"]),
    item(0, 7, 1, &["Regulation FD Disclosure"]),
    item(0, 8, 1, &["Other Events"]),
    item(0, 9, 1, &["Financial Statements and Exhibits"]),
];

static FOREIGN: [FormItem; 34] = [
    part(1, &[]),
    item(
        1,
        1,
        0,
        &["Identity of Directors, Senior Management and Advisers"],
    ),
    item(1, 2, 0, &["Offer Statistics and Expected Timetable"]),
    item(1, 3, 0, &["Key Information"]),
    item(1, 4, 0, &["Information on the Company"]),
    item(1, 4, 1, &["Unresolved Staff Comments"]),
    item(1, 5, 0, &["Operating and Financial Review and Prospects"]),
    item(1, 6, 0, &["Directors, Senior Management and Employees"]),
    item(
        1,
        7,
        0,
        &["Major Shareholders and Related Party Transactions"],
    ),
    item(1, 8, 0, &["Financial Information"]),
    item(1, 9, 0, &["The Offer and Listing"]),
    item(1, 10, 0, &["Additional Information"]),
    item(1, 11, 0, &[MARKET_RISK]),
    item(
        1,
        12,
        0,
        &["Description of Securities Other than Equity Securities"],
    ),
    part(2, &[]),
    item(
        2,
        13,
        0,
        &["Defaults, Dividend Arrearages and Delinquencies"],
    ),
    item(
        2,
        14,
        0,
        &["Material Modifications to the Rights of Security Holders and Use of Proceeds"],
    ),
    item(2, 15, 0, &["Controls and Procedures"]),
    item(2, 16, 0, &["Reserved"]),
    item(2, 16, 1, &["Audit Committee Financial Expert"]),
    item(2, 16, 2, &["Code of Ethics"]),
    item(2, 16, 3, &["Principal Accountant Fees and Services"]),
    item(
        2,
        16,
        4,
        &["Exemptions from the Listing Standards for Audit Committees"],
    ),
    item(
        2,
        16,
        5,
        &["Purchases of Equity Securities by the Issuer and Affiliated Purchasers"],
    ),
    item(2, 16, 6, &["Change in Registrant's Certifying Accountant"]),
    item(2, 16, 7, &["Corporate Governance"]),
    item(2, 16, 8, &["Mine Safety Disclosure"]),
    item(
        2,
        16,
        9,
        &["Disclosure Regarding Foreign Jurisdictions that Prevent Inspections"],
    ),
    item(2, 16, 10, &["Insider Trading Policies"]),
    item(2, 16, 11, &["Cybersecurity"]),
    part(3, &[]),
    item(3, 17, 0, &["Financial Statements"]),
    item(3, 18, 0, &["Financial Statements"]),
    item(3, 19, 0, &["Exhibits"]),
];

impl SecForm {
    pub(super) const ALL: [SecForm; 4] = [
        SecForm::Annual,
        SecForm::Quarterly,
        SecForm::Current,
        SecForm::Foreign,
    ];

    /// PARTs and Items in the order of the form.
    pub(super) fn items(self) -> &'static [FormItem] {
        match self {
            SecForm::Annual => &ANNUAL,
            SecForm::Quarterly => &QUARTERLY,
            SecForm::Current => &CURRENT,
            SecForm::Foreign => &FOREIGN,
        }
    }

    /// Normalized names of the form on its cover.
    pub(super) fn cover_words(self) -> &'static [&'static str] {
        match self {
            SecForm::Annual => &["form10k", "form10ka", "form10kt", "form10k405"],
            SecForm::Quarterly => &["form10q", "form10qa", "form10qt"],
            SecForm::Current => &["form8k", "form8ka", "form8k12b"],
            SecForm::Foreign => &["form20f", "form20fa"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_in_form_order() {
        for form in SecForm::ALL {
            let keys: Vec<_> = form
                .items()
                .iter()
                .map(|item| (item.part, item.tag))
                .collect();
            assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{form:?}");
        }
    }
}
