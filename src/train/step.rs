//! One optimiser step: losses of a batch and their gradients (Algorithm 1).

use candle_core::{Tensor, Var};

use super::batch::{Distillation, Layout, Prepared};
use super::config::Siamese;
use super::error::TrainError;
use super::indexer::{AtRoot, TrainableIndexer};
use super::inputs::{EncoderInputs, Inputs};
use super::losses;
use super::optimizer::Gradients;
use super::report::LossParts;
use crate::error::Result;
use crate::model::{ModelError, rows, unit_rows};

impl Inputs<'_> {
    /// Losses of one batch and their gradients for the head and `tree`, step number `step`.
    ///
    /// The encoder's forward pass runs in parts with a graph each; the loss is computed on the
    /// joined embeddings as if they were variables, and its gradient with respect to them is fed
    /// back into the parts.
    pub(crate) fn step(
        &self,
        EncoderInputs { head, document_cache, query_cache }: EncoderInputs<'_>,
        tree: &TrainableIndexer,
        prepared: Prepared,
        step: usize,
    ) -> Result<(LossParts, Gradients)> {
        let Prepared { layout, queries, documents, .. } = prepared;
        let (queries, query_forward) = head.forward(query_cache, queries)?;
        let (documents, document_forward) = head.forward(document_cache, documents)?;
        let run = || -> candle_core::Result<(LossParts, Gradients)> {
            let queries = Var::from_tensor(&queries)?;
            let documents = Var::from_tensor(&documents)?;
            let (loss, parts) = self.loss(tree, &layout, queries.as_tensor(), documents.as_tensor())?;
            let mut gradients = Gradients::default();
            if parts.first_non_finite().is_none() {
                let store = loss.backward()?;
                gradients.add(&tree.parameters(), &store)?;
                for (var, cache, forward) in
                    [(&queries, query_cache, &query_forward), (&documents, document_cache, &document_forward)]
                {
                    if let Some(gradient) = store.get(var.as_tensor()) {
                        head.backward(cache, forward, gradient, &mut gradients)?;
                    }
                }
            }
            Ok((parts, gradients))
        };
        let (parts, gradients) = run().map_err(ModelError::from)?;
        if let Some((part, value)) = parts.first_non_finite() {
            let texts = &layout.queries.texts;
            let batch = layout
                .pair_queries
                .iter()
                .map(|&row| self.texts.id(texts[row as usize]).to_owned())
                .collect();
            return Err(TrainError::NonFiniteLoss { part, value, step, batch }.into());
        }
        Ok((parts, gradients))
    }

    /// The weighted sum of Eq. 6 with the two additional terms, and its parts.
    fn loss(
        &self,
        tree: &TrainableIndexer,
        layout: &Layout,
        queries: &Tensor,
        documents: &Tensor,
    ) -> candle_core::Result<(Tensor, LossParts)> {
        let settings = &self.config.losses;
        let weights = &settings.weights;
        let pick = |places: &[u32], from: &Tensor| rows(from, &Tensor::new(places, self.device)?);
        let (unit_queries, unit_documents) = (unit_rows(queries)?, unit_rows(documents)?);
        let query_roots = tree.at_root(&unit_queries)?;
        let query_paths = tree.paths(&query_roots)?;
        let document_paths = tree.paths(&tree.at_root(&unit_documents)?)?;

        let q = pick(&layout.pair_queries, queries)?;
        let d = pick(&layout.pair_documents, documents)?;
        let tq = pick(&layout.pair_queries, &query_paths.embedding)?;
        let td = pick(&layout.pair_documents, &document_paths.embedding)?;
        let (negatives, mined_rows) = self.negatives(layout)?;
        let mined = mined_rows.as_ref().map(|rows| pick(rows, documents)).transpose()?;
        let siamese = match settings.siamese {
            Siamese::Triplet => losses::triplet(&q, &d, mined.as_ref(), &negatives, settings.margin)?,
            Siamese::Contrastive => {
                losses::contrastive(&q, &d, mined.as_ref(), &negatives, settings.siamese_temperature)?
            }
        };
        let mined = match (self.config.mining.negatives, &mined_rows) {
            (negatives, Some(rows)) if negatives.in_every_term() => {
                Some(pick(rows, &document_paths.embedding)?)
            }
            _ => None,
        };
        let indexing = losses::triplet(&tq, &td, mined.as_ref(), &negatives, settings.margin)?;
        let dissimilar = self.dissimilar(layout, &pick(&layout.pair_documents, &unit_documents)?)?;
        let intra_leaf = losses::intra_leaf(&td, &dissimilar, settings.margin, settings.intra_leaf)?;
        let both: Vec<Tensor> = query_paths
            .children
            .iter()
            .zip(&document_paths.children)
            .map(|(q, d)| Tensor::cat(&[q, d], 0))
            .collect::<candle_core::Result<_>>()?;
        let balance = losses::balance(&both)?;

        let mut total = ((&siamese * weights.siamese)? + (&indexing * weights.indexing)?)?;
        total = (total + (&intra_leaf * weights.intra_leaf)?)?;
        total = (total + (&balance * weights.balance)?)?;
        let mut parts = LossParts {
            siamese: losses::value(&siamese)?,
            indexing: losses::value(&indexing)?,
            intra_leaf: losses::value(&intra_leaf)?,
            balance: losses::value(&balance)?,
            ..LossParts::default()
        };
        if let Some(term) = &layout.distillation {
            let distillation = self.distillation(tree, term, &query_roots)?;
            parts.distillation = losses::value(&distillation)?;
            total = (total + (distillation * weights.distillation)?)?;
        }
        parts.loss = losses::value(&total)?;
        Ok((total, parts))
    }

    /// Routing distillation of rows.
    pub(crate) fn distillation(
        &self,
        tree: &TrainableIndexer,
        term: &Distillation,
        root: &AtRoot,
    ) -> candle_core::Result<Tensor> {
        let logs = tree.leaf_log_probabilities(root, &term.entries)?;
        let masses = Tensor::new(term.masses.as_slice(), self.device)?;
        losses::distillation(&logs, &masses, term.texts)
    }

    /// Another pair's document is a negative unless it answers this query too.
    fn negatives(&self, layout: &Layout) -> candle_core::Result<(losses::Negatives, Option<Vec<u32>>)> {
        let n = layout.pair_queries.len();
        let mut valid = Vec::with_capacity(n * n);
        for &query in &layout.pair_queries {
            let query = layout.queries.texts[query as usize];
            for &document in &layout.pair_documents {
                let document = layout.documents.texts[document as usize] as u32;
                valid.push(if self.texts.is_relevant(query, document) { 0f32 } else { 1.0 });
            }
        }
        let mined = match &layout.mined {
            Some((_, weights)) => Some(Tensor::new(weights.as_slice(), self.device)?),
            None => None,
        };
        let negatives = losses::Negatives { in_batch: Tensor::from_vec(valid, (n, n), self.device)?, mined };
        Ok((negatives, layout.mined.as_ref().map(|(rows, _)| rows.clone())))
    }

    /// Gate of the intra-leaf term: different documents, of similarity below tau.
    fn dissimilar(&self, layout: &Layout, unit: &Tensor) -> candle_core::Result<Tensor> {
        let n = layout.pair_documents.len();
        let similarity: Vec<f32> = unit.detach().matmul(&unit.detach().t()?)?.flatten_all()?.to_vec1()?;
        let mut gate = Vec::with_capacity(n * n);
        for (i, row) in similarity.chunks_exact(n).enumerate() {
            for (j, &similarity) in row.iter().enumerate() {
                let apart = layout.pair_documents[i] != layout.pair_documents[j]
                    && f64::from(similarity) < self.config.losses.dissimilarity_threshold;
                gate.push(if apart { 1f32 } else { 0.0 });
            }
        }
        Tensor::from_vec(gate, (n, n), self.device)
    }
}
