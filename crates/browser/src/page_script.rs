//! The script in the isolated world of every frame, and calls of its functions.
//!
//! The page cannot see the script or change what it uses. The script is sent once a document, when
//! the first call finds it missing.

/// The script as a function of the first number that its references may have.
pub(crate) const SCRIPT: &str = concat!(
    "function (firstNumber) {\n'use strict';\n",
    include_str!("page_script/dom.js"),
    include_str!("page_script/text.js"),
    include_str!("page_script/roles.js"),
    include_str!("page_script/visibility.js"),
    include_str!("page_script/states.js"),
    include_str!("page_script/names.js"),
    include_str!("page_script/references.js"),
    include_str!("page_script/snapshot.js"),
    include_str!("page_script/selectors.js"),
    include_str!("page_script/guard.js"),
    include_str!("page_script/actionability.js"),
    include_str!("page_script/describe.js"),
    include_str!("page_script/actions.js"),
    include_str!("page_script/read.js"),
    include_str!("page_script/masks.js"),
    include_str!("page_script/api.js"),
    "\n}",
);

/// Calls a function of the script by its name. Answers with JSON, or with the empty string if the
/// script is missing.
pub(crate) const CALL: &str = "function (name, ...values) {
  const { handfast } = globalThis;
  if (!handfast) return '';
  const written = (value) => `{\"next\":${handfast.next()},\"value\":${JSON.stringify(value)}}`;
  const value = handfast[name](...values);
  return value instanceof Promise ? value.then(written) : written(value);
}";

/// Returns an element by its number, as an object.
pub(crate) const ELEMENT: &str = "function (number) { return globalThis.handfast.elementOf(number); }";
