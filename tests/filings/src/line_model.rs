//! A model for the recognition of lines, in the form that PP-OCR gives them, small enough to be written here.

const INT64: u64 = 7;
const FLOAT: u64 = 1;
const INT: u64 = 2;
const INTS: u64 = 7;

/// An ONNX file of a model that sees stripes: it reads its first character, usually `1`, for each dark stripe down the line, and
/// nothing else. It has one character, whatever its metadata list (`characters`, one a line).
///
/// Like models of PP-OCR it takes `[1, 3, 48, width]` from -1 (black) to 1, and scores for each column a blank, its characters
/// and a space.
pub fn line_model(characters: &str) -> Vec<u8> {
    // For the mean shade of a column: of the blank, of `1`, and of a space, which never wins.
    let weights = [1.0_f32, -1.0, 0.0].map(f32::to_le_bytes).concat();
    let biases = [0.0_f32, -0.5, -9.0].map(f32::to_le_bytes).concat();
    let graph = [
        node("ReduceMean", &["x"], "shades", &mean_of_columns()),
        node("Unsqueeze", &["shades", "axis"], "column", &[]),
        node("Mul", &["column", "weights"], "weighted", &[]),
        node("Add", &["weighted", "biases"], "scores", &[]),
        text(2, "stripes"),
        initializer("axis", INT64, 1, &2_i64.to_le_bytes()),
        initializer("weights", FLOAT, 3, &weights),
        initializer("biases", FLOAT, 3, &biases),
        value(11, "x"),
        value(12, "scores"),
    ];
    let characters = [text(1, "character"), text(2, characters)].concat();
    [
        number(1, 8),
        bytes(7, &graph.concat()),
        bytes(8, &number(2, 13)),
        bytes(14, &characters),
    ]
    .concat()
}

// The attributes `axes` (channels and rows) and `keepdims`.
fn mean_of_columns() -> Vec<u8> {
    let axes = [
        text(1, "axes"),
        number(8, 1),
        number(8, 2),
        number(20, INTS),
    ];
    let keep = [text(1, "keepdims"), number(3, 0), number(20, INT)];
    [bytes(5, &axes.concat()), bytes(5, &keep.concat())].concat()
}

fn node(operator: &str, inputs: &[&str], output: &str, attributes: &[u8]) -> Vec<u8> {
    let mut node: Vec<u8> = inputs.iter().flat_map(|input| text(1, input)).collect();
    node.extend(text(2, output));
    node.extend(text(4, operator));
    node.extend(attributes);
    bytes(1, &node)
}

fn initializer(name: &str, kind: u64, length: u64, data: &[u8]) -> Vec<u8> {
    let tensor = [
        number(1, length),
        number(2, kind),
        text(8, name),
        bytes(9, data),
    ];
    bytes(5, &tensor.concat())
}

// A tensor of floats of any shape.
fn value(field: u64, name: &str) -> Vec<u8> {
    let tensor = bytes(1, &number(1, FLOAT));
    bytes(field, &[text(1, name), bytes(2, &tensor)].concat())
}

// The fields of a message of Protocol Buffers.
fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn text(field: u64, value: &str) -> Vec<u8> {
    bytes(field, value.as_bytes())
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [
        varint(field << 3 | 2),
        varint(value.len() as u64),
        value.to_vec(),
    ]
    .concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7F {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
