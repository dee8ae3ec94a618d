//! The schedule of the learning rates.

use super::config::{Decay, ScheduleSettings};

/// The learning rates of a phase: a linear warm-up, then the configured fall to the final fraction.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    warmup: f64,
    decay: Decay,
    final_fraction: f64,
    /// Steps of the phase.
    pub steps: usize,
}

impl Schedule {
    pub(crate) fn new(settings: &ScheduleSettings, steps: usize) -> Self {
        Self {
            warmup: (settings.warmup_fraction * steps as f64).ceil(),
            decay: settings.decay,
            final_fraction: settings.final_learning_rate_fraction,
            steps,
        }
    }

    /// Factor on every learning rate at a step, counted from 0.
    pub(crate) fn factor(&self, step: usize) -> f64 {
        let at = step as f64 + 1.0;
        if at <= self.warmup {
            return at / self.warmup;
        }
        let rest = ((at - self.warmup) / (self.steps as f64 - self.warmup).max(1.0)).min(1.0);
        let fallen = match self.decay {
            Decay::Constant => return 1.0,
            Decay::Linear => rest,
            Decay::Cosine => (1.0 - (std::f64::consts::PI * rest).cos()) / 2.0,
        };
        1.0 - fallen * (1.0 - self.final_fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_then_falls() {
        let at = |decay, step| {
            let settings = ScheduleSettings { warmup_fraction: 0.2, decay, ..ScheduleSettings::default() };
            Schedule::new(&settings, 100).factor(step)
        };
        for (decay, halfway, end) in
            [(Decay::Linear, 0.55, 0.1), (Decay::Cosine, 0.55, 0.1), (Decay::Constant, 1.0, 1.0)]
        {
            assert!((at(decay, 0) - 0.05).abs() < 1e-12);
            assert!((at(decay, 19) - 1.0).abs() < 1e-12);
            assert!((at(decay, 59) - halfway).abs() < 1e-9, "{decay:?}");
            assert!((at(decay, 99) - end).abs() < 1e-9, "{decay:?}");
        }
        // A cosine falls slowly at first.
        assert!(at(Decay::Cosine, 29) > 0.96);
    }
}
