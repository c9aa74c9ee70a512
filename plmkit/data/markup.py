"""Lines that hold HTML or Markdown where plain text is expected."""

import re

TAGS = (
    "a|abbr|article|b|blockquote|body|br|caption|center|cite|code|dd|div|dl|dt|em|figure|font|footer|h[1-6]|head|"
    "header|hr|html|i|img|input|li|link|main|meta|nav|ol|p|pre|ref|s|script|section|small|span|strong|style|sub|sup|"
    "table|tbody|td|tfoot|th|thead|title|tr|tt|u|ul"
)
HTML = re.compile(rf"<!--|<!doctype html|</?(?:{TAGS})(?:\s[^<>]*)?/?>|&(?:[a-z]{{2,8}}|#\d{{1,6}});", re.IGNORECASE)
BEGINS = re.compile(r"#{1,6} \S|```|~~~|\|?(?: *:?-{3,}:? *\|)+")  # a heading, a fence, the line below a table's header
WITHIN = re.compile(r"\[[^\[\]]*\]\([^()\s]+\)|\*\*[^\s*][^*]*\*\*")  # a link, bold


def is_html(line: str) -> bool:
    """Does the line contain an HTML tag or entity? A `<` alone does not count."""
    return ("<" in line or "&" in line) and HTML.search(line) is not None


def is_markdown(line: str) -> bool:
    """Does the line contain a heading, fence, table, link or bold text? A leading dash does not count: it is common."""
    if line[0] in "#`~|:-" and BEGINS.match(line):
        return True
    return ("](" in line or "**" in line) and WITHIN.search(line) is not None
