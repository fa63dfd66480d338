//! Conformance of the adapters that need no server.

use std::sync::Arc;

use stemma_engine::ledger::MemoryLedger;
use stemma_engine::queue::{MemoryQueue, Queue};
use stemma_engine_testing::ledger_conformance::LedgerUnderTest;
use stemma_engine_testing::{
    blobs_conformance, ledger_conformance, limit_conformance, queue_conformance,
};
use stemma_store::blobs::{Blobs, FolderBlobs, MemoryBlobs};
use stemma_store::limit::{Limiter, MemoryLimiter};

#[tokio::test(start_paused = true)]
async fn memory_queue() {
    queue_conformance::conformance(|| async { Arc::new(MemoryQueue::default()) as Arc<dyn Queue> })
        .await;
}

#[tokio::test]
async fn memory_ledger() {
    ledger_conformance::conformance(|| async {
        let ledger = Arc::new(MemoryLedger::default());
        let forgetful = Arc::clone(&ledger);
        LedgerUnderTest {
            ledger,
            flush: Box::new(move || {
                let ledger = Arc::clone(&forgetful);
                Box::pin(async move { ledger.flush() }) as _
            }),
        }
    })
    .await;
}

#[tokio::test]
async fn memory_blobs() {
    blobs_conformance::conformance(|| async { Arc::new(MemoryBlobs::default()) as Arc<dyn Blobs> })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn folder_blobs() {
    let folder = tempfile::tempdir().unwrap();
    let next = std::sync::atomic::AtomicU32::new(0);
    blobs_conformance::conformance(|| async {
        let number = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let blobs = FolderBlobs::open(&folder.path().join(number.to_string())).unwrap();
        Arc::new(blobs) as Arc<dyn Blobs>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_stores_on_one_folder_write_independently() {
    let folder = tempfile::tempdir().unwrap();
    let stores: Vec<_> = (0..2)
        .map(|_| FolderBlobs::open(folder.path()).unwrap())
        .collect();
    let writers: Vec<_> = (0..200usize)
        .map(|n| {
            let blobs = stores[n % 2].clone();
            tokio::spawn(async move {
                blobs
                    .put(&format!("o/{n}"), vec![n as u8; 50_000 + n].into())
                    .await
                    .unwrap()
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    for n in 0..200 {
        let object = stores[0].get(&format!("o/{n}")).await.unwrap().unwrap();
        assert!(
            object.len() == 50_000 + n && object.iter().all(|byte| *byte == n as u8),
            "object {n}"
        );
    }
}

#[tokio::test]
async fn memory_limiter() {
    limit_conformance::conformance(|| async {
        Arc::new(MemoryLimiter::default()) as Arc<dyn Limiter>
    })
    .await;
}
