use super::*;

fn gaps(line: &Line) -> Vec<f32> {
    line.words
        .windows(2)
        .map(|pair| pair[1].x0.points() - pair[0].x1.points())
        .collect()
}

#[test]
fn a_row_is_a_line_with_gaps_between_cells() {
    let source = source(
        "<table width='100%'><tr><td>Net sales<td align=right>$<td align=right>1,234<td align=right>(56<td>)<td>12<td>%</tr>\
         <tr><td>Cost</td><td></td><td>&nbsp;</td><td align=right>7</td></tr></table>after",
    );
    let all = lines(&source);
    let texts: Vec<&str> = all.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(texts, ["Net sales $ 1,234 (56) 12%", "Cost 7", "after"]);
    let wide = gaps(all[0]);
    assert_eq!(wide.iter().filter(|gap| **gap > 9.0).count(), 4, "{wide:?}");
    // The figure of the second row is in the column of `(56)`.
    let figure = |line: &Line, at: usize| line.words[at].x1.points();
    assert!((figure(all[0], 4) - figure(all[1], 1)).abs() < 15.0);
    assert!(all[0].rect.y1 <= all[1].rect.y0);
}

#[test]
fn spans_of_columns_and_rows_keep_the_columns() {
    let source = source(
        "<table><tr><td rowspan=2>Segment<td colspan=2 align=center>Years</tr><tr><td>2024<td>2023</tr>\
         <tr><td>Retail<td>10<td>20</tr></table>",
    );
    let all = lines(&source);
    let texts: Vec<&str> = all.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(texts, ["Segment Years", "2024 2023", "Retail 10 20"]);
    assert_eq!(all[1].words[0].x0, all[2].words[1].x0);
}

#[test]
fn lines_of_cells_are_side_by_side() {
    assert_eq!(
        text(
            "<table><tr valign=top><td valign=top>Item 7.</td><td valign=top>Management's Discussion<br>and Analysis</td></tr>\
             <tr><td valign=bottom>Total</td><td valign=bottom>June 30,<br>2024</td></tr></table>"
        ),
        [
            "Item 7. Management's Discussion",
            "and Analysis",
            "June 30,",
            "Total 2024"
        ]
    );
}

#[test]
fn a_table_that_lays_out_text_is_read_in_order() {
    let left = "<p>left</p>".repeat(9);
    let html = format!(
        "<table><tr><td>{left}</td><td><p>right</p><hr style='page-break-after:always'><p>next</p></td></tr></table>"
    );
    let texts = text(&html);
    assert_eq!(texts[8..], ["left", "right", "next"]);
    assert_eq!(pages(&source(&html)).len(), 2);
}

#[test]
fn nested_tables_and_missing_end_tags_are_read() {
    assert_eq!(
        text("<table><tr><td>a<td><table><tr><td>b<td>c<tr><td>d</table><td>e<tr><td>f</table>g"),
        ["a b c e", "d", "f", "g"]
    );
    assert_eq!(text("<table><tr><td><p>x<font></table>y"), ["x", "y"]);
    assert_eq!(text("<td>a</td><td>b</td>"), ["a", "b"]);
    assert_eq!(text("<table>a<tr>b<td>c</table>"), ["a", "b", "c"]);
}

// The cells of a line as (text, column, columns, rows).
fn cells(line: &Line) -> Vec<(&str, u16, u16, u16)> {
    let grid = line.grid.iter().flat_map(|grid| &grid.cells);
    grid.map(|cell| {
        let text = &line.text[cell.start as usize..cell.end as usize];
        (text, cell.column, cell.columns, cell.rows)
    })
    .collect()
}

#[test]
fn lines_of_a_table_know_its_cells() {
    let html = "<p>before</p><table><tr><td></td><td colspan=4>June 30,</td></tr>\
         <tr><td rowspan=2>Retail<td>$<td>10<td>(5<td>)</tr><tr></tr>\
         <tr><td>Whole<br>sale</td><td colspan=2>20</table><table><tr><td>single</table>";
    let source = source(html);
    let all = lines(&source);
    assert!(all[0].grid.is_none() && all[5].grid.is_none());
    assert_eq!(cells(all[1]), [("June 30,", 1, 4, 1)]);
    assert_eq!(
        cells(all[2]),
        [
            ("Retail", 0, 1, 2),
            ("$", 1, 1, 1),
            ("10", 2, 1, 1),
            ("(5", 3, 1, 1),
            (")", 4, 1, 1)
        ]
    );
    assert_eq!(cells(all[3]), [("Whole", 0, 1, 1), ("20", 1, 2, 1)]);
    assert_eq!(cells(all[4]), [("sale", 0, 1, 1)]);
    let rows: Vec<(u32, u32)> = all[1..5]
        .iter()
        .filter_map(|line| line.grid.as_ref())
        .map(|grid| (grid.table, grid.row))
        .collect();
    assert_eq!(rows, [(0, 0), (0, 1), (0, 3), (0, 3)]);
    let ten = all[2].grid.as_ref().unwrap().cells[2].bytes.unwrap();
    assert_eq!(&html[ten.start as usize..ten.end as usize], "10");
}

#[test]
fn a_head_of_two_lines_over_all_columns_is_a_cell() {
    let source = source(
        "<table><tr><td><td colspan=2><div>Years Ended</div><div>June 30,</div></tr><tr><td><td>2024<td>2023</table>",
    );
    let all = lines(&source);
    assert_eq!(cells(all[0]), [("Years Ended", 1, 2, 1)]);
    assert_eq!(cells(all[1]), [("June 30,", 1, 2, 1)]);
    assert_eq!(all[1].grid.as_ref().unwrap().row, 0);
}

#[test]
fn the_cells_of_an_inner_table_stay_its_own() {
    let source = source(
        "<table><tr><td>left<td>right</tr><tr><td><table><tr><td>a<td>b</table></td></tr></table>",
    );
    let all = lines(&source);
    let numbers: Vec<u32> = all
        .iter()
        .map(|line| line.grid.as_ref().unwrap().table)
        .collect();
    assert_eq!(numbers, [0, 1]);
    assert_eq!(cells(all[1]), [("a", 0, 1, 1), ("b", 1, 1, 1)]);
}
