//! Facts of inline XBRL (Inline XBRL 1.0 and 1.1): figures and texts of a filing with concept, period, unit, scale and
//! dimensions, as the company itself declared them.
//!
//! [`read_facts`] reads the bytes of an HTML file into a [`FactTable`], a struct of columns that is stored and sent with
//! [`encode_facts`] and [`decode_facts`]. Reading never fails: what cannot be read is a recorded defect, and a displayed
//! text whose format is unknown has no value.
//!
//! ```
//! let filing = r#"<html xmlns:ix="http://www.xbrl.org/2013/inlineXBRL"
//!     xmlns:xbrli="http://www.xbrl.org/2003/instance"><ix:header><ix:resources>
//! <xbrli:context id="c"><xbrli:entity><xbrli:identifier scheme="x">0000012345</xbrli:identifier></xbrli:entity>
//! <xbrli:period><xbrli:instant>2024-12-31</xbrli:instant></xbrli:period></xbrli:context>
//! <xbrli:unit id="u"><xbrli:measure>iso4217:USD</xbrli:measure></xbrli:unit></ix:resources></ix:header>
//! $<ix:nonFraction name="us-gaap:Assets" contextRef="c" unitRef="u" scale="6" decimals="-6">12</ix:nonFraction></html>"#;
//! let table = stemma_xbrl::read_facts(filing.as_bytes());
//! let fact = table.facts().next().unwrap();
//! assert_eq!((fact.concept, fact.period.to_string().as_str()), ("us-gaap:Assets", "2024-12-31"));
//! assert_eq!(fact.number().unwrap().to_string(), "12000000");
//! ```

mod codec;
mod concept_words;
mod date;
mod fact;
mod labels;
mod reader;
mod table;
mod transform;

pub use codec::{FactsCodecError, decode_facts, encode_facts, raw_facts_bytes};
pub use concept_words::concept_words;
pub use date::Date;
pub use fact::{Decimals, FactValue, Period, TaggedFact};
pub use labels::{Labels, labels_defect, read_labels};
pub use reader::read_facts;
pub use table::{FactTable, TextPart};
