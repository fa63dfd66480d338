//! Seeds: small generated documents of every kind.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::json;
use stemma_document::{SectionTree, TreeObject, pageindex};
use stemma_extract::{EncodedSource, ExtractJob, Limits, extract};
use stemma_filings::{
    ContentsMode, Encryption, Filing, FilingKind, Spec, TextKind, generate, markdown, plain_text,
};
use stemma_outline::{enrich, structure};
use stemma_reading::document_reading::DocumentReading;

use crate::{inputs, targets};

/// Writes seeds into a folder.
pub fn write(folder: &Path, inputs: &[Vec<u8>]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (at, input) in inputs.iter().enumerate() {
        fs::write(folder.join(format!("seed-{at:03}")), input)?;
    }
    Ok(())
}

fn filings() -> Vec<Filing> {
    let modes = [
        ContentsMode::Outline,
        ContentsMode::Links,
        ContentsMode::PrintedOnly,
        ContentsMode::Nothing,
    ];
    let specs = FilingKind::ALL.into_iter().enumerate().map(|(n, kind)| {
        let contents = modes[n % modes.len()];
        Spec {
            pages: 6,
            contents,
            labels: n % 2 == 0,
            ..Spec::new(kind, n as u64)
        }
    });
    specs.map(|spec| generate(&spec)).collect()
}

/// Generated filings, plain and encrypted, a form, tags, and the uncompressed files of the other targets.
pub fn pdfs() -> Vec<Vec<u8>> {
    let encrypted = [Encryption::EmptyUserRc4, Encryption::EmptyUserAes256].map(|encryption| {
        generate(&Spec {
            pages: 4,
            encryption: Some(encryption),
            ..Spec::new(FilingKind::EarningsRelease, 3)
        })
        .pdf
    });
    let operators = operators()
        .into_iter()
        .map(|seed| inputs::pdf_from_operators(&seed));
    let graphs = graphs()
        .into_iter()
        .map(|seed| inputs::pdf_from_outline(&seed));
    filings()
        .into_iter()
        .map(|filing| filing.pdf)
        .chain(encrypted)
        .chain(operators)
        .chain(graphs)
        .chain([inputs::pdf_with_fields(), inputs::pdf_with_tags()])
        .collect()
}

/// Text operators of every kind.
pub fn operators() -> Vec<Vec<u8>> {
    let pages: [&[u8]; 11] = [
        b"BT /F1 12 Tf 72 700 Td (Item 1. Business) Tj 0 -20 Td (words and words) Tj ET",
        b"BT /F1 9 Tf 1 0 0 1 72 600 Tm [(Kern) -250 (ed) 20 (text)] TJ T* (next) ' 1 2 (last) \" ET",
        b"q 2 0 0 2 0 0 cm BT /F1 6 Tf 14 TL 3 Tr 2 Ts 90 Tz 1 Tc 2 Tw 30 300 TD (wide) Tj ET Q",
        b"BT /F1 10 Tf 0 1 -1 0 300 300 Tm (turned) Tj ET BT /F1 10 Tf 72 100 Td <48656C6C6F> Tj ET",
        b"/Span<</ActualText(real)>>BDC BT /F1 10 Tf 72 400 Td (fake) Tj ET EMC /Artifact BMC BT (x) Tj ET EMC",
        b"/Span<</ActualText<FEFF05E905DC05D505DD0020003200350020202E0028064406270029>>>BDC BT /F1 10 Tf 72 400 Td (logic) Tj ET EMC",
        b"BT /F1 10 Tf 72 400 Td (a) Tj ET BI /W 2 /H 2 /BPC 8 /CS /G ID abcd EI BT (b) Tj ET",
        b"BT /F1 10 Tf 72 700 Td (left) Tj 250 0 Td (right) Tj -250 -12 Td (left) Tj 250 0 Td (right) Tj ET",
        b"1 g BT /F1 9 Tf 9 9 Td (white) Tj ET 0 0 .5 rg 0 0 99 20 re f 0 0 0 0 k 0 0 m 9 0 l 5 9 l h W n 7 Tr BT (clip) Tj ET",
        b"/Cs cs .2 scn 9 w [2] 0 d 0 9 m 99 9 l S 1 1 1 rg 0 0 9 9 re 2 2 5 5 re f* /OC /L BDC BT /F1 1 Tf (tiny) Tj ET EMC",
        b"q q Q Q Q BT ET BT /F9 1e9 Tf 1e30 -1e30 Td (far) Tj 0 0 0 0 0 0 Tm (flat) Tj ET",
    ];
    let mut seeds: Vec<Vec<u8>> = pages.iter().map(|page| page.to_vec()).collect();
    seeds.push(pages.join(&b'\x0c'));
    seeds
}

