//! Facts as a Parquet file: the columns of the CSV, typed.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType,
    Int32Type, Int64Type,
};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use stemma_archive::FactInfo;
use stemma_xbrl::Date;

use super::dimensions;

// One type for every file, so that files of many filings can be read as one table. 9 places hold what filings tag (rates
// have up to 6); 29 digits remain before the point, which is all that a decimal of the store has.
const FRACTION_DIGITS: usize = 9;
const SCHEMA: &str = "message facts {
    required binary document (STRING);
    required binary concept (STRING);
    required binary label (STRING);
    required binary entity (STRING);
    optional int32 from (DATE);
    optional int32 to (DATE);
    optional binary unit (STRING);
    optional fixed_len_byte_array(16) value (DECIMAL(38, 9));
    optional binary text (STRING);
    required boolean numeric;
    required binary displayed (STRING);
    optional binary decimals (STRING);
    required int32 scale;
    optional binary sign (STRING);
    required binary dimensions (STRING);
    required boolean hidden;
    required boolean cut;
    optional int32 page;
    optional binary table (STRING);
    optional int32 row;
    optional int32 column;
    optional binary section_id (STRING);
    required int64 byte;
}";

/// Writes the facts of a document, in the order given.
pub fn write_facts<W: Write + Send>(file: W, document: &str, facts: &[FactInfo]) -> Result<()> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("stemma ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    write_columns(writer.next_row_group()?, document, facts)?;
    writer.close()?;
    Ok(())
}

// In the order of the schema.
fn write_columns<'a, W: Write + Send>(
    group: SerializedRowGroupWriter<'a, W>,
    document: &'a str,
    facts: &'a [FactInfo],
) -> Result<()> {
    let mut rows = Rows { facts, group };
    rows.text(|_| Some(document))?;
    rows.text(|fact| Some(&fact.concept))?;
    rows.text(|fact| Some(&fact.label))?;
    rows.text(|fact| Some(&fact.entity))?;
    rows.column::<Int32Type>(|fact| days(fact.from.as_deref()))?;
    rows.column::<Int32Type>(|fact| days(fact.to.as_deref()))?;
    rows.text(|fact| fact.unit.as_deref())?;
    rows.column::<FixedLenByteArrayType>(|fact| {
        let number = fact.value.as_deref().filter(|_| fact.numeric)?;
        decimal(number)
    })?;
    rows.text(|fact| fact.value.as_deref())?;
    rows.column::<BoolType>(|fact| Some(fact.numeric))?;
    rows.text(|fact| Some(&fact.displayed))?;
    rows.text(|fact| fact.decimals.as_deref())?;
    rows.column::<Int32Type>(|fact| Some(fact.scale.into()))?;
    rows.text(|fact| fact.sign.as_deref())?;
    rows.column::<ByteArrayType>(|fact| Some(dimensions(fact).into_bytes().into()))?;
    rows.column::<BoolType>(|fact| Some(fact.hidden))?;
    rows.column::<BoolType>(|fact| Some(fact.cut))?;
    rows.column::<Int32Type>(|fact| fact.page.and_then(|page| page.try_into().ok()))?;
    rows.text(|fact| Some(fact.cell.as_ref()?.table.as_str()))?;
    rows.column::<Int32Type>(|fact| fact.cell.as_ref()?.row.try_into().ok())?;
    rows.column::<Int32Type>(|fact| fact.cell.as_ref()?.column.try_into().ok())?;
    rows.text(|fact| fact.section_id.as_deref())?;
    rows.column::<Int64Type>(|fact| Some(fact.byte.into()))?;
    rows.group.close()?;
    Ok(())
}

// The columns are written one after another.
struct Rows<'a, W: Write> {
    facts: &'a [FactInfo],
    group: SerializedRowGroupWriter<'a, W>,
}

