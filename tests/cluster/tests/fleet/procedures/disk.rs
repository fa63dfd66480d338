//! A store in a folder whose disk is full: the work waits, and goes on when there is room.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use stemma_cluster::{ServiceFleet, binary};
use stemma_document::Collection;
use stemma_store::blobs::FolderBlobs;

use super::deployment::{JOB_TIMEOUT, filings, is_requested};

/// A small disk in memory, unmounted at the end.
struct Disk(tempfile::TempDir);

impl Disk {
    /// `None` where this user may not mount.
    fn mount(size: &str) -> Option<Self> {
        let disk = Self(tempfile::tempdir().unwrap());
        let options = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(disk.0.path())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(disk)
    }

    fn resize(&self, size: &str) {
        let mut remount = Command::new("mount");
        remount.args(["-o", &format!("remount,size={size}")]);
        assert!(remount.arg(self.0.path()).status().unwrap().success());
    }

    fn free_bytes(&self) -> u64 {
        let disk = rustix::fs::statvfs(self.0.path()).unwrap();
        disk.f_bavail * disk.f_frsize
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.0.path()).status());
    }
}

async fn trees(store: &Path) -> super::deployment::Trees {
    let blobs = FolderBlobs::open(store).unwrap();
    stemma_cluster::compare::trees(&blobs, &Collection::default())
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_delays_an_ingest_and_fails_no_document() {
    if !is_requested() {
        return;
    }
    let Some(disk) = Disk::mount("600k") else {
        println!("skipped: this user may not mount a small disk");
        return;
    };
    let folder = filings(8, 12);
    let files = folder.path().to_str().unwrap();
    let store = disk.0.path().join("store");
    let fleet = ServiceFleet::new(binary().unwrap(), store.to_str().unwrap(), Vec::new()).unwrap();
    let ingest = fleet
        .launch("ingest", &["ingest", files, "--json"])
        .unwrap();
    let job = tokio::spawn(ingest.wait_with_output());
    let started = Instant::now();
    while disk.free_bytes() > 16 << 10 {
        assert!(!job.is_finished(), "the documents fit");
        assert!(started.elapsed() < JOB_TIMEOUT, "{}", disk.free_bytes());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Longer than the retries within one call.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(!job.is_finished(), "a full disk ended the ingest");
    disk.resize("64m");
    let output = tokio::time::timeout(JOB_TIMEOUT, job).await.unwrap();
    let output = output.unwrap().unwrap();
    assert!(output.status.success(), "{output:?}");
    let roomy = tempfile::tempdir().unwrap();
    let store_name = roomy.path().to_str().unwrap();
    let other = ServiceFleet::new(binary().unwrap(), store_name, Vec::new()).unwrap();
    let output = other
        .run(&["ingest", files, "--json"], JOB_TIMEOUT)
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(trees(&store).await, trees(roomy.path()).await);
}
