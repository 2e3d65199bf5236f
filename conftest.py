"""`pytest -m long` adds nothing to what ./check runs but the tests that take minutes."""


def pytest_configure(config):
    config.addinivalue_line("markers", "long: minutes of work; run with -m long")


def pytest_collection_modifyitems(config, items):
    if "long" in (config.option.markexpr or ""):
        return
    slow = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]
