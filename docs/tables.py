"""Tables of a page, made so that a phone can show each row as a list."""

import re


def label_cells(app, page, template, context, doctree):
    """Give every cell the heading of its column; the style sheet shows it on phones."""
    if context.get("body"):
        tables = r"<table class=\"docutils.*?</table>"
        context["body"] = re.sub(tables, _labelled, context["body"], flags=re.DOTALL)


def _labelled(match):
    text = match[0]
    heads = re.findall(r"<th[ >].*?</th>", text.partition("</thead>")[0], re.DOTALL)
    names = [re.sub(r"<.*?>", "", head).strip().replace('"', "") for head in heads]
    if len(names) < 3:
        return text

    def row(found):
        count = iter(names)
        return re.sub(r"<td", lambda _: f'<td data-label="{next(count, "")}"', found[0])

    body = re.sub(r"<tr.*?</tr>", row, text.partition("</thead>")[2], flags=re.DOTALL)
    head = text.partition("</thead>")[0].replace(
        'class="docutils', 'class="rows docutils', 1
    )
    return head + "</thead>" + body
