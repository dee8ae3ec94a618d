//! Access: a single-use token is exchanged for the key of a session.

use std::fs::File;
use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

/// Random bytes of a token and of a key.
const BYTES: usize = 32;

/// Most sessions; another one ends the oldest.
const MOST_SESSIONS: usize = 16;

/// Tokens and keys are stored as SHA-256, so that the time of a comparison reveals nothing about a guess.
#[derive(Default)]
pub struct Keys(Mutex<Secrets>);

#[derive(Default)]
struct Secrets {
    token: Option<[u8; 32]>,
    sessions: Vec<[u8; 32]>,
}

impl Keys {
    /// A new token, which replaces an unused one.
    pub fn issue(&self) -> io::Result<String> {
        let token = random()?;
        self.held(|held| held.token = Some(digest(&token)));
        Ok(token)
    }

    /// The key of a new session; `None` for a wrong or used token.
    pub fn exchange(&self, token: &str) -> io::Result<Option<String>> {
        let key = random()?;
        Ok(self.held(|held| {
            if held.token != Some(digest(token)) {
                return None;
            }
            held.token = None;
            if held.sessions.len() == MOST_SESSIONS {
                held.sessions.remove(0);
            }
            held.sessions.push(digest(&key));
            Some(key)
        }))
    }

    /// Whether this is the key of a session.
    pub fn knows(&self, key: &str) -> bool {
        let key = digest(key);
        self.held(|held| held.sessions.contains(&key))
    }

    fn held<T>(&self, look: impl FnOnce(&mut Secrets) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// Hexadecimal digits from the system's random source.
fn random() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_exchanged_once_and_only_its_key_is_known() {
        let keys = Keys::default();
        let token = keys.issue().unwrap();
        assert_eq!(token.len(), 2 * BYTES);
        assert!(keys.exchange("").unwrap().is_none() && keys.exchange(&token[1..]).unwrap().is_none());
        assert!(!keys.knows(&token));
        let key = keys.exchange(&token).unwrap().unwrap();
        assert!(keys.knows(&key) && key != token);
        assert!(!keys.knows("") && !keys.knows(&key[1..]) && !keys.knows(&key.to_uppercase()));
        assert!(keys.exchange(&token).unwrap().is_none());
    }

    #[test]
    fn a_new_token_ends_the_one_before_and_many_sessions_end_the_oldest() {
        let keys = Keys::default();
        let before = keys.issue().unwrap();
        let first = keys.exchange(&keys.issue().unwrap()).unwrap().unwrap();
        assert!(keys.exchange(&before).unwrap().is_none());
        for _ in 0..MOST_SESSIONS {
            assert!(keys.knows(&first));
            keys.exchange(&keys.issue().unwrap()).unwrap().unwrap();
        }
        assert!(!keys.knows(&first));
    }
}
