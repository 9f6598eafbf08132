"""Every rendered line knows the template line it came from, through macros, includes and loops."""

import pytest
from jinja2 import DictLoader, Environment, StrictUndefined

from kgen.render.origins import MarkLines, strip


@pytest.fixture
def render():
    def run(templates, **names):
        environment = Environment(
            loader=DictLoader(templates),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            extensions=[MarkLines],
        )
        text, origins = strip(environment.get_template("main").render(names))
        places = {o.line: (o.template, o.template_line) for o in origins}
        return text, [places.get(i) for i in range(1, text.count("\n") + 1)]

    return run


def test_plain_lines(render):
    text, places = render({"main": "one\n\n  three\n"})
    assert text == "one\n\n  three\n"
    assert places == [("main", 1), None, ("main", 3)]


def test_blocks_and_comments_take_no_lines(render):
    text, places = render({"main": "{# a\n b #}\n{% if x %}\nyes\n{% else %}\nno\n{% endif %}\nend\n"}, x=1)
    assert text == "yes\nend\n"
    assert places == [("main", 4), ("main", 8)]


def test_loops_repeat_their_lines(render):
    text, places = render({"main": "a\n{% for i in range(3) %}\nx{{ i }};\n{% endfor %}\nb\n"})
    assert text == "a\nx0;\nx1;\nx2;\nb\n"
    assert places == [("main", 1), ("main", 3), ("main", 3), ("main", 3), ("main", 5)]


def test_an_expression_of_many_lines_is_one_line_of_the_template(render):
    text, places = render({"main": "a\n{{ long }}\nb\n"}, long="x\ny\nz")
    assert text == "a\nx\ny\nz\nb\n"
    assert places == [("main", 1), ("main", 2), ("main", 2), ("main", 2), ("main", 3)]


def test_an_expression_right_after_a_block(render):
    _, places = render({"main": "a\n{% if true %}\n{{ x }}{{ x }};\n{% endif %}\n"}, x="v")
    assert places == [("main", 1), ("main", 3)]


def test_macros_and_includes_keep_their_own_lines(render):
    templates = {
        "main": '{% from "lib" import f %}\n// top\n{{ f(1) }}\n{% include "part" %}\nend\n',
        "lib": "{% macro f(x) %}\nint a = {{ x }};\nint b;\n{% endmacro %}\n",
        "part": "// part\n\nint c;\n",
    }
    text, places = render(templates)
    assert text == "// top\nint a = 1;\nint b;\n\n// part\n\nint c;\nend\n"
    assert places == [
        ("main", 2),
        ("lib", 2),
        ("lib", 3),
        None,
        ("part", 1),
        None,
        ("part", 3),
        ("main", 5),
    ]


def test_the_first_visible_text_of_a_line_decides(render):
    templates = {"main": '{% from "lib" import f %}\nx = {{ f() }};\n  {{ f() }} y\n', "lib": MACRO}
    _, places = render(templates)
    assert places == [("main", 2), ("lib", 2)]


MACRO = "{% macro f() %}\n1\n{%- endmacro %}\n"


def test_blank_edges_and_trailing_blanks_go(render):
    text, places = render({"main": "\n\n  {% if true %}   \n a  \n\n{% endif %}\n\n"})
    assert text == " a\n"
    assert places == [("main", 4)]


def test_lines_count_from_where_the_text_will_stand():
    text, origins = strip("\n\ue000main:7\ue001x\n", first_line=11)
    assert text == "x\n"
    assert origins == ((11, "main", 7),)


def test_markers_leave_no_trace_in_filters(render):
    text, _ = render({"main": "{% filter indent(2, true) %}\na\nb\n{% endfilter %}\n"})
    assert text == "  a\n  b\n"
