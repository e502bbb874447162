//! The bill of materials: a `CycloneDX` document of the packages in the program.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::artefacts::sha256;
use crate::command::{Failure, Result};
use crate::packages::{Key, Package};
use crate::product::{NAME, Product};

/// Returns the document, the same for the same packages.
pub(crate) fn document(product: &Product, packages: &[Package]) -> Result<String> {
    let seconds = i64::try_from(product.time).map_err(|_| Failure::new("the time is out of range"))?;
    let time = Timestamp::from_second(seconds)
        .map_err(|error| Failure(format!("the time is out of range: {error}")))?;
    let (own, others): (Vec<&Package>, Vec<&Package>) =
        packages.iter().partition(|package| package.name == NAME);
    let root = own.first().ok_or_else(|| Failure::new("the program has no package of its own name"))?;
    let mut program = component(root);
    program["type"] = json!("application");
    program["description"] = json!(product.description);
    let components: Vec<Value> = others.into_iter().map(component).collect();
    let dependencies: Vec<Value> = packages
        .iter()
        .map(|package| {
            let below: Vec<String> =
                package.dependencies.iter().map(|key| reference(packages, key)).collect();
            json!({"ref": reference(packages, &key(package)), "dependsOn": below})
        })
        .collect();
    let mut document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": "",
        "version": 1,
        "metadata": {
            "timestamp": time.to_string(),
            "tools": {"components": [{"type": "application", "name": "xtask-dist", "version": product.version}]},
            "component": program,
        },
        "components": components,
        "dependencies": dependencies,
    });
    document["serialNumber"] = json!(serial_number(&document.to_string()));
    Ok(format!("{document:#}\n"))
}

fn component(package: &Package) -> Value {
    let Package { name, version, .. } = package;
    let mut component = json!({
        "type": "library",
        "bom-ref": reference_of(package),
        "name": name,
        "version": version,
    });
    if let Some(licence) = &package.licence {
        // Older manifests separate alternatives by a slash, which SPDX does not know.
        component["licenses"] = json!([{"expression": licence.replace('/', " OR ")}]);
    }
    if let Some(checksum) = &package.checksum {
        component["purl"] = json!(format!("pkg:cargo/{name}@{version}"));
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if let Some(repository) = &package.repository {
        component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    component
}

fn key(package: &Package) -> Key {
    (package.name.clone(), package.version.clone())
}

fn reference(packages: &[Package], (name, version): &Key) -> String {
    let found = packages.iter().find(|package| (&package.name, &package.version) == (name, version));
    found.map_or_else(|| format!("{name}@{version}"), reference_of)
}

fn reference_of(package: &Package) -> String {
    let Package { name, version, .. } = package;
    if package.is_own() { format!("{name}@{version}") } else { format!("pkg:cargo/{name}@{version}") }
}

/// Returns a UUID made of the content: version 8 of RFC 9562, which leaves the bits to the application.
fn serial_number(content: &str) -> String {
    let hash = sha256(content.as_bytes());
    let part = |from: usize, to: usize| hash.get(from..to).unwrap_or_default();
    format!("urn:uuid:{}-{}-8{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::packages;
    use crate::target::Target;

    #[test]
    fn the_document_has_every_required_field_and_every_reference_leads_to_a_component() {
        let product = Product::of_this_checkout().unwrap();
        let packages = packages::all(&product, &[Target::of_this_machine().unwrap()]).unwrap();
        let text = document(&product, &packages).unwrap();
        assert_eq!(text, document(&product, &packages).unwrap());
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["bomFormat"], "CycloneDX");
        assert_eq!(document["serialNumber"].as_str().unwrap().len(), "urn:uuid:".len() + 36);
        assert_eq!(document["metadata"]["component"]["name"], "handfast");
        let components = document["components"].as_array().unwrap();
        assert_eq!(components.len(), packages.len() - 1);
        let mut references = BTreeSet::from([document["metadata"]["component"]["bom-ref"].as_str().unwrap()]);
        for component in components {
            for field in ["type", "name", "version", "bom-ref"] {
                assert!(component[field].is_string(), "{component}");
            }
            assert!(component["licenses"][0]["expression"].is_string(), "{component}");
            assert!(references.insert(component["bom-ref"].as_str().unwrap()), "twice: {component}");
        }
        for edge in document["dependencies"].as_array().unwrap() {
            for end in edge["dependsOn"].as_array().unwrap().iter().chain([&edge["ref"]]) {
                assert!(references.contains(end.as_str().unwrap()), "{edge}");
            }
        }
    }
}