/// Outlines: flat, nested, with a cycle, with every kind of destination.
pub fn graphs() -> Vec<Vec<u8>> {
    let entry = |child: u8, next: u8, to: u8, how: u8, title: &str| {
        let mut bytes = vec![child, next, 0, to, how, title.len() as u8];
        bytes.extend(title.bytes());
        bytes
    };
    let flat = (0..6)
        .map(|n| entry(0, 1, 128 + n, n, "Heading"))
        .collect::<Vec<_>>()
        .concat();
    let nested = (0..6)
        .map(|n| entry(1, 0, 130 + n, 2, "Deeper"))
        .collect::<Vec<_>>()
        .concat();
    let cyclic = (0..3)
        .map(|n| entry(n, 3 - n, 200, 0, "Round"))
        .collect::<Vec<_>>()
        .concat();
    let aims = (0..8)
        .map(|n| entry(0, 1, n * 32 + 1, 1, "\0A\0i\0m"))
        .collect::<Vec<_>>()
        .concat();
    vec![flat, nested, cyclic, aims]
}

/// Texts of pages, among them tables of contents.
pub fn page_texts() -> Vec<Vec<u8>> {
    let contents = "^*TABLE OF CONTENTS\n\t*Page\n@\u{1}PART I\t1\n@\u{1}Item 1. Business\t1\n\tItem 1A. Risk Factors . . . . . 2\n\
        PART II\n\tItem 7. Management\u{2019}s Discussion ........ 3\n\t\tOverview\tF-4\n\x0c*PART I\n*Item 1. Business\nText of it.\n1\n\
        \x0c*Item 1A. Risk Factors\nText.\n2\n\x0c*PART II\n*Item 7. Management\u{2019}s Discussion\n/Overview\n3\n";
    let mut seeds = vec![contents.as_bytes().to_vec()];
    seeds.extend(
        filings()
            .iter()
            .map(|filing| filing.page_texts.join("\x0c").into_bytes()),
    );
    let marked = filings().into_iter().map(|filing| {
        let titles: Vec<&str> = filing
            .truth
            .nodes
            .iter()
            .map(|node| node.title.as_str())
            .collect();
        filing
            .page_texts
            .iter()
            .map(|text: &String| {
                text.lines()
                    .map(|line: &str| {
                        if titles.contains(&line) {
                            format!("^*{line}\n")
                        } else {
                            format!("{line}\n")
                        }
                    })
                    .collect::<String>()
            })
            .collect::<Vec<_>>()
            .join("\x0c")
            .into_bytes()
    });
    seeds.extend(marked);
    seeds
}

/// Markdown with all syntax elements.
pub fn markdowns() -> Vec<Vec<u8>> {
    let marks = "---\ntitle: \"a\"\n---\n# One\n\nTwo\n---\n\n```\n# no\n```\n> # quoted\n\n| a | b |\n|---|---|\n| # | 1 |\n\n\
        <h2>html</h2>\n\n<!-- # no -->\n\n- # item\n\n####### seven\n\n## *a* [b](c) `d` &amp; \\# ##\n";
    let mut seeds = vec![marks.as_bytes().to_vec(), utf16(marks)];
    seeds.extend((0..3).map(|seed| markdown(seed, 5).0.into_bytes()));
    seeds
}

