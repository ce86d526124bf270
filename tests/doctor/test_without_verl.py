"""The doctor in an environment without verl: plain Python, or TRL."""

import pytest

from verl_rollout_dump.doctor import checks, plain

GRPO = """
class GRPOTrainer(Base):
    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list): ...
    def _generate_and_score_completions(self, inputs{more}): ...
"""


@pytest.fixture(autouse=True)
def no_verl(monkeypatch):
    installed = checks.installed_version
    monkeypatch.setattr(checks, "installed_version", lambda name: None if name == "verl" else installed(name))
    monkeypatch.setattr(plain, "find_spec", lambda name: None)


def examined(*arguments):
    return [(check.name, check.outcome, check.found, check.remedy) for check in checks.examine(arguments)]


def test_nothing_is_wrong_without_verl(tmp_path):
    found = examined(f"rollout_dump.path.dir={tmp_path}/out", "rollout_dump/serialization=str_fallback")
    assert [(name, outcome) for name, outcome, _, _ in found] == [
        ("verl", "note"),
        ("hydra-core", "ok"),
        ("decoding", "ok"),
        ("config", "ok"),
        ("directory", "ok"),
    ]
    assert found[-1][2].startswith(f"{tmp_path}/out: one record written and read back, ")
    assert list(tmp_path.iterdir()) == []


def test_without_arguments_it_says_how_to_name_a_directory():
    assert examined()[-1] == (
        "directory",
        "note",
        "none was named",
        "give rollout_dump.path.dir=DIR to the doctor to check one",
    )


DIR = "trainer.rollout_data_dir=/tmp"
NODE = "+rollout_dump=default"
COMPOSITION = "does not compose. ConfigCompositionException: "


@pytest.mark.parametrize(
    ("arguments", "found", "remedy", "remedied"),
    [
        (
            [DIR, "+rollout_dump=defalt"],
            "does not compose. MissingConfigException: In '_dummy_empty_config_': Could not find 'rollout_dump/defalt'",
            "choose one of: default. Did you mean 'default'?",
            [DIR, NODE],
        ),
        (
            [DIR, NODE, "rollout_dump.serialization=str_fallback"],
            "rollout_dump.serialization is the string 'str_fallback' where a node belongs: a dot sets the value, a "
            "slash chooses the option. Did you mean rollout_dump/serialization=str_fallback?",
            "",
            [DIR, NODE, "rollout_dump/serialization=str_fallback"],
        ),
        (
            [DIR, "rollout_dump.on_error=warm"],
            "Unsupported rollout_dump.on_error 'warm'. Supported: warn, raise. Did you mean 'warn'?",
            "",
            [DIR, "rollout_dump.on_error=warn"],
        ),
        (
            [DIR, "rollout_dump.on_eror=warn"],
            f"{COMPOSITION}Could not override 'rollout_dump.on_eror'. To append to your config use ",
            "Did you mean rollout_dump.on_error?",
            [DIR, "rollout_dump.on_error=warn"],
        ),
        (
            ["trainer.rollout_dat_dir=/tmp"],
            f"{COMPOSITION}Could not override 'trainer.rollout_dat_dir'. To append to your config use ",
            "Did you mean trainer.rollout_data_dir?",
            ["trainer.rollout_data_dir=/tmp"],
        ),
        (
            [DIR, "x=1"],
            f"{COMPOSITION}Could not override 'x'. To append to your config use ",
            "correct the name of the key, or write +x=... to add a key that the config does not have",
            [DIR, "+x=1"],
        ),
        (
            [DIR, "rollout_dump.callbacks=[dump,damp]"],
            "rollout_dump.callbacks names 'damp', which no installed package offers as an entry point of the group "
            "verl_rollout_dump.callbacks. Known: dump. Did you mean 'dump'?",
            "",
            [DIR, "rollout_dump.callbacks=[dump]"],
        ),
        (
            [DIR, "+x=[b"],
            "does not compose. OverrideParseException: ",
            "quote the value for the shell and for Hydra: 'key=\"value\"'",
            [DIR, '+x="[b"'],
        ),
        (
            [DIR, NODE, NODE],
            f"{COMPOSITION}rollout_dump/path appears more than once in the final defaults list",
            "give +rollout_dump=default once, and leave it out if the config has it",
            [DIR, NODE],
        ),
        (
            ["rollout_dump.enabled=true"],
            "none is set, so nothing is dumped",
            "add rollout_dump.path.dir=DIR",
            ["rollout_dump.path.dir=/tmp"],
        ),
        (
            ["rollout_dump.path.dir=/dev/null/x"],
            "/dev/null/x: [Errno 20] Not a directory: '/dev/null/x'",
            "choose another directory, or make this one writable",
            ["rollout_dump.path.dir=/tmp"],
        ),
    ],
)
def test_mistakes_have_remedies_that_work(arguments, found, remedy, remedied):
    (wrong,) = [check for check in checks.examine(arguments) if check.outcome == "wrong"]
    assert wrong.found.startswith(found)
    assert wrong.remedy == remedy
    assert [check for check in checks.examine(remedied) if check.outcome == "wrong"] == []


@pytest.mark.parametrize(("more", "differs"), [("", ""), (", x", "_generate_and_score_completions takes ('self', ")])
def test_the_trainers_of_trl(tmp_path, monkeypatch, more, differs):
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer/grpo_trainer.py").write_text(GRPO.replace("{more}", more))
    spec = type("Spec", (), {"origin": str(tmp_path / "__init__.py")})
    monkeypatch.setattr(plain, "find_spec", lambda name: spec)
    (grpo, difference), (rloo, missing) = plain.trl_differences()
    assert (grpo, rloo) == ("GRPOTrainer", "RLOOTrainer")
    assert difference.startswith(differs) and bool(difference) == bool(differs)
    assert missing.startswith("_calculate_rewards takes nothing: it is not there, expected ('self', ")
