//! Certificates for hosts whose connections are opened, issued by an authority that only the cells
//! of one session trust.
//!
//! The key of the authority exists in the memory of this process only.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fetch::address::Host;
use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// ALPN protocols on an opened connection (RFC 7301). The proxy swaps and redacts in HTTP messages only.
pub(crate) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// The authorities that servers' certificates must chain to.
#[derive(Debug, Clone)]
pub struct Trust {
    roots: Vec<CertificateDer<'static>>,
}

impl Trust {
    /// Loads the authorities of this system. Blocks while files are read.
    ///
    /// # Errors
    /// The first error of the system's store, if no certificate could be read.
    pub fn of_system() -> io::Result<Self> {
        let loaded = rustls_native_certs::load_native_certs();
        match loaded.errors.into_iter().next() {
            Some(error) if loaded.certs.is_empty() => Err(io::Error::other(error)),
            _ => Ok(Self { roots: loaded.certs }),
        }
    }

    /// Trusts a single authority.
    pub fn of(authority: CertificateDer<'static>) -> Self {
        Self { roots: vec![authority] }
    }
}

/// The authority of one session, with the authorities that this proxy trusts for servers.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// Key of all certificates that the authority issues.
    key: KeyPair,
    provider: Arc<CryptoProvider>,
    given: Mutex<HashMap<Host, Arc<ServerConfig>>>,
    /// TLS configurations for servers: HTTP/1.1 only, and HTTP/2 with HTTP/1.1.
    servers: [Arc<ClientConfig>; 2],
    bundle: String,
}

impl Authority {
    /// Creates the authority with new keys.
    ///
    /// # Errors
    /// An error if the system has no randomness for keys, or a certificate cannot be made.
    pub fn make(trust: &Trust) -> io::Result<Self> {
        let mut parameters = CertificateParams::new(Vec::<String>::new()).map_err(io::Error::other)?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        parameters.distinguished_name.push(DnType::CommonName, "Handfast, for this session alone");
        let make_key = || KeyPair::generate().map_err(io::Error::other);
        let issuer = CertifiedIssuer::self_signed(parameters, make_key()?).map_err(io::Error::other)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        // Skip certificates of the system that are too old to be parsed.
        roots.add_parsable_certificates(trust.roots.iter().cloned());
        let mut servers = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        servers.alpn_protocols = vec![HTTP1.to_vec()];
        let mut of_both = servers.clone();
        of_both.alpn_protocols.insert(0, HTTP2.to_vec());
        let mut bundle = issuer.pem();
        trust.roots.iter().for_each(|certificate| add(&mut bundle, certificate));
        Ok(Self {
            issuer,
            key: make_key()?,
            provider,
            given: Mutex::default(),
            servers: [Arc::new(servers), Arc::new(of_both)],
            bundle,
        })
    }

    /// Returns the certificates that programs in the cells must trust, in PEM: this authority, and
    /// those of the system.
    pub fn bundle(&self) -> &str {
        &self.bundle
    }

    /// Returns the TLS configuration for servers with HTTP/1.1.
    pub(crate) fn servers(&self) -> Arc<ClientConfig> {
        self.servers[0].clone()
    }

    /// Returns the TLS configuration for servers with HTTP/2, and with HTTP/1.1 for servers without HTTP/2.
    pub(crate) fn servers_of_both(&self) -> Arc<ClientConfig> {
        self.servers[1].clone()
    }

    /// Returns the TLS configuration with which this proxy poses as `host` to a program.
    pub(crate) fn in_place_of(&self, host: &Host) -> io::Result<Arc<ServerConfig>> {
        let mut given = self.given.lock();
        if let Some(config) = given.get(host) {
            return Ok(config.clone());
        }
        let mut parameters = CertificateParams::new(vec![host.to_string()]).map_err(io::Error::other)?;
        parameters.distinguished_name.push(DnType::CommonName, "Handfast");
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        parameters.use_authority_key_identifier_extension = true;
        let certificate = parameters.signed_by(&self.key, &self.issuer).map_err(io::Error::other)?;
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).map_err(io::Error::other)?;
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        let config = Arc::new(config);
        given.insert(host.clone(), config.clone());
        Ok(config)
    }
}

fn add(bundle: &mut String, certificate: &CertificateDer<'_>) {
    let text = STANDARD.encode(certificate);
    bundle.push_str("-----BEGIN CERTIFICATE-----\n");
    // RFC 7468, section 2: lines of 64 characters.
    for line in text.as_bytes().chunks(64) {
        bundle.push_str(&String::from_utf8_lossy(line));
        bundle.push('\n');
    }
    bundle.push_str("-----END CERTIFICATE-----\n");
}

impl fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authority").finish_non_exhaustive()
    }
}
