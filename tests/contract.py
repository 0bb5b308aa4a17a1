"""docs/openapi.yaml as what responses are held to."""

import json
import pathlib
import re
import sys

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"{missing.name} is missing: run scripts/install-dependencies.sh")
    sys.exit(77)

FILE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "openapi.yaml"
METHODS = ("get", "put", "post", "patch", "delete")


def as_json_schema(schema):
    """Converts a schema of OpenAPI 3.0 to JSON Schema; objects may have only the listed members."""
    if isinstance(schema, list):
        return [as_json_schema(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: as_json_schema(value) for name, value in schema.items()}
    if schema.pop("nullable", False):
        schema["type"] = [schema["type"], "null"]
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        schema.setdefault("additionalProperties", False)
    if schema.pop("exclusiveMinimum", False) is True:
        schema["exclusiveMinimum"] = schema.pop("minimum")
    return schema


class Contract:
    def __init__(self):
        self.document = yaml.safe_load(FILE.read_text())
        self.components = as_json_schema(self.document["components"])
        self.validators = {}

    def operations(self):
        """Returns {(method, path): statuses}."""
        return {(method.upper(), path): {int(status) for status in item[method]["responses"]}
                for path, item in self.document["paths"].items() for method in METHODS if method in item}

    def operation_at(self, method, target):
        """Returns the operation of a request; None if the contract does not have it."""
        path = target.split("?")[0]
        for pattern, item in self.document["paths"].items():
            if method.lower() in item and re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(pattern)), path):
                return item[method.lower()]
        return None

    def error(self, method, target, status, content_type, body):
        """Returns how a response violates the contract, in words; None if it does not."""
        path = target.split("?")[0]
        operation = self.operation_at(method, target)
        if operation is None:
            if status not in (400, 401, 403, 404, 405, 413, 429):
                return f"there is no such route, but the response is {status}"
            response = self.document["components"]["responses"]["NotARoute"]
        elif str(status) in operation["responses"]:
            response = operation["responses"][str(status)]
        else:
            return f"{status} is not one of {sorted(operation['responses'])}"
        if "$ref" in response:
            response = self.document["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
        kind = (content_type or "").split(";")[0]
        if kind not in response["content"]:
            return f"it is {content_type}, not one of {list(response['content'])}"
        if kind != "application/json":
            return None
        if path.startswith(("/v1/", "/health")) and not body.endswith(b"\n"):
            return "it does not end with a newline"
        try:
            document = json.loads(body, parse_constant=lambda name: 1 / 0)
        except (ValueError, ZeroDivisionError) as error:
            return f"it is no JSON: {error}"
        found = jsonschema.exceptions.best_match(self.validator(response["content"][kind]["schema"]).iter_errors(document))
        return found and f"{found.json_path}: {found.message}"

    def validator(self, schema):
        key = json.dumps(schema, sort_keys=True)
        if key not in self.validators:
            self.validators[key] = jsonschema.Draft202012Validator(
                {**as_json_schema(schema), "components": self.components})
        return self.validators[key]
