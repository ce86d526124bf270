"""Every remedy that a message about the config prints is carried out here, and the app then runs."""

import pytest

NODE = "+rollout_dump=default"
DIR = "trainer.rollout_data_dir=d"
PER_RUN = "rollout_dump/path=per_run"
SWEEP = ("-m", "hydra.sweep.dir=sweep", "+x=1,2")
OWN = "Give each job a directory of its own: "
FIXED = "rollout_dump.path.dir=d"


@pytest.mark.parametrize(
    ("words", "remedy", "remedied"),
    [
        ([*SWEEP, DIR], f"{OWN}add {NODE} {PER_RUN}", [*SWEEP, DIR, NODE, PER_RUN]),
        ([*SWEEP, DIR, NODE], f"{OWN}add {PER_RUN}", [*SWEEP, DIR, NODE, PER_RUN]),
        (
            [*SWEEP, "trainer.rollout_data_dir=memory://d", NODE],
            f"{OWN}add {PER_RUN}",
            [*SWEEP, "trainer.rollout_data_dir=memory://d", NODE, PER_RUN],
        ),
        (
            [*SWEEP, "trainer.rollout_data_dir=d/${x}", "trainer.validation_data_dir=v"],
            f"{OWN}add {NODE} {PER_RUN}",
            [*SWEEP, "trainer.rollout_data_dir=d/${x}", "trainer.validation_data_dir=v", NODE, PER_RUN],
        ),
        (
            [*SWEEP, DIR, NODE, PER_RUN, FIXED],
            f"{OWN}leave out {FIXED}, which replaces the directory of each job",
            [*SWEEP, DIR, NODE, PER_RUN],
        ),
        (
            [DIR, NODE, "+rollout_dump.writer.fsink=true"],
            "Did you mean 'rollout_dump.writer.fsync'?",
            [DIR, NODE, "rollout_dump.writer.fsync=true"],
        ),
        ([DIR, NODE, "rollout_dump.on_error=warm"], "Did you mean 'warn'?", [DIR, NODE, "rollout_dump.on_error=warn"]),
        (
            [DIR, NODE, "rollout_dump.fields.trainer=[dataa_source]"],
            "Did you mean 'data_source'?",
            [DIR, NODE, "rollout_dump.fields.trainer=[data_source]"],
        ),
        (
            [DIR, NODE, "rollout_dump.callbacks=[damp]"],
            "Known: dump. Did you mean 'dump'?",
            [DIR, NODE, "rollout_dump.callbacks=[dump]"],
        ),
        (
            [DIR, NODE, "rollout_dump.serialization=str_fallback"],
            "Did you mean rollout_dump/serialization=str_fallback?",
            [DIR, NODE, "rollout_dump/serialization=str_fallback"],
        ),
        (
            [DIR, NODE, "rollout_dump.path.filename='{step:x}.jsonl'"],
            "expected {step} or {step:06}",
            [DIR, NODE, "rollout_dump.path.filename='{step:06}.jsonl'"],
        ),
        (
            [NODE, "trainer.rollout_data_dir=/dev/null/d"],
            "choose another with trainer.rollout_data_dir=DIR",
            [NODE, DIR],
        ),
    ],
)
def test_what_a_message_advises_works(app, words, remedy, remedied):
    refused = app(*words)
    assert refused.returncode == 1, refused.stdout
    assert remedy in refused.stderr
    done = app(*remedied)
    assert done.returncode == 0, done.stderr


def test_without_the_search_path_the_advice_works_too(app, tmp_path):
    source = (tmp_path / "app.py").read_text()
    (tmp_path / "app.py").write_text(source.replace("import verl_rollout_dump.plugin", ""))
    words = ["trainer.rollout_data_dir=d", NODE]
    refused = app(*words)
    assert "rollout_dump is the string 'default' where a node belongs" in refused.stderr
    assert app("hydra.searchpath=[pkg://verl_rollout_dump.conf]", *words).returncode == 0
    sweep = [*SWEEP, "trainer.rollout_data_dir=s"]
    advice = ["hydra.searchpath=[pkg://verl_rollout_dump.conf]", NODE, PER_RUN]
    assert f"{OWN}add {' '.join(advice)}" in app(*sweep).stderr
    assert app(*sweep, *advice).returncode == 0


def test_jobs_have_their_own_validation_directories(app, tmp_path):
    words = [*SWEEP, NODE, "rollout_dump/path=per_run", f"trainer.validation_data_dir={tmp_path}/v"]
    done = app(*words, "trainer.rollout_data_dir=d")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("rollout_dump: ")]
    jobs = [tmp_path / "sweep" / str(job) for job in (0, 1)]
    assert lines == [
        f"rollout_dump: training rollouts will be written to {job}/rollouts, "
        f"validation rollouts will be written to {job}/validation_rollouts"
        for job in jobs
    ]
    assert not (tmp_path / "v").exists()
    assert all((job / "validation_rollouts/run.json").is_file() for job in jobs)


def test_relative_directories_start_where_the_command_does(app, tmp_path):
    done = app("hydra.job.chdir=true", "trainer.rollout_data_dir=out", "hydra.run.dir=hydra")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/1.jsonl").is_file() and not (tmp_path / "hydra/out").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "no rollouts will be dumped: trainer.rollout_data_dir is not set. To dump them, add trainer.rollout"),
        ([NODE], "no rollouts will be dumped: trainer.rollout_data_dir is not set. To dump them, add trainer.rollout"),
        (["trainer.rollout_data_dir=???"], "no rollouts will be dumped: trainer.rollout_data_dir is still ???. To "),
        ([NODE, "rollout_dump.enabled=false"], "rollout_dump.enabled is false, so this package writes nothing; the "),
        (
            [NODE, "trainer.rollout_data_dir=/tmp", "rollout_dump.callbacks=[]"],
            "no rollouts will be dumped: rollout_dump.callbacks is [] and does not name dump",
        ),
        (
            ["trainer.validation_data_dir=/v"],
            "training rollouts will not be (trainer.rollout_data_dir is not set), validation rollouts will be written",
        ),
    ],
)
def test_one_line_says_what_will_be_written(words, line):
    from hydra import compose, initialize_config_module

    from verl_rollout_dump.config import load_config
    from verl_rollout_dump.config.announcement import start_line

    with initialize_config_module("verl_rollout_dump.conf", version_base=None):
        config = compose(overrides=["+trainer.rollout_data_dir=null", "+trainer.validation_data_dir=null", *words])
    assert start_line(load_config(config), config).startswith(f"rollout_dump: {line}")


@pytest.mark.parametrize("validation", [None, "/v"])
def test_announced_directories_are_read_back(validation):
    from omegaconf import OmegaConf

    from verl_rollout_dump.config import load_config
    from verl_rollout_dump.config.announcement import announced_directories, start_line

    trainer = {"rollout_data_dir": "/a, b", "validation_data_dir": validation}
    config = OmegaConf.create({"trainer": trainer})
    line = start_line(load_config(config), config)
    assert announced_directories(["other", line, line, "rollout_dump: no rollouts will be dumped: x"]) == ["/a, b"]
