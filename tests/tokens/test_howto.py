"""The how-to page about tokens prints what it says."""

import tests.test_docs as docs


def test_the_page_about_tokens_prints_what_it_says(capsys):
    docs.test_the_page_prints_what_it_says("tokens.md", capsys)
