//! The vocabulary of generated filings: names, headings, sentences. All of it was written for this purpose.

use std::collections::BTreeSet;

use crate::random::Rng;

const NAMES: [&str; 24] = [
    "Alder Creek",
    "Bluewater",
    "Calder & Finch",
    "Dunmore",
    "Eastvale",
    "Farrow Hill",
    "Granite Point",
    "Harlan Ridge",
    "Ironbridge",
    "Juniper Bay",
    "Kestrel",
    "Lakemont",
    "Marlow Vance",
    "Northfield",
    "Oakhurst",
    "Pinecrest",
    "Quillon",
    "Redstone Valley",
    "Silverton",
    "Thornbury",
    "Upland Grove",
    "Verity Lane",
    "Westerly",
    "Yarrow",
];
const TRADES: [&str; 12] = [
    "Industries",
    "Energy",
    "Foods",
    "Logistics",
    "Materials",
    "Instruments",
    "Health",
    "Semiconductor",
    "Paper",
    "Brands",
    "Aerospace",
    "Water Systems",
];
const FORMS: [&str; 4] = ["Inc.", "Corporation", "Company", "Holdings, Inc."];

const SUBJECTS: [&str; 26] = [
    "The Company",
    "Our management",
    "The segment",
    "Our largest customer",
    "The board of directors",
    "Each business unit",
    "The audit committee",
    "Our treasury group",
    "The parent",
    "Net revenue of the region",
    "The purchasing organization",
    "Our distribution network",
    "The pension trust",
    "Operating income",
    "The subsidiary",
    "Cash provided by operations",
    "Gross margin",
    "The new plant",
    "Selling expense",
    "Our backlog",
    "The joint venture",
    "Capital spending",
    "The workforce",
    "Inventory on hand",
    "The service business",
    "Our supplier base",
];
const PREDICATES: [&str; 30] = [
    "continued to improve",
    "was affected by higher freight rates",
    "depends on a small number of contracts",
    "has been reviewed by independent advisers",
    "remained close to the level of the prior year",
    "was reduced after the reorganization",
    "may vary with the price of raw materials",
    "reflects the timing of shipments",
    "benefited from a favorable mix of products",
    "is expected to decline over the next three years",
    "was offset in part by savings in purchasing",
    "includes amounts that were estimated",
    "is subject to regulation in several countries",
    "grew faster than the markets in which it competes",
    "has not changed in any material respect",
    "was measured at fair value",
    "required judgment about future demand",
    "is renewed every year",
    "exceeded the plan that was approved in the spring",
    "was recorded when control passed to the buyer",
    "would be harmed by a long interruption of supply",
    "is hedged with forward contracts of short duration",
    "was refinanced at a lower rate",
    "rose because of acquisitions completed late in the year",
    "is tested for impairment each October",
    "fell as older facilities were closed",
    "has been allocated among the reportable segments",
    "was paid in four equal installments",
    "will be amortized over its remaining life",
    "is insured under policies with customary exclusions",
];
const CLAUSES: [&str; 22] = [
    "compared with the prior year",
    "in the ordinary course of business",
    "subject to customary conditions",
    "on a constant currency basis",
    "as discussed with the audit committee",
    "under the terms of the credit agreement",
    "before the effect of income taxes",
    "in most of our principal markets",
    "although competition remained intense",
    "while demand in Europe weakened",
    "after the closing of the transaction",
    "because lead times became longer",
    "as the new system came into use",
    "without regard to seasonal effects",
    "in accordance with the policy described above",
    "to the extent permitted by law",
    "except for two smaller sites",
    "over the life of the arrangement",
    "despite higher wages",
    "as planned",
    "at the end of the period",
    "for the reasons given earlier",
];
const OPENERS: [&str; 10] = [
    "With respect to",
    "In the area of",
    "As regards",
    "In connection with",
    "For",
    "Turning to",
    "In managing",
    "When we assess",
    "On",
    "In measuring",
];
const NOUNS: [&str; 44] = [
    "Revenue",
    "Pricing",
    "Supply",
    "Distribution",
    "Customers",
    "Competition",
    "Research",
    "Patents",
    "Employees",
    "Facilities",
    "Inventories",
    "Goodwill",
    "Leases",
    "Borrowings",
    "Pensions",
    "Warranties",
    "Dividends",
    "Taxation",
    "Currency",
    "Interest Rates",
    "Commodities",
    "Litigation",
    "Insurance",
    "Environment",
    "Data Protection",
    "Software",
    "Logistics",
    "Acquisitions",
    "Divestitures",
    "Segments",
    "Seasonality",
    "Backlog",
    "Contracts",
    "Licensing",
    "Quality",
    "Safety",
    "Training",
    "Governance",
    "Compliance",
    "Maintenance",
    "Capacity",
    "Energy",
    "Packaging",
    "Advertising",
];
const ADJECTIVES: [&str; 22] = [
    "Domestic",
    "International",
    "Long-Term",
    "Strategic",
    "Regional",
    "Consolidated",
    "Projected",
    "Recurring",
    "Deferred",
    "Operational",
    "Industrial",
    "Commercial",
    "Residential",
    "Foreign",
    "Wholesale",
    "Seasonal",
    "Contractual",
    "Technical",
    "Renewable",
    "Municipal",
    "Corporate",
    "Statutory",
];
const PLACES: [&str; 12] = [
    "the Americas",
    "Northern Europe",
    "Southern Europe",
    "Asia Pacific",
    "Latin America",
    "the Midwest",
    "Coastal Markets",
    "Canada",
    "Japan",
    "the Gulf Region",
    "Africa",
    "Emerging Markets",
];
const DANGERS: [&str; 16] = [
    "A prolonged interruption of supply",
    "The loss of a principal customer",
    "Changes in trade policy",
    "A failure of our information systems",
    "Higher interest rates",
    "Increased competition",
    "Adverse outcomes in legal proceedings",
    "A shortage of skilled employees",
    "Severe weather",
    "Defects in our products",
    "Volatile commodity prices",
    "New environmental rules",
    "Delays in completing our capital projects",
    "Weak demand in our end markets",
    "An impairment of goodwill",
    "The departure of key executives",
];
const HARMS: [&str; 10] = [
    "could reduce our revenue",
    "could harm our results of operations",
    "may increase our costs",
    "could damage our reputation",
    "may limit our ability to pay dividends",
    "could delay the introduction of new products",
    "may adversely affect our liquidity",
    "could expose us to claims for which we are not insured",
    "could require us to record charges",
    "may make it harder to attract investors",
];
const DANGER_ENDS: [&str; 8] = [
    "",
    " and the price of our stock",
    " in any given period",
    ", in particular in our smaller segments",
    " for a considerable time",
    " and our relations with suppliers",
    " beyond what we have planned for",
    ", and we may be unable to recover from it quickly",
];

