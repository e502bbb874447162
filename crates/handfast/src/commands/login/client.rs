//! The OAuth client of a login, from a file, from the environment, or from the previous login.

use std::io::Read;
use std::path::Path;

use serde_json::Value;
use tool::Clock;
use tools_work::Gmail;
use tools_work::oauth::{CLIENT_SECRET, Client, Login};
use vault::{LEAST_CHARACTERS, RequestPart, SecretBytes, Vault, VaultError};
use zeroize::Zeroizing;

use crate::cli_login::GmailLogin;
use crate::clock::SystemClock;
use crate::commands::Failure;
use crate::commands::vault::vault_failure;
use crate::host_environment::variable;

const ID_VARIABLE: &str = "HANDFAST_GMAIL_CLIENT_ID";
const SECRET_VARIABLE: &str = "HANDFAST_GMAIL_CLIENT_SECRET";
/// Maximum size of a client's file in bytes.
const LARGEST: u64 = 64 * 1024;

pub(super) fn of(arguments: &GmailLogin, vault: &Vault, gmail: &Gmail) -> Result<Client, Failure> {
    if let Some(path) = &arguments.client {
        return read(path);
    }
    let id_of_environment = || {
        variable(ID_VARIABLE).and_then(|id| String::from_utf8(id.to_vec()).ok()).filter(|id| !id.is_empty())
    };
    if let Some(id) = arguments.client_id.clone().or_else(id_of_environment) {
        return checked(id, variable(SECRET_VARIABLE).filter(|secret| !secret.is_empty()));
    }
    let Some(login) = Login::of(vault).map_err(vault_failure)? else {
        return Err(Failure::usage(format!(
            "Google has to know the program that asks: name the file of an OAuth client of the type \
             \"Desktop app\" with --client (Google's console creates one), or set {ID_VARIABLE} and \
             {SECRET_VARIABLE}"
        )));
    };
    let host = gmail.token().host().to_string();
    let secret = match vault.value_for(CLIENT_SECRET, &host, RequestPart::Body, SystemClock.now()) {
        Ok(secret) => Some(secret),
        Err(VaultError::Unknown) => None,
        Err(VaultError::NotForHost) => {
            return Err(Failure::usage(format!(
                "the OAuth client in the vault does not belong to {host}; name one that does with \
                 --client"
            )));
        }
        Err(error) => return Err(vault_failure(error)),
    };
    Ok(Client { id: login.client_id, secret })
}

fn read(path: &Path) -> Result<Client, Failure> {
    let wrong = |why: &dyn std::fmt::Display| Failure::usage(format!("{}: {why}", path.display()));
    let mut text = Zeroizing::new(String::new());
    let file = std::fs::File::open(path).map_err(|error| wrong(&error))?;
    file.take(LARGEST).read_to_string(&mut text).map_err(|error| wrong(&error))?;
    let file: Value =
        serde_json::from_str(&text).map_err(|_| wrong(&"this is not the file of an OAuth client"))?;
    if file.get("web").is_some() {
        return Err(wrong(&"this client is for web sites; create one of the type \"Desktop app\""));
    }
    let client = file.get("installed").unwrap_or(&file);
    let id = client["client_id"].as_str().ok_or_else(|| wrong(&"this file contains no `client_id`"))?;
    let secret = client["client_secret"].as_str().map(|secret| SecretBytes::copy_of(secret.as_bytes()));
    checked(id.to_owned(), secret)
}

fn checked(id: String, secret: Option<SecretBytes>) -> Result<Client, Failure> {
    if !id.bytes().all(|byte| byte.is_ascii_graphic()) || id.is_empty() {
        return Err(Failure::usage("the id of the OAuth client is not valid"));
    }
    if secret.as_ref().is_some_and(|secret| secret.len() < LEAST_CHARACTERS || !secret.is_ascii()) {
        return Err(Failure::usage("the secret of the OAuth client is not one of Google's"));
    }
    Ok(Client { id, secret })
}
