"""A release has the files of one commit, under the names that other files use."""

import importlib.machinery
import importlib.util
import pathlib
import shutil

import pytest

pytest.importorskip("tomllib", reason="releases are made with Python 3.11 or later")
DEPLOY = pathlib.Path(__file__).resolve().parent.parent
LINUX, OTHER = "x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"


@pytest.fixture
def script():
    loader = importlib.machinery.SourceFileLoader("build_all_script", str(DEPLOY / "build-all"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@pytest.fixture
def at_commit(script, tmp_path, monkeypatch):
    """Makes releases of commits in one folder. Programs, crates and wheels are stubs that are not compiled."""

    def made(commit, version):
        monkeypatch.setattr(script, "output", lambda *words, **options: "0" if "show" in words else commit)
        release = script.Release(tmp_path / "target", tmp_path / "dist")
        release.version = version

        def part(*names):
            def write():
                for name in names:
                    script.archive.put(release.out / name, f"{name} of {commit}".encode())
                return [release.out / name for name in names]

            return write

        release.parts = {target: part(script.archive_name(target)) for target in (LINUX, OTHER)}
        release.parts |= {"wheel": part(f"chumoku-{version}-any.whl"), "crates": part(f"crates/01-chumoku-{version}.crate")}
        release.parts |= {"packages": release.packages, "checksums": release.checksums}
        return release

    return made


def names(release):
    return [path.relative_to(release.out).as_posix() for path in release.files()]


def summed(release):
    return [line.split("  ")[1] for line in (release.out / "SHA256SUMS").read_text().splitlines()]


def test_artifacts_are_of_one_commit(at_commit):
    first = at_commit("a" * 40, "0.1.0")
    for part in first.parts:
        first.make(part)
    whole = ["chumoku-0.1.0-any.whl", f"chumoku-{OTHER}.tar.xz", f"chumoku-{LINUX}.tar.xz", "crates/01-chumoku-0.1.0.crate"]
    assert names(first) == summed(first) == whole and first.others() == []

    # The next commit builds some parts. The rest of the folder belongs to the commit before.
    second = at_commit("b" * 40, "0.2.0")
    assert second.files() == [] == second.made(LINUX) and second.others() == ["SHA256SUMS", *whole]
    for part in (LINUX, "wheel", "crates", "checksums"):
        second.make(part)
    of_second = ["chumoku-0.2.0-any.whl", f"chumoku-{LINUX}.tar.xz", "crates/01-chumoku-0.2.0.crate"]
    assert names(second) == summed(second) == of_second and second.others() == [f"chumoku-{OTHER}.tar.xz"]
    assert not (second.out / whole[0]).exists() and not (second.out / whole[-1]).exists()
    assert "b" * 40 in second.made(LINUX)[0].read_text() and second.made(OTHER) == []


def test_a_part_is_made_once_and_again_where_its_files_are_gone(at_commit, capsys):
    release = at_commit("a" * 40, "0.1.0")
    release.make("wheel")
    release.make("wheel")
    assert capsys.readouterr().out == "=== wheel\n"
    release.made("wheel")[0].unlink()
    assert release.made("wheel") == [] == names(release)
    release.make("wheel")
    assert names(release) == ["chumoku-0.1.0-any.whl"]


def test_checksums_of_packages_are_those_of_this_commit(script, at_commit):
    first = at_commit("a" * 40, "0.1.0")
    targets = [target for target in script.PROGRAMS if "windows" not in target]
    for target in targets:
        packed = first.out / script.archive_name(target)
        script.archive.put(packed, target.encode())
        first.parts[target] = lambda packed=packed: [packed]
        first.make(target)
    first.make("packages")
    assert script.archive.sha256(first.made(OTHER)[0]) in (first.out / "chumoku.rb").read_text()
    script.SKIPPED.clear()
    second = at_commit("b" * 40, "0.2.0")
    second.make(LINUX)
    second.make("packages")
    assert not (second.out / "chumoku.rb").exists() and second.made("packages") == []
    assert script.archive_name(OTHER) in script.SKIPPED[0] and script.archive_name(LINUX) not in script.SKIPPED[0]


def test_the_dockerfile_and_templates_name_the_archives(script, tmp_path):
    script.check_names(DEPLOY)
    for file, written in [("Dockerfile", "chumoku-*-"), ("templates/chumoku.rb", "chumoku-@VERSION@-")]:
        deploy = tmp_path / pathlib.Path(file).name
        shutil.copytree(DEPLOY / "templates", deploy / "templates")
        shutil.copy(DEPLOY / "Dockerfile", deploy)
        script.check_names(deploy)
        text = (deploy / file).read_text("utf-8")
        (deploy / file).write_text(text.replace("chumoku-x86_64-", f"{written}x86_64-"), "utf-8")
        with pytest.raises(SystemExit, match=f"{pathlib.Path(file).name} names "):
            script.check_names(deploy)
    # An image for each Linux program.
    (deploy / "Dockerfile").write_text(f"ADD {script.archive_name(LINUX)} /\n")
    shutil.copy(DEPLOY / "templates/chumoku.rb", deploy / "templates")
    with pytest.raises(SystemExit, match="Dockerfile names "):
        script.check_names(deploy)
