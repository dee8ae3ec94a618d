//! By what an embedding is found.

use sha2::{Digest, Sha256};

use crate::model::{Bundle, EncoderPrecision};

/// The first 16 bytes of a SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(pub [u8; 16]);

/// Makes the keys of texts that one encoder embeds in one way.
pub(crate) struct KeyMaker(Sha256);

impl KeyMaker {
    /// For documents, stored at unit norm or as the encoder gives them. A release may encode texts otherwise
    /// than the one before it.
    pub fn of_documents(bundle: &Bundle, precision: EncoderPrecision, is_unit: bool) -> Self {
        let encoder = bundle.encoder_digest();
        let version = env!("CARGO_PKG_VERSION");
        let prefix = format!("ehi {version} {encoder} {precision:?} document {is_unit}\n");
        Self(Sha256::new_with_prefix(prefix))
    }

    pub fn key(&self, text: &str) -> Key {
        let digest: [u8; 32] = self.0.clone().chain_update(text).finalize().into();
        let mut key = [0; 16];
        key.copy_from_slice(&digest[..16]);
        Key(key)
    }
}
