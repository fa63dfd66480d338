//! The free space of the disk that has the indexes, as a metric.

use std::path::{Path, PathBuf};
use std::time::Duration;

use metrics::gauge;
use stemma_store::Env;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

const INTERVAL: Duration = Duration::from_secs(15);

/// Reports the free space of the disk of `folder` until `stop`.
pub async fn report_free_space(env: Env, folder: PathBuf, stop: CancellationToken) {
    loop {
        let path = folder.clone();
        if let Ok(Some(bytes)) = spawn_blocking(move || free_bytes(&path)).await {
            gauge!("stemma_index_disk_free_bytes").set(bytes as f64);
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = env.sleep(INTERVAL) => {}
        }
    }
}

// Bytes that this process may still write there. The folder itself appears with the first index.
fn free_bytes(folder: &Path) -> Option<u64> {
    let existing = folder.ancestors().find(|folder| folder.exists())?;
    let disk = rustix::fs::statvfs(existing).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_that_of_the_nearest_folder_that_exists() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = free_bytes(&folder.path().join("not/made/yet")).unwrap();
        assert!(bytes > 0);
        assert_eq!(free_bytes(Path::new("")), None);
    }
}
