"""Checks an OpenAPI document, which is standard input: by the standard's own schema, and each example by the schema beside it."""

import json
import sys

from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

document = json.load(sys.stdin)
problems = [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()]

resource = Resource(contents=document, specification=DRAFT202012)
registry = Registry().with_resource("urn:document", resource)


def at_root(schema):
    """References in the schema lead into the document."""
    text = json.dumps(schema).replace('"#/', '"urn:document#/')
    return json.loads(text)


examples = 0
for path, methods in document["paths"].items():
    for method, operation in methods.items():
        contents = {"requestBody": operation.get("requestBody", {}).get("content", {})}
        contents["200"] = operation["responses"]["200"]["content"]
        for where, content in contents.items():
            if content and not any("example" in media for media in content.values()):
                problems.append(f"{method} {path} has no example in {where}")
            for media in content.values():
                if "example" not in media:
                    continue
                examples += 1
                validator = Draft202012Validator(at_root(media["schema"]), registry=registry)
                for error in validator.iter_errors(media["example"]):
                    problems.append(f"the example of {method} {path}: {error.message}")

for problem in problems:
    print(problem)
print(f"{examples} examples", file=sys.stderr)
sys.exit(1 if problems else 0)
