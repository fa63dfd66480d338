//! The same documents give the same bytes, whatever the concurrency.

use crate::support::{TestEnv, assert_same, results};

#[test]
fn output_bytes_do_not_depend_on_concurrency() {
    let lab = TestEnv::new();
    lab.put_twelve();
    for (store, jobs) in [("one", "1"), ("eight", "8"), ("again", "8")] {
        assert_eq!(lab.ingest(store, &["--jobs", jobs])["counts"]["failed"], 0);
    }
    let one = results(&lab.path("one"));
    assert_eq!(one.keys().filter(|key| key.contains("/trees/")).count(), 12);
    assert_same(&results(&lab.path("eight")), &one, "eight at once");
    assert_same(&results(&lab.path("again")), &one, "the second store");
}
