//! Claims that say something else than the clause they cite.

use super::document::Document;
use crate::draft_answer::{DraftComputation, DraftOperand};

#[test]
fn a_claim_agrees_with_its_sentence_on_what_happened() {
    for (text, right, wrong) in [
        (
            "The company failed to comply with the covenants of its credit agreement.",
            "The company did not comply with the covenants of its credit agreement.",
            "The company complied with the covenants of its credit agreement.",
        ),
        (
            "Acme was unable to refinance the notes of its subsidiary.",
            "Acme was unable to refinance the notes of its subsidiary.",
            "Acme refinanced the notes of its subsidiary.",
        ),
        (
            "The board denied the request to increase the quarterly dividend.",
            "The board rejected the request to increase the quarterly dividend.",
            "The board approved the request to increase the quarterly dividend.",
        ),
        (
            "Demand for anvils is unlikely to recover before the next year.",
            "Demand for anvils is unlikely to recover before the next year.",
            "Demand for anvils will recover before the next year.",
        ),
        (
            "The auditor declined to confirm the inventories of the segment.",
            "The auditor refused to confirm the inventories of the segment.",
            "The auditor confirmed the inventories of the segment.",
        ),
        (
            "Acme no longer leases the warehouse in the harbor.",
            "Acme no longer leases the warehouse in the harbor.",
            "Acme leases the warehouse in the harbor.",
        ),
        (
            "We expect sales of $200 million in 2022 if the merger closes.",
            "Acme expects sales of $200 million in 2022.",
            "Sales were $200 million in 2022.",
        ),
        (
            "The segment could lose its largest customer next year.",
            "The segment may lose its largest customer.",
            "The segment lost its largest customer.",
        ),
        (
            "We plan to close the plant in Ohio by May 2022.",
            "Acme intends to close the plant in Ohio by May 2022.",
            "Acme closed the plant in Ohio in May 2022.",
        ),
        (
            "The complaint alleges that Acme misled investors about its inventories.",
            "It is alleged that Acme misled investors about its inventories.",
            "Acme misled investors about its inventories.",
        ),
        (
            "Excluding acquisitions, sales of the segment rose 5% in 2022.",
            "Sales of the segment rose 5% in 2022, excluding acquisitions.",
            "Sales of the segment rose 5% in 2022.",
        ),
        (
            "Acme sold the anvil business of Beta to its founders.",
            "Acme sold the anvil business of Beta.",
            "Acme acquired the anvil business of Beta.",
        ),
        (
            "Internal control over financial reporting was ineffective.",
            "Internal control over financial reporting was ineffective.",
            "Internal control over financial reporting was effective.",
        ),
    ] {
        let document = Document::new(text);
        assert!(document.supports(right, text), "{right} / {text}");
        assert!(!document.supports(wrong, text), "{wrong} / {text}");
    }
    // What another clause denies.
    let turned = Document::new("The plant opened on May 31, 2022, although the permit was denied.");
    assert!(turned.supports(
        "The plant opened on May 31, 2022.",
        "The plant opened on May 31, 2022"
    ));
    // A quote that leaves out the denial.
    let cut =
        Document::new("The company failed to comply with the covenants of its credit agreement.");
    assert!(!cut.supports(
        "The company complied with the covenants of its credit agreement.",
        "comply with the covenants of its credit agreement"
    ));
    for (text, wrong) in [
        (
            "The court dismissed the suit of the former employees.",
            "The court did not dismiss the suit of the former employees.",
        ),
        (
            "Acme did not cancel the merger agreement with Beta.",
            "Acme cancelled the merger agreement with Beta.",
        ),
    ] {
        assert!(!Document::new(text).supports(wrong, text), "{wrong}");
    }
    // Two denials are none.
    let paid = Document::new("Acme did not fail to pay the interest on its notes.");
    assert!(!paid.supports(
        "Acme failed to pay the interest on its notes.",
        "Acme did not fail to pay the interest on its notes."
    ));
}

