//! The outcome in a sentence.

use crate::index::fusion::{LearnedFusion, LearnedMemory};
use crate::measure::{SIGNIFICANCE_LEVEL, p_in_words};

impl LearnedFusion {
    /// Whether words and judgments of near questions help, with the figures that decided.
    pub fn sentence(&self) -> String {
        let memory = self.memory.as_ref().map_or_else(String::new, of_memory);
        let of = if self.of_previous_model { "; learned with the model before" } else { "" };
        format!("{}{memory}{of}", of_words(self))
    }
}

fn of_memory(memory: &LearnedMemory) -> String {
    let LearnedMemory { weight, without, with, p_value, .. } = memory;
    let p = p_in_words(*p_value);
    let measured = format!("nDCG@10 is {with:.3} with them, {without:.3} without ({p})");
    match *weight > 0.0 {
        true => format!("; judgments of near questions help: {measured}"),
        false => format!(
            "; judgments of near questions are not shown to help, so only those of the same question count: {measured}"
        ),
    }
}

fn of_words(fusion: &LearnedFusion) -> String {
    let LearnedFusion { alpha, questions, dense, hybrid, p_value, .. } = fusion;
    let p = p_in_words(*p_value);
    let measured = format!(
        "nDCG@10 of {questions} judged questions is {hybrid:.3} with them, {dense:.3} by embeddings alone ({p})"
    );
    if !fusion.words_help {
        return format!("words do not help: {measured}; searches go by embeddings alone");
    }
    let help = match *p_value < SIGNIFICANCE_LEVEL {
        true => "words help",
        false => "words seem to help, perhaps by chance",
    };
    format!("{help}: {measured}; embeddings count {alpha:.2}, words {:.2}", 1.0 - alpha)
}
