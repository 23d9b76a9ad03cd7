"""SQLAlchemy's own suite for dialects; `test_sqlalchemy_suite.py` runs it against a server."""

import pytest
from sqlalchemy.testing.suite import *  # noqa: F403 - that is how a suite takes its tests

from tests.conformance.sqlalchemy_requirements import LEFT_OUT

for _name, _reason in LEFT_OUT.items():
    _class, _, _test = _name.partition(".")
    if _test:
        _found = globals()[_class]
        setattr(_found, _test, pytest.mark.skip(reason=_reason)(getattr(_found, _test)))
    else:
        del globals()[_class]
