"""Search over the whole dump, and its end."""

import pytest

pytest.importorskip("textual")

from driving import listed, shown, status, use

from verl_rollout_dump.viewer.search import SearchHits, steps_from


def test_search_goes_through_all_steps(small_dump):
    async def check(app, pilot, press):
        await press("<", "slash", *"RESPONSE 10.", "enter")
        assert status(app) == "step 10  ·  4 records  ·  groups  ·  search: RESPONSE 10. (1 of 4)"
        assert "step 10, index 0 " in shown(app)
        await press("n", "n")
        assert "(3 of 4)" in status(app) and "step 10, index 2 " in shown(app)
        await press("N", "N", "N")
        assert "(4 of 4)" in status(app) and "step 10, index 3 " in shown(app)

    use(small_dump, check)


def test_next_goes_on_in_the_next_step_and_around_the_end(small_dump):
    async def check(app, pilot, press):
        await press("slash", *"prompt 1", "enter")
        assert "(5 of 6)" in status(app) and "step 10, index 2 " in shown(app)
        await press("n", "n")
        assert "(1 of 6)" in status(app) and "step 1, index 2 " in shown(app)
        await press("N")
        assert "(6 of 6)" in status(app) and "step 10, index 3 " in shown(app)
        await press("k")
        await press("k", "k")
        assert "(- of 6)" in status(app)

    use(small_dump, check)


def test_two_quick_keys_count_twice(small_dump):
    async def check(app, pilot, press):
        await press("slash", *"index", "enter", "slash")
        app.question.value = "response"
        await press("enter")
        app.go_to((1, 3))
        app.action_find(1)
        app.action_find(1)
        await press()
        await press("tab")
        assert "(6 of 12)" in status(app) and "step 2, index 1 " in shown(app)

    use(small_dump, check)


def test_the_filter_counts_for_the_search(small_dump):
    async def check(app, pilot, press):
        await press("f", *"acc == false", "enter", "slash", *"prompt", "enter")
        assert "(1 of 4)" in status(app) and "step 1, index 0 " in shown(app)
        await press("f")
        app.question.value = ""
        await press("enter")
        assert "(1 of 12)" in status(app) and "step 1, index 0 " in shown(app)

    use(small_dump, check)


def test_escape_ends_search_and_filter_and_stays_at_the_record(small_dump):
    async def check(app, pilot, press):
        await press("f", *"acc == true", "enter", "slash", *"response 2.3", "enter")
        assert status(app) == (
            "step 2  ·  2 records  ·  groups  ·  search: response 2.3 (1 of 1)  ·  filter: acc == true"
        )
        await press("slash", "escape")  # an input that is open is closed first
        assert "search" in status(app) and not app.question.display
        await press("escape")
        assert status(app) == "step 2  ·  4 records  ·  groups"
        assert "step 2, index 3 " in shown(app) and len(listed(app)) == 6

    use(small_dump, check)


def test_a_text_that_no_record_holds(small_dump):
    async def check(app, pilot, press):
        await press("slash", *"nowhere", "enter")
        assert "step 10, index 0 " in shown(app) and "(- of 0)" in status(app)
        assert [notice.message for notice in app._notifications] == ["No record holds the text"]
        await press("n", "N")

    use(small_dump, check)


def test_hits_while_they_come():
    hits = SearchHits("a", (5, 2))
    assert (hits.first(), hits.next((5, 2), 1), hits.told((5, 2))) == (None, None, "- of 0…")
    hits.add(5, [0, 1])
    assert hits.first() is None  # before the origin: there may be others after it
    hits.add(7, [3])
    assert (hits.first(), hits.told((7, 3))) == ((7, 3), "3 of 3…")
    hits.add(1, [9])
    hits.is_complete = True
    assert [hits.next(place, 1) for place in ((7, 3), (5, 0), (5, 7))] == [(1, 9), (5, 1), (7, 3)]
    assert [hits.next(place, -1) for place in ((1, 9), (5, 1), (5, 7))] == [(7, 3), (5, 0), (5, 1)]
    assert hits.told((5, 1)) == "3 of 4"
    assert steps_from([1, 5, 7], 5) == [5, 7, 1]
    late = SearchHits("a", (8, 0))
    late.add(2, [4])
    assert late.first() is None
    late.is_complete = True
    assert late.first() == (2, 4)
