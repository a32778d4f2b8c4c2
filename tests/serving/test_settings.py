from pathlib import Path

import pytest
from pydantic import ValidationError

from intentmem.memory.errors import InputError
from intentmem.serving.settings import explain_settings, load_settings


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("INTENTMEM_CONFIG", "INTENTMEM_STORE__PATH", "INTENTMEM_READ__LIMIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def origins() -> dict[str, str]:
    return {setting.name: setting.origin for setting in explain_settings()}


def test_the_default_folder_is_the_users_and_never_a_temporary_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/mara")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert load_settings().store.path == Path("/home/mara/.local/share/intentmem")


def test_arguments_win_over_variables_and_variables_over_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "intentmem.toml").write_text("[read]\nlimit = 3\nbudget = 100\n[store]\npath = 'filed'\n")
    monkeypatch.setenv("INTENTMEM_READ__LIMIT", "4")
    settings = load_settings({"store": {"path": "given"}})
    assert (settings.store.path, settings.read.limit, settings.read.budget) == (Path("given"), 4, 100)


def test_each_value_tells_where_it_comes_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "intentmem.toml").write_text("[read]\nbudget = 100\n")
    monkeypatch.setenv("INTENTMEM_STORE__PATH", "/data")
    found = origins()
    assert found["read.budget"] == str(tmp_path / "intentmem.toml")
    assert found["store.path"] == "INTENTMEM_STORE__PATH"
    assert found["read.limit"] == "default"
    assert {s.name: s.origin for s in explain_settings({"read": {"limit": 1}})}["read.limit"] == "argument"


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"stor": {}}, "stor"),
        ({"store": {"pth": "x"}}, "store.pth"),
        ({"store": "x"}, "store"),
        ({"read": {"limit": 0}}, "read.limit"),
        ({"read": {"recipe": "magic"}}, "read.recipe"),
        ({"memory": {"namespace": ""}}, "memory.namespace"),
    ],
)
def test_an_unusable_setting_is_named(overrides: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as caught:
        load_settings(overrides)
    assert caught.value.field == field and caught.value.remedy


@pytest.mark.parametrize("variable", ["INTENTMEM_STOR__PATH", "INTENTMEM_STORE__PTH", "INTENTMEM_PATH"])
def test_an_unknown_variable_is_an_error(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "x")
    with pytest.raises(InputError, match="is not a setting"):
        load_settings()


@pytest.mark.parametrize("content", ["[store", "[store]\npth = 1\n", "\xff"])
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "intentmem.toml").write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=r"intentmem\.toml"):
        load_settings()


def test_a_named_file_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTENTMEM_CONFIG", "absent.toml")
    with pytest.raises(InputError, match="INTENTMEM_CONFIG"):
        load_settings()


def test_settings_cannot_be_changed() -> None:
    settings = load_settings()
    with pytest.raises(ValidationError):
        settings.store.path = Path("elsewhere")  # type: ignore[misc]


def test_a_profile_may_be_given_alone() -> None:
    assert load_settings({"embedder": "hash"}).embedder.profile == "hash"
