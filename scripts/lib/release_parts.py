"""Writes the SBOM of a release, and the licences of the crates in its binary. It runs in the folder of the workspace.

Usage: release_parts.py CYCLONEDX SBOM LICENCES SPDX

CYCLONEDX is the output of cargo-cyclonedx. It includes optional dependencies that no feature enables, which SBOM lacks
(https://github.com/CycloneDX/cyclonedx-rust-cargo/issues/766). LICENCES gets the licence texts in the sources of the
crates, each once. SPDX is a folder with texts for crates that come without one.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

LICENCE_FILE = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)([-_.].*)?(?<!\.rs)", re.IGNORECASE)
NOT_COMPILED = {"benches", "examples", "sqlcipher", "tests"}


def crates(edges):
    """Returns name and version of the crates that the binary needs by these kinds of dependencies."""
    command = ["cargo", "tree", "--frozen", "--package=petstore", f"--edges={edges}", "--prefix=none", "--format={p}"]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return {(name, version.removeprefix("v")) for name, version in (line.split()[:2] for line in lines)}


def identity(component):
    return component["name"], component["version"]


def prune(sbom):
    """Removes the crates that are not compiled, and marks those that only build scripts use."""
    linked, compiled = crates("normal"), crates("normal,build")
    sbom["components"] = [crate for crate in sbom["components"] if identity(crate) in compiled]
    described = {identity(crate) for crate in [sbom["metadata"]["component"], *sbom["components"]]}
    if described != compiled:
        sys.exit(f"error: cargo-cyclonedx does not describe {sorted(compiled - described)}")
    for crate in sbom["components"]:
        crate["scope"] = "required" if identity(crate) in linked else "excluded"
    references = {crate["bom-ref"] for crate in [sbom["metadata"]["component"], *sbom["components"]]}
    sbom["dependencies"] = [node for node in sbom["dependencies"] if node["ref"] in references]
    for node in sbom["dependencies"]:
        if "dependsOn" in node:
            node["dependsOn"] = [reference for reference in node["dependsOn"] if reference in references]


def licence_texts(crate, spdx):
    """Returns the licence texts of a crate: those in its source, at least one for the crate as a whole."""
    name, version = identity(crate)
    (source,) = Path(os.environ["CARGO_HOME"]).glob(f"registry/src/*/{name}-{version}")
    texts, is_whole = [], False
    for folder, folders, files in os.walk(source):
        folders[:] = sorted(set(folders) - NOT_COMPILED)
        for file in sorted(filter(LICENCE_FILE.fullmatch, files)):
            texts.append(Path(folder, file).read_text(encoding="utf-8", errors="replace"))
            is_whole |= Path(folder) == source
    if not is_whole:
        texts.append(standard_text(crate, spdx))
    return ["\n".join(line.rstrip() for line in text.splitlines()).strip("\n") for text in texts]


def standard_text(crate, spdx):
    """Returns the text of the licence that a crate only names."""
    names = re.split(r" OR |/", crate["licenses"][0]["expression"])
    if "Apache-2.0" in names:
        return Path(spdx, "Apache-2.0.txt").read_text(encoding="utf-8")
    if "MIT" in names:
        holders = crate.get("author", f"the authors of {crate['name']}")
        return Path(spdx, "MIT.txt").read_text(encoding="utf-8").replace("<year> <copyright holders>", holders)
    sys.exit(f"error: {crate['name']} has no licence text, and this script none for {crate['licenses']}")


def licences(sbom, spdx):
    """Returns the page of licences: the crates with the numbers of their texts, then the texts."""
    page = ["The binary contains these crates of https://crates.io, each under the licence texts with its numbers."]
    page += ["LICENSES-RUST-LIBRARY.html has the licences of Rust's standard library.", ""]
    numbers = {}
    for crate in sbom["components"]:
        if crate["scope"] == "required" and not crate["bom-ref"].startswith("path+"):
            texts = licence_texts(crate, spdx)
            own = sorted({numbers.setdefault(text, len(numbers) + 1) for text in texts})
            licence = crate["licenses"][0]["expression"]
            page.append(f"{' '.join(identity(crate))} ({licence}): {', '.join(map(str, own))}")
    for text, number in numbers.items():
        page += ["", f"{'=' * 30} {number} {'=' * 30}", "", text]
    return "\n".join(page) + "\n"


def main():
    cyclonedx, sbom_path, licences_path, spdx = sys.argv[1:]
    sbom = json.loads(Path(cyclonedx).read_text(encoding="utf-8"))
    prune(sbom)
    Path(licences_path).write_text(licences(sbom, spdx), encoding="utf-8")
    text = json.dumps(sbom, indent=2, ensure_ascii=False).replace(f"path+file://{os.getcwd()}", "path+file:///petstore")
    Path(sbom_path).write_text(text + "\n", encoding="utf-8")


main()
