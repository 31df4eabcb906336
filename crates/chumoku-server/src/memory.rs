//! Returns free memory to the system after large requests and answers.

use crate::service::Service;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Interval between checks of the resident memory.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time between trims of a service that is never idle.
const MAX_TRIM_INTERVAL: Duration = Duration::from_secs(30);
/// Minimum growth since the last trim that is worth another one.
const MIN_GROWTH: u64 = 16 << 20;

/// Trims the allocator when the service is idle after it has grown, or from time to time if it is never idle. Never
/// returns.
pub(crate) async fn trim(service: Arc<Service>) {
    let Some(mut least) = resident() else { return };
    let mut last = Instant::now();
    loop {
        sleep(CHECK_INTERVAL).await;
        let Some(now) = resident() else { return };
        least = least.min(now);
        if now - least < MIN_GROWTH || service.is_busy() && last.elapsed() < MAX_TRIM_INTERVAL {
            continue;
        }
        // Trimming hundreds of megabytes takes milliseconds.
        let _ = tokio::task::spawn_blocking(chumoku_kernels::trim_memory).await;
        service.metrics.trims.fetch_add(1, Relaxed);
        (least, last) = (resident().unwrap_or(now), Instant::now());
    }
}

/// Returns the resident memory of the process in bytes, if the system reports it.
fn resident() -> Option<u64> {
    chumoku_kernels::system::process_memory().map(|memory| memory.current)
}
