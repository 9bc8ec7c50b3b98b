"""The table of settings: parsing, errors, scopes, documentation."""

import pathlib
import re
import warnings

import pytest

import tl_dpnp
from tl_dpnp import config
from tl_dpnp.errors import SettingWarning, TLError

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    monkeypatch.setattr(config, "_reported", set())
    monkeypatch.setattr(config, "_environment", {"size": 0})
    for setting in config.SETTINGS.values():
        monkeypatch.delenv(setting.variable, raising=False)


def test_defaults_hold_when_nothing_is_set():
    assert {name: config.get(name) for name in config.SETTINGS} == {s.name: s.default for s in config.SETTINGS.values()}


@pytest.mark.parametrize(("text", "value"), [("1", True), ("off", False), (" True ", True), ("0", False)])
def test_flags_are_read_from_the_environment(monkeypatch, text, value):
    monkeypatch.setenv("TL_DPNP_DEBUG", text)
    assert config.get("DEBUG") is value


def test_an_empty_variable_means_the_default(monkeypatch):
    monkeypatch.setenv("TL_DPNP_CACHE", "")
    assert config.get("CACHE") is True


def test_folders_are_made_absolute(monkeypatch):
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", "~/kernels")
    assert config.get("CACHE_DIR") == str(pathlib.Path("~/kernels").expanduser())


@pytest.mark.parametrize(
    ("variable", "text", "takes"),
    [("TL_DPNP_CACHE", "maybe", "0 or 1"), ("TL_DPNP_TARGET", "cpu", "sycl, cuda, reference"),
     *(("TL_DPNP_SPIN_US", text, "a whole number of µs") for text in ("0.5", "200us", "-1", "1" + 30 * "0"))],
)
def test_a_bad_value_names_the_variable_and_what_it_takes(monkeypatch, variable, text, takes):
    monkeypatch.setenv(variable, text)
    with pytest.raises(TLError) as caught:
        config.get(variable.removeprefix(config.PREFIX))
    assert str(caught.value) == f"{variable}={text!r} is not understood: it takes {takes}"


def test_scopes_nest_and_end(monkeypatch):
    monkeypatch.setenv("TL_DPNP_CACHE", "0")
    with config.scope(CACHE=True, TARGET="reference"):
        assert config.get("CACHE") is True
        with config.scope(TARGET=None):
            assert (config.get("CACHE"), config.get("TARGET")) == (True, "sycl")
        assert config.get("TARGET") == "reference"
    assert (config.get("CACHE"), config.get("TARGET")) == (False, "sycl")


def test_what_a_setting_is_can_be_given_to_a_scope():
    for logs in ((), ("launch", "cache")):
        with config.scope(LOGS=logs):
            assert config.get("LOGS") == logs
    with config.scope(LOGS="cache"), config.scope(**{name: config.get(name) for name in config.SETTINGS}):
        assert config.get("LOGS") == ("cache",)
        assert config.get("CACHE_DIR") is None


def test_an_empty_value_means_the_default_in_a_scope_as_well():
    """A folder without a name would be the one that the process is in."""
    with config.scope(CACHE_DIR="", LOGS=" "):
        assert (config.get("CACHE_DIR"), config.get("LOGS")) == (None, ())


def test_scope_refuses_what_it_does_not_know():
    with pytest.raises(TLError, match="no setting 'CACHES'"), config.scope(CACHES=True):
        pass
    with pytest.raises(TLError, match="TL_DPNP_FORM='wide' is not understood"), config.scope(FORM="wide"):
        pass


def test_every_setting_is_read_somewhere():
    sources = [p.read_text() for p in (ROOT / "tl_dpnp").rglob("*.py") if p.name not in ("config.py", "system_info.py")]
    unread = [name for name in config.SETTINGS if not any(re.search(rf'config\.get\("{name}"\)', s) for s in sources)]
    assert not unread


def test_the_documented_table_is_the_real_one():
    rows = [f"| `{s.variable}` | {s.kind} | {s.default_text} | {s.doc} |" for s in config.SETTINGS.values()]
    text = (ROOT / "docs" / "settings.md").read_text()
    assert "\n".join(rows) in text


@pytest.mark.parametrize(("variable", "hint"), [
    ("TL_DPNP_CAHCE", r"did you mean TL_DPNP_CACHE\?$"),
    ("TL_DPNP_CACHEDIR", r"did you mean TL_DPNP_CACHE_DIR\?$"),
    ("TL_DPNP_debug", r"did you mean TL_DPNP_DEBUG\?$"),
    ("TL_DPNP_EMULATE", r"did you mean TL_DPNP_EMULATE_DPAS\?$"),
    ("TL_DPNP_", "there are TL_DPNP_CACHE, .*, TL_DPNP_EMULATE_DPAS$"),
    ("TL_DPNP_ZEBRA", "there are TL_DPNP_CACHE, "),
])
def test_an_unknown_variable_is_a_warning_that_names_the_nearest(monkeypatch, variable, hint):
    monkeypatch.setenv(variable, "1")
    with pytest.warns(SettingWarning, match=f"^{variable} is set, and there is no such setting: .*{hint}") as caught:
        config.get("CACHE")
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config.get("CACHE")  # once
        monkeypatch.setenv("TL_DPNP_BENCH", "quick")
        config.get("DEBUG")


def test_a_compilation_warns_of_unknown_variables(monkeypatch):
    monkeypatch.setenv("TL_DPNP_FROM", "vector")
    with pytest.warns(SettingWarning, match=r"did you mean TL_DPNP_FORM\?") as caught:
        tl_dpnp.compile("func @f() { }", target="reference")
    assert [warning.filename for warning in caught] == [__file__]


def test_settings_are_no_attributes_of_the_module():
    """As they are of numba.config: who sets one there would wait in vain for it to take effect."""
    with pytest.raises(TLError, match=r"`with config\.scope\(CACHE=False\):`, or set TL_DPNP_CACHE in"):
        config.CACHE = False
    with pytest.raises(TLError, match=r"config\.scope\(LOGS='cache'\)"):
        config.LOGS = "cache"
    with pytest.raises(TLError, match=r"there is no setting 'DEBIG'; did you mean DEBUG\?"):
        config.DEBIG = True
    with pytest.raises(AttributeError, match=r"config\.get\('CACHE'\) reads the setting"):
        config.CACHE  # noqa: B018
    assert not hasattr(config, "zebra")