impl<'a, W: Write + Send> Rows<'a, W> {
    fn text(&mut self, value: impl Fn(&'a FactInfo) -> Option<&'a str>) -> Result<()> {
        self.column::<ByteArrayType>(|fact| value(fact).map(ByteArray::from))
    }

    // A column that may have no value has one level for each row: 1 where there is one.
    fn column<T: DataType>(&mut self, value: impl Fn(&'a FactInfo) -> Option<T::T>) -> Result<()> {
        let cells: Vec<Option<T::T>> = self.facts.iter().map(value).collect();
        let levels: Vec<i16> = cells.iter().map(|cell| cell.is_some().into()).collect();
        let values: Vec<T::T> = cells.into_iter().flatten().collect();
        let column = self.group.next_column()?;
        let mut column =
            column.ok_or_else(|| ParquetError::General("the schema has too few columns".into()))?;
        // Levels of a column without nulls are not written.
        column
            .typed::<T>()
            .write_batch(&values, Some(&levels), None)?;
        column.close()
    }
}

// Days since 1970-01-01.
fn days(date: Option<&str>) -> Option<i32> {
    let epoch = Date::new(1970, 1, 1)?;
    Some(date?.parse::<Date>().ok()?.days_since(epoch))
}

// A number as an integer of its smallest fraction, in 16 bytes; `None` if it has more places.
fn decimal(number: &str) -> Option<FixedLenByteArray> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let missing = FRACTION_DIGITS.checked_sub(fraction.trim_end_matches('0').len())?;
    let digits = format!(
        "{whole}{}{}",
        fraction.trim_end_matches('0'),
        "0".repeat(missing)
    );
    let units: i128 = digits.parse().ok()?;
    Some(units.to_be_bytes().to_vec().into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use stemma_archive::{CellPosition, FactDimension};

    use super::*;

    #[test]
    fn numbers_are_exact_or_left_out() {
        let units = |number: &str| {
            let bytes = decimal(number)?;
            Some(i128::from_be_bytes(bytes.data().try_into().unwrap()))
        };
        for (number, expected) in [
            ("0", Some(0)),
            ("-12.345", Some(-12_345_000_000)),
            ("-0.5", Some(-500_000_000)),
            ("0.0000000010", Some(1)),
            ("0.0000000001", None),
            (
                "79228162514264337593543950335",
                Some(79_228_162_514_264_337_593_543_950_335_000_000_000),
            ),
            ("12,5", None),
        ] {
            assert_eq!(units(number), expected, "{number}");
        }
    }

    #[test]
    fn days_count_from_1970() {
        assert_eq!(days(Some("1970-01-02")), Some(1));
        assert_eq!(days(Some("2024-12-31")), Some(20_088));
        assert_eq!(days(Some("1969-12-31")), Some(-1));
        assert_eq!(days(None), None);
    }

    fn fact(value: Option<&str>) -> FactInfo {
        FactInfo {
            concept: "us-gaap:Assets".into(),
            label: "Assets".into(),
            entity: "0000000007".into(),
            from: None,
            to: Some("2024-12-31".into()),
            unit: Some("USD".into()),
            dimensions: Vec::new(),
            value: value.map(Into::into),
            numeric: true,
            displayed: String::new(),
            decimals: None,
            scale: 0,
            sign: None,
            hidden: false,
            cut: false,
            byte: u32::MAX,
            page: None,
            cell: None,
            section_id: None,
            locator: None,
        }
    }

    // Each row as its columns.
    fn read(facts: &[FactInfo]) -> Vec<BTreeMap<String, String>> {
        let mut file = Vec::new();
        write_facts(&mut file, "a.htm", facts).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
        let rows = reader.get_row_iter(None).unwrap().map(|row| {
            let row = row.unwrap();
            let fields = row.get_column_iter();
            let named = fields.map(|(name, field)| (name.clone(), field.to_string()));
            named.collect()
        });
        rows.collect()
    }

    #[test]
    fn columns_of_a_row_say_what_the_fact_says() {
        let dimension = FactDimension {
            axis: "a:Axis".into(),
            member: "a:Europe".into(),
        };
        let rows = read(&[
            fact(Some("-12.5")),
            fact(None),
            fact(Some("0.00000000001")),
            FactInfo {
                numeric: false,
                unit: None,
                to: None,
                ..fact(Some("12"))
            },
            FactInfo {
                from: Some("1969-12-01".into()),
                dimensions: vec![dimension.clone(), dimension],
                scale: -2,
                sign: Some("-".into()),
                decimals: Some("INF".into()),
                page: Some(7),
                cell: Some(CellPosition {
                    table: "a#t2".into(),
                    row: 3,
                    column: 1,
                }),
                section_id: Some("0003".into()),
                ..fact(Some("1"))
            },
        ]);
        let column = |name: &str| {
            rows.iter()
                .map(|row| row[name].as_str())
                .collect::<Vec<_>>()
        };
        let null = "null";
        let exact = ["-12.500000000", null, null, null, "1.000000000"];
        assert_eq!(column("value"), exact);
        let texts = ["\"-12.5\"", null, "\"0.00000000001\"", "\"12\"", "\"1\""];
        assert_eq!(column("text"), texts);
        assert_eq!(column("from"), [null, null, null, null, "1969-12-01"]);
        assert_eq!(column("to")[2..], ["2024-12-31", null, "2024-12-31"]);
        assert_eq!(column("unit")[2..4], ["\"USD\"", null]);
        assert_eq!(column("numeric")[2..4], ["true", "false"]);
        assert_eq!(column("page")[3..], [null, "7"]);
        let dimensions = "\"a:Axis=a:Europe a:Axis=a:Europe\"";
        assert_eq!(column("dimensions")[3..], ["\"\"", dimensions]);
        assert_eq!(column("sign")[3..], [null, "\"-\""]);
        assert_eq!(column("table")[3..], [null, "\"a#t2\""]);
        assert_eq!(column("row")[3..], [null, "3"]);
        assert_eq!(column("column")[3..], [null, "1"]);
        assert_eq!(column("byte")[0], u32::MAX.to_string());
        let last = &rows[4];
        assert_eq!(
            (&*last["scale"], &*last["decimals"], &*last["section_id"]),
            ("-2", "\"INF\"", "\"0003\"")
        );
    }

    #[test]
    fn a_document_without_facts_gives_a_table_without_rows() {
        assert!(read(&[]).is_empty());
    }
}
