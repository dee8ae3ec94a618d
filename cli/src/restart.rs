//! Environment variables that make training faster. Libraries read them once, when a program starts.

use std::process::Command;

/// Disables candle's own pool: its barrier makes the parts of a training batch wait for each other; without
/// it they run in parallel. candle reads the variable once, and changing it in a running program is unsound.
const WITHOUT_CANDLE_POOL: (&str, &str) = ("CANDLE_NUM_THREADS", "1");
/// glibc returns large tensors to the system as soon as they are dropped, and the next ones are zeroed page
/// by page, which takes half the time of a step for a tree of thousands of leaves. Other C libraries ignore
/// these variables.
const KEEPING_MEMORY: [(&str, &str); 2] =
    [("MALLOC_MMAP_THRESHOLD_", "1000000000"), ("MALLOC_TRIM_THRESHOLD_", "2000000000")];

/// Restarts the program with settings for fast encoder training.
pub fn for_training() {
    restart(&[&[WITHOUT_CANDLE_POOL], &KEEPING_MEMORY[..]].concat());
}

/// Restarts the program with settings for fast tree training.
pub fn for_tuning() {
    restart(&KEEPING_MEMORY);
}

fn restart(variables: &[(&str, &str)]) {
    use std::os::unix::process::CommandExt;
    let missing = || variables.iter().filter(|(name, _)| std::env::var_os(name).is_none()).copied();
    if missing().next().is_some()
        && let Ok(program) = std::env::current_exe()
    {
        // Returns only if it failed; training is merely slower then.
        let error = Command::new(program).args(std::env::args_os().skip(1)).envs(missing()).exec();
        tracing::debug!(%error, "could not restart with other settings of the environment");
    }
}
