//! What a process has used so far, as the kernel counts it. On systems without `/proc` there is nothing to tell.

use std::fs;
use std::time::Duration;

/// Counts of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Usage {
    /// Processor time, all threads together.
    pub(super) cpu: Duration,
    /// Bytes that it caused to be written to storage.
    pub(super) written_bytes: u64,
    /// Memory that it holds now, in KiB.
    pub(super) resident_kib: u64,
    /// The most that it held, in KiB.
    pub(super) peak_kib: u64,
}

/// Milliseconds of one tick: the unit of `/proc/PID/stat` is fixed at 100 a second on all Linux systems.
const TICK_MS: u64 = 10;

/// Looks at a process.
pub(super) fn of(pid: i32) -> Option<Usage> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    usage(&read("stat")?, &read("status")?, &read("io").unwrap_or_default())
}

/// The same, with all processes that it started and that have not ended.
pub(super) fn of_all(pid: i32) -> Option<Usage> {
    let own = of(pid)?;
    Some(children_of(pid).into_iter().filter_map(of_all).fold(own, Usage::with))
}

impl Usage {
    const fn with(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(other.cpu),
            written_bytes: self.written_bytes.saturating_add(other.written_bytes),
            resident_kib: self.resident_kib.saturating_add(other.resident_kib),
            peak_kib: self.peak_kib.saturating_add(other.peak_kib),
        }
    }
}

/// The first process that a process with one thread started.
pub(super) fn child_of(pid: i32) -> Option<i32> {
    children_of(pid).into_iter().next()
}

fn children_of(pid: i32) -> Vec<i32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// The average number of tasks that ran or waited over the last minute.
pub(super) fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

fn usage(stat: &str, status: &str, io: &str) -> Option<Usage> {
    // The name, in parentheses, may hold blanks; the fields behind it are numbers. User and system time are the
    // fields 14 and 15 of all.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks: u64 = [11, 12].iter().filter_map(|place| fields.get(*place)?.parse::<u64>().ok()).sum();
    Some(Usage {
        cpu: Duration::from_millis(ticks.saturating_mul(TICK_MS)),
        written_bytes: field(io, "write_bytes:").unwrap_or_default(),
        resident_kib: field(status, "VmRSS:").unwrap_or_default(),
        peak_kib: field(status, "VmHWM:").unwrap_or_default(),
    })
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_counts_are_read_whatever_the_process_is_called() {
        let stat = "12 (a) b (c) S 1 1 1 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 3 0 1 1 1";
        let status = "Name:\ta\nVmHWM:\t    5120 kB\nVmRSS:\t    4096 kB\n";
        let found = usage(stat, status, "wchar: 9\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n").unwrap();
        assert_eq!(found.cpu, Duration::from_secs(2));
        assert_eq!((found.written_bytes, found.resident_kib, found.peak_kib), (8_192, 4_096, 5_120));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_holds_memory() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(of(own).unwrap().peak_kib > 0);
        assert!(load_average().is_some());
    }
}
