//! Secrets that are typed into pages: the caller names them, and never sees them.

use browser::TargetFacts;
use tool::{Code, Context, Effect, ToolError};
use url::{Host, Url};
use vault::{RequestPart, SecretBytes, Vault, VaultError};

/// Returns the name of the secret if the value is `{{secret:NAME}}`.
///
/// # Errors
/// `EVALIDATION` naming `value` if the text holds more than that, or the name is none.
pub(crate) fn named(value: &str) -> Result<Option<&str>, ToolError> {
    if !value.contains("{{secret:") {
        return Ok(None);
    }
    let name = value.trim().strip_prefix("{{secret:").and_then(|rest| rest.strip_suffix("}}"));
    match name.filter(|name| vault::is_name(name)) {
        Some(name) => Ok(Some(name)),
        None => Err(ToolError::validation("value", "a secret is typed alone, as {{secret:NAME}}")),
    }
}

/// Returns the effect of typing a secret into this field of a document with this URL.
///
/// # Errors
/// `EPERMISSION` if the field is none for a password and none that the secret's entry names, or if its document came over a network without
/// encryption.
pub(crate) fn effect(name: &str, facts: &TargetFacts, url: &str, vault: &Vault) -> Result<Effect, ToolError> {
    let refused =
        |why: &str| Err(ToolError::new(Code::Permission, format!("the secret {name} is not typed: {why}")));
    if !facts.is_password && field(name, facts, vault)?.is_none() {
        return refused(
            "the element is no field for a password, and no field of the secret (`vault set --field`)",
        );
    }
    let Some(origin) = Url::parse(url).ok().filter(Url::has_host) else {
        return refused("its page belongs to no host");
    };
    let is_here = match origin.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    if origin.scheme() != "https" && !is_here {
        return refused("its page was not loaded over https");
    }
    Ok(Effect::UseSecret { name: name.to_owned(), host: crate::origin::host_of(&origin) })
}

/// Returns the name of the field if the vault's entry of the secret names the field.
///
/// # Errors
/// `EUNAVAILABLE` if the vault is locked.
pub(crate) fn field<'a>(
    name: &str,
    facts: &'a TargetFacts,
    vault: &Vault,
) -> Result<Option<&'a str>, ToolError> {
    let contents = match vault.contents() {
        Err(VaultError::NoVault) => return Ok(None),
        contents => contents.map_err(tool_support::vault_error)?,
    };
    let Some((entry, _)) = contents.get(name) else { return Ok(None) };
    let mut names = [facts.field_name.as_str(), facts.autocomplete.as_str()].into_iter();
    Ok(names.find(|field| !field.is_empty() && entry.fields.iter().any(|named| named == field)))
}

/// Returns the value of the secret for the host that was decided on.
///
/// # Errors
/// The errors of [`tool_support::secret`].
pub(crate) fn value(context: &Context, name: &str, effects: &[Effect]) -> Result<SecretBytes, ToolError> {
    let host = effects.iter().find_map(|effect| match effect {
        Effect::UseSecret { name: decided, host } if decided == name => Some(host),
        _ => None,
    });
    let host = host.ok_or_else(|| {
        ToolError::new(Code::Permission, format!("the use of the secret {name} was not decided on"))
    })?;
    tool_support::secret(context, name, host, RequestPart::Body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_stands_alone() {
        assert_eq!(named("plain").unwrap(), None);
        assert_eq!(named(" {{secret:shop_password}} ").unwrap(), Some("shop_password"));
        for wrong in
            ["a {{secret:x}}", "{{secret:}}", "{{secret:a}}{{secret:b}}", "{{secret:x", "{{secret:../x}}"]
        {
            let error = named(wrong).unwrap_err();
            assert_eq!(error.code, Code::Validation, "{wrong}");
            assert!(error.message.contains("value"), "{wrong}: {}", error.message);
        }
    }
}
