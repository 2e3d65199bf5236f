"""Random templates with random conversations: every construct of tokenizers.md 17-19, nested at random."""
import random

STRINGS = ["", "a", "user", "assistant", "Hi there", " pad ", "a,b,c", "x<y>&'q'\"", "café", "日本 語", "ß İ ǆ", "line\nbreak\r\nend",
           "tab\tx", "</think>done", "<think>\nhm\n</think>\n\nA", "0", "12", "-7", "3.5", "1e3", " 42 ", "0x1f", "1_000", "inf", "None",
           "Über ΣΑΣ", "emoji 👩‍🚀!", "\u00a0nb\u2003", "\x1c\x85z", "back\\slash", "{}", "%s and %d", "%(a)s", "{0} {a}", "½Ⅷ²", "A-b (c) [d", "é" * 3, "abcabc", "A B  C", "null", "_x", "items"]
NAMES = ["a", "b", "c", "x", "y", "messages", "tools", "message", "s", "n", "items", "missing", "ns", "loop", "kw", "f0", "flag", "nothing", "deep"]
ATTRS = ["role", "content", "items", "keys", "get", "x", "name", "function", "arguments", "a", "b", "upper", "strip", "count", "index", "_a", "__class__", "append", "0", "1", "values", "copy"]
FILTERS = ["tojson", "trim", "length", "items", "list", "string", "safe", "default", "join", "first", "last", "upper", "lower", "capitalize", "title", "replace", "sort", "unique", "reverse", "int", "float", "abs", "round", "sum", "min", "max", "dictsort", "batch", "slice", "groupby", "indent", "format", "wordcount", "escape", "e", "attr", "urlencode", "count", "d", "map", "select", "reject", "selectattr", "rejectattr", "truncate", "center", "forceescape"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "true", "false", "number", "integer", "float", "boolean", "odd", "even", "callable", "lower", "upper", "escaped", "filter", "test"]
TESTS_ARG = ["eq", "equalto", "ne", "lt", "le", "gt", "ge", "in", "sameas", "divisibleby", "==", "!=", ">", "<"]
STR_METHODS = ["split", "strip", "lstrip", "rstrip", "startswith", "endswith", "replace", "upper", "lower", "title", "capitalize", "find", "rfind", "index", "count", "join", "splitlines", "rsplit", "partition", "rpartition", "removeprefix", "removesuffix", "isdigit", "isalpha", "isalnum", "isspace", "isupper", "islower", "zfill", "format", "swapcase", "center", "ljust", "rjust", "isnumeric", "isdecimal", "isprintable", "isascii", "expandtabs", "rindex"]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, items):
        return items[self.r.randrange(len(items))]

    def string(self):
        text = self.pick(STRINGS)
        quote = self.pick("'\"")
        out = []
        for c in text:
            if c in (quote, "\\"):
                out.append("\\" + c)
            elif c == "\n" and self.r.random() < 0.7:
                out.append("\\n")
            elif ord(c) < 32 and c != "\n" or c == "\x85":
                out.append(f"\\x{ord(c):02x}")
            else:
                out.append(c)
        return quote + "".join(out) + quote

    def number(self):
        return self.pick(["0", "1", "2", "3", "-1", "7", "10", "100", "2.5", "0.1", "1.0", "1e16", "1e-5", "12345678901234567890", "0x10", "1_000", "-3", "3.14159", "1e300"])

    def args(self, depth, most=2):
        parts = [self.expr(depth - 1) for _ in range(self.r.randrange(most + 1))]
        return "(" + ", ".join(parts) + ")"

    def filter(self, depth):
        name = self.pick(FILTERS)
        r = self.r.random()
        if name in ("selectattr", "rejectattr"):
            attr = self.pick(["'role'", "'content'", "'function.name'", "'x'", "'0'", "'a.b'"])
            tail = self.pick(["", ", 'defined'", ", 'equalto', 'user'", ", 'none'", ", 'string'", ", 'in', ['user', 'x']", ", 'undefined'"])
            return f"{name}({attr}{tail})" + self.pick(["", "|list", "|list|length", "|first", "|map(attribute='role')|join(',')"])
        if name in ("select", "reject"):
            return name + self.pick(["", "('string')", "('equalto', 'user')", "('odd')", "('in', 'abc')", "('defined')"]) + "|list"
        if name == "map":
            return self.pick(["map(attribute='role')|list", "map(attribute='content')|join('|')", "map('upper')|list", "map('trim')|join", "map('length')|list", "map('tojson')|join(', ')", "map(attribute='x', default='d')|list", "map(attribute=0)|list", "map('string')|list"])
        if name == "tojson":
            return self.pick(["tojson", "tojson(indent=2)", "tojson(indent=4)", "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'))", "tojson(sort_keys=true)", "tojson(true)", "tojson(indent=0)", "tojson(indent='\t')"])
        if name == "round":
            return self.pick(["round", "round(1)", "round(2, 'floor')", "round(0, 'ceil')", "round(-1)", "round(method='floor')"])
        if name == "join":
            return self.pick(["join", "join(', ')", "join('<br>')", "join(1)", "join(',', attribute='role')"])
        if name == "sort":
            return self.pick(["sort", "sort(reverse=true)", "sort(attribute='role')", "sort(case_sensitive=true)", "sort(true)", "sort(attribute='role,content')"])
        if name == "groupby":
            return self.pick(["groupby('role')|list", "groupby('role', default='z')|map('list')|list", "groupby(0)|list"])
        if name in ("batch", "slice"):
            return f"{name}({self.pick(['1', '2', '3'])}" + self.pick(["", ", 'f'"]) + ")|list"
        if name == "indent":
            return self.pick(["indent", "indent(2)", "indent(2, true)", "indent(width=1, blank=true)", "indent('> ')"])
        if name == "default" or name == "d":
            return name + self.pick(["", "('dd')", "('dd', true)", "(none)", "(1, boolean=true)"])
        if name == "replace":
            return f"replace({self.string()}, {self.string()}" + self.pick(["", ", 1"]) + ")"
        if name == "truncate":
            return self.pick(["truncate(5)", "truncate(3, true)", "truncate(8, false, '..', 0)", "truncate"])
        if name == "center":
            return self.pick(["center(9)", "center(20)"])
        if name == "attr":
            return f"attr('{self.pick(ATTRS)}')"
        if name == "int":
            return self.pick(["int", "int(5)", "int(0, 16)", "int(base=2)"])
        if name == "format":
            return "format" + self.args(depth)
        if name == "unique":
            return self.pick(["unique|list", "unique(true)|list", "unique(attribute='role')|list"])
        if name in ("reverse", "items"):
            return name + self.pick(["|list", "|list", "|first"])
        if r < 0.1:
            return name + self.args(depth)
        return name

    def test(self, depth):
        negated = self.pick(["", "", "not "])
        if self.r.random() < 0.7:
            return "is " + negated + self.pick(TESTS)
        name = self.pick([t for t in TESTS_ARG if t.isalpha()])
        return f"is {negated}{name}({self.expr(depth - 1)})" if self.r.random() < 0.7 else f"is {negated}{name} {self.atom()}"

    def atom(self):
        r = self.r.random()
        if r < 0.3:
            return self.pick(NAMES)
        if r < 0.55:
            return self.string()
        if r < 0.75:
            return self.number()
        return self.pick(["true", "false", "none", "True", "None", "[]", "{}", "()", "messages[0]", "messages[-1].content", "tools[0].function", "message.role", "range(3)", "range(5, 0, -2)", "namespace(a=1)", "dict(a=1)", "strftime_now('%Y-%m-%d')", "strftime_now('%d %b %Y, %H:%M %p %A %j %-d')", "messages", "tools"])

    def method(self, depth):
        name = self.pick(STR_METHODS)
        target = self.pick([self.string(), "s", "messages[0].content", self.expr(depth - 1, True)])
        r = self.r.random()
        if name in ("split", "rsplit"):
            args = self.pick(["()", "(',')", f"({self.string()})", "(none, 1)", "(' ', 1)", f"({self.string()}, {self.pick(['0', '1', '2', '-1'])})", "('</think>')[-1]", "(maxsplit=1)"])
        elif name in ("strip", "lstrip", "rstrip"):
            args = self.pick(["()", "('\\n')", f"({self.string()})", "('ab ')"])
        elif name == "replace":
            args = f"({self.string()}, {self.string()}" + self.pick(["", ", 1", ", 2"]) + ")"
        elif name in ("zfill", "center", "ljust", "rjust"):
            args = self.pick(["(5)", "(12)"] + (["(9, '*')"] if name != "zfill" else []))
        elif name in ("startswith", "endswith", "find", "rfind", "index", "rindex", "count", "partition", "rpartition", "removeprefix", "removesuffix"):
            args = f"({self.string()})" if r < 0.7 else self.pick(["('a', 1)", "('', 2)", "(('a', 'H'))", "('a', -3, 9)"])
            if name in ("partition", "rpartition", "removeprefix", "removesuffix"):
                args = f"({self.string()})"
        elif name == "format":
            target = self.pick(["'{} {}'", "'{0}-{a}'", "'{:>5}|{:<4}|{:^6}'", "'{:05d} {:,}'", "'{:.2f} {!r}'", "'{a[0]} {b.x}'", "'{:x}{:#o}{:+}'"])
            args = self.pick(["(1, 2)", "(s, a=x)", f"({self.expr(depth - 1)}, {self.expr(depth - 1)}, {self.expr(depth - 1)})", "(a=[1], b={'x': 2})", "(12345, 1234567, 3)", "(3.14159, s)"])
        elif name == "join":
            args = self.pick(["(['a', 'b'])", "(s)", f"({self.expr(depth - 1)})", "(messages|map(attribute='role'))"])
        elif name == "splitlines":
            args = self.pick(["()", "(true)"])
        else:
            args = "()"
        return f"{target}.{name}{args}"

    def expr(self, depth, tight=False):
        if depth <= 0:
            return self.atom()
        r = self.r.random()
        e = lambda t=False: self.expr(depth - 1, t)
        if r < 0.14:
            out = self.atom()
        elif r < 0.32:
            return f"{e(True)}|{self.filter(depth)}" if not tight else f"({e(True)}|{self.filter(depth)})"
        elif r < 0.40:
            out = f"({e(True)} {self.test(depth)})"
        elif r < 0.52:
            out = f"{e(True)} {self.pick(['+', '-', '*', '/', '//', '%', '~', '~', '+', '**'])} {e(True)}"
        elif r < 0.60:
            out = f"{e(True)} {self.pick(['==', '!=', '<', '>', '<=', '>=', 'in', 'not in'])} {e(True)}"
        elif r < 0.66:
            out = f"{e(True)} {self.pick(['and', 'or'])} {e(True)}"
        elif r < 0.69:
            out = f"not {e(True)}"
        elif r < 0.74:
            out = f"{e()} if {e()}" + (f" else {e()}" if self.r.random() < 0.7 else "")
        elif r < 0.80:
            return f"{e(True)}{self.pick(['.' + self.pick(ATTRS), '[' + e() + ']', '[' + self.string() + ']', '[' + self.pick(['1:', ':-1', '::-1', '::2', '-2:', '1:3', ':', '5:1:-2']) + ']'])}" if not tight else f"({e(True)})[{e()}]"
        elif r < 0.90:
            return self.method(depth)
        elif r < 0.93:
            out = "[" + ", ".join(e() for _ in range(self.r.randrange(4))) + "]"
        elif r < 0.96:
            out = "{" + ", ".join(f"{self.pick([self.string(), self.number(), 'none', 'x'])}: {e()}" for _ in range(self.r.randrange(4))) + "}"
        elif r < 0.98:
            out = f"({e()}, {e()})"
        else:
            out = f"{self.pick(['f0', 'f1', 'loop', 'dict', 'cycler', 'joiner'])}{self.args(depth)}"
        return f"({out})" if tight else out

    def tag(self, body, kind="%"):
        left = self.pick(["", "", "", "-", "+"])
        right = self.pick(["", "", "", "-", "+"])
        if kind == "{":
            return "{{" + left + " " + body + " " + self.pick(["", "", "-"]) + "}}"
        if kind == "#":
            return "{#" + left + " " + body + " " + right + "#}"
        return "{%" + left + " " + body + " " + right + "%}"

    def text(self):
        return self.pick(["", "\n", " ", "  \n", "\n  ", "text", "<|im_start|>", "\t", "a\n\n b", "\n\n", "x\r\ny", "{ x } # % "])

    def body(self, depth):
        return "".join(self.text() + self.statement(depth) for _ in range(self.r.randrange(1, 4))) + self.text()

    def statement(self, depth):
        r = self.r.random()
        if depth <= 0 or r < 0.35:
            return self.tag(self.expr(self.r.randrange(1, 4)), "{")
        e = lambda n=2: self.expr(self.r.randrange(n + 1))
        name = self.pick(["a", "b", "x", "y", "s", "n", "message", "flag"])
        if r < 0.47:
            return self.tag(f"set {self.pick([name, name, 'a, b', 'ns.a', 'ns.b'])} = {e(3)}")
        if r < 0.60:
            parts = self.tag(f"if {e(3)}") + self.body(depth - 1)
            if self.r.random() < 0.3:
                parts += self.tag(f"elif {e()}") + self.body(depth - 1)
            if self.r.random() < 0.5:
                parts += self.tag("else") + self.body(depth - 1)
            return parts + self.tag("endif")
        if r < 0.78:
            target = self.pick(["message", "x", "i", "k, v", "a, b"])
            source = self.pick(["messages", "messages", "[1, 2, 3]", "range(4)", "tools", "messages[0].items()", "'abc'", "messages|reverse", "[[1, 2], [3, 4]]", "missing", e(2), "messages[::-1]", "{'a': 1, 'b': 2}|items"])
            condition = self.pick(["", "", f" if {e(2)}"])
            control = self.pick(["", "", "", "{% if loop.index > 1 %}{% break %}{% endif %}", "{% if loop.first %}{% continue %}{% endif %}"])
            inner = self.pick(["", "{{ loop.index }}/{{ loop.length }}", "{{ loop.last }}{{ loop.revindex }}", "{{ loop.previtem }}{{ loop.nextitem is defined }}", "{{ loop.cycle('o', 'e') }}", "{{ loop.changed(message) }}", "{{ loop.depth }}{{ loop.index0 }}{{ loop.revindex0 }}"])
            other = self.tag("else") + self.body(depth - 1) if self.r.random() < 0.2 else ""
            return self.tag(f"for {target} in {source}{condition}") + inner + control + self.body(depth - 1) + other + self.tag("endfor")
        if r < 0.83:
            params = self.pick(["", "a", "a, b=1", "x, y=s, n=2", "a=missing"])
            return self.tag(f"macro {self.pick(['f0', 'f1'])}({params})") + self.body(depth - 1) + self.pick(["", "{{ varargs }}", "{{ kwargs }}", "{{ caller() if caller }}"]) + self.tag("endmacro")
        if r < 0.86:
            return self.tag(f"set {name}") + self.body(depth - 1) + self.tag("endset")
        if r < 0.88:
            return self.tag(f"set {name} | {self.pick(['upper', 'trim', 'length', 'trim|upper'])}") + self.body(depth - 1) + self.tag("endset")
        if r < 0.90:
            chain = self.pick(["upper", "trim", "indent(2)", "replace('a', 'b')", "trim|title"])
            return self.tag("filter " + chain) + self.body(depth - 1) + self.tag("endfilter")
        if r < 0.92:
            return self.tag(f"with a = {e()}, b = {e()}") + self.body(depth - 1) + self.tag("endwith")
        if r < 0.94:
            return self.tag("generation") + self.body(depth - 1) + self.tag("endgeneration")
        if r < 0.955:
            return self.tag("raw") + self.pick(["{{ x }}", " {% if %} ", "a"]) + self.tag("endraw")
        if r < 0.97:
            return self.tag(f"call{self.pick(['', '(x)'])} {self.pick(['f0', 'f1'])}()") + self.body(depth - 1) + self.tag("endcall")
        if r < 0.985:
            return self.tag(self.pick(["comment", "x {{ y }}", " - "]), "#")
        return self.tag("for n in [[1, [2, [3]]], [4]] recursive") + "{{ n if n is number }}{{ loop(n) if n is iterable }}{{ loop.depth }}" + self.tag("endfor")

    def value(self, depth):
        r = self.r.random()
        if depth <= 0 or r < 0.5:
            return self.pick([None, True, False, 0, 1, -5, 2.5, 1e20, 10**19] + STRINGS)
        if r < 0.75:
            return [self.value(depth - 1) for _ in range(self.r.randrange(4))]
        return {self.pick(["a", "b", "x", "items", "name", "role", "é", "keys"]): self.value(depth - 1) for _ in range(self.r.randrange(4))}

    def context(self):
        messages = []
        for _ in range(self.r.randrange(1, 5)):
            m = {"role": self.pick(["user", "assistant", "system", "tool"]), "content": self.pick(STRINGS)}
            if self.r.random() < 0.2:
                m["content"] = self.pick([None, [{"type": "text", "text": self.pick(STRINGS)}], 5])
            if self.r.random() < 0.2:
                m["tool_calls"] = [{"id": "c1", "type": "function", "function": {"name": "get", "arguments": self.value(2)}}]
            messages.append(m)
        context = {"messages": messages, "tools": self.pick([None, [{"type": "function", "function": {"name": "w", "parameters": {"properties": {"items": self.value(2)}}}}]]),
                   "add_generation_prompt": self.pick([True, False]), "bos_token": "<s>", "s": self.pick(STRINGS), "n": self.pick([0, 1, 3, -2, 2.5]), "flag": self.pick([True, False]), "nothing": None, "deep": self.value(3)}
        for name in ("a", "b", "x"):
            if self.r.random() < 0.6:
                context[name] = self.value(2)
        return context

    def small_case(self):
        return {"source": self.text() + self.statement(self.r.randrange(2)) + self.text(), "context": self.context()}

    def expression_case(self):
        return {"source": "{{ " + self.expr(self.r.randrange(1, 3)) + " }}", "context": self.context()}

    def case(self):
        r = self.r.random()
        if r < 0.75:
            return self.expression_case() if r < 0.4 else self.small_case()
        source = "{% set ns = namespace(a=1) %}" + "".join(self.text() + self.statement(3) for _ in range(self.r.randrange(1, 4))) + self.text()
        if self.r.random() < 0.3:
            source = self.tag("macro f0(a, b=2)") + "[{{ a }}{{ b }}{{ x }}]" + self.tag("endmacro") + source
        return {"source": source, "context": self.context()}


def cases(seed, n):
    return [Maker(f"{seed}/{i}").case() for i in range(n)]