/// The name of a registrant.
pub(crate) fn company(rng: &mut Rng) -> String {
    format!(
        "{} {} {}",
        rng.pick(&NAMES),
        rng.pick(&TRADES),
        rng.pick(&FORMS)
    )
}

/// A sentence. A third of them name the topic.
pub(crate) fn sentence(rng: &mut Rng, topic: &str) -> String {
    let mut out = String::with_capacity(160);
    let subject = rng.pick(&SUBJECTS);
    if rng.chance(35) {
        let opener = rng.pick(&OPENERS);
        out.extend([opener, " ", topic, ", "]);
        let (first, rest) = subject.split_at(1);
        out.extend([first.to_lowercase().as_str(), rest]);
    } else {
        out.push_str(subject);
    }
    out.extend([" ", rng.pick(&PREDICATES)]);
    match rng.below(4) {
        0 => out.push_str(&format!(
            ", or {}.{}% of the total",
            rng.between(1, 98),
            rng.below(10)
        )),
        1 => out.push_str(&format!(
            ", an amount of ${},{:03} million",
            rng.between(1, 30),
            rng.below(1000)
        )),
        _ => out.extend([" ", rng.pick(&CLAUSES)]),
    }
    if rng.chance(40) {
        out.extend([
            ", and ",
            &rng.pick(&SUBJECTS).to_lowercase(),
            " ",
            rng.pick(&PREDICATES),
        ]);
    }
    out.push('.');
    out
}

