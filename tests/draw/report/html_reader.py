"""A page as a strict reader sees it: well nested, no identifier twice, nothing loaded from outside."""

import json
from html.parser import HTMLParser

VOID = {"input", "link", "meta"}
LOADING = {"src", "srcset", "poster", "action", "background", "cite", "formaction"}


class ReadPage(HTMLParser):
    """The page's elements. texts: of elements with an identifier, by it. data: of its scripts."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.tags, self.links = [], [], [], []
        self.texts, self.problems, self.scripts = {}, [], []
        self.feed(text)
        self.close()
        self.problems += [f"<{tag}> is never closed" for tag, _ in self.open]
        self.problems += [f"id {one} twice" for one in set(self.ids) if self.ids.count(one) > 1]

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append((tag, found))
        self.problems += [f"{tag} has {name} twice" for name in found if len(attrs) != len(found)]
        if "id" in found:
            self.ids.append(found["id"])
        self.links += [value for name, value in attrs if name in LOADING or name.endswith("href")]
        if tag not in VOID:
            self.open.append((tag, found.get("id")))

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            self.problems.append(f"</{tag}> closes {self.open[-1:]}")
            return
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1][0] == "script":
            self.scripts.append(data)
        for _, identifier in self.open:
            if identifier is not None:
                self.texts[identifier] = self.texts.get(identifier, "") + data

    @property
    def data(self):
        return json.loads(self.texts["data"])

    def card(self, name):
        """The text of a figure of the summary."""
        return self.texts.get(f"card-{name}", "")


def read_page(path):
    return ReadPage(path.read_text(encoding="utf-8"))
