"""The environment in which Hugging Face renders chat templates (tokenizers.md 16), on PyPI's jinja2."""
import datetime, json, signal, warnings

warnings.simplefilter("ignore", SyntaxWarning)

import jinja2, jinja2.ext, jinja2.nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

CLOCK = datetime.datetime(2024, 7, 26, 13, 4, 5)


class Generation(jinja2.ext.Extension):
    """{% generation %}...{% endgeneration %} renders its body."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(line)

    @staticmethod
    def _support(caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = CLOCK.strftime
    return env


ENV = environment()


class TooLong(BaseException):
    pass


def stop(*_):
    raise TooLong


def render(source, context):
    """{"text"} or {"error"}; {"skipped"} where jinja2 itself, which has no limits, takes too long."""
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(3)
    try:
        text = ENV.from_string(source).render(**context)
        text.encode("utf-8")
        return {"text": text}
    except TooLong:
        return {"skipped": True}
    except RecursionError:
        return {"error": "RecursionError"}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    finally:
        signal.alarm(0)