#[test]
fn a_figure_of_a_sentence_belongs_to_its_clause() {
    for (text, right, wrong) in [
        (
            "Sales rose 5% because of higher prices; costs fell 3%.",
            vec!["Sales rose 5%.", "Costs fell 3%."],
            vec!["Costs fell 5%.", "Sales rose 3%.", "Expenses rose 5%."],
        ),
        (
            "Segment Alpha had sales of $7 million and Segment Beta had sales of $9 million.",
            vec![
                "Segment Alpha had sales of $7 million.",
                "Sales of Segment Beta were $9 million.",
            ],
            vec![
                "Segment Alpha had sales of $9 million.",
                "Segment Beta had sales of $7 million.",
            ],
        ),
        (
            "Acme had 31 stores and 400 employees.",
            vec!["Acme had 31 stores.", "Acme had 400 employees."],
            vec!["Acme had 400 stores.", "Acme had 31 employees."],
        ),
        (
            "Sales were $5 million in the United States and $4 million in Europe.",
            vec![
                "Sales in the United States were $5 million.",
                "Sales in Europe were $4 million.",
            ],
            vec![
                "Sales in Europe were $5 million.",
                "Sales in the United States were $4 million.",
            ],
        ),
        (
            "Sales of anvils were $5 million and of springs $4 million.",
            vec![
                "Sales of anvils were $5 million.",
                "Sales of springs were $4 million.",
            ],
            vec![
                "Sales of springs were $5 million.",
                "Sales of anvils were $4 million.",
            ],
        ),
        (
            "Sales were $7 million in 2022, compared with $4 million in 2021.",
            vec![
                "Sales were $7 million in 2022.",
                "Sales were $4 million in 2021.",
            ],
            vec!["Sales were $4 million in 2022."],
        ),
        (
            "Sales increased by $7 million to $90 million in 2022.",
            vec![
                "Sales increased by $7 million in 2022.",
                "Sales rose to $90 million in 2022.",
                "Sales were $90 million in 2022.",
            ],
            vec![
                "Sales were $7 million in 2022.",
                "Sales increased by $90 million in 2022.",
            ],
        ),
        (
            "Net sales and operating income were $90 million and $12 million, respectively.",
            vec![
                "Net sales were $90 million.",
                "Operating income was $12 million.",
            ],
            vec![
                "Costs were $12 million.",
                "Operating income was $90 million.",
                "Net sales were $12 million.",
            ],
        ),
        (
            "Sales were $5 million and $4 million in Europe and Asia, respectively.",
            vec![],
            vec![
                "Sales in Asia were $5 million.",
                "Sales in Europe were $4 million.",
            ],
        ),
        (
            "Sales were $5 billion, while costs fell sharply.",
            vec!["Sales were $5 billion."],
            vec!["Costs were $5 billion."],
        ),
        (
            "Costs fell sharply while sales were $5 billion.",
            vec!["Sales were $5 billion."],
            vec!["Costs were $5 billion."],
        ),
        (
            "While costs fell sharply, sales were $5 billion.",
            vec!["Sales were $5 billion."],
            vec!["Costs were $5 billion."],
        ),
        (
            "Although sales were $5 billion, costs fell sharply.",
            vec!["Sales were $5 billion."],
            vec!["Costs were $5 billion."],
        ),
        (
            "Sales were $5 billion and costs fell sharply.",
            vec!["Sales were $5 billion."],
            vec!["Costs were $5 billion."],
        ),
        (
            "Sales were strong but fell 5% in 2022.",
            vec!["Sales fell 5% in 2022."],
            vec!["Costs fell 5% in 2022."],
        ),
        (
            "Sales were $5 million though costs of $4 million were high.",
            vec!["Sales were $5 million.", "Costs were $4 million."],
            vec!["Costs were $5 million.", "Sales were $4 million."],
        ),
        (
            "Acme had 31 stores in Europe and 31 million customers in Asia.",
            vec!["Acme had 31 stores in Europe."],
            vec!["Acme had 31 stores in Asia."],
        ),
        // Equal figures of different things.
        (
            "Acme had 31 stores in Europe and 31 warehouses in Asia.",
            vec![
                "Acme had 31 stores in Europe.",
                "Acme had 31 warehouses in Asia.",
            ],
            vec![
                "Acme had 31 stores in Asia.",
                "Acme had 31 warehouses in Europe.",
            ],
        ),
        (
            "Sales in Europe were $5 million and costs in Asia were $5 million.",
            vec!["Sales in Europe were $5 million."],
            vec!["Sales in Asia were $5 million."],
        ),
    ] {
        let document = Document::new(text);
        for statement in right {
            assert!(document.supports(statement, text), "{statement} / {text}");
        }
        for statement in wrong {
            assert!(!document.supports(statement, text), "{statement} / {text}");
        }
    }
    // Operands are of their clauses, too.
    let text = "Acme had sales of $50 million in 2022 and costs of $40 million in 2022.";
    let document = Document::new(text);
    let computes = |sales: &str, costs: &str| {
        let operand = |name: &str, citation: i64, value: &str, row: &str| DraftOperand {
            name: name.into(),
            citation,
            value: value.into(),
            row: row.into(),
            period: "2022".into(),
        };
        let computation = DraftComputation {
            formula: "a / b".into(),
            operands: vec![operand("a", 1, "40", costs), operand("b", 2, "50", sales)],
            result: "80%".into(),
        };
        let statement = "Costs were 80% of sales in 2022.";
        document.check(statement, &[text, text], Some(computation))
    };
    assert!(computes("sales", "costs"));
    assert!(!computes("costs", "sales"));
}

// So long that work which grows with the square takes longer than a test may.
#[test]
fn a_line_without_an_end_is_not_read() {
    let list: Vec<String> = (1..100_000).map(|number| number.to_string()).collect();
    let unspaced = "a".repeat(1_000_000);
    for (text, statement, quote) in [
        (
            format!("Acme had stores: {}.", list.join(", ")),
            "Acme had 2000 stores.",
            "1998, 1999, 2000, 2001",
        ),
        (
            format!("Acme had 3,000 stores {unspaced} in all of Europe."),
            "Acme had 3,000 stores.",
            "Acme had 3,000 stores",
        ),
        (
            format!("Acme had 3,000 stores {}", ". ".repeat(500_000)),
            "Acme had 4,000 stores.",
            "Acme had 3,000 stores",
        ),
    ] {
        let document = Document::new(&text);
        assert!(!document.supports(statement, quote), "{statement}");
    }
}
