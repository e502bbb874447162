//! Nonces, keys and proofs of the two sides.
//!
//! A proof is an HMAC over the nonces of both sides, the origin and the role of the prover, so no proof
//! serves a second time, elsewhere, or for the other side. A pairing agrees on the key by an exchange of
//! public keys (P-256), of which each side proves that it has the code; the code itself never travels.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::hmac::{self, HMAC_SHA256};
use ring::pbkdf2::{self, PBKDF2_HMAC_SHA256};
use ring::rand::{SecureRandom, SystemRandom};

/// Number of bytes of nonces and keys.
const LENGTH: usize = 32;

/// Work that a guess of the code costs. A code has 40 bits and is valid for two minutes; this makes
/// trying them all take years. The number is OWASP's for PBKDF2 with SHA-256.
const ITERATIONS: u32 = 600_000;

/// Key of a pairing.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PairingKey(pub(super) [u8; LENGTH]);

impl std::fmt::Debug for PairingKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("PairingKey")
    }
}

/// Side that a proof is made by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Program at the port.
    Server,
    /// The extension.
    Extension,
}

impl Role {
    fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Extension => "extension",
        }
    }
}

/// Returns bytes as the messages carry them.
pub(super) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Returns the bytes of a text of a message; `None` if it is not in the one form that is accepted.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Returns true if a text is a nonce.
pub(super) fn is_nonce(text: &str) -> bool {
    decode(text).is_some_and(|bytes| bytes.len() == LENGTH)
}

/// Returns a new nonce; `None` if the system has no random numbers.
pub(super) fn nonce() -> Option<String> {
    random().map(|bytes| encode(&bytes))
}

/// Returns random bytes.
pub(super) fn random() -> Option<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}

/// Text that both sides of a connection have seen.
pub(super) struct Nonces<'a> {
    pub(super) server: &'a str,
    pub(super) extension: &'a str,
    pub(super) origin: &'a str,
}

impl Nonces<'_> {
    fn text(&self, role: Role) -> String {
        let Self { server, extension, origin } = self;
        format!("handfast-connection/1\n{}\n{server}\n{extension}\n{origin}", role.as_str())
    }

    /// Returns the proof of a side that it has the key.
    pub(super) fn proof(&self, key: &PairingKey, role: Role) -> String {
        sign(&key.0, &self.text(role))
    }

    /// Returns true if the proof is that of this side.
    pub(super) fn is_proof(&self, key: &PairingKey, role: Role, proof: &str) -> bool {
        verify(&key.0, &self.text(role), proof)
    }
}

fn sign(key: &[u8], text: &str) -> String {
    encode(hmac::sign(&hmac::Key::new(HMAC_SHA256, key), text.as_bytes()).as_ref())
}

/// Compares in constant time.
fn verify(key: &[u8], text: &str, proof: &str) -> bool {
    let Some(proof) = decode(proof) else { return false };
    hmac::verify(&hmac::Key::new(HMAC_SHA256, key), text.as_bytes(), &proof).is_ok()
}

/// Side of this program in a pairing.
pub(super) struct Exchange {
    private: EphemeralPrivateKey,
    /// Public key, as the messages carry it.
    pub(super) public: String,
}

impl Exchange {
    /// Begins an exchange; `None` if the system has no random numbers.
    pub(super) fn begin() -> Option<Self> {
        let private = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new()).ok()?;
        let public = encode(private.compute_public_key().ok()?.as_ref());
        Some(Self { private, public })
    }

    /// Agrees with the other side. Takes some tenths of a second, so it blocks. `None` if the public key
    /// is none.
    pub(super) fn agree(self, nonces: &Nonces<'_>, other: &str, code: &str) -> Option<Agreement> {
        let transcript = transcript(nonces, &self.public, other);
        let other = UnparsedPublicKey::new(&ECDH_P256, decode(other)?);
        let key = agree_ephemeral(self.private, &other, |shared| {
            let text = format!("key\n{transcript}");
            hmac::sign(&hmac::Key::new(HMAC_SHA256, shared), text.as_bytes())
        });
        let key = PairingKey(key.ok()?.as_ref().try_into().ok()?);
        Some(Agreement { key, confirmation: confirmation(code, &transcript), transcript })
    }
}