/// A paragraph of three to seven sentences.
pub(crate) fn paragraph(rng: &mut Rng, topic: &str) -> String {
    let mut out = String::with_capacity(900);
    for n in 0..rng.between(3, 7) {
        if n > 0 {
            out.push(' ');
        }
        out.push_str(&sentence(rng, topic));
    }
    out
}

/// Headings without repetition within a document.
#[derive(Debug, Default)]
pub(crate) struct UniqueTitles {
    used: BTreeSet<String>,
}

impl UniqueTitles {
    /// A short heading in title case.
    pub(crate) fn short(&mut self, rng: &mut Rng) -> String {
        self.fresh(rng, |rng| match rng.below(4) {
            0 => format!("{} {}", rng.pick(&ADJECTIVES), rng.pick(&NOUNS)),
            1 => format!("{} and {}", rng.pick(&NOUNS), rng.pick(&NOUNS)),
            2 => format!("{} in {}", rng.pick(&NOUNS), rng.pick(&PLACES)),
            _ => format!(
                "{} {} in {}",
                rng.pick(&ADJECTIVES),
                rng.pick(&NOUNS),
                rng.pick(&PLACES)
            ),
        })
    }

    /// A heading that is a full sentence, like those of risk factors. Often wider than a line.
    pub(crate) fn danger(&mut self, rng: &mut Rng) -> String {
        self.fresh(rng, |rng| {
            format!(
                "{} {}{}.",
                rng.pick(&DANGERS),
                rng.pick(&HARMS),
                rng.pick(&DANGER_ENDS)
            )
        })
    }

    pub(crate) fn chinese(&mut self, rng: &mut Rng) -> String {
        self.fresh(rng, |rng| {
            format!(
                "{}{}{}",
                rng.pick(&CN_ADJECTIVES),
                rng.pick(&CN_NOUNS),
                rng.pick(&CN_ENDS)
            )
        })
    }

    fn fresh(&mut self, rng: &mut Rng, make: impl Fn(&mut Rng) -> String) -> String {
        for _ in 0..40 {
            let title = make(rng);
            if self.used.insert(title.clone()) {
                return title;
            }
        }
        let base = make(rng);
        let title = format!("{} ({})", base.trim_end_matches('.'), self.used.len());
        self.used.insert(title.clone());
        title
    }
}

/// A figure with thousands separators. A fifth are in parentheses, a few are a dash.
pub(crate) fn figure(rng: &mut Rng) -> String {
    let value = format!("{},{:03}", rng.between(1, 99), rng.below(1000));
    match rng.below(20) {
        0 => "\u{2014}".into(),
        1..=4 => format!("({value})"),
        _ => value,
    }
}

