//! Claims over tables with columns of words.

use stemma_reading::tables::{TableCell, TableColumn};

use super::tables::{claim, document};

#[test]
fn the_words_of_a_second_column_belong_to_the_label() {
    let mut table = document(&["\
          Leases
     (In millions of dollars)
                                       2022      2021
Operating lease                         590       600
Noncurrent lease liabilities            591       610"]);
    let row = &mut table.reading.tables[0].rows[1];
    assert_eq!(row.label, "Noncurrent lease liabilities");
    let texts = TableCell {
        text: "Operating lease liabilities".into(),
        value: None,
        ..row.cells[0].clone().unwrap()
    };
    row.cells.insert(0, Some(texts));
    table.reading.tables[0]
        .columns
        .insert(0, TableColumn::default());
    for (subject, is_right) in [
        (
            "Noncurrent lease liabilities Operating lease liabilities",
            true,
        ),
        ("Noncurrent lease liabilities", true),
        ("Operating lease", false),
    ] {
        let statement = format!("{subject} was {{a}} in 2022.");
        let row = "Noncurrent lease liabilities Operating lease liabilities";
        let figure = ["591", "$ million", row, "2022"];
        let claim = claim(&table, &statement, "Noncurrent", figure);
        assert_eq!(table.shows(&claim), is_right, "{statement}");
    }
}
