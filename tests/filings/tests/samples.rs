//! The sample documents match their generators.

#[path = "../examples/samples.rs"]
#[expect(dead_code, reason = "its main is for the command line")]
mod example;

use std::path::Path;

fn samples() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/samples")
}

#[test]
fn pdf_samples_regenerate_byte_identically() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(
        samples().join("constitution.md"),
        folder.path().join("constitution.md"),
    )
    .unwrap();
    example::write(folder.path()).unwrap();
    for name in ["constitution.pdf", "generated-10-k.pdf"] {
        let again = std::fs::read(folder.path().join(name)).unwrap();
        let committed = std::fs::read(samples().join(name)).unwrap();
        assert!(
            again == committed,
            "{name} differs: run the example `samples`"
        );
    }
}

#[test]
fn the_samples_stay_small() {
    let sizes = std::fs::read_dir(samples())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len());
    assert!(sizes.sum::<u64>() <= 1_000_000);
}

#[test]
fn the_constitution_is_complete() {
    let text = std::fs::read_to_string(samples().join("constitution.md")).unwrap();
    let headings = |mark: &str| text.lines().filter(|line| line.starts_with(mark)).count();
    assert_eq!(
        (
            headings("## Article "),
            headings("## Amendment "),
            headings("### Section ")
        ),
        (7, 27, 54)
    );
}
