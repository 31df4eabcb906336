"""Licenses of everything that a program contains, and its bill of materials (SBOM) in CycloneDX form."""

import collections
import json
import pathlib
import re
import time
import tomllib
import uuid

# License files, at the root of a package or of a folder in it (zstd's C code).
LICENSE_FILE = re.compile(r"(?i)^(licen[cs]e|copying|copyright|notice|unlicense)")


class Materials:
    """The packages that a crate of the workspace is compiled with for a target."""

    def __init__(self, metadata, crate, lock):
        packages = {package["id"]: package for package in metadata["packages"]}
        nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
        self.root = next(package for package in packages.values() if package["name"] == crate)
        self.edges = {}
        waiting = [self.root["id"]]
        while waiting:
            name = waiting.pop()
            if name not in self.edges:
                # Dependencies that only build scripts and tests use are not in the program.
                uses = [dep["pkg"] for dep in nodes[name]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
                self.edges[name] = sorted(uses)
                waiting += uses
        self.packages = sorted((packages[name] for name in self.edges), key=lambda package: (package["name"], package["version"]))
        self.own = set(metadata["workspace_members"])
        self.checksums = {(p["name"], p["version"]): p.get("checksum") for p in tomllib.loads(lock)["package"]}

    def licenses(self, root, further):
        """Returns the texts of all licenses, equal texts once. `further` names linked code outside packages."""
        users = collections.defaultdict(list)
        for name, terms, text in further:
            users[text].append(f"{name}: {terms}")
        for package in self.packages:
            if package["id"] in self.own:
                continue
            texts = texts_of(package)
            if not texts:
                # A package published without the text of its license gets that of a sister package, else the standard
                # text.
                sisters = (other for other in self.packages if other["repository"] == package["repository"])
                texts = {text for sister in sisters for text in texts_of(sister)} or usual_texts(root, package)
            if not texts:
                raise SystemExit(f"error: {package['name']} {package['version']} has no license file and names {package['license']!r}; "
                                 "add its text to deploy/build_all/materials.py")
            for text in texts:
                users[text].append(f"{package['name']} {package['version']}: {expression(package)}")
        parts = ["Chumoku contains the following software, under the licenses below.\n"]
        for names, text in sorted((sorted(names), text) for text, names in users.items()):
            parts.append("\n" + "=" * 80 + "\n" + "".join(f"{name}\n" for name in names) + "-" * 80 + "\n" + normal(text))
        return "".join(parts).encode()

    def sbom(self, target, commit, commit_time):
        """Returns the packages and their dependencies as CycloneDX 1.6."""
        references = {package["id"]: f"pkg:cargo/{package['name']}@{package['version']}" for package in self.packages}
        components = [self.component(package, references[package["id"]]) for package in self.packages if package is not self.root]
        number = uuid.uuid5(uuid.NAMESPACE_URL, f"{commit}/{self.root['name']}/{target}")
        root = self.component(self.root, references[self.root["id"]])
        properties = [{"name": "commit", "value": commit}, {"name": "target", "value": target}]
        document = {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "serialNumber": number.urn,
            "version": 1,
            "metadata": {
                "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(commit_time)),
                "component": {**root, "type": "application", "properties": properties},
            },
            "components": components,
            "dependencies": [
                {"ref": references[package["id"]], "dependsOn": sorted(references[name] for name in self.edges[package["id"]])}
                for package in self.packages
            ],
        }
        return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()

    def component(self, package, reference):
        component = {
            "type": "library",
            "bom-ref": reference,
            "name": package["name"],
            "version": package["version"],
            "purl": reference,
            "licenses": [{"expression": expression(package)}],
        }
        checksum = self.checksums.get((package["name"], package["version"]))
        if checksum:
            component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        return component


def expression(package):
    """Returns the license as an SPDX expression; older packages write a slash."""
    return (package["license"] or "see its license file").replace("/", " OR ").replace("  ", " ")


def license_files(folder):
    """Returns the license files of a package."""
    for path in sorted([*folder.iterdir(), *(file for sub in folder.iterdir() if sub.is_dir() for file in sub.iterdir())]):
        if path.is_file() and LICENSE_FILE.match(path.name) and path.suffix not in (".rs", ".json", ".html"):
            yield path


def texts_of(package):
    """Returns the texts of the licenses in a package."""
    return {path.read_text("utf-8", "replace") for path in license_files(pathlib.Path(package["manifest_path"]).parent)}


def usual_texts(root, package):
    """Returns the text of a standard license, with the authors of the package."""
    terms = package["license"] or ""
    if "MIT" in terms:
        _, _, text = (root / "LICENSE-MIT").read_text("utf-8").partition("\n\nPermission")
        return {f"MIT License\n\nCopyright (c) {', '.join(package['authors']) or 'the authors of ' + package['name']}\n\nPermission{text}"}
    return {(root / "LICENSE-APACHE").read_text("utf-8")} if "Apache-2.0" in terms else set()


def normal(text):
    """Returns a text with LF line ends and one at its end."""
    return text.replace("\r\n", "\n").strip("\n") + "\n"