/// Text of everything that was said before the proofs of a pairing.
fn transcript(nonces: &Nonces<'_>, server_public: &str, extension_public: &str) -> String {
    let Nonces { server, extension, origin } = nonces;
    format!("handfast-pairing/1\n{server}\n{extension}\n{server_public}\n{extension_public}\n{origin}")
}

/// Returns the key that only somebody with the code can compute.
fn confirmation(code: &str, transcript: &str) -> [u8; LENGTH] {
    let mut key = [0; LENGTH];
    let iterations = std::num::NonZeroU32::new(ITERATIONS).unwrap_or(std::num::NonZeroU32::MIN);
    pbkdf2::derive(PBKDF2_HMAC_SHA256, iterations, transcript.as_bytes(), code.as_bytes(), &mut key);
    key
}

/// Key that was agreed on, with what proves that the other side has the code.
pub(super) struct Agreement {
    pub(super) key: PairingKey,
    confirmation: [u8; LENGTH],
    transcript: String,
}

impl Agreement {
    /// Returns the proof of a side that it has the code.
    pub(super) fn proof(&self, role: Role) -> String {
        sign(&self.confirmation, &format!("{}\n{}", role.as_str(), self.transcript))
    }

    /// Returns true if the proof is that of this side.
    pub(super) fn is_proof(&self, role: Role, proof: &str) -> bool {
        verify(&self.confirmation, &format!("{}\n{}", role.as_str(), self.transcript), proof)
    }
}

#[cfg(test)]
impl Exchange {
    /// Agrees as the extension does, which has its own public key as the second.
    pub(super) fn agree_as_extension(self, nonces: &Nonces<'_>, other: &str, code: &str) -> Agreement {
        let transcript = transcript(nonces, other, &self.public);
        let theirs = UnparsedPublicKey::new(&ECDH_P256, decode(other).unwrap());
        let key = agree_ephemeral(self.private, &theirs, |shared| {
            hmac::sign(&hmac::Key::new(HMAC_SHA256, shared), format!("key\n{transcript}").as_bytes())
        });
        let key = PairingKey(key.unwrap().as_ref().try_into().unwrap());
        Agreement { key, confirmation: confirmation(code, &transcript), transcript }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_one_connection_one_side_and_one_origin() {
        let key = PairingKey(random().unwrap());
        let (server, extension) = (nonce().unwrap(), nonce().unwrap());
        let here = Nonces { server: &server, extension: &extension, origin: "chrome-extension://a" };
        let proof = here.proof(&key, Role::Extension);
        assert!(here.is_proof(&key, Role::Extension, &proof));
        assert!(!here.is_proof(&key, Role::Server, &proof), "a reflected proof");
        assert!(!here.is_proof(&PairingKey(random().unwrap()), Role::Extension, &proof));
        let turned = Nonces { server: &extension, extension: &server, origin: here.origin };
        assert!(!turned.is_proof(&key, Role::Extension, &proof));
        let elsewhere = Nonces { origin: "chrome-extension://b", ..here };
        assert!(!elsewhere.is_proof(&key, Role::Extension, &proof));
        for none in ["", "AAAA", "not base64", &proof[..proof.len() - 4]] {
            assert!(!here.is_proof(&key, Role::Extension, none));
        }
    }

    #[test]
    fn both_sides_of_a_pairing_agree_if_they_have_the_same_code() {
        let (server, extension) = (nonce().unwrap(), nonce().unwrap());
        let nonces = Nonces { server: &server, extension: &extension, origin: "chrome-extension://a" };
        let exchanges = || (Exchange::begin().unwrap(), Exchange::begin().unwrap());
        let (one, other) = exchanges();
        let (one_public, other_public) = (one.public.clone(), other.public.clone());
        let here = one.agree(&nonces, &other_public, "ABCD2345").unwrap();
        let there = other.agree_as_extension(&nonces, &one_public, "ABCD2345");
        assert!(here.key == there.key);
        assert!(here.is_proof(Role::Extension, &there.proof(Role::Extension)));
        assert!(there.is_proof(Role::Server, &here.proof(Role::Server)));
        assert!(!here.is_proof(Role::Extension, &here.proof(Role::Server)), "a reflected proof");
        let guess = Agreement { confirmation: confirmation("ABCD2346", &there.transcript), ..there };
        assert!(!here.is_proof(Role::Extension, &guess.proof(Role::Extension)));
        assert!(exchanges().0.agree(&nonces, "AAAA", "ABCD2345").is_none());
    }
}
