//! The course of the learning rates.

use super::config::{Schedule, TrainConfig};

/// Factor on every learning rate at a step, counted from 0: a linear warm-up, then the
/// configured fall to the final fraction.
pub(crate) fn factor(config: &TrainConfig, step: usize, total: usize) -> f64 {
    let warmup = (config.warmup_fraction * total as f64).ceil();
    let at = step as f64 + 1.0;
    if at <= warmup {
        return at / warmup;
    }
    let rest = ((at - warmup) / (total as f64 - warmup).max(1.0)).min(1.0);
    let fallen = match config.schedule {
        Schedule::Constant => return 1.0,
        Schedule::Linear => rest,
        Schedule::Cosine => (1.0 - (std::f64::consts::PI * rest).cos()) / 2.0,
    };
    1.0 - fallen * (1.0 - config.final_learning_rate_fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_then_falls() {
        let mut config =
            TrainConfig { warmup_fraction: 0.2, final_learning_rate_fraction: 0.1, ..TrainConfig::default() };
        for (schedule, halfway, end) in
            [(Schedule::Linear, 0.55, 0.1), (Schedule::Cosine, 0.55, 0.1), (Schedule::Constant, 1.0, 1.0)]
        {
            config.schedule = schedule;
            let at = |step| factor(&config, step, 100);
            assert!((at(0) - 0.05).abs() < 1e-12);
            assert!((at(19) - 1.0).abs() < 1e-12);
            assert!((at(59) - halfway).abs() < 1e-9, "{schedule:?}");
            assert!((at(99) - end).abs() < 1e-9, "{schedule:?}");
        }
        config.schedule = Schedule::Cosine;
        // A cosine falls slowly at first.
        assert!(factor(&config, 29, 100) > 0.96);
    }
}