// Headings in scripts without capitals, marks of direction, text without spaces, points without end.
const SCRIPTS: &str = "1. \u{202e}מבוא\u{202c}\n\nהחברה\u{200f} (בע״מ) 2023.\n\n٢. مقدمة\n\nش\u{64e}ر\u{650}ك\u{64e}ة ١٬٢٣٤٫٥۔\n\n३. परिचय\n\n\
    क\u{94d}\u{200d}ष।\n\n๔. บทนำ\n\nบริษัทดำเนินธุรกิจ\u{e48}\u{e48}\u{e48}\n\n５．はじめに\n\na\u{301}\u{301}\u{301}\u{301} \u{2067}\u{2066}x\u{2069}\n";

/// Plain text and EDGAR submissions.
pub fn texts() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = TextKind::ALL
        .iter()
        .map(|(kind, _)| plain_text(5, *kind, 5).0.into_bytes())
        .collect();
    seeds.push(utf16("1. One\n\ntext\n\n2. Two\n"));
    seeds.push(SCRIPTS.into());
    seeds
}

/// A filing with tagged facts.
pub const TAGGED_FILING: &str = r##"<?xml version="1.0" encoding="utf-8"?>
<html xmlns:ix="http://www.xbrl.org/2013/inlineXBRL" xmlns:xbrli="http://www.xbrl.org/2003/instance" xmlns:us-gaap="http://fasb.org/us-gaap/2024">
<body style="font-family:Times;font-size:10pt"><div style="display:none"><ix:header><ix:hidden>
<ix:nonNumeric name="dei:EntityCentralIndexKey" contextRef="y">0000000077</ix:nonNumeric></ix:hidden><ix:resources>
<xbrli:context id="y"><xbrli:entity><xbrli:identifier scheme="x">0000000077</xbrli:identifier></xbrli:entity><xbrli:period>
<xbrli:startDate>2023-01-01</xbrli:startDate><xbrli:endDate>2023-12-31</xbrli:endDate></xbrli:period></xbrli:context>
<xbrli:context id="d"><xbrli:entity><xbrli:identifier scheme="x">77</xbrli:identifier><xbrli:segment><xbrldi:explicitMember
dimension="a:b">a:c</xbrldi:explicitMember></xbrli:segment></xbrli:entity><xbrli:period><xbrli:instant>2023-12-31</xbrli:instant>
</xbrli:period></xbrli:context><xbrli:unit id="usd"><xbrli:measure>iso4217:USD</xbrli:measure></xbrli:unit></ix:resources></ix:header></div>
<p align="center"><font size="4"><b>FORM 10-K</b></font></p>
<table><tr><td><a href="#i1">Item 1.</a></td><td>Business</td><td align="right">3</td></tr></table><hr style="page-break-after:always">
<p id="i1" style="font-weight:bold">Item&nbsp;1. Business</p><p>We make anvils &amp; rockets&#8212;many.</p>
<table border="1"><tr><td rowspan="2"></td><td colspan="3"><b>Year ended</b></td></tr><tr><td></td><td colspan="2">2023</td></tr>
<tr><td>Revenue</td><td>$</td><td><ix:nonFraction name="us-gaap:Revenues" contextRef="y" unitRef="usd" scale="6" decimals="-6"
format="ixt:num-dot-decimal">1,234</ix:nonFraction></td><td>)</td></tr><tr><td>Loss</td><td>(</td><td><ix:nonFraction
name="us-gaap:ProfitLoss" contextRef="d" unitRef="usd" sign="-" scale="6">56.7</ix:nonFraction></td></tr></table>
<ul><li>one<li>two</ul><pre>kept   as it is</pre><ix:continuation id="c1" continuedAt="c2">a</ix:continuation>
<ix:nonNumeric name="us-gaap:Policy" contextRef="y" continuedAt="c1" escape="true"><b>Item 1A. Risk Factors</b></ix:nonNumeric>
<!-- no --><script>no()</script><style>p{}</style><center>5</center></body></html>"##;

/// Pages with every kind of element: styles, old fonts, tables with spans, links, tags of inline XBRL.
pub fn pages_of_html() -> Vec<Vec<u8>> {
    let old = "<HTML><HEAD><TITLE>x</TITLE></HEAD><BODY><P ALIGN=CENTER><FONT SIZE=5><B>PART I</B></FONT><PAGE><TABLE><TR><TD>a<TD>b\
        <TR><TH COLSPAN=2>c</TABLE><P>caf\u{e9} &eacute; &#x41; &bogus; <A NAME=x></A><A HREF=\"#x\">Item 2.</A>";
    vec![
        TAGGED_FILING.as_bytes().to_vec(),
        old.as_bytes().to_vec(),
        utf16(old),
        old.chars()
            .map(|c| u8::try_from(c).unwrap_or(b'?'))
            .collect(),
    ]
}

const HEADER: &str = "<SEC-HEADER>0000000077-23-000012.hdr.sgml : 20230301\nACCESSION NUMBER:\t\t0000000077-23-000012\n\
    CONFORMED SUBMISSION TYPE:\t10-K\nPUBLIC DOCUMENT COUNT:\t\t2\nCONFORMED PERIOD OF REPORT:\t20221231\nFILED AS OF DATE:\t\t20230301\n\n\
    FILER:\n\n\tCOMPANY DATA:\t\n\t\tCOMPANY CONFORMED NAME:\t\t\tACME CORP\n\t\tCENTRAL INDEX KEY:\t\t\t0000000077\n</SEC-HEADER>\n";

/// An ownership report, a table of holdings, and entities that expand into each other.
pub fn xml_documents() -> Vec<Vec<u8>> {
    let holding = "<infoTable><nameOfIssuer>A</nameOfIssuer><value>1</value><votingAuthority><Sole>1</Sole></votingAuthority></infoTable>";
    vec![
        OWNERSHIP.as_bytes().to_vec(),
        format!(
            "<informationTable xmlns=\"x\">{}</informationTable>",
            holding.repeat(3)
        )
        .into_bytes(),
        b"<!DOCTYPE r [<!ENTITY a \"b\"><!ENTITY c \"&a;&a;\">]><r><x>&c;</x><y z=\"1\"/></r>"
            .to_vec(),
    ]
}

const OWNERSHIP: &str = "<?xml version=\"1.0\"?><ownershipDocument><documentType>4</documentType><issuer><issuerName>A</issuerName>\
    <issuerCik>0000000001</issuerCik></issuer><nonDerivativeTable><nonDerivativeTransaction><transactionShares><value>5</value>\
    <footnoteId id=\"F1\"/></transactionShares></nonDerivativeTransaction></nonDerivativeTable><footnotes><footnote id=\"F1\">x</footnote>\
    </footnotes></ownershipDocument>";

/// Full submissions, without their first line.
pub fn submissions() -> Vec<Vec<u8>> {
    let document = |kind: &str, name: &str, text: &str| {
        format!(
            "<DOCUMENT>\n<TYPE>{kind}\n<SEQUENCE>1\n<FILENAME>{name}\n<DESCRIPTION>x\n<TEXT>\n{text}\n</TEXT>\n</DOCUMENT>\n"
        )
    };
    let uuencoded = "begin 644 a.jpg\nM_]C_X``02D9)1@`!`0``\n`\nend";
    let parts = [
        document("10-K", "a.htm", TAGGED_FILING),
        document("EX-21", "b.txt", "<PAGE>\nExhibit 21\n\nSubsidiaries\n"),
        document("GRAPHIC", "a.jpg", uuencoded),
        document("EX-101.INS", "a.xml", "<XBRL>\n<xbrl></xbrl>\n</XBRL>"),
        document("4", "owner.xml", &format!("<XML>\n{OWNERSHIP}\n</XML>")),
        document(
            "EX-101.LAB",
            "a_lab.xml",
            &format!("<XBRL>\n{LINKBASE}\n</XBRL>"),
        ),
    ];
    let whole = format!("{HEADER}{}</SEC-DOCUMENT>\n", parts.concat());
    let text = plain_text(5, TextKind::ALL[0].0, 5).0;
    let cut = format!("{HEADER}<DOCUMENT>\n<TYPE>10-Q\n<TEXT>\n<PAGE>\n{text}");
    vec![whole.into_bytes(), cut.into_bytes()]
}

/// Index files of every kind, behind a byte that selects it.
pub fn index_files() -> Vec<Vec<u8>> {
    let headers = format!("<html><pre>{HEADER}</pre><a href=\"a.htm\">a.htm</a></html>");
    let page = "<div class=\"formGrouping\"><div class=\"infoHead\">Filing Date</div><div class=\"info\">2023-03-01</div></div>\
        <table class=\"tableFile\" summary=\"Document Format Files\"><tr><td>1</td><td>10-K</td>\
        <td><a href=\"/Archives/edgar/data/77/000000007723000012/a.htm\">a.htm</a></td><td>10-K</td><td>12</td></tr></table>";
    let bodies = [headers, HEADER.to_owned(), page.to_owned(), "{}".to_owned()];
    let marked = (0..).zip(bodies);
    marked
        .map(|(kind, body): (u8, String)| [&[kind], body.as_bytes()].concat())
        .collect()
}

const LINKBASE: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<link:linkbase xmlns:link="http://www.xbrl.org/2003/linkbase" xmlns:xlink="http://www.w3.org/1999/xlink">
<link:labelLink xlink:role="http://www.xbrl.org/2003/role/link">
<link:loc xlink:type="locator" xlink:href="http://x/us-gaap.xsd#us-gaap_Revenues" xlink:label="loc_1"/>
<link:labelArc xlink:type="arc" xlink:from="loc_1" xlink:to="lab_1"/>
<link:label xlink:label="lab_1" xlink:role="http://www.xbrl.org/2003/role/terseLabel" xml:lang="en-US">Revenue</link:label>
<link:label xlink:label="lab_1" xlink:role="http://www.xbrl.org/2003/role/label" xml:lang="en-US">Revenue &amp;
other &#8212; <![CDATA[income]]></link:label>
<link:label xlink:label="lab_1" xml:lang="de">Umsatz</link:label></link:labelLink></link:linkbase>
"#;

/// Label linkbases: whole, without a namespace prefix, cut short, in UTF-16.
pub fn linkbases() -> Vec<Vec<u8>> {
    vec![
        LINKBASE.into(),
        LINKBASE.replace("link:", "").into_bytes(),
        LINKBASE[..LINKBASE.len() / 2].into(),
        utf16(LINKBASE),
    ]
}

/// Encoded facts.
pub fn encoded_facts() -> Vec<Vec<u8>> {
    let table = stemma_xbrl::read_facts(TAGGED_FILING.as_bytes());
    stemma_xbrl::encode_facts(&table).into_iter().collect()
}

fn utf16(text: &str) -> Vec<u8> {
    [0xFF, 0xFE]
        .into_iter()
        .chain(text.encode_utf16().flat_map(u16::to_le_bytes))
        .collect()
}

fn built() -> Vec<SectionTree> {
    let markdown = (markdown(2, 4).0.into_bytes(), "a.md");
    let pdfs = filings()
        .into_iter()
        .take(2)
        .map(|filing| (filing.pdf, "a.pdf"));
    pdfs.chain([markdown])
        .filter_map(|(bytes, name): (Vec<u8>, &str)| {
            let source =
                extract(ExtractJob::new(name.into(), bytes, None, Limits::default())).ok()?;
            let draft =
                structure::outline(&source, &structure::StructureSettings::default()).ok()?;
            let tree = SectionTree::build(&draft.outline, draft.method, draft.gaps);
            Some(enrich::finish(
                tree,
                &source,
                &DocumentReading::new(&source.body).lines,
                &enrich::SectionSettings::default(),
                &draft.labels,
            ))
        })
        .collect()
}

/// Stored trees.
pub fn trees() -> Vec<Vec<u8>> {
    built()
        .into_iter()
        .filter_map(|tree| {
            serde_json::to_vec(&TreeObject::Published(Box::new(targets::published(tree)))).ok()
        })
        .collect()
}

/// Encoded sources.
pub fn encoded_sources() -> Vec<Vec<u8>> {
    let documents = [
        (filings().swap_remove(3).pdf, "a.pdf"),
        (markdown(1, 3).0.into_bytes(), "a.md"),
    ];
    documents
        .into_iter()
        .filter_map(|(bytes, name): (Vec<u8>, &str)| {
            let source =
                extract(ExtractJob::new(name.into(), bytes, None, Limits::default())).ok()?;
            stemma_extract::encode_source(&source)
                .ok()
                .filter(|bytes| EncodedSource::open(bytes.clone()).is_ok())
        })
        .collect()
}

/// PageIndex trees: nested, flat with codes, wrapped, malformed.
pub fn imports() -> Vec<Vec<u8>> {
    let others = [
        json!([{"structure": "1", "title": "a", "physical_index": "<physical_index_3>"}, {"structure": "1.1", "title": "b", "page": "4"}]),
        json!({"doc_name": "x", "structure": [{"title": "a", "start_index": 1, "end_index": 2, "nodes": [{"title": "b", "start_index": 2}]}]}),
        json!({"result": {"tree": [{"name": "a", "line_num": 9, "children": [{"heading": "b", "line_num": 3}]}]}}),
        json!([{"title": "a", "start_index": -5, "end_index": 99_999_999}, {"title": "b", "start_index": 1.5e300}]),
    ];
    let exported = built().into_iter().map(|tree| {
        pageindex::export(
            &targets::published(tree),
            pageindex::ExportOptions::default(),
        )
    });
    exported
        .chain(others)
        .map(|value| value.to_string().into_bytes())
        .collect()
}

/// Claims over pages with a table and a sentence.
pub fn claims() -> Vec<Vec<u8>> {
    const PAGE: &str = "\x0c          Statements of income
          (In millions, except per share data)
                          2022       2021    Change
Net sales              $ 1,749    $ 1,603      9.1%
Capital expenditures     (900)      (800)     12.5%
Earnings per share        1.25       1.12     11.6%
Sales rose 9.1% to $1,749 million in 2022, because of Acme's new stores.";
    [
        "s Net sales were {a} in {a.period}.\nq 1|Net sales $ 1,749 $ 1,603 9.1%\nf a|1|1,749|$ million|Net sales|2022|",
        "s Net sales grew {m} from {b} to {a}.\nq 1|Net sales $ 1,749\nf a|1|1,749||Net sales|2022|\nf b|1|1,603||Net sales|2021|\nf m|0|9.1|%|||(a - b) / b * 100",
        "s Capital expenditure was {m} of sales.\nq 1|(900)\nf a|1|1,749||Net sales|2022|\nf c|1|(900)|$|Capital expenditures|2022|\nf m|0|51.5|%|||abs(c) / a",
        "s Sales rose {a} in 2022 at Acme's stores.\nq 1|Sales rose 9.1% to $1,749 million in 2022\nf a|1|9.1%||||",
        "s Acme has new stores.\nq 1|because of Acme's new stores",
    ]
    .iter()
    .map(|claim| format!("{claim}{PAGE}").into_bytes())
    .collect()
}