const CN_SURNAMES: [&str; 8] = [
    "华岳", "东海", "长青", "北辰", "金桥", "天元", "云山", "明德",
];
const CN_TRADES: [&str; 6] = ["能源", "医药", "电子", "机械", "食品", "材料"];
const CN_SUBJECTS: [&str; 14] = [
    "公司",
    "本集团",
    "董事会",
    "管理层",
    "子公司",
    "主要客户",
    "研发团队",
    "审计委员会",
    "该业务板块",
    "经营活动现金流",
    "营业收入",
    "毛利率",
    "供应商",
    "新建产线",
];
const CN_PREDICATES: [&str; 16] = [
    "保持稳定增长",
    "较上年同期有所下降",
    "受到原材料价格波动的影响",
    "按照公允价值计量",
    "未发生重大变化",
    "符合监管部门的要求",
    "进一步优化产品结构",
    "加强了内部控制",
    "存在一定的不确定性",
    "完成了年度经营目标",
    "持续加大研发投入",
    "在报告期末进行减值测试",
    "依赖少数长期合同",
    "提高了资金使用效率",
    "积极拓展海外市场",
    "经独立第三方评估",
];
const CN_CLAUSES: [&str; 10] = [
    "报告期内",
    "与上年同期相比",
    "在正常经营过程中",
    "根据公司章程的规定",
    "由于市场需求变化",
    "截至报告期末",
    "在剔除汇率影响后",
    "经股东大会审议批准后",
    "按照企业会计准则",
    "面对复杂的外部环境",
];
const CN_ADJECTIVES: [&str; 14] = [
    "主要",
    "重大",
    "境外",
    "境内",
    "年度",
    "长期",
    "关联",
    "非经常性",
    "合并",
    "核心",
    "新增",
    "季节性",
    "专项",
    "其他",
];
const CN_NOUNS: [&str; 20] = [
    "收入",
    "成本",
    "资产",
    "负债",
    "客户",
    "供应商",
    "研发项目",
    "投资",
    "担保",
    "诉讼",
    "税费",
    "存货",
    "商誉",
    "租赁",
    "借款",
    "人员",
    "产能",
    "合同",
    "风险",
    "股利",
];
const CN_ENDS: [&str; 8] = [
    "情况", "分析", "说明", "变动", "构成", "管理", "安排", "进展",
];

/// The name of a Chinese registrant.
pub(crate) fn chinese_company(rng: &mut Rng) -> String {
    format!(
        "{}{}股份有限公司",
        rng.pick(&CN_SURNAMES),
        rng.pick(&CN_TRADES)
    )
}

pub(crate) fn chinese_sentence(rng: &mut Rng, topic: &str) -> String {
    let opening = if rng.chance(35) {
        format!("就{topic}而言")
    } else {
        rng.pick(&CN_CLAUSES).to_owned()
    };
    let first = format!(
        "{opening}，{}{}",
        rng.pick(&CN_SUBJECTS),
        rng.pick(&CN_PREDICATES)
    );
    match rng.below(3) {
        0 => format!(
            "{first}，金额为{}.{:02}万元。",
            rng.between(100, 99_999),
            rng.below(100)
        ),
        1 => format!(
            "{first}，{}{}。",
            rng.pick(&CN_SUBJECTS),
            rng.pick(&CN_PREDICATES)
        ),
        _ => format!("{first}。"),
    }
}

/// A Chinese paragraph of three to six sentences.
pub(crate) fn chinese_paragraph(rng: &mut Rng, topic: &str) -> String {
    let mut out = String::from("\u{3000}\u{3000}");
    (0..rng.between(3, 6)).for_each(|_| out.push_str(&chinese_sentence(rng, topic)));
    out
}

/// A number below 1,000 in Chinese digits.
pub(crate) fn chinese_number(n: usize) -> String {
    const DIGITS: [&str; 10] = ["", "一", "二", "三", "四", "五", "六", "七", "八", "九"];
    let hundreds = n / 100 % 10;
    let tens = n / 10 % 10;
    let ones = n % 10;
    let hundred = if hundreds > 0 {
        format!("{}百", DIGITS[hundreds])
    } else {
        String::new()
    };
    let ten = match (hundreds, tens) {
        (0, 1) => "十".to_owned(),
        (_, 0) if hundreds > 0 && ones > 0 => "零".to_owned(),
        (_, 0) => String::new(),
        (_, tens) => format!("{}十", DIGITS[tens]),
    };
    format!("{hundred}{ten}{}", DIGITS[ones])
}
