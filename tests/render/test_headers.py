"""The headers of a rendered source: transitive, each once, in the order the compiler opens them."""

import pytest

from kgen.diagnostics import KgenError
from kgen.render.headers import headers_of


@pytest.fixture
def include_dir(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write("kgen/a.hpp", '#include "b.hpp"\n#include "kgen/c.hpp"\n#include <vector>\n')
    write("kgen/b.hpp", '#pragma once\n  #  include "kgen/c.hpp"\n')
    write("kgen/c.hpp", '#include "kgen/a.hpp"\n// a cycle\n')
    write("kgen/avx.hpp", "#pragma once\n")
    return tmp_path


def test_transitive_and_in_order(include_dir):
    text = '#include <cstdint>\n#include "kgen/a.hpp"\n#include "kgen/c.hpp"\n'
    assert headers_of(text, include_dir) == ("kgen/a.hpp", "kgen/b.hpp", "kgen/c.hpp")


def test_angle_brackets_reach_the_include_folder_too(include_dir):
    assert headers_of("#include <kgen/b.hpp>\n", include_dir)[0] == "kgen/b.hpp"


def test_both_sides_of_a_condition_count(include_dir):
    text = '#if A\n#include "kgen/avx.hpp"\n#else\n#include "kgen/b.hpp"\n#endif\n'
    assert set(headers_of(text, include_dir)) >= {"kgen/avx.hpp", "kgen/b.hpp"}


def test_no_includes(include_dir):
    assert headers_of("int x;  // #include nothing\n", include_dir) == ()


def test_a_missing_header_names_the_nearest(include_dir):
    with pytest.raises(KgenError, match=r"did you mean 'kgen/avx\.hpp'") as caught:
        headers_of('#include "kgen/avxx.hpp"\n', include_dir)
    assert caught.value.diagnostics[0].code == "K331"


def test_an_edited_header_is_read_again(include_dir):
    text = '#include "kgen/avx.hpp"\n'
    assert headers_of(text, include_dir) == ("kgen/avx.hpp",)
    (include_dir / "kgen/avx.hpp").write_text('#pragma once\n#include "kgen/extra.hpp"\n')
    with pytest.raises(KgenError, match="no such header"):
        headers_of(text, include_dir)
    (include_dir / "kgen/extra.hpp").write_text("#pragma once\n")
    assert headers_of(text, include_dir) == ("kgen/avx.hpp", "kgen/extra.hpp")
