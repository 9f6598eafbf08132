"""Faults of a template are diagnostics that point at its line."""

import pytest

from kgen.diagnostics import KgenError
from kgen.render.emit import render


def fault(variant):
    with pytest.raises(KgenError) as caught:
        render(variant)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


@pytest.mark.parametrize(
    ("text", "code", "message", "hint"),
    [
        ("a\n{{ head_dim }}\n", "K334", "'head_dim' is undefined", None),
        ("a\n  {{ p.head_dm }}\n", "K335", "no parameter of paged_attention named 'head_dm'", "'head_dim'?"),
        ("a\n{{ let.spilt }}\n", "K335", "no derived value of paged_attention named 'spilt'", "'split'?"),
        ("a\n{{ errors.seq_length }}\n", "K335", "no error code named 'seq_length'", "'seq_len'?"),
        ("a\n{{ ctype('bf61') }}\n", "K335", "'bf61' is no dtype", "'bf16'?"),
        ("a\n{{ index('q', sq=1) }}\n", "K335", "q has no axis 'sq'", "'seq'?"),
        ("a\n{{ index('k_cache', token='1 +') }}\n", "K335", "'1 +': the expression ends too early", None),
        ("a\n{{ 1 // 0 }}\n", "K334", "ZeroDivisionError", None),
        ("a\n{% if p.head_dim %}\nb\n", "K333", "Unexpected end of template", None),
        ("a\n{{ p.head_dim | nofilter }}\n", "K333", "No filter named 'nofilter'", None),
    ],
)
def test_a_fault_has_its_line(templates, with_template, text, code, message, hint):
    templates(main=text)
    found = fault(with_template)
    assert (found.code, found.span.source.name) == (code, "templates/main.j2")
    assert message in found.message
    if code != "K333":
        assert found.span.line == 2
        assert found.span.source.line(2)[found.span.col - 1 :].startswith("{{")
    assert hint is None or hint in found.hint


def test_a_fault_inside_a_macro_points_into_the_macro(templates, with_template):
    templates(
        main='{% from "lib.j2" import f with context %}\n{{ f() }}\n',
        lib="\n{% macro f() %}\n{{ no }}\n{% endmacro %}\n",
    )
    found = fault(with_template)
    assert str(found.span) == "templates/lib.j2:3:1"


def test_a_missing_template(templates, with_template):
    templates(mian="x\n")
    found = fault(with_template)
    assert (found.code, found.message) == ("K332", "there is no template main.j2")
    assert "did you mean 'mian.j2'?" in found.hint


def test_a_missing_include(templates, with_template):
    templates(main='a\n{% include "part.j2" %}\n', pert="x\n")
    assert fault(with_template).message == "there is no template part.j2"


def test_a_missing_header(templates, with_template):
    templates(main='#include "kgen/none.hpp"\n')
    assert fault(with_template).code == "K331"


def test_an_edited_template_is_read_again(templates, with_template, tmp_path):
    templates(main="one\n")
    assert render(with_template).text.endswith("\none\n")
    templates(main="another\n")
    assert render(with_template).text.endswith("\nanother\n")
